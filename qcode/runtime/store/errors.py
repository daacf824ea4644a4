"""What can be wrong with a session that was asked for.

SessionError
    SessionNotFound  no session has this id, or several begin with it
    SessionBusy      another process writes to it
"""

from __future__ import annotations


class SessionError(Exception):
    """A session cannot be used. The text is one line for a person."""


class SessionNotFound(SessionError):  # noqa: N818  # named for what happened, as the whole room says it
    pass


class SessionBusy(SessionError):  # noqa: N818  # named for what happened, as the whole room says it
    pass
