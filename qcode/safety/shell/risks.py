"""The risky words of a command: those that destroy, force, or run a download. Pure.

A front end highlights them; `dangers` describes their effects. They have no influence on the decision, which `judge`
makes.
"""

from __future__ import annotations

import re
from functools import lru_cache

from qcode.safety.shell.dangers import END, PROGRAM, SHELLS, without_text
from qcode.text.pattern import lazy_pattern

# Each pattern is bounded, so the time is linear in the length of the command. The whole match of a pattern is risky, or
# only its group `push` or `volumes`, if it has one.
_RISKS = (
    rf"{PROGRAM}(?:mkfs(?:\.\w{{1,8}})?|shred|dd){END}",
    r">\s{0,4}/dev/(?:sd|nvme|disk|mem|vd)\S{0,40}",
    rf"{PROGRAM}rm\s{{1,4}}(?:-[\w-]{{1,20}}\s{{1,4}}){{0,4}}(?:-\w{{0,6}}[rRf]\w{{0,6}}|--recursive|--force){END}",
    rf"\|\s{{0,4}}(?:sudo\s{{1,4}})?(?:{SHELLS}|python3?|perl|ruby|node){END}",
    r"(?i:\b(?:drop|truncate)\s{1,4}(?:table|database|schema)\b)",
    rf"{PROGRAM}(?:wipefs|dropdb|dropuser){END}",
    rf"{PROGRAM}(?:sudo|doas){END}",
    rf"{PROGRAM}eval{END}",
    r"(?<!\S)-(?:delete|exec|execdir)(?!\S)",
    rf"(?<!\S)--(?:force(?:-with-lease)?|hard|no-verify|purge|privileged|no-preserve-root|delete|prune){END}",
    rf"{PROGRAM}git\s{{1,4}}push\b[^;&|\n]{{0,80}}?\s(?P<push>-\w{{0,4}}f|\+\S{{1,80}})(?!\S)",
    rf"{PROGRAM}git\s{{1,4}}clean\s{{1,4}}-\w{{1,8}}{END}",
    rf"{PROGRAM}git\s{{1,4}}branch\s{{1,4}}-D{END}",
    r"(?<!\S)--amend(?!\S)",
    rf"{PROGRAM}crontab\s{{1,4}}-r{END}",
    rf"{PROGRAM}systemctl\s{{1,4}}(?:--\S{{1,20}}\s{{1,4}}){{0,2}}(?:stop|disable|mask|kill){END}",
    rf"{PROGRAM}compose\b[^;&|\n]{{0,80}}?\sdown\s[^;&|\n]{{0,80}}?(?P<volumes>-v|--volumes)(?!\S)",
    rf"{PROGRAM}helm\s{{1,4}}(?:uninstall|delete){END}",
    rf"{PROGRAM}(?:shutdown|reboot|poweroff|killall|pkill){END}",
    rf"{PROGRAM}kill\s{{1,4}}-(?:9|KILL|SIGKILL){END}",
    rf"{PROGRAM}chmod\s{{1,4}}(?:-\w{{1,6}}\s{{1,4}}){{0,3}}(?:0?777|a\+rwx|[ug]?\+s){END}",
    rf"{PROGRAM}(?:npm|pnpm|yarn|cargo|poetry|uv)\s{{1,4}}publish{END}",
    rf"{PROGRAM}(?:docker|podman)\s{{1,4}}(?:(?:container|image|volume)\s{{1,4}})?(?:rm|rmi){END}",
    rf"{PROGRAM}(?:docker|podman)\s{{1,4}}\w{{1,12}}\s{{1,4}}prune{END}",
    rf"{PROGRAM}(?:terraform\s{{1,4}}destroy|kubectl\s{{1,4}}delete){END}",
    rf"{PROGRAM}(?:chmod|chown)\s{{1,4}}-\w{{0,4}}R\w{{0,4}}{END}",
)
_RISKY = lazy_pattern("|".join(_RISKS))


@lru_cache(maxsize=8)  # a question is laid out again for each width and key
def risky_words(command: str) -> tuple[tuple[int, int], ...]:
    """Return the start and end of each risky part of `command`: `rm -rf`, `--force`, `| sh`.

    Text is left out: comments, the message of a commit, the arguments of `echo`.
    """
    return tuple(_span(match) for match in _RISKY.finditer(without_text(command)))


def _span(match: re.Match[str]) -> tuple[int, int]:
    """Return the part of a match to mark: a dangerous option without the command before it, otherwise all of it."""
    for option in ("push", "volumes"):
        if match[option]:
            return match.span(option)
    return match.span()
