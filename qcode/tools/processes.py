"""Programs run by tools: each in a separate process group, with a filtered environment.

`command_environment` decides which variables a program gets. `run_program` ends a program and all processes that it
started: at its time limit, when cancelled, and at its exit. `find_program` searches PATH. `HelperProcess` runs a small
program of qcode (`scanner`, `html_program`, `pdf_program`) on input that may take forever to process. Unlike a thread,
a process can be killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from qcode.protocol.tools import DEFAULT_PATH, Launch, Refused, command_path
from qcode.text.numbers import exit_text
from qcode.text.pattern import lazy_pattern
from qcode.tools.workspace import Workspace
from qcode.values import ValueT, dataclass

_PASSED_VARIABLES = frozenset(
    {
        "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "HOSTNAME", "COLUMNS", "LINES",
        "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME",
        "XDG_STATE_HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "NVM_DIR", "NODE_ENV",
        "RBENV_ROOT", "GEM_HOME", "JAVA_HOME", "MAVEN_HOME", "GRADLE_USER_HOME", "GOPATH", "GOROOT", "CARGO_HOME",
        "RUSTUP_HOME", "DOTNET_ROOT", "ANDROID_HOME", "HOMEBREW_PREFIX", "SSL_CERT_FILE", "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE", "CI", "QCODE_HOME",
    }
)  # fmt: skip
_PROXIES = frozenset({"http_proxy", "https_proxy", "no_proxy", "all_proxy"})
_LOCALE = lazy_pattern(r"LC_[A-Z]+")
# A variable with a locale that is not UTF-8: `LANG=ja_JP.SJIS`, but not `LANG=C`.
_OTHER_ENCODING = lazy_pattern(r"(?i)(LC_ALL|LC_CTYPE|LANG)=(?!(C|POSIX|.*\.utf-?8(@.*)?)?$).*")
_TERM_GRACE_S = 0.1
"""The time between SIGTERM and SIGKILL."""
_POLL_INTERVAL_S = 0.01
"""The pause between two checks whether a process group has ended."""
_OUTPUT_GRACE_S = 0.1
"""The time for the output to end after the program has exited; another process may still have it open."""
_EXIT_GRACE_S = 0.1
"""The time for the other processes of a group to exit after the program."""
_LAST_OUTPUT_S = 1.0
"""The time limit for the last output, and for a killed process to exit."""
_CHUNK_BYTES = 65_536
MINIMAL_ENVIRONMENT = {"PATH": DEFAULT_PATH, "LANG": "C.UTF-8"}
"""The environment of qcode's own helper programs."""
DEPTH_VARIABLE = "QCODE_DEPTH"
"""The number of qcode processes above a process. A program that qcode starts gets a number one higher."""

_FIXED_VARIABLES = {
    **dict.fromkeys(("PAGER", "MANPAGER", "GIT_PAGER"), "cat"),
    "TERM": "dumb",
    "GIT_TERMINAL_PROMPT": "0",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}


def command_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a shell command: the harmless variables of `environment`, with pagers turned off.

    PATH is that of `command_path`. A proxy with a password is omitted. `DEPTH_VARIABLE` is one higher. Locales of
    other encodings become `C.UTF-8`, like the text of commands: in `ja_JP.SJIS`, bash reads `ă\\` as two letters.
    """
    passed: dict[str, str] = {}
    for name, value in environment.items():
        is_proxy = name.lower() in _PROXIES and "@" not in value
        if is_proxy or name in _PASSED_VARIABLES or _LOCALE.fullmatch(name):
            passed[name] = value
    if sys.getfilesystemencoding() == "utf-8":
        passed |= {name: "C.UTF-8" for name, value in passed.items() if _OTHER_ENCODING.fullmatch(f"{name}={value}")}
    depth = environment.get(DEPTH_VARIABLE, "")
    is_depth = depth.isdecimal() and len(depth) < 4  # the variable may contain any text
    child_depth = str(int(depth) + 1) if is_depth else "1"
    return {**passed, **_FIXED_VARIABLES, DEPTH_VARIABLE: child_depth, "PATH": command_path(environment)}


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """The end of a program."""

    exit_code: int
    """Negative if a signal ended the program."""
    is_timed_out: bool = False
    """qcode ended the program at its time limit."""
    had_background_processes: bool = False
    """Other processes of the program still ran after its exit, and qcode ended them."""


class TimeLimit:
    """The time limit of a program in seconds, which can be changed while the program runs."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timeout: asyncio.Timeout | None = None

    def restart(self, seconds: float) -> None:
        """Let the program run for `seconds` from now."""
        self._seconds = seconds
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + seconds)

    async def wait(self, process: Process) -> int:
        """Return the exit code of the program. Raise `TimeoutError` at the time limit."""
        async with asyncio.timeout(self._seconds) as self._timeout:
            return await process.wait()


class Process:
    """A started program."""

    def __init__(self, pid: int, exit_code: asyncio.Future[int]) -> None:
        self.pid = pid
        self._exit_code = exit_code

    async def wait(self) -> int:
        """Return the exit code, negative if a signal ended the program."""
        return await asyncio.shield(self._exit_code)


async def start_program(
    launch: Launch,
    *,
    cwd: Path,
    environment: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
    stdout: int,
    stderr: int = subprocess.STDOUT,
) -> Process:
    """Start a program in a new session. `stdin`, `stdout` and `stderr` are file descriptors, or as in `subprocess`.

    A separate thread starts the program and waits for it. `launch.restrict` restricts the thread, so it applies to this
    program only. bwrap asks the kernel to kill the program when the thread ends, so the thread must end last. Raise
    `OSError` if the program cannot start.
    """
    loop = asyncio.get_running_loop()
    started: asyncio.Future[int] = loop.create_future()
    exit_code: asyncio.Future[int] = loop.create_future()

    def run() -> None:
        process: subprocess.Popen[bytes] | None = None
        failure = OSError(errno.EINVAL, "it could not be started")
        try:
            with _garbage_pause.active():
                process = popen(launch, cwd, environment, StandardStreams(stdin, stdout, stderr))
        except OSError as error:
            failure = error
        except (ValueError, RuntimeError, subprocess.SubprocessError) as error:
            failure = OSError(errno.EINVAL, str(error))
        finally:
            # After a failure nothing runs, so the caller must not keep waiting.
            if process is None:
                _set_result(loop, started.set_exception, failure)
        if process is None:
            return
        _set_result(loop, started.set_result, process.pid)
        code = process.wait()
        with _garbage_pause.active():
            _set_result(loop, exit_code.set_result, code)

    try:
        threading.Thread(target=run, name="qcode-program", daemon=True).start()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, str(error)) from None
    return await _wait_for_start(started, exit_code)


async def _wait_for_start(started: asyncio.Future[int], exit_code: asyncio.Future[int]) -> Process:
    """Return the program once it has started. If cancelled before that, end it."""
    try:
        return Process(await asyncio.shield(started), exit_code)
    except asyncio.CancelledError:
        # Starting takes milliseconds; the program must not keep running after a cancelled start.
        started.add_done_callback(_kill_started)
        await asyncio.wait([started])
        if started.exception() is None:
            await end_program(Process(started.result(), exit_code))
        raise


class _GarbageCollectionPause:
    """A pause of the garbage collector, for several threads at once.

    In a restricted thread, the collector would also run finalizers of other objects under the restrictions. For
    example, a finalizer could not remove its temporary folder.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pauses = 0
        self._was_enabled = False

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        with self._lock:
            if self._pauses == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._pauses += 1
        try:
            yield
        finally:
            with self._lock:
                self._pauses -= 1
                if self._pauses == 0 and self._was_enabled:
                    gc.enable()


_garbage_pause = _GarbageCollectionPause()


def _kill_started(started: asyncio.Future[int]) -> None:
    if not started.cancelled() and started.exception() is None:
        _signal(started.result(), signal.SIGKILL)


class StandardStreams(NamedTuple):
    """The standard streams of a program, as file descriptors or as in `subprocess`."""

    stdin: int
    stdout: int
    stderr: int


def popen(
    launch: Launch, cwd: Path, environment: Mapping[str, str], streams: StandardStreams
) -> subprocess.Popen[bytes]:
    """Start a program in a new session.

    `launch.restrict` restricts the current thread until it ends. Raise `OSError` if the program cannot start.
    """
    argv, inherited = list(launch.argv), []
    if launch.data:
        read_end, write_end = os.pipe()
        inherited.append(read_end)
        argv[launch.data_index] = str(read_end)
    try:
        if launch.data:
            with os.fdopen(write_end, "wb", buffering=0) as pipe:
                pipe.write(launch.data)
        if launch.restrict is not None:
            _make_uninheritable()
            launch.restrict()
        return subprocess.Popen(
            argv,
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            cwd=cwd,
            env=dict(environment),
            start_new_session=True,  # a separate process group without a terminal
            pass_fds=inherited,
            # A restricted thread cannot list its descriptors, so `subprocess` would try to close every possible number.
            close_fds=launch.restrict is None or bool(inherited),
        )
    finally:
        for read_end in inherited:
            os.close(read_end)


def _make_uninheritable() -> None:
    """Mark all descriptors above 2 as not inheritable, also those that C code has opened."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  # the names are numbers
        with contextlib.suppress(OSError):
            if int(name) > 2:
                os.set_inheritable(int(name), False)


def _set_result(loop: asyncio.AbstractEventLoop, settle: Callable[[ValueT], object], value: ValueT) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed already
        loop.call_soon_threadsafe(settle, value)


async def run_program(
    launch: Launch | Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    on_output: Callable[[bytes], None],
    timeout_s: float | TimeLimit,
    stdin: int = subprocess.DEVNULL,
) -> ProcessExit:
    """Run a program until it exits. Pass its output and errors to `on_output`; `stdin` is a file descriptor.

    When this returns or raises, the process group has ended and `launch.finish` was called. `on_output` then receives
    the lines of `finish` in brackets. Raise `OSError` if the program cannot start.
    """
    launch = launch if isinstance(launch, Launch) else Launch(tuple(launch))
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    loop = asyncio.get_running_loop()
    drained = asyncio.Event()
    try:
        try:
            process = await start_program(launch, cwd=cwd, environment=environment, stdin=stdin, stdout=write_end)
        finally:
            os.close(write_end)
        loop.add_reader(read_end, _pass_output, loop, read_end, on_output, drained)
        try:
            limit = timeout_s if isinstance(timeout_s, TimeLimit) else TimeLimit(timeout_s)
            process_exit = await _wait_for_exit(process, drained, limit)
        finally:
            await end_program(process)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_OUTPUT_S):
                await drained.wait()
        return process_exit
    finally:
        loop.remove_reader(read_end)
        os.close(read_end)
        if launch.finish is not None:
            await _finish(launch.finish, on_output)


async def _finish(finish: Callable[[], tuple[str, ...]], on_output: Callable[[bytes], None]) -> None:
    """Run `finish` in a thread and pass its lines to `on_output`. If cancelled, still wait for the thread."""
    task = asyncio.ensure_future(asyncio.to_thread(finish))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
    finally:
        if task.done() and not task.cancelled() and task.exception() is None:
            for line in task.result():
                on_output(f"\n[{line}]\n".encode(errors="replace"))


async def _wait_for_exit(process: Process, drained: asyncio.Event, limit: TimeLimit) -> ProcessExit:
    """Wait until a program and its output end; end the program at its time limit."""
    try:
        exit_code = await limit.wait(process)
    except TimeoutError:
        await end_program(process)
        return ProcessExit(await process.wait(), is_timed_out=True)
    had_background_processes = False
    try:
        async with asyncio.timeout(_OUTPUT_GRACE_S):
            await drained.wait()
    except TimeoutError:
        had_background_processes = True
    return ProcessExit(exit_code, had_background_processes=had_background_processes or await _still_runs(process.pid))


async def _still_runs(group: int) -> bool:
    """Return whether a group still has members after a grace period, in which the processes of bwrap exit."""
    waited = 0.0
    while _has_members(group):
        if waited >= _EXIT_GRACE_S:
            return True
        await asyncio.sleep(_POLL_INTERVAL_S)
        waited += _POLL_INTERVAL_S
    return False


async def end_program(process: Process | asyncio.subprocess.Process, grace_s: float = _TERM_GRACE_S) -> None:
    """Terminate the group of a program; kill it after `grace_s`, or at once if this is cancelled."""
    try:
        await _end_group(process.pid, grace_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_OUTPUT_S):
                await process.wait()  # reaps the process
    except asyncio.CancelledError:
        _signal(process.pid, signal.SIGKILL)
        raise


async def _end_group(group: int, grace_s: float) -> None:
    if not _signal(group, signal.SIGTERM):
        return
    waited = 0.0
    while waited < grace_s and _has_members(group):
        await asyncio.sleep(_POLL_INTERVAL_S)
        waited += _POLL_INTERVAL_S
    _signal(group, signal.SIGKILL)


def _signal(group: int, number: int) -> bool:
    """Send a signal to all processes of a group; return False if the group does not exist."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def kill_descendants() -> None:
    """Kill all descendants of this process that `/proc` lists, without waiting for their exit."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            children.setdefault(_ProcessStatus.read(stat).parent, []).append(int(stat.parent.name))
    own_pid = os.getpid()
    pids = [own_pid]
    for pid in pids:  # the list grows: children, then their children
        pids += children.get(pid, ())
    for pid in pids:
        if pid == own_pid:
            continue
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _has_members(group: int) -> bool:
    """Return whether a group has a member other than zombies."""
    if not _signal(group, 0):
        return False
    if not Path("/proc/self/stat").exists():
        return True
    if _is_member(str(group), group):  # the leader first: there may be thousands of other processes
        return True
    with os.scandir("/proc") as entries:
        return any(_is_member(entry.name, group) for entry in entries if entry.name.isdigit())


def _is_member(process: str, group: int) -> bool:
    """Return whether a process belongs to a group and still runs; a zombie does not run."""
    with contextlib.suppress(OSError, ValueError):
        status = _ProcessStatus.read(Path(f"/proc/{process}/stat"))
        return status.group == group and status.state not in (b"Z", b"X")
    return False


class _ProcessStatus(NamedTuple):
    """The status of a process in its file `stat` (proc(5))."""

    state: bytes
    """One letter, such as `S`."""
    parent: int
    """The id of the parent."""
    group: int
    """The id of the process group."""

    @staticmethod
    def read(stat: Path) -> _ProcessStatus:
        """Read the file. Raise `OSError` or `ValueError` if the process has ended."""
        # The name of the program, in brackets before the state, may contain anything: `1 (a) b) S 0 1`.
        state, parent, group = stat.read_bytes().rpartition(b")")[2].split()[:3]
        return _ProcessStatus(state, int(parent), int(group))


def _pass_output(
    loop: asyncio.AbstractEventLoop, read_end: int, on_output: Callable[[bytes], None], drained: asyncio.Event
) -> None:
    """Pass available output to `on_output`. At its end, set `drained`."""
    try:
        data = os.read(read_end, _CHUNK_BYTES)
    except BlockingIOError:
        return
    if data:
        on_output(data)
    else:
        loop.remove_reader(read_end)
        drained.set()


def find_program(name: str, environment: Mapping[str, str], workspace: Workspace) -> str | None:
    """Return the absolute path of a program on PATH or in a system folder; None if there is none.

    Folders and programs in the workspace do not count, except system folders.
    """
    system_folders = DEFAULT_PATH.split(":")
    for folder in (*command_path(environment).split(":"), *system_folders):
        path = Path(folder) / name
        is_program = os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113  # no error for a closed folder
        is_in_workspace = workspace.contains(path) or workspace.contains(path.parent)
        if is_program and (folder in system_folders or not is_in_workspace):
            return str(path)
    return None


def required_program(name: str, environment: Mapping[str, str], workspace: Workspace) -> str:
    """Return the path of a program, like `find_program`. Raise `Refused` if there is none."""
    path = find_program(name, environment, workspace)
    if path is None:
        raise Refused(f"{name} was not found on PATH (programs inside the workspace do not count)")
    return path


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """The output of a helper program."""

    lines: list[str]
    failure: str = ""
    """Why the program failed, in one line; empty if it succeeded."""


class HelperProcess:
    """One run of a helper program. `stop` may be called from any thread, before, during and after it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            if self._process is not None and self._process.poll() is None:
                self._process.kill()

    def run(self, program: Path, arguments: Sequence[str], stdin_data: bytes, limit_s: float) -> ProgramOutput:
        """Run the Python program `program` and return the complete lines that it prints."""
        with self._lock:
            if self._is_stopped:
                return ProgramOutput([], "stopped")
            self._process = process = subprocess.Popen(
                [sys.executable, "-I", str(program), *arguments],
                env=MINIMAL_ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        failure = ""
        with process:
            try:
                printed, errors = process.communicate(stdin_data, limit_s)
            except subprocess.TimeoutExpired:
                process.kill()
                printed, errors = process.communicate()
                failure = f"it took longer than {limit_s:g} s"
        if process.returncode != 0 and not failure:
            last_error = errors.decode("utf-8", "replace").strip().split("\n")[-1]
            failure = last_error or exit_text(process.returncode)
        return ProgramOutput(printed.decode("utf-8", "replace").split("\n")[:-1], failure)
