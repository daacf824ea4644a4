"""The page about adding a provider is followed to the letter in a copy of the product, and a turn runs through it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from qcode.protocol.errors import ProviderError
from qcode.protocol.events import ToolFinished
from qcode.protocol.model import RetrySettings
from tests.fakes.conversation import Model, ended, open_conversation
from tests.providers.loopback import Answer, Loopback

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/adding-a-provider.md").read_text(encoding="utf-8")
PARTS: dict[str, str] = dict(re.findall(r"^\*\*`([^`]+)`\*\*\n\n```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
REGISTRY = Path("qcode/providers/registry.py")

WRITE = json.dumps({"path": "a.txt", "content": "one\u2028two\n"}, ensure_ascii=False)

Records: TypeAlias = list[dict[str, Any]]
START: dict[str, Any] = {"is": "start", "model": "m-1", "id": "r1"}
CALLS: Records = [
    START,
    {"is": "thought", "text": "Hm."},
    {"is": "text", "text": "I write it."},
    {"is": "call", "number": 0, "name": "write", "arguments": WRITE[:20]},
    {"is": "call", "number": 0, "arguments": WRITE[20:]},
    {"is": "end", "reason": "calls", "usage": {"in": 40, "out": 12}},
]
CUT: Records = [START, {"is": "text", "text": "Done, "}, {"is": "end", "reason": "length", "usage": {}}]
DONE: Records = [START, {"is": "text", "text": "and well."}, {"is": "news"}, {"is": "end", "reason": "done"}]
BROKEN: Records = [START, {"is": "text", "text": "Done"}]


def answer(records: Records) -> Answer:
    sent = b"".join(b"\x1e" + json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)
    return Answer([sent[start : start + 50] for start in range(0, len(sent), 50)])


def added_to(copy: Path) -> None:
    """Follow the steps of the page in `copy`."""
    shutil.copytree(ROOT / "qcode", copy / "qcode", ignore=shutil.ignore_patterns("__pycache__", "*.xz"))
    for name, code in PARTS.items():
        if name.startswith("qcode/"):
            path = copy / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(code, encoding="utf-8")
    registry = (copy / REGISTRY).read_text(encoding="utf-8")
    for before, added in (
        (r"^WireProtocol: TypeAlias = Literal\[", '"acme", '),
        (r"^PROVIDERS: .*?\n    for spec in \(\n", PARTS["PROVIDERS"]),
        (r"^def _client\(.*?\n    match spec\.protocol:\n", PARTS["_client"]),
    ):
        found = re.search(before, registry, re.MULTILINE | re.DOTALL)
        assert found, f"the registry has no place for {added}"
        registry = registry[: found.end()] + added + registry[found.end() :]
    (copy / REGISTRY).write_text(registry, encoding="utf-8")


def run_in(copy: Path, scene: str) -> Any:
    """Run a function of this module in a fresh process on the product in `copy`; return the JSON it prints."""
    program = f"from tests.providers import test_adding_a_provider as it\nit.{scene}({str(copy)!r})"
    paths = os.pathsep.join([str(copy), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    added_to(folder)
    return folder


def provider_at(copy: str, url: str) -> Any:
    import qcode
    from qcode.providers import registry

    assert Path(qcode.__file__).is_relative_to(copy)
    spec = registry.PROVIDERS["acme"]
    return registry.connect(spec, base_url=url, api_key="k-123456", key_source="ACME_API_KEY")


def play_a_turn(copy: str) -> None:
    async def main() -> dict[str, Any]:
        async with Loopback(answer(CALLS), answer(CUT), answer(CUT), answer(DONE)) as server:
            model = Model(retries=RetrySettings(max_retries=0))
            it = open_conversation(Path(copy), provider_at(copy, server.url), model, mode="bypass")
            events = await it.play("write it")
            await it.conversation.close()
            return {
                "answer": ended(events).text,
                "outcome": ended(events).outcome.value,
                "tools": [(event.call.name, event.state) for event in events if isinstance(event, ToolFinished)],
                "file": (Path(copy) / "work/a.txt").read_text(encoding="utf-8"),
                "key": server.requests[0].headers["authorization"],
                "requests": [json.loads(request.body) for request in server.requests],
            }

    print(json.dumps(asyncio.run(main())))  # noqa: T201 - the process answers the test


def meet_failures(copy: str) -> None:
    answers = {
        "broken": answer(BROKEN),
        "refused": Answer([b'{"error": {"message": "no such key"}}'], status=401, headers={}),
        "error": answer([{"is": "start"}, {"error": {"type": "overloaded_error", "message": "busy"}}]),
    }

    async def fails(sent: Answer) -> list[str]:
        from qcode.protocol.messages import user
        from qcode.protocol.model import ModelRequest

        async with Loopback(sent) as server:
            provider = provider_at(copy, server.url)
            try:
                async for _ in provider.stream(ModelRequest("m", "", (user("hi"),), (), 10)):
                    pass
            except ProviderError as error:
                return [error.kind.value, error.message]
            finally:
                await provider.close()
        return []

    print(json.dumps({name: asyncio.run(fails(sent)) for name, sent in answers.items()}))  # noqa: T201 - as above


def test_page_contains_every_part_of_a_provider() -> None:
    package = {f"qcode/providers/acme/{name}.py" for name in ("__init__", "codec", "records", "client")}
    assert PARTS.keys() == {*package, "PROVIDERS", "_client"}


def test_provider_from_the_page_runs_a_turn_with_tools_and_a_continuation(copy: Path) -> None:
    seen = run_in(copy, "play_a_turn")
    requests = seen.pop("requests")
    assert seen == {
        "answer": "Done, and well.",
        "outcome": "end_turn",
        "tools": [["write", "done"]],
        "file": "one\u2028two\n",
        "key": "Bearer k-123456",
    }
    assert [request["max_tokens"] for request in requests] == [8_000, 8_000, 64_000, 64_000]
    said, answered = requests[1]["messages"][1:]
    assert [list(part) for part in said["parts"]] == [["text"], ["call", "name", "arguments"]]
    assert said["parts"][1]["arguments"] == json.loads(WRITE)
    assert answered["parts"][0]["result"] == said["parts"][1]["call"]
    assert requests[0]["tools"]


@pytest.mark.broad
def test_failures_of_the_provider_from_the_page_are_classified_as_usual(copy: Path) -> None:
    failures = run_in(copy, "meet_failures")
    assert {name: kind for name, (kind, _) in failures.items()} == {
        "broken": "connection",
        "refused": "auth",
        "error": "overloaded",
    }
    assert "ACME_API_KEY" in failures["refused"][1]
    assert all("k-123456" not in message for _, message in failures.values())


def test_page_names_existing_files_and_functions() -> None:
    mentioned = set(re.findall(r"`(qcode/[\w/]+\.py|openai/\w+\.py)`", PAGE)) - PARTS.keys()
    assert mentioned
    for name in mentioned:
        assert (ROOT / name).exists() or (ROOT / "qcode/providers" / name).exists(), name
    here = Path(__file__).parent
    listed = re.findall(r"^\| `(\w+\.py)` \|", PAGE, re.MULTILINE)
    assert listed
    assert [name for name in listed if not (here / name).exists()] == []


def test_page_is_in_the_list_of_pages() -> None:
    assert "(adding-a-provider.md)" in (ROOT / "docs/README.md").read_text(encoding="utf-8")
