"""Where the credential of each provider comes from, as rows for people and scripts. No part of a key is in them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from qcode.cli.keys import Keys
from qcode.cli.selection import known_specs, needs_key
from qcode.config.settings import Settings
from qcode.protocol.values import dataclass
from qcode.providers import registry
from qcode.providers.registry import ProviderSpec
from qcode.runtime.credentials.store import Place

Source: TypeAlias = Literal["environment", "keyring", "file", "config", "aws", "none", "not needed"]


@dataclass(frozen=True, slots=True)
class Row:
    """One provider. `name` is the variable, setting or command behind the source; `shadowed` what it goes before."""

    provider: str
    source: Source
    name: str = ""
    shadowed: Place | None = None
    how: str = ""

    @property
    def is_ready(self) -> bool:
        return self.source != "none"

    @property
    def text(self) -> str:
        match self.source:
            case "environment":
                found = f"environment variable {self.name}"
            case "aws":
                found = f"AWS chain ({self.name} is set)"
            case "keyring" | "file":
                found = f"stored in the {'keyring' if self.source == 'keyring' else 'file of keys'}"
            case "config":
                found = f"headers in the configuration ({self.name})"
            case "not needed":
                found = "needs no key"
            case _:
                found = f"no key; {self.how}"
        place = "keyring" if self.shadowed == "keyring" else "file of keys"
        return found + (f"; the key in the {place} is not used" if self.shadowed else "")

    def as_json(self) -> dict[str, object]:
        row = {"provider": self.provider, "source": self.source, "name": self.name, "shadowed": self.shadowed}
        return {**row, "ready": self.is_ready}


def rows_of(settings: Settings, keys: Keys) -> list[Row]:
    """Return a row for every provider, those of the configuration last; the demo needs none."""
    return [row_of(spec, settings, keys) for name, spec in known_specs(settings).items() if name != "demo"]


def row_of(spec: ProviderSpec, settings: Settings, keys: Keys) -> Row:
    """Return what supplies the credential of one provider. A key in the keyring is read, to tell that it is there."""
    variable = registry.credential_of(spec, keys.env)
    stored = keys.place_of(spec)
    if variable:
        is_chain = spec.protocol == "bedrock" and variable not in spec.key_variables
        return Row(spec.name, "aws" if is_chain else "environment", variable, stored)
    if stored is not None and keys.key_of(spec)[0]:
        return Row(spec.name, stored, registry.login_command(spec))
    if spec.protocol == "bedrock":
        return Row(
            spec.name, "none", how="set AWS_PROFILE or AWS_ACCESS_KEY_ID; credentials are those of the AWS chain"
        )
    if spec.headers:
        where = settings.origin(f"providers.{spec.name}.headers")
        return Row(spec.name, "config", str(where))
    if not needs_key(spec, settings, keys.env):
        return Row(spec.name, "not needed")
    variables = " or ".join(spec.key_variables)
    way = f"set {variables}, or {registry.login_command(spec)}" if variables else registry.login_command(spec)
    return Row(spec.name, "none", how=way)
