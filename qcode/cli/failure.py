"""Why a run cannot begin: one line for a person and the exit code of the contract."""

from __future__ import annotations


class StartError(Exception):
    """The run cannot begin; the text is for a person, `code` the exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code
