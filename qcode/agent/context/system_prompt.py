"""The system prompt, built with stable parts first, so that providers can cache them.

The texts are in `text/` beside this module; `docs/system-prompt.md` explains them. This module does not check trust.
`PendingAttachments` holds the blocks that precede the text of the next prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import field, replace
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from qcode.agent.context.environment import Environment, environment_section
from qcode.agent.context.instructions import Instructions
from qcode.agent.context.memory import InstructionFiles
from qcode.protocol.approvals import ApprovalMode, Spans
from qcode.protocol.messages import Block, MentionedFiles
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

Family: TypeAlias = Literal["claude", "gpt", "gemini", "open"]

_GPT_NAME = lazy_pattern(r"(?:chat)?gpt-(?!oss)|codex|o\d+(?:-|$)")
_PLAN = "Plan mode: read and think only. Calls that change anything are refused."
# The end of the section about plan mode, by whether a user attends the run.
_PLAN_ENDS = {
    True: (
        " Work out how the task should be done, then submit a short plan that names files and steps with the "
        "`exit_plan_mode` tool."
    ),
    False: (
        " Work out how the task should be done and end with a short plan that names files and steps. The plan is the "
        "answer; do not carry it out."
    ),
}
# The end of that section if the program has its own instructions for plan mode.
_PROGRAM_PLAN_ENDS = {
    True: "\n\nSubmit the plan with the `exit_plan_mode` tool.",
    False: "\n\nThe plan is the answer; do not carry it out.",
}
_PLAN_APPROVAL = (
    " Only the user's approval ends plan mode: until then change nothing, and if they want something else, plan again. "
    "If a question needs no change, just answer it."
)
_UNATTENDED = (
    "This run is not interactive: questions get no answer, and calls that need approval are refused. Decide yourself, "
    "finish as much as you can, and make your last reply complete: it is the only output."
)


@dataclass(frozen=True, slots=True)
class PromptInputs:
    """The inputs of a system prompt."""

    model: str
    """`provider/model`."""
    environment: Environment
    instructions: Instructions = field(default_factory=Instructions)
    mode: ApprovalMode = "default"
    is_attended: bool = True
    """A user can answer and approve."""
    replacement: str | None = None
    """A prompt of the user that replaces all other parts, or None.

    If it is empty, the prompt is the environment alone.
    """
    addition: str = ""
    """A text of the user, which always comes last."""
    skills: str = ""
    """The section that lists the skills."""
    plan_instructions: str = ""
    """Instructions of the program that replace those of qcode for the plan.

    A `replacement` has no section about plan mode unless these instructions are set.
    """


class Prompts:
    """The system prompts of a session. Instruction files are read again for each prompt of the conversation.

    See `PromptInputs` for `replacement`, `addition` and `plan_instructions`.
    """

    def __init__(
        self,
        environment: Environment,
        memory: InstructionFiles,
        *,
        is_attended: bool = False,
        replacement: str | None = None,
        addition: str = "",
        plan_instructions: str = "",
    ) -> None:
        self.instructions = memory.read()
        """The instructions as they were at the start of the session, which sub-agents get."""
        self.skills = ""
        """The section that lists the skills; it is set once, before the first prompt."""
        self._environment = environment
        self._memory = memory
        self._is_attended = is_attended
        self._replacement = replacement
        self._addition = addition
        self._plan_instructions = plan_instructions

    def use_folders(self, added: tuple[Path, ...]) -> None:
        """List these added folders in the environment from the next prompt on."""
        self._environment = replace(self._environment, added_folders=added)

    def system(self, model: str, mode: ApprovalMode) -> str:
        """Return the prompt of the conversation with `model` (`provider/model`) in this mode."""
        return build_system_prompt(
            PromptInputs(
                model,
                self._environment,
                self._memory.read(),
                mode,
                is_attended=self._is_attended,
                replacement=self._replacement,
                addition=self._addition,
                skills=self.skills,
                plan_instructions=self._plan_instructions,
            )
        )

    def subagent_system(self, model: str, prompt: str, *, has_skills: bool = False) -> str:
        """Return the system prompt of a sub-agent. `prompt` is the prompt of the sub-agent's kind.

        `has_skills`: the sub-agent may load skills.
        """
        skills = self.skills if has_skills else ""
        return build_subagent_prompt(PromptInputs(model, self._environment, self.instructions, skills=skills), prompt)

    @property
    def instruction_chars(self) -> int:
        """The number of characters of a system prompt that come from instruction files."""
        return len(self._memory.read().text)


def build_system_prompt(inputs: PromptInputs) -> str:
    """Return the system prompt of the conversation: the texts for all models and for the family, then the inputs."""
    if inputs.replacement is not None:
        parts = [
            inputs.replacement or environment_section(inputs.environment, inputs.model),
            _plan_section(inputs) if inputs.plan_instructions else "",
            inputs.addition,
        ]
    else:
        parts = [
            _prompt_text("base"),
            _prompt_text(model_family(inputs.model)),
            inputs.instructions.text,
            inputs.skills,
            environment_section(inputs.environment, inputs.model),
            _plan_section(inputs),
            "" if inputs.is_attended else _UNATTENDED,
            inputs.addition,
        ]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _plan_section(inputs: PromptInputs) -> str:
    """Return the section about plan mode; empty in other modes."""
    if inputs.mode != "plan":
        return ""
    instructions = inputs.plan_instructions.strip()
    ending = (
        f"\n\n{instructions}{_PROGRAM_PLAN_ENDS[inputs.is_attended]}"
        if instructions
        else _PLAN_ENDS[inputs.is_attended]
    )
    return f"{_PLAN}{ending}{_PLAN_APPROVAL if inputs.is_attended else ''}"


def build_subagent_prompt(inputs: PromptInputs, prompt: str) -> str:
    """Return the system prompt of a sub-agent, with `prompt` instead of the base text of the conversation."""
    parts = [
        prompt,
        _prompt_text(model_family(inputs.model)),
        inputs.instructions.text,
        inputs.skills,
        environment_section(inputs.environment, inputs.model),
    ]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def model_family(model: str) -> Family:
    """Return the family of a model by its name; `open` for every unknown name."""
    name = model.lower().rpartition("/")[2]
    if "claude" in model.lower():  # also in the name of the provider
        return "claude"
    if "gemini" in name:
        return "gemini"
    return "gpt" if _GPT_NAME.match(name) else "open"


@cache
def _prompt_text(name: str) -> str:
    return (Path(__file__).parent / "text" / f"{name}.md").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class _SteeringMessage:
    """A message to a running turn, with the blocks that were pending before it and are sent with it."""

    text: str
    pending_blocks: tuple[Block, ...]


class PendingAttachments:
    """Attachments that wait for the next prompt or steering message.

    `find_mentions` returns the files that a text mentions. Its second argument is the external spans: the ranges of the
    text that come from a file of the project.

    `on_change` is called with the blocks for the next prompt whenever they change.
    """

    def __init__(self, find_mentions: Callable[[str, Spans], MentionedFiles]) -> None:
        self._find_mentions = find_mentions
        self._pending: tuple[Block, ...] = ()
        self._steering_messages: list[_SteeringMessage] = []
        """The messages that the turn has not added yet."""
        self.problems: list[str] = []
        """A line for each mentioned file that was not attached in this turn."""
        self.on_change: Callable[[tuple[Block, ...]], None] = lambda blocks: None

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks for the next prompt."""
        return self._pending

    def drop_last(self) -> Block | None:
        """Remove and return the block that was attached last, None if no block is attached."""
        dropped = self._pending[-1] if self._pending else None
        self._set_pending(self._pending[:-1])
        return dropped

    def _set_pending(self, blocks: tuple[Block, ...]) -> None:
        if blocks != self._pending:
            self._pending = blocks
            self.on_change(blocks)

    def attach(self, blocks: tuple[Block, ...]) -> None:
        """Add blocks for the next prompt."""
        self._set_pending((*self._pending, *blocks))

    def remove(self, blocks: Collection[Block]) -> None:
        """Remove these blocks: the conversation contains them again, because an undo was reverted."""
        self._set_pending(tuple(block for block in self._pending if block not in blocks))

    def take_blocks(self, text: str, attached: tuple[Block, ...], external_spans: Spans = ()) -> tuple[Block, ...]:
        """Return the blocks to put before `text`: pending blocks, `attached`, and the files that `text` mentions."""
        mentioned = self._find_mentions(text, external_spans)
        self.problems += mentioned.problems
        pending = self._pending
        self._set_pending(())
        return (*pending, *attached, *mentioned.blocks)

    def add_steered(self, text: str, attached: tuple[Block, ...]) -> tuple[Block, ...]:
        """Return the blocks to send before a steering message.

        If the message is withdrawn, `defer` makes those of them pending again that were pending before.
        """
        self._steering_messages.append(_SteeringMessage(text, self._pending))
        return self.take_blocks(text, attached)

    def forget_steered(self, text: str) -> None:
        """Forget the first steering message with this text, because the turn has added it."""
        self._remove_steered(text, range(len(self._steering_messages)))

    def defer(self, text: str) -> None:
        """Keep the blocks of the last steering message with this text for the next prompt: it was withdrawn."""
        blocks = self._remove_steered(text, reversed(range(len(self._steering_messages))))
        self._set_pending((*blocks, *self._pending))

    def _remove_steered(self, text: str, indexes: Iterable[int]) -> tuple[Block, ...]:
        """Remove the first message with this text in the order of `indexes`, and return its blocks."""
        for index in indexes:
            if self._steering_messages[index].text == text:
                return self._steering_messages.pop(index).pending_blocks
        return ()

    def end_turn(self) -> None:
        """Keep the blocks of steering messages that the turn did not add, for the next prompt."""
        self.problems.clear()
        unsent = (block for message in self._steering_messages for block in message.pending_blocks)
        self._set_pending((*unsent, *self._pending))
        self._steering_messages.clear()
