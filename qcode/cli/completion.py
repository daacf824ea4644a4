"""Completion scripts for bash, zsh and fish, generated from the table of flags and subcommands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from qcode.agent.models.selection import known_specs
from qcode.cli.flags import FLAGS, KEY_TAKERS, SUBCOMMANDS, Flag
from qcode.config.load import load
from qcode.config.paths import ConfigPaths
from qcode.config.schema import KEYS
from qcode.protocol.errors import ConfigError
from qcode.providers.registry import PROVIDERS, takes_key
from qcode.values import dataclass


def key_takers(environ: Mapping[str, str]) -> list[str]:
    """Return the providers that take a key, including those of the configuration if it is valid."""
    try:
        specs = known_specs(load(ConfigPaths.from_env(environ), environ, {}, Path.cwd(), is_trusted=False))
    except (ConfigError, OSError):
        specs = dict(PROVIDERS)
    return [name for name, spec in specs.items() if takes_key(spec)]


def script(shell: str, takers: Sequence[str]) -> str:
    """Return the script that completes flags, their values and subcommands; the shell completes file names itself.

    `takers` are the providers that take a key.
    """
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](_commands(tuple(takers)))


@dataclass(frozen=True, slots=True)
class _Words:
    """The flags of a command, and the words that may follow a word; the first of those is the command's name."""

    flags: tuple[Flag, ...]
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for flag in self.flags for name in flag.names)


def _commands(takers: tuple[str, ...]) -> dict[str, _Words]:
    """Return the flags and words of each subcommand."""
    found = {}
    for name, command in SUBCOMMANDS.items():
        after = {name: tuple(command.actions), **command.actions}
        if name == "config":
            after |= _config_words()
        known = {word: takers if words == KEY_TAKERS else words for word, words in after.items() if words}
        found[name] = _Words(command.flags, known)
    return found


_SWITCH = {"true or false": ("true", "false")}


def _config_words() -> dict[str, tuple[str, ...]]:
    """Return the config keys that `config set` and `unset` take, and the values of those with a few.

    Keys with a name that the user chooses, such as `providers.NAME.type`, are left out.
    """
    named = [key for key in KEYS if key.name == key.name.lower()]
    values = {key.name: key.choices or _SWITCH.get(key.kind.words, ()) for key in named}
    return {word: tuple(values) for word in ("set", "unset")} | values


def _bash(commands: Mapping[str, _Words]) -> str:
    return f"""\
_qcode() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} found= command=
  COMPREPLY=()
  [ "$COMP_CWORD" -gt 1 ] && command=${{COMP_WORDS[1]}}
{_cases(commands)}
  [ "$COMP_CWORD" -eq 1 ] && [ "${{cur#-}}" = "$cur" ] && found="{" ".join(SUBCOMMANDS)}"
  COMPREPLY=($(compgen -W "$found" -- "$cur"))
}}
complete -o default -F _qcode qcode qcode-cli
"""


def _zsh(commands: Mapping[str, _Words]) -> str:
    return f"""\
#compdef qcode qcode-cli
_qcode() {{
  local cur=${{words[CURRENT]}} prev=${{words[CURRENT-1]}} found= command=
  [ "$CURRENT" -gt 2 ] && command=${{words[2]}}
{_cases(commands)}
  [ "$CURRENT" -eq 2 ] && [ "${{cur#-}}" = "$cur" ] && found="{" ".join(SUBCOMMANDS)}"
  [ -n "$found" ] && compadd -- ${{=found}}
  [ -z "$found" ] || [ "$CURRENT" -eq 2 ] && _files
}}
compdef _qcode qcode qcode-cli
"""


def _cases(commands: Mapping[str, _Words]) -> str:
    """Return the shell code that sets `found`, by subcommand if there is one, previous word and current word."""
    rows = ["  case $command in"]
    for name, words in (*commands.items(), ("*", _Words(FLAGS))):
        rows += [f"    {name})", *_branch(words), "      ;;"]
    return "\n".join([*rows, "  esac"])


def _branch(words: _Words) -> list[str]:
    rows = ["      case $prev in"]
    rows += [
        f'        {name}) found="{" ".join(flag.choices)}" ;;'
        for flag in words.flags
        if flag.choices
        for name in flag.names
    ]
    free = "|".join(name for flag in words.flags if flag.takes_value and not flag.choices for name in flag.names)
    rows += [f"        {free}) ;;"] if free else []
    rows += ["        *)", "          case $cur in", f'            -*) found="{" ".join(words.names)}" ;;']
    if words.after:
        rows += ["            *)", "              case $prev in"]
        rows += [f'                {word}) found="{" ".join(following)}" ;;' for word, following in words.after.items()]
        rows += ["              esac ;;"]
    return [*rows, "          esac ;;", "      esac"]


def _fish(commands: Mapping[str, _Words]) -> str:
    lines = [f"complete -c qcode -n __fish_use_subcommand -a {name}" for name in SUBCOMMANDS]
    for name, words in commands.items():
        seen = f"__fish_seen_subcommand_from {name}"
        for word, following in words.after.items():
            inner = "" if word == name else f"; and __fish_seen_subcommand_from {word}"
            done = f"; and not __fish_seen_subcommand_from {' '.join(following)}"
            lines.append(f"complete -c qcode -f -n '{seen}{inner}{done}' -a '{' '.join(following)}'")
        lines += _fish_flags(words, seen)
    lines += _fish_flags(_Words(FLAGS), f"not __fish_seen_subcommand_from {' '.join(commands)}")
    return "".join(f"{line}\n" for line in lines)


def _fish_flags(words: _Words, condition: str) -> list[str]:
    lines = []
    for flag in words.flags:
        value = f" -x -a '{' '.join(flag.choices)}'" if flag.choices else " -r" if flag.takes_value else ""
        for name in flag.names:
            kind = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            lines.append(f"complete -c qcode -n '{condition}' {kind}{value}")
    return lines
