"""How both front ends get their conversation. Every failure becomes a `StartError`."""

from __future__ import annotations

from dataclasses import replace

from qcode.cli.arguments import LATEST, Arguments
from qcode.cli.asking import ask
from qcode.cli.beginning import begin_with, provider_failures
from qcode.cli.failure import StartError
from qcode.cli.output import one_line
from qcode.cli.selection import Selection
from qcode.cli.surroundings import Surroundings
from qcode.cli.wiring import Wired, Wirer
from qcode.runtime.store.errors import SessionError
from qcode.runtime.store.store import SessionStore

_SESSIONS_OFFERED = 9


def wired(around: Surroundings, selection: Selection | None = None) -> Wired:
    """Put the conversation together, on the model of `selection` or else the one this run is to begin with."""
    if around.arguments.chooses_session:
        around = replace(around, arguments=_with_chosen_session(around))
    with provider_failures(around.keys):
        try:
            return Wirer(around).wire(selection or begin_with(around))
        except SessionError as error:
            raise StartError(str(error), 42) from None


def _with_chosen_session(around: Surroundings) -> Arguments:
    """Ask on the terminal which session to go on with; the newest is the default."""
    if not around.is_attended:
        raise StartError("-r needs the id of a session where nobody can choose one: -r ID, or -c for the latest", 2)
    summaries = SessionStore(around.paths.state_dir, around.root).summaries()[:_SESSIONS_OFFERED]
    if not summaries:
        return around.arguments
    rows = [f"  {number}  {one.session_id}  {one_line(one.title)}\n" for number, one in enumerate(summaries, start=1)]
    answer = ask("".join((*rows, "Which session? [1] "))) or "1"
    if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(summaries):
        answer = summaries[int(answer) - 1].session_id
    return replace(around.arguments, resume=answer or LATEST)
