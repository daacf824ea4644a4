"""The kinds of sandbox that an attack is tried in, and a Unix socket that records who connects."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from qcode.safety.sandbox.detection import Kind, Sandbox, find_sandbox

KINDS = ("bubblewrap", "landlock", "none")


def sandbox_of(kind: str) -> Sandbox | None:
    """Return the sandbox of a kind, None for `none`; skip the calling test if it does not work here."""
    if kind == "none":
        return None
    expected: Kind = "bubblewrap" if kind == "bubblewrap" else "landlock"
    found = find_sandbox(allows=(expected,))
    if found is None:
        pytest.skip(f"{kind} does not work here")
    return found


@contextmanager
def connections_to(path: Path) -> Iterator[list[int]]:
    """Listen on a Unix socket, and yield a list that gets an item for each connection."""
    accepted: list[int] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        server.settimeout(0.05)
        is_over = threading.Event()

        def serve() -> None:
            while not is_over.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                accepted.append(1)
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield accepted
        finally:
            is_over.set()
            thread.join()
