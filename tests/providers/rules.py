"""The rules of each protocol from its public reference: a validator of request bodies per protocol.

A validator returns descriptions of the errors; for a valid request it returns an empty list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

Body = Mapping[str, Any]


def openai(body: Body, *, longest_id: int | None = 40) -> list[str]:
    """Chat Completions: each assistant message with calls is followed by one tool message per call, and no other.

    `longest_id` None: the host takes an id of any length.
    """
    found: list[str] = []
    waiting: list[str] = []
    spoken: list[str] = []
    ids: list[str] = []
    previous = ""
    for number, message in enumerate(body["messages"]):
        role, content = message["role"], message.get("content")
        if role == "system":
            found += [f"{number}: a system message inside"] if number else []
        elif role == "tool":
            if message["tool_call_id"] not in waiting:
                found.append(f"{number}: a result without its call")
            else:
                waiting.remove(message["tool_call_id"])
            if previous != "tool":
                spoken.append("user")
        else:
            found += [f"{number}: calls without results"] if waiting else []
            waiting = [call["id"] for call in message.get("tool_calls", [])]
            # Text that a user adds to results is one turn with them.
            if not (role == "user" and previous == "tool"):
                spoken.append(role)
            if not content and not waiting:
                found.append(f"{number}: an empty message")
            if isinstance(content, list) and any(part.get("text") == "" for part in content):
                found.append(f"{number}: empty text")
            for call in message.get("tool_calls", []):
                found += _arguments(number, call["function"]["arguments"])
                ids.append(call["id"])
        previous = role
    found += _ids(ids, longest_id or 1_000_000)
    return found + _turns(spoken) + (["calls without results at the end"] if waiting else [])


def responses(body: Body) -> list[str]:
    """Responses: each call has one output before the next message, and reasoning leads to an item of the model's."""
    found: list[str] = []
    waiting: list[str] = []
    ids: list[str] = []
    items = body["input"]
    for number, (item, following) in enumerate(pairwise([*items, None])):
        match item["type"]:
            case "function_call":
                waiting.append(item["call_id"])
                ids.append(item["call_id"])
                found += _arguments(number, item["arguments"])
            case "function_call_output":
                if item["call_id"] not in waiting:
                    found.append(f"{number}: an output without its call")
                else:
                    waiting.remove(item["call_id"])
            case "reasoning":
                is_led_on = following is not None and (
                    following["type"] in ("reasoning", "function_call") or following.get("role") == "assistant"
                )
                found += [] if is_led_on else [f"{number}: reasoning that leads to nothing"]
                found += [] if item["id"] and item["encrypted_content"] else [f"{number}: reasoning it cannot read"]
            case "message":
                if item["role"] == "user" and waiting:
                    found.append(f"{number}: calls without outputs")
                content = item["content"]
                texts = [content] if isinstance(content, str) else [part.get("text", "image") for part in content]
                found += [] if texts and all(texts) else [f"{number}: empty text"]
    if items[0].get("role") != "user":
        found.append("the first item is not the user's")
    if body["store"] is not False or body["max_output_tokens"] < 16:
        found.append("it is stored, or its cap is too small")
    return found + _ids(ids, 64) + (["calls without outputs at the end"] if waiting else [])


def anthropic(body: Body) -> list[str]:
    """Messages: roles in turn, results first and complete, no blank text, thinking signed and never last."""
    found = _turns([message["role"] for message in body["messages"]])
    waiting: list[str] = []
    ids: list[str] = []
    marks = 0
    for number, message in enumerate(body["messages"]):
        blocks = message["content"]
        kinds = [block["type"] for block in blocks]
        marks += sum("cache_control" in block for block in blocks)
        results = [block for block in blocks if block["type"] == "tool_result"]
        if sorted(result["tool_use_id"] for result in results) != sorted(waiting):
            found.append(f"{number}: results do not answer the calls")
        if kinds[: len(results)] != ["tool_result"] * len(results):
            found.append(f"{number}: a part comes before the results")
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            found.append(f"{number}: blank text")
        if any(block["type"] == "thinking" and not block["signature"] for block in blocks):
            found.append(f"{number}: unsigned thinking")
        if not blocks or kinds[-1] in ("thinking", "redacted_thinking"):
            found.append(f"{number}: empty, or it ends in thinking")
        if any(result.get("is_error") and isinstance(result.get("content"), list) for result in results):
            found.append(f"{number}: an error that is not text")
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        ids += waiting
    if ids and not body.get("tools"):
        found.append("calls without definitions")
    if marks + sum("cache_control" in block for block in body.get("system", [])) > 4:
        found.append("too many cache marks")
    if body.get("thinking", {}).get("budget_tokens", 0) >= body["max_tokens"]:
        found.append("the budget does not fit under the cap")
    return found + _ids(ids, 64, exactly=True) + (["calls without results at the end"] if waiting else [])


def gemini(body: Body) -> list[str]:
    """generateContent: roles in turn, a response for each call in its order, no empty part without a signature."""
    found = _turns([{"user": "user", "model": "assistant"}[content["role"]] for content in body["contents"]])
    waiting: list[tuple[str, str]] = []
    for number, content in enumerate(body["contents"]):
        parts = content["parts"]
        found += [] if parts else [f"{number}: no parts"]
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if [(answer["id"], answer["name"]) for answer in answers] != waiting:
            found.append(f"{number}: responses do not answer the calls")
        for part in parts:
            if part.get("text") == "" and "thoughtSignature" not in part:
                found.append(f"{number}: an empty part")
            if part.get("thought") and "thoughtSignature" not in part:
                found.append(f"{number}: an unsigned thought")
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        waiting = [(call["id"], call["name"]) for call in calls]
        found += [] if all(isinstance(call["args"], dict) for call in calls) else [f"{number}: arguments"]
    return found + (["calls without responses at the end"] if waiting else [])


def bedrock(body: Body) -> list[str]:
    """Converse: roles in turn, results complete, no blank text anywhere, and tool definitions if there are calls."""
    found = _turns([message["role"] for message in body["messages"]])
    waiting: list[str] = []
    ids: list[str] = []
    marks = sum("cachePoint" in block for block in body.get("system", []))
    for number, message in enumerate(body["messages"]):
        blocks = message["content"]
        marks += sum("cachePoint" in block for block in blocks)
        results = [block["toolResult"] for block in blocks if "toolResult" in block]
        if sorted(result["toolUseId"] for result in results) != sorted(waiting):
            found.append(f"{number}: results do not answer the calls")
        inner = [block for result in results for block in result["content"]]
        if any("text" in block and not block["text"].strip() for block in [*blocks, *inner]):
            found.append(f"{number}: blank text")
        if not all(result["content"] for result in results) or not blocks or "reasoningContent" in blocks[-1]:
            found.append(f"{number}: empty, or it ends in reasoning")
        if any(len(block) != 1 for block in [*blocks, *inner]):
            found.append(f"{number}: a block of two kinds")
        waiting = [block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block]
        ids += waiting
    if ids and not body.get("toolConfig", {}).get("tools"):
        found.append("calls without definitions")
    thinking = body.get("additionalModelRequestFields", {}).get("thinking", {})
    if thinking.get("budget_tokens", 0) >= body["inferenceConfig"]["maxTokens"]:
        found.append("the budget does not fit under the cap")
    found += ["too many cache points"] if marks > 4 else []
    return found + _ids(ids, 64, exactly=True) + (["calls without results at the end"] if waiting else [])


RULES: Mapping[str, Callable[[Body], list[str]]] = {
    "openai": openai,
    "openai-responses": responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "bedrock": bedrock,
}


def _turns(roles: list[str]) -> list[str]:
    found = [] if roles and roles[0] == "user" else ["the first message is not the user's"]
    return found + ["two of one role in a row" for first, second in pairwise(roles) if first == second]


def _ids(ids: list[str], longest: int, *, exactly: bool = False) -> list[str]:
    found = [] if len(set(ids)) == len(ids) else ["an id is used twice"]
    if any(not 0 < len(item) <= longest for item in ids):
        found.append("an id is too long or empty")
    if exactly and not all(re.fullmatch(r"[A-Za-z0-9_-]+", item) for item in ids):
        found.append("an id holds what it may not")
    return found


def _arguments(number: int, text: str) -> list[str]:
    return [] if isinstance(json.loads(text), dict) else [f"{number}: arguments are not an object"]
