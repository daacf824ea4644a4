"""The demo model on a whole project: its first instruction file, and a plan that is approved. Pure."""

from __future__ import annotations

import re

from qcode.providers.demo.agents_file import agents_file, manifest_in, missing_part, names_in
from qcode.providers.demo.edits import new_file, text_read
from qcode.providers.demo.saying import call, failed, file_in, say
from qcode.providers.demo.scene import Scene
from qcode.providers.demo.script import Script

_INSTRUCTIONS = re.compile(r"\b(?:AGENTS|CLAUDE|GEMINI|QWEN)\.md\b")
_PLAN = """\
# Write `{path}`

A small program that says hello, so that you see how a plan is approved.

1. **Write** `{path}` with a `main` function.
2. **Check** it by reading it once more; nothing else is touched.

| file | change |
|---|---|
| `{path}` | new |

Not sure: whether a script should plan at all.
"""


def play_init(scene: Scene) -> Script:
    """Look at the folder, read how it is built and what is there already, and write or complete the AGENTS.md."""
    named = _INSTRUCTIONS.search(scene.wish)
    path = named[0] if named else "AGENTS.md"
    if scene.last is None:
        return call(scene, "I will look at the folder first.", "ls")
    if scene.last.call.name in ("write", "edit"):
        done = f"Done: `{path}` holds what a script can see: how the project is built, and what lies where.\n"
        return failed(scene.last) or say(done)
    if scene.steps[0].result.is_error:
        return failed(scene.steps[0])
    names = names_in(scene.steps[0].result.content)
    wanted = [name for name in (path, manifest_in(names)) if name in names]
    read = [step for step in scene.steps if step.call.name == "read"]
    if len(read) < len(wanted):
        return call(scene, f"I will read `{wanted[len(read)]}`.", "read", path=wanted[len(read)])
    texts = {name: text_read(step.result.content) for name, step in zip(wanted, read, strict=False)}
    current = texts.get(path, "")
    if not current.strip():
        manifest = manifest_in(names)
        content = agents_file(names, manifest, texts.get(manifest, ""))
        return call(scene, f"This is what I would write into `{path}`.", "write", path=path, content=content)
    missing = missing_part(current, names)
    if not missing:
        return say(f"`{path}` says all that a script can tell. A real model would look at the code as well.\n")
    content = f"{current.rstrip()}\n\n{missing}\n"
    return call(
        scene, f"`{path}` says nothing about the layout; I would add that.", "write", path=path, content=content
    )


def play_plan(scene: Scene) -> Script:
    """Hand in a plan in plan mode; once it is approved, carry out its one step."""
    path = file_in(scene.wish, "hello.py")
    step = scene.last
    if step is None:
        plan = _PLAN.format(path=path)
        return call(scene, "I have thought it through.", "exit_plan_mode", plan=plan)
    if step.call.name == "write":
        return failed(step) or say(f"Done, as planned: `{path}`.\n")
    if step.result.is_error:
        return say("You want another plan. I am a script and have only this one; plan mode goes on.\n")
    return call(scene, f"You approved it, so I write `{path}`.", "write", path=path, content=new_file(path))
