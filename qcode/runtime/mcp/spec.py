"""What a server is before it runs: how it is started, where it comes from, and the hash that an approval is for."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

from qcode.config.settings import McpServer
from qcode.protocol.values import dataclass

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class ServerError(Exception):
    """A server cannot be started or asked; the text is one line for a person."""


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A server by its name. `scope` keeps servers of one name apart: that of a project, of a file, the person's own."""

    name: str
    config: McpServer
    scope: str
    origin: str

    @property
    def key(self) -> str:
        """What its approval and its tools are kept under."""
        return f"{self.scope}#{self.name}"

    @property
    def is_from_project(self) -> bool:
        return self.config.is_from_project

    @property
    def what(self) -> str:
        """The command line or the address, without what may be a secret in them."""
        if self.config.url is None:
            return self.config.command or ""
        return _without_secrets(self.config.url)

    @property
    def fingerprint(self) -> str:
        """The hash of what would run or be asked: command, arguments, names of variables and headers, address."""
        config = self.config
        # The values of a project's own variables are part of what runs; those of a person may be keys.
        env: object = dict(config.env) if self.is_from_project else sorted(config.env)
        whole = [config.command, list(config.args), env, config.url, sorted(config.headers)]
        return digest(whole)

    def detail(self) -> str:
        """Return the whole of what an approval is for, for a person: a project's file holds no secret of theirs."""
        config = self.config
        rows = [f"file:     {self.origin}"]
        if config.url is not None:
            rows.append(f"address:  {config.url}")
            rows += [f"header:   {name}: {value}" for name, value in config.headers.items()]
        else:
            rows.append(f"command:  {config.command}")
            rows += [f"argument: {argument}" for argument in config.args]
            rows += [f"variable: {name}={value}" for name, value in config.env.items()]
        return "\n".join(rows)

    def expanded(self, env: Mapping[str, str]) -> McpServer:
        """Return the configuration with `${NAME}` and `${NAME:-default}` filled in; raise `ServerError`.

        A project never gets a variable: it would choose which of the person's keys goes where.
        """
        config = self.config

        def fill(text: str) -> str:
            return _VARIABLE.sub(value_of, text)

        def value_of(found: re.Match[str]) -> str:
            name, default = found[1], found[2]
            if self.is_from_project:
                raise ServerError(
                    f"it asks for the variable {name} of your environment, which no project gets: "
                    "name this server in your own configuration"
                )
            value = env.get(name, "") or default
            if value is None:
                raise ServerError(f"the variable {name} is not set")
            return value

        return replace(
            config,
            args=tuple(fill(argument) for argument in config.args),
            env={name: fill(value) for name, value in config.env.items()},
            url=fill(config.url) if config.url is not None else None,
            headers={name: fill(value) for name, value in config.headers.items()},
        )


def digest(value: object) -> str:
    """Return the SHA-256 of a JSON value, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
