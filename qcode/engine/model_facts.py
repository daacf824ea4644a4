"""Facts about a model on its host: facts from the catalog, and limits learned from the host's errors.

`learn_limit` reads a limit from the message of a refused request. A number counts only if it is at least 256, and the
message or its parameter is about the output cap or the context window. So no limit is learned from an unrelated error.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import Literal

from qcode.engine.caps import FirstCap
from qcode.protocol.model import ModelFacts
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class HostKnowledge:
    """Facts learned from a host."""

    output: int | None = None
    """The output limit in tokens, which overrides the catalog."""
    window: int | None = None
    """The context window in tokens, which overrides the catalog."""
    is_silently_capped: bool = False
    """The host truncates far below the requested cap, without an error."""
    refuses_prefill: bool = False
    """The host rejects a request that ends with an assistant message."""
    refuses_images: bool = False
    """The host rejects every image."""
    refuses_signatures: bool = False
    """The host rejects the signatures in this history. This is a fact about the history, not the model."""
    text_calls: str = ""
    """The format in which the host sends tool calls as text; empty if it never did."""
    text_calls_since: str = ""
    """The date of the first such call."""
    native_calls: int = 0
    """The number of native calls, counted up to 2."""
    first_cap: FirstCap | None = None
    """The output cap of a first attempt, learned from the lengths of earlier replies."""

    def with_fact(self, learn: Learn) -> HostKnowledge:
        """Return the knowledge with a fact added."""
        fact = learn.fact
        if isinstance(fact, LearnedLimit):
            return replace(self, output=fact.tokens) if fact.kind == "output" else replace(self, window=fact.tokens)
        match fact:
            case "silently_capped":
                return replace(self, is_silently_capped=True)
            case "refuses_prefill":
                return replace(self, refuses_prefill=True)
            case "refuses_images":
                return replace(self, refuses_images=True)
            case "refuses_signatures":
                return replace(self, refuses_signatures=True)


@dataclass(frozen=True, slots=True)
class KnownModel:
    """The facts about a model that the engine uses."""

    provider: str
    name: str
    facts: ModelFacts = field(default_factory=ModelFacts)
    host: HostKnowledge = field(default_factory=HostKnowledge)

    @property
    def title(self) -> str:
        """`provider/model`."""
        return f"{self.provider}/{self.name}"

    @property
    def output_limit(self) -> int | None:
        return self.host.output or self.facts.max_output_tokens

    @property
    def window(self) -> int | None:
        return self.host.window or self.facts.context_window

    @property
    def can_prefill(self) -> bool:
        return self.facts.can_prefill and not self.host.refuses_prefill

    @property
    def sees_images(self) -> bool:
        """Whether images may be sent. If it is unknown, they are sent, and the host's answer decides."""
        return self.facts.can_read_images is not False and not self.host.refuses_images

    def with_fact(self, learn: Learn) -> KnownModel:
        return replace(self, host=self.host.with_fact(learn))


MIN_LIMIT = 256
"""A smaller number in a message is not a limit in tokens, but for example a status code."""

_MAX_MESSAGE_CHARS = 4_000
"""How many characters of a message are searched."""
_MAX_PARAM_CHARS = 200
"""How many characters of the name of a parameter are searched."""
_NUMBER = r"`?(?<!\d)(\d{1,3}(?:[,_]\d{3})++|\d++)`?"
# All patterns are strings: `re` compiles a pattern at its first search, and most runs never see a refused request.
_OUTPUT_WORDS = (
    r"(?i)"
    r"max(?:imum)?[_ ]?(?:completion|output|new)?[_ ]?tokens|maxOutputTokens|completion tokens|output tokens"
    r"|generat\w{1,20} tokens"
)
_WINDOW_WORDS = (
    r"(?i)"
    r"context(?:[_ ](?:length|window|size|limit))|max_seq_len|max_model_len|max_total_tokens"
    r"|maximum context|n_ctx|(?:prompt|input) is too long|context limit|maximum prompt length|input token count"
    r"|input length|model token limit|inputs`? tokens \+|total (?:number of )?tokens"
)


@dataclass(frozen=True, slots=True)
class LearnedLimit:
    """A limit in tokens that a host named."""

    kind: Literal["output", "window"]
    """`output`: the largest output cap that the host accepts. `window`: the context window."""
    tokens: int
    prompt: int | None = None
    """The server's token count of the prompt, None if the message does not name it."""
    total: int | None = None
    """The server's token count of prompt and output cap together, None if the message does not name it."""


@dataclass(frozen=True, slots=True)
class _Wording:
    """One wording of a limit, as a pattern."""

    kind: Literal["output", "window", "either"]
    pattern: str
    group: int
    """The regex group of the limit."""
    prompt: int | None
    """The regex group of the prompt's size, None if the wording does not name it."""
    is_exclusive: bool
    """The limit is one less than the number ("less than 8192")."""


def _wording(
    kind: Literal["output", "window", "either"],
    pattern: str,
    group: int = 1,
    *,
    prompt: int | None = None,
    is_exclusive: bool = False,
) -> _Wording:
    """Return a pattern in which each `#` is a number and a group. For the other parameters see `_Wording`."""
    return _Wording(kind, f"(?i){pattern.replace('#', _NUMBER)}", group, prompt, is_exclusive)


_WORDINGS = (
    # "`max_tokens` must be <= ... : 64000 > 64001 - 24235": the difference is the free part; the window is 64001.
    _wording("window", r"# ?> ?# ?- ?#", 2, prompt=3),
    _wording("window", r"input length and `?max_tokens`? exceed context limit: # ?\+ ?# ?> ?#", 3, prompt=1),
    _wording("window", r"(?:prompt|input) is too long: # tokens > # maximum", 2, prompt=1),
    _wording("window", r"input token count \(#\) exceeds the maximum number of tokens allowed \(#\)", 2, prompt=1),
    _wording("window", r"contains # tokens\b.{0,60}? too large for model with # maximum context length", 2, prompt=1),
    _wording("window", r"`?inputs`? tokens \+ `?max_new_tokens`? must be (?:<=|less than or equal to) #"),
    _wording("window", r"model token limit: #"),
    _wording("window", r"range of input length should be [\[\(]\s*\d+\s*,\s*#\s*[\]\)]"),
    _wording("window", r"maximum prompt length is #"),
    _wording(
        "window", r"total (?:number of )?tokens\b.{0,60}?\b(?:exceeds?|must not exceed)(?: the)?(?: limit)?(?: of)? #"
    ),
    _wording("window", r"context (?:length|window|size) (?:of )?# (?:is |was )?exceeded"),
    _wording("window", r"max_total_tokens \(#\) must be (?:<=|less than or equal to) max_seq_len \(#\)", 2),
    _wording("window", r"(?:maximum )?context (?:length|window|size)(?: \w+){0,3}? (?:is|of|to|:) (?:only )?#"),
    _wording("window", r"max_(?:seq|model)_len(?:gth)?\s*(?:\(|=|of|is|:)\s*\(?#"),
    _wording("window", r"n_ctx\s*(?:\(|=|of|is|:)\s*\(?#"),
    _wording("window", r"context (?:size|window|length) \(#"),
    _wording("output", r"range (?:is|of|should be)?[^\[\(\d]{0,40}[\[\(]\s*\d+\s*,\s*#\s*[\]\)]"),
    _wording("output", r"# ?> ?#,? which is the maximum", 2),
    _wording("output", r"from \d+ \(inclusive\) to # \(exclusive\)", is_exclusive=True),
    _wording("output", r"between \d+ and #"),
    _wording("output", r"exceeds? (?:the )?(?:model|maximum|allowed|output)?(?: token)? ?(?:limit|maximum)(?: of)? #"),
    _wording("either", r"at most #"),
    _wording("either", r"(?:less than or equal to|no (?:more|greater|larger) than|cannot exceed|must not exceed|<=) #"),
    _wording("either", r"(?:maximum|max|limit)(?: \w+){0,5}? (?:is|of|to|:) #"),
    _wording("either", r"supports? (?:up to |a maximum of |only )#"),
    _wording("either", r"less than #", is_exclusive=True),
)
# A separate number in a message.
_DIGITS = r"(?<![\w.])" + _NUMBER + r"(?![\w.]*\d)"
# The size of the prompt.
_PROMPT_SIZE = (
    rf"(?i){_NUMBER} (?:tokens )?(?:in|from) (?:the|your) (?:messages|prompt|input)"
    rf"|(?:request|prompt|input) (?:has|contains|is) {_NUMBER} (?:input |prompt )?tokens"
    rf"|given: {_NUMBER} `?inputs`? tokens|^request \({_NUMBER} tokens\)"
)
# The size of prompt and output cap together.
_TOTAL_SIZE = (
    rf"(?i)requested (?:about |a total of )?{_NUMBER} tokens|max_total_tokens \({_NUMBER}\)|\(requested: {_NUMBER}\)"
)


def learn_limit(message: str, param: str | None = None, *, cap: int | None = None) -> LearnedLimit | None:
    """Return the limit that the message of a refused request states, or None if it states no reliable limit.

    A message that contains the requested output cap, `cap`, is about that cap, even if its words name another limit.
    """
    message = message[:_MAX_MESSAGE_CHARS]
    param = (param or "")[:_MAX_PARAM_CHARS]
    is_about_output = any(re.search(_OUTPUT_WORDS, text) for text in (message, param))
    is_about_output = is_about_output or cap in {_number(digits) for digits in re.findall(_DIGITS, message)}
    is_about_window = any(re.search(_WINDOW_WORDS, text) for text in (message, param))
    if not (is_about_output or is_about_window):
        return None
    for wording in _WORDINGS:
        match = re.search(wording.pattern, message)
        if match is None:
            continue
        if wording.kind == "output" and not is_about_output:
            continue
        tokens = _number(match.group(wording.group))
        if wording.is_exclusive:
            tokens -= 1
        if tokens < MIN_LIMIT:
            continue
        kind = wording.kind
        if kind == "either":
            kind = "output" if is_about_output else "window"
        if kind == "output":
            return LearnedLimit(kind, tokens)
        prompt = (
            _first_number(_PROMPT_SIZE, message) if wording.prompt is None else _number(match.group(wording.prompt))
        )
        return LearnedLimit(kind, tokens, prompt, _first_number(_TOTAL_SIZE, message))
    return None


def _first_number(pattern: str, message: str) -> int | None:
    match = re.search(pattern, message)
    return None if match is None else _number(next(digits for digits in match.groups() if digits))


def _number(digits: str) -> int:
    return int(re.sub(r"[,_]", "", digits))


@dataclass(frozen=True, slots=True)
class Learn:
    """Store a fact about this model on this host for later runs; `refuses_signatures` only for the current turn."""

    fact: LearnedLimit | Literal["silently_capped", "refuses_prefill", "refuses_images", "refuses_signatures"]
