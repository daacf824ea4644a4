"""Every message to a server is valid: the types of the protocol (`lsprotocol`) accept it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.agent.after_edit.editing import DONE, READ, Editing, edit, fake_server, write


def test_every_message_to_a_server_is_valid(tmp_path: Path) -> None:
    from lsprotocol import converters, types  # takes 0.3 s, which each worker would need to collect

    replies = READ, edit("x", "y"), edit("y", "error: z"), write("a\n", "b.fake"), DONE
    seen = set()
    for number, options in enumerate(((), ("pull",), ("asks",))):
        base = tmp_path / str(number)
        editing = Editing(base, *replies, server=fake_server(*options, f"log={tmp_path}/log"))
        (editing.work / "a.fake").write_text("x\n")
        editing.run()
    converter = converters.get_converter()
    for line in (tmp_path / "log").read_text().splitlines():
        message = json.loads(line)
        method = message.get("method")
        if method is None:
            assert "id" in message
            assert ("result" in message) != ("error" in message)
            continue
        request, _, params, _ = types.METHOD_TO_TYPES[method]
        converter.structure(message, request)
        assert params is not None or method in ("shutdown", "exit")
        seen.add(method)
    assert seen >= {"initialize", "initialized", "textDocument/didOpen", "textDocument/didChange"}
    assert seen >= {"workspace/didChangeWatchedFiles", "textDocument/diagnostic", "textDocument/didClose"}
