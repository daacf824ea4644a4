"""The public API, for type checkers: at run time each name loads its module when it is first used."""

from qcode.agent.agent import (
    Agent as Agent,
)
from qcode.agent.agent import (
    Opening as Opening,
)
from qcode.agent.agent import (
    run as run,
)
from qcode.agent.hooks.events import (
    Hook as Hook,
)
from qcode.agent.hooks.events import (
    HookFunction as HookFunction,
)
from qcode.agent.options import (
    Options as Options,
)
from qcode.agent.programs.function_tools import (
    FunctionTool as FunctionTool,
)
from qcode.agent.programs.function_tools import (
    ToolContext as ToolContext,
)
from qcode.agent.programs.function_tools import (
    ToolResult as ToolResult,
)
from qcode.agent.programs.function_tools import (
    tool as tool,
)
from qcode.agent.programs.results import (
    DeniedError as DeniedError,
)
from qcode.agent.programs.results import (
    IncompleteError as IncompleteError,
)
from qcode.agent.programs.results import (
    LimitError as LimitError,
)
from qcode.agent.programs.results import (
    ModelError as ModelError,
)
from qcode.agent.programs.results import (
    RefusedError as RefusedError,
)
from qcode.agent.programs.results import (
    Result as Result,
)
from qcode.agent.programs.results import (
    SchemaError as SchemaError,
)
from qcode.agent.programs.results import (
    TurnCancelledError as TurnCancelledError,
)
from qcode.agent.programs.results import (
    TurnError as TurnError,
)
from qcode.agent.programs.turns import (
    File as File,
)
from qcode.agent.programs.turns import (
    TurnFields as TurnFields,
)
from qcode.agent.programs.turns import (
    TurnStream as TurnStream,
)
from qcode.protocol.approvals import (
    AcceptPlan as AcceptPlan,
)
from qcode.protocol.approvals import (
    Allow as Allow,
)
from qcode.protocol.approvals import (
    Answer as Answer,
)
from qcode.protocol.approvals import (
    Approval as Approval,
)
from qcode.protocol.approvals import (
    Choice as Choice,
)
from qcode.protocol.approvals import (
    Decision as Decision,
)
from qcode.protocol.approvals import (
    Deny as Deny,
)
from qcode.protocol.approvals import (
    Draft as Draft,
)
from qcode.protocol.approvals import (
    ImpossibleCall as ImpossibleCall,
)
from qcode.protocol.approvals import (
    PlanApproval as PlanApproval,
)
from qcode.protocol.approvals import (
    Question as Question,
)
from qcode.protocol.approvals import (
    RepeatedCall as RepeatedCall,
)
from qcode.protocol.approvals import (
    Revise as Revise,
)
from qcode.protocol.approvals import (
    ServerApproval as ServerApproval,
)
from qcode.protocol.approvals import (
    ToolApproval as ToolApproval,
)
from qcode.protocol.errors import (
    ConfigError as ConfigError,
)
from qcode.protocol.errors import (
    CredentialError as CredentialError,
)
from qcode.protocol.errors import (
    ErrorInfo as ErrorInfo,
)
from qcode.protocol.errors import (
    ErrorKind as ErrorKind,
)
from qcode.protocol.errors import (
    ExitCode as ExitCode,
)
from qcode.protocol.errors import (
    InputError as InputError,
)
from qcode.protocol.errors import (
    ProviderError as ProviderError,
)
from qcode.protocol.errors import (
    QcodeError as QcodeError,
)
from qcode.protocol.errors import (
    SessionError as SessionError,
)
from qcode.protocol.errors import (
    UsageError as UsageError,
)
from qcode.protocol.events import (
    AgentEvent as AgentEvent,
)
from qcode.protocol.events import (
    ApiCalls as ApiCalls,
)
from qcode.protocol.events import (
    ApprovalRequested as ApprovalRequested,
)
from qcode.protocol.events import (
    AttemptRecord as AttemptRecord,
)
from qcode.protocol.events import (
    Compacted as Compacted,
)
from qcode.protocol.events import (
    CompactionStarted as CompactionStarted,
)
from qcode.protocol.events import (
    ContinuationAttempt as ContinuationAttempt,
)
from qcode.protocol.events import (
    ContinuationTerminated as ContinuationTerminated,
)
from qcode.protocol.events import (
    Denial as Denial,
)
from qcode.protocol.events import (
    HookEnded as HookEnded,
)
from qcode.protocol.events import (
    HookStarted as HookStarted,
)
from qcode.protocol.events import (
    LimitReached as LimitReached,
)
from qcode.protocol.events import (
    ModelFellBack as ModelFellBack,
)
from qcode.protocol.events import (
    ModelUsage as ModelUsage,
)
from qcode.protocol.events import (
    Notice as Notice,
)
from qcode.protocol.events import (
    OutputEscalated as OutputEscalated,
)
from qcode.protocol.events import (
    PartialRestored as PartialRestored,
)
from qcode.protocol.events import (
    ReplyFinished as ReplyFinished,
)
from qcode.protocol.events import (
    ResultsCommitted as ResultsCommitted,
)
from qcode.protocol.events import (
    Retry as Retry,
)
from qcode.protocol.events import (
    Signal as Signal,
)
from qcode.protocol.events import (
    SteeringAdded as SteeringAdded,
)
from qcode.protocol.events import (
    StepStarted as StepStarted,
)
from qcode.protocol.events import (
    StopReasonObserved as StopReasonObserved,
)
from qcode.protocol.events import (
    ToolCallProgress as ToolCallProgress,
)
from qcode.protocol.events import (
    ToolFinished as ToolFinished,
)
from qcode.protocol.events import (
    ToolOutput as ToolOutput,
)
from qcode.protocol.events import (
    ToolPayloadRepair as ToolPayloadRepair,
)
from qcode.protocol.events import (
    ToolStarted as ToolStarted,
)
from qcode.protocol.events import (
    TurnEnded as TurnEnded,
)
from qcode.protocol.events import (
    TurnEvent as TurnEvent,
)
from qcode.protocol.events import (
    TurnStarted as TurnStarted,
)
from qcode.protocol.events import (
    UsageUpdated as UsageUpdated,
)
from qcode.protocol.events import (
    Waiting as Waiting,
)
from qcode.protocol.messages import (
    Image as Image,
)
from qcode.protocol.messages import (
    Message as Message,
)
from qcode.protocol.messages import (
    Reasoning as Reasoning,
)
from qcode.protocol.messages import (
    Text as Text,
)
from qcode.protocol.messages import (
    ToolCall as ToolCall,
)
from qcode.protocol.reply import (
    Limit as Limit,
)
from qcode.protocol.reply import (
    Outcome as Outcome,
)
from qcode.protocol.reply import (
    ReasoningDelta as ReasoningDelta,
)
from qcode.protocol.reply import (
    Source as Source,
)
from qcode.protocol.reply import (
    StopReason as StopReason,
)
from qcode.protocol.reply import (
    TextDelta as TextDelta,
)
from qcode.protocol.reply import (
    WebSearched as WebSearched,
)
from qcode.protocol.tools import (
    ChangedFile as ChangedFile,
)
from qcode.protocol.tools import (
    EditedFile as EditedFile,
)
from qcode.protocol.tools import (
    ToolOutcome as ToolOutcome,
)
from qcode.protocol.usage import (
    Usage as Usage,
)
from qcode.text.diff import (
    FileDiff as FileDiff,
)

__version__: str
__all__ = [
    "AcceptPlan",
    "Agent",
    "AgentEvent",
    "Allow",
    "Answer",
    "ApiCalls",
    "Approval",
    "ApprovalRequested",
    "AttemptRecord",
    "ChangedFile",
    "Choice",
    "Compacted",
    "CompactionStarted",
    "ConfigError",
    "ContinuationAttempt",
    "ContinuationTerminated",
    "CredentialError",
    "Decision",
    "Denial",
    "DeniedError",
    "Deny",
    "Draft",
    "EditedFile",
    "ErrorInfo",
    "ErrorKind",
    "ExitCode",
    "File",
    "FileDiff",
    "FunctionTool",
    "Hook",
    "HookEnded",
    "HookFunction",
    "HookStarted",
    "Image",
    "ImpossibleCall",
    "IncompleteError",
    "InputError",
    "Limit",
    "LimitError",
    "LimitReached",
    "Message",
    "ModelError",
    "ModelFellBack",
    "ModelUsage",
    "Notice",
    "Opening",
    "Options",
    "Outcome",
    "OutputEscalated",
    "PartialRestored",
    "PlanApproval",
    "ProviderError",
    "QcodeError",
    "Question",
    "Reasoning",
    "ReasoningDelta",
    "RefusedError",
    "RepeatedCall",
    "ReplyFinished",
    "Result",
    "ResultsCommitted",
    "Retry",
    "Revise",
    "SchemaError",
    "ServerApproval",
    "SessionError",
    "Signal",
    "Source",
    "SteeringAdded",
    "StepStarted",
    "StopReason",
    "StopReasonObserved",
    "Text",
    "TextDelta",
    "ToolApproval",
    "ToolCall",
    "ToolCallProgress",
    "ToolContext",
    "ToolFinished",
    "ToolOutcome",
    "ToolOutput",
    "ToolPayloadRepair",
    "ToolResult",
    "ToolStarted",
    "TurnCancelledError",
    "TurnEnded",
    "TurnError",
    "TurnEvent",
    "TurnFields",
    "TurnStarted",
    "TurnStream",
    "Usage",
    "UsageError",
    "UsageUpdated",
    "Waiting",
    "WebSearched",
    "__version__",
    "run",
    "tool",
]
