"""The use of the context window: the tokens of the next prompt by use, and their text for `/context`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW, FirstCap, caps_for
from qcode.engine.counting import (
    PromptCounter,
    estimate_text,
    estimate_tool,
    size_block,
    size_messages,
)
from qcode.engine.effects import COMPACT_AT
from qcode.engine.transcript import make_valid
from qcode.protocol.messages import Message, ToolResult
from qcode.protocol.model import ModelRequest
from qcode.protocol.tools import ToolSpec
from qcode.text.numbers import percent_text, tokens_text
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.models.client import ModelClient
    from qcode.protocol.approvals import ApprovalMode


@dataclass(frozen=True, slots=True)
class ContextReport:
    """The tokens of a context window by use."""

    model: str
    window: int
    system: int
    instructions: int
    tools: int
    messages: int
    """The tokens of the messages without tool results."""
    tool_output: int
    """The tokens of the tool results in the messages."""
    reserve: int
    """The initial output limit of the next reply."""
    is_counted: bool = False
    """The provider counted the prompt; otherwise it is estimated."""
    is_window_known: bool = True
    compacts_at: float = COMPACT_AT
    """qcode compacts the conversation when this share of the window is used."""
    first_cap: FirstCap | None = None
    """Set if `reserve` was learned from earlier replies."""
    servers: Mapping[str, int] = field(default_factory=dict)
    """The tokens of the tools of each tool server, by its name (included in `tools`)."""

    @property
    def used(self) -> int:
        """The tokens in use, without the reserve."""
        return self.system + self.instructions + self.tools + self.messages + self.tool_output

    @property
    def free(self) -> int:
        """The tokens that neither the prompt nor the reserve uses."""
        return max(0, self.window - self.used - self.reserve)


def context_report(
    client: ModelClient,
    mode: ApprovalMode,
    tools: tuple[ToolSpec, ...],
    messages: Sequence[Message],
    counter: PromptCounter,
) -> ContextReport:
    """Return the sizes of the next prompt: estimates, scaled to the total if the provider counted the prompt."""
    model = client.known_model()
    system = client.system(mode)
    history = make_valid(messages)
    instructions = client.prompts.instruction_chars // 4  # a token has about four characters
    system_prompt = max(0, estimate_text(system) - instructions)
    tool_output = sum(
        size_block(block) for message in history for block in message.blocks if isinstance(block, ToolResult)
    )
    other_messages = size_messages(history) - tool_output
    tool_descriptions = sum(map(estimate_tool, tools))
    estimated = system_prompt + instructions + tool_descriptions + other_messages + tool_output
    size = counter.size_of(ModelRequest(model.name, system, history, tools, max_tokens=1))

    def scaled(tokens: int) -> int:
        return tokens * size.tokens // estimated if estimated else 0

    output = client.output
    learned = model.host.first_cap if output.learn_first_cap and output.override is None else None
    reserve = caps_for(output, model.output_limit, learned=learned).first
    window = model.window or DEFAULT_CONTEXT_WINDOW
    return ContextReport(
        model.title,
        window,
        system=scaled(system_prompt),
        instructions=scaled(instructions),
        tools=scaled(tool_descriptions),
        messages=scaled(other_messages),
        tool_output=scaled(tool_output),
        reserve=min(reserve, window),
        is_counted=size.is_counted,
        is_window_known=model.window is not None,
        first_cap=learned,
        servers={name: scaled(tokens) for name, tokens in _tokens_by_server(tools).items()},
    )


def _tokens_by_server(tools: Sequence[ToolSpec]) -> dict[str, int]:
    """Return the estimated tokens of the tools of each tool server, by its name."""
    sizes: dict[str, int] = {}
    for tool in tools:
        server, separator, _ = tool.name.partition("__")  # the name of a server tool is `server__tool`
        if separator:
            sizes[server] = sizes.get(server, 0) + estimate_tool(tool)
    return sizes


_BAR_CELLS = 20
_NAME_CELLS = 14


def context_text(report: ContextReport, *, has_bar: bool = True) -> str:
    """Return the tokens of the context window by use, with advice; `has_bar` is False for a screen reader."""
    rows = [
        ("System prompt", report.system),
        ("Instructions", report.instructions),
        ("Tools", report.tools),
        *((f"  {name}"[:_NAME_CELLS], tokens) for name, tokens in report.servers.items()),
        ("Messages", report.messages),
        ("Tool output", report.tool_output),
        ("Reply reserve", report.reserve),
        ("Free", report.free),
    ]
    bar = f"{_bar(report)}  " if has_bar else ""
    counted = "counted by the provider" if report.is_counted else "estimated"
    lines = [
        f"{bar}{tokens_text(report.used)} of {tokens_text(report.window)} tokens, "
        f"{percent_text(report.used, report.window)}, {counted}",
        *([] if report.is_window_known else ["The window of this model is unknown, so its size is assumed."]),
        "",
        *(
            f"{name:<{_NAME_CELLS}} {tokens_text(tokens):>6}  {percent_text(tokens, report.window):>4}"
            for name, tokens in rows
        ),
        "",
        *advice(report),
    ]
    return "\n".join(lines)


def _bar(report: ContextReport) -> str:
    if not report.window or not report.used:
        return "░" * _BAR_CELLS
    cells = min(_BAR_CELLS, round(report.used * _BAR_CELLS / report.window))
    filled = "█" * cells or "▏"  # a prompt that fills less than half a cell is still visible
    return filled.ljust(_BAR_CELLS, "░")


def advice(report: ContextReport) -> list[str]:
    """Return suggestions for the user, the most useful first."""
    share = report.used / report.window if report.window else 0
    if share < report.compacts_at:
        lines = [f"qcode compacts automatically at {report.compacts_at:.0%}."]
    else:
        lines = [f"Over {report.compacts_at:.0%} full: qcode compacts before the next request."]
    if report.first_cap is not None:
        learned = report.first_cap
        lines.append(
            f"Requests ask for {report.reserve:,} tokens of output instead of 8,000, because {learned.longer} of the "
            f"last {learned.replies} replies of this model were longer. output.learn_first_cap = false turns this off."
        )
    if share >= 0.5:
        lines.append("/compact frees space now; /clear starts a new session.")
    if report.tool_output > report.used / 2 and report.tool_output > report.window / 10:
        lines.append("Most of this is tool output: ask for narrower reads and searches.")
    if report.instructions > report.window / 10:
        lines.append("Instruction files use over a tenth of the window: shorten them (/memory).")
    if report.tools > report.window / 5:
        lines.append("Tool descriptions use over a fifth of the window: disable some MCP servers, or set mcp.defer.")
    return lines
