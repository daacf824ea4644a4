"""The flags and lines that the SDKs sent in their scenarios, as recorded in `clients/recorded`, sent again.

Requests of qcode are answered with the recorded answers, in the order of the recording.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.headless.host.running import CLIENTS, Host, hosting_with
from tests.headless.host.scripts import SCRIPTS

RECORDED = {
    (sdk, load["scenario"]): load
    for sdk in ("python_sdk", "typescript_sdk")
    for load in json.loads((CLIENTS / "recorded" / f"{sdk}.json").read_text("utf-8"))
}
ENDS = {
    "simple": ["success"],
    "permissions": ["success"],
    "interrupted": ["error_during_execution", "success"],
    "settings": ["success", "success"],
    "in_process_tools": ["success"],
    "structured_output": ["success"],
    "agents": ["success"],
    "question_and_plan": ["success"],
}


def is_request(line: dict[str, Any]) -> bool:
    return bool(line["type"] == "control_request")


def replay(host: Host, lines: list[dict[str, Any]]) -> None:
    """Send recorded lines; wait for the request that a line answers, the turn before a message, text to interrupt."""
    prompts = 0
    for line in lines:
        match line:
            case {"type": "control_response", "response": dict(response)}:
                request = host.until(is_request)
                answer = response["response"]
                if request["request"]["subtype"] == "mcp_message":
                    reply = answer["mcp_response"]
                    answer = {"mcp_response": {**reply, "id": request["request"]["message"].get("id")}}
                host.answer(request, **answer)
            case {"type": "control_request", "request": {"subtype": "interrupt"}} if prompts:
                host.until(lambda line: line["type"] == "stream_event" and "delta" in line["event"])
                host.send(line)
            case {"type": "control_request", "request_id": request_id}:
                host.send(line)
                host.until(lambda line: line.get("response", {}).get("request_id") == request_id)
            case {"type": "user"}:
                if prompts:
                    host.result()
                prompts += 1
                host.send(line)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("sdk", "scenario"), RECORDED)
def test_recorded_scenario_ends_as_recorded(sdk: str, scenario: str, tmp_path: Path) -> None:
    recorded = RECORDED[sdk, scenario]
    with hosting_with(tmp_path, SCRIPTS[scenario], recorded["args"]) as host:
        work = str(tmp_path / "work")
        replay(host, json.loads(json.dumps(recorded["lines"]).replace("<work>", work)))
        host.end()
    ends = [line["subtype"] for line in host.seen if line["type"] == "result"]
    assert ends == ENDS[scenario][: len(ends)]
    assert ends
    errors = [line for line in host.seen if line.get("response", {}).get("subtype") == "error"]
    assert all("nonsense" in line["response"]["error"] for line in errors)  # a model that the scenario makes up
