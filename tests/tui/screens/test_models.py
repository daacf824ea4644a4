"""Choosing a model and an effort."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from qcode.agent.models.offered import OfferedModel, OfferedProvider
from qcode.config.saved_choices import Choices
from qcode.protocol.model import ModelFacts
from qcode.tui.panels.picker_list import PickerList
from qcode.tui.screens.connect import ConnectScreen
from qcode.tui.screens.models import ModelPicker, facts_text
from tests.tui.harness import Running, drive
from tests.tui.scripted import Gate, ScriptedConversation, ended
from tests.tui.scripted_keys import ScriptedKeysService
from tests.tui.scripted_models import ANTHROPIC, DEMO, FULL, ScriptedModelsService

SONNET = "anthropic/claude-sonnet-4-5"


async def opened(run: Running) -> ModelPicker:
    await run.send("/model")
    await run.until(lambda: isinstance(run.app.screen, ModelPicker))
    await run.pilot.pause()
    screen = run.app.screen
    assert isinstance(screen, ModelPicker)
    return screen


async def closed(run: Running) -> None:
    await run.until(lambda: len(run.app.screen_stack) == 1)
    await run.pilot.pause()


def painted(run: Running) -> str:
    return "\n".join("".join(segment.text for segment in strip) for strip in run.app.screen._compositor.render_strips())


def test_current_model_is_highlighted_and_enter_switches_to_another() -> None:
    offering = ScriptedModelsService(*FULL)

    async def test(run: Running) -> None:
        picker = await opened(run)
        assert picker.row is not None
        assert (picker.row.id, picker.row.is_current) == ("demo/scripted", True)
        await run.pilot.press(*"sonnet", "enter")
        await closed(run)
        assert run.conversation.model == SONNET
        assert offering.saved_models == [SONNET]
        assert "Model: anthropic/claude-sonnet-4-5." in run.text
        assert "claude-sonnet-4-5" in run.status

    drive(test, models=offering)


def test_notice_names_the_next_turn_only_while_a_turn_runs() -> None:
    gate = Gate()

    async def test(run: Running) -> None:
        await run.send("/model demo/other")
        await run.send("/effort low")
        assert "next turn" not in run.text
        await run.send("go")
        await gate.reached.wait()
        await run.send(f"/model {SONNET}")
        await run.send("/effort high")
        assert f"Model: {SONNET}, from the next turn." in run.text
        assert "Effort: high, from the next turn." in run.text

    conversation = ScriptedConversation([gate, ended()])
    conversation.thinking_models = ("demo/other", SONNET)
    drive(test, conversation, models=ScriptedModelsService(*FULL))


def test_filter_finds_a_provider_without_a_key_by_the_models_it_has() -> None:
    offered = (DEMO, OfferedProvider("anthropic", is_ready=False), OfferedProvider("groq", is_ready=False))

    async def test(run: Running) -> None:
        picker = await opened(run)
        await run.pilot.press(*"claude")
        await run.until(lambda: "/connect groq" not in painted(run))
        assert picker.row is not None
        assert picker.row.id == "/connect anthropic"

    drive(test, models=ScriptedModelsService(*offered))


def test_rows_show_context_output_price_and_abilities() -> None:
    async def test(run: Running) -> None:
        await opened(run)
        screen_text = painted(run)
        line = next(line for line in screen_text.split("\n") if "claude-sonnet-4-5" in line)
        assert line.split()[-6:] == ["200k", "64k", "3", "15", "think", "img"]
        assert "anthropic · ANTHROPIC_API_KEY is set" in screen_text

    drive(test, models=ScriptedModelsService(*FULL), size=(80, 40))


def test_forty_columns_keep_the_context_and_show_the_other_facts_below() -> None:
    async def test(run: Running) -> None:
        await opened(run)
        await run.pilot.press(*"sonnet")
        await run.pilot.pause()
        text = " ".join(painted(run).replace("▌", " ").split())
        assert "200k" in text
        assert "$3 in, $15 out per million tokens" in text
        assert "accepts images" in text

    drive(test, models=ScriptedModelsService(*FULL), size=(40, 24))


@pytest.mark.parametrize(("width", "has_titles"), [(80, True), (24, False)])
def test_row_of_column_titles_is_left_out_if_no_column_fits(width: int, has_titles: bool) -> None:
    async def test(run: Running) -> None:
        picker = await opened(run)
        rows = picker.finder.query_one(PickerList).render().plain.split("\n")
        assert ("context" in rows[0]) is has_titles
        assert rows[0].strip()

    drive(test, models=ScriptedModelsService(*FULL), size=(width, 24))


def test_sixty_columns_show_the_date_of_a_model_and_drop_other_columns_instead() -> None:
    name = "claude-sonnet-4-5-20250929"
    facts = ModelFacts(context_window=200_000, max_output_tokens=64_000, can_think=True, can_read_images=True)
    dated = OfferedProvider("anthropic", models=(OfferedModel(name, facts),))

    async def test(run: Running) -> None:
        await opened(run)
        assert re.search(rf"{name} +200k", painted(run))

    drive(test, models=ScriptedModelsService(DEMO, dated), size=(60, 20))


def test_title_counts_models_but_not_providers_to_connect() -> None:
    async def test(run: Running) -> None:
        picker = await opened(run)
        assert [row.id for row in picker.rows if row.is_dim] == ["/connect groq"]
        assert "Model  4 " in painted(run)
        await run.pilot.press(*"sonnet")
        await run.pilot.pause()
        assert "Model  1 of 4 " in painted(run)

    drive(test, models=ScriptedModelsService(*FULL), size=(80, 40))


def test_models_of_unknown_hosts_are_requested_and_added() -> None:
    offering = ScriptedModelsService(*FULL)

    async def test(run: Running) -> None:
        picker = await opened(run)
        assert offering.queried_providers == ["openrouter"]
        assert "loading openrouter" in painted(run)
        before = picker.row
        offering.answered.set()
        await run.until(lambda: any(row.id.startswith("openrouter/") for row in picker.rows))
        await run.pilot.pause()
        assert "asking" not in painted(run)
        assert picker.row is not None
        assert before is not None
        assert picker.row.id == before.id
        await run.pilot.press(*"coder", "enter")
        await closed(run)
        assert run.conversation.model == "openrouter/qwen/[b]coder"

    drive(test, models=offering)


def test_unexpected_error_while_models_load_is_reported() -> None:
    class Broken(ScriptedModelsService):
        async def list_host_models(self, provider: str) -> tuple[OfferedModel, ...]:
            raise RuntimeError("odd answer")

    async def test(run: Running) -> None:
        await opened(run)
        await run.until(lambda: "Internal error: RuntimeError: odd answer" in run.text)
        await run.pilot.pause()
        assert "loading" not in painted(run)
        await run.pilot.press("escape")
        await closed(run)

    drive(test, models=Broken(*FULL))


def test_unlisted_model_name_can_be_typed() -> None:
    async def test(run: Running) -> None:
        await opened(run)
        await run.pilot.press(*"openrouter/foo/bar", "enter")
        await closed(run)
        assert run.conversation.model == "openrouter/foo/bar"

    drive(test, models=ScriptedModelsService(*FULL))


def test_name_of_an_unknown_provider_matches_nothing_and_enter_does_nothing() -> None:
    async def test(run: Running) -> None:
        await opened(run)
        await run.pilot.press(*"nope/zzz", "enter")
        await run.pilot.pause()
        assert "PROVIDER/MODEL" in painted(run)
        assert run.conversation.model == "demo/scripted"

    drive(test, models=ScriptedModelsService(*FULL))


def test_provider_without_a_key_opens_the_key_entry() -> None:
    async def test(run: Running) -> None:
        picker = await opened(run)
        await run.pilot.press("end")
        assert picker.row is not None
        assert (picker.row.label, picker.row.is_dim) == ("/connect groq", True)
        await run.pilot.press("home", *"groq", "enter")
        await run.until(lambda: isinstance(run.app.screen, ConnectScreen) or "Unknown provider" in run.text)
        assert 'Unknown provider "groq"' in run.text  # the scripted providers have no such name

    drive(test, models=ScriptedModelsService(*FULL), connect=ScriptedKeysService())


def test_left_and_right_change_the_effort_and_enter_on_the_same_model_saves_it() -> None:
    offering = ScriptedModelsService(ANTHROPIC, DEMO)
    conversation = ScriptedConversation(model=SONNET)
    conversation.thinking_models = (SONNET,)

    async def test(run: Running) -> None:
        picker = await opened(run)
        await run.pilot.press("right", "right", "right", "right", "left", "right")
        assert picker.effort == "medium"
        assert "‹ medium ›" in painted(run)
        await run.pilot.press("enter")
        await closed(run)
        assert conversation.effort == "medium"
        assert (offering.effort, offering.saved_models) == ("medium", [])
        assert "medium" in run.status
        await opened(run)
        await run.pilot.press("right", "escape")
        await closed(run)
        assert conversation.effort == "medium"

    drive(test, conversation, models=offering)


def test_effort_none_is_named_in_the_status_line() -> None:
    conversation = ScriptedConversation()
    conversation.thinking_models = (SONNET,)

    async def test(run: Running) -> None:
        await opened(run)
        await run.pilot.press(*"sonnet", "right", "enter")
        await closed(run)
        assert conversation.effort == "none"
        assert "claude-sonnet-4-5  effort none" in run.status

    drive(test, conversation, models=ScriptedModelsService(*FULL), size=(120, 30))


@pytest.mark.parametrize(("key", "times", "effort"), [("left", 3, None), ("right", 12, "max")])
def test_effort_stops_at_both_ends(key: str, times: int, effort: str | None) -> None:
    async def test(run: Running) -> None:
        picker = await opened(run)
        await run.pilot.press(*[key] * times)
        assert picker.effort == effort

    drive(test, models=ScriptedModelsService(*FULL))


def test_effort_applies_only_to_models_that_think() -> None:
    conversation = ScriptedConversation(model=SONNET)
    conversation.thinking_models = (SONNET,)

    async def test(run: Running) -> None:
        seen = [conversation.effort]
        for command in ("/model demo/other", f"/model {SONNET}", "/effort low"):
            await run.send(command)
            seen.append(conversation.effort)
        assert seen == ["high", None, "high", "low"]
        assert "Effort high is not sent" in run.text

    drive(test, conversation, models=ScriptedModelsService(*FULL, effort="high"))


def test_effort_is_shown_only_for_models_that_think() -> None:
    async def test(run: Running) -> None:
        run.app.widgets.status.change(context_tokens=50_000, context_window=200_000)
        await run.send("/effort high")
        assert run.conversation.effort == "high"
        assert "context 25%" in run.status
        assert "high" not in run.status
        assert "the provider may reject it" in " ".join(run.text.split())

    drive(test, models=ScriptedModelsService(*FULL))


def test_effort_without_a_value_opens_a_list_and_a_wrong_value_names_the_nearest() -> None:
    offering = ScriptedModelsService(*FULL, effort="high")

    async def test(run: Running) -> None:
        await run.send("/effort hihg")
        assert "Did you mean high?" in run.text
        await run.type_over("/effort")
        await run.until(lambda: len(run.app.screen_stack) == 2)
        await run.pilot.press("down", "enter")
        await closed(run)
        assert offering.effort == "max"
        await run.send("/effort auto")
        assert offering.effort is None

    drive(test, models=offering)


def test_effort_for_a_model_that_does_not_think_is_kept_and_not_sent() -> None:
    offering = ScriptedModelsService(*FULL)

    async def test(run: Running) -> None:
        await opened(run)
        await run.pilot.press("right", "right", *"haiku")
        await run.pilot.pause()
        assert "not sent" in painted(run)
        await run.pilot.press("enter")
        await closed(run)
        assert (run.conversation.effort, offering.effort) == (None, "minimal")
        assert run.text.count("Effort") + run.text.count("effort") == 1
        await opened(run)
        await run.pilot.press("right", "enter")
        await closed(run)
        assert (run.conversation.effort, offering.effort) == (None, "low")
        assert "for models known to support reasoning" in " ".join(run.text.split())

    drive(test, models=offering)


def test_model_choice_names_the_setting_that_overrides_it_at_the_next_start() -> None:
    async def test(run: Running) -> None:
        await run.send("/model demo/other")
        assert "The next start uses openai/x again" in run.text

    drive(
        test,
        models=ScriptedModelsService(
            *FULL, override_note="The next start uses openai/x again, because a.toml:1 sets it."
        ),
    )


def test_unlisted_current_model_is_still_marked() -> None:
    async def test(run: Running) -> None:
        picker = await opened(run)
        assert [row.id for row in picker.rows if row.is_current] == ["openrouter/a/b"]

    drive(test, ScriptedConversation(model="openrouter/a/b"), models=ScriptedModelsService(*FULL))


def test_long_list_begins_with_recent_and_recommended_models() -> None:
    many = tuple(OfferedModel(f"m{number}", ModelFacts()) for number in range(12))
    offering = ScriptedModelsService(OfferedProvider("a", models=many), OfferedProvider("b", models=many[:3]))
    offering.recent_names = ("b/m2", "gone/model", "a/m0")

    async def test(run: Running) -> None:
        picker = await opened(run)
        listed = [(row.group, row.label) for row in picker.rows if row.id != run.conversation.model]
        assert listed[:3] == [("recent", "b/m2"), ("recent", "a/m0"), ("recommended", "b/m0")]
        assert listed[3] == ("a", "m1")
        assert len({row.id for row in picker.rows}) == len(picker.rows)
        await run.pilot.press(*"b/m2", "enter")
        await closed(run)
        assert run.conversation.model == "b/m2"

    drive(test, models=offering)


def test_models_chosen_last_are_remembered(tmp_path: Path) -> None:
    choices = Choices(tmp_path)
    for name in ("a/1", "a/2", "a/1", "a/3", "a/4", "a/5", "a/6"):
        choices.save_model(name)
    assert choices.recent_models == ("a/6", "a/5", "a/4", "a/3", "a/1")


def test_damaged_list_of_chosen_models_is_empty(tmp_path: Path) -> None:
    choices = Choices(tmp_path)
    assert choices.recent_models == ()
    choices.save_theme("dark")
    choices.path.write_text('{"models": "x", "model": 3}')
    assert choices.recent_models == ()


def test_unknown_model_facts_are_omitted() -> None:
    assert facts_text(ModelFacts()) == "Limits and price unknown."
    assert facts_text(ModelFacts(can_read_images=False, context_window=8_000)) == "context 8,000 · no images"
