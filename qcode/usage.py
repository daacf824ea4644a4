"""The help text of the command line, as plain text: `--help` answers without loading a parser or a front end.

`cli` parses; a flag joins its parser and this text together. Exit codes and environment are those of the contract.
"""

from __future__ import annotations

from qcode import __version__

VERSION = f"qcode {__version__}"

HELP = """\
qcode: a coding assistant for the terminal that never loses a reply to an output limit

Usage:
  qcode [PROMPT]                  open the app; PROMPT is sent first
  qcode -p [PROMPT]               pipe mode: one prompt, the answer on stdout, then exit
  command | qcode -p [PROMPT]     piped input goes before the prompt, or is the prompt
  qcode auth login|status|logout [PROVIDER]  store, list and forget keys; login reads the key unseen or from a pipe
  qcode sessions list [WORDS]|show ID|export ID [--format md|json|html] [-o FILE]|delete ID
  qcode models [PART OF A NAME]|forget       qcode themes                    qcode config path|show
  qcode doctor                    what this machine gives to work with: sandbox, programs, keys, files, limits learned
  qcode trust [show]|accept|forget [DIR]|list     what this folder brings, and what changed since you trusted it
  qcode mcp list|show NAME|approve NAME      tool servers, and what of them waits for you; takes -C, --trust
                                  and --mcp-config FILE; starts none
  qcode permissions [list]        the mode and every rule that counts here, with where each comes from
  qcode permissions check shell CMD|read PATH|write PATH|fetch URL      what would be allowed here, and why
                                  (--jsonl: {"kind","value"} lines on stdin); takes -C, --trust, --settings,
                                  --add-dir and the flags of Permissions; runs nothing

Pipe mode is also taken where stdin or stdout is no terminal.

Prompt and output:
  -p, --print, --prompt [TEXT]    pipe mode; the text may also be positional
  -f, --file PATH                 attach a file or image (repeatable); @path in the prompt does the same
  -o, --output-format FORMAT      text (default), json, or stream-json
      --include-partial-messages  stream-json: add a line for each piece of text
      --input-format FORMAT       text (default), or stream-json: each line on stdin is a prompt; with -o stream-json
      --json-schema JSON|@FILE    the answer is JSON that is valid under this schema, or the exit code is 1
  -v, --verbose                   say on stderr what happens and what it took

Model:
  -m, --model PROVIDER/MODEL      openai (and compatible servers), openai-responses, anthropic, gemini, bedrock,
                                  demo, a named server such as ollama or openrouter, or a provider from the
                                  config; a bare model name works where it is unique
      --base-url URL              endpoint of the chosen provider
      --reasoning-effort LEVEL    none, minimal, low, medium, high, or max
      --system-prompt TEXT        replace the system prompt
      --append-system-prompt TEXT add to the system prompt

Output limits:
      --max-output-tokens N       output cap of every request (turns escalation off)
      --max-continuations N       how often a cut reply is continued (default 3; 0: never)
      --no-escalation             continue a cut reply instead of asking again with a larger cap

Limits of one prompt:
      --max-turns N               model replies (default: 100 in pipe mode, unlimited in the app)
      --max-tool-calls N          tool calls (default: unlimited)
      --max-budget-usd X          money; an error where the price of the model is unknown

Permissions:
      --permission-mode MODE      plan, default, accept-edits, auto, or bypass
      --allowed-tools RULES       rules that need no approval, such as 'shell(git log *)' (repeatable)
      --disallowed-tools RULES    rules that are never allowed (repeatable)
      --yolo                      the same as --permission-mode bypass
      --exit-tools FILE           JSON list of tools whose calls are reported as signals and never run
      --add-dir DIR               a further folder the tools may work in (repeatable)
      --trust                     trust this folder for this run: its settings and instructions are used

Sessions:
  -c, --continue                  go on with the latest session of this folder
  -r, --resume [ID]               go on with a session; without ID, choose one (in the app)
      --fork-session              with -c or -r: go on in a copy
      --no-session                keep nothing on disk

Other:
  -C, --cwd DIR                   work in DIR
      --settings FILE             a further config file (TOML)
      --mcp-config FILE           tool servers from a file, JSON or TOML (repeatable)
      --theme NAME                theme of the app
      --debug-log FILE            write a log of requests and decisions, without keys
      --completion SHELL          print the completion script for bash, zsh, or fish
      --version                   print the version
  -h, --help                      print this text

Exit codes:
    0  complete                             55  ended on denied calls, no answer
    1  error                                56  answer incomplete, still cut; text on stdout
    2  wrong usage or unknown name          57  refused or filtered
   41  no or bad credential                 75  transient failure, worth running again
   42  bad input                           130  interrupted
   52  bad config                          141  reader went away
   53  turn, tool-call or cost limit       143  terminated

Environment:
  ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, OPENAI_API_KEY, GEMINI_API_KEY, GOOGLE_API_KEY, and
  the AWS chain (bedrock, with the extra of that name)
  (each goes before a key stored with qcode auth login; auth status says which one is used)
  ANTHROPIC_BASE_URL, OPENAI_BASE_URL, GOOGLE_GEMINI_BASE_URL
  QCODE_MODEL, QCODE_MAX_OUTPUT_TOKENS, QCODE_HOME (config, state and cache under one folder)
  NO_COLOR, COLORTERM, VISUAL, EDITOR, HTTPS_PROXY, SSL_CERT_FILE

The app asks before it uses what an unknown folder brings; pipe mode never asks and is restricted there.
Without a key the app opens on a built-in demo model that works offline and shows how to add one.
"""
