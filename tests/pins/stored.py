"""Session folders as an earlier qcode wrote them, put into the folder that this version reads.

The files below `data/sessions` hold `{WORK}` for the workspace and `{PORT}` for the port of the host.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

from tests.pins.golden import DATA
from tests.pins.runner import PinRunner

SESSIONS = tuple(sorted(path.name for path in (DATA / "sessions").iterdir()))
NOON = 1_740_830_400
"""2025-03-01 12:00 UTC, when the sessions were written to; a second apart, in the order of their ids."""

_MAX_SLUG_CHARS = 48


def folder_of(cli: PinRunner) -> Path:
    """Return the session folder of the workspace: the end of its path, and a hash of the full path."""
    real = cli.work.resolve()
    slug = re.sub(r"[^A-Za-z0-9]+", "-", str(real)).strip("-")[-_MAX_SLUG_CHARS:].strip("-")
    name = f"{slug}-{hashlib.sha256(bytes(real)).hexdigest()[:10]}"
    return cli.config / "state/sessions" / name


def install(cli: PinRunner, *names: str, port: int = 0) -> tuple[str, ...]:
    """Put these sessions into the state folder; return their ids."""
    target = folder_of(cli)
    target.mkdir(parents=True, mode=0o700)
    for name in names:
        for path in sorted((DATA / "sessions" / name).iterdir()):
            if path.is_dir():
                shutil.copytree(path, target / path.name)
                continue
            text = path.read_text("utf-8").replace("{WORK}", str(cli.work)).replace("{PORT}", str(port))
            (target / path.name).write_text(text, "utf-8")
    ids = sorted(path.stem for path in target.glob("*.jsonl"))
    for number, session_id in enumerate(ids):
        os.utime(target / f"{session_id}.jsonl", (NOON + number, NOON + number))
    return tuple(ids)


def file_of(cli: PinRunner, session_id: str) -> Path:
    return folder_of(cli) / f"{session_id}.jsonl"


def listing(cli: PinRunner) -> str:
    """Return which files lie in the state folder."""
    paths = sorted(str(path) for path in (cli.config / "state").rglob("*") if path.is_file())
    return cli.normalized("".join(f"{path}\n" for path in paths))


def records(cli: PinRunner) -> str:
    """Return every session file of the workspace."""
    parts = []
    for path in sorted(folder_of(cli).glob("*.jsonl")):
        text = cli.normalized(path.read_text("utf-8"))
        parts.append(f"=== {cli.normalized(path.stem)}\n{text}")
    return "".join(parts)
