"""Why a run cannot begin: one line for a person and the exit code of the contract."""

from __future__ import annotations

from qcode.protocol.errors import ErrorInfo, ErrorKind

_KINDS = {2: "usage", 41: str(ErrorKind.NO_CREDENTIAL), 42: "bad_input", 52: "bad_config"}


class StartError(Exception):
    """The run cannot begin; the text is for a person, `code` the exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code

    @property
    def info(self) -> ErrorInfo:
        """The same for a script, as the `error` of a result."""
        return ErrorInfo(_KINDS.get(self.code, str(ErrorKind.INTERNAL)), " ".join(str(self).split()))
