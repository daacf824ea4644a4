"""Completion scripts for bash, zsh and fish, generated from the table of flags and subcommands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from qcode.agent.models.selection import known_specs
from qcode.cli.flags import FLAGS, PROVIDER_PLACEHOLDER, SUBCOMMANDS, Flag
from qcode.config.load import load
from qcode.config.paths import ConfigPaths
from qcode.config.schema import KEYS
from qcode.protocol.errors import ConfigError
from qcode.providers.registry import PROVIDERS, accepts_key
from qcode.values import dataclass


def keyed_providers(environ: Mapping[str, str]) -> list[str]:
    """Return the providers that take a key, including those of the configuration if it is valid."""
    try:
        specs = known_specs(load(ConfigPaths.from_env(environ), environ, {}, Path.cwd(), is_trusted=False))
    except (ConfigError, OSError):
        specs = dict(PROVIDERS)
    return [name for name, spec in specs.items() if accepts_key(spec)]


def script(shell: str, providers: Sequence[str]) -> str:
    """Return the script that completes flags, their values and subcommands; the shell completes file names itself.

    `providers` are the providers that take a key.
    """
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](_commands(tuple(providers)))


@dataclass(frozen=True, slots=True)
class _CommandWords:
    """The flags of a command, and the words that may follow it."""

    flags: tuple[Flag, ...]
    following: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The possible next words after a word: `{"skills": ("list", …), "list": …}` for the command `skills`."""

    @property
    def flag_names(self) -> tuple[str, ...]:
        return tuple(name for flag in self.flags for name in flag.names)


def _commands(providers: tuple[str, ...]) -> dict[str, _CommandWords]:
    """Return the flags and words of each subcommand."""
    commands = {}
    for name, command in SUBCOMMANDS.items():
        following = {name: tuple(command.actions), **command.actions}
        if name == "config":
            following |= _config_words()
        commands[name] = _CommandWords(
            command.flags,
            {word: providers if words == PROVIDER_PLACEHOLDER else words for word, words in following.items() if words},
        )
    return commands


_BOOLEAN_VALUES = {"true or false": ("true", "false")}


def _config_words() -> dict[str, tuple[str, ...]]:
    """Return the config keys that `config set` and `unset` take, and the values of keys with a fixed choice.

    Keys with a name that the user chooses, such as `providers.NAME.type`, are omitted.
    """
    fixed_keys = [key for key in KEYS if key.name == key.name.lower()]
    values = {key.name: key.choices or _BOOLEAN_VALUES.get(key.kind.expected, ()) for key in fixed_keys}
    return {word: tuple(values) for word in ("set", "unset")} | values


def _value_flags(commands: Mapping[str, _CommandWords]) -> dict[str, str]:
    """Return two shell patterns of flags: `always` for those that require a value, `maybe` for those that allow one.

    Example: `{"always": "--model|-m|…", "maybe": "--resume|-r|…"}`. Flags of a prompt are omitted: after them no word
    is a subcommand.
    """
    flags = [*FLAGS, *(flag for words in commands.values() for flag in words.flags)]
    kinds = {
        "always": [name for flag in flags if flag.takes_value for name in flag.names],
        "maybe": [
            name for flag in flags if flag.kind == "optional" for name in flag.names if name not in _PROMPT_FLAGS
        ],
    }
    return {kind: "|".join(dict.fromkeys(names)) for kind, names in kinds.items()}


_PROMPT_FLAGS = ("-p", "--print", "--prompt", "--")
"""Flags after which no word is a subcommand."""


def _scan(commands: Mapping[str, _CommandWords]) -> str:
    """Return the body of the loop of bash and zsh over each `word` before the cursor.

    The loop sets `command` to the subcommand (`-`: the words are a prompt), and `last` to the last word that is neither
    a flag nor the value of a flag. `skip` is set after a flag with a value: `always` skips the next word, `maybe` skips
    it unless it is a flag. bash splits `--flag=value` into three words.
    """
    flags = _value_flags(commands)
    return f"""\
    if [ "$word" = "=" ]; then skip=always; continue; fi
    if [ "$skip" = always ] || {{ [ "$skip" = maybe ] && [ "${{word#-}}" = "$word" ]; }}; then skip=; continue; fi
    skip=
    case $word in
      {"|".join(_PROMPT_FLAGS)}) [ -n "$command" ] || command=- ;;
      {flags["always"]}) skip=always ;;
      {flags["maybe"]}) skip=maybe ;;
      -*) ;;
      {"|".join(commands)}) [ -n "$command" ] || command=$word; last=$word ;;
      *) [ -n "$command" ] || command=-; last=$word ;;
    esac"""


def _bash(commands: Mapping[str, _CommandWords]) -> str:
    return f"""\
_qcode() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} found= folders= command= last= skip= word
  COMPREPLY=()
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
{_scan(commands)}
  done
  [ "$cur" = "=" ] && cur=
  [ "$prev" = "=" ] && prev=${{COMP_WORDS[COMP_CWORD-2]}}
{_cases(commands)}
  if [ -n "$folders" ]; then compopt -o dirnames +o default 2>/dev/null; return; fi
  COMPREPLY=($(compgen -W "$found" -- "$cur"))
}}
complete -o default -F _qcode qcode qcode-cli
"""


def _zsh(commands: Mapping[str, _CommandWords]) -> str:
    return f"""\
#compdef qcode qcode-cli
_qcode() {{
  local cur=${{words[CURRENT]}} prev=${{words[CURRENT-1]}} found= folders= command= last= skip= word
  for word in "${{(@)words[2,CURRENT-1]}}"; do
{_scan(commands)}
  done
  if [[ $cur = --*=* ]]; then prev=${{cur%%=*}}; cur=${{cur#*=}}; compset -P '*='; fi
{_cases(commands)}
  if [ -n "$folders" ]; then _files -/
  elif [ -n "$found" ]; then compadd -- ${{=found}}
  else _files; fi
}}
compdef _qcode qcode qcode-cli
"""


def _cases(commands: Mapping[str, _CommandWords]) -> str:
    """Return the shell code that sets `found`, or `folders`, by subcommand, previous word and current word."""
    rows = ["  case $command in"]
    run = _CommandWords(FLAGS, {"": tuple(SUBCOMMANDS)})
    for name, words in (*commands.items(), ("*", run)):
        rows += [f"    {name})", *_branch(words), "      ;;"]
    return "\n".join([*rows, "  esac"])


def _branch(words: _CommandWords) -> list[str]:
    """Return the lines of the branch of a command in `_cases`."""
    rows = ["      case $prev in"]
    rows += [
        f'        {"|".join(flag.names)}) found="{" ".join(flag.choices)}" ;;' for flag in words.flags if flag.choices
    ]
    folder_flags = [flag for flag in words.flags if _takes_folder(flag)]
    if folder_flags:
        rows.append(f"        {_any_name_of(folder_flags)}) folders=1 ;;")
    text_flags = [flag for flag in words.flags if _takes_free_text(flag)]
    if text_flags:
        rows.append(f"        {_any_name_of(text_flags)}) ;;")
    rows += ["        *)", "          case $cur in", f'            -*) found="{" ".join(words.flag_names)}" ;;']
    if words.following:
        rows += ["            *)", "              case $command:$last in"]
        # Without a subcommand, `$command:$last` is ":"; otherwise it is such as "skills:list".
        rows += [
            f'                {f"*:{word}" if word else ":"}) found="{" ".join(next_words)}" ;;'
            for word, next_words in words.following.items()
        ]
        rows += ["              esac ;;"]
    return [*rows, "          esac ;;", "      esac"]


def _any_name_of(flags: Sequence[Flag]) -> str:
    """Return a shell pattern for the names of flags, such as `--cwd|-C`."""
    return "|".join(name for flag in flags for name in flag.names)


def _takes_folder(flag: Flag) -> bool:
    return flag.takes_value and flag.typed.endswith(" DIR")


def _takes_free_text(flag: Flag) -> bool:
    """Return whether the value of a flag is neither a folder nor one of a list of choices."""
    return flag.takes_value and not flag.choices and not _takes_folder(flag)


def _fish_functions(commands: Mapping[str, _CommandWords]) -> str:
    """Return the functions that the conditions of the completions use."""
    flags = {kind: names.replace("|", " ") for kind, names in _value_flags(commands).items()}
    return f"""\
# Print the subcommand before the cursor (`-`: a prompt) and the last word that is neither a flag nor its value.
function __qcode_words
  set -l command ''
  set -l last ''
  set -l skip ''
  for word in (commandline -opc)[2..]
    if test "$skip" = always; or begin; test "$skip" = maybe; and not string match -q -- '-*' $word; end
      set skip ''
      continue
    end
    set skip ''
    switch $word
      case {" ".join(_PROMPT_FLAGS)}
        test -n "$command"; or set command -
      case {flags["always"]}
        set skip always
      case {flags["maybe"]}
        set skip maybe
      case '-*'
      case {" ".join(commands)}
        test -n "$command"; or set command $word
        set last $word
      case '*'
        test -n "$command"; or set command -
        set last $word
    end
  end
  echo "$command"
  echo "$last"
end
function __qcode_command
  set -l words (__qcode_words)
  contains -- "$words[1]" $argv
end
function __qcode_after
  set -l words (__qcode_words)
  test "$words[1]" = "$argv[1]"; and test "$words[2]" = "$argv[2]"
end"""


def _fish(commands: Mapping[str, _CommandWords]) -> str:
    lines = [
        _fish_functions(commands),
        "complete -c qcode-cli -w qcode",
        f"complete -c qcode -f -n '__qcode_command \"\"' -a '{' '.join(SUBCOMMANDS)}'",
    ]
    for name, words in commands.items():
        lines += [
            f"complete -c qcode -f -n '__qcode_after {name} {word}' -a '{' '.join(next_words)}'"
            for word, next_words in words.following.items()
        ]
        lines += _fish_flags(words, f"__qcode_command {name}")
    lines += _fish_flags(_CommandWords(FLAGS), '__qcode_command "" -')
    return "".join(f"{line}\n" for line in lines)


def _fish_flags(words: _CommandWords, condition: str) -> list[str]:
    lines = []
    for flag in words.flags:
        value = f" -x -a '{' '.join(flag.choices)}'" if flag.choices else " -r" if flag.takes_value else ""
        if _takes_folder(flag):
            value = " -x -a '(__fish_complete_directories)'"
        for name in flag.names:
            kind = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            lines.append(f"complete -c qcode -n '{condition}' {kind}{value}")
    return lines
