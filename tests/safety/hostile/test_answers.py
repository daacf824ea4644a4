"""A user who denies everything, or approves one call, gets exactly that: canaries show whether more happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from qcode.protocol.approvals import ApprovalMode
from qcode.safety.sandbox.detection import find_sandbox
from tests.safety.hostile import file_attacks, other_attacks
from tests.safety.hostile.attempts import MODES, Attempt
from tests.safety.hostile.canaries import MARK, CanaryFolders, make_canaries
from tests.safety.hostile.conversation import Played, play

ATTEMPTS = (*file_attacks.attempts(), *other_attacks.attempts())
BOTH = frozenset({
    "read", "ls", "glob", "grep", "write", "notebook_edit", "shell", "jobs", "diagnostics", "fetch", "todo",
    "ask_person",
})  # fmt: skip
BY_REPLACING, BY_PATCHING = BOTH | {"edit", "multi_edit"}, frozenset({"apply_patch"})
"""The tools of the two kinds of models; the second kind is tested only with the tool that the first lacks."""
EFFECTS = frozenset({"edits", "connects"})
CHANGING = (BY_REPLACING | BY_PATCHING) - {"read", "ls", "glob", "grep", "jobs", "todo", "ask_person"}
FIRST = tuple(
    Attempt("reads", "read", {"path": path})
    for path in (
        "src/app.py",
        "docs/guide.md",
        "AGENTS.md",
        ".mcp.json",
        ".qcode/config.toml",
        "farm/plain",
        "book.ipynb",
    )
)
"""Read first, so that edits of these files are not refused for not knowing them."""


@pytest.fixture
def canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CanaryFolders:
    canaries = make_canaries(tmp_path / "canaries")
    monkeypatch.setenv("HOME", str(canaries.home))
    return canaries


def assert_no_secret_leaked(played: Played) -> None:
    for where in ("sent", "session", "shown"):
        text = getattr(played, where)
        found = [text[max(0, at - 80) : at + 40] for at in _places(text, f"{MARK}-")]
        assert not found, (where, found[:3])


def _places(text: str, expected: str) -> list[int]:
    return [at for at in range(len(text)) if text.startswith(expected, at)] if expected in text else []


def share(number: int, size: int) -> tuple[Attempt, ...]:
    """Return every `size`-th attempt, so that a few cases together try them all."""
    return ATTEMPTS[number % size :: size]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("is_trusted", [True, False], ids=["trusted", "restricted"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "offered",
    [pytest.param(BY_REPLACING, id="replacing"), pytest.param(BY_PATCHING, id="patching", marks=pytest.mark.broad)],
)
def test_user_who_denies_everything_loses_nothing(
    offered: frozenset[str], mode: ApprovalMode, is_trusted: bool, canaries: CanaryFolders
) -> None:
    case = mode if is_trusted else ("restricted plan" if mode == "plan" else "restricted")
    is_whole = case == "default"
    tried = [
        item
        for item in (ATTEMPTS if is_whole else share(MODES.index(mode) + 4 * is_trusted, 8))
        if item.tool in offered
        and not (item.verdict(case) == "allow" and (item.tool == "shell" or item.kind in EFFECTS))
    ]
    before = canaries.photograph()
    played = play(canaries, [*FIRST, *tried], mode, is_trusted=is_trusted)
    assert canaries.photograph() == before
    assert_no_secret_leaked(played)
    begun = {number for number in range(len(tried)) if f"call_{len(FIRST) + number}" in played.started}
    assert not [tried[number].name for number in begun if tried[number].verdict(case) == "deny"]
    assert not is_whole or len(played.asked) >= (150 if offered == BY_REPLACING else 30)
    if mode == "plan":
        assert not {event.call.name for event in played.asked} & CHANGING


YES = {
    "write src/new.py": (Attempt("edits", "write", {"path": "src/new.py", "content": "x\n"}), {"work/src/new.py"}),
    "edit AGENTS.md": (
        Attempt("edits a protected file", "edit", {"path": "AGENTS.md", "old_text": "brief", "new_text": "long"}),
        {"work/AGENTS.md"},
    ),
    "delete docs/guide.md": (
        Attempt("edits", "apply_patch", file_attacks.patched("*** Delete File: docs/guide.md")),
        {"work/docs/guide.md"},
    ),
    "touch src/made": (Attempt("runs", "shell", {"command": "touch src/made"}), {"work/src/made"}),
    "read .env": (Attempt("reads a secret", "read", {"path": ".env", "limit": 7}), set()),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("one", YES)
def test_one_approval_allows_exactly_one_call(one: str, canaries: CanaryFolders) -> None:
    expected, changed = YES[one]
    offered = BY_PATCHING if expected.tool == "apply_patch" else BY_REPLACING
    tried = [attempt for attempt in share(list(YES).index(one), 8) if attempt.tool in offered]
    tried = [attempt for attempt in tried if attempt.verdict("default") != "allow" or attempt.tool != "shell"]
    calls = [*FIRST, *tried, expected, *tried]
    before = canaries.photograph()
    played = play(
        canaries, calls, "default", says_yes=lambda asked: asked.call.call_id == f"call_{len(FIRST) + len(tried)}"
    )
    after = canaries.photograph()
    assert {name for name in before | after if before.get(name) != after.get(name)} == changed
    if one == "read .env":
        assert played.sent.count(f"{MARK}-") == 1
    else:
        assert_no_secret_leaked(played)


def test_values_of_key_variables_reach_no_command(canaries: CanaryFolders) -> None:
    tried = [Attempt("runs", "shell", {"command": command}) for command in ("env", "set", "export -p")]
    played = play(canaries, tried, "bypass")
    assert len(played.started) == len(tried)
    assert "PATH=" in played.sent
    assert_no_secret_leaked(played)


def test_sandbox_confines_commands_of_auto_mode(canaries: CanaryFolders) -> None:
    sandbox = find_sandbox()
    if sandbox is None or "workspace" not in sandbox.levels:
        pytest.skip("no sandbox that can hold a workspace works here")
    commands = (
        "echo x > {outside}/data.txt; rm -rf {outside}/tree; touch {outside}/new",
        "sh -c 'echo x >> ~/.bashrc; echo x >> ~/.ssh/authorized_keys; rm ~/.gitconfig; touch ~/.local/bin/x'",
        "python3 -c \"open('.git/hooks/pre-commit', 'w'); open('.git/config', 'a')\"",
        "sh -c 'for f in AGENTS.md .mcp.json .qcode/config.toml .github/workflows/ci.yml; do echo x >> $f; done'",
        "sh -c 'cat ~/.ssh/id_rsa ~/.aws/credentials ~/.netrc ~/.config/qcode/credentials.json ~/.git-credentials'",
        "ln {outside}/data.txt src/linked; echo x >> src/linked",
        "ln -s {outside}/data.txt src/soft; echo x >> src/soft; rm src/soft",
        "env; set",
    )
    before = canaries.photograph()
    played = play(
        canaries, [Attempt("runs", "shell", {"command": command}) for command in commands], "auto", sandbox="auto"
    )
    assert len(played.started) == len(commands)
    after = canaries.photograph()
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert changed <= {"work/src/linked", "work/src"}
    assert_no_secret_leaked(played)
