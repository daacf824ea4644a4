"""Finds the words of a shell command that destroy, force or run what was downloaded, to point them out in an approval.

This decides nothing: `safety` judges commands. Each pattern is bounded, so the time is linear in the length.
"""

from __future__ import annotations

import re

_PROGRAM = r"(?<![\w./-])"
_END = r"(?![\w-])"
_PATTERNS = (
    rf"{_PROGRAM}rm\s{{1,4}}(?:-[\w-]{{1,20}}\s{{1,4}}){{0,4}}(?:-\w{{0,6}}[rRf]\w{{0,6}}|--recursive|--force){_END}",
    rf"{_PROGRAM}(?:sudo|doas|mkfs(?:\.\w{{1,8}})?|shred|dd|shutdown|reboot|poweroff|killall|pkill|eval){_END}",
    rf"(?<!\S)--(?:force(?:-with-lease)?|hard|no-verify|purge|privileged|no-preserve-root|delete|prune){_END}",
    r"(?<!\S)-(?:delete|exec|execdir)(?!\S)",
    rf"\|\s{{0,4}}(?:sudo\s{{1,4}})?(?:(?:ba|da|z|k|fi)?sh|python3?|perl|ruby|node){_END}",
    rf"{_PROGRAM}git\s{{1,4}}clean\s{{1,4}}-\w{{1,8}}{_END}",
    rf"{_PROGRAM}git\s{{1,4}}push\b[^;&|\n]{{0,80}}?\s(?P<push>-\w{{0,4}}f|\+\S{{1,80}})(?!\S)",
    rf"{_PROGRAM}git\s{{1,4}}branch\s{{1,4}}-D{_END}",
    rf"{_PROGRAM}chmod\s{{1,4}}(?:-\w{{1,6}}\s{{1,4}}){{0,3}}(?:0?777|a\+rwx|[ug]?\+s){_END}",
    rf"{_PROGRAM}(?:chmod|chown)\s{{1,4}}-\w{{0,4}}R\w{{0,4}}{_END}",
    rf"{_PROGRAM}kill\s{{1,4}}-(?:9|KILL|SIGKILL){_END}",
    r">\s{0,4}/dev/(?:sd|nvme|disk|mem|vd)\S{0,40}",
    r"(?i:\b(?:drop|truncate)\s{1,4}(?:table|database|schema)\b)",
)
_RISKY = re.compile("|".join(_PATTERNS))


def risky_words(command: str) -> tuple[tuple[int, int], ...]:
    """Return the start and end of each risky part of `command`, in order: `rm -rf`, `--force`, `| sh`."""
    return tuple(found.span("push") if found["push"] else found.span() for found in _RISKY.finditer(command))
