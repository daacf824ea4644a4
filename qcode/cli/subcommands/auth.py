"""`qcode auth`: stores a key, lists the sources of keys, or deletes one. Keys are never arguments and never printed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from functools import partial

from qcode.agent.crash import redact_in_crash_reports
from qcode.agent.keys.connect import (
    CredentialRow,
    KeyVerdict,
    connect_and_check,
    credential_row,
    credential_rows,
    login_lines,
    store_key,
)
from qcode.agent.keys.keys import ATTENDED_TIMEOUT_S, LOGIN_PREFIX, UNATTENDED_TIMEOUT_S, Keys, key_commands, key_store
from qcode.agent.keys.pasted_key import read_key
from qcode.agent.models.selection import (
    ALL_PROVIDERS_HINT,
    address_of,
    known_specs,
    needs_key,
    unknown_provider_text,
)
from qcode.agent.options import RunContext
from qcode.cli.arguments import CommandLineError, missing_argument, parse_subcommand
from qcode.cli.context import folder_context
from qcode.cli.terminal import InputEnded, ask, ask_hidden, write_lines, write_stderr, write_stdout
from qcode.config.settings import Settings
from qcode.protocol.errors import ExitCode, KeyringError, KeyStoreError, QcodeError, UsageError
from qcode.providers import registry
from qcode.providers.registry import ProviderSpec
from qcode.safety.secret import Secret
from qcode.values import dataclass

USAGE = (
    "use: qcode auth login PROVIDER [--no-check], qcode auth status [PROVIDER] [--json], or qcode auth logout PROVIDER"
)
_COMMON_FLAGS = {"cwd", "trust", "settings"}
_FLAGS = {
    "login": {"no_check", *_COMMON_FLAGS},
    "status": {"json", *_COMMON_FLAGS},
    "logout": _COMMON_FLAGS,
}
_MAX_LINE_BYTES = 64 * 1024
_MAX_NAME_CHARS = 16
"""An error does not repeat an unknown provider with a longer name, because it may be a key."""
_MAX_ATTEMPTS = 3
"""How often a key is asked for at a terminal."""


@dataclass(frozen=True, slots=True)
class AuthContext:
    """The settings and keys that the actions share."""

    settings: Settings
    keys: Keys
    is_attended: bool

    @property
    def specs(self) -> dict[str, ProviderSpec]:
        return known_specs(self.settings)


def run_auth(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; raise `CommandLineError` or `QcodeError`."""
    try:
        options, typed, flags = parse_subcommand("auth", arguments, USAGE)
    except CommandLineError:
        raise CommandLineError(f"invalid arguments; {USAGE}") from None  # an unknown flag may be a key
    if not typed:
        raise missing_argument(USAGE)
    command, *words = typed
    is_valid = command in _FLAGS and len(words) <= 1 and _FLAGS[command].issuperset(flags)
    if not is_valid:
        may_contain_key = command == "login" and len(words) > 1
        hint = "; pass the key on standard input, never on the command line" if may_contain_key else ""
        raise CommandLineError(f"invalid arguments; {USAGE}{hint}")  # not repeated, because one may be a key
    is_attended = os.isatty(0) and os.isatty(1)
    folder, problem = folder_context(options)
    if problem is not None:
        write_stderr(str(problem))
    context = AuthContext(folder.settings, _keys(folder, is_attended=is_attended), is_attended)
    name = words[0] if words else None
    try:
        match command:
            case "login":
                code = _login(context, _spec(context, name, "login"), is_checked="no_check" not in flags)
            case "logout":
                code = _logout(context, _spec(context, name, "logout"))
            case _:
                spec = _spec(context, name, "status") if name is not None else None
                code = _status(context, spec, is_json="json" in flags)
    except InputEnded:
        return ExitCode.INTERRUPTED
    return code or (ExitCode.OK if problem is None else problem.exit_code)


def _keys(folder: RunContext, *, is_attended: bool) -> Keys:
    def on_wait() -> None:
        write_stderr("waiting for the keyring; it may need to be unlocked")

    timeout_s = ATTENDED_TIMEOUT_S if is_attended else UNATTENDED_TIMEOUT_S
    paths = folder.paths
    open_store = partial(key_store, paths.state_dir, os.environ, timeout_s=timeout_s, on_wait=on_wait)
    return Keys(os.environ, open_store, key_commands(folder.settings, paths.config_dir))


def _spec(context: AuthContext, name: str | None, command: str) -> ProviderSpec:
    """Return the provider `name`, or the one that the user chooses if it is None; raise `UsageError`."""
    specs = context.specs
    if name is None:
        name = _ask_provider(context, command)
    if name in specs:
        return specs[name]
    is_name = len(name) <= _MAX_NAME_CHARS and name.replace("-", "").replace("_", "").isalnum()
    if not is_name:
        raise UsageError(f"unknown provider; {ALL_PROVIDERS_HINT}")
    raise UsageError(unknown_provider_text(name, specs))


def _ask_provider(context: AuthContext, command: str) -> str:
    """Ask which provider is meant; raise `UsageError` if no user is at the terminal, or no key is stored."""
    names = [name for name, spec in context.specs.items() if registry.accepts_key(spec)]
    if command == "logout":
        names = sorted(name for name in context.keys.stored_names() if not name.startswith(LOGIN_PREFIX))
        if not names:
            raise UsageError("no key is stored")
    if not context.is_attended:
        hint = f"keys are stored for {', '.join(names)}" if command == "logout" else ALL_PROVIDERS_HINT
        raise CommandLineError(f"name the provider: qcode auth {command} PROVIDER; {hint}")
    rows = "".join(f"  {number:>2}  {name}\n" for number, name in enumerate(names, start=1))
    answer = ask(f"{rows}Which provider? Number or name: ")
    is_number = answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(names)
    return names[int(answer) - 1] if is_number else answer


def _login(context: AuthContext, spec: ProviderSpec, *, is_checked: bool) -> int:
    """Store the key of a provider after a check; raise `QcodeError` if the key is refused."""
    _refuse_without_key(spec)
    address = address_of(spec, context.settings, context.keys.env).value
    key_required = needs_key(spec, context.settings, context.keys.env)
    key = _read_key(spec, address, key_required=key_required)
    if not key:
        write_stdout(f"{spec.name} needs no key; nothing was stored\n")
        return 0
    redact_in_crash_reports(key)
    checked = KeyVerdict("unknown")
    if is_checked:
        checked = asyncio.run(connect_and_check(context.settings, context.keys, spec, key))
    if checked.verdict == "refused":
        raise QcodeError(
            f"{checked.note}; nothing was stored (use --no-check to store it without a check)", ExitCode.NO_CREDENTIAL
        )
    stored = store_key(context.keys, spec, key)
    is_accepted = checked.verdict == "accepted"
    write_lines(*login_lines(context.keys, spec, stored, checked.note, is_accepted=is_accepted))
    return 0


def _refuse_without_key(spec: ProviderSpec) -> None:
    if spec.protocol == "bedrock":
        hint = "AWS_PROFILE, aws sso login, a role, or AWS_BEARER_TOKEN_BEDROCK"
        raise UsageError(f"{spec.name} uses credentials from the AWS chain ({hint}); qcode stores no key for it")
    if spec.is_vertex:
        hint = "gcloud auth application-default login, GOOGLE_APPLICATION_CREDENTIALS, or api_key_command"
        raise UsageError(f"{spec.name} uses credentials of Google Cloud ({hint}); qcode stores no key for it")
    if not registry.accepts_key(spec):
        raise UsageError(f"{spec.name} needs no key")


def _read_key(spec: ProviderSpec, address: str, *, key_required: bool) -> Secret:
    """Return the key, empty if none was entered and none is needed; at a terminal ask again for an invalid key.

    Raise `QcodeError` if the key is invalid.
    """
    attempts_left = _MAX_ATTEMPTS if os.isatty(0) else 1
    while True:
        attempts_left -= 1
        pasted = _read_pasted_line(spec, key_required=key_required)
        if not pasted.strip() and not key_required:
            return Secret("")
        try:
            return Secret(read_key(pasted, spec, address))
        except ValueError as error:
            if not attempts_left:
                raise QcodeError(f"{error}; nothing was stored", ExitCode.NO_CREDENTIAL) from None
            write_stderr(str(error))


def _read_pasted_line(spec: ProviderSpec, *, key_required: bool) -> str:
    """Return the text that was typed or piped, without showing it."""
    if os.isatty(0):
        hint = "" if key_required else "; optional, press Enter to skip"
        return ask_hidden(f"Paste your API key for {spec.name} (it stays hidden{hint}): ")
    if sys.stdin is None:
        return ""
    while line := sys.stdin.buffer.readline(_MAX_LINE_BYTES):
        if line.strip():
            return _decoded(line)
    return ""


def _decoded(line: bytes) -> str:
    """Decode a line of UTF-8, or of UTF-16, which some shells write into pipes; anything else contains no key."""
    if line.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16-le" if line.startswith(b"\xff\xfe") else "utf-16-be"
        return line.lstrip(b"\xff\xfe").decode(encoding, "replace").rstrip("\ufffd")
    return line.decode("utf-8", "replace")


def _logout(context: AuthContext, spec: ProviderSpec) -> int:
    name = registry.key_name(spec)
    if context.keys.store is None:
        raise KeyStoreError("keys cannot be stored here")
    try:
        locations = context.keys.store.remove(name)
    except KeyringError as error:
        raise QcodeError(f"cannot remove the key for {name}: the keyring {error}") from None
    stores = " and ".join("the keyring" if location == "keyring" else "the key file" for location in locations)
    lines = [f"removed the key for {name} from {stores}" if locations else f"no key for {name} was stored"]
    variable = registry.credential_of(spec, context.keys.env)
    if variable:
        lines.append(f"{variable} is still set and provides a credential")
    write_lines(*lines)
    return 0


def _status(context: AuthContext, spec: ProviderSpec | None, *, is_json: bool) -> int:
    rows = (
        [credential_row(spec, context.settings, context.keys)]
        if spec is not None
        else credential_rows(context.settings, context.keys)
    )
    for problem in context.keys.problems:
        write_stderr(problem)
    write_stdout(_as_json(rows) if is_json else _as_text(rows))
    return ExitCode.NO_CREDENTIAL if spec is not None and not rows[0].is_ready else ExitCode.OK


def _as_json(rows: Sequence[CredentialRow]) -> str:
    return json.dumps([row.as_json() for row in rows]) + "\n"


def _as_text(rows: Sequence[CredentialRow]) -> str:
    width = max(len(row.provider) for row in rows)
    return "".join(f"{row.provider:<{width}}  {row.text}\n" for row in rows)
