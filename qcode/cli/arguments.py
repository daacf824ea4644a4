"""Parses the command line to `Options` and validates it, without reading any file or setting."""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, get_args

from qcode.agent.options import CHOOSE, LATEST, Options, OutputFormat, split_rules
from qcode.cli.flags import FLAGS, REFUSED_FLAGS, SUBCOMMANDS, Flag
from qcode.protocol.errors import UsageError
from qcode.protocol.model import effort_of_budget
from qcode.text.numbers import seconds_of, whole_number

FOLDER_FLAGS = "[-C DIR] [--trust] [--settings FILE] [--json]"
"""The flags of a subcommand that shows facts about a folder, for its usage line."""
_CONSTANTS = {name: flag.const for flag in FLAGS if flag.kind == "joined" for name in flag.names}
"""The values of flags given without `=`. argparse would read the next word, the prompt, as the value."""
_PRINT_FLAGS = frozenset(name for flag in FLAGS if "-p" in flag.names for name in flag.names)
_TEXT_FLAGS = frozenset(name for flag in FLAGS if flag.key.endswith("system_prompt") for name in flag.names)
_UNSAFE_KEYS = frozenset({"yolo", "trust", "allowed_tools", "allow_dangerously_skip_permissions"})
"""Flags that lower safety: no suggestion names them."""
_OTHER_PROGRAMS_COMMANDS: Mapping[str, str] = {
    "completion": "qcode --completion bash|zsh|fish",
    "continue": "qcode -c",
    "exec": "qcode -p TEXT",
    "resume": "qcode -c, or qcode -r ID",
    "run": "qcode -p TEXT",
}
"""Commands of similar programs, and their equivalents in qcode."""
_MIN_SIMILARITY = 0.75
"""Minimum similarity of a one-word prompt and a subcommand for an error: `doctr` is too similar, `hello` is not."""
_MAX_SHOWN_CHARS = 80
"""The longest value that a message repeats in full."""
_NEVER_ASKS = "dontAsk"  # a permission mode of Claude Code
_ARGPARSE_ERROR = re.compile(r"argument (?P<names>[^\s:]+): (?P<problem>.*)", re.DOTALL)
_INVALID_CHOICE = re.compile(
    r"invalid choice: (?P<quote>['\"])(?P<typed>.*)(?P=quote) \(choose from (?P<choices>.*)\)", re.DOTALL
)


class CommandLineError(UsageError):
    """The command line is invalid. The message is followed by a pointer to `--help`."""


def invalid_arguments(words: Sequence[str], usage: str) -> CommandLineError:
    """Return the error for words after a subcommand that match none of its forms."""
    if not words:
        return missing_argument(usage)
    from qcode.text.clean import one_line

    return CommandLineError(f"invalid arguments: {one_line(' '.join(words), 200)}; {usage}")


def usage_of(arguments: Sequence[str], usages: Mapping[str, str]) -> str:
    """Return the usage of the action that `arguments` name; of all actions (key "") if they name none."""
    return next((usages[word] for word in arguments if word in usages), usages[""])


def missing_argument(usage: str) -> CommandLineError:
    """Return the error for a subcommand that ends before an argument that it needs."""
    return CommandLineError(f"an argument is missing; {usage}")


class _Parser(argparse.ArgumentParser):
    """A parser of `flags`. A flag that was not given has no attribute in the result."""

    def __init__(self, flags: Iterable[Flag], usage: str = "") -> None:
        # `flags` prints the help. Without the width of `_formatter`, argparse would measure the terminal for each flag,
        # and without a usage it would format one for each command line.
        super().__init__(
            usage="qcode",
            add_help=False,
            allow_abbrev=False,
            formatter_class=_formatter,
            argument_default=argparse.SUPPRESS,
        )
        self._usage = usage
        self._words: Sequence[str] = ()
        for flag in flags:
            if flag.kind != "shown":
                # A second prompt must not replace the first one unnoticed.
                repeats: dict[str, Any] = {"action": "append"} if "-p" in flag.names else {}
                self.add_argument(*flag.names, dest=flag.key, **_ACTIONS[flag.kind], **_choices(flag), **repeats)

    def read(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the values of the flags and positional arguments in `words`; raise `CommandLineError`."""
        self._words = words
        return vars(self.parse_intermixed_args(words))

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:  # noqa: ANN401  # as in argparse
        # Before Python 3.13, argparse removes the value of `--system-prompt=--`.
        if action.option_strings and arg_strings == ["--"]:
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        message = _rephrase(message, self._words)
        raise CommandLineError(f"{message}; {self._usage}" if self._usage else self._with_nearest(message))

    def _with_nearest(self, message: str) -> str:
        """Return argparse's message; for an unknown flag, a message with the nearest flag or with advice."""
        prefix = "unrecognized arguments: "
        if not message.startswith(prefix):
            return message
        unknown = _shortened(message.removeprefix(prefix).split(" ")[0].split("=")[0])
        if not unknown.startswith("-"):
            return f"more than one prompt was given ({_quoted(unknown)}): put the prompt in quotes"
        if not unknown.startswith("--") and len(unknown) > 2:
            return f'unknown flag {unknown}; to send a prompt that starts with "-", put it last, after --'
        if any(unknown in flag.names for flag in FLAGS):  # `--login` with other arguments
            return f"{unknown} takes no prompt and no other flag; use: qcode {unknown}"
        if unknown == "--linear":
            # Users may expect a flag for linear mode, and the nearest flag is `--login`.
            return "unknown flag --linear; TERM=dumb starts the linear mode, `qcode config set ui.linear true` keeps it"
        if unknown in REFUSED_FLAGS:
            return f"{unknown} is not supported: {REFUSED_FLAGS[unknown]}"
        from qcode.text.match import did_you_mean, similar

        unsafe = {name for flag in FLAGS if flag.key in _UNSAFE_KEYS for name in flag.names}
        # Without the dashes, which all flags share: `--bogus` is not `--verbose`.
        flags = {name[2:]: name for flag in FLAGS for name in flag.names if name.startswith("--")}
        close = (flags[word] for word in similar(unknown.lstrip("-"), flags, 1))
        hint = did_you_mean([name for name in close if name not in unsafe])
        return f"unknown flag {unknown}" + (f"; {hint}" if hint else "")


def _rephrase(message: str, words: Sequence[str]) -> str:
    """Return argparse's message about a flag in simple words, with the name of the flag as it was typed in `words`."""
    match = _ARGPARSE_ERROR.fullmatch(message)
    if match is None:
        return message
    names, problem = match["names"].split("/"), match["problem"]
    name = next((name for word in words for name in names if _is_typed_as(name, word)), names[0])
    if problem == "expected one argument":
        return f"{name} needs a value"
    if problem.startswith("ignored explicit argument"):
        return f"{name} takes no value"
    invalid_choice = _INVALID_CHOICE.fullmatch(problem)
    if invalid_choice is not None:
        choices = invalid_choice["choices"].replace("'", "")
        return f"{name}: {_quoted(invalid_choice['typed'])} is not one of {choices}"
    return f"{name}: {problem}"


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"


def _quoted(text: str) -> str:
    return f'"{_shortened(text)}"'


def _is_typed_as(name: str, word: str) -> bool:
    """Return whether `word` is the flag `name`, alone or joined with its value: `-m`, `-mMODEL`, `--model=MODEL`."""
    return word.partition("=")[0] == name if name.startswith("--") else word.startswith(name)


def parse(argv: Sequence[str]) -> Options:
    """Return the options in `argv` (without the name of the program); raise `CommandLineError`."""
    before, after = _split_at_dashes(argv)
    _refuse_separate_time(before)
    before = [f"{word}={_CONSTANTS[word]}" if word in _CONSTANTS else word for word in _join_texts(before)]
    parser = _Parser(FLAGS)
    parser.add_argument("prompt", nargs="?", default=None, type=as_text)
    values = _normalize(parser.read(before))
    texts = [text for text in (*values.get("print", ()), values.get("prompt"), *map(as_text, after)) if text]
    if len(texts) > 1:
        raise CommandLineError("more than one prompt was given: put the prompt in quotes")
    _refuse_contradictions(values)
    resume = values.get("resume")
    options = Options(
        prompt=texts[0] if texts else None,
        print="print" in values,
        resume=LATEST if "continue" in values else resume,
        **_fields(values),
    )
    _refuse_mismatched_formats(options)
    return options


def _refuse_separate_time(words: Sequence[str]) -> None:
    """Raise `CommandLineError` for `--wait-for-limit 5m`: the next word would be the prompt."""
    for name, value in itertools.pairwise(words):
        if name in _CONSTANTS and value[:1].isdigit() and seconds_of(value) is not None:
            raise CommandLineError(f"the time of {name} follows an equals sign: {name}={value}")


def split_subcommand(argv: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the subcommand in `argv` and its arguments, None without one. Flags may precede it: `-C DIR doctor`.

    Raise `CommandLineError` if the first word is a misspelt subcommand: `doctr`, `doctr --json`. A prompt of several
    words is one argument. `-p` makes every word a prompt.
    """
    words = iter(enumerate(argv))
    flags = [*FLAGS, *(flag for command in SUBCOMMANDS.values() for flag in command.flags)]
    for index, word in words:
        if not word.startswith("-"):
            if word in SUBCOMMANDS:
                return word, [*argv[:index], *argv[index + 1 :]]
            if not any(later.partition("=")[0] in _PRINT_FLAGS for later in argv[index:]):
                _refuse_misspelt_subcommand(word, is_first=index == 0)
            return None
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        flag = next((flag for flag in flags if name in flag.names), None)
        if flag is None or "-p" in flag.names:
            return None
        following = argv[index + 1] if index + 1 < len(argv) else ""
        takes_following = flag.takes_value or (flag.kind == "optional" and not following.startswith("-"))
        if word == name and takes_following:  # `-m MODEL`, but not `-mMODEL` or `--model=MODEL`
            next(words, None)
    return None


def _refuse_misspelt_subcommand(word: str, *, is_first: bool) -> None:
    from qcode.text.match import suggestion

    # `/help` is a command of the app, not a misspelled `help`.
    if not (word.isascii() and word[:1].isalpha()):
        return
    # After flags it is a prompt: `qcode -c continue`.
    if is_first and (meant := _OTHER_PROGRAMS_COMMANDS.get(word)):
        raise CommandLineError(f'unknown command "{word}"; use {meant}. As a prompt: qcode -p {word}')
    if hint := suggestion(word, SUBCOMMANDS, label="qcode {}", min_alike=_MIN_SIMILARITY):
        raise CommandLineError(f'unknown command "{word}"; {hint} As a prompt: qcode -p {word}')


class SubcommandArguments(NamedTuple):
    """The arguments of a subcommand."""

    options: Options
    """The values of the flags that also apply to a run of the agent."""
    words: list[str]
    """The positional arguments."""
    flags: dict[str, Any]
    """The values of all flags that were given, by `Flag.key`."""


def parse_subcommand(name: str, arguments: Sequence[str], usage: str) -> SubcommandArguments:
    """Parse the arguments of a subcommand. Raise `CommandLineError`, whose text ends with `usage`."""
    before, after = _split_at_dashes(arguments)
    parser = _Parser(SUBCOMMANDS[name].flags, usage)
    parser.add_argument("words", nargs="*", default=[])
    values = _normalize(parser.read(before))
    _refuse_contradictions(values)
    words = [*values.pop("words"), *after]
    return SubcommandArguments(Options(**_fields(values)), words, values)


def pipe_flags(options: Options) -> tuple[str, ...]:
    """Return the flags that are set in `options` but have no effect in the app."""
    default = Options()
    return tuple(
        flag.names[0]
        for flag in FLAGS
        if flag.is_for_pipe and getattr(options, flag.field) != getattr(default, flag.field)
    )


def _fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `Options` that were given."""
    fields: dict[str, Any] = {}
    for flag in FLAGS:
        if flag.field and flag.key in values:
            value = values[flag.key]
            if flag.kind == "rules":
                value = split_rules(value)
            fields[flag.field] = tuple(value) if isinstance(value, list) else value
    if "yolo" in values:
        fields["permission_mode"] = "bypass"
    if effort := _effort(values):
        fields["reasoning_effort"] = effort
    if "never_asks" in values:
        fields["never_asks"] = True
    ignored = [flag.names[0] for flag in FLAGS if flag.is_ignored and flag.key in values]
    if ignored:
        fields["notices"] = (f"{', '.join(ignored)}: no effect in qcode",)
    return fields


def _normalize(values: dict[str, Any]) -> dict[str, Any]:
    """Replace aliases of choices by their names; the mode `dontAsk` of Claude Code also sets `never_asks`."""
    if values.get("permission_mode") == _NEVER_ASKS:
        values["never_asks"] = True
    if values.get("permission_prompts") == "none":
        values.pop("permission_prompt_tool", None)
    for flag in FLAGS:
        if flag.aliases and flag.key in values:
            values[flag.key] = flag.aliases.get(values[flag.key], values[flag.key])
    return values


def _effort(values: Mapping[str, Any]) -> str:
    """Return the effort of Claude Code's flags for thinking; a named effort takes precedence over a budget."""
    budget = values.get("max_thinking_tokens")
    if values.get("thinking") == "disabled" or budget == 0:
        return "none"
    if budget is None or "reasoning_effort" in values:
        return ""
    return effort_of_budget(budget)


def _join_texts(words: Sequence[str]) -> list[str]:
    """Join `--system-prompt` with a text that begins with a dash, which argparse would parse as a flag."""
    names = {name for flag in FLAGS for name in flag.names}
    joined: list[str] = []
    for word in words:
        is_text = word.startswith("-") and word.partition("=")[0] not in names
        if joined and joined[-1] in _TEXT_FLAGS and is_text:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _refuse_contradictions(values: Mapping[str, Any]) -> None:
    for name in ("system_prompt", "append_system_prompt"):
        if name in values and f"{name}_file" in values:
            flag = f"--{name.replace('_', '-')}"
            raise CommandLineError(f"{flag} and {flag}-file cannot be combined")
    if "yolo" in values and values.get("permission_mode", "bypass") != "bypass":
        raise CommandLineError("--yolo and --permission-mode cannot be combined")
    if "continue" in values and "resume" in values:
        raise CommandLineError("-c and -r cannot be combined: -c resumes the latest session, -r ID a specific one")
    if "resume" in values and not values["resume"].strip():
        raise CommandLineError("the id after -r is empty: name a session, or use -c for the latest")
    if "model" in values and not values["model"].strip():
        raise CommandLineError("the name after -m is empty: use -m PROVIDER/MODEL")
    if "fork_session" in values and "continue" not in values and "resume" not in values:
        raise CommandLineError("--fork-session needs -c or -r: there is no session to copy")


def _refuse_mismatched_formats(options: Options) -> None:
    if options.input_format == "stream-json":
        if options.output_format != "stream-json":
            raise CommandLineError(
                "--input-format stream-json needs -o stream-json: every input line has its result line"
            )
        if options.prompt:
            raise CommandLineError(
                "with --input-format stream-json, prompts are read from standard input; remove the prompt argument"
            )
    if options.include_partial_messages and options.output_format != "stream-json":
        raise CommandLineError("--include-partial-messages needs -o stream-json")


def requested_format(argv: Sequence[str]) -> OutputFormat:
    """Return the output format that a command line requests, even if the command line is invalid."""
    before, _ = _split_at_dashes(argv)
    requested: OutputFormat = "text"
    for word, next_word in itertools.pairwise([*before, ""]):
        if word in ("-o", "--output-format"):
            format = next_word
        elif word.startswith("-o"):
            format = word.removeprefix("-o")
        elif word.startswith("--output-format="):
            format = word.partition("=")[2]
        else:
            continue
        requested = next((known for known in get_args(OutputFormat) if known == format), requested)
    return requested


def as_text(text: str) -> str:
    """Decode bytes that the locale could not decode as UTF-8; invalid bytes become U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _split_at_dashes(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split at `--`: everything after it is a prompt, even if it begins with `-`."""
    if "--" not in argv:
        return list(argv), []
    index = list(argv).index("--")
    return list(argv[:index]), list(argv[index + 1 :])


def _positive(text: str) -> int:
    number = whole_number(text)
    if not number:
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is not a whole number of at least 1")
    return number


def _non_negative(text: str) -> int:
    number = whole_number(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is not a whole number of at least 0")
    return number


def _money(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or not 0 < float(amount) < float("inf"):
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is not an amount in USD greater than 0")
    return amount


def _duration(text: str) -> float:
    seconds = seconds_of(f"{text}s" if text[-1:].isdigit() else text)
    if seconds is None:
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is not a duration such as 90s, 30m, 2h or 1d")
    return seconds


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=80)


class _Choices(tuple[str, ...]):
    """The choices of a flag as an error lists them, which contain the accepted names."""

    accepted: frozenset[str]

    def __contains__(self, value: object) -> bool:
        return value in self.accepted


def _choices(flag: Flag) -> dict[str, Any]:
    choices: dict[str, Any] = {}
    if flag.choices:
        choices["choices"] = _Choices(flag.listed_choices)
        choices["choices"].accepted = frozenset((*flag.choices, *flag.aliases))
    return {**choices, "const": CHOOSE if flag.key == "resume" else ""} if flag.kind == "optional" else choices


_ACTIONS: Mapping[str, Mapping[str, Any]] = {
    "on": {"action": "store_true"},
    "optional": {"nargs": "?", "type": as_text},
    "text": {"type": as_text},
    "choice": {},
    "texts": {"type": as_text, "action": "append"},
    "path": {"type": Path},
    "paths": {"type": Path, "action": "append"},
    "rules": {"action": "append"},
    "positive": {"type": _positive},
    "natural": {"type": _non_negative},
    "money": {"type": _money},
    "duration": {"type": _duration},
    "joined": {"type": _duration},
}
"""The arguments of `add_argument` for each kind of flag."""
