"""Where a path leads: a walk over its components in the order the kernel takes, link by link. Reads names only."""

from __future__ import annotations

import os
import stat
from collections import deque

from qcode.protocol.values import dataclass

_MAX_LINKS = 40
"""Links followed before a path counts as a loop, as in Linux (path_resolution(7))."""


@dataclass(frozen=True, slots=True)
class Trail:
    """`points` are the paths it was spelled as: as given, then once more after each link; all lexically normal.

    `target` is the last one with every link followed. `info` is its status, None where nothing is there.
    """

    points: tuple[str, ...]
    target: str
    info: os.stat_result | None
    is_loop: bool = False


def follow(path: str) -> Trail:
    """Return the trail of the absolute `path`; what does not exist is taken as spelled. Never raises for a path."""
    points = [os.path.normpath(path)]
    pending = deque(path.split("/"))
    current, links = "/", 0
    while pending:
        part = pending.popleft()
        if part in ("", "."):
            continue
        if part == "..":
            current = os.path.dirname(current)  # noqa: PTH120  # plain text, and pathlib would fold the root's parent
            continue
        step = f"{current.rstrip('/')}/{part}"
        link = _link_at(step)
        if link is None:
            current = step
            continue
        links += 1
        if links > _MAX_LINKS:
            return Trail(tuple(points), step, None, is_loop=True)
        if link.startswith("/"):
            current = "/"
        pending.extendleft(reversed(link.split("/")))
        points.append(os.path.normpath("/".join([current, *pending])))
    points.append(current)
    return Trail(tuple(dict.fromkeys(points)), current, _status(current))


def _link_at(path: str) -> str | None:
    info = _status(path)
    if info is None or not stat.S_ISLNK(info.st_mode):
        return None
    try:
        return os.readlink(path)  # noqa: PTH115  # the text of the link, unchanged
    except OSError:
        return None


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None
