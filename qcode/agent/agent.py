"""The agent as one object: a conversation with its model, tools, rules, sessions and servers, opened for one run.

A front end opens an `Agent` and uses its `conversation`. Opening reads files, sends nothing, and never writes to
stdout. If it fails, it raises `QcodeError`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, Unpack, overload

from qcode.agent.options import Options, RunContext
from qcode.protocol.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from qcode.agent.context.clipboard import ClipboardContent
    from qcode.agent.context.file_index import FileIndex
    from qcode.agent.context.memory import InstructionFiles
    from qcode.agent.context.pictures import Picture
    from qcode.agent.context.system_prompt import Prompts
    from qcode.agent.conversation import Conversation
    from qcode.agent.hooks.events import Hook
    from qcode.agent.keys.connect import KeysService
    from qcode.agent.mcp.servers import Servers
    from qcode.agent.mcp.spec import ReplacedServers, ServerSpec
    from qcode.agent.models.client import ModelClient
    from qcode.agent.models.offered import ModelsService
    from qcode.agent.models.selection import Selection
    from qcode.agent.models.side_questions import SideQuestions
    from qcode.agent.offered_tools import OfferedTool
    from qcode.agent.permissions import Permissions
    from qcode.agent.programs.function_tools import FunctionTool
    from qcode.agent.programs.results import Result
    from qcode.agent.programs.turns import AgentTurns, Prompt, TurnFields, TurnStream
    from qcode.agent.sessions.library import SessionLibrary
    from qcode.agent.settings import SettingsService
    from qcode.agent.skills.library import SkillLibrary
    from qcode.agent.skills.skill import Skill
    from qcode.agent.toolbox import Toolbox
    from qcode.agent.trust.service import TrustService
    from qcode.config.definitions import CustomCommands
    from qcode.protocol.approvals import Approval, Decision, TurnPrompt
    from qcode.protocol.events import Notice
    from qcode.protocol.messages import Message
    from qcode.protocol.provider import Provider
    from qcode.tools.buffers import BufferSource

OutputT = TypeVar("OutputT")
Hooks: TypeAlias = "Mapping[str, Sequence[Hook]]"
"""The hooks of a program that embeds qcode, by the name of their event."""
Approve: TypeAlias = "Callable[[Approval], Awaitable[Decision]]"
"""A function that decides the approvals of a turn in place of the user."""


class Agent:
    """An open conversation with its model, tools, rules and connections. Owns them until `close` or `release`.

    `approve` decides the approvals of `run` and `stream`; without it, calls that need an approval are denied. A front
    end that reads the events of the `conversation` answers the approvals itself.
    """

    conversation: Conversation
    permissions: Permissions
    toolbox: Toolbox
    approve: Approve | None = None
    skills: SkillLibrary | None = None
    """The skills of the run, None if no folder of skills exists."""

    def __init__(
        self,
        context: RunContext,
        selection: Selection,
        *,
        program_tools: Sequence[FunctionTool] = (),
        history: Sequence[Message] = (),
        wrap: Callable[[Provider], Provider] | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        """Raise `QcodeError`, or `ProviderError` if the model cannot be connected.

        `program_tools` are the tools of the program that opens the agent. `history` are the messages that a new session
        begins with; they are not saved. `wrap` is called for each provider that the agent uses, and returns the
        provider to use instead.
        """
        from qcode.agent.opening import AgentParts  # loads most of the library

        parts = AgentParts(context, selection, program_tools, history, wrap, hooks)
        self.context: RunContext = context
        self.selection = selection
        self.permissions = parts.permissions
        self.memory: InstructionFiles = parts.memory
        self.prompts: Prompts = parts.prompts
        self.provider: Provider = parts.provider
        self.toolbox = parts.toolbox
        self.conversation = parts.conversation
        self.skills = parts.skills
        self.notices: tuple[str, ...] = parts.notices
        self.redact: Callable[[str], str] = parts.redact
        self._program_tools = tuple(program_tools)
        self._hooks = hooks
        self._store = parts.store
        self._clients = parts.clients
        self._parts = parts

    @classmethod
    def begin(
        cls,
        options: Options | RunContext,
        selection: Selection | None = None,
        *,
        approve: Approve | None = None,
        tools: Sequence[FunctionTool] = (),
        hooks: Hooks | None = None,
        history: Sequence[Message] = (),
        wrap: Callable[[Provider], Provider] | None = None,
    ) -> Agent:
        """Open an agent with the model of `selection`, by default the model that the options and settings choose.

        Raise `QcodeError`. Opening reads files and blocks: use `open` in a running event loop.
        """
        from qcode.agent.models.selection import provider_failures, select_at_start

        context = options
        if isinstance(context, Options):
            context = RunContext.read(context, dict(os.environ), is_attended=approve is not None)
        with provider_failures(context.keys):
            agent = cls(
                context,
                selection or select_at_start(context),
                program_tools=tools,
                history=history,
                wrap=wrap,
                hooks=hooks,
            )
        agent.approve = approve
        if approve is not None:
            agent.report_file_texts()
        return agent

    @classmethod
    def open(
        cls,
        options: Options | RunContext | None = None,
        selection: Selection | None = None,
        *,
        approve: Approve | None = None,
        tools: Sequence[FunctionTool] = (),
        hooks: Hooks | None = None,
    ) -> Opening:
        """Open an agent as `begin` does, in a thread. `async with` closes it at the end; after `await`, call `close`.

        `approve` is called for each call that needs an approval. `tools` are functions decorated with `@tool`. `hooks`
        are functions by the name of their event, such as `PreToolUse`.
        """
        return Opening(partial(cls.begin, options or Options(), selection, approve=approve, tools=tools, hooks=hooks))

    @overload
    async def run(
        self, prompt: Prompt, *, output: type[OutputT], check: Literal[True] = True, **turn: Unpack[TurnFields]
    ) -> Result[OutputT]: ...
    @overload
    async def run(
        self, prompt: Prompt, *, output: type[OutputT], check: bool, **turn: Unpack[TurnFields]
    ) -> Result[OutputT | None]: ...
    @overload
    async def run(
        self, prompt: Prompt, *, output: None = None, check: bool = True, **turn: Unpack[TurnFields]
    ) -> Result[None]: ...
    @overload
    async def run(
        self, prompt: Prompt, *, output: object, check: bool = True, **turn: Unpack[TurnFields]
    ) -> Result[Any]: ...
    async def run(
        self, prompt: Prompt, *, output: Any = None, check: bool = True, **turn: Unpack[TurnFields]
    ) -> Result[Any]:
        """Run a turn to its end and return its result.

        If the turn has no complete answer, raise a `TurnError`, unless `check` is False.
        `output` is the type of the answer: a dataclass, a `TypedDict`, a JSON Schema, or a class with
        `model_json_schema` and `model_validate`. Cancelling the task cancels the turn.
        """
        from qcode.agent.programs.results import raise_if_incomplete

        stream = self._turns.stream(prompt, output, turn, append_only=False)
        async with stream:
            async for _ in stream:
                pass
        if check:
            raise_if_incomplete(stream.ended, stream.note, stream.result)
        return stream.result

    def stream(
        self, prompt: Prompt, *, output: object = None, append_only: bool = True, **turn: Unpack[TurnFields]
    ) -> TurnStream:
        """Begin a turn and return the stream of its events, to be used in `async with`.

        By default every delta is final, so a loop may print it. Without `append_only` a truncated reply may start over:
        `Retry` withdraws the deltas of the reply, and `PartialRestored` replaces them.
        """
        return self._turns.stream(prompt, output, turn, append_only=append_only)

    @cached_property
    def _turns(self) -> AgentTurns:
        from qcode.agent.programs.turns import AgentTurns

        return AgentTurns(self.conversation, self.toolbox, self.context.folder, self.approve)

    def cancel(self) -> None:
        """Cancel the running turn; the text so far stays in the session."""
        self._turns.cancel()

    def fork(self) -> Opening:
        """Open an agent that continues a copy of this conversation, with the same model and mode."""
        conversation, options = self.conversation, self.context.options
        model = conversation.model if options.model is None or isinstance(options.model, str) else options.model
        is_saved = bool(conversation.messages) and not options.no_session
        options = replace(
            options,
            model=model,
            resume=conversation.session_id if is_saved else None,
            fork_session=is_saved,
        )
        context = replace(self.context, options=options, is_trusted=self.permissions.is_trusted)
        history = () if is_saved else conversation.messages
        return Opening(
            partial(
                Agent.begin,
                context,
                approve=self.approve,
                tools=self._program_tools,
                hooks=self._hooks,
                history=history,
            ),
            prepare=lambda agent: agent.conversation.set_mode(conversation.mode),
        )

    @cached_property
    def models(self) -> ModelsService:
        from qcode.agent.models.offered import ModelsService

        return ModelsService(self.context)

    @cached_property
    def settings(self) -> SettingsService:
        from qcode.agent.settings import SettingsService

        return SettingsService(self.context)

    @cached_property
    def keys(self) -> KeysService:
        from qcode.agent.keys.connect import KeysService

        return KeysService(self.context, self.selection)

    @cached_property
    def trust(self) -> TrustService:
        from qcode.agent.trust.service import TrustService

        conversation, context = self.conversation, self.context
        return TrustService(
            context.root,
            context.paths.state_dir,
            lambda: conversation.policy.is_trusted,
            conversation.trust_folder,
            context.folder,
        )

    @cached_property
    def sessions(self) -> SessionLibrary:
        from qcode.agent.sessions.library import SessionLibrary  # loads when another session is first needed

        store = self._store if not self.context.options.no_session else None
        return SessionLibrary(self.conversation, store, self.context.folder, self._clients)

    @cached_property
    def side_questions(self) -> SideQuestions:
        from qcode.agent.models.side_questions import SideQuestions

        return SideQuestions(self.conversation, self.context.options.budget_usd)

    @property
    def servers(self) -> Servers | None:
        return self.toolbox.servers

    @cached_property
    def files(self) -> FileIndex:
        """The files of the folder, for completing a path."""
        from qcode.agent.context.file_index import FileIndex

        context = self.context
        return FileIndex(context.folder, context.root, context.env, lambda: self.permissions.is_trusted)

    def start_notices(self) -> tuple[Notice, ...]:
        """Return the notices to show before the first prompt, such as ignored settings or unreadable keys."""
        from qcode.protocol.events import Notice

        context = self.context
        settings_and_keys = (*context.settings.warnings, *context.keys.problems)
        texts = (*settings_and_keys, *self.notices, *self.prompts.instructions.notices)
        notices = [Notice("warning", text) for text in texts]
        if self.skills is not None and self.skills.catalog.note:
            notices.append(Notice("warning", self.skills.catalog.note))
        clash_note = "" if self.skills is None else self.skills.clash_note()
        if clash_note:
            notices.append(Notice("info", clash_note))
        return (*notices, *self.trust.notices())

    def custom_commands(self, used_names: Sequence[str] = ()) -> CustomCommands:
        """Read the custom commands from files; `used_names` are the names of the front end's own commands."""
        from qcode.config.definitions import load_custom_commands

        context = self.context
        commands = load_custom_commands(
            context.user_folder, context.root, reads_project=context.reads_project, used_names=used_names
        )
        return commands if self.skills is None else self.skills.without_hidden(commands)

    def skill_commands(self, used_names: Sequence[str] = ()) -> tuple[Skill, ...]:
        """Return the skills that the user can run as `/name`, without those whose name is in `used_names`."""
        skills = () if self.skills is None else self.skills.for_user
        return tuple(skill for skill in skills if skill.handle.lower() not in used_names)

    async def skill_prompt(
        self, skill: Skill, arguments: str, ask: Callable[[str, str], Awaitable[bool]] | None = None
    ) -> TurnPrompt:
        """Return the prompt of a skill that the user typed; raise `QcodeError`.

        See `run_embedded_command` for `ask`.
        """
        assert self.skills is not None
        from qcode.protocol.errors import InputError
        from qcode.protocol.tools import Refused

        try:
            return await self.skills.prompt(skill, arguments, partial(self.run_embedded_command, ask=ask))
        except Refused as refused:
            raise InputError(str(refused)) from None

    async def run_embedded_command(self, command: str, ask: Callable[[str, str], Awaitable[bool]] | None = None) -> str:
        """Run a shell command that is embedded in a custom command or skill; return its output. Raise `QcodeError`.

        The rules judge the command as a call of the shell tool. If it needs approval, `ask` is called with the command
        and the reason; without `ask` it is denied.
        """
        import asyncio

        from qcode.protocol.errors import ExitCode, QcodeError
        from qcode.text.clean import shown_line
        from qcode.tools.shell import Shell

        verdict = await asyncio.to_thread(self.permissions.policy.judge_command, command)
        quoted, reason = f"`{shown_line(command, 200)}`", shown_line(verdict.reason)
        if verdict.verdict == "deny":
            raise QcodeError(f"the prompt was not sent: its command {quoted} is denied: {reason}", ExitCode.DENIED)
        if verdict.verdict == "ask" and (ask is None or not await ask(command, reason)):
            raise QcodeError(f"the prompt was not sent: its command {quoted} needs approval: {reason}", ExitCode.DENIED)
        level = verdict.confinement if verdict.is_allowed else None
        outcome = await self.toolbox.run(Shell.spec.name, {"command": command}, lambda _: None, level)
        if outcome.is_error:
            raise QcodeError(
                f"the prompt was not sent: its command {quoted} failed: {outcome.summary}", ExitCode.FAILED
            )
        return outcome.shown_text.rstrip("\n")

    def offered_tools(self) -> tuple[OfferedTool, ...]:
        """Return the tools that the model is currently offered."""
        from qcode.agent.offered_tools import offered_tools

        statuses = self.servers.statuses() if self.servers is not None else ()
        servers = {tool.name: status.name for status in statuses for tool in status.tools}
        return offered_tools(self.conversation.tools, self.permissions.policy, servers)

    def doctor_lines(self, *, is_in_app: bool = False) -> tuple[str, ...]:
        """Return the report of `qcode doctor` as lines; this blocks. `is_in_app`: the app replaced the streams."""
        from qcode.agent.doctor import report, report_lines

        sections = report(self.context, is_in_app=is_in_app, is_trusted=self.permissions.is_trusted)
        return tuple(report_lines(sections))

    def report_file_texts(self) -> None:
        """Include the complete texts of changed files in approvals (`ToolApproval.changes`) and results."""
        self.toolbox.workspace.wants_file_texts = True

    def use_output_columns(self, columns: Callable[[], int | None]) -> None:
        """Run commands with the width of the front end. `columns` returns it in cells, None if it is unknown."""
        self.toolbox.output_columns = columns

    def use_buffers(self, source: BufferSource) -> None:
        """Let the tools see the unsaved texts of an editor, and change them there."""
        from qcode.tools.buffers import Buffers

        self.toolbox.workspace.buffers = Buffers(source)

    def use_folders(self, added: Sequence[Path]) -> None:
        """Replace the added folders, which the tools treat like the folder of the run.

        Raise `ValueError` if the model could then change a file that a hook runs.
        """
        folders = tuple(added)
        context = replace(self.context, added_folders=folders)
        if self.context.settings.hooks.has_any:
            from qcode.agent.hooks.sources import configured_hooks

            if len(configured_hooks(context).unused) > len(configured_hooks(self.context).unused):
                raise ValueError("the model could change a file that one of your hooks runs")
        self.context = context
        self.permissions.use_folders(folders)
        self.toolbox.use_folders(folders, context.root)
        self.prompts.use_folders(folders)

    def replace_servers(self, specs: Sequence[ServerSpec]) -> ReplacedServers:
        """Replace the tool servers of the client program; see `Servers.replace_client_servers`."""
        self._parts.add_server_secrets(specs)
        if self.toolbox.servers is None:
            self.toolbox.use_servers(self._parts.open_servers(()))
        assert self.toolbox.servers is not None
        return self.toolbox.servers.replace_client_servers(specs)

    def connect_model(self, name: str) -> ModelClient:
        """Return a client for `Conversation.set_model`; raise `ValueError`. Reading a key from the keyring blocks."""
        return self._clients.client_named(name)

    def warm_up(self) -> None:
        """Import the SDK that the first request needs, if any; this blocks."""
        self.provider.warm_up()

    def read_picture(self, path: str) -> Picture:
        """Read the image at `path`, relative to the folder; raise `InputError`."""
        from qcode.agent.context.pictures import picture_at

        return picture_at(path, self.context.folder)

    def read_clipboard(self) -> ClipboardContent:
        """Read the clipboard of the system; this blocks."""
        from qcode.agent.context.clipboard import read_clipboard

        return read_clipboard(self.context.env, self.context.root, system=sys.platform)

    def report_crash(self, failure: BaseException) -> str:
        """Write a crash report; return one line with the error and the path of the report."""
        from qcode.agent.crash import report_crash

        return report_crash(failure, self.context.env)

    async def close(self) -> None:
        """End the running turn, stop the tool servers, and release the session file and every connection."""
        if "_turns" in self.__dict__:
            await self._turns.close()
        await self.conversation.close()

    @property
    def max_release_s(self) -> float:
        """The maximum duration of `release`, which is the time limit of the `SessionEnd` hooks."""
        from qcode.agent.hooks.events import MAX_END_TIMEOUT_S

        return 0.0 if self.conversation.hooks is None else MAX_END_TIMEOUT_S

    def release(self, end_reason: str = "") -> None:
        """Close all files without waiting, because the process exits now. Safe to call twice.

        With `end_reason`, the `SessionEnd` hooks run first; the event loop must have stopped.
        """
        if end_reason and self.conversation.hooks is not None:
            self.conversation.hooks.end_now(end_reason)
        self.conversation.release()


class Opening:
    """An agent that is being opened. `async with` opens the agent and closes it at the end; `await` only opens it."""

    def __init__(self, begin: Callable[[], Agent], *, prepare: Callable[[Agent], None] = lambda agent: None) -> None:
        """`begin` opens the agent and may block; `prepare` changes the opened agent."""
        self._begin = begin
        self._prepare = prepare
        self._agent: Agent | None = None

    def __await__(self) -> Generator[Any, None, Agent]:
        return self._open().__await__()

    async def __aenter__(self) -> Agent:
        self._agent = await self._open()
        return self._agent

    async def __aexit__(self, *exception: object) -> None:
        if self._agent is not None:
            await self._agent.close()

    async def _open(self) -> Agent:
        import asyncio  # takes longer to load than this module
        from threading import Lock

        lock = Lock()
        is_abandoned = False
        opened: list[Agent] = []

        def begin() -> Agent:
            agent = self._begin()
            with lock:
                opened.append(agent)
                if is_abandoned:
                    agent.release()
            return agent

        try:
            agent = await asyncio.to_thread(begin)
        except asyncio.CancelledError:
            with lock:  # the thread cannot be stopped, but it releases an agent that it opens later
                is_abandoned = True
                for agent in opened:
                    agent.release()
            raise
        self._prepare(agent)
        return agent


@overload
def run(
    prompt: Prompt,
    *,
    output: type[OutputT],
    check: Literal[True] = True,
    approve: Approve | None = None,
    tools: Sequence[FunctionTool] = (),
    hooks: Hooks | None = None,
    **options: Any,  # noqa: ANN401  # checked by `Options`
) -> Result[OutputT]: ...
@overload
def run(
    prompt: Prompt,
    *,
    output: type[OutputT],
    check: bool,
    approve: Approve | None = None,
    tools: Sequence[FunctionTool] = (),
    hooks: Hooks | None = None,
    **options: Any,  # noqa: ANN401  # checked by `Options`
) -> Result[OutputT | None]: ...
@overload
def run(
    prompt: Prompt,
    *,
    output: None = None,
    check: bool = True,
    approve: Approve | None = None,
    tools: Sequence[FunctionTool] = (),
    hooks: Hooks | None = None,
    **options: Any,  # noqa: ANN401  # checked by `Options`
) -> Result[None]: ...
@overload
def run(
    prompt: Prompt,
    *,
    output: object,
    check: bool = True,
    approve: Approve | None = None,
    tools: Sequence[FunctionTool] = (),
    hooks: Hooks | None = None,
    **options: Any,  # noqa: ANN401  # checked by `Options`
) -> Result[Any]: ...
def run(
    prompt: Prompt,
    *,
    output: Any = None,  # a type that only the caller knows
    check: bool = True,
    approve: Approve | None = None,
    tools: Sequence[FunctionTool] = (),
    hooks: Hooks | None = None,
    **options: Any,  # checked by `Options`
) -> Result[Any]:
    """Open an agent, run one turn, close the agent and return the result; `options` are the fields of `Options`.

    Raise the errors of `Agent.open` and `Agent.run`, and `UsageError` inside a running event loop.
    """
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise UsageError("qcode.run was called inside a running event loop: use `await agent.run(...)` there")
    try:
        requested = Options(**options)
    except TypeError as error:
        raise UsageError(f"qcode.run: {str(error).removeprefix('Options.__init__() ')}") from None

    async def work() -> Result[Any]:
        async with Agent.open(requested, approve=approve, tools=tools, hooks=hooks) as agent:
            result: Result[Any] = await agent.run(prompt, output=output, check=check)
            return result

    return asyncio.run(work())
