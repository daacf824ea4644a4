"""The `jobs` tool: lists, reads and stops what `shell` left running in the background."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from qcode.protocol.json import JsonObject
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.tools.arguments import Arguments, check
from qcode.tools.jobs import Job, Jobs
from qcode.tools.refusal import Refused
from qcode.tools.tool import Preview, ToolContext, failed
from qcode.tools.visible import visible
from qcode.tools.workspace import Workspace

MOST_WAITED_S = 60.0


class JobsTool:
    """Looks after what `shell` started in the background. It reaches nothing else."""

    spec = ToolSpec(
        name="jobs",
        description=(
            "Look after commands that shell started in the background: list them, read the output of one since it "
            "was last read, waiting a while for more, or stop one."
        ),
        parameters={
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["list", "read", "stop"], "description": "What to do."},
                "job": {"type": "integer", "description": "The number of the job, for read and stop."},
                "wait_s": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": MOST_WAITED_S,
                    "description": "For read: seconds to wait at most for output or the end. Default 0.",
                },
            },
            "required": ["action"],
            "additionalProperties": False,
        },
        is_read_only=True,
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            checked = check(self.spec, arguments)
        except Refused as refused:
            return Preview("Look after background jobs?", "", str(refused))
        return Preview(
            "Look after background jobs?", f"{checked.text('action')} {checked.integer('job', 0) or ''}".strip()
        )

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolContext) -> ToolOutcome:
        jobs = context.jobs
        try:
            checked = check(self.spec, arguments)
            if jobs is None or not jobs.all:
                return ToolOutcome("No command runs in the background.", summary="none")
            match checked.text("action"):
                case "list":
                    return ToolOutcome("\n".join(map(_line, jobs.all)), summary=_count(jobs))
                case "stop":
                    job = _named(jobs, checked)
                    await jobs.stop(job)
                    return ToolOutcome(
                        f"{job.read()}\n[{_line(job)}]".lstrip("\n"), summary=f"job {job.number} {job.state}"
                    )
                case _:
                    return await _read(_named(jobs, checked), checked.number("wait_s", 0))
        except Refused as refused:
            return failed(f"jobs: {refused}")


def _named(jobs: Jobs, arguments: Arguments) -> Job:
    if not arguments.has("job"):
        raise Refused("name the job by its number")
    return jobs.find(arguments.integer("job", 0))


async def _read(job: Job, wait_s: float) -> ToolOutcome:
    if wait_s > 0 and not job.changed.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(job.changed.wait(), wait_s)
    text = job.read()
    return ToolOutcome(f"{text or '[no new output]'}\n[{_line(job)}]", summary=f"job {job.number} {job.state}")


def _line(job: Job) -> str:
    return f"job {job.number}: {job.state}: {visible(job.command, marks_newlines=True)}"


def _count(jobs: Jobs) -> str:
    running = sum(job.is_running for job in jobs.all)
    return f"{running} of {len(jobs.all)} running"


def started(job: Job, output: Callable[[str], None]) -> ToolOutcome:
    """Return the result of a call that left its command running."""
    where = f" Its output is kept in {job.path}." if job.path is not None else ""
    text = f"Job {job.number} runs in the background. Read its output with jobs (read, {job.number}).{where}"
    output(f"job {job.number} runs in the background\n")
    return ToolOutcome(text, summary=f"job {job.number}")


def left_behind(job: Job, text: str) -> ToolOutcome:
    """Return the result of a call whose command the person let go on in the background, with its output so far."""
    where = f" All of it is kept in {job.path}." if job.path is not None else ""
    note = (
        f"[the person moved it to the background, where it goes on as job {job.number}. This is its output so far; "
        f"read what comes with jobs (read, {job.number}).{where}]"
    )
    body = text.removesuffix("\n") if text.strip() else "[no output so far]"
    return ToolOutcome(f"{body}\n{note}", summary=f"goes on in the background as job {job.number}")
