"""Skips `fsync`, which takes time and matters only after a power failure."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from unittest import mock


def skip_fsync() -> AbstractContextManager[object]:
    """Let `os.fsync` only check its file. Tests that count its calls or need its errors replace it themselves."""
    return mock.patch.object(os, "fsync", os.fstat)
