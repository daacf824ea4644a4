"""The generated parts of the page about the Python API: the public classes with their fields and methods.

The texts are the docstrings in the source, read as syntax, because a field keeps no docstring at run time.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from textwrap import wrap

import qcode
from qcode import testing
from qcode.cli.flags import FLAGS

WIDTH = 100
GROUPS: Mapping[str, tuple[str, ...]] = {
    "api-agent": ("Agent", "TurnStream", "TurnFields", "File", "Image"),
    "api-options": ("Options",),
    "api-events": (
        "TurnStarted", "StepStarted", "TextDelta", "ReasoningDelta", "WebSearched", "Source", "ToolCallProgress",
        "ReplyFinished", "ApprovalRequested", "ToolStarted", "ToolOutput", "ToolFinished", "ResultsCommitted",
        "SteeringAdded", "UsageUpdated", "Notice", "TurnEnded", "AgentEvent",
    ),
    "api-recovery-events": (
        "Retry", "PartialRestored", "OutputEscalated", "ContinuationAttempt", "ContinuationTerminated",
        "ToolPayloadRepair", "StopReasonObserved", "Waiting", "LimitReached", "ModelFellBack", "CompactionStarted",
        "Compacted", "HookStarted", "HookEnded",
    ),
    "api-result": (
        "Result", "Outcome", "StopReason", "Limit", "Usage", "ModelUsage", "ApiCalls", "AttemptRecord", "FileDiff",
        "Denial", "Signal", "ErrorInfo", "ErrorKind", "ExitCode",
    ),
    "api-approvals": (
        "ToolApproval", "RepeatedCall", "ImpossibleCall", "Question", "PlanApproval", "ServerApproval", "Choice",
        "Draft", "ChangedFile", "Allow", "Deny", "Answer", "AcceptPlan", "Revise",
    ),
    "api-messages": ("Message", "Text", "Reasoning", "ToolCall", "ToolOutcome", "EditedFile"),
    "api-tools": ("ToolContext", "ToolResult", "FunctionTool", "Hook"),
    "api-testing": ("Scripted", "Call", "Truncated"),
}  # fmt: skip
"""The classes of each part, in their order on the page."""
_METHODS: Mapping[str, tuple[str, ...]] = {
    "Agent": ("open", "run", "stream", "cancel", "fork", "close"),
    "TurnStream": ("result", "steer", "cancel", "aclose"),
}
"""The methods and properties to show of a class, instead of its fields.

All documented properties and static methods of other classes are shown.
"""
_FIRST_INTERNAL_OPTION = ("Options", "prompt")
"""The first of the fields that only the front ends of qcode use."""


def part(name: str) -> str:
    """Return a part of the page: a section for each class."""
    lines = [line for each in GROUPS[name] for line in _section(each)]
    return "".join(f"{line}\n" for line in ["", *lines])


def _section(name: str) -> Iterator[str]:
    """Yield the lines about a class: its meaning, its fields or values, its methods."""
    source = _class(name)
    yield from (f"### `{name}`", "")
    for paragraph in filter(None, (ast.get_docstring(source) or "").split("\n\n")):
        yield from (*wrap(_inline(paragraph), WIDTH, break_long_words=False, break_on_hyphens=False), "")
    fields = [] if name in _METHODS else _fields(name, source)
    entries = [*fields, *_methods(name, source)]
    for entry in entries:
        yield from wrap(entry, WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
                        break_on_hyphens=False)  # fmt: skip
    if entries:
        yield ""


def _fields(name: str, source: ast.ClassDef) -> Iterator[str]:
    """Yield the fields of a class, or the members of an enum."""
    flags = {flag.field: flag for flag in FLAGS if flag.field} if name == "Options" else {}
    for node, doc in _with_docstrings(source.body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            field = node.target.id
            if (name, field) == _FIRST_INTERNAL_OPTION:
                return
            default = "" if node.value is None else f" = {ast.unparse(node.value)}"
            flag = flags.get(field)
            yield _entry(f"{field}: {ast.unparse(node.annotation)}{default}", doc or (flag.meaning if flag else ""))
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield _entry(ast.unparse(node), doc)


def _methods(name: str, source: ast.ClassDef) -> Iterator[str]:
    wanted = _METHODS.get(name)
    for node in source.body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name.startswith("_"):
            continue
        decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
        doc = _inline(ast.get_docstring(node) or "")
        is_shown = node.name in wanted if wanted else bool(decorators & {"property", "staticmethod"} and doc)
        if not is_shown or "overload" in decorators:
            continue
        if "property" in decorators:
            returned = f": {ast.unparse(node.returns)}" if node.returns else ""
            yield _entry(f"{node.name}{returned}", doc)
        else:
            kind = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
            parameters = re.sub(r"^(?:self|cls)(?:, )?", "", ast.unparse(node.args))
            yield _entry(f"{kind}{node.name}({parameters})", doc)


def _with_docstrings(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each statement with the text below it, empty if there is none."""
    for index, node in enumerate(body):
        following = body[index + 1] if index + 1 < len(body) else None
        text = ""
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            text = inspect.cleandoc(str(following.value.value))
        yield node, _inline(text)


def _entry(code: str, doc: str) -> str:
    return f"`{code}`: {doc}" if doc else f"`{code}`"


def _inline(text: str) -> str:
    return " ".join(text.split())


@functools.cache
def _classes(module: str) -> Mapping[str, ast.ClassDef]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _class(name: str) -> ast.ClassDef:
    value = getattr(testing if hasattr(testing, name) and name in GROUPS["api-testing"] else qcode, name)
    return _classes(value.__module__)[name]
