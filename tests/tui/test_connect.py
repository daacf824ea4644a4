"""The connect screen, used by keyboard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from textual import events
from textual.widgets import Static

from qcode.agent.keys.connect import ProviderChoice
from qcode.config.saved_choices import Choices
from qcode.safety.secret import Secret
from qcode.tui.screens.connect import ConnectScreen, KeyField, provider_row
from qcode.tui.screens.picker import Finder
from tests.tui.harness import Running, drive
from tests.tui.scripted import ScriptedConversation
from tests.tui.scripted_keys import CANARY, ScriptedKeysService


def screen(run: Running) -> ConnectScreen:
    found = run.app.screen
    assert isinstance(found, ConnectScreen)
    return found


def is_open(run: Running) -> bool:
    return isinstance(run.app.screen, ConnectScreen)


async def at(run: Running, step: str) -> ConnectScreen:
    await run.until(lambda: is_open(run) and screen(run).step == step)
    await run.pilot.pause()
    return screen(run)


async def closed(run: Running) -> None:
    await run.until(lambda: not is_open(run))
    await run.pilot.pause()


def field(run: Running) -> KeyField:
    return screen(run).query_one(KeyField)


def painted(run: Running) -> str:
    """Return the whole text on the screen."""
    return "\n".join("".join(segment.text for segment in strip) for strip in run.app.screen._compositor.render_strips())


def test_pasted_key_is_checked_stored_and_its_model_used() -> None:
    connecting = ScriptedKeysService()
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        await run.send("/connect")
        await at(run, "provider")
        await run.pilot.press("enter")
        await at(run, "key")
        run.app.screen.post_message(events.Paste(f"\n  {CANARY}\nand more"))
        await run.until(lambda: field(run).value == CANARY)
        assert CANARY not in painted(run)
        await run.pilot.press("enter")
        await closed(run)
        assert connecting.checked_keys == [("anthropic", CANARY)]
        assert connecting.saved_keys == [("anthropic", Secret(CANARY))]
        assert conversation.model == "anthropic/default"
        assert "Anthropic accepted the key." in run.text
        assert "Stored in the keyring." in run.text
        assert CANARY not in run.text
        assert connecting.finished == 1

    drive(test, conversation, connect=connecting)


def test_list_of_providers_takes_all_rows_above_the_keys() -> None:
    class ManyHosts(ScriptedKeysService):
        def choices(self) -> tuple[ProviderChoice, ...]:
            return tuple(ProviderChoice(f"host{number}") for number in range(30))

    async def test(run: Running) -> None:
        await run.send("/connect")
        await at(run, "provider")
        rows = [row.strip() for row in painted(run).split("\n")]
        assert "of 30" in rows[-3], painted(run)
        assert rows[-2] == ""
        assert rows[-1].startswith("Enter select")

    drive(test, connect=ManyHosts())


def test_refused_key_can_be_tried_again() -> None:
    connecting = ScriptedKeysService()

    async def test(run: Running) -> None:
        await run.send("/connect anthropic")
        screen_text = await at(run, "key")
        field(run).value = "bad"
        await run.pilot.press("enter")
        await run.until(lambda: "refused" in screen_text.note)
        assert screen_text.note == "Anthropic refused the key: [not] valid."
        field(run).value = "down"
        await run.pilot.press("enter")
        await run.until(lambda: "Cannot reach" in screen_text.note)
        assert screen_text.note.endswith("is the server running?")
        assert connecting.saved_keys == []
        field(run).value = ""
        await run.pilot.press("enter")
        await run.until(lambda: "No key was given." in screen_text.note)
        field(run).value = CANARY
        await run.pilot.press("enter")
        await closed(run)
        assert [key for _, key in connecting.saved_keys] == [Secret(CANARY)]

    drive(test, connect=connecting)


def test_running_key_check_is_shown_and_can_be_cancelled() -> None:
    connecting = ScriptedKeysService(waits=True)

    async def test(run: Running) -> None:
        await run.send("/connect anthropic")
        screen_text = await at(run, "key")
        field(run).value = CANARY
        await run.pilot.press("enter")
        await connecting.reached.wait()
        await run.until(lambda: "checking with anthropic" in screen_text.note)
        await run.until(lambda: "Esc cancel" in run.screen and "Esc back" not in run.screen)
        await run.pilot.press("enter")
        await run.pilot.press("escape")
        await run.until(lambda: "Cancelled" in screen_text.note)
        await run.until(lambda: "Esc back" in run.screen)
        assert (len(connecting.checked_keys), connecting.saved_keys) == (1, [])
        connecting.opened.set()
        await run.pilot.press("enter")
        await closed(run)
        assert len(connecting.saved_keys) == 1

    drive(test, connect=connecting)


def test_enter_uses_an_existing_key() -> None:
    connecting, conversation = ScriptedKeysService(), ScriptedConversation()

    async def test(run: Running) -> None:
        await run.send("/connect openai")
        await at(run, "key")
        assert "OPENAI_API_KEY is set" in painted(run)
        await run.pilot.press("enter")
        await closed(run)
        assert connecting.saved_keys == [("openai", None)]
        assert conversation.model == "openai/default"

    drive(test, conversation, connect=connecting)


def test_provider_that_takes_no_key_shows_no_field() -> None:
    async def test(run: Running) -> None:
        await run.send("/connect bedrock")
        await at(run, "key")
        assert not field(run).display
        await run.pilot.press("enter")
        await closed(run)
        assert run.conversation.model == "bedrock/default"

    drive(test, connect=ScriptedKeysService())


def test_key_step_of_a_server_without_a_key_does_not_ask_for_one() -> None:
    async def test(run: Running) -> None:
        await run.send("/connect ollama")
        await at(run, "key")
        words = " ".join(painted(run).split())
        assert "Needs no key. Enter without a key uses it. If your server requires a key, paste it" in words
        assert "Paste your API key" not in words

    drive(test, connect=ScriptedKeysService())


def test_key_for_the_provider_in_use_keeps_its_model() -> None:
    conversation = ScriptedConversation(model="anthropic/chosen")

    async def test(run: Running) -> None:
        await run.send("/connect anthropic")
        await at(run, "key")
        field(run).value = CANARY
        await run.pilot.press("enter")
        await closed(run)
        assert conversation.model == "anthropic/chosen"

    drive(test, conversation, connect=ScriptedKeysService())


def test_connect_asks_for_a_model_if_none_is_obvious() -> None:
    connecting = ScriptedKeysService()

    async def test(run: Running) -> None:
        await run.send("/connect openrouter")
        await at(run, "key")
        field(run).value = CANARY
        await run.pilot.press("enter")
        screen_text = await at(run, "model")
        await run.pilot.press(*"small")
        assert [row.id for row in screen_text.query_one(Finder).rows] == ["vendor/small"]
        await run.pilot.press("enter")
        await closed(run)
        assert run.conversation.model == connecting.chosen == "openrouter/vendor/small"

    drive(test, connect=connecting)


def test_connect_without_models_explains_how_to_name_one() -> None:
    async def test(run: Running) -> None:
        await run.send("/connect ollama")
        await at(run, "key")
        await run.pilot.press("enter")
        await closed(run)
        assert "/model ollama/MODEL" in run.text
        assert run.conversation.model == "demo/scripted"

    drive(test, connect=ScriptedKeysService())


def test_first_start_opens_connect_and_esc_skips_every_step(tmp_path: Path) -> None:
    choices = Choices(tmp_path)
    connecting = ScriptedKeysService(is_first=True, wants_theme=True)

    async def test(run: Running) -> None:
        screen_text = await at(run, "provider")
        assert "demo" in painted(run)
        before = run.app.theme
        await run.pilot.press("enter")
        await at(run, "key")
        await run.pilot.press("escape")
        await at(run, "provider")
        await run.pilot.press("escape")
        await at(run, "theme")
        await run.pilot.press("down")
        await run.until(lambda: run.app.theme != before)
        await run.pilot.press("escape")
        await closed(run)
        assert run.app.theme == before
        assert run.app.focused is run.app.widgets.prompt
        assert (connecting.finished, connecting.saved_keys, choices.theme) == (1, [], "")
        assert screen_text.step == "theme"

    drive(test, connect=connecting, choices=choices)


def test_enter_without_a_match_keeps_the_first_start_open() -> None:
    connecting = ScriptedKeysService(is_first=True, wants_theme=True)

    async def test(run: Running) -> None:
        screen_text = await at(run, "provider")
        await run.pilot.press(*"hello", "space", *"you", "enter")
        assert (run.app.screen, screen_text.step, connecting.finished) == (screen_text, "provider", 0)
        await run.pilot.press("escape", "escape")
        await at(run, "theme")
        await run.pilot.press(*"hello", "enter")
        assert (run.app.screen, screen_text.step) == (screen_text, "theme")
        await run.pilot.press("escape", "escape")
        await closed(run)
        await run.until_idle()
        assert run.conversation.prompts == []

    drive(test, connect=connecting)


@pytest.mark.parametrize("is_first", [True, False])
def test_key_of_a_known_format_pasted_into_the_filter_goes_to_its_provider(is_first: bool) -> None:
    connecting = ScriptedKeysService(is_first=is_first)
    key = "sk-ant-api03-0123456789abcdef0123456789"

    async def test(run: Running) -> None:
        if not is_first:
            await run.send("/connect")
        await at(run, "provider")
        run.app.screen.post_message(events.Paste(key))
        await at(run, "key")
        assert (field(run).value, screen(run).query_one(Finder).filter_text) == (key, "")
        assert key not in painted(run)
        await run.pilot.press("enter")
        await closed(run)
        assert connecting.checked_keys == [("anthropic", key)]
        assert run.conversation.prompts == []

    drive(test, connect=connecting)


def test_key_of_an_unknown_provider_waits_for_a_choice_and_goes_into_the_key_field() -> None:
    connecting = ScriptedKeysService(is_first=True)

    async def test(run: Running) -> None:
        screen_text = await at(run, "provider")
        run.app.screen.post_message(events.Paste(CANARY))
        await run.until(lambda: screen_text.note.startswith("Which provider is this key for?"))
        await run.pilot.press("enter")
        await run.pilot.pause()
        assert screen_text.step == "provider", "an Enter right after the key picks nothing"
        assert CANARY not in painted(run)
        await run.pilot.press(*"opena", "enter")
        await at(run, "key")
        assert field(run).value == CANARY
        await run.pilot.press("enter")
        await run.until(lambda: connecting.checked_keys == [("openai", CANARY)])

    drive(test, connect=connecting)


def test_provider_is_found_by_the_start_of_a_word_only() -> None:
    async def test(run: Running) -> None:
        screen_text = await at(run, "provider")
        await run.pilot.press(*"hi", "enter")
        await run.pilot.pause()
        assert screen_text.step == "provider"
        assert "No provider matches." in painted(run)
        await run.pilot.press("escape", *"gpt", "enter")
        await at(run, "key")

    drive(test, connect=ScriptedKeysService(is_first=True))


def test_esc_in_a_running_session_returns_without_asking_for_a_theme() -> None:
    async def test(run: Running) -> None:
        await run.send("/connect")
        await at(run, "provider")
        await run.pilot.press("escape")
        await closed(run)
        assert run.app.focused is run.app.widgets.prompt

    drive(test, connect=ScriptedKeysService(wants_theme=True))


def test_theme_is_previewed_and_kept(tmp_path: Path) -> None:
    choices = Choices(tmp_path)
    connecting = ScriptedKeysService(is_first=True, wants_theme=True)

    async def test(run: Running) -> None:
        await at(run, "provider")
        await run.pilot.press("escape")
        await at(run, "theme")
        await run.pilot.press(*"light", "enter")
        await closed(run)
        assert run.app.theme == "light"
        assert choices.theme == "light"

    drive(test, connect=connecting, choices=choices)


def test_theme_step_shows_the_result_of_the_key_step() -> None:
    async def test(run: Running) -> None:
        await at(run, "provider")
        await run.pilot.press(*"anthropic", "enter")
        await at(run, "key")
        field(run).value = CANARY
        await run.pilot.press("enter")
        await at(run, "theme")
        assert "Anthropic accepted the key. Model: anthropic/default." in painted(run)
        assert "The highlighted theme is previewed." in painted(run)
        await run.pilot.press("escape")
        await closed(run)

    drive(test, connect=ScriptedKeysService(is_first=True, wants_theme=True))


@pytest.mark.parametrize("key", ["ctrl+c", "ctrl+d"])
def test_closing_connect_at_once_keeps_the_app_open(key: str) -> None:
    connecting = ScriptedKeysService(is_first=True, wants_theme=True)

    async def test(run: Running) -> None:
        await at(run, "provider")
        await run.pilot.press(key)
        await closed(run)
        assert connecting.finished == 1
        await run.send("hello")
        await run.until_idle()
        assert run.conversation.prompts == ["hello"]

    drive(test, connect=connecting)


def test_key_cannot_be_copied_or_cut_from_the_field() -> None:
    async def test(run: Running) -> None:
        await run.send("/connect anthropic")
        await at(run, "key")
        field(run).value = CANARY
        field(run).action_select_all()
        field(run).action_copy()
        field(run).action_cut()
        assert run.app.clipboard == ""
        assert field(run).value == ""

    drive(test, connect=ScriptedKeysService())


def test_unknown_provider_names_the_nearest_and_opens_no_screen() -> None:
    async def test(run: Running) -> None:
        await run.send("/connect antropic")
        await run.pilot.pause()
        assert "Did you mean anthropic?" in run.text
        assert not is_open(run)

    drive(test, connect=ScriptedKeysService())


def _highlighted(finder: Finder) -> str:
    return finder.row.id if finder.row is not None else ""


def test_typing_narrows_the_list_and_backspace_widens_it() -> None:
    async def test(run: Running) -> None:
        await run.send("/connect")
        finder = (await at(run, "provider")).query_one(Finder)
        await run.pilot.press("up")
        assert _highlighted(finder) == "ollama"
        await run.pilot.press("down", "end", "home", "down")
        assert _highlighted(finder) == "openai"
        await run.pilot.press(*"zz")
        assert _highlighted(finder) == ""
        await run.pilot.press("enter")
        assert "No provider matches" in painted(run)
        await run.pilot.press("backspace", "backspace", *"openr")
        assert [row.id for row in finder.rows] == ["openrouter"]

    drive(test, connect=ScriptedKeysService())


def test_connect_screen_is_readable_at_forty_columns() -> None:
    async def test(run: Running) -> None:
        await run.send("/connect")
        screen_text = await at(run, "provider")
        for words in ("Anthropic", "OpenAI", "Esc close"):
            assert words in " ".join(painted(run).split())
        await run.pilot.press("enter")
        await at(run, "key")
        field(run).value = "bad"
        await run.pilot.press("enter")
        await run.until(lambda: "refused" in screen_text.note)
        await run.pilot.pause()
        assert "the key: [not] valid" in " ".join(painted(run).split())
        assert screen_text.query_one("#connect-foot", Static).region.bottom <= 16

    drive(test, size=(40, 16), connect=ScriptedKeysService())


def test_providers_are_grouped_with_names_and_hints_and_local_servers_are_found() -> None:
    async def test(run: Running) -> None:
        await run.send("/connect")
        await at(run, "provider")
        await run.until(lambda: "Local servers: found 1" in painted(run))
        rows = [line.split() for line in painted(run).split("\n")]
        assert ["Popular"] in rows
        assert ["›", "Anthropic", "Claude", "models"] in rows
        assert ["OpenAI", "GPT", "·", "OPENAI_API_KEY", "is", "set"] in rows
        assert ["Ollama", "models", "here", "·", "found:", "qwen3:8b"] in rows
        assert "Enter select  ·  Esc close  ·  ↑↓ move" in painted(run)

    drive(test, connect=ScriptedKeysService())


def test_local_server_that_answers_comes_first_in_its_group() -> None:
    class ManyServers(ScriptedKeysService):
        def choices(self) -> tuple[ProviderChoice, ...]:
            servers = (ProviderChoice(name, group="local") for name in ("llamacpp", "vllm", "mine"))
            return (ProviderChoice("anthropic", group="popular"), *servers, ProviderChoice("azure", group="other"))

        async def local_models(self) -> Mapping[str, str]:
            return {"mine": "qwen3:8b"}

    async def test(run: Running) -> None:
        await run.send("/connect")
        await at(run, "provider")
        await run.until(lambda: "Local servers: found 1" in painted(run))
        rows = run.app.screen.query_one(Finder).all_rows
        assert [row.id for row in rows] == ["anthropic", "mine", "llamacpp", "vllm", "azure"]

    drive(test, connect=ManyServers())


def test_unexpected_error_in_the_search_for_local_servers_is_reported() -> None:
    class Broken(ScriptedKeysService):
        async def local_models(self) -> Mapping[str, str]:
            raise RuntimeError("odd answer")

    async def test(run: Running) -> None:
        await run.send("/connect")
        await at(run, "provider")
        await run.until(lambda: "Internal error: RuntimeError: odd answer" in run.text)
        await run.pilot.pause()
        assert "Local servers: none found" in painted(run)
        await run.pilot.press("escape")
        await run.until(lambda: len(run.app.screen_stack) == 1)

    drive(test, connect=Broken())


def test_escape_clears_the_filter_of_providers_before_it_closes() -> None:
    async def test(run: Running) -> None:
        await run.send("/connect")
        screen_text = await at(run, "provider")
        await run.pilot.press(*"olla")
        await run.until(lambda: "Anthropic" not in painted(run) and "Esc clear" in painted(run))
        await run.pilot.press("escape")
        await run.until(lambda: "Anthropic" in painted(run) and "Esc close" in painted(run))
        assert run.app.screen is screen_text
        await run.pilot.press("escape")
        await run.until(lambda: run.app.screen is not screen_text)

    drive(test, connect=ScriptedKeysService())


def test_key_step_names_the_page_that_creates_keys() -> None:
    async def test(run: Running) -> None:
        await run.send("/connect anthropic")
        await at(run, "key")
        assert "API key for Anthropic" in painted(run)
        assert "Create a key at https://keys.example/new" in painted(run)
        await run.pilot.press("escape")
        await closed(run)
        await run.send("/connect openai")
        await at(run, "key")
        assert "Create a key" not in painted(run)

    drive(test, connect=ScriptedKeysService())


def test_local_search_without_an_answer_says_so() -> None:
    none = provider_row(ProviderChoice("vllm", group="local"), {})
    assert (none.group, none.label, none.detail) == ("Local servers: none found", "vllm", "")
    assert provider_row(ProviderChoice("vllm", group="local"), None).group == "Local servers: searching…"
