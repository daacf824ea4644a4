"""The risky words of a command: those that destroy, force, or run a download. Pure.

They order the reasons of a question, and a front end points them out. They allow and deny nothing: `judge` does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from qcode.safety.shell.ast import SimpleCommand

# Each pattern is bounded, so the time is linear in the length of the command.
_PROGRAM = r"(?<![\w./-])"
_END = r"(?![\w-])"


class _Risk(NamedTuple):
    """A pattern of risky words, and their effect as the end of a sentence; without one, the judge has the reason."""

    pattern: str
    effect: str = ""


_RISKS = (
    _Risk(rf"{_PROGRAM}(?:mkfs(?:\.\w{{1,8}})?|shred|dd){_END}", "may destroy data"),
    _Risk(r">\s{0,4}/dev/(?:sd|nvme|disk|mem|vd)\S{0,40}"),
    _Risk(
        rf"{_PROGRAM}rm\s{{1,4}}(?:-[\w-]{{1,20}}\s{{1,4}}){{0,4}}(?:-\w{{0,6}}[rRf]\w{{0,6}}|--recursive|--force){_END}",
        "deletes files",
    ),
    _Risk(
        rf"\|\s{{0,4}}(?:sudo\s{{1,4}})?(?:(?:ba|da|z|k|fi)?sh|python3?|perl|ruby|node){_END}",
        "runs what is piped into it",
    ),
    _Risk(r"(?i:\b(?:drop|truncate)\s{1,4}(?:table|database|schema)\b)"),
    _Risk(rf"{_PROGRAM}(?:sudo|doas){_END}", "runs as another user"),
    _Risk(rf"{_PROGRAM}eval{_END}"),
    _Risk(r"(?<!\S)-(?:delete|exec|execdir)(?!\S)"),
    _Risk(rf"(?<!\S)--(?:force(?:-with-lease)?|hard|no-verify|purge|privileged|no-preserve-root|delete|prune){_END}"),
    _Risk(rf"{_PROGRAM}git\s{{1,4}}push\b[^;&|\n]{{0,80}}?\s(?P<push>-\w{{0,4}}f|\+\S{{1,80}})(?!\S)"),
    _Risk(rf"{_PROGRAM}git\s{{1,4}}clean\s{{1,4}}-\w{{1,8}}{_END}"),
    _Risk(rf"{_PROGRAM}git\s{{1,4}}branch\s{{1,4}}-D{_END}"),
    _Risk(rf"{_PROGRAM}(?:shutdown|reboot|poweroff|killall|pkill){_END}"),
    _Risk(rf"{_PROGRAM}kill\s{{1,4}}-(?:9|KILL|SIGKILL){_END}"),
    _Risk(rf"{_PROGRAM}chmod\s{{1,4}}(?:-\w{{1,6}}\s{{1,4}}){{0,3}}(?:0?777|a\+rwx|[ug]?\+s){_END}"),
    _Risk(rf"{_PROGRAM}(?:chmod|chown)\s{{1,4}}-\w{{0,4}}R\w{{0,4}}{_END}"),
)
"""The most dangerous first."""
_RISKY = re.compile("|".join(risk.pattern for risk in _RISKS))


def risky_words(command: str) -> tuple[tuple[int, int], ...]:
    """Return the start and end of each risky part of `command`: `rm -rf`, `--force`, `| sh`."""
    return tuple(match.span("push") if match["push"] else match.span() for match in _RISKY.finditer(command))


class Danger(NamedTuple):
    """The danger of a simple command, 0 for the worst. `reason` says why it asks, empty if the judge knows best."""

    rank: int
    reason: str = ""


def danger_of(command: SimpleCommand, *, is_first: bool) -> Danger:
    """Return the danger of a part of a command line. `is_first`: no other part comes before it."""
    texts = [word.text for word in command.words]
    # Without a script, a shell runs its input, which is most often a pipe: `curl … | sudo sh -s -- x`.
    program, *arguments = texts[1:] if texts[0] in ("sudo", "doas") and len(texts) > 1 else texts
    reads_input = not is_first and (not arguments or arguments[0] in ("-", "-s"))
    line = " ".join(["|"] * reads_input + texts + [f"> {word.text}" for word in command.outputs])
    for rank, risk in enumerate(_RISKS):
        match = re.search(risk.pattern, line)
        if match is not None:
            words = program if match[0].startswith("|") else match[0]
            return Danger(rank, f"{words} {risk.effect}" if risk.effect else "")
    return Danger(len(_RISKS))


__all__ = ["Danger", "danger_of", "risky_words"]
