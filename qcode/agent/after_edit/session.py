"""The steps after the edits of one session: format the file, check it, and report new problems to the model.

If the check of an edited file ends within `WAIT_S`, the result of the call contains the new problems; otherwise a later
result does. No step runs in an untrusted folder, and a failed step never fails the edit.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from qcode.agent.after_edit.checkers import TextCheckers
from qcode.agent.after_edit.commands import CommandScope, EditCommandRun, EditCommands
from qcode.agent.after_edit.problems import (
    Problem,
    diagnostics_block,
    new_problem_count,
    new_problems,
    problem_lines,
)
from qcode.agent.after_edit.servers import ServerPool, language_of
from qcode.agent.options import RunContext
from qcode.agent.sandbox import SessionSandbox
from qcode.protocol.tools import ChangedFile, EditedFile, Launch, Refused, ToolOutcome
from qcode.text.clean import clean, visible
from qcode.text.diff import count_changes, unified_diff
from qcode.text.numbers import count_text
from qcode.text.redrawn import redrawn
from qcode.tools import text_file
from qcode.tools.output import bounded_text
from qcode.tools.workspace import Workspace
from qcode.values import dataclass

WAIT_S = 2.0
"""Seconds that the result of a call waits for the check of its edits."""
MAX_CHECK_S = 120.0
"""The time limit of a check. A server that exceeds it, for example in a very large project, is not used again."""
MAX_FILES = 10
"""The maximum number of files of one call that are checked."""
MAX_TEXT_BYTES = 1_000_000
"""The size above which a file is not checked."""
_MAX_CACHED_FILES = 200
_MAX_OUTPUT_CHARS = 4_000
_MAX_TEST_OUTPUT_CHARS = 8_000
_MAX_FORMAT_DIFF_LINES = 60
_MAX_DIFF_LINE_CHARS = 300


@dataclass(frozen=True, slots=True)
class FileFinding:
    """A finding about one file: its new problems, or the output of a configured command that failed."""

    label: str
    """The path for the model and the user."""
    problems: tuple[Problem, ...] = ()
    output: str = ""
    """The output of the command, empty if there are `problems`."""

    @property
    def title(self) -> str:
        if not self.problems:
            return "The check of this file failed:"
        return f"{new_problem_count(self.problems)} after this edit:"

    @property
    def lines(self) -> list[str]:
        return problem_lines(self.label, self.problems) if self.problems else self.output.split("\n")

    @property
    def is_error(self) -> bool:
        return bool(self.output) or any(problem.severity == "error" for problem in self.problems)


class _Check:
    """A running check of an edited file."""

    def __init__(self, path: Path, before: str | None, task: asyncio.Task[list[FileFinding]]) -> None:
        self.path = path
        self.before = before
        """The text whose problems the model knows, None for a new file."""
        self.task = task

    @property
    def findings(self) -> list[FileFinding]:
        """The findings of a check that is done."""
        if self.task.cancelled() or self.task.exception() is not None:
            return []
        return self.task.result()

    @property
    def has_error(self) -> bool:
        """Whether a check that is done found an error."""
        return any(finding.is_error for finding in self.findings)


@dataclass(frozen=True, slots=True)
class _CheckedText:
    """A text that was checked, and its problems."""

    digest: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class _EditProblems:
    """The problems of a file before and after an edit."""

    before: tuple[Problem, ...] = ()
    after: tuple[Problem, ...] = ()


class AfterEdit:
    """The steps after the edits of one session and its sub-agents. `close` or `kill` ends the servers.

    The first edit detects the sandbox, which decides whether checkers may start.
    """

    def __init__(self, context: RunContext, workspace: Workspace, sandbox: SessionSandbox | None) -> None:
        self._settings = context.settings.after_edit
        self._workspace = workspace
        self._sandbox = sandbox
        self._servers = ServerPool(
            self._settings.servers, context.env, workspace, self._launch, self._is_confined, self._cache
        )
        self._checkers = TextCheckers(context.env, workspace, self._launch)
        self._commands = EditCommands(context.settings, workspace)
        self.checks: dict[Path, _Check] = {}
        self._checked_texts: dict[Path, _CheckedText] = {}
        """The last checked text of each file."""
        self._scope: CommandScope | None = None
        """The scope of the latest edit of this turn, None without an edit."""
        self._is_tested = True
        """False while there are edits after the last run of the test command."""
        self._failed_test = ""
        """The test command that failed, until an edit or a notice about it follows; otherwise empty."""
        self._rounds = 0
        """How often the end of this turn was prevented."""
        self._warnings: list[str] = []

    async def finish(self, outcome: ToolOutcome, scope: CommandScope) -> ToolOutcome:
        """Return the outcome of a call that changed files, with the results of the steps and without `edits`."""
        all_edits = outcome.edits
        outcome = replace(outcome, edits=())
        # Only files that the model may read: no checker gets a secret file.
        edits = [edit for edit in all_edits if scope.policy.judge_file(edit.path, "read").is_allowed]
        if not scope.policy.is_trusted or outcome.is_error or not edits:
            return outcome
        await self._commands.ask_approval(scope, [edit.path for edit in edits if edit.after is not None])
        self._scope = scope
        self._is_tested = False
        self._failed_test = ""
        notes: list[str] = []
        formatted = [await self._run_formatter(edit, scope, notes) for edit in edits]
        if notes:
            by_path = {edit.path: edit for edit in (*all_edits, *formatted)}
            outcome = _with_formatted(outcome, tuple(by_path.values()), notes, self._workspace)
        checks = [self._start_check(edit, scope) for edit in formatted[:MAX_FILES]]
        tasks = [check.task for check in checks if check is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=WAIT_S)
        return self._with_findings(outcome, {Path(edit.path) for edit in formatted})

    def with_late_findings(self, outcome: ToolOutcome) -> ToolOutcome:
        """Return the outcome of a call that changed no file, with the findings about earlier edits.

        The model gets them; the user sees only their number in the summary, because they are not about this call.
        """
        return replace(self._with_findings(outcome, set()), problems="")

    def _with_findings(self, outcome: ToolOutcome, paths: set[Path]) -> ToolOutcome:
        """Add the findings of all finished checks; findings about files not in `paths` are from earlier edits."""
        current: list[FileFinding] = []
        late: list[FileFinding] = []
        for check in self._take_finished_checks():
            if check.path in paths:
                current += check.findings
            else:
                late += check.findings
        self._warnings += self._servers.take_failures()
        if not current and not late:
            return outcome
        blocks = [diagnostics_block(finding.label, finding.title, finding.lines) for finding in current]
        blocks += [
            diagnostics_block(finding.label, f"From an earlier edit, {finding.title}", finding.lines)
            for finding in late
        ]
        problems = [problem for finding in (*current, *late) for problem in finding.problems]
        summary = [outcome.summary, new_problem_count(problems) if problems else "check failed"]
        lines = [line for finding in (*current, *late) for line in finding.lines]
        return replace(
            outcome,
            content="\n\n".join([outcome.content, *blocks]),
            shown=outcome.shown_text,
            summary=", ".join(filter(None, summary)),
            problems=clean("\n".join(lines)),
        )

    def _take_finished_checks(self, *, only_errors: bool = False) -> list[_Check]:
        """Remove and return the finished checks. `only_errors`: only those that found an error."""
        taken = [check for check in self.checks.values() if check.task.done() and (check.has_error or not only_errors)]
        for check in taken:
            del self.checks[check.path]
        return taken

    async def _run_formatter(self, edit: EditedFile, scope: CommandScope, notes: list[str]) -> EditedFile:
        """Run the formatter; return the resulting file, and add a note for the model if the file changed."""
        if edit.after is None or not self._commands.has("format", edit.path):
            return edit
        load = scope.workspace.load  # called in a thread, because an editor may have to answer over this event loop
        try:
            location = scope.workspace.resolve(edit.path)
            written = await asyncio.to_thread(load, location)
        except Refused:
            return edit
        run = await self._commands.run("format", edit.path, scope)
        if run is None:
            return edit
        try:
            formatted = await asyncio.to_thread(load, location)
        except Refused as refused:
            notes.append(f"After the formatter ran, the file cannot be read: {refused}")
            return edit
        is_changed = formatted.data != written.data
        if run.failure:  # `eslint --fix` changes the file and fails if it could not fix all problems
            notes.append(f"The formatter failed{'' if is_changed else ' and left the file as written'}: {run.failure}")
        if not is_changed:
            return edit
        # Recorded like an edit of the model, so that undo restores the previous version. Comparing the whole tree, as
        # for other commands, would slow down every edit.
        with scope.workspace.recorder.record_change(location.path, written, formatted.data):
            scope.workspace.remember(location, formatted)
        notes.append(_format_note(run, location.label, written.data, formatted.data))
        return EditedFile(edit.path, edit.before, formatted.data)

    def _start_check(self, edit: EditedFile, scope: CommandScope) -> _Check | None:
        """Start a check of a file, which replaces a running check of it; return None if there is no text to check."""
        path = Path(edit.path)
        earlier = self.checks.pop(path, None)
        if earlier is not None:
            earlier.task.cancel()
        after = self._text_of(edit.after)
        if after is None:
            return None
        before = self._text_of(edit.before) if earlier is None else earlier.before
        check_file = self._run_check(path, before, after, scope)
        check = _Check(path, before, asyncio.get_running_loop().create_task(check_file))
        self.checks[path] = check
        return check

    def _text_of(self, data: bytes | None) -> str | None:
        """Return the text of a file; None if there is no file, or if it is too large or not text."""
        if data is None or len(data) > MAX_TEXT_BYTES:
            return None
        try:
            return text_file.decode(data, "the file").text
        except Refused:
            return None

    async def _run_check(self, path: Path, before: str | None, after: str, scope: CommandScope) -> list[FileFinding]:
        """Return the findings about one file: its new problems, and the output of a failed check command."""
        label = self._workspace.show(path)
        problems, run = await asyncio.gather(
            self._find_problems(path, before, after), self._commands.run("check", str(path), scope)
        )
        results = [FileFinding(label, problems)] if problems else []
        if run is not None and run.failure:
            output = bounded_text(
                clean(redrawn(f"{run.line}\n{run.failure}")), _MAX_OUTPUT_CHARS, lambda: self._workspace.scratch
            )
            results.append(FileFinding(label, output=output))
        return results

    async def _find_problems(self, path: Path, before: str | None, after: str) -> tuple[Problem, ...]:
        """Return the new problems of a file, from its server or a checker; empty without either."""
        has_checker = language_of(path, self._settings.servers) is not None or self._checkers.has_checker(path)
        if not has_checker or not await asyncio.to_thread(self._may_check):
            return ()
        try:
            async with asyncio.timeout(MAX_CHECK_S):
                problems = await self._problems_of_edit(path, before, after)
        except TimeoutError:
            await self._servers.disable(path, f"a check took longer than {MAX_CHECK_S:g} s")
            return ()
        except (OSError, RuntimeError, ValueError):
            return ()  # for example, the sandbox no longer works
        return new_problems(problems.before, problems.after, before, after)

    async def _problems_of_edit(self, path: Path, before: str | None, after: str) -> _EditProblems:
        """Return the problems of a file before and after an edit; empty if nothing can check the file."""
        known = self._known_problems(path, before)
        texts = (after,) if known is not None or before is None else (before, after)
        problems_by_text = await self._problems_by_text(path, texts)
        if problems_by_text is None:
            return _EditProblems()
        *checked_before, new = problems_by_text
        self._checked_texts.pop(path, None)
        self._checked_texts[path] = _CheckedText(_digest(after), new)
        while len(self._checked_texts) > _MAX_CACHED_FILES:
            del self._checked_texts[next(iter(self._checked_texts))]
        return _EditProblems(checked_before[0] if checked_before else known or (), new)

    def _known_problems(self, path: Path, text: str | None) -> tuple[Problem, ...] | None:
        """Return the problems of a text without a check: of a missing file, or of the last checked text of a file.

        None: the text must be checked.
        """
        if text is None:
            return ()
        last = self._checked_texts.get(path)
        return last.problems if last is not None and last.digest == _digest(text) else None

    async def _problems_by_text(self, path: Path, texts: tuple[str, ...]) -> list[tuple[Problem, ...]] | None:
        """Return the problems of each text, from the language server or a checker; None if neither gives a result."""
        if await asyncio.to_thread(self._servers.has_server, path):
            problems = await self._servers.check(path, texts)
            if problems is not None:
                return problems
        if self._settings.check:  # the user's check replaces the built-in checkers
            return None
        checker = await asyncio.to_thread(self._checkers.find, path)
        if checker is None:
            return None
        results = [await self._checkers.check(checker, path, text) for text in texts]
        checked = [problems for problems in results if problems is not None]
        return checked if len(checked) == len(results) else None

    def _may_check(self) -> bool:
        """Return whether checkers run: in a sandbox, or without a sandbox if the user chose that. May block."""
        setting = self._settings.diagnostics
        return setting is True or (setting == "auto" and self._is_confined())

    def _is_confined(self) -> bool:
        """Return whether checkers run in a sandbox, which hides other processes. May block."""
        return self._sandbox is not None and self._sandbox.sandbox is not None

    def _launch(self, argv: Sequence[str]) -> Launch:
        """Return how to start a checker. May block."""
        if self._sandbox is None or not self._is_confined():
            return Launch(tuple(argv))
        return self._sandbox.launch_reader(argv, self._cache())

    def _cache(self) -> Path:
        folder = self._workspace.scratch / "after-edit"
        folder.mkdir(exist_ok=True, mode=0o700)
        return folder

    async def reason_to_continue(self) -> str:
        """Return why the turn must not end yet: failing tests, or errors from a slow check; otherwise empty."""
        self._warnings += self._servers.take_failures()
        scope = self._scope
        if scope is None or not scope.policy.is_trusted:
            return ""
        has_rounds_left = self._rounds < self._settings.max_rounds
        # Checks that found only warnings do not keep the turn from ending; the next result reports them.
        failed_checks = self._take_finished_checks(only_errors=True) if has_rounds_left else []
        blocks = [
            diagnostics_block(finding.label, f"Found late: {finding.title}", finding.lines)
            for check in failed_checks
            for finding in check.findings
        ]
        if not self._is_tested:
            self._is_tested = True
            run = await self._commands.run("test", path="", scope=scope)  # the tests are not about one file
            if run is not None and run.failure and has_rounds_left:
                self._failed_test = run.line
                blocks.append(self._test_failure_text(run))
            elif run is not None and run.failure:
                self._warnings.append(self._still_failing_text(run))
        elif self._failed_test and not blocks:
            line, self._failed_test = visible(self._failed_test), ""
            self._warnings.append(f"The test command failed, and no edit followed: {line}")
        if not blocks:
            return ""
        self._rounds += 1
        return "\n\n".join(blocks)

    def _test_failure_text(self, run: EditCommandRun) -> str:
        output = bounded_text(clean(redrawn(run.failure)), _MAX_TEST_OUTPUT_CHARS, lambda: self._workspace.scratch)
        return (
            f"The test command failed after your edits (round {self._rounds + 1} of {self._settings.max_rounds}). "
            f"Fix the cause; if it has nothing to do with your edits, say so.\n$ {run.line}\n{output}"
        )

    def _still_failing_text(self, run: EditCommandRun) -> str:
        rounds = self._settings.max_rounds
        after = f" after {count_text(rounds, 'round')}" if rounds else ""
        return f"The test command still fails{after}: {visible(run.line)}"

    def end_turn(self) -> None:
        """Forget the edits of a finished turn. Running checks continue; the next turn gets their findings."""
        self._scope = None
        self._is_tested = True
        self._failed_test = ""
        self._rounds = 0

    def take_warnings(self) -> tuple[str, ...]:
        """Return the warnings for the user since the last call."""
        warnings = (*self._warnings, *self._commands.take_warnings())
        self._warnings.clear()
        return warnings

    @property
    def pids(self) -> tuple[int, ...]:
        """The process groups of the running servers."""
        return self._servers.pids()

    async def close(self) -> None:
        """End checks and servers."""
        tasks = [check.task for check in self.checks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._servers.close()

    def kill(self) -> None:
        """Kill the servers, for a process that exits now. Idempotent."""
        self._servers.kill()


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _format_note(run: EditCommandRun, label: str, before: bytes, after: bytes) -> str:
    """Return the note for the model that the formatter changed a file, with a diff if it is short."""
    note = f"The formatter changed {label} after this edit (`{run.line}`)"
    try:
        old, new = (text_file.decode(data, label).text.split("\n") for data in (before, after))
    except Refused:
        return f"{note}; read it again before you change it."
    rows = list(unified_diff(old, new, "as written", "now", context=1))
    if len(rows) > _MAX_FORMAT_DIFF_LINES:
        return f"{note} in many places; read it again before you change it."
    return "\n".join([f"{note}:", *(row[:_MAX_DIFF_LINE_CHARS] for row in rows)])


def _with_formatted(
    outcome: ToolOutcome, edits: Sequence[EditedFile], notes: Sequence[str], workspace: Workspace
) -> ToolOutcome:
    """Return the outcome with the formatter's notes, and with the diff and texts of the files as formatted."""
    diffs: list[str] = []
    texts: dict[str, str] = {}
    for edit in edits:
        name = workspace.show(Path(edit.path))
        try:
            old, new = (None if data is None else text_file.decode(data, name) for data in (edit.before, edit.after))
        except Refused:
            return replace(outcome, content="\n\n".join([outcome.content, *notes]))
        diffs.append(text_file.diff_of(name, old, new))
        texts[edit.path] = "" if new is None else new.text
    diff = "".join(diffs)
    changes = tuple(
        ChangedFile(file.path, file.old_text, texts.get(file.path, file.new_text)) for file in outcome.changes
    )
    is_changed = diff != outcome.diff
    return replace(
        outcome,
        content="\n\n".join([outcome.content, *notes]),
        shown=outcome.shown_text,
        diff=diff if is_changed else outcome.diff,
        changes=changes,
        summary=f"{count_changes(diff)}, formatted" if is_changed else outcome.summary,
    )
