"""The facts in every spec, and that a policy uses nothing else."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import replace
from pathlib import Path

import pytest

import qcode.tools
from qcode.protocol.approvals import ApprovalMode
from qcode.protocol.tools import CommandExecution, FileAccess, NetworkAccess, ToolSpec
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from qcode.text.json import JsonObject
from tests.fakes.tools import SPECS, spec_of

# Apart: programs that other programs start.
_NO_TOOLS = ("qcode.tools.files.scanner", "qcode.tools.files.pdf_program")
ACTIONS: tuple[JsonObject, ...] = ({"path": "a"}, {"command": "rm a"}, {"url": "https://example.com/"}, {})


def defined() -> set[str]:
    """Return the names of the tools that the modules of `qcode.tools` define."""
    names = set()
    for module in pkgutil.walk_packages(qcode.tools.__path__, "qcode.tools."):
        if module.name not in _NO_TOOLS:
            for _, made in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                if isinstance(spec := inspect.getattr_static(made, "spec", None), ToolSpec):
                    names.add(spec.name)
    return names


def test_every_defined_tool_is_checked_here() -> None:
    assert defined() | {"agent"} == set(SPECS)


@pytest.mark.parametrize("name", SPECS)
def test_every_tool_declares_the_effects_of_its_calls(name: str) -> None:
    spec = SPECS[name]
    assert spec.safety is not None, f"{name}: give its spec a `safety`; without one every call of it asks"
    if isinstance(spec.safety, FileAccess):
        assert spec.is_read_only == (spec.safety.access == "read")
        assert spec.writes_files == (spec.safety.access == "write")
    else:
        assert not spec.writes_files
    for argument in (getattr(spec.safety, item, "") for item in ("command", "unconfined", "url")):
        assert not argument or argument in spec.parameters["properties"]  # type: ignore[operator]  # a JSON object


def test_tools_that_run_unasked_or_run_commands_are_listed_by_name() -> None:
    by_kind = {
        kind: {name for name, spec in SPECS.items() if spec.safety == kind or type(spec.safety) is kind}
        for kind in ("harmless", CommandExecution, NetworkAccess)
    }
    assert by_kind["harmless"] == {"todo", "ask_person", "jobs", "agent", "exit_plan_mode"}
    assert by_kind[CommandExecution] == {"shell", "diagnostics"}
    assert by_kind[NetworkAccess] == {"fetch", "web_search"}


def test_edit_tools_and_tools_without_sub_agents_are_listed_by_name() -> None:
    ways = {way: {name for name, spec in SPECS.items() if spec.edit_format == way} for way in ("passage", "patch")}
    assert ways == {"passage": {"edit", "multi_edit"}, "patch": {"apply_patch"}}
    names = {name for name, spec in SPECS.items() if not spec.is_for_sub_agents}
    assert names == {"agent", "todo", "ask_person", "exit_plan_mode"}


@pytest.mark.parametrize("name", [name for name, spec in SPECS.items() if isinstance(spec.safety, FileAccess)])
def test_file_tool_declares_its_paths_or_the_reason_for_none(name: str) -> None:
    safety = SPECS[name].safety
    assert isinstance(safety, FileAccess)
    patch = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-x\n+y\n*** Delete File: a\n*** End Patch"
    named = safety.paths_of({"path": "a", "input": patch})
    assert named == (("a", "b") if name == "apply_patch" else ("a",))
    assert isinstance(safety.paths_of({"path": 1, "input": 1}), str)
    assert isinstance(safety.paths_of({"input": "no patch"}), str) == (safety.access == "write")
    assert safety.paths_of({}) == (".",) or safety.access == "write"


@pytest.mark.parametrize("arguments", ACTIONS)
@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize(("mode", "verdict"), [("default", "ask"), ("accept-edits", "ask"), ("plan", "deny")])
def test_tool_without_declared_effects_is_judged_like_a_server_tool(
    name: str, arguments: JsonObject, mode: ApprovalMode, verdict: str, tmp_path: Path
) -> None:
    policy = Policy(mode, Rules.of(allow=["shell", "edit", "fetch"]), True, tmp_path)
    spec = replace(SPECS[name], safety=None)
    judged = policy.judge(spec, arguments)
    assert judged.verdict == verdict
    assert judged == policy.judge(ToolSpec(name, "", {}), arguments)


def test_name_alone_grants_a_tool_no_rights(tmp_path: Path) -> None:
    policy = Policy("default", Rules.of(), True, tmp_path)
    assert policy.judge(spec_of("read"), {"path": "."}).is_allowed
    assert policy.judge(ToolSpec("read", "", {}), {"path": "."}).verdict == "ask"
    assert policy.judge(spec_of("srv__read"), {"path": "."}).proposed_rule == "mcp(srv/read)"
