"""A client for the official conformance suite, made of qcode's own connection: `python -m ... ADDRESS`.

The suite starts it once for each scenario. It calls every tool, accepts the defaults of every form, and signs in with a
browser that only follows redirects, up to three times.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from qcode.agent.keys.store import KeyStore
from qcode.agent.mcp.context import ServerContext
from qcode.agent.mcp.oauth.credentials import Credentials
from qcode.agent.mcp.oauth.login import ClientRegistration, sign_in
from qcode.agent.mcp.pins import Pins
from qcode.agent.mcp.servers import Servers
from qcode.agent.mcp.spec import ServerSpec
from qcode.config.settings import McpServer
from qcode.protocol.approvals import Choice
from qcode.text.json import JsonObject
from tests.agent.mcp.serving import until
from tests.agent.mcp.test_oauth import NoKeyring, browse

MAX_LOGINS = 3
_METADATA = "https://conformance-test.local/client-metadata.json"


async def main(address: str, base: Path) -> int:
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    config = McpServer(url=address, client_metadata_url=_METADATA)
    spec = ServerSpec("conformance", config, "own", "here")
    store = KeyStore(base / "keys", NoKeyring("qcode-conformance"))
    client = ClientRegistration(given.get("client_id", ""), given.get("client_secret", ""))
    for _ in range(MAX_LOGINS + 1):
        context = ServerContext(base, os.environ, keys=lambda: store)
        servers = Servers((spec,), Pins(base / "state"), context, is_trusted=True)
        try:
            if not await _used(servers):
                return 0
        finally:
            await servers.close()
        await sign_in(config, Credentials(spec, address, store), browse, None, client if client.id else None)
    return 1


async def _used(servers: Servers) -> bool:
    """Call every tool; return whether the server wants a login."""
    servers.start(lambda: None)
    await until(lambda: servers.statuses()[0].state != "starting")
    for tool in servers.callable_specs():
        properties = tool.parameters.get("properties")
        numbers = properties if isinstance(properties, dict) else {}
        arguments: JsonObject = dict.fromkeys(numbers, 2)
        result = await servers.run(tool.name, arguments, lambda text: None, 30_000, Path, _accept)
        sys.stdout.write(f"{tool.name}: {result.content}\n")
        if "qcode mcp login" in result.content:
            return True
    status = servers.statuses()[0]
    sys.stdout.write(f"{status.state} {status.problem}\n")
    return status.state == "sign-in"


async def _accept(question: str, detail: str, choices: Sequence[Choice], **_: bool) -> str | None:
    return choices[0].label


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(asyncio.run(main(sys.argv[1], Path(folder))))
