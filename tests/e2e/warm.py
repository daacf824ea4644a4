"""Runs qcode in a separate process without loading it again: a warm interpreter forks for each run.

Unlike a new interpreter, a fork loads no modules, and destroys none at its end. In pipe mode its demo model has no
pauses. The process, its streams or terminal, folder, environment and exit code are real. `tests/e2e/test_warm.py`
compares forks with new interpreters; tests of the start itself use a new interpreter.

All workers of a test run share one warm interpreter. The first that needs it starts it, the others connect, and it ends
after the last connection.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import fcntl
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Self

from qcode.text.pattern import lazy_pattern
from tests.fakes.certificates import skip_public_certificates
from tests.fakes.demo import skip_demo_pauses
from tests.fakes.disk import skip_fsync

ROOT = Path(__file__).parents[2]
_MAX_BYTES = 2**20
_RUN_ON_IMPORT = ("qcode.__main__",)
_APP_MODULES = ("qcode.tui", "qcode.cli.app")
_LOADED_BY_THE_APP = (
    "textual.drivers.linux_driver",
    "textual.pilot",
    "textual.scrollbar",
    "rich._unicode_data.unicode17-0-0",
)
_LOADED_LATE = (
    "platformdirs",
    "encodings.idna",
    "concurrent.futures.thread",
    "httptools",
    "jsonschema",
    "pathspec",
    "markdown_it",
    "httpx2",
    "anyio._backends._asyncio",
    "keyring.backends.fail",
)
"""Modules of other packages that a run loads late. `tests/arch/test_start_up.py` checks the modules of a real start."""
_PATTERN_METHODS = ("match", "fullmatch", "search", "finditer", "findall", "split", "sub", "subn")


class Warm:
    """The interpreter that forks. With `has_app` it has also loaded the app, and its runs have a terminal."""

    def __init__(self, has_app: bool = False) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self._socket = self._connected("app" if has_app else "pipe")
        self._unread = b""
        self._ended: dict[int, int] = {}
        atexit.register(self._end)

    def _connected(self, kind: str) -> socket.socket:
        """Return a connection to the interpreter of this test run, which is started if there is none."""
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
        path = Path(tempfile.gettempdir()) / f"qcode-warm-{run[:12]}-{kind}"
        connection = socket.socket(socket.AF_UNIX)
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                connection.connect(str(path))
                return connection
            path.unlink(missing_ok=True)
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(str(path))
                listening.listen()
                self._server = subprocess.Popen(
                    [sys.executable, "-m", "tests.e2e.warm", str(listening.fileno()), kind],
                    cwd=ROOT,
                    env=machine_variables(),
                    pass_fds=(listening.fileno(),),
                    stdin=subprocess.DEVNULL,
                )
            connection.connect(str(path))
        return connection

    def _end(self) -> None:
        self._socket.close()
        if self._server is not None and "PYTEST_XDIST_TESTRUNUID" not in os.environ:
            self._server.wait()

    def start(self, request: bytes, descriptors: Sequence[int]) -> int:
        """Start a run with these standard streams, close them in this process, and return the process id of the run."""
        socket.send_fds(self._socket, [request], list(descriptors))
        for descriptor in descriptors:
            os.close(descriptor)
        while (started := self._read()) is None:
            pass
        return started

    def wait(self, pid: int, timeout_s: float | None = None) -> int:
        """Wait for the end of a run, and return its exit code, minus n if signal n ended it.

        Raises:
            TimeoutError: The run did not end in `timeout_s`.
        """
        while pid not in self._ended:
            self._read(timeout_s)
        return self._ended.pop(pid)

    def _read(self, timeout_s: float | None = None) -> int | None:
        """Read a line of the server: return the process id of a new run, or store the exit code of an ended one."""
        while b"\n" not in self._unread:
            if not select.select([self._socket], [], [], timeout_s)[0]:
                raise TimeoutError
            received = self._socket.recv(4096)
            assert received, "the warm interpreter has ended"
            self._unread += received
        line, _, self._unread = self._unread.partition(b"\n")
        kind, *numbers = line.split()
        if kind == b"started":
            return int(numbers[0])
        self._ended[int(numbers[0])] = int(numbers[1])
        return None

    def run(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: bytes | None, timeout: float
    ) -> tuple[int, bytes, bytes]:
        """Run qcode; return its exit code (minus n if signal n ended it), standard output and standard error.

        After `timeout` seconds kill the run and raise `subprocess.TimeoutExpired`.
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
            code = self.wait(pid)
        finally:
            alarm.cancel()
        if late.is_set():
            raise subprocess.TimeoutExpired(["qcode", *arguments], timeout, out, err)
        return code, out, err


class Forked:
    """A run whose standard input and output are pipes, with the interface of `subprocess.Popen`.

    It is killed at the end of a `with` block. `standard_error` is an open file, which the caller closes.
    """

    def __init__(self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], standard_error: IO[bytes]) -> None:
        request = json.dumps({"arguments": arguments, "cwd": str(cwd), "env": dict(env)}) + "\n"
        read_end, write_end = os.pipe()
        ours, theirs = os.pipe()
        self.pid = warm().start(request.encode(), [read_end, theirs, os.dup(standard_error.fileno())])
        self.stdin: IO[bytes] = os.fdopen(write_end, "wb")
        self.stdout: IO[bytes] = os.fdopen(ours, "rb")
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code. Raise `TimeoutError` if the run does not end in `timeout` seconds."""
        if self.returncode is None:
            self.returncode = warm().wait(self.pid, timeout)
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        self.wait()


@functools.cache
def warm(has_app: bool = False) -> Warm:
    """Return the connection of this test process to a warm interpreter."""
    return Warm(has_app)


def machine_variables() -> dict[str, str]:
    """Return the environment variables that a run gets from the machine."""
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


def _load(has_app: bool) -> None:
    import qcode

    left_out = _RUN_ON_IMPORT if has_app else _RUN_ON_IMPORT + _APP_MODULES
    for module in pkgutil.walk_packages(qcode.__path__, "qcode."):
        if not any(module.name == name or module.name.startswith(f"{name}.") for name in left_out):
            importlib.import_module(module.name)
    for name in _LOADED_LATE + (_LOADED_BY_THE_APP if has_app else ()):
        importlib.import_module(name)
    _compile_initializers()
    _compile_patterns()
    # On a busy machine, importing an SDK may take longer than the product waits for the names of models.
    sys.modules["qcode.agent.models.client"].ASK_TIMEOUT_S = 60.0  # type: ignore[attr-defined]
    if not has_app:
        skip_demo_pauses().__enter__()
    skip_fsync().__enter__()
    skip_public_certificates().__enter__()
    # A garbage collection in a child would copy all of this memory.
    gc.collect()
    gc.freeze()


def _compile_initializers() -> None:
    """Call each value class once: even a failing call compiles its `__init__`, as `qcode.values` explains.

    Otherwise each run would compile a hundred of them, which takes as long as the other work of a short run.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("qcode."):
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == name and dataclasses.is_dataclass(value):
                    with contextlib.suppress(TypeError):
                        value()


def _compile_patterns() -> None:
    """Compile all lazy patterns, which a run would do at the first use of each."""
    kind = type(lazy_pattern(""))
    for pattern in gc.get_objects():
        if type(pattern) is kind:
            for method in _PATTERN_METHODS:
                getattr(pattern, method)


def _serve(listening: socket.socket) -> None:
    """Fork for each request until the last connection is closed. Return only in a child, which then runs qcode."""
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    connections: list[socket.socket] = []
    runs: dict[int, socket.socket] = {}
    has_served = False
    while True:
        sources: list[socket.socket | int] = [listening, woken, *connections]
        ready, _, _ = select.select(sources, [], [], 0 if has_served and not connections else None)
        if not ready:
            _remove_files(listening.getsockname())
            sys.exit()
        if woken in ready:
            os.read(woken, 512)
            _report_ended(runs)
        if listening in ready:
            connections.append(listening.accept()[0])
            has_served = True
        for connection in [item for item in connections if item in ready]:
            data, descriptors, _, _ = socket.recv_fds(connection, _MAX_BYTES, 3)
            if not data:
                connections.remove(connection)
                connection.close()
                continue
            while not data.endswith(b"\n"):
                data += connection.recv(_MAX_BYTES)
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for descriptor in (woken, waker, *(item.detach() for item in (listening, *connections))):
                    os.close(descriptor)
                _become(json.loads(data), descriptors)
                return
            for descriptor in descriptors:
                os.close(descriptor)
            runs[pid] = connection
            connection.sendall(b"started %d\n" % pid)


def _report_ended(runs: dict[int, socket.socket]) -> None:
    """Send the exit code of each ended run to the connection that requested it, unless that is closed."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            with contextlib.suppress(OSError):
                runs.pop(ended[0]).sendall(b"ended %d %d\n" % (ended[0], os.waitstatus_to_exitcode(ended[1])))


def _remove_files(path: str) -> None:
    for file in (Path(path), Path(path).with_suffix(".lock")):
        file.unlink(missing_ok=True)


def _become(request: dict[str, object], descriptors: Sequence[int]) -> None:
    """Take over the streams, folder, environment and arguments that a new interpreter would get."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request.get("has_terminal"):
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
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
    """Exit without destroying the modules, which takes ten times as long as a short run.

    Return if the interpreter must exit itself, because it has an error to report.
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
    _load(has_app=sys.argv[2] == "app")
    _serve(socket.socket(fileno=int(sys.argv[1])))
    try:
        runpy.run_module("qcode", run_name="__main__", alter_sys=True)
    except SystemExit as leaving:
        _exit(leaving.code)
        raise
