"""Starts the server of `sdk_tool_server` without importing the `mcp` package again: a warm interpreter forks.

The program that qcode starts connects to that interpreter, which forks with the streams, folder and environment of the
program. The program exits with the exit code of the fork, and the fork ends if the program is killed. This takes a
tenth of the processor time of a new interpreter, which `tests/e2e/test_tool_servers.py` starts.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import NoReturn

_MAX_BYTES = 2**20
_sockets: list[str] = []


def command() -> tuple[str, ...]:
    """Return the command of a tool server that is a fork of an interpreter of this test process."""
    if not _sockets:
        _sockets.append(_start_interpreter())
    return (sys.executable, "-I", "-S", __file__, *_sockets)


def _start_interpreter() -> str:
    """Start the interpreter that forks, until this process ends, and return the path of its socket."""
    import atexit
    import subprocess
    import tempfile
    from pathlib import Path

    folder = tempfile.TemporaryDirectory(prefix="qcode-warm-")
    path = str(Path(folder.name) / "socket")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        number = listening.fileno()
        interpreter = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.fakes.warm_tool_server", "--fork", str(number)],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            pass_fds=(number,),
        )
    atexit.register(folder.cleanup)
    atexit.register(interpreter.communicate)  # closes its input, which ends it
    return path


def _request(path: str) -> NoReturn:
    """Request a fork with the streams of this program, and exit with the exit code of the fork."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        request = json.dumps({"cwd": os.getcwd(), "env": dict(os.environ)})  # noqa: PTH109  # pathlib loads slowly
        socket.send_fds(connection, [f"{request}\n".encode()], [0, 1, 2])
        os.closerange(0, 3)  # so that only the fork holds the streams: qcode then notices its end
        os._exit(int(connection.recv(16) or b"1"))


def _serve(listening: socket.socket) -> None:
    """Fork for each connection until standard input ends. Return only in a child, which is then the server."""
    import select
    import signal

    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    clients: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([0, woken, listening.fileno()], [], [])
        if woken in ready:
            os.read(woken, 512)
            _report_ended(clients)
        if 0 in ready:
            for pid in clients:
                os.kill(pid, signal.SIGKILL)
            sys.exit()
        if listening.fileno() not in ready:
            continue
        client, _ = listening.accept()
        data, descriptors, _, _ = socket.recv_fds(client, _MAX_BYTES, 3)
        while not data.endswith(b"\n"):
            data += client.recv(_MAX_BYTES)
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for other in (listening, *clients.values()):
                other.close()
            _become(json.loads(data), descriptors, client)
            return
        clients[pid] = client
        for descriptor in descriptors:
            os.close(descriptor)


def _report_ended(clients: dict[int, socket.socket]) -> None:
    """Send the exit code of each child that has ended to its client."""
    import contextlib

    while clients and (ended := os.waitpid(-1, os.WNOHANG))[0]:
        with clients.pop(ended[0]) as client:
            code = os.waitstatus_to_exitcode(ended[1])
            with contextlib.suppress(BrokenPipeError):  # it was killed
                client.sendall(b"%d" % (code if code >= 0 else 128 - code))


def _become(request: dict[str, object], descriptors: list[int], client: socket.socket) -> None:
    """Take on the streams, folder and environment of the client, and end with it."""
    import signal
    import threading

    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    assert isinstance(request["env"], dict)
    os.environ.update(request["env"])

    def end_with_client() -> None:
        client.recv(1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=end_with_client, daemon=True).start()


def _main() -> None:
    import anyio._backends._asyncio  # noqa: F401  # loads late otherwise

    from tests.fakes import sdk_tool_server

    server = sdk_tool_server.build()
    _serve(socket.socket(fileno=int(sys.argv[2])))
    sdk_tool_server.run(server)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # without destroying the modules


if __name__ == "__main__":
    if sys.argv[1] == "--fork":
        _main()
    else:
        _request(sys.argv[1])
