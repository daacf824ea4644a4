"""`qcode help TOPIC`: the part of the help about a subcommand, flag, section, exit code, variable or config key.

Separate from `flags`, which must import nothing, so that `--help` is quick.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from textwrap import wrap

from qcode.cli.arguments import CommandLineError, invalid_arguments
from qcode.cli.flags import FLAGS, HELP_WIDTH, SECTIONS, SUBCOMMANDS, TOPICS, Flag, help_entry
from qcode.cli.help_text import HELP_END, USAGE_ENTRIES, help_text
from qcode.cli.terminal import write_stdout
from qcode.text.clean import one_line

_USE = "use: qcode help [TOPIC]"
_END_SECTIONS = {"exit-codes": "Exit codes:", "environment": "Environment:"}
"""The sections at the end of the help by topic."""
_MAX_TOPIC_CHARS = 60


def run_help(arguments: Sequence[str]) -> int:
    """Print the whole help or one topic; raise `CommandLineError` for an unknown topic."""
    if len(arguments) > 1:
        raise invalid_arguments(arguments, _USE)
    if not arguments:
        listed = wrap(
            f"{', '.join(TOPICS)}, a flag, an exit code, a variable, a config key or a table of them.",
            HELP_WIDTH - 2,
            break_on_hyphens=False,
        )
        joined = "\n  ".join(listed)
        write_stdout(f"{help_text()}\nTopics of qcode help TOPIC:\n  {joined}\n")
        return 0
    page = "".join(f"{line}\n" for line in topic_lines(arguments[0]))
    if not page:
        raise _unknown(arguments[0])
    write_stdout(page)
    return 0


def topic_lines(topic: str) -> Iterator[str]:
    """Yield the help about a topic; nothing if it is unknown. A subcommand and a section may have the same name."""
    if topic in SUBCOMMANDS:
        yield from _usage(topic)
        # The usage explains the flags that have no text.
        if lines := [line for flag in SUBCOMMANDS[topic].flags for line in _flag(flag)]:
            yield from ("", "Flags:", *lines)
    for title, flags in SECTIONS.items():
        if topic == title.lower().replace(" ", "-"):
            yield from ([""] if topic in SUBCOMMANDS else [])
            yield f"{title}, flags of a run:" if topic in SUBCOMMANDS else f"{title}:"
            yield from (line for flag in flags for line in _flag(flag))
    if topic in _END_SECTIONS:
        yield from _end_section(_END_SECTIONS[topic])
    yield from (line for flag in FLAGS if topic in flag.names for line in _flag(flag))
    if topic.isdigit():
        yield from _exit_code(topic)
    if re.fullmatch(r"[A-Z][A-Z_]+", topic):
        yield from _variable_lines(topic)
    yield from _key_lines(topic, includes_tables=topic not in TOPICS)


def _flag(flag: Flag) -> list[str]:
    return flag.line().splitlines() if flag.help else []


def _end_section(title: str) -> Iterator[str]:
    """Yield the lines of a section at the end of the help, up to the next blank line."""
    _, _, after_title = HELP_END.partition(title)
    section, _, _ = after_title.partition("\n\n")
    return iter(f"{title}{section}".splitlines())


def _exit_code(code: str) -> Iterator[str]:
    """Yield the exit code with its meaning. A line of the help has two exit codes."""
    for line in _end_section(_END_SECTIONS["exit-codes"]):
        entries = re.split(r"(?<! ) {2,}(?=\d)", line.strip())
        yield from (entry for entry in entries if entry.split(" ")[0] == code)


def _variable_lines(name: str) -> Iterator[str]:
    """Yield what an environment variable is for: for a provider, otherwise the lines of the help that name it."""
    from qcode.providers.registry import PROVIDERS

    keys = [spec.name for spec in PROVIDERS.values() if name in spec.key_variables]
    addresses = [spec.name for spec in PROVIDERS.values() if name in spec.base_url_variables]
    if keys:
        yield from _wrapped(f"{name}: a key of {', '.join(keys)}", "    ")
    if addresses:
        yield from _wrapped(f"{name}: the address of {', '.join(addresses)}", "    ")
    if not keys and not addresses:
        lines = _end_section(_END_SECTIONS["environment"])
        yield from (line.strip() for line in lines if name in re.findall(r"[A-Z_]+", line))


def _usage(name: str) -> Iterator[str]:
    """Yield the entries of the usage about a subcommand, in lines."""
    for form, effect in USAGE_ENTRIES:
        if re.match(rf"qcode {re.escape(name)}(?![\w-])", form):
            yield from help_entry(form, effect).splitlines()


def _key_lines(topic: str, *, includes_tables: bool) -> Iterator[str]:
    """Yield the meaning of a config key; with `includes_tables`, also of each key of a table."""
    from qcode.config.schema import KEYS

    name = topic.strip("[]")
    for key in KEYS:
        if key.name == name or (includes_tables and key.name.startswith(f"{name}.")):
            default = "" if key.default in (None, ()) else f" (default: {_display(key.default)})"
            yield from _wrapped(f"{key.name}: {key.kind.expected}{default}", "        ")
            yield from _wrapped(f"    {key.meta.meaning}", "    ")


def _wrapped(text: str, indent: str) -> list[str]:
    """Return `text` in lines of the help; `indent` is the indentation of all but the first."""
    return wrap(text, HELP_WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _display(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _unknown(topic: str) -> CommandLineError:
    from qcode.config.schema import KEYS
    from qcode.text.match import did_you_mean, suggestion

    longer = [known for known in TOPICS if topic and known.startswith(topic.lower())]  # `exit` for `exit-codes`
    if len(longer) == 1:
        hint = did_you_mean([f"qcode help {longer[0]}"])
    else:
        topics = (*TOPICS, *(key.name for key in KEYS))
        hint = suggestion(topic, topics, f"the topics are {', '.join(TOPICS)}", "qcode help {}")
    return CommandLineError(f'no help about "{one_line(topic, _MAX_TOPIC_CHARS)}"; {hint}')
