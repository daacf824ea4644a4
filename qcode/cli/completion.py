"""Completion scripts for bash, zsh and fish, made from the parsers' own flags and their choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from qcode.agent.models.selection import known_specs
from qcode.cli.flags import SUBCOMMANDS, option_strings, option_values
from qcode.cli.mcp import FLAGS as MCP_FLAGS
from qcode.cli.mcp import SWITCHES as MCP_SWITCHES
from qcode.cli.permissions import FLAGS, KINDS, SWITCHES
from qcode.config.load import load
from qcode.config.paths import ConfigPaths
from qcode.protocol.errors import ConfigError
from qcode.providers.registry import PROVIDERS, takes_key
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class _Words:
    """What can follow: `values` are flags that take one, with those there are (None: any); `after` goes by the word
    before, the first of them being the command's own name."""

    values: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    switches: tuple[str, ...] = ()
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def flags(self) -> tuple[str, ...]:
        return (*self.values, *self.switches)


def key_takers(environ: Mapping[str, str]) -> list[str]:
    """Return the providers a key can be stored for, those of the person's configuration included if it can be read."""
    try:
        specs = known_specs(load(ConfigPaths.from_env(environ), environ, {}, Path.cwd(), is_trusted=False))
    except (ConfigError, OSError):
        specs = dict(PROVIDERS)
    return [name for name, spec in specs.items() if takes_key(spec)]


def script(shell: str, takers: Sequence[str]) -> str:
    """Return the script that completes flags, their values and subcommands; the shell completes file names itself.

    `takers` are the providers a key can be stored for.
    """
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](_commands(tuple(takers)))


def _commands(takers: tuple[str, ...]) -> dict[str, _Words]:
    """Return what can follow each subcommand."""
    known = {
        "auth": _Words(
            switches=("--no-check", "--json"),
            after={"auth": ("login", "status", "logout"), **dict.fromkeys(("login", "status", "logout"), takers)},
        ),
        "config": _Words(after={"config": ("path", "show")}),
        "mcp": _Words(MCP_FLAGS, MCP_SWITCHES, {"mcp": ("list", "show", "approve")}),
        "models": _Words(after={"models": ("forget",)}),
        "permissions": _Words(FLAGS, SWITCHES, {"permissions": ("list", "check"), "check": KINDS}),
        "sessions": _Words(after={"sessions": ("list", "show", "export", "delete")}),
        "trust": _Words(after={"trust": ("show", "accept", "forget", "list")}),
    }
    return {name: known.get(name, _Words()) for name in SUBCOMMANDS}


def _main() -> _Words:
    values = option_values()
    return _Words(values, tuple(flag for flag in option_strings() if flag not in values))


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
complete -o default -F _qcode qcode
"""


def _zsh(commands: Mapping[str, _Words]) -> str:
    return f"""\
#compdef qcode
_qcode() {{
  local cur=${{words[CURRENT]}} prev=${{words[CURRENT-1]}} found= command=
  [ "$CURRENT" -gt 2 ] && command=${{words[2]}}
{_cases(commands)}
  [ "$CURRENT" -eq 2 ] && [ "${{cur#-}}" = "$cur" ] && found="{" ".join(SUBCOMMANDS)}"
  [ -n "$found" ] && compadd -- ${{=found}}
  [ -z "$found" ] || [ "$CURRENT" -eq 2 ] && _files
}}
compdef _qcode qcode
"""


def _cases(commands: Mapping[str, _Words]) -> str:
    """Return what sets `found`: by the subcommand, if there is one, then by the word before and the word itself."""
    rows = ["  case $command in"]
    for name, words in (*commands.items(), ("*", _main())):
        rows += [f"    {name})", *_branch(words), "      ;;"]
    return "\n".join([*rows, "  esac"])


def _branch(words: _Words) -> list[str]:
    rows = ["      case $prev in"]
    rows += [f'        {flag}) found="{" ".join(values)}" ;;' for flag, values in words.values.items() if values]
    free = "|".join(flag for flag, values in words.values.items() if values is None)
    rows += [f"        {free}) ;;"] if free else []
    rows += ["        *)", "          case $cur in", f'            -*) found="{" ".join(words.flags)}" ;;']
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
    return "\n".join([*lines, *_fish_flags(_main(), f"not __fish_seen_subcommand_from {' '.join(commands)}")]) + "\n"


def _fish_flags(words: _Words, condition: str) -> list[str]:
    lines = []
    for flag in words.flags:
        kind = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
        line = f"complete -c qcode -n '{condition}' {kind}"
        if flag in words.values:
            found = words.values[flag]
            line += f" -x -a '{' '.join(found)}'" if found else " -r"
        lines.append(line)
    return lines
