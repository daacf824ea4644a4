"""What the demo model can play: the table that `/help demo` prints, and one function for each row.

A play is pure: it looks at a scene and returns the next reply as a script. It knows the tools by their fixed
names and arguments, and reads what they returned as any model would.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from qcode.protocol.json import Json
from qcode.protocol.messages import Reasoning, Text, ToolCall
from qcode.protocol.values import dataclass
from qcode.providers.demo import prose
from qcode.providers.demo.edits import Edit, comment, new_file, plan_edit, text_read, without_replacement
from qcode.providers.demo.projects import play_init, play_plan
from qcode.providers.demo.saying import call, failed, fenced, file_in, last_match, say
from qcode.providers.demo.scene import Scene, paragraphs
from qcode.providers.demo.script import Script

_COMMAND = re.compile(r"^\W*(?:(?:please|can you|could you)\s+)?(?:run|execute)\s+(?!into\b)(.+)$", re.I | re.M)
_NOT_THERE = re.compile(r"no such|not exist|not found|missing|cannot find|no file", re.IGNORECASE)
_HUGE_PARTS = 3


@dataclass(frozen=True, slots=True)
class Scenario:
    """Something to ask the demo model for; `request` is what to type, `shows` what can then be seen."""

    request: str
    title: str
    shows: str
    pattern: re.Pattern[str]
    play: Callable[[Scene], Script]
    is_rate_limited: bool = False


def find_scenario(wish: str) -> Scenario | None:
    """Return the scenario `wish` asks for: its last paragraph decides, then its first; None where neither does."""
    parts = paragraphs(wish)
    for part in dict.fromkeys([*parts[-1:], *parts[:1]]):
        for scenario in SCENARIOS:
            if scenario.pattern.search(part):
                return scenario
    return None


def play_help(scene: Scene) -> Script:
    """Say what this is, what to try and how to get a real model; the answer to everything that is not in the table."""
    tries = "\n".join(f"- **{each.request}**: {each.shows}" for each in SCENARIOS)
    return say(
        "I am the **built-in demo model** of qcode. I follow a script on this machine, without a network and without "
        "a key, so that you can see how qcode behaves. I cannot think about what you wrote.\n\n"
        f"Things to type:\n\n{tries}\n\n"
        "For a real model, set `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or `GEMINI_API_KEY` and start qcode again. "
        "A local server (Ollama, LM Studio, llama.cpp, vLLM) needs no key.\n"
    )


def _play_list(scene: Scene) -> Script:
    if scene.last is None:
        return call(scene, "I will look at the folder with the `glob` tool.", "glob", pattern="*")
    return failed(scene.last) or say(f"This is what is in the folder:\n\n{fenced(scene.last.result.content)}\n")


def _play_read(scene: Scene) -> Script:
    path = file_in(scene.wish, "README.md")
    if scene.last is None:
        return call(scene, f"I will read `{path}`.", "read", path=path)
    problem = failed(scene.last)
    if problem:
        return problem
    text = text_read(scene.last.result.content)
    lines = text.split("\n") if text else []
    first = next((line.strip() for line in lines if line.strip()), "nothing but white space")
    return say(f"I read {len(lines)} lines of `{path}`. It begins with:\n\n{fenced(first)}\n")


def _play_edit(scene: Scene) -> Script:
    path = file_in(without_replacement(scene.wish), "hello.py")
    step = scene.last
    if step is None:
        return call(scene, f"I will read `{path}` before I change it.", "read", path=path)
    if step.call.name == "read" and step.result.is_error and _NOT_THERE.search(step.result.content):
        return call(scene, f"There is no `{path}`, so I will write it.", "write", path=path, content=new_file(path))
    if step.result.is_error:
        return failed(step)
    text = text_read(step.result.content) if scene.steps[0].call.name == "read" else ""
    if step.call.name == "read" and not text.strip():
        return call(scene, f"`{path}` is empty, so I will write it.", "write", path=path, content=new_file(path))
    if step.call.name == "write":
        return say(f"Done: `{path}` is new. Ask me to *add a docstring to {path}* to see an edit with its diff.\n")
    edit = plan_edit(scene.wish, path, text_read(scene.steps[0].result.content))
    if step.call.name == "read":
        return _edit(scene, path, edit) if edit else say(f"There is nothing of that kind to change in `{path}`.\n")
    return say(f"Done: I {edit.summary if edit else 'made the edit'} in `{path}`.\n")


def _play_agents(scene: Scene) -> Script:
    if scene.last is None:
        tasks = (("See what is in the folder", "List the files of the folder."), ("Read the README", "Read README.md."))
        calls = tuple(
            ToolCall(
                f"demo_{scene.number + place}",
                "agent",
                json.dumps({"description": description, "prompt": prompt, "kind": "explore"}),
            )
            for place, (description, prompt) in enumerate(tasks)
        )
        return (Text("I will give two tasks to sub-agents, which work side by side.\n"), *calls)
    answers = "\n\n".join(fenced(step.result.content) for step in scene.steps)
    return say(f"This is what the sub-agents answered; what they read for it is not part of my context:\n\n{answers}\n")


def _play_shell(scene: Scene) -> Script:
    command = _command_in(scene.wish)
    if scene.last is None:
        return call(scene, "I will run this with the `shell` tool.", "shell", command=command)
    return failed(scene.last) or say(f"The command answered:\n\n{fenced(scene.last.result.content)}\n")


def _play_failure(scene: Scene) -> Script:
    path = file_in(scene.wish, "no-such-file.txt")
    if scene.last is None:
        return call(scene, f"I will read `{path}`, which should fail.", "read", path=path)
    if not scene.last.result.is_error:
        return say(f"That worked after all: `{path}` is there.\n")
    return say(
        f"As expected, the tool failed and told me why:\n\n{fenced(scene.last.result.content)}\n\n"
        "A failed call costs nothing but a step: its result goes back to the model, which can try another way.\n"
    )


def _play_thinking(scene: Scene) -> Script:
    thought = (
        "The person wants to see thinking. I am a script, so I do not think; I can show how it looks.\n"
        "First the question: what is the sum of the odd numbers below ten?\n"
        "One and three make four, five more make nine, seven more make sixteen, and nine more make twenty-five.\n"
        "There are five of them, and five times five is twenty-five: the square of how many there are.\n"
    )
    return _thinking(scene, thought, "The odd numbers below ten add up to **25**, the square of how many there are.\n")


def _play_overthinking(scene: Scene) -> Script:
    answer = "I thought for longer than any output cap allows, was told to answer, and this is the answer: **42**.\n"
    return _thinking(scene, prose.musing(prose.ENDLESS_CHARS), answer)


def _play_long(scene: Scene) -> Script:
    return say(prose.guide(prose.LONG_CHARS))


def _play_very_long(scene: Scene) -> Script:
    return say(prose.guide(prose.VERY_LONG_CHARS))


def _play_huge_write(scene: Scene) -> Script:
    path = file_in(scene.wish, "huge_demo.md")
    step = scene.last
    if step is None:
        text = f"I will write all of `{path}` in one call, which is more than one reply can hold."
        return call(scene, text, "write", path=path, content=prose.guide(prose.HUGE_CHARS))
    was_rejected = any(each.result.is_error for each in scene.steps)
    if step.result.is_error:
        if step.call.name != "write" or "split" not in step.result.content.lower() or len(scene.steps) > 1:
            return failed(step)
        skeleton = "".join(f"{_part_mark(path, part)}\n" for part in range(1, _HUGE_PARTS + 1))
        content = f"{comment(path, 'A file in three parts, by the qcode demo model.')}\n\n{skeleton}"
        return call(scene, "That was cut. First a skeleton, then its parts.", "write", path=path, content=content)
    done = sum(each.call.name == "edit" for each in scene.steps)
    if not was_rejected or done == _HUGE_PARTS:
        how = f"a skeleton and {_HUGE_PARTS} edits" if was_rejected else "one call"
        return say(f"Done: `{path}` is written, in {how}. Nothing was lost to the output limit.\n")
    mark = _part_mark(path, done + 1)
    lines = [comment(path, f"Part {done + 1}, line {number}.") for number in range(1, 6)]
    return _edit(scene, path, Edit(mark, "\n".join([mark, *lines]), f"filled part {done + 1}"))


def _play_rate_limit(scene: Scene) -> Script:
    return say(
        "The first try of this request was refused with a rate limit and a wait of three seconds; this is the second "
        "try, which went through. You did not have to do anything, and Esc would have stopped the wait.\n"
    )


def _thinking(scene: Scene, thought: str, answer: str) -> Script:
    return say(answer) if scene.is_sparing else (Reasoning(thought), Text(answer))


def _edit(scene: Scene, path: str, edit: Edit) -> Script:
    arguments: dict[str, Json] = {"path": path, "old_text": edit.old_text, "new_text": edit.new_text}
    if edit.replace_all:
        arguments["replace_all"] = True
    return call(scene, "This is the change.", "edit", **arguments)


def _command_in(wish: str) -> str:
    """Return the command that `wish` names: what is in backquotes, else the rest of its line as a sentence."""
    found = last_match(_COMMAND, wish)
    line = found[1].strip() if found else "ls"
    quoted = re.search(r"`([^`]+)`", line)
    return quoted[1] if quoted else re.sub(r"(?<=\w)[.!?]+$", "", line)


def _part_mark(path: str, part: int) -> str:
    return comment(path, f"part {part}")


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "ask two sub-agents",
        "Sub-agents",
        "two tasks, each done by a model with a context of its own, side by side",
        _words(r"\bsub-?agents?\b"),
        _play_agents,
    ),
    Scenario(
        "/init",
        "A first AGENTS.md",
        "the folder is looked at, and an AGENTS.md is written for your approval, or completed",
        _words(r"^\s*/init\b|\b(write|create|make|improve|update)\b.*\b(agents|claude|gemini|qwen)\.md\b"),
        play_init,
    ),
    Scenario(
        "/plan make a plan",
        "A plan to approve",
        "plan mode: a plan with its choices, then what you approved",
        _words(r"\b(make|write|show|hand in|have)\b.*\bplan\b"),
        play_plan,
    ),
    Scenario(
        "rate limit",
        "A rate limit",
        "the host refuses, qcode counts down and tries again",
        _words(r"\brate.?limit|\b429\b|too many requests"),
        _play_rate_limit,
        is_rate_limited=True,
    ),
    Scenario(
        "run ls",
        "A shell command",
        "the command you name, and its output; one that does more than read waits for your approval",
        _COMMAND,
        _play_shell,
    ),
    Scenario(
        "write a huge file",
        "A cut file write",
        "a write that is cut twice, is never run, and is then split into a skeleton and edits",
        _words(r"\b(huge|giant|enormous|(very|really) (long|big|large))\b.*\bfile\b"),
        _play_huge_write,
    ),
    Scenario(
        "a very long reply",
        "A reply cut twice",
        "about 80,000 tokens: cut at 8,000, again at 64,000, and continued to its end without a seam",
        _words(r"\b(very|really|extremely|super)[ -]+long\b"),
        _play_very_long,
    ),
    Scenario(
        "a long reply",
        "A reply cut once",
        "about 10,000 tokens: cut at 8,000, then asked for again with more room",
        _words(r"\blong\b.*\b(reply|answer|text|guide|story|essay|output)\b"),
        _play_long,
    ),
    Scenario(
        "overthink it",
        "Thinking without end",
        "thinking fills the output cap twice, then the model is asked to answer",
        _words(r"\bover.?think|\bthink\w*\b.*\b(too long|too much|forever|without end)\b"),
        _play_overthinking,
    ),
    Scenario(
        "think about something",
        "Thinking",
        "thinking as a folded block, then the answer",
        _words(r"\b(think|thinking|reason|reasoning|ponder)\b"),
        _play_thinking,
    ),
    Scenario(
        "read a missing file",
        "A tool that fails",
        "a call that fails, and how the model learns of it",
        _words(r"\b(missing|fail|fails|failing|failure|nonexistent)\b|not exist|n't exist|not there"),
        _play_failure,
    ),
    Scenario(
        "add a docstring to hello.py",
        "An edit",
        "reading, then a change shown as a diff for your approval; a file that is not there is written",
        _words(
            r"\bdocstring\b|\b(add|edit|change|fix|insert|rename|replace|refactor|update|modify|write|create)\b"
            r".*(\bfile\b|\w\.[a-z]\w{0,7}\b)"
        ),
        _play_edit,
    ),
    Scenario(
        "list the folder",
        "A look around",
        "a read-only call that needs no approval",
        _words(r"\b(list|show|what|which|see)\b.*\b(folder|files|directory|dir|here|workspace)\b|^\W*(ls|dir)\W*$"),
        _play_list,
    ),
    Scenario(
        "read README.md",
        "Reading a file",
        "the file you name, or README.md",
        _words(r"\b(read|show|open|cat|print|explain|summari[sz]e|look)\b.*\b(file|readme|[\w-]+\.\w+)\b|\breadme\b"),
        _play_read,
    ),
)
"""Every scenario, in the order in which a wish is matched against them."""
