"""Pasted keys: surrounding text is removed, and an invalid key is refused without showing it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.agent.keys.pasted_key import owner_of_pasted_key, read_key
from qcode.providers.registry import PROVIDERS, custom_provider

KEY = "sk-canary-0123456789abcdef"
OPENAI = PROVIDERS["openai"]


@pytest.mark.parametrize(
    "pasted",
    [
        f"{KEY}",
        f"  {KEY}\t\r\n",
        f"\n\n{KEY}\nrest of the page\n",
        f'"{KEY}"',
        f"'{KEY}',",
        f"“{KEY}”",
        f"`{KEY}`",
        f"\ufeff{KEY}\u200b",
        f"\x1b[200~{KEY}\x1b[201~",
        f"[200~{KEY}[201~",
        f"OPENAI_API_KEY={KEY}",
        f"OPENAI_API_KEY = '{KEY}'  # mine",
        f'export OPENAI_API_KEY="{KEY}"',
        f"export OPENAI_API_KEY={KEY}; qcode",
        f"export  WORK_THING={KEY}",
        f"set OPENAI_API_KEY={KEY}",
        f"set -gx OPENAI_API_KEY {KEY}",
        f"setenv OPENAI_API_KEY {KEY}",
        f'$env:OPENAI_API_KEY = "{KEY}"',
        f'"api_key": "{KEY}",',
        f"api_key: {KEY}",
        f"Bearer {KEY}",
        f"Authorization: Bearer {KEY}",
        f"x-api-key: {KEY}",
    ],
)
def test_text_around_a_pasted_key_is_removed(pasted: str) -> None:
    assert read_key(pasted, OPENAI) == KEY


@pytest.mark.parametrize("key", ["YWJjZGVmZ2hpamtsbW5vcA==", "key-id:and-its-secret", "sometoken=", "a/b+c.d~e_f-1"])
def test_symbols_inside_a_key_are_kept(key: str) -> None:
    assert read_key(key, OPENAI) == key


@pytest.mark.parametrize(
    ("pasted", "part"),
    [
        ("", "no key"),
        (" \n\t ", "no key"),
        ('""', "no key"),
        ("sk-1", "too short"),
        ("https://platform.example/keys", "a URL"),
        ("$OPENAI_API_KEY", "name of a variable"),
        ("${OPENAI_API_KEY}", "name of a variable"),
        ("OPENAI_API_KEY", "name of a variable"),
        ("sk-canary...cdef", "hidden"),
        ("sk-canary-****cdef", "hidden"),
        ("********", "hidden"),
        ("<your key here>", "placeholder"),
        ("your-api-key-here", "placeholder"),
        ("sk-canary 0123456789", "characters"),
        ("sk-canary-0123\u20ac", "characters"),
        ("sk-canary\x07-0123", "characters"),
        ('{"type": "service_account"}', "file"),
        (f"export ANTHROPIC_API_KEY={KEY}", "variable of anthropic"),
        ("sk-ant-api03-0123456789", "key for anthropic"),
        ("AIzaSyA0123456789", "key for gemini"),
    ],
)
def test_invalid_key_is_refused_without_being_shown(pasted: str, part: str) -> None:
    with pytest.raises(ValueError, match=part) as raised:
        read_key(pasted, OPENAI)
    assert "\n" not in str(raised.value)
    assert "canary" not in str(raised.value)
    assert "0123456789" not in str(raised.value)


def test_custom_address_accepts_any_key_format() -> None:
    assert read_key("sk-ant-api03-0123456789", OPENAI, "https://gateway.example/v1") == "sk-ant-api03-0123456789"
    lab = custom_provider("lab", "openai", "https://lab.example/v1")
    assert read_key("AIzaSyA0123456789", lab) == "AIzaSyA0123456789"


def test_local_server_accepts_a_short_key() -> None:
    assert read_key("abc", PROVIDERS["vllm"]) == "abc"


def test_configured_provider_has_its_own_variable() -> None:
    lab = custom_provider("lab", "openai", "https://lab.example/v1", api_key_env="LAB_KEY")
    assert read_key(f"LAB_KEY={KEY}", lab) == KEY


@given(st.text(max_size=200))
def test_any_pasted_text_is_a_valid_key_or_refused(pasted: str) -> None:
    try:
        key = read_key(pasted, OPENAI)
    except ValueError:
        return
    assert key
    assert key.isascii()
    assert key.isprintable()
    assert " " not in key


@given(st.from_regex(r"[A-Za-z0-9_-]{20,60}", fullmatch=True), st.sampled_from(["{}", ' "{}"\n', "export X_KEY={}"]))
def test_plain_key_is_unchanged(key: str, form: str) -> None:
    try:
        assert read_key(form.format(key), OPENAI, "https://gateway.example/v1") == key
    except ValueError as refusal:
        assert any(word in str(refusal) for word in ("hidden", "placeholder"))


@pytest.mark.parametrize(
    ("pasted", "owner"),
    [
        ("sk-ant-api03-0123456789abcdef", "anthropic"),
        ("AIzaSyA0123456789abcdef", "gemini"),
        ("sk-or-v1-0123456789", "openrouter"),
        ("sk-proj-0123456789", "openai"),
        ('export GROQ_API_KEY="0123456789"', "groq"),
        (KEY, ""),
        ("OPENAI_API_KEY", None),
        ("hf_" + "a1" * 20, ""),
        ("0123456789abcdef0123456789abcdef", ""),
        ("sk-ant", None),
        ("together", None),
        ("monkey business", None),
        ("write a parser for the log of the 2nd server", None),
        ("internationalization-of-the-app", None),
    ],
)
def test_pasted_text_is_recognized_as_a_key_and_names_its_provider(pasted: str, owner: str | None) -> None:
    assert owner_of_pasted_key(pasted) == owner
