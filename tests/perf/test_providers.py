"""Cost of a one-shot beside a script of twenty lines on the same SDK, as ratios of whole processes run in turn.

"To the wire" is the time from the start of the process until the host has the whole request. "A reply" is the CPU time
for 12,500 chunks minus the CPU time for one chunk, so that starting up does not count. Both write the answer to
standard output. Byte code is cached for both, as after an installation.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.perf.flood import Flood

pytestmark = [pytest.mark.perf, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
CHUNKS = 12_500
KEY = "k" * 20

OPENAI = """
import os, sys
from openai import OpenAI

client = OpenAI(base_url=os.environ["OPENAI_BASE_URL"])
messages = [{"role": "user", "content": "hi"}]
for chunk in client.chat.completions.create(model="gpt-4o", messages=messages, stream=True):
    if chunk.choices and chunk.choices[0].delta.content:
        sys.stdout.write(chunk.choices[0].delta.content)
"""
ANTHROPIC = """
import os, sys
from anthropic import Anthropic

client = Anthropic(base_url=os.environ["ANTHROPIC_BASE_URL"])
messages = [{"role": "user", "content": "hi"}]
for event in client.messages.create(model="claude-sonnet-4-5", max_tokens=8000, messages=messages, stream=True):
    if event.type == "content_block_delta" and event.delta.type == "text_delta":
        sys.stdout.write(event.delta.text)
"""
GEMINI = """
import os, sys
from google import genai

client = genai.Client(http_options={"base_url": os.environ["GOOGLE_GEMINI_BASE_URL"]})
for chunk in client.models.generate_content_stream(model="gemini-2.5-flash", contents="hi"):
    sys.stdout.write(chunk.text or "")
"""


@dataclass(frozen=True)
class Rival:
    """`most` is the share of the SDK's CPU time that a reply may cost."""

    protocol: str
    model: str
    script: str
    url_variable: str
    key_variable: str
    suffix: str
    most: float


RIVALS = (
    Rival("openai", "gpt-4o", OPENAI, "OPENAI_BASE_URL", "OPENAI_API_KEY", "/v1", 0.6),
    Rival("anthropic", "claude-sonnet-4-5", ANTHROPIC, "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "", 1.0),
    Rival("gemini", "gemini-2.5-flash", GEMINI, "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY", "", 1.0),
)
each_rival = pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.protocol)


class Race:
    """Runs qcode and the rival's script against one host, in turn; the first run of each warms up and is dropped."""

    def __init__(self, rival: Rival, base: Path) -> None:
        self._rival = rival
        script = base / "script.py"
        script.write_text(rival.script, encoding="utf-8")
        model = f"{rival.protocol}/{rival.model}"
        self._commands = (
            [sys.executable, "-m", "qcode", "-p", "hi", "-m", model, "--no-session"],
            [sys.executable, str(script)],
        )
        self._base = base

    def times_to_the_wire(self, runs: int) -> tuple[float, float]:
        with Flood(self._rival.protocol, 1) as host:
            times: tuple[list[float], list[float]] = ([], [])
            for run in range(runs + 1):
                for command, seconds in zip(self._commands, times, strict=True):
                    host.arrived.clear()
                    started = time.monotonic()
                    self._run(command, host)
                    if run:
                        seconds.append(host.arrived[0] - started)
        return statistics.median(times[0]), statistics.median(times[1])

    def cpu_of_a_reply(self, runs: int) -> tuple[float, float]:
        long, short = (self.cpu_of_a_run(chunks, runs) for chunks in (CHUNKS, 1))
        return long[0] - short[0], long[1] - short[1]

    def cpu_of_a_run(self, chunks: int, runs: int) -> tuple[float, float]:
        with Flood(self._rival.protocol, chunks) as host:
            times: tuple[list[float], list[float]] = ([], [])
            for run in range(runs + 1):
                for command, seconds in zip(self._commands, times, strict=True):
                    before = _cpu_of_children()
                    self._run(command, host)
                    if run:
                        seconds.append(_cpu_of_children() - before)
        return min(times[0]), min(times[1])

    def _run(self, command: list[str], host: Flood) -> None:
        kept_values = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        given = {
            "HOME": str(self._base),
            "PYTHONPYCACHEPREFIX": str(self._base / "bytecode"),
            "PYTHONPATH": str(ROOT),
            self._rival.url_variable: host.url + self._rival.suffix,
            self._rival.key_variable: KEY,
        }
        done = subprocess.run(command, env=kept_values | given, cwd=self._base, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout) > 5


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)  # `os.times` counts in ticks of 10 ms
    return used.ru_utime + used.ru_stime


def tell(what: str, unit: str, ours: float, theirs: float) -> None:
    sys.stdout.write(f"\n{what}: qcode {ours:.3f} {unit}, script {theirs:.3f} {unit}, x{ours / theirs:.2f}")


@each_rival
def test_one_shot_sends_its_request_as_fast_as_a_twenty_line_script(rival: Rival, tmp_path: Path) -> None:
    ours, theirs = Race(rival, tmp_path).times_to_the_wire(runs=7)
    tell(f"{rival.protocol}, start to wire", "s", ours, theirs)
    assert ours <= 1.25 * theirs


MAX_EMPTY_PROGRAMS = 16.0
"""Upper bound of a one-shot, in runs of an empty program."""


def test_one_shot_costs_a_few_runs_of_an_empty_program(tmp_path: Path) -> None:
    empty = replace(RIVALS[0], script="print('nothing')")
    ours, theirs = Race(empty, tmp_path).cpu_of_a_run(1, runs=15)
    tell("qcode -p hi beside an empty program", "s of CPU", ours, theirs)
    assert ours <= MAX_EMPTY_PROGRAMS * theirs


@each_rival
def test_long_reply_costs_no_more_than_the_loop_of_its_sdk(rival: Rival, tmp_path: Path) -> None:
    ours, theirs = Race(rival, tmp_path).cpu_of_a_reply(runs=3)
    tell(f"{rival.protocol}, {CHUNKS} chunks", "s of CPU", ours, theirs)
    assert ours <= rival.most * theirs


def test_version_and_help_cost_little_more_than_the_interpreter() -> None:
    commands = {"bare": ["-c", "pass"], "--version": ["-m", "qcode", "--version"], "--help": ["-m", "qcode", "--help"]}
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(15):
        for name, arguments in commands.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True, cwd=ROOT)
            times[name].append(time.perf_counter() - started)
    bare = min(times.pop("bare"))
    for flag, measured in times.items():
        tell(f"qcode {flag} beside an empty program", "s", min(measured), bare)
        assert min(measured) <= 2.5 * bare
