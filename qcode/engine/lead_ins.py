"""How models introduce a continuation: "Continuing from where I left off:" and the like, in the languages they use.

A lead-in that names where the text stopped counts wherever the text goes on; a bare "Continued:" only as a line of its
own. A sentence of the text that merely speaks of going on is none.
"""

from __future__ import annotations

import re

MAX_LEAD_IN = 200

_POLITE = (
    r"(?:(?:sure(?: thing)?|okay|ok|certainly|of course|absolutely|understood|got it|right|no problem|yes)"
    r"\s*[,.!:—-]*\s+"
    r"|(?:i(?:'m| am)? |my )?(?:apologi[zs]e|apologies|sorry)\b[^\n.!:]{0,60}[.!:]\s+)*"
)
_SELF = r"(?:(?:i(?:'|’)ll|i will|let me|let(?:'|’)s|i(?:'|’)m|i am)\s+(?:now\s+|just\s+)?)?"
_VERB = r"(?:continu(?:ing|e|ed|ation)|resum(?:ing|e)|pick(?:ing)? up|carry(?:ing)? on)"
_STOPPED = (
    r"(?:\bwhere (?:i|we|you|it|the \w+|my \w+ \w+) (?:had |was |were |got )?"
    r"(?:left off|stopped|cut off|interrupted|ended|cut|truncated)"
    r"|\b(?:from|with) (?:my|the|our) (?:previous|last|earlier) (?:message|response|reply|output|answer|text)"
    r"|\bfrom the (?:exact )?(?:cut-?off(?: point)?|point of (?:interruption|truncation)|last (?:line|word|sentence)))"
)
_ENGLISH = (
    rf"(?:{_SELF}|here(?:'s|’s| is) (?:the|my) ){_VERB}\b[^\n:.]{{0,60}}?{_STOPPED}(?: (?:off|here|now|above|before))?"
)
# The same sentence in other languages: to go on, and from where.
_OTHERS = (
    r"(?:ich )?(?:fahre|mache|setze|schreibe|es geht|weiter)\b[^\n:.]{0,40}\b(?:wo|dort|da|an der stelle)\b"
    r"[^\n:.]{0,50}(?:aufgehört|stehen ?geblieben|abgebrochen|unterbrochen|geendet)"
    r"(?: (?:habe|hatte|bin|wurde|haben|hat))?",
    r"(?:je )?(?:continue|poursuis|reprends|reprenons|reprise|suite|continuons)\b[^\n:.]{0,40}\boù\b[^\n:.]{0,50}"
    r"(?:arrêtée?|interrompue?|laissée?|coupée?)",
    r"(?:continúo|continuo|continuando|continuamos|sigo|siguiendo|retomo|retomando|prosigo)\b[^\n:.]{0,30}"
    r"\b(?:donde|onde)\b[^\n:.]{0,20}\b(?:dejé|dejamos|quedé|quedamos|interrump\w+|cort\w+|par(?:ei|amos|ou))",
    r"(?:continuo|riprendo|proseguo|riprendiamo|continuando)\b[^\n:.]{0,20}\bda(?:l punto in cui| dove)\b[^\n:.]{0,30}"
    r"(?:interrott[oaie]|fermat[oaie]|lasciat[oaie])",
    r"(?:я )?(?:продолж|возобновля)\w+ (?:с того места|оттуда|с места)[^\n:.]{0,40}",
    r"(?:好的?[,,。!!\s]*)?(?:我(?:将|会|来)?)?(?:继续|接着|接)(?:从)?(?:上文|上面|前文|刚才|之前|上次|中断)"
    r"[^\n::。]{0,16}?",
    r"(?:好的?[,,。!!\s]*)?(?:我(?:将|会|来)?)?从(?:上次|刚才|之前|中断|断开)[^\n::。]{0,12}继续[^\n::。]{0,6}?",
    r"(?:中断した|前回の|先ほどの|途切れた)[^\n::。]{0,12}(?:続き|続け)[^\n::。]{0,8}?",
)
_END = r"[)\]]?[ \t]*(?:\.\.\.|[:.…:。—])[)\]]?[*_]*"
_WRAPPED = r"[*_(\[]*"
_OPENING = re.compile(_POLITE, re.IGNORECASE)
_PLAIN = re.compile(rf"{_WRAPPED}{_POLITE}(?:{_ENGLISH}|{'|'.join(_OTHERS)}){_END}", re.IGNORECASE)
_BARE = (
    r"(?:continuing|continued|cont(?:'|’)?d|continuation|resuming|picking up|carrying on"
    r"|fortsetzung|suite|continuación|continuação|continuazione|продолжение|继续|续|接上文|続き|계속)"
)
_LINE = re.compile(
    rf"{_WRAPPED}{_POLITE}(?:{_SELF}{_BARE}\s*(?:\.\.\.|[:…:])|here(?:'s|’s| is| are)?\s+the\s+"
    r"(?:continuation|rest|remainder|remaining \w+)(?: of [^\n:]{0,60})?:)[)\]]?[*_]*",
    re.IGNORECASE,
)
_ENCLOSED = re.compile(
    rf"[*_]*(?:\([*_]*(?:{_BARE}|{_ENGLISH})[*_.…:]*\)|\[[*_]*(?:{_BARE}|{_ENGLISH})[*_.…:]*\])[*_:]*", re.IGNORECASE
)
_STARTS = (
    "sure", "okay", "ok", "certainly", "of course", "absolutely", "understood", "got it", "right", "no problem", "yes",
    "i apolog", "my apolog", "apolog", "sorry", "i'm sorry", "i am sorry", "i'll ", "i’ll ", "i will ", "let me ",
    "let's ", "let’s ", "i'm ", "i’m ", "i am ", "here", "continu", "cont'd", "cont’d", "resum", "pick", "carry",
    "ich ", "fahre", "mache", "setze", "schreibe", "es geht", "weiter", "fortsetzung", "je ", "poursuis", "repr",
    "suite", "continú", "sigo", "siguiendo", "retom", "prosigo", "ripren", "proseguo", "я ", "продолж", "возобн",
    "好", "我", "继续", "接", "从", "续", "中断", "前回", "先ほど", "途切れ", "続き", "계속",
)  # fmt: skip


def lead_in(text: str) -> int:
    """Return the length of a lead-in at the start of `text`, white space before it included but none behind it."""
    start = len(text) - len(text.lstrip())
    plain = _PLAIN.match(text, start)
    if plain is not None:
        return plain.end()
    line, newline, _ = text[start:].partition("\n")
    line = line.rstrip()
    is_alone = bool(newline) and (_LINE.fullmatch(line) is not None or _ENCLOSED.fullmatch(line) is not None)
    return start + len(line) if is_alone else 0


def may_become_lead_in(text: str) -> bool:
    """Say whether `text`, the start of a continuation, may yet turn out to be a lead-in."""
    rest = text.lstrip().lstrip("*_([")
    opening = _OPENING.match(rest)
    rest = rest[opening.end() :].lower() if opening else rest.lower()
    if "\n" in rest or len(text) > MAX_LEAD_IN:
        return False
    return any(rest.startswith(start) or start.startswith(rest) for start in _STARTS)
