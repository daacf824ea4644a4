"""The connect screen's way to the providers and to the stored keys: the same code as `qcode auth login`."""

from __future__ import annotations

from qcode.cli.auth import check, login_lines, store
from qcode.cli.crash import keep_out
from qcode.cli.failure import StartError
from qcode.cli.selection import Selection, address_of, default_of, known_specs, needs_key, source_words
from qcode.cli.surroundings import Surroundings
from qcode.providers import registry
from qcode.providers.pasted_key import read_key
from qcode.providers.registry import ProviderSpec
from qcode.providers.threads import run_aside
from qcode.runtime.choices import Choices
from qcode.runtime.credentials.errors import CredentialError
from qcode.safety.secret import Secret
from qcode.tui.connecting import CheckedKey, ProviderChoice

_AWS_CHAIN = "credentials come from the AWS chain (AWS_PROFILE, aws sso login, a role)"


class AppConnecting:
    """Connects for one app. A provider's address, headers and time limits are those of its settings."""

    def __init__(self, around: Surroundings, selection: Selection) -> None:
        self._around = around
        self._choices = Choices(around.paths.state_dir)
        given = around.arguments
        is_new = selection.is_last_resort and given.prompt is None and given.resume is None
        self._is_first = is_new and not self._choices.is_acquainted

    @property
    def is_first(self) -> bool:
        return self._is_first

    @property
    def wants_theme(self) -> bool:
        return not self._around.settings.ui.theme and not self._choices.theme

    def choices(self) -> tuple[ProviderChoice, ...]:
        return tuple(self._choice(spec) for name, spec in known_specs(self._around.settings).items() if name != "demo")

    async def check(self, name: str, typed: str) -> CheckedKey:
        settings, keys, spec = self._around.settings, self._around.keys, self._spec(name)
        key: Secret | None = None
        if typed.strip() or not self._choice(spec).is_ready:
            key = Secret(read_key(typed, spec, address_of(spec, settings, keys.env)[0]))
            keep_out(key)
            keys.note(key)
        checked = await check(settings, keys, spec, key)
        if checked.verdict == "refused" or (key is None and checked.verdict == "unknown"):
            raise ValueError(checked.note)
        models = () if spec.protocol == "bedrock" else checked.models
        return CheckedKey(key, checked.verdict == "accepted", checked.note, models)

    async def keep(self, name: str, checked: CheckedKey) -> tuple[str, ...]:
        keys, spec, key = self._around.keys, self._spec(name), checked.key
        if key is None:
            return ()
        try:
            stored = await run_aside(lambda: store(keys, spec, key))
        except CredentialError as error:
            raise ValueError(str(error)) from None
        return login_lines(keys, spec, stored, checked.note, is_accepted=checked.is_accepted)

    def model_of(self, name: str, listed: tuple[str, ...]) -> str:
        try:
            chosen = default_of(self._spec(name), self._around.settings, "")
        except StartError:
            return ""
        is_there = not listed or any(model.startswith(chosen.model) for model in listed)
        return chosen.name if is_there else ""

    def finish(self, model: str) -> None:
        self._is_first = False
        self._choices.keep_acquainted()
        if model:
            self._choices.keep_model(model)

    def _spec(self, name: str) -> ProviderSpec:
        return known_specs(self._around.settings)[name]

    def _choice(self, spec: ProviderSpec) -> ProviderChoice:
        settings, keys = self._around.settings, self._around.keys
        if not registry.takes_key(spec):
            found = registry.credential_of(spec, keys.env)
            return ProviderChoice(spec.name, f"{found} is set" if found else _AWS_CHAIN, takes_key=False, is_ready=True)
        source = keys.source_of(spec)
        if source:
            return ProviderChoice(spec.name, source_words(source), is_ready=True)
        if not needs_key(spec, settings, keys.env):
            return ProviderChoice(spec.name, "needs no key", is_ready=True)
        return ProviderChoice(spec.name)
