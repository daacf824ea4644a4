"""A disk that does not wait: only after a power failure would the difference show."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from unittest import mock


def skip_fsync() -> AbstractContextManager[object]:
    """Make `os.fsync` check its file and do nothing else. Tests of its calls and errors replace it themselves."""
    return mock.patch.object(os, "fsync", os.fstat)
