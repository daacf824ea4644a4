"""A scripted connect service that records its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from qcode.agent.keys.connect import CheckedKey, KeysService, ProviderChoice
from qcode.safety.secret import Secret

CANARY = "sk-canary-0123456789abcdef"

CHOICES = (
    ProviderChoice(
        "anthropic", title="Anthropic", hint="Claude models", key_page="https://keys.example/new", group="popular"
    ),
    ProviderChoice("openai", "OPENAI_API_KEY is set", is_ready=True, title="OpenAI", hint="GPT", group="popular"),
    ProviderChoice("bedrock", "credentials come from the AWS chain", accepts_key=False, is_ready=True),
    ProviderChoice("openrouter"),
    ProviderChoice(
        "ollama", "needs no key", is_ready=True, is_keyless=True, title="Ollama", hint="models here", group="local"
    ),
)


class ScriptedKeysService(KeysService):
    """Refuses keys that start with "bad", and cannot reach the server for keys that start with "down".

    With `waits`, a check waits until the test sets `opened`.
    """

    is_first: bool = False
    wants_theme: bool = False

    def __init__(self, *, is_first: bool = False, wants_theme: bool = False, waits: bool = False) -> None:
        self.is_first = is_first
        self.wants_theme = wants_theme
        self.checked_keys: list[tuple[str, str]] = []
        """The providers and the keys that were checked, as typed."""
        self.saved_keys: list[tuple[str, Secret | None]] = []
        """The providers and their saved keys; None for a provider that uses the key of the environment or no key."""
        self.finished = 0
        self.chosen = ""
        self.themes: list[str] = []
        self.reached, self.opened = asyncio.Event(), asyncio.Event()
        if not waits:
            self.opened.set()

    def choices(self) -> tuple[ProviderChoice, ...]:
        return CHOICES

    async def local_models(self) -> Mapping[str, str]:
        return {"ollama": "qwen3:8b"}

    async def check_typed_key(self, name: str, typed: str) -> CheckedKey:
        self.checked_keys.append((name, typed))
        self.reached.set()
        await self.opened.wait()
        if typed.startswith("bad"):
            raise ValueError(f"{name} refused the key: [not] valid; set a valid one")
        if typed.startswith("down"):
            raise ValueError(f"cannot reach {name}: connection refused; is the server running?")
        is_ready = next(choice.is_ready for choice in CHOICES if choice.name == name)
        if not typed and not is_ready:
            raise ValueError("no key was given")
        models = ("vendor/large", "vendor/small", "other/tiny") if name == "openrouter" else ()
        return CheckedKey(Secret(typed) if typed else None, models=models)

    async def save_key(self, name: str, checked: CheckedKey) -> tuple[str, ...]:
        self.saved_keys.append((name, checked.key))
        return (f"{name} accepted the key", "stored in the keyring") if checked.key is not None else ()

    def model_of(self, name: str, listed: tuple[str, ...]) -> str:
        return "" if listed or name == "ollama" else f"{name}/default"

    def finish(self, model: str) -> None:
        self.finished += 1
        self.chosen = model
        self.is_first = False
