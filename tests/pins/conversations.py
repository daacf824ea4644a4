"""Scripted conversations: the command line of qcode, and the answers of the fake host.

A script that depends on the model (which edit tool it has) is a function of the request.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.fakes import replies
from tests.fakes.replies import call
from tests.fakes.tool_server import PNG
from tests.fakes.turns import Call, Faults, ReceivedRequest, Turn, refused

HELLO = 'def hello(name):\n    return f"Hello, {name}"\n'
FILES: Mapping[str, str | bytes] = {
    "hello.py": HELLO,
    "notes.txt": "Grüße from a note.\n",
    "dot.png": PNG,
    "src/app.py": "from hello import hello\n\nprint(hello('you'))\n",
}
ACCEPT = ("--trust", "--permission-mode", "accept-edits")
STREAM = ("-p", "--input-format", "stream-json", "-o", "stream-json")

Script = Sequence[Turn | Callable[[ReceivedRequest], Turn]]


@dataclass(frozen=True)
class Conversation:
    """`runs` are the arguments of each start, in one folder; `replies` answer the requests of all of them.

    `config` is added to the config file, with the model's full name for `{model}`. `gemini_left` replies are not asked
    for over Gemini, which drops half a call.
    """

    runs: Sequence[Sequence[str]]
    replies: Script
    config: str = ""
    stdin: bytes | None = None
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    gemini_left: int = 0


def _edit(asked: ReceivedRequest) -> Turn:
    """Change `hello.py` with the tool this model has."""
    if "apply_patch" in asked.tools:
        patch = (
            "*** Begin Patch\n*** Update File: hello.py\n@@\n def hello(name):\n"
            '-    return f"Hello, {name}"\n+    return f"Hi, {name}"\n*** End Patch'
        )
        return replies.calls(call("apply_patch", "call_e1", patch=patch), text="I change it.")
    edit = call("edit", "call_e1", path="hello.py", old_text='f"Hello, {name}"', new_text='f"Hi, {name}"')
    return replies.calls(edit, text="I change it.")


def _lines(*prompts: str) -> bytes:
    """Return prompts as lines for `--input-format stream-json`."""
    messages = [{"type": "user", "message": {"role": "user", "content": prompt}} for prompt in prompts]
    return "".join(f"{json.dumps(message)}\n" for message in messages).encode()


_WRITE_CUT = Call("write", '{"path": "big.py", "content": "line one\\nline tw', "call_w1")
_LONG = "".join(f"Line {number} of a long file about nothing in particular.\n" for number in range(400))
_SCHEMA = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
_SMALL_WINDOW = '[models."{model}"]\ncontext_window = 20000\nmax_output_tokens = 2000\n'
_SUMMARY = "The person asked about a long file. It says nothing in particular. Nothing was changed."

CONVERSATIONS: Mapping[str, Conversation] = {
    "plain": Conversation([("-p", "Hello, wörld")], [replies.text("Hello ", "to you.")]),
    "prompts": Conversation(
        [
            ("-p", "hi", "--trust", "--append-system-prompt", "Answer in one word.", "--max-output-tokens", "1234"),
            ("-p", "hi", "--system-prompt", "You are terse.", "--reasoning-effort", "low", "--no-session"),
            ("-p", "plan it", "--trust", "--permission-mode", "plan", "--add-dir", "src"),
        ],
        [replies.text("Hi."), replies.text("Hi."), replies.text("The plan.")],
        files={"AGENTS.md": "# House rules\n\nUse tabs. See @notes.txt.\n"},
    ),
    "tool": Conversation(
        [("-p", "what is in hello.py?")],
        [
            replies.calls(call("read", "call_r1", path="hello.py"), text="I look."),
            replies.calls(call("grep", "call_g1", pattern="hello"), call("glob", "call_g2", pattern="**/*.py")),
            replies.text("A greeting."),
        ],
    ),
    "parallel": Conversation(
        [("-p", "look around")],
        [
            replies.calls(
                call("read", "call_1", path="hello.py"),
                call("ls", "call_2", path="."),
                call("read", "call_3", path="missing.py"),
                call("no_such_tool", "call_4", x=1),
                call("read", "call_5", path="dot.png"),
                text="All at once.",
            ),
            replies.text("Seen."),
        ],
    ),
    "edit": Conversation(
        [("-p", "say hi instead", *ACCEPT)],
        [
            replies.calls(call("read", "call_r1", path="hello.py")),
            _edit,
            replies.calls(call("write", "call_w1", path="new.py", content="x = 1\n")),
            replies.calls(
                call("todo", "call_t1", items=[{"task": "change the greeting", "state": "done"}]),
            ),
            replies.text("Done."),
        ],
    ),
    "shell": Conversation(
        [("-p", "run it", "--trust", "--allowed-tools", "shell(printf *)", "--allowed-tools", "shell(false)")],
        [
            replies.calls(call("shell", "call_s1", command="printf 'one\\ntwo\\n'")),
            replies.calls(call("shell", "call_s2", command="false")),
            replies.text("It ran."),
        ],
    ),
    "denied": Conversation(
        [("-p", "write and run", "--disallowed-tools", "read(notes.txt)")],
        [
            replies.calls(
                call("write", "call_w1", path="a.txt", content="x"),
                call("shell", "call_s1", command="touch b.txt"),
                call("read", "call_r1", path="notes.txt"),
                call("read", "call_r2", path="../outside.txt"),
            ),
            replies.text("I could not."),
        ],
    ),
    "truncated": Conversation(
        [("-p", "tell me a story"), ("-p", "and then?", "-c")],
        [
            *(replies.truncated(f"Part {number} of the story.\n", output_tokens=8000) for number in range(1, 6)),
            replies.text("The end."),
        ],
    ),
    "truncated-call": Conversation(
        [("-p", "write a big file", *ACCEPT)],
        [
            replies.truncated(calls=[_WRITE_CUT]),
            replies.truncated(calls=[_WRITE_CUT]),
            replies.calls(call("write", "call_w2", path="big.py", content="line one\n")),
            replies.text("Written."),
        ],
        gemini_left=2,
    ),
    "thinking": Conversation(
        [("-p", "think first", "--reasoning-effort", "high"), ("-p", "and again", "-c")],
        [
            replies.calls(call("read", "call_r1", path="hello.py"), reasoning="I should look.", text="Let me see."),
            replies.text("It greets.", reasoning="Now I know."),
            replies.text("It still greets."),
        ],
    ),
    "thinking-truncated": Conversation(
        [("-p", "overthink", "--reasoning-effort", "medium")],
        [
            replies.truncated(reasoning="Hm, hm."),
            replies.truncated(reasoning="Hm, hm, hm.", output_tokens=64_000),
            replies.text("The answer."),
        ],
    ),
    "attachments": Conversation(
        [("-p", "compare @notes.txt with these", "-f", "dot.png", "-f", "hello.py")],
        [replies.text("They differ.")],
        stdin=b"line of a log\n",
    ),
    "compaction": Conversation(
        [STREAM],
        [
            replies.calls(call("read", "call_r1", path="long.txt")),
            replies.text("It is long.", input_tokens=16_000),
            replies.text(_SUMMARY),
            replies.text("Nothing in particular."),
        ],
        config=_SMALL_WINDOW,
        stdin=_lines("Read long.txt.", "What does it say?"),
        files={"long.txt": _LONG},
    ),
    "agent": Conversation(
        [("-p", "ask others", *ACCEPT)],
        [
            replies.calls(call("agent", "call_a1", kind="explore", prompt="Read hello.py.", description="Look")),
            replies.calls(call("read", "call_r1", path="hello.py")),
            replies.text("It greets."),
            replies.calls(call("agent", "call_a2", kind="general", prompt="Write x.txt.", description="Write")),
            replies.calls(call("write", "call_w1", path="x.txt", content="x\n")),
            replies.text("Written."),
            replies.text("Both are done."),
        ],
    ),
    "prefill": Conversation(
        [("-p", "tell me a story")],
        [replies.truncated("Once"), replies.truncated("Once upon"), replies.text(" a time.")],
        config='[models."{model}"]\nprefill = true\n',
    ),
    "resumed-call": Conversation(
        [("-p", "write a big file", *ACCEPT)],
        [
            replies.truncated(calls=[_WRITE_CUT]),
            replies.truncated(calls=[_WRITE_CUT]),
            replies.text('o\\n"}'),
            replies.text("Written."),
        ],
        config='[output]\ntool_call_repair = "resume"\n',
        gemini_left=2,
    ),
    "retry": Conversation(
        [("-p", "hi")],
        [
            refused(429, "slow down", retry_after=0),
            Turn(text=["One. ", "Two. ", "Three. ", "Four. ", "Five."], faults=Faults(cut_after=5)),
            replies.text("And that is all."),
        ],
    ),
    "schema": Conversation(
        [("-p", "count", "--json-schema", _SCHEMA)],
        [replies.text("It is one."), replies.text('{"n": "one"}'), replies.text('{"n": 1}')],
    ),
    "lines": Conversation(
        [STREAM],
        [replies.text("A dot."), replies.text("Yes.")],
        stdin=json.dumps(
            {
                "type": "user",
                "message": {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "this:"},
                        {
                            "type": "image",
                            "source": {
                                "type": "base64",
                                "media_type": "image/png",
                                "data": base64.b64encode(PNG).decode(),
                            },
                        },
                        {"type": "text", "text": "what is it?"},
                    ],
                },
            }
        ).encode()
        + b"\n"
        + _lines("Sure?"),
    ),
}

_CALL_IN_TEXT = '<tool_call>{"name": "read", "arguments": {"path": "hello.py"}}</tool_call>'

SETTINGS: Mapping[str, tuple[str, Conversation]] = {
    "text-calls": (
        "openai",
        Conversation(
            [("-p", "read it")],
            [replies.text(f"I read it.\n{_CALL_IN_TEXT}"), replies.text("It greets.")],
            config='[models."{model}"]\ntext_tool_calls = true\n',
        ),
    ),
    "inline-thinking": (
        "openai",
        Conversation(
            [("-p", "think", "--reasoning-effort", "low"), ("-p", "again", "-c")],
            [replies.text("<think>Hm.</think>Yes."), replies.text("Still yes.")],
            config='[models."{model}"]\ninline_thinking = true\nthinking = true\n',
        ),
    ),
    "continue-policy": (
        "openai",
        Conversation(
            [("-p", "go")],
            [replies.truncated("one "), replies.text("two.")],
            config='[output]\npolicy = "continue"\n',
        ),
    ),
    "fields-and-headers": (
        "openai",
        Conversation(
            [("-p", "go", "--reasoning-effort", "low")],
            [replies.text("Done.")],
            config=(
                '[providers.openai]\nmax_tokens_field = "max_completion_tokens"\nreasoning_field = "reasoning"\n'
                'headers = { X-Team = "pins" }\n'
            ),
        ),
    ),
    "small-model": (
        "openai",
        Conversation(
            [STREAM],
            [
                replies.text("It is long.", input_tokens=17_000),
                replies.text(_SUMMARY),
                replies.text("Nothing in particular."),
            ],
            config=f'small_model = "openai/small"\n{_SMALL_WINDOW}',
            stdin=_lines(f"Read this.\n{_LONG}", "What does it say?"),
        ),
    ),
    **{
        f"web-search-{protocol}": (
            protocol,
            Conversation(
                [("-p", "search")],
                [replies.text("Found.")],
                config='[tools]\nweb_search = "host"\n[models."{model}"]\nweb_search = true\n',
            ),
        )
        for protocol in ("anthropic", "openai-responses", "gemini")
    },
}
"""Conversations of one protocol, about settings that change requests."""

HOSTS: Mapping[str, tuple[str, str]] = {
    "openrouter": ("OPENROUTER_API_KEY", "anthropic/claude-sonnet-4.5"),
    "deepseek": ("DEEPSEEK_API_KEY", "deepseek-reasoner"),
    "mistral": ("MISTRAL_API_KEY", "magistral-medium"),
    "groq": ("GROQ_API_KEY", "openai/gpt-oss-120b"),
    "xai": ("XAI_API_KEY", "grok-4"),
    "together": ("TOGETHER_API_KEY", "llama-4"),
    "qwen": ("DASHSCOPE_API_KEY", "qwen3-max"),
    "kimi": ("MOONSHOT_API_KEY", "kimi-k2-thinking"),
    "glm": ("ZAI_API_KEY", "glm-4.6"),
    "ollama": ("OLLAMA_API_KEY", "llama4"),
    "lmstudio": ("LMSTUDIO_API_KEY", "gpt-oss-20b"),
    "vllm": ("VLLM_API_KEY", "qwen3-coder"),
    "azure": ("AZURE_OPENAI_API_KEY", "gpt-5"),
}
"""Servers that speak the protocol of OpenAI with differences: the variable of the key, and a model."""

OF_HOSTS = Conversation(
    [("-p", "think first", "--reasoning-effort", "high")],
    [
        replies.calls(call("read", "call_r1", path="hello.py"), reasoning="I should look.", text="Let me see."),
        replies.truncated("It"),
        replies.truncated("It greets "),
        replies.text("you."),
    ],
)

FAMILIES: Sequence[tuple[str, str]] = (
    ("anthropic", "claude-opus-4-1"),
    ("anthropic", "claude-opus-5"),
    ("openai", "gpt-5.1-codex"),
    ("openai", "o3"),
    ("openai", "gpt-oss-120b"),
    ("openai-responses", "gpt-4.1"),
    ("gemini", "gemini-2.5-flash"),
    ("gemini", "gemini-3-pro-preview"),
    ("bedrock", "amazon.nova-pro-v1:0"),
    ("bedrock", "openai.gpt-oss-120b-1:0"),
)
"""Models of each family: the prompts and tools they get."""


class Host:
    """Answers with the replies of a conversation in order."""

    def __init__(self, script: Script) -> None:
        self._left = list(script)

    @property
    def left(self) -> int:
        return len(self._left)

    def __call__(self, asked: ReceivedRequest) -> Turn:
        if not self._left:
            return refused(400, "the script is over")
        reply = self._left.pop(0)
        return reply(asked) if callable(reply) else reply
