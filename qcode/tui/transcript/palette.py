"""Style slots of the transcript and the style sheet that gives them the colours of the theme.

Every slot is a component class `transcript--<slot>`, so that a style sheet can change each of them.
"""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.widget import Widget

from qcode.tui.transcript.line import Ink

PREFIX = "transcript--"

# fmt: off
SLOTS = (
    "welcome-title", "welcome", "user", "user-mark", "thinking", "thinking-title", "mark", "old", "dim",
    "notice-info", "notice-warning", "notice-error", "heading", "heading-1", "heading-2", "strong", "emphasis",
    "strike", "link", "target", "quote", "quote-mark", "bullet", "rule", "table-head", "code", "code-block",
    "code-label", "code-keyword", "code-type", "code-string", "code-number", "code-comment", "code-function",
    "card-title", "card-argument", "card-running", "card-done", "card-failed", "card-denied", "output", "diff-add",
    "diff-remove", "diff-add-word", "diff-remove-word", "diff-hunk", "diff-number", "news", "found",
)
# fmt: on

COMPONENTS = frozenset(PREFIX + slot for slot in SLOTS)

CSS = """
Pane {
    overflow-x: hidden;
    overflow-y: scroll;
    scrollbar-size-vertical: 1;
    scrollbar-background: $background;
    scrollbar-background-hover: $background;
    scrollbar-background-active: $background;
    scrollbar-color: $foreground 20%;
    scrollbar-color-hover: $foreground 40%;
    scrollbar-color-active: $primary;
    background: $background;
    color: $foreground;
    padding: 0 0 0 1;

    & > .transcript--welcome-title { text-style: bold; }
    & > .transcript--welcome { color: $text-muted; }
    & > .transcript--user { color: $foreground; text-style: bold; }
    & > .transcript--user-mark { color: $accent; text-style: bold; }
    & > .transcript--thinking { color: $text-muted; text-style: italic; }
    & > .transcript--thinking-title { color: $text-muted; }
    & > .transcript--mark { color: $text-muted; }
    & > .transcript--old { color: $foreground 52%; }
    & > .transcript--dim { color: $text-muted; }
    & > .transcript--notice-info { color: $text-muted; }
    & > .transcript--notice-warning { color: $warning; }
    & > .transcript--notice-error { color: $error; }
    & > .transcript--heading { color: $primary; text-style: bold; }
    & > .transcript--heading-1 { text-style: bold underline; }
    & > .transcript--strong { text-style: bold; }
    & > .transcript--emphasis { text-style: italic; }
    & > .transcript--strike { text-style: strike; }
    & > .transcript--link { color: $primary; text-style: underline; }
    & > .transcript--target { color: $text-muted; }
    & > .transcript--quote { color: $text-muted; }
    & > .transcript--quote-mark { color: $primary 60%; }
    & > .transcript--bullet { color: $accent; }
    & > .transcript--rule { color: $foreground 30%; }
    & > .transcript--table-head { text-style: bold; }
    & > .transcript--code { color: $accent; }
    & > .transcript--code-block { background: $surface; }
    & > .transcript--code-label { color: $text-muted; }
    & > .transcript--code-keyword { color: $secondary; }
    & > .transcript--code-type { color: $accent; }
    & > .transcript--code-string { color: $success; }
    & > .transcript--code-number { color: $warning; }
    & > .transcript--code-comment { color: $text-muted; text-style: italic; }
    & > .transcript--code-function { color: $primary; }
    & > .transcript--card-title { text-style: bold; }
    & > .transcript--card-argument { color: $foreground; }
    & > .transcript--card-running { color: $accent; }
    & > .transcript--card-done { color: $success; }
    & > .transcript--card-failed { color: $error; }
    & > .transcript--card-denied { color: $warning; }
    & > .transcript--output { color: $foreground 75%; }
    & > .transcript--diff-add { background: $success 22%; }
    & > .transcript--diff-remove { background: $error 22%; }
    & > .transcript--diff-add-word { background: $success 35%; }
    & > .transcript--diff-remove-word { background: $error 35%; }
    & > .transcript--diff-hunk { color: $text-muted; }
    & > .transcript--diff-number { color: $text-muted; }
    & > .transcript--news { color: $background; background: $accent; text-style: bold; }
    & > .transcript--found { color: $background; background: $warning; }

    &:ansi > .transcript--welcome, &:ansi > .transcript--thinking-title, &:ansi > .transcript--mark,
    &:ansi > .transcript--old, &:ansi > .transcript--dim, &:ansi > .transcript--notice-info,
    &:ansi > .transcript--target, &:ansi > .transcript--quote, &:ansi > .transcript--rule,
    &:ansi > .transcript--code-label, &:ansi > .transcript--diff-hunk, &:ansi > .transcript--diff-number {
        text-style: dim;
    }
    &:ansi > .transcript--thinking, &:ansi > .transcript--code-comment { text-style: dim italic; }
    &:ansi > .transcript--diff-add { color: $success; background: transparent; }
    &:ansi > .transcript--diff-remove { color: $error; background: transparent; }
    &:ansi > .transcript--diff-add-word, &:ansi > .transcript--diff-remove-word {
        background: transparent;
        text-style: reverse;
    }
    &:ansi > .transcript--news { color: $accent; background: transparent; text-style: reverse bold; }
    &:ansi > .transcript--found { color: $warning; background: transparent; text-style: reverse; }
}
"""


class Palette:
    """The styles of one widget's slots; `clear` it when the widget's styles have changed."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._slots: dict[str, Style] = {}
        self._inks: dict[Ink, Style] = {}

    def clear(self) -> None:
        self._slots.clear()
        self._inks.clear()

    @property
    def base(self) -> Style:
        return self._widget.rich_style

    def style(self, ink: Ink) -> Style:
        """Return the style of `ink` over the widget's own."""
        style = self._inks.get(ink)
        if style is None:
            style = self.base
            for slot in ink.slots:
                style += self._slot(slot)
            if ink.href:
                style += Style(link=ink.href)
            self._inks[ink] = style
        return style

    def _slot(self, slot: str) -> Style:
        """Return only what the slot itself says, its colours blended with the widget's."""
        style = self._slots.get(slot)
        if style is None:
            styles = self._widget.get_component_styles(PREFIX + slot)
            full = self._widget.get_component_rich_style(PREFIX + slot)
            has_color = styles.has_rule("color") or styles.has_rule("auto_color")
            style = styles.text_style + Style(
                color=full.color if has_color else None,
                bgcolor=full.bgcolor if styles.has_rule("background") else None,
            )
            self._slots[slot] = style
        return style


def painted_over(segments: list[Segment], start: int, end: int, marked: Style) -> list[Segment]:
    """Return `segments` with the characters from `start` to `end` (-1: the end) in `marked` over their own style."""
    result: list[Segment] = []
    position = 0
    for text, style, _ in segments:
        begin = min(len(text), max(0, start - position))
        stop = len(text) if end == -1 else min(len(text), max(begin, end - position))
        result += [
            Segment(text[:begin], style),
            Segment(text[begin:stop], style + marked if style else marked),
            Segment(text[stop:], style),
        ]
        position += len(text)
    return [segment for segment in result if segment.text]
