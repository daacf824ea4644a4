"""Runs qcode in a separate process without loading it again: a warm interpreter forks for each run.

Unlike a start, a fork loads nothing, destroys no modules at its end, and has a demo model without pauses. The process,
its streams, folder, environment and exit code are real. `tests/e2e/test_warm.py` compares both ways; tests of the
start itself start a new interpreter.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.fakes.demo import hurry

ROOT = Path(__file__).parents[2]
_MAX_BYTES = 2**20
_NEVER_FIRST = ("qcode.__main__", "qcode.tui", "qcode.cli.app")
"""Modules that run on import, and the app, which no run here opens."""
_LOADED_LATE = (
    "platformdirs",
    "encodings.idna",
    "concurrent.futures.thread",
    "httptools",
    "jsonschema",
    "openai",
    "anthropic",
    "google.genai",
)
"""Other modules that runs load. `tests/arch/test_start_up.py` checks the modules of a real start."""


class Warm:
    """The interpreter that forks. One run at a time."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.warm", str(theirs.fileno())],
            cwd=ROOT,
            env=of_the_machine(),
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        self._answers = self._socket.makefile("r")
        atexit.register(self._end)

    def _end(self) -> None:
        self._answers.close()
        self._socket.close()
        self._server.wait()

    def start(self, request: bytes, descriptors: Sequence[int]) -> int:
        """Start a run with these standard streams, which are closed here, and return its process id."""
        socket.send_fds(self._socket, [request], list(descriptors))
        for descriptor in descriptors:
            os.close(descriptor)
        return int(self._answers.readline())

    def wait(self) -> int:
        """Return the exit code of the run that was started, minus n if signal n ended it."""
        return int(self._answers.readline())

    def run(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: bytes | None, timeout: float
    ) -> tuple[int, bytes, bytes]:
        """Return exit code (minus n if signal n ended it), standard output and standard error, as a start would.

        After `timeout` seconds the run is killed and a `subprocess.TimeoutExpired` is raised.
        """
        request = json.dumps({"arguments": arguments, "cwd": str(cwd), "env": dict(env)}) + "\n"
        given = os.open(os.devnull, os.O_RDONLY) if stdin is None else None
        read_end, write_end = (given, None) if given is not None else os.pipe()
        assert read_end is not None
        outputs = [os.pipe(), os.pipe()]
        pid = self.start(request.encode(), [read_end, *(inside for _, inside in outputs)])
        late = threading.Event()

        def kill() -> None:
            late.set()
            os.kill(pid, signal.SIGKILL)

        alarm = threading.Timer(timeout, kill)
        alarm.start()
        try:
            out, err = _exchanged([outside for outside, _ in outputs], write_end, stdin or b"")
            code = self.wait()
        finally:
            alarm.cancel()
        if late.is_set():
            raise subprocess.TimeoutExpired(["qcode", *arguments], timeout, out, err)
        return code, out, err


@functools.cache
def warm() -> Warm:
    """Return the interpreter of this test process; it ends when the test process does."""
    return Warm()


def of_the_machine() -> dict[str, str]:
    """Return the variables of the machine that a run gets."""
    return {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}


def _exchanged(readable: list[int], writable: int | None, given: bytes) -> tuple[bytes, bytes]:
    found: dict[int, bytes] = {}

    def read(descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as stream:
            found[descriptor] = stream.read()

    readers = [threading.Thread(target=read, args=(descriptor,)) for descriptor in readable]
    for reader in readers:
        reader.start()
    if writable is not None:
        try:
            with os.fdopen(writable, "wb") as stream:
                stream.write(given)
        except BrokenPipeError:
            pass  # the run may end without reading
    for reader in readers:
        reader.join()
    return found[readable[0]], found[readable[1]]


def _load() -> None:
    import qcode

    for module in pkgutil.walk_packages(qcode.__path__, "qcode."):
        if not any(module.name == name or module.name.startswith(f"{name}.") for name in _NEVER_FIRST):
            importlib.import_module(module.name)
    for name in _LOADED_LATE:
        importlib.import_module(name)
    hurry().__enter__()
    # A child that looked for garbage here would copy all of it.
    gc.collect()
    gc.freeze()


def _serve(requests: socket.socket) -> None:
    """Fork for each request until the socket is closed. Return only in a child, which then runs qcode."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, _MAX_BYTES, 3)
        if not data:
            sys.exit()
        while not data.endswith(b"\n"):
            data += requests.recv(_MAX_BYTES)
        pid = os.fork()
        if not pid:
            requests.close()
            _become(json.loads(data), descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        requests.sendall(b"%d\n" % pid)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        requests.sendall(b"%d\n" % code)


def _become(request: dict[str, object], descriptors: Sequence[int]) -> None:
    """Take on streams, folder, environment and arguments, as a new interpreter would have them."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = os.fdopen(0, encoding=sys.stdin.encoding, errors=sys.stdin.errors, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors, closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding=sys.stderr.encoding, errors=sys.stderr.errors, closefd=False)
    cwd, env, arguments = request["cwd"], request["env"], request["arguments"]
    assert isinstance(cwd, str) and isinstance(env, dict) and isinstance(arguments, list)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = [sys.argv[0], *arguments]
    sys.path[0] = cwd


def _exit(code: object) -> None:
    """End as the interpreter does, but without destroying its modules, which takes ten times as long as a short run.

    Return if the interpreter has to do it, because it reports something.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads; runs the exit functions of executors
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError, AttributeError):
        return
    if code is None or isinstance(code, int):
        os._exit(code or 0)


if __name__ == "__main__":
    _load()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    try:
        runpy.run_module("qcode", run_name="__main__", alter_sys=True)
    except SystemExit as leaving:
        _exit(leaving.code)
        raise
