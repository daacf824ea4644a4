"""Detection of a lead-in at the start of a continuation, such as "Continuing from where I left off:".

A lead-in in one of several languages counts if it refers to the end of the text. A bare "Continued:" counts only if it
is a whole line. `seam` removes what is found here.
"""

from __future__ import annotations

import re

MAX_LEAD_IN = 200
"""A longer text, in characters, is no longer held back as the start of a lead-in."""
_MAX_SEARCHED = 1_000
"""The number of characters after leading blanks that are searched for a lead-in."""

# The elements of a lead-in, each after a comment with examples. `Sure, `, `Here is the rest. `, `Sorry about that. `:
_POLITE = (
    r"(?:(?:sure(?: thing)?|okay|ok|certainly|of course|absolutely|understood|got it|right|no problem|yes)"
    # Atomic group: otherwise the blanks of `sure  sure  sure` are divided between two repetitions in 2^n ways.
    r"(?>\s*+[,.!:—-]++\s++|\s++)"
    r"|here(?:'s|’s| is) the (?:rest|continuation|remainder)[^\n.!:]{0,40}[.!]\s++"
    r"|(?:i(?:'m| am)? |my )?(?:apologi[zs]e|apologies|sorry)\b[^\n.!:]{0,60}[.!:]\s++)*+"
)
# `I'll now `:
_SELF = r"(?:(?:i(?:'|’)ll|i will|let me|let(?:'|’)s|i(?:'|’)m|i am)\s+(?:now\s+|just\s+)?)?"
_VERB = r"(?:continu(?:ing|e|ed|ation)|resum(?:ing|e)|pick(?:ing)? up|carry(?:ing)? on)"
# `where I left off`, `from my previous message`:
_STOPPED = (
    r"(?:\bwhere (?:i|we|you|it|the \w+|my \w+ \w+) (?:had |was |were |got )?"
    r"(?:left off|stopped|cut off|interrupted|ended|cut|truncated)"
    r"|\b(?:from|with) (?:my|the|our) (?:previous|last|earlier) (?:message|response|reply|output|answer|text)"
    r"|\bfrom the (?:exact )?(?:cut-?off(?: point)?|point of (?:interruption|truncation)|last (?:line|word|sentence)))"
)
# `I'll continue exactly where I left off`:
_ENGLISH = (
    rf"(?:{_SELF}|here(?:'s|’s| is) (?:the|my) ){_VERB}\b[^\n:.]{{0,60}}?{_STOPPED}(?: (?:off|here|now|above|before))?"
)
# The same in other languages:
_OTHER_LANGUAGES = (
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
# The end of a lead-in and the brackets around it: `...`, `:**`.
_LEAD_IN_END = r"[)\]]?[ \t]*(?:\.\.\.|[:.…:。—])[)\]]?[*_]*"
_LEAD_IN_START = r"[*_(\[]*"
# These patterns are strings, which the first continuation compiles. Compiling them at import would take 7 ms.
_POLITE_OPENING = rf"(?i){_POLITE}"
# A lead-in that refers to the end of the text; the text may follow on the same line.
_LEAD_IN = rf"(?i){_LEAD_IN_START}{_POLITE}(?:{_ENGLISH}|{'|'.join(_OTHER_LANGUAGES)}){_LEAD_IN_END}"
# Words that are a lead-in only if they are the whole line.
_BARE = (
    r"(?:continuing|continued|cont(?:'|’)?d|continuation|resuming|picking up|carrying on"
    r"|fortsetzung|suite|continuación|continuação|continuazione|продолжение|继续|续|接上文|続き|계속)"
)
_LEAD_IN_LINE = (
    rf"(?i){_LEAD_IN_START}{_POLITE}(?:{_SELF}{_BARE}\s*(?:\.\.\.|[:…:])|here(?:'s|’s| is| are)?\s+the\s+"
    r"(?:continuation|rest|remainder|remaining \w+)(?: of [^\n:]{0,60})?:"
    r"|(?:continuing|resuming) (?:the|my) (?:previous |last )?(?:response|reply|answer|output|message):"
    r"|(?:continuing|resuming) (?:exactly )?(?:from|after) [\"'`“‘][^\n]{1,80}[\"'`”’]:)[)\]]?[*_]*"
)
# `*(continued)*`:
_BRACKETED_LINE = rf"(?i)[*_]*(?:\([*_]*(?:{_BARE}|{_ENGLISH})[*_.…:]*\)|\[[*_]*(?:{_BARE}|{_ENGLISH})[*_.…:]*\])[*_:]*"
# The first letters of every lead-in after its polite opening, to decide whether to wait for more text.
_FIRST_LETTERS = (
    "sure", "okay", "ok", "certainly", "of course", "absolutely", "understood", "got it", "right", "no problem", "yes",
    "i apolog", "my apolog", "apolog", "sorry", "i'm sorry", "i am sorry", "i'll ", "i’ll ", "i will ", "let me ",
    "let's ", "let’s ", "i'm ", "i’m ", "i am ", "here", "continu", "cont'd", "cont’d", "resum", "pick", "carry",
    "ich ", "fahre", "mache", "setze", "schreibe", "es geht", "weiter", "fortsetzung", "je ", "poursuis", "repr",
    "suite", "continú", "sigo", "siguiendo", "retom", "prosigo", "ripren", "proseguo", "я ", "продолж", "возобн",
    "好", "我", "继续", "接", "从", "续", "中断", "前回", "先ほど", "途切れ", "続き", "계속",
)  # fmt: skip


def lead_in_length(text: str) -> int:
    """Return the length of a lead-in at the start of `text`, including the white space before it; otherwise 0."""
    start = len(text) - len(text.lstrip())
    searched = text[start : start + _MAX_SEARCHED]
    match = re.match(_LEAD_IN, searched)
    if match is not None:
        return start + match.end()
    line, newline, _ = searched.partition("\n")
    line = line.rstrip()
    is_lead_in_line = re.fullmatch(_LEAD_IN_LINE, line) or re.fullmatch(_BRACKETED_LINE, line)
    return start + len(line) if newline and is_lead_in_line else 0


def may_become_lead_in(text: str) -> bool:
    """Return whether `text`, the start of a continuation, may become a lead-in as more text arrives."""
    if len(text) > MAX_LEAD_IN:
        return False
    beginning = text.lstrip().lstrip("*_([")
    opening = re.match(_POLITE_OPENING, beginning)
    beginning = beginning[opening.end() :].lower() if opening else beginning.lower()
    if "\n" in beginning:
        return False
    return any(beginning.startswith(start) or start.startswith(beginning) for start in _FIRST_LETTERS)
