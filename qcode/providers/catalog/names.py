"""One model has many spellings: dates, `-latest`, vendor prefixes, Bedrock regions. Here they are brought to one.

Pure text. Only decorations are removed that hosts document as such; anything else stays part of the name, so that
`gpt-5-mini` never becomes `gpt-5`. Read `qcode.providers.catalog` next.
"""

from __future__ import annotations

import re

_SAME_HOST = {
    "openai-responses": "openai",
    "google": "gemini",
    "qwen": "dashscope",
    "kimi": "moonshot",
    "glm": "zai",
    "x-ai": "xai",
    "z-ai": "zai",
    "moonshotai": "moonshot",
    "mistralai": "mistral",
}
# Snapshots of these hosts have limits of their own, so a date or `-latest` says which model is meant.
_SNAPSHOTS_DIFFER = frozenset({"dashscope"})

_DATE = re.compile(r"[-@](?:20\d{6}|20\d{2}-\d{2}-\d{2})$|@default$")
_PREVIEW = re.compile(r"-preview(?:-\d{2}-(?:\d{2}|\d{4}))?$")
_BEDROCK_REGION = re.compile(r"^(us-gov|us|eu|apac|global|au|jp|in|ca|sa|me|af)\.(?=[a-z0-9]+\.)")
_BEDROCK_VERSION = re.compile(r"-v\d+(?::\d+)?$")
_BEDROCK_ARN = re.compile(r"^arn:aws[a-z-]*:bedrock:[^/]*:(?:foundation-model|inference-profile)/")


def canonical_provider(name: str) -> str:
    """Return the name under which the table knows a provider; a name it does not know comes back as it is."""
    lowered = name.strip().lower()
    return _SAME_HOST.get(lowered, lowered)


def exact_name(provider: str, model: str) -> str:
    """Return `model` as a host's own list would spell it: lower case, without a resource path around it."""
    name = model.strip().lower()
    if provider == "gemini":
        return name.removeprefix("models/")
    if provider == "bedrock":
        return _BEDROCK_ARN.sub("", name)
    return name


def plain_name(provider: str, model: str) -> str:
    """Return the name without date, `-latest`, `-preview` and Bedrock version; a Bedrock region stays."""
    name = exact_name(provider, model)
    if provider in _SNAPSHOTS_DIFFER:
        return name
    if provider == "bedrock":
        name = _BEDROCK_VERSION.sub("", name)
    if "claude" in name:
        vendor, separator, rest = name.rpartition("claude")
        name = vendor + separator + rest.replace(".", "-")
    while True:
        shorter = _PREVIEW.sub("", _DATE.sub("", name)).removesuffix("-latest")
        if shorter == name or not shorter:
            return name
        name = shorter


def without_region(model: str) -> str:
    """Return a Bedrock id without the prefix of a cross-region inference profile."""
    return _BEDROCK_REGION.sub("", model)
