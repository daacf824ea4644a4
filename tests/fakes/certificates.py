"""Skips the certificates of public hosts. No test connects to one, and reading the files takes 20 ms each time."""

from __future__ import annotations

import ssl
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock


def skip_public_certificates() -> AbstractContextManager[object]:
    """Make `load_verify_locations` skip files of the machine. Files of tests load, and missing ones fail, as usual."""
    load = ssl.SSLContext.load_verify_locations
    test_files = Path(tempfile.gettempdir()).resolve()

    def load_test_files(context: ssl.SSLContext, cafile: Any = None, capath: Any = None, cadata: Any = None) -> None:
        path = Path(cafile or capath or test_files).resolve()
        if cadata is not None or not path.exists() or path.is_relative_to(test_files):
            load(context, cafile, capath, cadata)

    return mock.patch.object(ssl.SSLContext, "load_verify_locations", load_test_files)
