"""The command line of the fake server: a model host for qcode, or for any client, that needs no account.

`python -m tests.fakes.server --protocol anthropic --scenario endless --port 8000` serves until interrupted.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Usage
from qcode.providers.demo.edits import plan_edit, text_in_result
from qcode.providers.demo.guide import LONG_CHARS, VERY_LONG_CHARS, guide
from tests.fakes.server import PROTOCOLS, FakeServer
from tests.fakes.turns import CHARS_PER_TOKEN, Call, ReceivedRequest, Turn, refused, truthful

Answer = Callable[[ReceivedRequest], Turn]
_FILE = "hello.py"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A script that can be chosen on the command line."""

    description: str
    make_answer: Callable[[], Answer]


def _docstring() -> Answer:
    def answer(request: ReceivedRequest) -> Turn:
        results = request.results
        if not results:
            call = Call("read", json.dumps({"path": _FILE}), "call_read")
            return Turn(text=f"I will read {_FILE} first.\n", calls=[call])
        edit = plan_edit("add a docstring", _FILE, text_in_result(results[0].content))
        if len(results) == 1 and edit is not None:
            arguments = {"path": _FILE, "old_text": edit.old_text, "new_text": edit.new_text}
            return Turn(text="This is the change.\n", calls=[Call("edit", json.dumps(arguments), "call_edit")])
        return Turn(text=f"Done: {edit.summary}." if edit else "There is nothing to change.")

    return answer


def _endless() -> Answer:
    source = guide(VERY_LONG_CHARS)

    def answer(request: ReceivedRequest) -> Turn:
        sent_chars = sum(len(message.text) for message in request.messages if message.role == "assistant")
        size = (request.cap or 8_000) * CHARS_PER_TOKEN
        text = (source * ((sent_chars + size) // len(source) + 1))[sent_chars : sent_chars + size]
        return Turn(text=[text], stop=StopReason.MAX_TOKENS, usage=Usage(input=100, output=size // CHARS_PER_TOKEN))

    return answer


def _rate_limit() -> Answer:
    requests: list[ReceivedRequest] = []

    def answer(request: ReceivedRequest) -> Turn:
        requests.append(request)
        if len(requests) % 2:
            return refused(429, "too many requests", retry_after=3)
        return Turn(text="The second try went through.")

    return answer


def _plain() -> Answer:
    return lambda request: Turn(text=["Hello ", "from the ", "fake host."])


SCENARIOS = {
    "plain": Scenario("one short answer to everything", _plain),
    "docstring": Scenario(f"reads {_FILE}, adds a docstring with an edit, says so", _docstring),
    "long": Scenario("about 10,000 tokens, cut at the cap and continued", lambda: truthful(guide(LONG_CHARS))),
    "very-long": Scenario("about 80,000 tokens", lambda: truthful(guide(VERY_LONG_CHARS))),
    "endless": Scenario("text that always runs into the cap", _endless),
    "rate-limit": Scenario("refuses every other request with a wait of 3 seconds", _rate_limit),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM; the first line on stdout is the base URL."""
    table = "\n".join(f"  {name:<12}{scenario.description}" for name, scenario in SCENARIOS.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.fakes.server",
        description="A fake model host on 127.0.0.1.",
        epilog=f"scenarios:\n{table}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--protocol", choices=PROTOCOLS, default="openai")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), default="plain")
    parser.add_argument("--port", type=int, default=0, help="0 selects a free port")
    chosen = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with FakeServer(chosen.protocol, SCENARIOS[chosen.scenario].make_answer(), port=chosen.port) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        stop.wait()
    return 0
