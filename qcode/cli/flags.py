"""The command line as a value: what was typed, checked as far as that can be done without looking anywhere else."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import NoReturn

from qcode.agent.options import FORMATS, INPUT_FORMATS, LATEST, MODES, Options, OutputFormat
from qcode.protocol.errors import ExitCode, QcodeError
from qcode.protocol.model import EFFORTS

SUBCOMMANDS = ("auth", "config", "doctor", "mcp", "models", "permissions", "sessions", "themes", "trust")

_CHOSEN = "\0"
"""`-r` without an id: no id that can be typed is equal to it, the empty one least of all."""


class UsageError(QcodeError):
    """The command line is wrong."""

    exit_code = ExitCode.USAGE


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(self._with_nearest(message))

    def _with_nearest(self, message: str) -> str:
        prefix = "unrecognized arguments: "
        if not message.startswith(prefix):
            return message
        unknown = message.removeprefix(prefix).split(" ")[0].split("=")[0]
        if not unknown.startswith("-"):
            return f'more than one prompt was given ("{unknown}"): put the prompt in quotes'
        if not unknown.startswith("--") and len(unknown) > 2:
            return f'there is no flag {unknown}; a prompt that begins with "-" goes behind --, as the last argument'
        flags = [flag for action in self._actions for flag in action.option_strings]
        nearest = difflib.get_close_matches(unknown, flags, n=1, cutoff=0.5)
        hint = f"; did you mean {nearest[0]}?" if nearest else ""
        return f"there is no flag {unknown}{hint}"


def parse(argv: Sequence[str]) -> Options:
    """Return what `argv` (without the program's name) says, or raise `UsageError`."""
    before, after = _split_at_dashes(argv)
    given = _parser().parse_intermixed_args(before)
    texts = [text for text in (given.print, given.prompt, *after) if text]
    if len(texts) > 1:
        raise UsageError("more than one prompt was given: put the prompt in quotes")
    _refuse_contradictions(given)
    _refuse_unfit_formats(given, has_prompt=bool(texts))
    chooses = given.resume == _CHOSEN
    resume = LATEST if given.continue_ or chooses else given.resume
    return Options(
        prompt=_as_text(texts[0]) if texts else None,
        is_pipe=given.print is not None,
        is_verbose=given.verbose,
        model=given.model,
        base_url=given.base_url,
        output_format=given.output_format,
        input_format=given.input_format,
        json_schema=_as_text(given.json_schema),
        include_partial_messages=given.include_partial_messages,
        files=tuple(given.file),
        max_output_tokens=given.max_output_tokens,
        max_continuations=given.max_continuations,
        can_escalate=not given.no_escalation,
        max_turns=given.max_turns,
        max_tool_calls=given.max_tool_calls,
        max_budget_usd=given.max_budget_usd,
        mode="bypass" if given.yolo else given.permission_mode,
        allowed=_rules(given.allowed_tools),
        disallowed=_rules(given.disallowed_tools),
        exit_tools=given.exit_tools,
        resume=resume,
        chooses_session=chooses,
        forks=given.fork_session,
        keeps_session=not given.no_session,
        system_prompt=_as_text(given.system_prompt),
        append_system_prompt=_as_text(given.append_system_prompt),
        add_dirs=tuple(given.add_dir),
        cwd=given.cwd,
        is_trusted=given.trust,
        effort=given.reasoning_effort,
        settings_file=given.settings,
        mcp_configs=tuple(given.mcp_config),
        theme=given.theme,
        debug_log=given.debug_log,
        completion=given.completion,
    )


def _refuse_contradictions(given: argparse.Namespace) -> None:
    if given.yolo and given.permission_mode not in (None, "bypass"):
        raise UsageError("--yolo and --permission-mode contradict each other")
    if given.continue_ and given.resume is not None:
        raise UsageError("-c and -r contradict each other: -c is the latest session, -r ID a certain one")
    if given.resume is not None and not given.resume.strip():
        raise UsageError("the id after -r is empty: name a session, or use -c for the latest")
    if given.model is not None and not given.model.strip():
        raise UsageError("the name after -m is empty: use -m PROVIDER/MODEL")
    if given.fork_session and not given.continue_ and given.resume is None:
        raise UsageError("--fork-session needs -c or -r: there is no session to copy")


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=80)


def _refuse_unfit_formats(given: argparse.Namespace, *, has_prompt: bool) -> None:
    if given.input_format == "stream-json":
        if given.output_format != "stream-json":
            raise UsageError("--input-format stream-json needs -o stream-json: every line in has its result line out")
        if has_prompt:
            raise UsageError("with --input-format stream-json prompts are lines on standard input, none is typed")
    if given.include_partial_messages and given.output_format != "stream-json":
        raise UsageError("--include-partial-messages needs -o stream-json")


def _parser() -> _Parser:
    # The help is a text of its own; without a width argparse would measure the terminal for each flag.
    parser = _Parser(prog="qcode", add_help=False, allow_abbrev=False, formatter_class=_formatter)
    add = parser.add_argument
    add("prompt", nargs="?")
    add("-p", "--print", "--prompt", dest="print", nargs="?", const="", default=None)
    add("-v", "--verbose", action="store_true")
    add("-m", "--model")
    add("--base-url")
    add("-o", "--output-format", choices=FORMATS, default="text")
    add("--input-format", choices=INPUT_FORMATS, default="text")
    add("--include-partial-messages", action="store_true")
    add("--json-schema")
    add("-f", "--file", type=Path, action="append", default=[])
    add("--max-output-tokens", type=_positive)
    add("--max-continuations", type=_natural)
    add("--no-escalation", action="store_true")
    add("--max-turns", type=_positive)
    add("--max-tool-calls", type=_natural)
    add("--max-budget-usd", type=_money)
    add("--permission-mode", choices=MODES)
    add("--allowed-tools", action="append", default=[])
    add("--disallowed-tools", action="append", default=[])
    add("--yolo", action="store_true")
    add("--exit-tools", type=Path)
    add("-c", "--continue", dest="continue_", action="store_true")
    add("-r", "--resume", nargs="?", const=_CHOSEN, default=None)
    add("--fork-session", action="store_true")
    add("--no-session", action="store_true")
    add("--system-prompt")
    add("--append-system-prompt")
    add("--add-dir", type=Path, action="append", default=[])
    add("-C", "--cwd", type=Path)
    add("--trust", action="store_true")
    add("--reasoning-effort", choices=EFFORTS)
    add("--settings", type=Path)
    add("--mcp-config", type=Path, action="append", default=[])
    add("--theme")
    add("--debug-log", type=Path)
    add("--completion", choices=("bash", "zsh", "fish"))
    return parser


def option_strings() -> tuple[str, ...]:
    """Return every flag the parser takes, for completion scripts and the test of the help text."""
    return tuple(flag for action in _parser()._actions for flag in action.option_strings)


def option_values() -> dict[str, tuple[str, ...] | None]:
    """Return each flag that takes a value with the values there are; None where it is a text or a path."""
    return {
        flag: None if action.choices is None else tuple(str(choice) for choice in action.choices)
        for action in _parser()._actions
        if action.nargs is None
        for flag in action.option_strings
    }


def wanted_format(argv: Sequence[str]) -> OutputFormat:
    """Return the output format that a command line asks for, also one that is wrong otherwise."""
    before, _ = _split_at_dashes(argv)
    found: OutputFormat = "text"
    for flag, value in zip(before, [*before[1:], ""], strict=True):
        name, _, joined = flag.partition("=")
        wanted = joined if name == "--output-format" and joined else flag[2:] if flag[:2] == "-o" else ""
        wanted = value if flag in ("-o", "--output-format") else wanted
        found = next((one for one in FORMATS if one == wanted), found)
    return found


def _as_text(given: str | None) -> str | None:
    """Read as UTF-8 what the locale could not decode; bytes that are no UTF-8 become U+FFFD, not an error later."""
    return None if given is None else given.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _split_at_dashes(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands behind `--` is a prompt, whatever it begins with."""
    if "--" not in argv:
        return list(argv), []
    at = list(argv).index("--")
    return list(argv[:at]), list(argv[at + 1 :])


def _rules(given: Sequence[str]) -> tuple[str, ...]:
    """Split `shell(git log *), read` at commas outside brackets; a flag may be given more than once.

    Inside the brackets of a shell rule quotes count, so that `shell(echo '), ')` is one rule.
    """
    rules: list[str] = []
    for text in given:
        depth, start, quote = 0, 0, ""
        for index, char in enumerate(text):
            if quote:
                quote = "" if char == quote else quote
            elif char in "'\"" and depth and text[start:].lstrip().startswith("shell("):
                quote = char
            elif char == "(":
                depth += 1
            elif char == ")":
                depth -= 1
            elif char == "," and depth <= 0:
                rules.append(text[start:index].strip())
                start = index + 1
        # A rule whose bracket stays open is kept: it is refused later, and must not be lost in silence.
        rules.append(text[start:].strip())
    return tuple(rule for rule in rules if rule)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number from 1 upwards')
    return int(text)


def _natural(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number from 0 upwards')
    return int(text)


def _money(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount <= 0:
        raise argparse.ArgumentTypeError(f'"{text}" is not an amount in USD above 0')
    return amount
