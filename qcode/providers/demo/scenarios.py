"""The scenarios of the demo model: the table that `/help demo` prints, and one function for each row.

The functions are pure: each reads a scene and returns the next reply as a script. They know the names and arguments of
the tools, and read the results as a real model would.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence

from qcode.protocol.messages import Reasoning, Text, ToolCall
from qcode.providers.demo.edits import DemoEdit, comment, new_file, plan_edit, text_in_result, without_replacement
from qcode.providers.demo.guide import (
    LONG_CHARS,
    LONG_FILE_CHARS,
    LONG_THINKING_CHARS,
    VERY_LONG_CHARS,
    guide,
    numbered_thinking,
)
from qcode.providers.demo.scene import (
    REAL_MODEL,
    DemoStep,
    Scene,
    Script,
    call,
    failure_reply,
    file_in,
    introduction,
    last_match,
    paragraphs,
    reply,
    requested_plan_changes,
    short_help,
    shortened,
    unfinished_reply,
)
from qcode.text.json import Json, parse_object
from qcode.text.numbers import count_text
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

_MANIFESTS = ("Makefile", "pyproject.toml", "package.json", "Cargo.toml", "go.mod")
_TARGET = lazy_pattern(r"^([a-z][\w-]*):(?!=)", re.MULTILINE)
_COMMANDS = {
    "pyproject.toml": ("pip install -e .", "python -m pytest"),
    "Cargo.toml": ("cargo build", "cargo test", "cargo clippy"),
    "go.mod": ("go build ./...", "go test ./...", "go vet ./..."),
}
_TEST_COMMANDS = {
    "package.json": "npm test",
    "Cargo.toml": "cargo test",
    "go.mod": "go test ./...",
    "pyproject.toml": "python -m pytest",
}
_TEST_FILE = lazy_pattern(r"tests?/|test_\w+\.py|\w+_test\.py|conftest\.py")
_ENTRY = lazy_pattern(r"  (\S.*?)(?:  [\d,.]+\S*)?")
_HEADING = "## Layout"
_MAX_SHOWN = 20


def names_in(listing: str) -> list[str]:
    """Return the names in a result of the `ls` tool. Folders end in `/`; the size after a file name is removed."""
    rows = (_ENTRY.fullmatch(line) for line in listing.split("\n"))
    return [row[1] for row in rows if row]


def manifest_in(names: Sequence[str]) -> str:
    """Return the file that describes the build, empty if there is none."""
    return next((name for name in _MANIFESTS if name in names), "")


def agents_file(names: Sequence[str], manifest: str, text: str) -> str:
    """Return a new AGENTS.md with the layout and the commands of `manifest`. `text` is the content of `manifest`."""
    lines = ["# For coding assistants", ""]
    commands = list(_commands(manifest, text))
    if commands:
        lines += ["## Commands", "", f"From `{manifest}`:", "", *(f"- `{command}`" for command in commands), ""]
    lines += [_HEADING, "", *_layout(names), ""]
    lines += [
        "## Conventions",
        "",
        "- Keep changes small, and run the tests before you report success.",
        "",
    ]
    return "\n".join(lines)


def missing_part(current: str, names: Sequence[str]) -> str:
    """Return the part that an existing AGENTS.md lacks, empty if it is complete."""
    return "" if _HEADING in current else "\n".join([_HEADING, "", *_layout(names)])


def _layout(names: Sequence[str]) -> Iterator[str]:
    listed = [name for name in names if name not in ("AGENTS.md", "CLAUDE.md", "GEMINI.md", "QWEN.md")]
    yield from (f"- `{name}`" for name in listed[:_MAX_SHOWN])
    if len(listed) > _MAX_SHOWN:
        yield f"- and {len(listed) - _MAX_SHOWN} more"
    if not listed:
        yield "- The folder is empty."


def _commands(manifest: str, text: str) -> Iterator[str]:
    if manifest == "Makefile":
        yield from (f"make {name}" for name in dict.fromkeys(_TARGET.findall(text)))
    elif manifest == "package.json":
        scripts = (parse_object(text) or {}).get("scripts")
        yield from (f"npm run {name}" for name in (scripts if isinstance(scripts, dict) else {}))
    else:
        yield from _COMMANDS.get(manifest, ())


def test_command(names: Sequence[str], makefile: str) -> str:
    """Return the command that runs the tests of a folder with these files, empty if there seem to be none."""
    if "test" in _TARGET.findall(makefile):
        return "make test"
    for manifest, command in _TEST_COMMANDS.items():
        if manifest in names:
            return command
    return "python -m pytest" if any(_TEST_FILE.fullmatch(name) for name in names) else ""


_INSTRUCTIONS = lazy_pattern(r"\b(?:AGENTS|CLAUDE|GEMINI|QWEN)\.md\b")
_PLAN = """\
# Write `{path}`

A small example program, to show how you approve a plan.

1. **Write** `{path}` with a `main` function.
2. **Check** it by reading it again. No other file changes.

| file | change |
|---|---|
| `{path}` | new |

Open questions: none.
"""


def play_init(scene: Scene) -> Script:
    """List the folder, read the manifest and an existing AGENTS.md, and write or complete the AGENTS.md."""
    named = _INSTRUCTIONS.search(scene.prompt)
    path = named[0] if named else "AGENTS.md"
    if scene.last is None:
        return call(scene, "I will list the folder first.", "ls")
    if scene.last.call.name in ("write", "edit"):
        report = f"Done: `{path}` describes the build and the layout of the project.\n"
        return failure_reply(scene.last) or reply(report)
    if scene.steps[0].result.is_error:
        return failure_reply(scene.steps[0])
    names = names_in(scene.steps[0].result.content)
    to_read = [name for name in (path, manifest_in(names)) if name in names]
    read_steps = [step for step in scene.steps if step.call.name == "read"]
    if len(read_steps) < len(to_read):
        return call(scene, f"I will read `{to_read[len(read_steps)]}`.", "read", path=to_read[len(read_steps)])
    texts = {name: text_in_result(step.result.content) for name, step in zip(to_read, read_steps, strict=False)}
    current = texts.get(path, "")
    if not current.strip():
        manifest = manifest_in(names)
        content = agents_file(names, manifest, texts.get(manifest, ""))
        return call(scene, f"This is my proposal for `{path}`.", "write", path=path, content=content)
    missing = missing_part(current, names)
    if not missing:
        return reply(f"`{path}` already contains all that a script can find. A real model would also read the code.\n")
    content = f"{current.rstrip()}\n\n{missing}\n"
    return call(scene, f"`{path}` does not describe the layout; I would add that.", "write", path=path, content=content)


def play_plan(scene: Scene) -> Script:
    """Submit a plan in plan mode, and again with each change that the user asks for; then carry out its one step."""
    path, changes, step = file_in(scene.prompt, "planned.py"), requested_plan_changes(scene), scene.last
    for change in changes:
        path = file_in(change, path)
    if step is None or (step.result.is_error and changes and step.call.name == "exit_plan_mode"):
        plan = "\n\n".join([_PLAN.format(path=path), *(f"Changed as you asked: {change}" for change in changes)])
        return call(scene, f"My {'new ' if changes else ''}plan is ready.", "exit_plan_mode", plan=plan)
    if step.call.name == "write":
        return failure_reply(step) or reply(f"Done, as planned: `{path}`.\n")
    if step.result.is_error:
        return reply("The plan is not approved, so I changed nothing. Ask for a plan again to see a new one.\n")
    return call(scene, f"You approved it, so I write `{path}`.", "write", path=path, content=new_file(path))


_COMMAND = lazy_pattern(r"^\W*+(?:(?:please|can you|could you)\s+)?(?:run|execute)\s+(?!into\b)(.+)$", re.I | re.M)
_TESTS = lazy_pattern(
    r"\b(?:run|rerun|execute|repeat)\s+(?:(?:all|my|our|the|these|its|unit|of)\s+)*+tests?\b(?![./-]\w)", re.IGNORECASE
)
"""A request such as "run all the tests", but not "run test.sh"."""
_MISSING_FILE = lazy_pattern(r"no such|not exist|not found|missing|cannot find|no file", re.IGNORECASE)
_HUGE_PARTS = 3
_QUESTION = "Where should the program store its data?"
_STORES = (
    ("SQLite", "one file, no server"),
    ("PostgreSQL", "a server, for several users at once"),
    ("A JSON file", "easy to read, slow if it grows"),
)
_SEVERAL_QUESTION = "Which checks should run before each commit?"
_CHECKS = (
    ("Format", "changes only white space"),
    ("Lint", "a few seconds"),
    ("Types", "half a minute"),
    ("Tests", "some minutes"),
)
_TASKS = (("list the files", "*"), ("find the documentation", "**/*.md"), ("find the tests", "**/*test*"))
"""Tasks for a to-do list, each with the pattern of the files that it lists."""
_TODO_TEXTS = ("This takes three steps, so I keep a list.", "The first task is done.", "The last task.", "Done.")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A kind of prompt that the demo model understands, and its reply."""

    request: str
    """An example of the prompt."""
    title: str
    result: str
    """The result, in a few words."""
    pattern: re.Pattern[str]
    play: Callable[[Scene], Script]
    is_rate_limited: bool = False
    """The first request is refused with a rate limit."""


def find_scenario(prompt: str) -> Scenario | None:
    """Return the scenario that matches the last paragraph of `prompt`, or the first one; None if neither does."""
    parts = paragraphs(prompt)
    for part in dict.fromkeys([*parts[-1:], *parts[:1]]):
        for scenario in SCENARIOS:
            if scenario.pattern.search(part):
                return scenario
    return None


def play_help(scene: Scene) -> Script:
    """Introduce the demo model, the prompts to try and how to get a real model. Used if no scenario matches."""
    examples = "\n".join(f"- **{scenario.request}**: {scenario.result}" for scenario in SCENARIOS)
    return short_help(scene) or reply(f"{introduction(scene.prompt)}\n\nPrompts to try:\n\n{examples}\n\n{REAL_MODEL}")


def _play_list(scene: Scene) -> Script:
    if scene.last is None:
        return call(scene, "I will look at the folder with the `glob` tool.", "glob", pattern="*")
    return failure_reply(scene.last) or reply(f"Files in this folder:\n\n{shortened(scene.last.result.content)}\n")


def _play_read(scene: Scene) -> Script:
    path = file_in(scene.prompt, "README.md")
    if scene.last is None:
        return call(scene, f"I will read `{path}`.", "read", path=path)
    problem = failure_reply(scene.last)
    if problem:
        return problem
    text = text_in_result(scene.last.result.content)
    lines = text.split("\n") if text else []
    first = next((line.strip() for line in lines if line.strip()), "only white space")
    return reply(f"I read {count_text(len(lines), 'line')} of `{path}`. The first line:\n\n{shortened(first)}\n")


def _play_edit(scene: Scene) -> Script:
    path = file_in(without_replacement(scene.prompt), "hello.py")
    step = scene.last
    if step is None:
        return call(scene, f"I will read `{path}` before I change it.", "read", path=path)
    if step.call.name == "read" and step.result.is_error and _MISSING_FILE.search(step.result.content):
        return call(scene, f"There is no `{path}`, so I will write it.", "write", path=path, content=new_file(path))
    if step.result.is_error:
        return failure_reply(step)
    text = text_in_result(step.result.content) if scene.steps[0].call.name == "read" else ""
    if step.call.name == "read" and not text.strip():
        return call(scene, f"`{path}` is empty, so I will write it.", "write", path=path, content=new_file(path))
    if step.call.name == "write":
        return reply(f"Done: `{path}` is new. Ask me to *add a docstring to {path}* to see an edit with its diff.\n")
    edit = plan_edit(scene.prompt, path, text_in_result(scene.steps[0].result.content))
    if step.call.name == "read":
        return _edit(scene, path, edit) if edit else reply(f"There is nothing to change in `{path}`.\n")
    return reply(f"Done: I {edit.summary if edit else 'made the edit'} in `{path}`.\n")


def _play_agents(scene: Scene) -> Script:
    if scene.last is None:
        tasks = (("See what is in the folder", "List the files of the folder."), ("Read the README", "Read README.md."))
        calls = tuple(
            ToolCall(
                f"demo_{scene.number + index}",
                "agent",
                json.dumps({"description": description, "prompt": prompt, "kind": "explore"}),
            )
            for index, (description, prompt) in enumerate(tasks)
        )
        return (Text("I will give one task each to two sub-agents, which work in parallel.\n"), *calls)
    answers = "\n\n".join(shortened(step.result.content) for step in scene.steps)
    return reply(f"The sub-agents answered; the files they read are not part of my context:\n\n{answers}\n")


def _play_question(scene: Scene) -> Script:
    if scene.last is None:
        choices: list[Json] = [{"label": label, "detail": detail} for label, detail in _STORES]
        return call(scene, "One question first.", "ask_person", question=_QUESTION, choices=choices)
    return _reply_to_answer(scene.last)


def _play_several_choices(scene: Scene) -> Script:
    if scene.last is None:
        checks: list[Json] = [{"label": label, "detail": detail} for label, detail in _CHECKS]
        text, question = "One question first.", _SEVERAL_QUESTION
        return call(scene, text, "ask_person", question=question, choices=checks, multi_select=True)
    return _reply_to_answer(scene.last)


def _reply_to_answer(asked: DemoStep) -> Script:
    if asked.result.is_error:
        return reply("There is no answer, so a real model would now choose one itself.\n")
    return reply(f"You answered:\n\n{shortened(asked.result.content)}\n\nA real model would now work with it.\n")


def _play_todos(scene: Scene) -> Script:
    """Work through a list of three tasks: before each task, and after the last one, the list is sent again."""
    if scene.last is not None and scene.last.result.is_error:
        return failure_reply(scene.last)
    done, is_listed = divmod(len(scene.steps), 2)
    if not is_listed:
        states = ["done"] * done + ["in_progress"] + ["pending"] * len(_TASKS)
        items: list[Json] = [{"task": task, "state": state} for (task, _), state in zip(_TASKS, states, strict=False)]
        return call(scene, _TODO_TEXTS[done], "todo", items=items)
    if done == len(_TASKS):
        return reply("All tasks of the list are done.\n")
    task, pattern = _TASKS[done]
    return call(scene, f"Now I {task}.", "glob", pattern=pattern)


def _play_shell(scene: Scene) -> Script:
    command = _command_in(scene.prompt)
    if scene.last is None:
        return call(scene, "I will run this with the `shell` tool.", "shell", command=command)
    return unfinished_reply(scene.last) or reply(f"Output of the command:\n\n{shortened(scene.last.result.content)}\n")


def _play_tests(scene: Scene) -> Script:
    """List the folder, read a Makefile, and run the tests as the project does."""
    if scene.last is None:
        return call(scene, "I will look for the tests first.", "ls")
    if scene.last.call.name == "shell":
        return unfinished_reply(scene.last) or reply(f"The tests passed:\n\n{shortened(scene.last.result.content)}\n")
    if scene.steps[0].result.is_error:
        return failure_reply(scene.steps[0])
    names = names_in(scene.steps[0].result.content)
    if "Makefile" in names and scene.last.call.name == "ls":
        return call(scene, "I will look for a target in the `Makefile`.", "read", path="Makefile")
    makefile = text_in_result(scene.last.result.content) if scene.last.call.name == "read" else ""
    command = test_command(names, makefile)
    if not command:
        return reply(
            "I found no tests here. I look for a manifest, such as pyproject.toml, or files named test_*.py.\n"
        )
    return call(scene, f"I will run them with `{command}`.", "shell", command=command)


def _play_failure(scene: Scene) -> Script:
    path = file_in(scene.prompt, "no-such-file.txt")
    if scene.last is None:
        return call(scene, f"I will read `{path}`, which should fail.", "read", path=path)
    if not scene.last.result.is_error:
        return reply(f"That worked: `{path}` exists.\n")
    return reply(
        f"As expected, the tool failed with this error:\n\n{shortened(scene.last.result.content)}\n\nA failed call "
        "does not end the turn: the model gets the error and can try something else.\n"
    )


def _play_thinking(scene: Scene) -> Script:
    thought = (
        "The user wants to see thinking. I follow a script and cannot think, but I can show how it looks.\n"
        "The question: what is the sum of the odd numbers below ten?\n"
        "One and three make four, five more make nine, seven more make sixteen, and nine more make twenty-five.\n"
        "There are five of them, and five times five is twenty-five, so the sum is the square of their count.\n"
    )
    return _thinking(scene, thought, "The odd numbers below ten add up to **25**, the square of their count.\n")


def _play_overthinking(scene: Scene) -> Script:
    answer = "My thinking used up the output limit twice, so qcode asked me to answer. The answer is **42**.\n"
    return _thinking(scene, numbered_thinking(LONG_THINKING_CHARS), answer)


def _play_long(scene: Scene) -> Script:
    return reply(guide(LONG_CHARS))


def _play_very_long(scene: Scene) -> Script:
    return reply(guide(VERY_LONG_CHARS))


def _play_huge_write(scene: Scene) -> Script:
    path = file_in(scene.prompt, "huge_demo.md")
    step = scene.last
    if step is None:
        text = f"I will write all of `{path}` in one call, which is more than one reply can hold."
        return call(scene, text, "write", path=path, content=guide(LONG_FILE_CHARS))
    was_rejected = any(earlier.result.is_error for earlier in scene.steps)
    if step.result.is_error:
        if step.call.name != "write" or "split" not in step.result.content.lower() or len(scene.steps) > 1:
            return failure_reply(step)
        skeleton = "".join(f"{comment(path, f'part {part}')}\n" for part in range(1, _HUGE_PARTS + 1))
        content = f"{comment(path, 'A file in three parts, by the qcode demo model.')}\n\n{skeleton}"
        return call(
            scene,
            "That call was truncated. I will write a skeleton first, then its parts.",
            "write",
            path=path,
            content=content,
        )
    edit_count = sum(earlier.call.name == "edit" for earlier in scene.steps)
    if not was_rejected or edit_count == _HUGE_PARTS:
        calls = f"a skeleton and {_HUGE_PARTS} edits" if was_rejected else "one call"
        return reply(f"Done: `{path}` is written, in {calls}. Nothing was lost to the output limit.\n")
    part = edit_count + 1
    marker = comment(path, f"part {part}")
    lines = [comment(path, f"Part {part}, line {number}.") for number in range(1, 6)]
    return _edit(scene, path, DemoEdit(marker, "\n".join([marker, *lines]), f"filled part {part}"))


def _play_rate_limit(scene: Scene) -> Script:
    return reply(
        "The first request failed with a rate limit and a wait of three seconds. qcode retried it automatically, and "
        "this is the answer. Esc would have interrupted the wait.\n"
    )


def _thinking(scene: Scene, thought: str, answer: str) -> Script:
    return reply(answer) if scene.skips_thinking else (Reasoning(thought), Text(answer))


def _edit(scene: Scene, path: str, edit: DemoEdit) -> Script:
    arguments: dict[str, Json] = {"path": path, "old_text": edit.old_text, "new_text": edit.new_text}
    if edit.replace_all:
        arguments["replace_all"] = True
    return call(scene, "This is the change.", "edit", **arguments)


def _command_in(prompt: str) -> str:
    """Return the command in `prompt`: the text in backquotes, otherwise the rest of its line."""
    match = last_match(_COMMAND, prompt)
    line = match[1].strip() if match else "ls"
    quoted = re.search(r"`([^`]+)`", line)
    return quoted[1] if quoted else re.sub(r"(?<=\w)[.!?]+$", "", line)


def _pattern(pattern: str) -> re.Pattern[str]:
    return lazy_pattern(pattern, re.IGNORECASE | re.DOTALL)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        request="ask two sub-agents",
        title="Sub-agents",
        result="two tasks in parallel, each by a model with a separate context",
        pattern=_pattern(r"\bsub-?agents?\b"),
        play=_play_agents,
    ),
    Scenario(
        request="ask me to choose several",
        title="A question with several answers",
        result="a question whose choices you check, any number of them",
        pattern=_pattern(r"\bchoose\b.*\bseveral\b"),
        play=_play_several_choices,
    ),
    Scenario(
        request="ask me a question",
        title="A question",
        result="a question with choices, which you answer with a key or in your words",
        pattern=_pattern(r"\bask\b.*\b(me|question)\b|\b(a|multiple.choice) question\b"),
        play=_play_question,
    ),
    Scenario(
        request="keep a to-do list",
        title="A to-do list",
        result="three tasks, and the list above the prompt that shows the current one",
        pattern=_pattern(r"\b(to-?do|task|check)[ -]?list\b|\bkeep\b.*\bto-?dos?\b"),
        play=_play_todos,
    ),
    Scenario(
        request="/init",
        title="A first AGENTS.md",
        result="reads the folder, then writes or completes an AGENTS.md with your approval",
        pattern=_pattern(r"^\s*/init\b|\b(write|create|make|improve|update)\b.*\b(agents|claude|gemini|qwen)\.md\b"),
        play=play_init,
    ),
    Scenario(
        request="/plan make a plan",
        title="A plan to approve",
        result="plan mode: a plan to approve, then the work you approved",
        pattern=_pattern(r"\b(make|write|show|hand in|have)\b.*\bplan\b"),
        play=play_plan,
    ),
    Scenario(
        request="rate limit",
        title="A rate limit",
        result="the provider refuses, qcode counts down and retries",
        pattern=_pattern(r"\brate.?limit|\b429\b|too many requests"),
        play=_play_rate_limit,
        is_rate_limited=True,
    ),
    Scenario(
        request="run the tests",
        title="A test run",
        result="finds the tests of your project and runs them with your approval",
        pattern=_TESTS,
        play=_play_tests,
    ),
    Scenario(
        request="run ls",
        title="A shell command",
        result="a command and its output; qcode asks before anything but reading",
        pattern=_COMMAND,
        play=_play_shell,
    ),
    Scenario(
        request="write a huge file",
        title="A truncated file write",
        result="a call truncated at 8,000 tokens and again at 64,000; it never runs, and is split into several calls",
        pattern=_pattern(r"\b(huge|giant|enormous|(very|really) (long|big|large))\b.*\bfile\b"),
        play=_play_huge_write,
    ),
    Scenario(
        request="a very long reply",
        title="A reply truncated twice",
        result="about 80,000 tokens: truncated at 8,000 and at 64,000, then continued seamlessly to its end",
        pattern=_pattern(r"\b(very|really|extremely|super)[ -]+long\b"),
        play=_play_very_long,
    ),
    Scenario(
        request="a long reply",
        title="A reply truncated once",
        result="about 10,000 tokens: truncated at 8,000, then retried with a higher output limit",
        pattern=_pattern(r"\blong\b.*\b(reply|answer|text|guide|story|essay|output)\b"),
        play=_play_long,
    ),
    Scenario(
        request="overthink it",
        title="Endless thinking",
        result="thinking reaches the output limit twice, then the model is asked to answer",
        pattern=_pattern(r"\bover.?think|\bthink\w*\b.*\b(too long|too much|forever|without end)\b"),
        play=_play_overthinking,
    ),
    Scenario(
        request="think about something",
        title="Thinking",
        result="a collapsed thinking block, then the answer",
        pattern=_pattern(r"\b(think|thinking|reason|reasoning|ponder)\b"),
        play=_play_thinking,
    ),
    Scenario(
        request="read a missing file",
        title="A failing tool",
        result="a failed call, and the error that the model gets",
        pattern=_pattern(r"\b(missing|fail|fails|failing|failure|nonexistent)\b|not exist|n't exist|not there"),
        play=_play_failure,
    ),
    Scenario(
        request="add a docstring to hello.py",
        title="An edit",
        result="reads a file, then shows the change as a diff for your approval; creates the file if it is missing",
        pattern=_pattern(
            r"\bdocstring\b|\b(add|edit|change|fix|insert|rename|replace|refactor|update|modify|write|create)\b"
            r".*(\bfile\b|\w\.[a-z]\w{0,7}\b)"
        ),
        play=_play_edit,
    ),
    Scenario(
        request="list the folder",
        title="A folder listing",
        result="a read-only call that needs no approval",
        pattern=_pattern(
            r"\b(list|show|what|which|see)\b.*\b(folder|files|directory|dir|here|workspace)\b|^\W*(ls|dir)\W*$"
        ),
        play=_play_list,
    ),
    Scenario(
        request="read README.md",
        title="Reading a file",
        result="the file you name, or README.md",
        pattern=_pattern(
            r"\b(read|show|open|cat|print|explain|summari[sz]e|look)\b.*\b(file|readme|[\w-]+\.\w+)\b|\breadme\b"
        ),
        play=_play_read,
    ),
)
"""Every scenario, in the order in which prompts are matched."""
