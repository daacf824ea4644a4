"""The flags and subcommands of the command line, each declared once.

The parser (`arguments`), the help (`help_text`), the completion scripts, the check for flags of pipe mode and the
generated reference page read this table. It imports nothing, so that `--help` answers before anything else is loaded.
"""

from __future__ import annotations

from qcode import __version__

VERSION = f"qcode {__version__}"
PROVIDER_PLACEHOLDER = ("PROVIDER",)
"""Stands for the names of providers that take a key; the completion scripts insert them."""

REFUSED_FLAGS: dict[str, str] = {
    "--session-mirror": "sessions are stored on this machine only",
    "--resume-session-at": "a session is resumed as a whole; /rewind goes back in the app",
    "--resume-drops-turn": "a session is resumed as a whole; /rewind goes back in the app",
}
"""Flags of Claude Code that qcode refuses, with the reason: ignoring them would lose data or change history."""

_VALUE_KINDS = ("text", "texts", "path", "paths", "rules", "positive", "natural", "money", "duration", "choice")
HELP_WIDTH = 80
"""The maximum length of a line of the help."""
_TEXT_COLUMN = 34
"""The column of the help in which the texts begin."""


def help_entry(typed: str, text: str) -> str:
    """Return an entry of the help: what is typed, and the wrapped `text` beside it or, if there is no space, below."""
    first, *others = wrap(typed, HELP_WIDTH - 2)
    left = [f"  {first}", *(f"      {line}" for line in others)]
    right = wrap(text, HELP_WIDTH - _TEXT_COLUMN)
    if right and len(left) == 1 and len(left[0]) < _TEXT_COLUMN:
        left = [f"{left[0]:<{_TEXT_COLUMN}}{right.pop(0)}"]
    return "".join(f"{line}\n" for line in (*left, *(" " * _TEXT_COLUMN + line for line in right)))


def wrap(text: str, width: int) -> list[str]:
    """Return `text` in lines of at most `width` characters. `textwrap` would delay the help by several milliseconds."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        elif word or not lines:
            lines.append(word)
    return lines if text else []


class Flag:
    """A flag: its names, its value, the option it sets, and its line of the help."""

    def __init__(
        self,
        typed: str,
        kind: str,
        help: str = "",
        *,
        field: str | None = None,
        choices: tuple[str, ...] = (),
        has_default: bool = False,
        is_for_pipe: bool = False,
        const: str = "",
        aliases: tuple[tuple[str, str], ...] = (),
        foreign_aliases: tuple[tuple[str, str], ...] = (),
        is_ignored: bool = False,
    ) -> None:
        words = typed.replace(",", "").split()
        self.typed = typed
        """The names as in the help, short names first, and a placeholder for the value."""
        self.names = tuple(word.partition("[=")[0] for word in words if word.startswith("-"))  # not the `[=MAX]`
        self.key = next(name for name in self.names if name.startswith("--"))[2:].replace("-", "_")
        """The first long name with underscores, such as `max_turns`."""
        self.kind = kind
        """`on`: a switch. One of `_VALUE_KINDS`: a value follows; `texts`, `paths` and `rules` may be repeated; the
        value of `rules` is a list separated by commas. `optional`: a value may follow. `joined`: a value may follow
        after `=`; otherwise it is `const`. `shown`: shown in the help, but handled before parsing."""
        self.help = help
        """The text of the help, in which `{choices}` stands for the choices."""
        self.field = ("" if is_ignored else self.key) if field is None else field
        """The field of `Options` that the flag sets; empty for a flag with special handling."""
        self.choices = choices
        self.has_default = has_default
        """The first of the choices is the default."""
        self.is_for_pipe = is_for_pipe
        """The flag has no effect in the app."""
        self.const = const
        self.aliases = dict(aliases + foreign_aliases)
        """The choices by their other names. `foreign_aliases` are the names in other programs."""
        self.listed_choices = tuple(
            " ".join((choice, *(f"(or {alias})" for alias, name in aliases if name == choice))) for choice in choices
        )
        """The choices as an error lists them, such as `default (or ask)`, without the names in other programs."""
        self.is_ignored = is_ignored
        """The flag is accepted without effect."""

    @property
    def takes_value(self) -> bool:
        return self.kind in _VALUE_KINDS

    def line(self) -> str:
        """Return the entry of the flag in the help. A long name is indented as if a short one, `-x, `, came first."""
        return help_entry(f"    {self.typed}" if self.typed.startswith("--") else self.typed, self.meaning)

    @property
    def meaning(self) -> str:
        if not self.choices:
            return self.help
        first, *middle, last = self.choices
        return self.help.format(
            choices=", ".join((f"{first} (default)" if self.has_default else first, *middle, f"or {last}"))
        )


class Subcommand:
    """A subcommand with its actions, the words that may follow each action, and its flags."""

    def __init__(self, actions: dict[str, tuple[str, ...]] | None = None, flags: tuple[Flag, ...] = ()) -> None:
        self.actions = actions or {}
        self.flags = flags


_THINKING = ("adaptive", "enabled", "disabled")
SECTIONS: dict[str, tuple[Flag, ...]] = {
    "Prompt and output": (
        Flag(
            "-p, --print, --prompt [TEXT]",
            "optional",
            "run one prompt in pipe mode; TEXT may also come without the flag",
            field="",
        ),
        Flag("-f, --file PATH", "paths", "attach a file or image (repeatable), like @path in the prompt"),
        Flag(
            "-o, --output-format FORMAT",
            "choice",
            "print {choices}",
            choices=("text", "json", "stream-json"),
            has_default=True,
            is_for_pipe=True,
        ),
        Flag(
            "--no-stdin",
            "on",
            "do not read standard input; without this flag a pipe is read to its end",
            is_for_pipe=True,
        ),
        Flag("--include-partial-messages", "on", "add a line for each chunk of text to -o stream-json"),
        Flag(
            "--input-format FORMAT",
            "choice",
            "read {choices}: each line on stdin is a prompt; requires -o stream-json",
            choices=("text", "stream-json"),
            has_default=True,
            is_for_pipe=True,
        ),
        Flag(
            "--json-schema JSON|@FILE",
            "text",
            "require an answer in JSON that is valid under this schema; exit with code 1 if the model gives none",
            is_for_pipe=True,
        ),
        Flag(
            "--replay-user-messages",
            "on",
            "write each accepted line of stream-json input back, with its uuid",
            is_for_pipe=True,
        ),
        Flag("-v, --verbose", "on", "report progress, tokens and cost on stderr"),
    ),
    "Model": (
        Flag(
            "-m, --model PROVIDER/MODEL",
            "text",
            "use this model; PROVIDER is a known name (openai, anthropic, gemini, openrouter, ollama, demo, ...) or "
            "one from the config; the name of the model alone works if only one provider has it",
        ),
        Flag("--base-url URL", "text", "send requests to this address of the chosen provider"),
        Flag(
            "--fallback-model MODELS",
            "rules",
            "continue with these models (separated by commas) if this one is overloaded, unreachable or at a limit",
        ),
        Flag(
            "--reasoning-effort, --effort LEVEL",
            "choice",
            "let the model think at this level: {choices}",
            choices=("none", "minimal", "low", "medium", "high", "max"),
            foreign_aliases=(("xhigh", "high"),),
        ),
        Flag(
            "--system-prompt TEXT", "text", 'replace the system prompt; "" sends only the facts about folder and date'
        ),
        Flag("--append-system-prompt TEXT", "text", "add this text to the system prompt"),
        Flag("--system-prompt-file FILE", "path", "replace the system prompt with the text of a file"),
        Flag("--append-system-prompt-file FILE", "path", "add the text of a file to the system prompt"),
    ),
    "Output limits": (
        Flag("--max-output-tokens N", "positive", "use this output cap for every request; turns escalation off"),
        Flag("--max-continuations N", "natural", "continue a truncated reply at most N times (default: 3)"),
        Flag("--no-escalation", "on", "continue a truncated reply instead of requesting it again with a larger cap"),
    ),
    "Limits of one prompt": (
        Flag(
            "--max-turns N", "positive", "stop after N model replies (default: 100 in pipe mode, unlimited in the app)"
        ),
        Flag("--max-tool-calls N", "natural", "stop after N tool calls (default: unlimited)"),
        Flag(
            "--max-budget-usd X",
            "money",
            "stop when the cost reaches X USD; an error if the price of the model is unknown",
        ),
        Flag("--timeout TIME", "duration", "cancel the prompt after this time (90s, 30m, 2h) and keep its text"),
        Flag(
            "--wait-for-limit[=MAX]",
            "joined",
            "wait for the end of a rate limit, at most MAX (90s, 2h, 1d; default: 24h)",
            const="24h",
        ),
    ),
    "Permissions": (
        Flag(
            "--permission-mode MODE",
            "choice",
            "start in this mode: {choices}; ask is another name for default",
            choices=("plan", "default", "accept-edits", "auto", "bypass"),
            aliases=(("ask", "default"),),
            foreign_aliases=(
                ("acceptEdits", "accept-edits"),
                ("bypassPermissions", "bypass"),
                ("dontAsk", "default"),
            ),
        ),
        Flag(
            "--allowed-tools, --allowedTools RULES",
            "rules",
            "let calls that match these rules run without approval, such as 'shell(git log *)' (repeatable); Claude "
            "Code's form 'Bash(git log:*)' works too",
        ),
        Flag(
            "--disallowed-tools, --disallowedTools RULES",
            "rules",
            "deny calls that match these rules (repeatable); a tool name alone removes the tool",
        ),
        Flag(
            "--tools NAMES",
            "rules",
            'offer only these tools, such as read,grep; "" offers none, default offers all',
            field="builtin_tools",
        ),
        Flag(
            "--permission-prompt-tool NAME",
            "text",
            "stdio: ask the program that controls the run for approvals",
            is_for_pipe=True,
        ),
        Flag("--strict-tools", "on", "end the turn with an error if the model calls an unknown tool"),
        Flag("--yolo, --dangerously-skip-permissions", "on", "the same as --permission-mode bypass", field=""),
        Flag(
            "--allow-dangerously-skip-permissions",
            "on",
            "let a program that controls this run choose bypass mode later",
        ),
        Flag(
            "--exit-tools FILE",
            "path",
            "offer the tools of this JSON list, but run none; the JSON result lists their calls in `signals`",
        ),
        Flag("--add-dir DIR", "paths", "let tools work in this folder too (repeatable)"),
        Flag("--trust", "on", "trust this folder for this run: use its settings and instructions"),
    ),
    "Sessions": (
        Flag("-c, --continue", "on", "resume the latest session of this folder", field=""),
        Flag("-r, --resume [ID]", "optional", "resume a session; without ID, choose one (in the app)", field=""),
        Flag("--fork-session", "on", "continue in a copy of the session; requires -c or -r"),
        Flag("--session-id UUID", "text", "give the new session this id"),
        Flag("--no-session, --no-session-persistence", "on", "keep nothing on disk"),
    ),
    "Other": (
        Flag("-C, --cwd DIR", "path", "work in DIR"),
        Flag(
            "--settings FILE|JSON",
            "text",
            "read another config file (TOML), or settings of Claude Code (a .json file, or JSON text)",
        ),
        Flag(
            "--setting-sources SOURCES",
            "rules",
            "use settings, commands, agents and instructions of these sources only (default: user,project)",
        ),
        Flag(
            "--mcp-config FILE|JSON",
            "texts",
            "add tool servers from a JSON or TOML file, or from JSON text (repeatable)",
        ),
        Flag("--strict-mcp-config", "on", "use only the tool servers of --mcp-config"),
        Flag("--no-hooks", "on", "do not run the configured hooks"),
        Flag("--no-skills", "on", "do not read or offer skills"),
        Flag("--theme NAME", "text", "use this theme in the app"),
        Flag("--debug-log FILE", "path", "write a log of requests and decisions, without keys"),
        Flag("--record FILE", "path", "record the replies of the model, without keys, for -m replay/FILE"),
        Flag(
            "--completion SHELL", "choice", "print the completion script for {choices}", choices=("bash", "zsh", "fish")
        ),
        Flag("--login", "shown", "ask for an API key and store it, as qcode auth login does", field=""),
        Flag("--version", "shown", "print the version"),
        Flag("-h, --help", "shown", "print this text, or the part about a subcommand that comes before the flag"),
    ),
    "Flags of Claude Code": (
        Flag(
            "--permission-prompts WHO",
            "choice",
            "host (default): the controlling program answers approvals; none: they are all denied",
            field="",
            choices=("host", "none"),
        ),
        Flag(
            "--thinking KIND",
            "choice",
            "{choices}; disabled sets the effort to none, the others change nothing",
            field="",
            choices=_THINKING,
        ),
        Flag(
            "--max-thinking-tokens N",
            "natural",
            "set the effort: none at 0, low up to 4,096, medium up to 16,384, high above",
            field="",
        ),
        *(
            Flag(typed, kind, "accepted, has no effect", is_ignored=True)
            for typed, kind in (
                ("--betas NAMES", "text"),
                ("--debug", "on"),
                ("--debug-file FILE", "text"),
                ("--include-hook-events", "on"),
                ("--plugin-dir DIR", "texts"),
                ("--plugin-dir-no-mcp DIR", "texts"),
                ("--task-budget N", "text"),
                ("--thinking-display KIND", "text"),
            )
        ),
    ),
}

FLAGS: tuple[Flag, ...] = tuple(flag for flags in SECTIONS.values() for flag in flags)


def _shared_flags(*names: str) -> tuple[Flag, ...]:
    """Return flags of a run that a subcommand shares."""
    return tuple(next(flag for flag in FLAGS if name in flag.names) for name in names)


_JSON_FLAG = Flag("--json", "on", "print a list or a fact as JSON, for scripts")
_NO_CHECK_FLAG = Flag("--no-check", "on", "store a key without checking it at the provider")
_FOLDER_FLAGS = (*_shared_flags("--cwd", "--trust", "--settings"), _JSON_FLAG)
"""The flags of subcommands that print facts about a folder."""
_RUN_SECTIONS = ("Model", "Output limits", "Limits of one prompt", "Permissions")
"""The sections of the flags of subcommands that run a conversation."""
SUBCOMMANDS: dict[str, Subcommand] = {
    "acp": Subcommand(
        flags=(
            Flag("--login", "on", "ask for an API key in the terminal instead, and store it"),
            *(flag for title in _RUN_SECTIONS for flag in SECTIONS[title]),
            *_shared_flags("--settings", "--mcp-config", "--no-hooks", "--no-skills"),
            *_shared_flags("--debug-log", "--no-session", "--verbose"),
        )
    ),
    "auth": Subcommand(
        {"login": PROVIDER_PLACEHOLDER, "status": PROVIDER_PLACEHOLDER, "logout": PROVIDER_PLACEHOLDER},
        (_NO_CHECK_FLAG, *_FOLDER_FLAGS),
    ),
    "batch": Subcommand(
        flags=(
            Flag("--out FILE", "path"),
            Flag("--jobs N", "positive"),
            Flag("--ray ADDRESS", "text"),
            *(flag for title in _RUN_SECTIONS for flag in SECTIONS[title]),
            *_shared_flags("--cwd", "--settings", "--mcp-config", "--no-hooks", "--no-skills", "--no-session"),
        )
    ),
    "config": Subcommand(
        {"path": (), "show": (), "schema": (), "set": (), "unset": ()}, (Flag("--project", "on"), *_FOLDER_FLAGS)
    ),
    "doctor": Subcommand(flags=_FOLDER_FLAGS),
    "hooks": Subcommand({"list": (), "test": ()}, (Flag("--tool TOOL", "text"), *_FOLDER_FLAGS)),
    "import": Subcommand(
        dict.fromkeys(("claude", "codex", "gemini", "qwen", "opencode"), ()),
        (Flag("--write", "on"), *_FOLDER_FLAGS),
    ),
    "login": Subcommand(dict.fromkeys(PROVIDER_PLACEHOLDER, ()), (_NO_CHECK_FLAG,)),
    "logout": Subcommand(dict.fromkeys(PROVIDER_PLACEHOLDER, ())),
    "mcp": Subcommand(
        {"list": (), "show": (), "approve": (), "add": (), "remove": (), "login": (), "logout": (), "serve": ()},
        (
            *(flag for title in _RUN_SECTIONS for flag in SECTIONS[title]),
            *_shared_flags("--cwd", "--mcp-config", "--settings", "--no-hooks", "--no-skills", "--no-session"),
            Flag("--env NAME=VALUE", "texts"),
            Flag("--header NAME:VALUE", "texts"),
            Flag("--transport KIND", "choice", choices=("http", "sse")),
            Flag("--no-browser", "on"),
            Flag("--client-id ID", "text"),
            Flag("--callback-port N", "positive"),
            _JSON_FLAG,
        ),
    ),
    "models": Subcommand({"forget": ()}, (Flag("--all", "on"), *_FOLDER_FLAGS)),
    "permissions": Subcommand(
        {"list": (), "check": ("shell", "read", "write", "fetch"), "hook": ()},
        (
            Flag("--for PROGRAM", "choice", choices=("claude", "codex", "gemini", "qwen")),
            Flag("--print", "on"),
            *_shared_flags(
                "--cwd", "--permission-mode", "--allowed-tools", "--disallowed-tools", "--add-dir", "--settings"
            ),
            Flag("--jsonl", "on"),
            _JSON_FLAG,
            *_shared_flags("--trust", "--yolo"),
        ),
    ),
    "replay": Subcommand(
        flags=(
            Flag("--diff", "on"),
            Flag("--timed", "on"),
            *_shared_flags(
                "--cwd", "--trust", "--permission-mode", "--allowed-tools", "--disallowed-tools", "--add-dir"
            ),
        )
    ),
    "sessions": Subcommand(
        {"list": (), "show": (), "export": (), "import": (), "delete": ()},
        (
            Flag("--format FORMAT", "choice", choices=("md", "json", "html")),
            Flag("--turns RANGE", "text"),
            Flag("--no-tools", "on"),
            Flag("-o, --output FILE", "path"),
            Flag("--all", "on"),
            Flag("-y, --yes", "on"),
            *_FOLDER_FLAGS,
        ),
    ),
    "skills": Subcommand({"list": (), "show": (), "check": ()}, (*_shared_flags("--cwd", "--trust"), _JSON_FLAG)),
    "stats": Subcommand(flags=(Flag("--all", "on"), *_FOLDER_FLAGS)),
    "themes": Subcommand(flags=(*_shared_flags("--cwd"), _JSON_FLAG)),
    "trust": Subcommand({"show": (), "accept": (), "forget": (), "list": ()}, (*_shared_flags("--cwd"), _JSON_FLAG)),
    "uninstall": Subcommand(flags=(Flag("-y, --yes", "on", "remove the files and keys without asking"),)),
    "update": Subcommand(flags=(Flag("--check", "on", "ask the package index for the newest version"),)),
    "version": Subcommand(),
}
TOPICS = tuple(
    dict.fromkeys((*SUBCOMMANDS, *(title.lower().replace(" ", "-") for title in SECTIONS), "exit-codes", "environment"))
)
"""The topics of `qcode help`, beside flags and config keys."""
SUBCOMMANDS["help"] = Subcommand(dict.fromkeys(TOPICS, ()))
