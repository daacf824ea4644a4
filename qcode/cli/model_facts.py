"""What is known of a model and what was set for it, in the words of the engine."""

from __future__ import annotations

from qcode.config.settings import ModelSettings, Output
from qcode.engine.caps import OutputSettings
from qcode.protocol.model import ModelFacts


def output_settings(output: Output, override: int | None) -> OutputSettings:
    """Return the settings of the configuration in the words of the engine."""
    return OutputSettings(
        override=override,
        can_escalate=output.escalate,
        max_continuations=output.max_continuations,
        policy=output.policy,
        tool_call_repair=output.tool_call_repair,
        max_tool_repair_attempts=output.max_tool_repair_attempts,
        max_total_completion_tokens=output.max_total_completion_tokens,
        max_total_output_chars=output.max_total_output_chars,
        min_escalation_gain=output.min_escalation_gain,
    )


def facts_of(provider: str, model: str, given: ModelSettings | None) -> ModelFacts:
    """Return what is known of a model: the catalog's facts with the configuration's on top."""
    if provider == "demo":
        from qcode.providers.demo import DEMO_FACTS

        facts = DEMO_FACTS
    else:
        from qcode.providers import catalog

        facts = catalog.lookup(provider, model) or ModelFacts()
    if given is None:
        return facts
    return ModelFacts(
        context_window=given.context_window or facts.context_window,
        max_output_tokens=given.max_output_tokens or facts.max_output_tokens,
        price=given.price or facts.price,
        prefill=_or(given.prefill, facts.prefill),
        images=facts.images if given.images is None else given.images,
        thinking=_or(given.thinking, facts.thinking),
        inline_thinking=_or(given.inline_thinking, facts.inline_thinking),
        text_tool_calls=_or(given.text_tool_calls, facts.text_tool_calls),
        web_search=facts.web_search if given.web_search is None else given.web_search,
    )


def _or(given: bool | None, known: bool) -> bool:
    return known if given is None else given
