"""The text of `--help`: the forms of the command line, the flags, the exit codes and the environment.

Separate from `flags`, which every start reads; `qcode help TOPIC` prints parts of this text.
"""

from __future__ import annotations

from qcode.cli.flags import HELP_WIDTH, SECTIONS, help_entry, wrap

_PURPOSE = "qcode: a coding assistant for the terminal that never loses a reply to an output limit"
USAGE_ENTRIES: tuple[tuple[str, str], ...] = (
    ("qcode [PROMPT]", "open the app; PROMPT is sent first"),
    ("qcode -p [PROMPT]", "pipe mode: one prompt, the answer on stdout, then exit"),
    ("command | qcode -p [PROMPT]", "piped input goes before the prompt, or is the prompt"),
    (
        "qcode auth login|status|logout [PROVIDER]",
        "store, list and remove keys; login asks for a key or reads a pipe",
    ),
    ("qcode login [PROVIDER]", "the same as auth login"),
    ("qcode logout [PROVIDER]", "the same as auth logout"),
    ("qcode sessions list [WORDS] | show ID | delete ID", "list, print and delete sessions"),
    (
        "qcode sessions export ID [--format md|json|html] [--turns 3-7] [--no-tools] [-o FILE]",
        "write a session, or some of its turns, to a file",
    ),
    (
        "qcode sessions import [PATH...] [--all] [--yes] [--json]",
        "import sessions of Claude Code, Codex, qwen-code and Gemini CLI: those of this folder (--all: of every "
        "folder), or those at PATH",
    ),
    (
        "qcode import [claude|codex|gemini|qwen|opencode] [--write]",
        "show which servers, rules, commands, agents and prompts of other programs qcode can use; --write adds them to "
        "your configuration",
    ),
    (
        "qcode batch TASKS.jsonl --out RESULTS.jsonl [--jobs N]",
        "run many prompts, several at a time, and write one result per line; --ray ADDRESS runs them on a Ray cluster; "
        "takes the flags of Model, Output limits, Limits of one prompt and Permissions",
    ),
    (
        "qcode replay FILE [--diff] [--timed]",
        "play back a recording (--record FILE); --diff shows where the run differs from it",
    ),
    (
        "qcode stats [--all]",
        "print turns, tokens, cost, retries and continuations by day and model, for this folder or all folders",
    ),
    (
        "qcode models [PART OF A NAME] [--all] | forget",
        "list the models that you can use here, or all, with their limits and prices; or forget the learned limits",
    ),
    (
        "qcode config path|show|schema",
        "print the path of config.toml, every setting with its origin, or the schema for an editor",
    ),
    (
        "qcode config set KEY VALUE | unset KEY",
        "change a key of your config.toml, or with --project of this project's file; keeps comments and rejects an "
        "invalid value",
    ),
    ("qcode themes", "list the themes"),
    ("qcode version", "print the version"),
    (
        "qcode acp",
        "serve an editor (Zed, JetBrains, Neovim, Toad): speak the Agent Client Protocol on stdio; takes the flags of "
        "Model, Output limits, Limits of one prompt and Permissions, and a few others",
    ),
    ("qcode doctor", "print what needs attention here, then the facts: trust, files, keys, sandbox, terminal"),
    (
        "qcode trust [show] | accept | forget [DIR] | list",
        "show which files of this folder need trust and what changed in them; trust it, or forget it",
    ),
    (
        "qcode mcp list | show NAME | approve NAME",
        "list the tool servers, show or approve one; starts none; takes -C, --trust and --mcp-config FILE",
    ),
    (
        "qcode mcp add NAME -- COMMAND... | add NAME URL | remove NAME",
        "add a server to your config.toml, or remove one; add takes --env NAME=VALUE, --header NAME:VALUE and "
        "--transport http|sse",
    ),
    (
        "qcode mcp login NAME | logout NAME",
        "sign in to a server with a URL, or sign out; login takes --no-browser, --client-id ID and --callback-port N",
    ),
    (
        "qcode mcp serve",
        "serve other agents as a tool server on stdio, with the tools ask and permissions_check; takes -C and the "
        "flags of Model, Output limits, Limits of one prompt and Permissions",
    ),
    ("qcode hooks list", "list the hooks that run here, and those that do not, each with the reason"),
    (
        "qcode hooks test EVENT [--tool TOOL]",
        "run the hooks of an event with the JSON object on stdin (with --tool: the input of a call), and print their "
        "answers and the decision",
    ),
    (
        "qcode skills list | show NAME | check [DIR]",
        "list the skills of this folder, print one, or check whether skills follow the rules of the format",
    ),
    ("qcode permissions [list]", "print the mode and every rule that applies here, each with its origin"),
    (
        "qcode permissions check shell CMD | read PATH | write PATH | fetch URL",
        'print whether a call is allowed here, and why; runs nothing; --jsonl reads {"kind","value"} lines on stdin; '
        "takes -C, --trust, --settings, --add-dir and the flags of Permissions",
    ),
    (
        "qcode permissions hook --for claude|codex|gemini|qwen [--print]",
        "give another program the same verdicts, as its hook before each call; --print, or a terminal on stdin, "
        "prints the settings to add there",
    ),
    ("qcode update [--check]", "print how this copy was installed and is updated; only --check uses the network"),
    ("qcode uninstall [--yes]", "list the files and keys that qcode keeps, and remove them if you confirm"),
    (
        "qcode help [TOPIC]",
        "print this text, or the part about a subcommand, section, flag, exit code, variable or config key",
    ),
)
"""Each form of the command line, and its effect."""

_USAGE_NOTE = """\
auth, config, doctor, hooks, import, models, sessions and stats take -C,
--trust, --settings FILE and --json. The lists of mcp, permissions, skills,
themes and trust take -C and --json. Flags may come before a subcommand. Pipe
mode is also used if stdin or stdout is not a terminal.
"""

HELP_END = """\
Exit codes:
   0  complete                         55  ended on denied calls, no answer
   1  error                            56  still truncated; text on stdout
   2  wrong usage or unknown name      57  refused or filtered
  41  no or bad credential             75  transient failure, run it again
  42  bad input                       130  interrupted
  52  bad config                      141  the reader of stdout went away
  53  turn, call, cost or time limit  143  terminated

Environment:
  ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, OPENAI_API_KEY, GEMINI_API_KEY,
  GOOGLE_API_KEY, and the AWS credentials (bedrock; install the extra `bedrock`)
  (each takes precedence over a key stored with qcode auth login; auth status
  shows which one is used)
  ANTHROPIC_BASE_URL, OPENAI_BASE_URL, GOOGLE_GEMINI_BASE_URL
  QCODE_MODEL, QCODE_MAX_OUTPUT_TOKENS, QCODE_HOME (folder of config and state)
  NO_COLOR, COLORTERM, VISUAL, EDITOR, HTTPS_PROXY, SSL_CERT_FILE
  TERM=dumb (the app in linear mode: plain lines, for a screen reader)

The app asks before it uses files of an unknown folder; pipe mode never asks and
is restricted there. Without a key the app first asks for one; Esc opens the
built-in demo model, which works offline.
"""


def help_text() -> str:
    """Return the text of `--help`, in lines of at most `HELP_WIDTH` characters."""
    purpose = "".join(f"{line}\n" for line in wrap(_PURPOSE, HELP_WIDTH))
    usage = "".join(help_entry(form, effect) for form, effect in USAGE_ENTRIES)
    sections = (f"{title}:\n{''.join(flag.line() for flag in flags)}\n" for title, flags in SECTIONS.items())
    return "".join((f"{purpose}\nUsage:\n{usage}\n{_USAGE_NOTE}\n", *sections, HELP_END))
