"""`qcode replay`: plays back a recording in the current folder, and shows where the run differs from it.

The recorded prompts are sent again, with their attachments. The rules of this run decide about tool calls, as in pipe
mode: a recording of another user can do no more than a model. A separate module, because each subcommand loads alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from qcode.agent.agent import Agent
from qcode.agent.models.recording import RecordingContent, ReplayProvider, playback_differences
from qcode.agent.outcomes import decision_without_user, exit_code
from qcode.agent.sessions.records import block_from_json
from qcode.cli.arguments import invalid_arguments, parse_subcommand
from qcode.cli.context import run_context
from qcode.cli.terminal import working_folder, write_stderr, write_stdout
from qcode.protocol.approvals import TurnOptions
from qcode.protocol.errors import ExitCode
from qcode.protocol.events import ApprovalRequested, TurnEnded
from qcode.protocol.messages import Block
from qcode.text.clean import clean
from qcode.text.json import JsonObject
from qcode.text.numbers import count_text

_USE = "use: qcode replay FILE [--diff] [--timed]"


def run_replay(arguments: Sequence[str]) -> int:
    """Play a recording; return the exit code of the last turn, with `--diff` 0 if no request differs, otherwise 1."""
    options, words, flags = parse_subcommand("replay", arguments, _USE)
    if len(words) != 1:
        raise invalid_arguments(words, _USE)
    path = Path(words[0]).expanduser().absolute()
    recorded = RecordingContent.read(path)
    provider = "replay-timed" if "timed" in flags else "replay"
    options = replace(options, model=f"{provider}/{path}", no_session=True)
    context = run_context(options, working_folder(options.cwd), is_attended=False)
    return asyncio.run(_play(Agent.begin(context), recorded, shows_diff="diff" in flags))


async def _play(agent: Agent, recorded: RecordingContent, *, shows_diff: bool) -> int:
    """Send the recorded prompts, and return the exit code; with `shows_diff`, print the differences."""
    assert isinstance(agent.selection.provider, ReplayProvider)
    code = ExitCode.OK
    try:
        await agent.toolbox.wait_for_servers()
        for prompt in recorded.prompts:
            ended = await _run_turn(agent, prompt, _attached_blocks(recorded, prompt))
            code = exit_code(ended)
            if not shows_diff:
                write_stdout(f"{clean(ended.text).rstrip()}\n")
            if ended.error is not None:
                write_stderr(ended.error.message)
    finally:
        await agent.close()
    if not shows_diff:
        return code
    playback = agent.selection.provider
    requests = count_text(len(playback.requests), "request")
    lines = playback_differences(recorded, playback, agent.redact)
    write_stdout("".join(f"{clean(line)}\n" for line in lines or [f"{requests}, no differences"]))
    return ExitCode.FAILED if lines else ExitCode.OK


async def _run_turn(agent: Agent, prompt: str, attached: tuple[Block, ...]) -> TurnEnded:
    """Run a turn to its end. Approvals are decided as in pipe mode; files that `prompt` mentions are not attached."""
    agent.conversation.attach(attached)
    options = TurnOptions(finds_files=False)
    async for event in agent.conversation.submit(prompt, options=options):
        if isinstance(event, ApprovalRequested):
            agent.conversation.answer(event.approval.id, decision_without_user(event.approval))
        if isinstance(event, TurnEnded):
            return event
    raise AssertionError("a turn ends with TurnEnded")


def _attached_blocks(recorded: RecordingContent, prompt: str) -> tuple[Block, ...]:
    """Return the attachments of the first recorded prompt with the text `prompt`."""
    for reply in recorded.replies:
        for message in cast("list[JsonObject]", reply.request["messages"]):
            *before, last = cast("list[JsonObject]", message["blocks"]) or [{}]
            if message["role"] == "user" and last.get("text") == prompt:
                return tuple(block_from_json(block) for block in before if block.get("type") in ("text", "image"))
    return ()
