"""Standard output, standard error and exit code of runs, over every way a prompt can end."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.running import Finished
from tests.fakes import replies
from tests.fakes.server import FakeServer
from tests.fakes.turns import Faults, Turn
from tests.pins.conversations import FILES, Host
from tests.pins.golden import Golden
from tests.pins.outcomes import BAD_FLAGS, CORE, LINES, OUTCOMES, Outcome
from tests.pins.runner import KEYS, MODELS, PinRunner

FORMATS = ("text", "json", "stream-json")
FAILURES = [name for name in OUTCOMES if name.startswith("error-")]


def run(outcome: Outcome, cli: PinRunner, *more: str, protocol: str = "openai") -> Finished:
    """Run an outcome with `cli`."""
    cli.configure(outcome.config.replace("{model}", f"{protocol}/{MODELS[protocol]}"))
    for name, content in {**FILES, **outcome.files}.items():
        path = cli.work / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    arguments = (*outcome.prompt, *outcome.arguments, *more)
    if not outcome.is_asked:
        env = {} if "-m" not in outcome.arguments or "openai/m" not in outcome.arguments else KEYS["openai"]
        return cli.run(*arguments, env=env, stdin=outcome.stdin)
    with FakeServer(protocol, Host(outcome.replies)) as server:  # type: ignore[arg-type]  # one of the five
        return cli.ask_host(server, protocol, *arguments, stdin=outcome.stdin)


def report(title: str, done: Finished, cli: PinRunner) -> str:
    """Return a run as it is compared; a missing line end at the end of a stream shows."""
    streams = [
        f"--- {name}\n{_ended(cli.normalized(text))}" for name, text in (("stdout", done.out), ("stderr", done.err))
    ]
    return f"=== {title}: exit {done.code}\n{''.join(streams)}\n"


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}<no line end>\n"


def places(tmp_path: Path, name: str) -> PinRunner:
    """Return a separate runner inside the folder of a test."""
    base = tmp_path / name
    base.mkdir()
    return PinRunner(base)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in CORE else (pytest.mark.broad,)) for name in OUTCOMES]
)
def test_outcome_in_every_format(name: str, tmp_path: Path, golden: Golden) -> None:
    sections = []
    for form in FORMATS:
        cli = places(tmp_path, form)
        sections.append(report(form, run(OUTCOMES[name], cli, "-o", form), cli))
    golden.check_text(f"runs/{name}.txt", "\n".join(sections))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", LINES)
def test_lines_of_input(name: str, cli: PinRunner, golden: Golden) -> None:
    flags = ("--input-format", "stream-json", "-o", "stream-json")
    outcome = LINES[name]
    done = run(Outcome(outcome.replies, flags, ("-p",), stdin=outcome.stdin), cli)
    golden.check_text(f"runs/{name}.txt", report("stream-json", done, cli))


def test_bad_flags(cli: PinRunner, golden: Golden) -> None:
    sections = []
    for flags in BAD_FLAGS:
        done = cli.run("-p", "hi", "-m", "demo/demo", *flags)
        sections.append(report(" ".join(flags), done, cli))
    golden.check_text("runs/bad-flags.txt", "\n".join(sections))


@pytest.mark.broad
@pytest.mark.parametrize("protocol", ["anthropic", "openai-responses", "gemini", "bedrock"])
def test_failures_of_other_protocols(protocol: str, tmp_path: Path, golden: Golden) -> None:
    sections = []
    for name in FAILURES:
        cli = places(tmp_path, name)
        sections.append(report(name, run(OUTCOMES[name], cli, "-o", "json", protocol=protocol), cli))
    golden.check_text(f"runs/failures-{protocol}.txt", "\n".join(sections))


@pytest.mark.broad
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name.lower())
def test_interrupted(number: signal.Signals, tmp_path: Path, golden: Golden) -> None:
    """Text is kept if it was shown: only stream-json tells that it has arrived."""
    sections = []
    for form in FORMATS:
        cli = places(tmp_path, form)
        is_live = form == "stream-json"
        script = [Turn(text=["One. ", "Two. "], faults=Faults(stall_after=3 if is_live else 1))]
        flags = ("-o", form, *(("--include-partial-messages",) if is_live else ()))
        with FakeServer("openai", script) as server:
            process = subprocess.Popen(
                cli.command("-m", "openai/test-model", "--base-url", server.base_url, "-p", "go", *flags),
                cwd=cli.work,
                env=cli.environment(KEYS["openai"]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            server.wait_until(lambda seen: seen.stalls == 1, 60)
            assert process.stdout is not None
            seen = b""
            while is_live and b'"Two. "' not in seen:
                seen += process.stdout.readline()
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
        sections.append(report(form, Finished(process.returncode, (seen + out).decode(), err.decode()), cli))
    golden.check_text(f"runs/{number.name.lower()}.txt", "\n".join(sections))


def test_resumed_run_in_another_format(cli: PinRunner, golden: Golden) -> None:
    """A resumed session keeps its id, and the result counts its own turn only."""
    script = [replies.text("first"), replies.text("second"), replies.text("third")]
    with FakeServer("openai", script) as server:
        sections = [
            report(title, cli.ask_host(server, "openai", "-o", "json", *flags), cli)
            for title, flags in (
                ("first", ("-p", "count")),
                ("continued", ("-p", "on", "-c")),
                ("forked", ("-p", "aside", "-c", "--fork-session")),
            )
        ]
    golden.check_text("runs/resumed.txt", "\n".join(sections))
