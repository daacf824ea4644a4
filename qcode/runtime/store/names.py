"""Names of sessions and of the folders they lie in."""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import UTC, datetime
from pathlib import Path

_SLUG_LENGTH = 48


def new_session_id(now: datetime) -> str:
    """Return an id that sorts by time (UTC) and is random within a second: `20261121-073520-4f2a`."""
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def project_folder_name(project_root: Path) -> str:
    """Return a readable name that only this folder has: the end of its path and a hash of where it really is."""
    real = project_root.resolve()
    slug = re.sub(r"[^A-Za-z0-9]+", "-", str(real)).strip("-")[-_SLUG_LENGTH:].strip("-") or "root"
    return f"{slug}-{hashlib.sha256(bytes(real)).hexdigest()[:10]}"
