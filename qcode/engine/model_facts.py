"""Facts about a model on its host: those of the catalog, and limits learned from the host's errors.

`learn_limit` reads a limit from the message of a refused request. A number counts only if the message, or the
parameter that it names, is about the output cap or the context window, and only if it is at least 256. So an error
about something else teaches nothing.
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
    """Facts learned from a host. `output` and `window` are limits in tokens that override the catalog.

    `refuses_signatures`: the host rejects the signatures in this history. This is a fact about the history, not the
    model. `text_calls` is the form in which the host passes calls on as text, with the date when that was seen first;
    `native_calls` counts native ones, up to 2. `first_cap` is the output cap of a first attempt, learned from the
    lengths of earlier replies.
    """

    output: int | None = None
    window: int | None = None
    is_silently_capped: bool = False
    refuses_prefill: bool = False
    refuses_images: bool = False
    refuses_signatures: bool = False
    text_calls: str = ""
    text_calls_since: str = ""
    native_calls: int = 0
    first_cap: FirstCap | None = None

    def with_fact(self, learn: Learn) -> HostKnowledge:
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
        return self.facts.prefill and not self.host.refuses_prefill

    @property
    def sees_images(self) -> bool:
        """Whether images may be sent. If it is unknown, they are sent, and the host's answer decides."""
        return self.facts.images is not False and not self.host.refuses_images

    def with_learner(self, learn: Learn) -> KnownModel:
        return replace(self, host=self.host.with_fact(learn))


MIN_LIMIT = 256

_MAX_MESSAGE = 4_000
_MAX_PARAM = 200
_NUMBER = r"`?(?<!\d)(\d{1,3}(?:[,_]\d{3})++|\d++)`?"
# All of these are texts: the search that first needs one compiles it, and few runs meet a refusal.
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
    """A limit in tokens: the largest output cap that the host accepts, or its whole context window.

    `prompt` is the server's token count of the prompt, `total` its count of prompt and output cap together; None if the
    message does not name them.
    """

    kind: Literal["output", "window"]
    tokens: int
    prompt: int | None = None
    total: int | None = None


@dataclass(frozen=True, slots=True)
class _Form:
    """A pattern for one wording of a limit.

    `group` is the regex group of the limit, `prompt` the group of the prompt's size. `is_exclusive`: the number itself
    is already too large ("less than 8192").
    """

    kind: Literal["output", "window", "either"]
    pattern: str
    group: int
    prompt: int | None
    is_exclusive: bool


def _form(
    kind: Literal["output", "window", "either"],
    pattern: str,
    group: int = 1,
    *,
    prompt: int | None = None,
    is_exclusive: bool = False,
) -> _Form:
    return _Form(kind, f"(?i){pattern.replace('#', _NUMBER)}", group, prompt, is_exclusive)


_FORMS = (
    # "`max_tokens` must be <= ... : 64000 > 64001 - 24235": what is left of the window; the window is the minuend.
    _form("window", r"# ?> ?# ?- ?#", 2, prompt=3),
    _form("window", r"input length and `?max_tokens`? exceed context limit: # ?\+ ?# ?> ?#", 3, prompt=1),
    _form("window", r"(?:prompt|input) is too long: # tokens > # maximum", 2, prompt=1),
    _form("window", r"input token count \(#\) exceeds the maximum number of tokens allowed \(#\)", 2, prompt=1),
    _form("window", r"contains # tokens\b.{0,60}? too large for model with # maximum context length", 2, prompt=1),
    _form("window", r"`?inputs`? tokens \+ `?max_new_tokens`? must be (?:<=|less than or equal to) #"),
    _form("window", r"model token limit: #"),
    _form("window", r"range of input length should be [\[\(]\s*\d+\s*,\s*#\s*[\]\)]"),
    _form("window", r"maximum prompt length is #"),
    _form(
        "window", r"total (?:number of )?tokens\b.{0,60}?\b(?:exceeds?|must not exceed)(?: the)?(?: limit)?(?: of)? #"
    ),
    _form("window", r"context (?:length|window|size) (?:of )?# (?:is |was )?exceeded"),
    _form("window", r"max_total_tokens \(#\) must be (?:<=|less than or equal to) max_seq_len \(#\)", 2),
    _form("window", r"(?:maximum )?context (?:length|window|size)(?: \w+){0,3}? (?:is|of|to|:) (?:only )?#"),
    _form("window", r"max_(?:seq|model)_len(?:gth)?\s*(?:\(|=|of|is|:)\s*\(?#"),
    _form("window", r"n_ctx\s*(?:\(|=|of|is|:)\s*\(?#"),
    _form("window", r"context (?:size|window|length) \(#"),
    _form("output", r"range (?:is|of|should be)?[^\[\(\d]{0,40}[\[\(]\s*\d+\s*,\s*#\s*[\]\)]"),
    _form("output", r"# ?> ?#,? which is the maximum", 2),
    _form("output", r"from \d+ \(inclusive\) to # \(exclusive\)", is_exclusive=True),
    _form("output", r"between \d+ and #"),
    _form("output", r"exceeds? (?:the )?(?:model|maximum|allowed|output)?(?: token)? ?(?:limit|maximum)(?: of)? #"),
    _form("either", r"at most #"),
    _form("either", r"(?:less than or equal to|no (?:more|greater|larger) than|cannot exceed|must not exceed|<=) #"),
    _form("either", r"(?:maximum|max|limit)(?: \w+){0,5}? (?:is|of|to|:) #"),
    _form("either", r"supports? (?:up to |a maximum of |only )#"),
    _form("either", r"less than #", is_exclusive=True),
)
_DIGITS = r"(?<![\w.])" + _NUMBER + r"(?![\w.]*\d)"
_PROMPT = (
    rf"(?i){_NUMBER} (?:tokens )?(?:in|from) (?:the|your) (?:messages|prompt|input)"
    rf"|(?:request|prompt|input) (?:has|contains|is) {_NUMBER} (?:input |prompt )?tokens"
    rf"|given: {_NUMBER} `?inputs`? tokens|^request \({_NUMBER} tokens\)"
)
_TOTAL = (
    rf"(?i)requested (?:about |a total of )?{_NUMBER} tokens|max_total_tokens \({_NUMBER}\)|\(requested: {_NUMBER}\)"
)


def learn_limit(message: str, param: str | None = None, *, cap: int | None = None) -> LearnedLimit | None:
    """Return the limit that a refusal names, or None if it names none that can be trusted.

    A message that contains the requested output cap, `cap`, is about that cap, whatever its wording.
    """
    message, param = message[:_MAX_MESSAGE], (param or "")[:_MAX_PARAM]
    speaks_of_output = any(re.search(_OUTPUT_WORDS, text) for text in (message, param))
    speaks_of_output = speaks_of_output or cap in {_number(digits) for digits in re.findall(_DIGITS, message)}
    speaks_of_window = any(re.search(_WINDOW_WORDS, text) for text in (message, param))
    if not (speaks_of_output or speaks_of_window):
        return None
    for form in _FORMS:
        found = re.search(form.pattern, message)
        if found is None:
            continue
        if form.kind == "output" and not speaks_of_output:
            continue
        tokens = _number(found.group(form.group)) - form.is_exclusive
        if tokens < MIN_LIMIT:
            continue
        kind = form.kind
        if kind == "either":
            kind = "output" if speaks_of_output else "window"
        if kind == "output":
            return LearnedLimit(kind, tokens)
        prompt = _first_number(_PROMPT, message) if form.prompt is None else _number(found.group(form.prompt))
        return LearnedLimit(kind, tokens, prompt, _first_number(_TOTAL, message))
    return None


def _first_number(pattern: str, message: str) -> int | None:
    found = re.search(pattern, message)
    return None if found is None else _number(next(digits for digits in found.groups() if digits))


def _number(digits: str) -> int:
    return int(re.sub(r"[,_]", "", digits))


@dataclass(frozen=True, slots=True)
class Learn:
    """Remember a fact about this model on this host across runs; `refuses_signatures` only for the current turn."""

    fact: LearnedLimit | Literal["silently_capped", "refuses_prefill", "refuses_images", "refuses_signatures"]
