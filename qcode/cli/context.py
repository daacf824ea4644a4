"""The context of a run from the command line, with questions on the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from qcode.agent.options import CHOOSE, LATEST, Options, RunContext
from qcode.cli.terminal import ask, working_folder, write_stderr
from qcode.cli.trust import TrustAnswer, TrustQuestion, decide_trust, note_for_pipes
from qcode.config.paths import ConfigPaths
from qcode.protocol.errors import ConfigError, ExitCode, UsageError
from qcode.text.clean import plain_line

_MAX_SESSION_CHOICES = 9
_NO_BYPASS = (
    "this folder is not trusted, so bypass mode allows no commands or edits here; --trust trusts it for this run"
)


def run_context(
    options: Options,
    folder: Path,
    *,
    is_attended: bool,
    ask_trust: Callable[[TrustQuestion], TrustAnswer] | None = None,
) -> RunContext:
    """Check the theme and the trust of the folder, then read the settings of this run.

    `ask_trust` asks whether the folder is trusted, None if no user can answer. Raise `QcodeError`, or `InputEnded` if
    the user quits.
    """
    if options.theme is not None:
        check_theme(options.theme)

    def judge_trust(of_folder: Path, root: Path, state_dir: Path) -> bool:
        return decide_trust(of_folder, root, state_dir, by_flag=options.trust, ask_user=ask_trust)

    return RunContext.read(
        replace(options, cwd=folder),
        dict(os.environ),
        is_attended=is_attended,
        judge_trust=judge_trust,
        on_wait=_report_wait if is_attended else None,
    )


def pipe_context(options: Options, report: Callable[[str], None]) -> RunContext:
    """Return the context of a run without a user; `report` gets warnings as lines for stderr."""
    context = run_context(options, working_folder(options.cwd), is_attended=False)
    if not context.is_trusted:
        lost_trust = note_for_pipes(context.folder, context.root, context.paths.state_dir, sys.argv[1:])
        if lost_trust:
            report(lost_trust)
        elif context.settings.permissions.mode == "bypass":
            report(_NO_BYPASS)
    for warning in context.settings.warnings:
        report(warning)
    return context


def folder_context(options: Options) -> tuple[RunContext, ConfigError | None]:
    """Return the context of a subcommand, without asking the user anything.

    If a configuration file cannot be read, return a context without configuration files, and the error. If only a
    permission rule is invalid, return the complete context, and the error. The subcommand prints its result and the
    error, and exits with the code of the error.
    """
    env = dict(os.environ)
    options = replace(options, cwd=working_folder(options.cwd))
    try:
        context = RunContext.read(options, env)
    except ConfigError as error:
        return context_without_config(options), error
    from qcode.agent.permissions import configured_rules

    try:
        configured_rules(context.settings)
    except ConfigError as error:
        return context, error
    return context, None


def report_problem(problem: ConfigError | None) -> int:
    """Report the error that `folder_context` returned, if any, on stderr; return the exit code of the subcommand."""
    if problem is None:
        return ExitCode.OK
    write_stderr(str(problem))
    return problem.exit_code


def context_without_config(options: Options) -> RunContext:
    """Return the context of a folder with `options` but without configuration files."""
    env = dict(os.environ)
    paths = ConfigPaths.from_env(env)
    without_files = replace(paths, config_dir=Path(os.devnull))
    options = replace(options, cwd=working_folder(options.cwd), settings=None, trust=False)
    # The configuration of a project is read only if it is trusted.
    context = RunContext.read(options, env, paths=without_files, judge_trust=lambda *_: False)
    return replace(context, paths=paths)


def check_theme(name: str) -> None:
    """Raise `UsageError` if there is no theme with this name. Slow, because all themes are loaded."""
    from qcode.tui.theme import AUTO, load_themes

    themes, _ = load_themes(ConfigPaths.from_env(os.environ).config_dir / "themes")
    if name not in (AUTO, *themes):
        from qcode.text.match import suggestion

        raise UsageError(f'unknown theme "{name}"; {suggestion(name, themes, "qcode themes lists them")}')


def _report_wait() -> None:
    write_stderr("waiting for the keyring; it may need to be unlocked (Ctrl+C to cancel)")


def with_chosen_session(context: RunContext) -> RunContext:
    """If `-r` names no session, ask on the terminal which one to resume; the default is the newest.

    The app calls this only in line mode; otherwise it asks on a screen. Raise `UsageError` with the list if no user can
    be asked.
    """
    if context.options.resume != CHOOSE:
        return context
    from qcode.agent.sessions.file import open_elsewhere_text
    from qcode.agent.sessions.store import SessionStore

    store = SessionStore(context.paths.state_dir, context.root)
    summaries = store.summaries()[:_MAX_SESSION_CHOICES]
    if not context.is_attended:
        rows = [f"\n  {summary.session_id}  {plain_line(summary.title, 60)}" for summary in summaries]
        advice = "-r needs a session id in non-interactive mode: use -r ID, or -c for the latest"
        raise UsageError("".join((advice, *rows)))
    if not summaries:
        return replace(context, options=replace(context.options, resume=LATEST))  # the run reports that there is none
    holders = [store.holder(summary.session_id) for summary in summaries]
    rows = [
        f"  {number}  {summary.session_id}  {plain_line(summary.title, 200)}"
        + ("\n" if holder is None else f"  ({open_elsewhere_text(holder)})\n")
        for number, (summary, holder) in enumerate(zip(summaries, holders, strict=True), start=1)
    ]
    answer = ask("".join((*rows, "Which session? [1] "))) or "1"  # a number of the list, or a session id
    if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(summaries):
        answer = summaries[int(answer) - 1].session_id
    return replace(context, options=replace(context.options, resume=answer))
