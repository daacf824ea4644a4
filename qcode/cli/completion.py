"""Completion scripts for bash, zsh and fish, made from the parser's own flags and their choices."""

from __future__ import annotations

from collections.abc import Mapping

from qcode.cli.arguments import SUBCOMMANDS, option_strings, option_values
from qcode.providers.registry import PROVIDERS, takes_key

_AFTER: Mapping[str, tuple[str, ...]] = {
    "auth": ("login", "status", "logout"),
    "config": ("path", "show"),
    "models": ("forget",),
    "permissions": ("check",),
    "check": ("shell", "read", "write", "fetch"),
    "sessions": ("list", "show", "export", "delete"),
}


def script(shell: str) -> str:
    """Return the script that completes flags, their values and subcommands; the shell completes file names itself."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()


def _bash() -> str:
    return f"""\
_qcode() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} words=
  COMPREPLY=()
  case $prev in
{_cases()}
    *)
      case $cur in
        -*) words="{" ".join(option_strings())}" ;;
        *) [ "$COMP_CWORD" -eq 1 ] && words="{" ".join(SUBCOMMANDS)}" ;;
      esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _qcode qcode
"""


def _zsh() -> str:
    return f"""\
#compdef qcode
_qcode() {{
  local cur=${{words[CURRENT]}} prev=${{words[CURRENT-1]}} found=
  case $prev in
{_cases("found")}
    *)
      case $cur in
        -*) found="{" ".join(option_strings())}" ;;
        *) [ "$CURRENT" -eq 2 ] && found="{" ".join(SUBCOMMANDS)}" ;;
      esac ;;
  esac
  [ -n "$found" ] && compadd -- ${{=found}}
  [ -z "$found" ] || [ "$CURRENT" -eq 2 ] && _files
}}
compdef _qcode qcode
"""


def _cases(variable: str = "words") -> str:
    """Return the branches for the word before: a flag with a list of values, one with any value, a subcommand."""
    rows = [f'    {flag}) {variable}="{" ".join(values)}" ;;' for flag, values in option_values().items() if values]
    free = "|".join(flag for flag, values in option_values().items() if values is None)
    rows.append(f"    {free}) ;;")
    rows += [f'    {name}) {variable}="{" ".join(following)}" ;;' for name, following in _AFTER.items()]
    rows.append(f'    {"|".join(_AFTER["auth"])}) {variable}="{" ".join(_key_takers())}" ;;')
    return "\n".join(rows)


def _key_takers() -> list[str]:
    """Return the providers a key can be stored for, those of a configuration excepted."""
    return [name for name, spec in PROVIDERS.items() if takes_key(spec)]


def _fish() -> str:
    lines = [f"complete -c qcode -n __fish_use_subcommand -a {name}" for name in SUBCOMMANDS]
    for name, following in _AFTER.items():
        lines.append(f"complete -c qcode -f -n '__fish_seen_subcommand_from {name}' -a '{' '.join(following)}'")
    takers = " ".join(_key_takers())
    lines.append(f"complete -c qcode -f -n '__fish_seen_subcommand_from auth' -a '{takers}'")
    values = option_values()
    for flag in option_strings():
        kind = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
        if flag not in values:
            lines.append(f"complete -c qcode {kind}")
        elif found := values[flag]:
            lines.append(f"complete -c qcode {kind} -x -a '{' '.join(found)}'")
        else:
            lines.append(f"complete -c qcode {kind} -r")
    return "\n".join(lines) + "\n"
