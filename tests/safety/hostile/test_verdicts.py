"""Every attack gets the verdict of its class in every mode, trusted or restricted, with and without a sandbox."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from qcode.safety.sandbox.index import WorkspaceIndex
from tests.fakes.tools import spec_of
from tests.safety.hostile import file_attacks, other_attacks
from tests.safety.hostile.attempts import CLASSES, MODES, SANDBOXED
from tests.safety.hostile.canaries import CanaryFolders, filled, make_canaries
from tests.safety.policies import CLEAN, LANDLOCK

ATTEMPTS = (*file_attacks.attempts(), *other_attacks.attempts())


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> CanaryFolders:
    return make_canaries(tmp_path_factory.mktemp("hostile"))


def policies(canaries: CanaryFolders) -> dict[str, Policy]:
    """Return a policy for each mode and for each way a folder can be restricted; nothing is ruled."""
    own = (canaries.home / ".config/qcode", canaries.home / ".local/state/qcode")
    seen = replace(CLEAN, contents=WorkspaceIndex((str(canaries.work),)).refresh)
    plain = Policy(
        "default",
        Rules.of(),
        True,
        canaries.work,
        home=canaries.home,
        qcode_folders=own,
        probes=replace(seen, sandbox=lambda: LANDLOCK),
    )
    found = {str(mode): plain.with_mode(mode) for mode in MODES}
    found[SANDBOXED] = replace(plain.with_mode("auto"), probes=seen)
    found["restricted"] = replace(plain, mode="bypass", is_trusted=False)
    found["restricted plan"] = replace(plain, mode="plan", is_trusted=False)
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", CLASSES)
def test_every_attack_of_a_class_gets_its_verdict(
    kind: str, canaries: CanaryFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(canaries.home))
    judges = policies(canaries)
    wrong = []
    for attempt in ATTEMPTS:
        if attempt.kind != kind:
            continue
        arguments = filled(attempt.arguments, canaries)
        for mode, policy in judges.items():
            verdict = policy.judge(spec_of(attempt.tool), arguments)
            if verdict.verdict != attempt.verdict(mode):
                wrong.append((attempt.name, mode, verdict.verdict, attempt.verdict(mode), verdict.decided_by))
    assert not wrong, "\n".join(map(str, wrong))


def test_attacks_cover_every_class_and_every_tool() -> None:
    assert {attempt.kind for attempt in ATTEMPTS} == set(CLASSES)
    tools = {attempt.tool for attempt in ATTEMPTS}
    assert tools >= {
        "read", "ls", "glob", "grep", "write", "edit", "multi_edit", "notebook_edit", "apply_patch", "shell", "jobs",
        "diagnostics", "fetch", "todo", "ask_person",
    }  # fmt: skip
    assert any("__" in tool for tool in tools)
    assert len(ATTEMPTS) >= 200
