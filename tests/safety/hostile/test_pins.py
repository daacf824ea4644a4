"""What was trusted in a folder follows a change that the person approved, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qcode.protocol.conversation import ApprovalMode
from qcode.runtime.trust import TrustStore
from tests.safety.hostile.attempts import Attempt
from tests.safety.hostile.ground import Ground, make_ground
from tests.safety.hostile.on_files import patched
from tests.safety.hostile.talk import play

COMMAND = ".qcode/commands/go.toml"


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    ground = make_ground(tmp_path / "ground")
    monkeypatch.setenv("HOME", str(ground.home))
    TrustStore(tmp_path / "state").remember(ground.work)
    return ground


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("edit", {"path": COMMAND, "old_text": '"go"', "new_text": '"stop"'}),
        ("write", {"path": ".qcode/commands/new.toml", "content": 'prompt = "new"\n'}),
        ("apply_patch", patched(f"*** Delete File: {COMMAND}")),
    ],
)
@pytest.mark.parametrize("mode", ["default", "bypass"])
def test_a_change_that_was_shown_and_approved_is_pinned(
    mode: ApprovalMode, tool: str, arguments: dict[str, Any], ground: Ground, tmp_path: Path
) -> None:
    before = ground.photograph()
    calls = [Attempt("reads", "read", {"path": COMMAND}), Attempt("steers later", tool, arguments)]
    played = play(ground, calls, mode, says_yes=lambda asked: True)
    assert len(played.asked) == 1
    assert ground.photograph() != before
    assert TrustStore(tmp_path / "state").is_trusted(ground.work)


@pytest.mark.parametrize("mode", ["default", "bypass"])
def test_a_change_by_a_command_is_asked_about_at_the_next_start(
    mode: ApprovalMode, ground: Ground, tmp_path: Path
) -> None:
    command = f"sed -i s/go/stop/ {COMMAND}"
    play(ground, [Attempt("runs", "shell", {"command": command})], mode, says_yes=lambda asked: True)
    standing = TrustStore(tmp_path / "state").look(ground.work)
    assert [change.name for change in standing.changes] == [COMMAND]
