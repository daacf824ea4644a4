"""The calls of a turn between verdict and run: what was judged and shown runs, as confined as it was allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial

from qcode.engine.effects import ApprovalAnswered
from qcode.protocol.events import ApprovalRequested
from qcode.protocol.json import JsonObject
from qcode.protocol.messages import ToolCall
from qcode.protocol.tools import ToolOutcome
from qcode.runtime.masking import mask_diff
from qcode.runtime.questions import question_about
from qcode.runtime.toolbox import Toolbox
from qcode.safety.paths import GUARDED
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from qcode.safety.verdict import Level


@dataclass(frozen=True, slots=True)
class Judged:
    """A call as it is to run. `level` is None where a person said yes to it, or nothing has to hold it.

    `targets` are the files a person was asked about. `refusal` is not empty where it is the whole result: what could
    not be done when it was judged was shown to nobody, and is not done later either.
    """

    name: str
    arguments: JsonObject
    level: Level | None = None
    targets: frozenset[str] = frozenset()
    refusal: str = ""


def holds_secrets(policy: Policy, path: str) -> bool:
    """Whether the file of this name is one that nobody is shown the content of unasked."""
    return policy.judge_file(path, "read").rule == GUARDED


class JudgedCalls:
    """Keeps them by id until they run, and which rule "always" would add for a question that is open.

    `watched` finds out what a run changes in files, `approved` wraps one that a person approved for some files.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        watched: Callable[[Awaitable[ToolOutcome]], Awaitable[ToolOutcome]],
        approved: Callable[[frozenset[str]], AbstractContextManager[None]],
    ) -> None:
        self._toolbox = toolbox
        self._watched = watched
        self._approved = approved
        self._judged: dict[str, Judged] = {}
        self._open_rules: dict[str, str] = {}

    async def judge(
        self, policy: Policy, call: ToolCall, arguments: JsonObject, repeats: int
    ) -> ApprovalAnswered | ApprovalRequested:
        """Return the verdict of the rules, or the question to put to the person."""
        toolbox, call_id = self._toolbox, call.call_id
        # What is judged and shown is what runs, also where files that it depends on change in between.
        name, spelled = await toolbox.spelled_out(call.name, arguments)
        targets = await asyncio.to_thread(toolbox.targets, name, spelled)
        # A verdict may look at the disk, and ask bash and git.
        verdict = await asyncio.to_thread(policy.judge, name, spelled)
        # A yes of the person is to the command as it is shown, without walls.
        level = verdict.confinement if verdict.is_allowed else None
        self._judged[call_id] = judged = Judged(name, spelled, level)
        is_question = toolbox.asks_person(call.name)
        if verdict.verdict == "deny" or (verdict.verdict == "allow" and not repeats and not is_question):
            return ApprovalAnswered(call_id, verdict.verdict == "allow", verdict.reason)
        preview = await toolbox.preview(name, spelled)
        if preview.refusal and not repeats:
            self._judged[call_id] = replace(judged, refusal=preview.refusal)
            return ApprovalAnswered(call_id, is_allowed=True)
        self._judged[call_id] = replace(judged, targets=targets)
        preview = replace(preview, detail=mask_diff(preview.detail, partial(holds_secrets, policy)))
        is_plain = not is_question and not repeats
        self._open_rules[call_id] = rule = verdict.proposed_rule if is_plain else ""
        return question_about(call, preview, rule=rule, repeats=repeats, is_question=is_question)

    def answered(self, call_id: str) -> str | None:
        """Return the rule of a question that was answered, empty where it offered none; None where none is open."""
        return self._open_rules.pop(call_id, None)

    def take(self, call: ToolCall, arguments: JsonObject) -> Judged:
        """Return what a call that may run stands for; each is taken once."""
        return self._judged.pop(call.call_id, Judged(call.name, arguments))

    async def run(
        self,
        policy: Policy,
        judged: Judged,
        output: Callable[[str], None],
        model: str,
        goes_on: asyncio.Event | None = None,
    ) -> ToolOutcome:
        """Run a call as it was judged; what the result shows of it hides what a secret file holds.

        `goes_on` as in `Toolbox.run`.
        """
        if judged.refusal:
            return ToolOutcome(judged.refusal, is_error=True, summary=judged.refusal.split("\n", 1)[0])
        toolbox, targets = self._toolbox, judged.targets
        work = toolbox.run(judged.name, judged.arguments, output, judged.level, targets, goes_on=goes_on)
        with self._approved(judged.targets):
            outcome = await (self._watched(work) if self._may_change_files(policy, judged, model) else work)
        if not outcome.diff:
            return outcome
        return replace(outcome, diff=mask_diff(outcome.diff, partial(holds_secrets, policy)))

    def _may_change_files(self, policy: Policy, judged: Judged, model: str) -> bool:
        """Whether only a look can find what a call changes in files: tools that write tell it themselves."""
        spec = next((spec for spec in self._toolbox.specs(model) if spec.name == judged.name), None)
        if spec is None or spec.is_read_only or spec.writes_files or judged.level == "read-only":
            return False
        plain = replace(policy, mode="default", rules=Rules.of(), is_trusted=True)
        return not plain.judge(judged.name, judged.arguments).is_allowed

    def clear(self) -> None:
        """The turn is over: nothing waits to run and no question is open."""
        self._judged.clear()
        self._open_rules.clear()
