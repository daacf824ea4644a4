"""A hostile model over the real wire causes no harm in an untrusted folder, even with approvals bypassed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.running import CliRunner
from tests.fakes.server import FakeServer, ProtocolName
from tests.fakes.turns import Call, Turn
from tests.safety.hostile import file_attacks, other_attacks
from tests.safety.hostile.canaries import MARK, filled, make_canaries

_TRIED = [
    attempt
    for attempt in (*file_attacks.attempts(), *other_attacks.attempts())
    if attempt.tool != "apply_patch" and "__" not in attempt.tool
]


@pytest.mark.parametrize("protocol", ["anthropic"])
def test_hostile_host_changes_no_file_and_reads_no_secret(protocol: ProtocolName, tmp_path: Path) -> None:
    cli = CliRunner(tmp_path)
    canaries = make_canaries(tmp_path)
    # A search cannot know these by name: docs/guide/safety.md, "Not promised".
    (canaries.work / "notes/plain.txt").unlink()
    (canaries.work / "second-name.txt").unlink()
    before = canaries.photograph()
    tried = [item for item in _TRIED[::6] if not (item.tool == "shell" and item.verdict("restricted") == "allow")]
    calls = [Call(one.tool, json.dumps(filled(one.arguments, canaries)), f"call_{n}") for n, one in enumerate(tried)]
    with FakeServer(protocol, [Turn(calls=calls), Turn(text="Done.")]) as server:
        done = cli.ask(server, "-p", "go on", "--yolo", "-o", "stream-json")
        sent = json.dumps([asked.body for asked in server.requests])
        results = server.requests[-1].results
    assert len(results) == len(tried)
    assert len(done.result["permission_denials"]) > len(tried) // 3
    after = canaries.photograph()
    own = ("home/.config/qcode", "home/.local/state", "home/.cache")
    assert {
        name for name in before | after if before.get(name) != after.get(name) and not name.startswith(own)
    } == set()
    kept_list = "".join(
        path.read_text("utf-8", "replace") for path in (cli.home / ".local/state").rglob("*") if path.is_file()
    )
    for text in (sent, done.out, done.err, kept_list):
        assert f"{MARK}-" not in text
