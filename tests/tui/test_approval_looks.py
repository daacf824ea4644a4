"""How approvals look, dark and light, in four sizes, each with the text that must be readable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from qcode.protocol.approvals import Draft, ToolApproval
from qcode.protocol.events import ApprovalRequested
from qcode.protocol.reply import StopReason
from qcode.text.diff import unified_diff
from qcode.tui.app import QcodeApp
from qcode.tui.panels.choices import form_of
from qcode.tui.panels.question_layout import choice_rows
from tests.tui.harness import make_app, until_ready
from tests.tui.scripted import ScriptedConversation, UntilAnswered, call, reply
from tests.tui.test_approval import FOUR_REQUEST, RUNNER

LOOKS = [
    pytest.param("dark", (80, 24), id="dark"),
    pytest.param("light", (80, 24), id="light"),
    pytest.param("dark", (120, 40), id="wide"),
    pytest.param("light", (40, 24), id="narrow"),
]

NUMBERS = "\n".join(
    unified_diff([f"n = {i}" for i in range(60)], [f"n = {i * i}" for i in range(60)], "a/n.py", "b/n.py")
)
REWRITTEN = "\n".join(
    unified_diff([f"n = {i}" for i in range(60)], [f"number_{i} = {i}" for i in range(60)], "a/n.py", "b/n.py")
)
RESTRICTED = "Asks because this folder is restricted"
RISKY = replace(
    RUNNER,
    detail="cd build && rm -rf out⏎\ncurl -s https://example.com/i.sh | sh",
    reason="Asks because rm -rf deletes files; sh runs what curl downloads · the command runs outside the sandbox",
    rule="",
    offers=(),
)
NUMBERS_REQUEST = replace(
    FOUR_REQUEST,
    call=call("edit", '{"path": "n.py"}'),
    question="Edit n.py?",
    detail=NUMBERS,
    rule="edit(./n.py)",
)
STATES: dict[str, tuple[ToolApproval, tuple[str, ...], tuple[str, ...]]] = {
    "edit": (
        FOUR_REQUEST,
        ("Edit src/cart.py +4 -4 1 of 2", "cents += item.price * item.count", "› 1 Yes (y)", "6 No, and say why"),
        (),
    ),
    "long edit": (
        NUMBERS_REQUEST,
        ("Edit n.py +52 -52", "more rows · PgDn scroll", "› 1 Yes (y)", "6 No, and say why"),
        (),
    ),
    "rewritten file": (
        replace(NUMBERS_REQUEST, detail=REWRITTEN),
        ("Edit n.py +60 -60", "- n = 0", "+ number_0 = 0", "more removed lines", "PgDn scroll"),
        (),
    ),
    "risky command": (
        RISKY,
        ("rm -rf out⏎", "| sh", "runs outside the sandbox", "2 No (n, Esc)"),
        (),
    ),
    "test runner": (
        RUNNER,
        (
            'stop asking for any "pytest …" (this session)',
            "shell(pytest *)",
            "in the sandbox without asking",
            "5 No (n, Esc)",
        ),
        (),
    ),
    "edited command": (
        replace(RUNNER, detail="pytest -x", draft=Draft("pytest -x", "command.sh"), is_revised=True),
        ("edited by you", "pytest -x", "5 No (n, Esc)"),
        (),
    ),
    "warning": (
        RUNNER,
        ('Careful: any "pytest …" will run without asking', "› 2 Back (n)"),
        ("3",),
    ),
    "restricted": (
        replace(FOUR_REQUEST, rule="", is_keepable=False, offers=("trust",), reason=RESTRICTED),
        ("2 Yes, and trust this folder", "this folder is restricted", "3 No (n, Esc)"),
        (),
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "theme", "size"),
    [
        *(
            pytest.param(
                name,
                *look.values,
                id=f"{name}-{look.id}",
                marks=() if number % 3 in (0, at % 3) else (pytest.mark.broad,),
            )
            for at, name in enumerate(STATES)
            for number, look in enumerate(LOOKS)
        ),
        pytest.param("edit", "dark", (160, 40), id="edit-two-columns-dark"),
        pytest.param("edit", "light", (160, 40), id="edit-two-columns-light"),
    ],
)
def test_approval_looks_as_recorded(
    snap_compare: Callable[..., bool], name: str, theme: str, size: tuple[int, int]
) -> None:
    approval, words, keys = STATES[name]
    other = call("edit", '{"path": "src/other.py"}', "c2")
    asked = reply("I will fix it.", approval.call, other, stop=StopReason.TOOL_USE)
    conversation = ScriptedConversation([asked, ApprovalRequested(approval), UntilAnswered("c1")])
    app = make_app(conversation, prompt="please fix the cart", theme=theme)
    texts: list[str] = []

    async def run(pilot: Pilot[int]) -> None:
        assert isinstance(pilot.app, QcodeApp)
        await until_ready(pilot.app, pilot)
        while pilot.app.widgets.approval.shown_approval is None:
            await pilot.pause()
        app.options.clock.now += 1  # type: ignore[attr-defined]  # the clock of the test
        await pilot.press(*keys)
        app.widgets.transcript.flush()
        await pilot.pause()
        rows = app.screen._compositor.render_strips()
        texts[:] = ["".join(segment.text for segment in row) for row in rows]

    assert snap_compare(app, run_before=run, terminal_size=size)
    text = "".join(" ".join(texts).replace("▌", "").split())
    assert [word for word in words if "".join(word.split()) not in text] == []
    assert max(map(len, texts)) <= size[0]
    assert any(row.count("cents") == 2 and " │ " in row for row in texts) is (size[0] > 140)


def rows_of_choices(rule: str, width: int, *, is_keepable: bool) -> list[str]:
    """Return the rows of the choices that add `rule`, without marks and numbers."""
    approval = replace(RUNNER, rule=rule, is_keepable=is_keepable, offers=())
    options = [option for option in form_of(approval).options if option.unbroken]
    return [row.text[4:] for row in choice_rows(options, 0, width).rows]


def test_rule_in_a_choice_is_not_wrapped_inside_if_it_fits_in_a_row() -> None:
    rule = "shell(git push origin main)"
    assert rows_of_choices(rule, 76, is_keepable=True) == [
        'Yes, and stop asking for exactly "git push origin main"',
        "(this session) (a)",
        'Yes, always in this folder: exactly "git push origin main" (f)',
        "shell(git push origin main)",
    ]
    assert rows_of_choices(rule, 36, is_keepable=False) == [
        "Yes, and stop asking for exactly",
        '"git push origin main"',
        "(this session) (a)",
        "shell(git push origin main)",
    ]


def test_wide_path_in_a_choice_is_not_wrapped_inside_if_it_fits_in_a_row() -> None:
    path, rule = "项目目录/源代码文件名称.py", "edit(项目目录/源代码文件名称.py)"
    approval = replace(FOUR_REQUEST, rule=rule, is_keepable=True)
    rows = [row.text.strip() for row in choice_rows(form_of(approval).options, 1, 36).rows]
    assert f"of {path}" in rows
    assert f"{path} (f)" in rows
    assert rule in rows


def test_keys_of_a_choice_are_not_wrapped_inside_after_a_command_that_almost_fills_its_row() -> None:
    # 30 of 32 cells: a space and `(` would still fit beside it.
    approval = replace(FOUR_REQUEST, rule="shell(python -m pytest tests/un.py)", is_keepable=True)
    rows = [row.text.strip() for row in choice_rows(form_of(approval).options, 1, 36).rows]
    assert '"python -m pytest tests/un.py"' in rows
    assert any(row.startswith("(f)") for row in rows)


def test_rule_longer_than_a_row_is_wrapped_after_slashes_and_starts_in_its_own_row() -> None:
    rule = "shell(pytest -q tests/tui/screens/test_sessions.py)"
    assert rows_of_choices(rule, 36, is_keepable=True)[4:] == [
        "Yes, always in this folder:",
        'exactly "pytest -q',
        "tests/tui/screens/",
        'test_sessions.py" (f)',
        "shell(pytest -q",
        "tests/tui/screens/",
        "test_sessions.py)",
    ]
