"""The cost of finding calls in text is linear for any text."""

from __future__ import annotations

import time

import pytest

from tests.providers.text_calls.scanning import filtered

pytestmark = pytest.mark.perf

UNITS = (
    *(
        "word ",
        "<tool_call>",
        "<tool_call> ",
        "<function=a>",
        "<function=a><parameter=b>",
        "</parameter> ",
        "`",
        "``` ",
    ),
    *("{", "[", "```json\n", "```json\n{\n```\n", "[TOOL_CALLS][", "<|python_tag|>{}; ", '<tool_call>{"a":"'),
    *("\n", " ", "<", "```json", '{"', '"a":'),
)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("begin", ["", "<function=write><parameter=content>", '<tool_call>{"a": "', "<tool_call>"])
def test_cost_of_text_calls_is_linear(unit: str, begin: str) -> None:
    def cost(size: int) -> float:
        text = begin + unit * (size // len(unit))
        begun = time.process_time()
        filtered([text[start : start + 7] for start in range(0, len(text), 7)])
        return time.process_time() - begun

    small = min(cost(4_000) for _ in range(2))
    assert cost(32_000) < 40 * small + 0.2
