"""Fixtures and settings of the whole suite."""

from __future__ import annotations

import gc
import importlib
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.e2e.running import NO_KEYRING
from tests.fakes.certificates import skip_public_certificates
from tests.fakes.demo import skip_demo_pauses
from tests.fakes.disk import skip_fsync

pytest_plugins = ["tests.rows"]

# No deadline: in a fresh checkout Hypothesis first builds its table of characters, which takes seconds, and busy cores
# are slow at any time. Neither is a fault of the program.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# `make test` tries the same examples on every machine, `make test-all` more of them, and `make search` new ones.
settings.register_profile("broad", settings.get_profile("search"), derandomize=True, database=None)
settings.register_profile("qcode", settings.get_profile("broad"), max_examples=15)
settings.load_profile("qcode")

MAX_WORKERS = 8
MAX_ID = 300
"""The maximum length of a text in the id of a test, in characters or bytes."""
TESTS = Path(__file__).parent

# The suite starts hundreds of programs, and pytest rewrites each test file before it runs. So compiled files are kept,
# even if the machine is configured not to write them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell ignores Ctrl+C in a program that it starts in the background, and all programs that a test starts would too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test may reach the real keyring of the user; tests of keyrings use their own.
os.environ["PYTHON_KEYRING_BACKEND"] = NO_KEYRING


def pytest_xdist_auto_num_workers() -> int | None:
    """Return two workers more than the machine has cores: some tests wait for a process or a terminal."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return min((os.cpu_count() or 1) + 2, MAX_WORKERS)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Return a short id for a long text: each worker sends all ids to the controller, and one text has 10 MB."""
    return f"{argname} of {len(val)}" if isinstance(val, str | bytes) and len(val) > MAX_ID else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import a share of the test files first, a different one in each worker.

    In a fresh clone each file is rewritten and compiled once. If all workers started with the same file, each would
    compile them all.
    """
    gc.disable()  # until all test items are collected, because none of them is garbage
    if settings.get_current_profile_name() != "search":
        try_no_constants_of_the_source()
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    drop_unread_messages(session.config)
    if session.config.args != session.config.getini("testpaths"):
        return
    number, count = int(worker["workerid"].removeprefix("gw")), int(worker["workercount"])
    for path in sorted(TESTS.rglob("test_*.py"))[number::count]:
        name = path.relative_to(TESTS.parent).with_suffix("").as_posix().replace("/", ".")
        with suppress(Exception, pytest.skip.Exception):  # pytest reports the error when it collects the file
            importlib.import_module(name)


def try_no_constants_of_the_source() -> None:
    """Let Hypothesis not try the constants of loaded modules as examples.

    The examples of a test would depend on the modules that the tests before it have loaded. In a fresh clone, each
    worker would parse all source files, which takes two seconds.
    """
    found = vars(providers)["_local_constants"]
    vars(providers)["_get_local_constants"] = lambda: found


def is_brief(config: pytest.Config) -> bool:
    """Return whether only failures and the results of tests are shown: no names (`-v`) and no `--durations`."""
    return config.option.verbose <= 0 and config.option.durations is None


def drop_unread_messages(config: pytest.Config) -> None:
    """Let a worker send one report for each test that passes, instead of three reports and two notes."""
    if not is_brief(config):
        return
    worker: Any = next(x for x in config.pluginmanager.get_plugins() if type(x).__name__ == "WorkerInteractor")
    send = worker.sendevent

    def send_if_read(name: str, **values: Any) -> None:
        if name not in ("logstart", "logfinish") and (name != "testreport" or "nodeid" in values["data"]):
            send(name, **values)

    worker.sendevent = send_if_read


SAMPLED: set[str] = set()
"""The tables with `sampled(n)` of which only every n-th row was collected."""


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Collect no broad row if broad tests do not run: a third of all rows are broad.

    One row stays, because without any pytest would call the test without its parameters.
    """
    config, test, rows = metafunc.config, metafunc.definition, vars(metafunc)["_calls"]
    if "not broad" not in config.option.markexpr or any("::" in arg for arg in config.args):
        return
    is_broad = test.get_closest_marker("broad") is not None
    kept = [row for row in rows if not is_broad and not any(mark.name == "broad" for mark in row.marks)]
    sampled = test.get_closest_marker("sampled")
    if sampled is not None:
        kept = kept[:: sampled.args[0]]
        SAMPLED.add(test.nodeid)
    rows[:] = kept or rows[:1]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of `tests/arch`, and the rows of each table that is `sampled(n)`.

    Every n-th row that is not yet broad runs in `make test`, the others are marked as broad.
    """
    rows: Counter[str] = Counter()
    for item in items:
        if item.nodeid.startswith("tests/arch/"):
            item.add_marker(pytest.mark.arch)
        sampled = item.get_closest_marker("sampled")
        table = item.nodeid.partition("[")[0]
        if sampled is not None and table not in SAMPLED and item.get_closest_marker("broad") is None:
            if rows[table] % sampled.args[0]:
                item.add_marker(pytest.mark.broad)
            rows[table] += 1


def pytest_collection_finish() -> None:
    """Exclude the collected test items and loaded modules from garbage collection, and collect less often.

    With the default thresholds, a fifth of the time of an app test is garbage collection. The garbage of the collection
    of tests stays, because finding its 10 MB takes a second in each worker.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(200_000, 10, 10)


@pytest.hookimpl(tryfirst=True)
def pytest_report_to_serializable(
    report: pytest.CollectReport | pytest.TestReport, config: pytest.Config
) -> dict[str, Any] | None:
    """Drop the keywords of a report before a worker sends it. Nothing reads them, and they are half of the message.

    The report of a set-up or teardown that passed is not sent at all; see `drop_unread_messages`.
    """
    if isinstance(report, pytest.TestReport):
        report.keywords = {}
        if report.passed and report.when != "call" and is_brief(config):
            return {}
    return None


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect garbage, which reports open files of tests. The five collections of pytest then have little to do."""
    for _ in range(5):
        if not gc.collect():
            break
    gc.freeze()


@pytest.fixture(scope="session")
def folder_numbers() -> Counter[str]:
    """The number of the next temporary folder, for each name."""
    return Counter()


@pytest.fixture
def tmp_path(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, folder_numbers: Counter[str]
) -> Path:
    """Return a new folder. pytest's own fixture reads the names of all earlier folders to find the next number."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    path = tmp_path_factory.getbasetemp() / f"{name}{folder_numbers[name]}"
    folder_numbers[name] += 1
    path.mkdir(mode=0o700)
    return path


@pytest.fixture(scope="session", autouse=True)
def signal_handlers_as_they_are() -> Iterator[None]:
    """Convert only numbers of signal handlers to names.

    Python 3.11 also tries to convert handlers that are functions, and formats them for the error. `asyncio.run` reads
    its own handler at the end, whose text contains the result of the whole test.
    """
    convert = vars(signal)["_int_to_enum"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            signal, "_int_to_enum", lambda value, enum: convert(value, enum) if isinstance(value, int) else value
        )
        yield


@pytest.fixture(scope="session", autouse=True)
def demo_without_pauses() -> Iterator[None]:
    """Let the demo model stream without pauses."""
    with skip_demo_pauses():
        yield


@pytest.fixture(scope="session", autouse=True)
def writes_without_waiting() -> Iterator[None]:
    """Skip `fsync`, which waits for the disk."""
    with skip_fsync():
        yield


@pytest.fixture(scope="session", autouse=True)
def connections_without_public_certificates() -> Iterator[None]:
    """Do not load the certificates of public hosts, because no test connects to one."""
    with skip_public_certificates():
        yield
