"""The context of the tool servers of a session: folder, environment, logins, and the model that they may ask.

Separate from `identity` and `credentials`, which load with the first server that starts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from qcode.agent.mcp.spec import ServerSpec
from qcode.agent.trust.store import TrustedFile
from qcode.config.settings import McpServer
from qcode.values import dataclass

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequestParams, CreateMessageResult, ErrorData

    from qcode.agent.keys.store import KeyStore
    from qcode.agent.mcp.oauth.credentials import Credentials
    from qcode.protocol.approvals import Ask

    Sample: TypeAlias = Callable[
        [str, CreateMessageRequestParams, Ask | None], Awaitable[CreateMessageResult | ErrorData]
    ]
    """Requests a reply from the model. The arguments are the server's name, its request, and a function that asks the
    user, None if no user can answer."""


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The values that all servers of a session share."""

    cwd: Path
    env: Mapping[str, str]
    groups: set[int] = field(default_factory=set)
    """The ids of the running process groups, one for each server that is a program."""
    roots: tuple[Path, ...] = ()
    """The folders, in addition to `cwd`, in which the model can change files."""
    keys: Callable[[], KeyStore | None] = lambda: None
    """Returns the store of keys, which also stores logins; None if there is no store."""
    sample: Sample | None = None
    """Requests a reply from the model for a server with `sampling`; None if that is not possible."""

    def credentials_of(self, spec: ServerSpec, config: McpServer) -> Credentials | None:
        """Return the storage for the login of a server; None if the server supports no login, or there is no store.

        `config` has its variables expanded.
        """
        from qcode.agent.mcp.oauth.credentials import Credentials
        from qcode.agent.mcp.oauth.login import supports_login

        store = None if spec.is_from_client or not supports_login(config) else self.keys()
        return None if store is None or config.url is None else Credentials(spec, config.url, store)

    def files_of(self, spec: ServerSpec) -> dict[str, TrustedFile]:
        """Return the files that a server would start now, by display name; raise `ServerError`. Blocking."""
        from qcode.agent.mcp.identity import files_of  # loads with the first server that starts

        return files_of(spec.expanded(self.env), self.cwd, self.env, (self.cwd, *self.roots))


class NotApprovedError(Exception):
    """A server must not be started: the user has not approved the current contents of its files."""

    def __init__(self, files: Mapping[str, TrustedFile]) -> None:
        super().__init__("the files that it runs are not approved")
        self.files = files  # the current contents, by display name
