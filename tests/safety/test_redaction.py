"""No key that was loaded, and none that looks like one, passes the redactor; a secret does not print."""

from __future__ import annotations

import json
import pickle
import re
import time
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qcode.safety.redaction import Redactor, is_secret
from qcode.safety.secret import REDACTED, Secret

# The patterns before they were made linear: they define the text to redact, and take minutes on hostile text.
_BACKTRACKING = (
    re.compile(
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
        r"|\bsk-(?:ant-|proj-|or-|svcacct-)?[A-Za-z0-9_-]{20,}"
        r"|\bhf_[A-Za-z0-9]{30,}|\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
        r"|\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    ),
    re.compile(r"(?P<name>\b[a-z][a-z0-9+.-]*://[^\s:/@]*:)[^\s/@]{3,}(?=@)", re.IGNORECASE),
)
_PARTS = (
    *("eyJ", "eyJabcdefgh", "abcdefgh", "-", "_", ".", ".eyJ", "://", ":", "@", "/", "a", "é", "1", "+", " ", "\n"),
    *(
        "-eyJ",
        "hf_",
        "a" * 30,
        "SG.",
        "a" * 16,
        "sk-",
        "-----BEGIN ",
        "PRIVATE KEY",
        "-----",
        "-----END ",
        "K",
        "https",
    ),
)

CANARY = 'canary "key" ü/1234'


def test_loaded_key_is_redacted_in_every_encoding() -> None:
    redactor = Redactor([Secret(CANARY), "plain-value-1"])
    text = (
        f"{CANARY} {json.dumps({'k': CANARY})} {json.dumps(CANARY, ensure_ascii=False)} {quote(CANARY)} plain-value-1"
    )
    redacted = redactor.redact(text)
    assert "1234" not in redacted
    assert "plain-value" not in redacted
    assert redacted.count(REDACTED) == 5


def test_longer_of_two_values_is_redacted_completely() -> None:
    assert Redactor(["secret-1", "secret-1-and-more"]).redact("x secret-1-and-more y") == f"x {REDACTED} y"


def test_short_value_does_not_redact_words() -> None:
    assert Redactor(["the", ""]).redact("the text") == "the text"


@pytest.mark.parametrize(
    "key",
    [
        "sk-" + "a1B2" * 8,
        "sk-ant-api03-" + "x_Y-" * 8,
        "sk-proj-" + "a1B2" * 8,
        "AIza" + "Sy0_" * 9,
        "ghp_" + "a1B2" * 9,
        "github_pat_" + "a1B2_" * 8,
        "glpat-" + "a1B2c3D4e5F6g7H8i9J0",
        "xoxb-" + "123456789012-abcdef",
        "AKIA" + "ABCDEFGH12345678",
        "hf_" + "aB" * 17,
        "gsk_" + "a1B2" * 13,
        "xai-" + "a1B2" * 20,
        "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----\ncut off",
    ],
)
def test_well_known_key_formats_are_redacted(key: str) -> None:
    assert Redactor().redact(f"before {key}") == f"before {REDACTED}"
    assert Redactor().redact(f"密钥{key}") == f"密钥{REDACTED}"


@pytest.mark.parametrize(
    "text",
    [
        "sk-" + "a1B2" * 8,
        " sk-ant-api03-" + "x_Y-" * 8 + "\n",
        "AIza" + "Sy0_" * 9,
        "gsk_" + "a1B2" * 13,
        "export OPENAI_API_KEY='sk-" + "a1B2" * 8 + "'",
    ],
)
def test_text_that_is_only_a_key_is_a_secret(text: str) -> None:
    assert is_secret(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[redacted]",
        "is sk-" + "a1B2" * 8 + " a valid key?",
        "sk-learn-or-another-machine-learning-library",
        "https://user:hunter22@host/x",
        "3f9c0b7e3f9c0b7e3f9c0b7e3f9c0b7e",
        "fix issue 12",
    ],
)
def test_ordinary_text_and_text_around_a_key_is_no_secret(text: str) -> None:
    assert not is_secret(text)


def test_redacted_headers_and_urls_keep_their_names() -> None:
    redactor = Redactor()
    assert redactor.redact("Authorization: Bearer abcdefgh1234") == f"Authorization: Bearer {REDACTED}"
    assert redactor.redact('"x-api-key": "abcdefgh1234"') == f'"x-api-key": "{REDACTED}"'
    assert redactor.redact("https://user:hunter22@host/x") == f"https://user:{REDACTED}@host/x"


@pytest.mark.parametrize(
    "text", ["task-list-of-things-to-do-today", "https://host:8080/path", "the bearer of news", "sk-1"]
)
def test_ordinary_text_is_not_redacted(text: str) -> None:
    assert Redactor().redact(text) == text


@given(st.text(max_size=60), st.lists(st.text(min_size=6, max_size=12), max_size=3))
def test_redaction_is_idempotent(text: str, values: list[str]) -> None:
    redactor = Redactor(value for value in values if value not in REDACTED)
    once = redactor.redact(text + "".join(values))
    assert redactor.redact(once) == once


@given(st.lists(st.sampled_from(_PARTS), max_size=14).map("".join))
@example("eyJabcdefgh-eyJabcdefgh.eyJabcdefgh-eyJabcdefgh.abcdefgh")
@example("x-eyJabcdefgh.eyJabcdefgh.eyJabcdefgh.abcdefgh")
@example("1a.b+c-é-d://user:abc:abc@b.c://:abc@host")
@example("_a://user:abc@host é1.K://user:abc@host")
def test_redaction_equals_that_of_the_backtracking_patterns(text: str) -> None:
    shapes, in_url = _BACKTRACKING
    expected = in_url.sub(rf"\g<name>{REDACTED}", shapes.sub(REDACTED, text))
    assert Redactor().redact(text) == expected


@pytest.mark.parametrize("pump", ["a.b-c.d", "-eyJ", "eyJabcdefgh.", "a.a://x:y"])
def test_redaction_of_a_long_hostile_text_takes_under_a_second(pump: str) -> None:
    started = time.process_time()
    Redactor().redact(pump * (100_000 // len(pump)))
    assert time.process_time() - started < 1


def test_secret_is_not_printed() -> None:
    secret = Secret("hunter22")
    assert "hunter22" not in f"{secret} {secret!r} {secret!s} {secret:>20} {[secret]} {vars}"
    assert secret.reveal() == "hunter22"
    assert secret == Secret("hunter22") != Secret("other")
    assert len({secret, Secret("hunter22")}) == 1
    assert not Secret("")
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        json.dumps({"key": secret})
