"""A private folder for one run of the program: output that is too long to show lies there for the model to read."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path


class Scratch:
    """A folder that only this user can enter. It goes with `close`, or with the program, whichever comes first."""

    def __init__(self) -> None:
        self.path = Path(os.path.realpath(tempfile.mkdtemp(prefix="qcode-")))  # mkdtemp makes it 0700
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, True)

    def close(self) -> None:
        """Remove the folder and all that is in it; safe to call twice."""
        self._remove()
