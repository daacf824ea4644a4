"""Scenarios of the Claude Agent SDK for Python: `python_sdk.py SCENARIO FLAGS…` prints what it saw as JSON.

`HOST_CLI` is the program that the SDK starts, `HOST_FOLDER` its folder.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    PermissionUpdate,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolPermissionContext,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    create_sdk_mcp_server,
    query,
    tool,
)


def options(**given: Any) -> ClaudeAgentOptions:
    flags: dict[str, str | None] = {"trust": None}
    for pair in sys.argv[2:]:
        name, _, value = pair.partition("=")
        flags[name] = value
    return ClaudeAgentOptions(
        cli_path=os.environ["HOST_CLI"],
        cwd=os.environ["HOST_FOLDER"],
        extra_args=flags,
        stderr=lambda line: sys.stderr.write(f"{line}\n"),
        **given,
    )


def seen_of(message: Any) -> list[Any]:
    """Return the parts of a message that a test looks at."""
    match message:
        case SystemMessage(subtype="init"):
            return ["init", sorted(set(message.data["tools"]) & {"Bash", "Read", "Task", "mcp__calc__add"})]
        case AssistantMessage():
            return [
                ["text", block.text] if isinstance(block, TextBlock) else ["call", block.name, block.input]
                for block in message.content
                if isinstance(block, TextBlock | ToolUseBlock)
            ]
        case UserMessage() if isinstance(message.content, list):
            results = [block for block in message.content if isinstance(block, ToolResultBlock)]
            return [["result", block.is_error, str(block.content)[:200]] for block in results]
        case ResultMessage():
            return [["end", message.subtype, message.result, message.stop_reason, message.errors or []]]
        case _:
            return []


async def collected(messages: AsyncIterator[Any]) -> list[Any]:
    seen: list[Any] = []
    async for message in messages:
        seen += seen_of(message)
    return seen


async def prompts(*texts: str) -> AsyncIterator[dict[str, Any]]:
    for number, text in enumerate(texts):
        message = {"role": "user", "content": text}
        yield {"type": "user", "message": message, "parent_tool_use_id": None, "uuid": f"u{number}", "session_id": ""}


async def simple() -> Any:
    return await collected(query(prompt="hi", options=options()))


async def streaming_input() -> Any:
    return await collected(query(prompt=prompts("one", "two"), options=options()))


async def several_turns() -> Any:
    seen = []
    async with ClaudeSDKClient(options()) as client:
        for text in ("first", "second"):
            await client.query(text)
            seen.append(await collected(client.receive_response()))
        info = await client.get_server_info()
        usage = await client.get_context_usage()
        status = await client.get_mcp_status()
    return {"seen": seen, "commands": info["commands"][0]["name"], "model": usage["model"], "status": status}


async def partial_messages() -> Any:
    deltas, kinds = "", []
    async for message in query(prompt="hi", options=options(include_partial_messages=True)):
        if isinstance(message, StreamEvent):
            kinds.append(message.event["type"])
            deltas += message.event.get("delta", {}).get("text", "")
    return {"text": deltas, "kinds": kinds}


async def permissions() -> Any:
    """Allow a command with another input, allow a rule for the session, deny the next command."""
    asked: list[Any] = []

    async def can_use(name: str, values: dict[str, Any], context: ToolPermissionContext) -> Any:
        asked.append([name, values, len(context.suggestions), context.title is not None])
        if len(asked) == 1:
            return PermissionResultAllow(updated_input={**values, "command": "echo changed > c.txt"})
        if len(asked) == 2:
            assert all(isinstance(suggestion, PermissionUpdate) for suggestion in context.suggestions)
            return PermissionResultAllow(updated_permissions=context.suggestions[:1])
        return PermissionResultDeny(message="only the tests")

    seen = await collected(query(prompt=prompts("work"), options=options(can_use_tool=can_use)))
    return {"asked": asked, "seen": seen}


async def deny_and_interrupt() -> Any:
    async def can_use(name: str, values: dict[str, Any], context: ToolPermissionContext) -> Any:
        return PermissionResultDeny(message="stop", interrupt=True)

    async with ClaudeSDKClient(options(can_use_tool=can_use)) as client:
        await client.query("work")
        return await collected(client.receive_response())


async def question_and_plan() -> Any:
    asked: list[Any] = []

    async def can_use(name: str, values: dict[str, Any], context: ToolPermissionContext) -> Any:
        asked.append([name, sorted(values)])
        if name == "AskUserQuestion":
            answers = {values["questions"][0]["question"]: values["questions"][0]["options"][1]["label"]}
            return PermissionResultAllow(updated_input={**values, "answers": answers})
        return PermissionResultAllow()

    given = options(can_use_tool=can_use, permission_mode="plan")
    return {"seen": await collected(query(prompt=prompts("plan"), options=given)), "asked": asked}


async def interrupted() -> Any:
    async with ClaudeSDKClient(options(include_partial_messages=True)) as client:
        await client.query("work")
        seen: list[Any] = []
        async for message in client.receive_response():
            if isinstance(message, StreamEvent) and message.event["type"] == "content_block_delta":
                await client.interrupt()
            seen += seen_of(message)
        await client.query("again")
        return [seen, await collected(client.receive_response())]


async def settings() -> Any:
    async with ClaudeSDKClient(options()) as client:
        await client.set_permission_mode("acceptEdits")
        await client.query("edit it")
        first = await collected(client.receive_response())
        await client.set_model("openai/other-model")
        await client.query("who are you")
        second = await collected(client.receive_response())
        try:
            await client.set_model("nonsense/")
        except Exception as error:  # noqa: BLE001 - the SDK raises plain exceptions
            refused = str(error)
        return {"seen": [first, second], "refused": refused}


async def sessions() -> Any:
    """Begin a session, resume it, continue the latest one, and fork it."""
    ids = []

    async def one(prompt: str, **given: Any) -> str:
        async for message in query(prompt=prompt, options=options(**given)):
            if isinstance(message, ResultMessage):
                ids.append(message.session_id)
        return str(ids[-1])

    session = await one("first")
    await one("second", resume=session)
    await one("third", continue_conversation=True)
    await one("fourth", resume=session, fork_session=True)
    await one("fifth", session_id="9c6b1c4e-0c52-4bd0-9f0e-0c3f0a1d2b3c")
    return ids


async def structured_output() -> Any:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    given = options(output_format={"type": "json_schema", "schema": schema})
    async for message in query(prompt="count", options=given):
        if isinstance(message, ResultMessage):
            return message.structured_output
    return None


async def failed() -> Any:
    """An error result; the SDK raises its text after it."""
    seen: list[Any] = []
    try:
        async for message in query(prompt="hi", options=options()):
            seen += seen_of(message)
    except Exception as error:  # noqa: BLE001 - the SDK raises plain exceptions
        return {"seen": seen, "raised": f"{type(error).__name__}: {error}"}
    return {"seen": seen}


async def truncated() -> Any:
    return await failed()


async def system_prompt() -> Any:
    return await collected(query(prompt="hi", options=options(system_prompt="You are a pirate.")))


async def hooks() -> Any:
    called: list[Any] = []

    async def before(values: dict[str, Any], call_id: str | None, context: Any) -> dict[str, Any]:
        called.append([values["hook_event_name"], values["tool_name"], values["tool_input"]])
        if "rm" in values["tool_input"].get("command", ""):
            output = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no rm"}
            return {"hookSpecificOutput": output}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}

    async def after(values: dict[str, Any], call_id: str | None, context: Any) -> dict[str, Any]:
        called.append([values["hook_event_name"], values["tool_response"]])
        return {}

    given = options(
        hooks={
            "PreToolUse": [HookMatcher(matcher="Bash", hooks=[before])],
            "PostToolUse": [HookMatcher(matcher="Bash", hooks=[after])],
        }
    )
    return {"seen": await collected(query(prompt="work", options=given)), "called": called}


async def in_process_tools() -> Any:
    @tool("add", "Add two numbers.", {"a": int, "b": int})
    async def add(values: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": f"sum {values['a'] + values['b']}"}]}

    server = create_sdk_mcp_server("calc", tools=[add])
    asked: list[str] = []

    async def can_use(name: str, values: dict[str, Any], context: ToolPermissionContext) -> Any:
        asked.append(name)
        return PermissionResultAllow()

    given = options(mcp_servers={"calc": server}, can_use_tool=can_use)
    return {"seen": await collected(query(prompt=prompts("add"), options=given)), "asked": asked}


async def skills_and_folders() -> Any:
    """Load a listed skill and one that is not; add a folder with the answer to a command, and read a file in it."""
    outside = os.path.dirname(os.environ["HOST_FOLDER"])  # noqa: PTH120  # as text, for the update

    async def can_use(name: str, values: dict[str, Any], context: ToolPermissionContext) -> Any:
        asked.append(name)
        update = PermissionUpdate(type="addDirectories", directories=[outside], destination="session")
        return PermissionResultAllow(updated_permissions=[update])

    asked: list[str] = []
    given = options(can_use_tool=can_use, skills=["pdf"])
    return {"seen": await collected(query(prompt=prompts("work"), options=given)), "asked": asked}


async def agents() -> Any:
    reviewer = AgentDefinition(description="Reviews code.", prompt="Review.", tools=["Read"])
    return await collected(query(prompt="review", options=options(agents={"reviewer": reviewer})))


Scenario = Callable[[], Coroutine[Any, Any, Any]]
SCENARIOS: dict[str, Scenario] = {
    item.__name__: item
    for item in (
        *(simple, streaming_input, several_turns, partial_messages, permissions, deny_and_interrupt),
        *(question_and_plan, interrupted, settings, sessions, structured_output, failed, truncated),
        system_prompt,
        *(hooks, in_process_tools, agents, skills_and_folders),
    )
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(SCENARIOS[sys.argv[1]]())))
