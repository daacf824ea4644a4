"""The page about hosts says what the registry says."""

from __future__ import annotations

import re
from pathlib import Path

from qcode.providers.local import SMALL_WINDOW
from qcode.providers.registry import PROVIDERS

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "providers.md").read_text("utf-8")
ROW = re.compile(r"^\| `([\w-]+)/…` \| ([\w-]+) \| (.*?) \| (.*?) \|$", re.MULTILINE)


def words_in(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))


def test_the_table_of_hosts_is_the_registry() -> None:
    rows = {name: (protocol, words_in(address), words_in(key)) for name, protocol, address, key in ROW.findall(PAGE)}
    assert rows == {
        spec.name: (
            spec.protocol,
            (*((spec.base_url,) if spec.base_url else ()), *spec.base_url_variables),
            spec.key_variables,
        )
        for spec in PROVIDERS.values()
        if spec.protocol != "demo"
    }


def test_a_key_that_is_not_needed_is_said_to_be_optional() -> None:
    optional = {name for name, _, _, key in ROW.findall(PAGE) if "optional" in key}
    assert optional == {spec.name for spec in PROVIDERS.values() if not spec.needs_key} - {"demo", "bedrock"}


def test_the_page_names_the_window_that_is_warned_about() -> None:
    assert f"Below {SMALL_WINDOW:,} tokens" in PAGE
