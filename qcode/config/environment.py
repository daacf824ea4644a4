"""What the environment says: the model, endpoints, and an output cap. Keys are not read here.

Variables: QCODE_MODEL, OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GOOGLE_GEMINI_BASE_URL, QCODE_MAX_OUTPUT_TOKENS, and
QWEN_CODE_MAX_OUTPUT_TOKENS for people who come from there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from qcode.config.layers import KeyPath, Layer, Value, checked
from qcode.config.schema import find_key
from qcode.config.settings import Origin

CAP_VARIABLES = ("QCODE_MAX_OUTPUT_TOKENS", "QWEN_CODE_MAX_OUTPUT_TOKENS")

_VARIABLES: tuple[tuple[str, KeyPath], ...] = (
    ("QCODE_MODEL", ("model",)),
    ("OPENAI_BASE_URL", ("providers", "openai", "base_url")),
    ("OPENAI_BASE_URL", ("providers", "openai-responses", "base_url")),
    ("ANTHROPIC_BASE_URL", ("providers", "anthropic", "base_url")),
    ("GOOGLE_GEMINI_BASE_URL", ("providers", "gemini", "base_url")),
)
_DIGITS = re.compile(r"[0-9]{1,18}")


def environment_layer(env: Mapping[str, str]) -> Layer:
    """Return what the environment sets above files. A blank variable counts as not set."""
    layer = Layer()
    for variable, path in _VARIABLES:
        text = env.get(variable, "").strip()
        key = find_key(path)
        if text and key is not None:
            layer.values[path] = Value(checked(key, path, text, variable), Origin("env", variable))
    return layer


def cap_layer(env: Mapping[str, str]) -> tuple[Layer, tuple[str, ...]]:
    """Return the output cap of the environment, which stands below files, and warnings about bad values.

    Only a positive whole number in plain digits counts; a blank variable is passed over in silence, a bad one with a
    warning, and then the next one is asked.
    """
    layer = Layer()
    warnings = []
    for variable in CAP_VARIABLES:
        text = env.get(variable, "").strip()
        if not text:
            continue
        if _DIGITS.fullmatch(text) and int(text) > 0:
            layer.values[("output", "max_tokens")] = Value(int(text), Origin("env", variable))
            break
        warnings.append(f"{variable} is not a positive whole number and is ignored")
    return layer, tuple(warnings)
