"""Python functions as tools of the model: the decorator `tool`, which derives the schema from hints and docstring.

The function runs in the process of the program, a synchronous function in a thread. A call needs no approval unless the
tool `asks`. A call with truncated or invalid arguments never reaches the function.
"""

from __future__ import annotations

import contextvars
import dataclasses
import enum
import inspect
import json
import re
import typing
from collections.abc import Callable
from functools import partial
from typing import Any, overload

from qcode.agent.options import SERVER_SEPARATOR
from qcode.agent.programs.faults import describe_fault, is_fault
from qcode.agent.programs.hints import accepts_null, schema_of, value_of
from qcode.protocol.messages import Image
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.providers.sdk import run_in_thread
from qcode.text.clean import quoted, visible, visible_json
from qcode.text.json import Json, JsonObject
from qcode.tools.output import bounded_text
from qcode.tools.tool import Preview, failed
from qcode.tools.tool import ToolRunContext as CallContext
from qcode.tools.workspace import Workspace
from qcode.values import dataclass

_MAX_SUMMARY_CHARS = 80
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The current call, passed to a function whose first parameter has this type."""

    cwd: str
    """The folder that the agent works in."""
    session_id: str
    progress: Callable[[str], None]
    """Shows a text as live output of the call; the model does not see it. May be called from any thread."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a function that returns images or an error in addition to a text."""

    text: str
    images: tuple[Image, ...] = ()
    is_error: bool = False


class FunctionTool:
    """A Python function as a tool; calling it calls the function."""

    def __init__(self, function: Callable[..., Any], *, name: str = "", asks: bool, reads_only: bool) -> None:
        """See `tool`. Raise `TypeError` for an unsupported parameter, and for a name that providers do not accept."""
        if not inspect.isroutine(function):
            raise TypeError(f"tool: a function is expected, not {type(function).__name__}")
        self.function = function
        name = name or function.__name__
        if not _NAME.fullmatch(name):
            raise TypeError(f"tool {quoted(name)}: a name has at most 64 letters, digits, _ and -")
        if SERVER_SEPARATOR in name:
            raise TypeError(f"tool {quoted(name)}: names with {SERVER_SEPARATOR} belong to tool servers")
        signature = _signature(function, name)
        self._takes_context, self._hints = signature.takes_context, signature.hints
        description = inspect.getdoc(function) or ""
        safety: typing.Literal["harmless"] | None = None if asks else "harmless"
        self.spec: ToolSpec = ToolSpec(name, description, signature.schema, is_read_only=reads_only, safety=safety)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.function(*args, **named)

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutcome:
        """Run the function. Invalid arguments and exceptions become a result that is an error."""
        positional = (context,) if self._takes_context else ()
        try:
            values = {
                name: value_of(self._hints[name], value, name)
                for name, value in self._without_null_defaults(arguments).items()
            }
        except ValueError as fault:
            return failed(f"{self.spec.name}: {fault}")
        except BaseException as fault:  # a dataclass of the program may refuse its fields
            if not is_fault(fault):
                raise
            return failed(f"{self.spec.name}: {describe_fault(fault)}")
        try:
            return _outcome(await self._call_function(positional, values))
        except BaseException as fault:  # the program's own code: its failure is a result
            if not is_fault(fault):
                raise
            return failed(f"{self.spec.name}: {describe_fault(fault)}")

    async def _call_function(self, positional: tuple[ToolContext, ...], values: dict[str, Any]) -> Any:
        """Call the function and return its value: a coroutine on the event loop, any other function in a thread."""
        if inspect.iscoroutinefunction(self.function):
            return await self.function(*positional, **values)
        call = partial(contextvars.copy_context().run, self.function, *positional, **values)
        # A daemon thread: a function that hangs must block neither the threads of the event loop nor exit.
        value = await run_in_thread(call)
        return await value if inspect.isawaitable(value) else value

    def _without_null_defaults(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments without null values of optional parameters that do not accept null.

        Raise `ValueError` for an unknown or missing argument.
        """
        unknown = next((name for name in arguments if name not in self._hints), None)
        if unknown is not None:
            names = ", ".join(self._hints) or "none"
            raise ValueError(f"unknown argument {quoted(unknown)}; the arguments are {names}")
        missing = next((name for name in self.spec.required if name not in arguments), None)
        if missing is not None:
            raise ValueError(f"missing argument {quoted(missing)}")
        return {name: value for name, value in arguments.items() if value is not None or self._keeps_null(name)}

    def _keeps_null(self, name: str) -> bool:
        """Return whether null is passed to the function; otherwise the default of the parameter is used."""
        return name in self.spec.required or accepts_null(self._hints[name])


class BoundTool:
    """A function as a tool of one agent. `session_id` returns the id of the agent's session."""

    def __init__(self, tool: FunctionTool, session_id: Callable[[], str]) -> None:
        self.spec = tool.spec
        self._tool = tool
        self._session_id = session_id

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        detail = visible_json(arguments) if arguments else ""
        return Preview(f"Run the tool {visible(self.spec.name)} of this program?", detail)

    async def run(self, arguments: JsonObject, workspace: Workspace, context: CallContext) -> ToolOutcome:
        tool_context = ToolContext(str(workspace.root), self._session_id(), context.output)
        outcome = await self._tool.run(arguments, tool_context)
        text = bounded_text(outcome.content, context.max_output_chars, lambda: workspace.scratch)
        return dataclasses.replace(outcome, content=text)


@dataclass(frozen=True, slots=True)
class _Signature:
    """The parameters of a function."""

    takes_context: bool
    """The first parameter is a `ToolContext`; the other fields do not include it."""
    hints: dict[str, Any]
    """The type of each parameter, by name."""
    schema: JsonObject


def _signature(function: Callable[..., Any], name: str) -> _Signature:
    """Return the parameters of a function; raise `TypeError` for a parameter without a supported type."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"tool {name}: {error}") from None
    parameters = list(inspect.signature(function).parameters.values())
    takes_context = bool(parameters) and hints.get(parameters[0].name) is ToolContext
    types: dict[str, Any] = {}
    properties: dict[str, Json] = {}
    required: list[Json] = []
    for parameter in parameters[1:] if takes_context else parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"tool {name}: the parameter {parameter.name} cannot be given by name")
        if parameter.name not in hints:
            raise TypeError(f"tool {name}: the parameter {parameter.name} has no type hint")
        try:
            properties[parameter.name] = schema_of(hints[parameter.name])
        except TypeError as fault:
            raise TypeError(f"tool {name}: the parameter {parameter.name}: {fault}") from None
        types[parameter.name] = hints[parameter.name]
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    schema: dict[str, Json] = {"type": "object", "properties": properties, "required": required}
    return _Signature(takes_context, types, {**schema, "additionalProperties": False})


def _outcome(value: Any) -> ToolOutcome:
    """Convert the return value of a function to the result of its call: a string unchanged, other values as JSON.

    Raise `TypeError` for a value that has no JSON form.
    """
    if isinstance(value, ToolResult):
        text: Any = value.text  # the program may pass anything
        images = tuple(value.images)
        if not isinstance(text, str) or not all(isinstance(image, Image) for image in images):
            raise TypeError("a ToolResult has a string, and images of the type Image")
        text = _encodable(text)
        return ToolOutcome(text, value.is_error, summary=_first_line(text), images=images)
    is_text = isinstance(value, str)
    text = _encodable(value if is_text else json.dumps(value, ensure_ascii=False, indent=2, default=_json_default))
    return ToolOutcome(text, summary=_first_line(text))


def _json_default(value: Any) -> Any:
    """Convert a dataclass to a dict, and an enum member to its value, for `json.dumps`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _encodable(text: str) -> str:
    """Replace lone surrogates, which file names may contain, so that the text can be encoded in UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _first_line(text: str) -> str:
    line, _, _ = text.strip().partition("\n")
    return line[:_MAX_SUMMARY_CHARS]


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *, name: str = "", asks: bool = False, reads_only: bool = False
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, *, name: str = "", asks: bool = False, reads_only: bool = False
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function, as `@tool` or `@tool(asks=True)`; raise `TypeError` for an unsupported type.

    `name` is the name for the model, by default the name of the function. With `asks`, each call needs an approval,
    except in bypass mode. With `reads_only`, a call changes nothing, so calls may run concurrently.
    """

    def decorate(function: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(function, name=name, asks=asks, reads_only=reads_only)

    return decorate if function is None else decorate(function)
