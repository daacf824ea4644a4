"""Connections without the certificates of public hosts: no test reaches one, and reading them takes 20 ms each time."""

from __future__ import annotations

import ssl
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock


def skip_public_certificates() -> AbstractContextManager[object]:
    """Make `load_verify_locations` leave out files of the machine. Those that a test makes, and missing ones, load."""
    load = ssl.SSLContext.load_verify_locations
    made_by_tests = Path(tempfile.gettempdir()).resolve()

    def load_own(context: ssl.SSLContext, cafile: Any = None, capath: Any = None, cadata: Any = None) -> None:
        path = Path(cafile or capath or made_by_tests).resolve()
        if cadata is not None or not path.exists() or path.is_relative_to(made_by_tests):
            load(context, cafile, capath, cadata)

    return mock.patch.object(ssl.SSLContext, "load_verify_locations", load_own)
