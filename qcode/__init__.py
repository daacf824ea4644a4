"""qcode: a coding assistant for the terminal, and a library (`qcode.run`, `Agent`).

`__all__` is the public API. A name loads its module at its first use, so importing the package is fast.
"""

from __future__ import annotations

__version__ = "0.1.0"

_NAMES_BY_MODULE = {
    "qcode.agent.agent": ("Agent", "Opening", "run"),
    "qcode.agent.hooks.events": ("Hook", "HookFunction"),
    "qcode.agent.options": ("Options",),
    "qcode.agent.programs.function_tools": ("FunctionTool", "ToolContext", "ToolResult", "tool"),
    "qcode.agent.programs.results": (
        "DeniedError", "IncompleteError", "LimitError", "ModelError", "RefusedError", "Result", "SchemaError",
        "TurnCancelledError", "TurnError",
    ),
    "qcode.agent.programs.turns": ("File", "TurnFields", "TurnStream"),
    "qcode.protocol.approvals": (
        "AcceptPlan", "Allow", "Answer", "Approval", "Choice", "Decision", "Deny", "Draft", "ImpossibleCall",
        "PlanApproval", "Question", "RepeatedCall", "Revise", "ServerApproval", "ToolApproval",
    ),
    "qcode.protocol.errors": (
        "ConfigError", "CredentialError", "ErrorInfo", "ErrorKind", "ExitCode", "InputError", "ProviderError",
        "QcodeError", "SessionError", "UsageError",
    ),
    "qcode.protocol.events": (
        "AgentEvent", "ApiCalls", "ApprovalRequested", "AttemptRecord", "Compacted", "CompactionStarted",
        "ContinuationAttempt", "ContinuationTerminated", "Denial", "HookEnded", "HookStarted", "LimitReached",
        "ModelFellBack", "ModelUsage", "Notice", "OutputEscalated", "PartialRestored", "ReplyFinished",
        "ResultsCommitted", "Retry", "Signal", "SteeringAdded", "StepStarted", "StopReasonObserved",
        "ToolCallProgress", "ToolFinished", "ToolOutput", "ToolPayloadRepair", "ToolStarted", "TurnEnded", "TurnEvent",
        "TurnStarted", "UsageUpdated", "Waiting",
    ),
    "qcode.protocol.messages": ("Image", "Message", "Reasoning", "Text", "ToolCall"),
    "qcode.protocol.reply": ("Limit", "Outcome", "ReasoningDelta", "Source", "StopReason", "TextDelta", "WebSearched"),
    "qcode.protocol.tools": ("ChangedFile", "EditedFile", "ToolOutcome"),
    "qcode.protocol.usage": ("Usage",),
    "qcode.text.diff": ("FileDiff",),
}  # fmt: skip
_MODULE_BY_NAME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}

__all__ = ["__version__", *sorted(_MODULE_BY_NAME)]


def __getattr__(name: str) -> object:
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module 'qcode' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_MODULE_BY_NAME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
