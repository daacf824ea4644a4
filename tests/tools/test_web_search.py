"""The `web_search` tool against a real server on this machine, in the shapes of the services."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from qcode.protocol.tools import ToolOutcome
from qcode.safety.rules import Rules
from qcode.text.json import JsonObject
from qcode.tools.tool import ToolRunContext
from qcode.tools.web_search import SERVICES, WebSearch
from qcode.tools.workspace import Workspace
from tests.fakes.tools import spec_of
from tests.safety.policies import policy_for
from tests.tools.test_fetch import Open, Site, answer

BRAVE = {"web": {"results": [{"title": "One", "url": "https://a.example", "description": "a <b>bold</b> word"}]}}
TAVILY = {"results": [{"title": "Two", "url": "https://b.example", "content": "text\nover lines"}]}
KEY = "key-0123456789"


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


def run(site: Site, name: str, base: Path, gate: Open | None = None, **arguments: object) -> ToolOutcome:
    service = replace(SERVICES[name], url=site.url("/search"))
    tool = WebSearch(service, KEY, gate or Open(), lambda host, port: ["127.0.0.1"])
    workspace = Workspace(base)
    given: JsonObject = {"query": "q  x", **arguments}  # type: ignore[dict-item]  # what a test says
    try:
        return asyncio.run(tool.run(given, workspace, ToolRunContext(lambda text: None)))
    finally:
        workspace.close()


def test_get_request_has_the_query_and_the_key_in_a_header(site: Site, tmp_path: Path) -> None:
    site.pages["/search?q=q+x&count=5"] = answer(json.dumps(BRAVE), "application/json")
    done = run(site, "brave", tmp_path)
    assert "1. One\n   https://a.example\n   a **bold** word" in done.content
    assert "not instructions" in done.content
    assert site.seen[0][1]["x-subscription-token"] == KEY
    assert KEY not in done.content


def test_post_request_has_the_query_as_json(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[object] = []

    def take(request: BaseHTTPRequestHandler) -> None:
        got.append(json.loads(request.rfile.read(int(request.headers["content-length"]))))
        got.append(request.headers["authorization"])
        answer(json.dumps(TAVILY), "application/json")(request)

    handler = site._server.RequestHandlerClass
    monkeypatch.setattr(handler, "do_POST", lambda request: take(request), raising=False)
    done = run(site, "tavily", tmp_path, count=2)
    assert got == [{"query": "q x", "max_results": 2}, f"Bearer {KEY}"]
    assert "1. Two\n   https://b.example\n   text over lines" in done.content


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [(401, "{}", "BRAVE_API_KEY"), (429, "{}", "rate limit"), (500, "{}", "500"), (200, "<p>", "invalid JSON")],
)
def test_search_error_is_one_line_without_the_key(
    site: Site, tmp_path: Path, status: int, body: str, message: str
) -> None:
    site.pages["/search?q=q+x&count=5"] = answer(body, "application/json", status)
    done = run(site, "brave", tmp_path)
    assert done.is_error
    assert message in done.content
    assert "\n" not in done.content
    assert KEY not in done.content


def test_empty_result_bad_query_and_private_address_are_reported(site: Site, tmp_path: Path) -> None:
    site.pages["/search?q=q+x&count=5"] = answer("{}", "application/json")
    assert run(site, "brave", tmp_path).content == "No results."
    assert "empty" in run(site, "brave", tmp_path, query=" ").content
    assert "not a public address" in run(site, "brave", tmp_path, gate=Open(accepted=())).content


def test_search_is_judged_as_a_fetch_of_the_service(tmp_path: Path) -> None:
    policy = replace(policy_for(tmp_path), search_url=SERVICES["brave"].url)
    call: JsonObject = {"query": "x", "url": "https://elsewhere.example"}
    asked = policy.judge(spec_of("web_search"), call)
    assert (asked.verdict, asked.proposed_rule) == ("ask", "fetch(api.search.brave.com)")
    assert policy.with_allow("fetch(api.search.brave.com)").judge(spec_of("web_search"), call).verdict == "allow"
    assert replace(policy, rules=Rules.of(deny=["fetch"])).judge(spec_of("web_search"), call).verdict == "deny"
    assert policy.with_mode("plan").judge(spec_of("web_search"), call).verdict == "deny"
