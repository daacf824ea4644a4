"""The styles of the transcript's slots in the colors of the theme, and the style sheet of the pane.

The slots are not component classes, because Textual would compute all of them again with every change of the screen.
"""

from __future__ import annotations

from typing import NamedTuple

from rich.color import Color as RichColor
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.style import Style as ContentStyle
from textual.widget import Widget

from qcode.tui.transcript.ansi import SGR_SLOT_PREFIX
from qcode.tui.transcript.line import TextStyle


class SlotStyle(NamedTuple):
    """The style of one slot.

    A color is a name from the theme, `#rrggbb`, or a name of the terminal's 16 colors such as `ansi_red`. An empty
    color leaves that of the slots below unchanged.
    """

    color: str = ""
    share: int = 100
    """The opacity of `color` over the background, in percent."""
    background: str = ""
    background_share: int = 100
    attributes: str = ""
    """The attributes as Rich writes them: `bold`, `not dim`."""


SLOT_STYLES: dict[str, SlotStyle] = {
    "welcome-title": SlotStyle(attributes="bold"),
    "welcome": SlotStyle("text-muted"),
    "user-band": SlotStyle(background="foreground", background_share=9),
    "user": SlotStyle("foreground", attributes="bold"),
    "user-mark": SlotStyle("accent", attributes="bold"),
    "thinking": SlotStyle("text-muted", attributes="italic"),
    "thinking-title": SlotStyle("text-muted"),
    "mark": SlotStyle("text-muted"),
    "old": SlotStyle("foreground", 52),
    "dim": SlotStyle("text-muted"),
    "notice-info": SlotStyle("text-muted"),
    "notice-warning": SlotStyle("warning"),
    "notice-error": SlotStyle("error"),
    "heading": SlotStyle("primary", attributes="bold"),
    "heading-1": SlotStyle(attributes="bold underline"),
    "heading-2": SlotStyle(),
    "heading-3": SlotStyle(attributes="not bold italic"),
    "strong": SlotStyle(attributes="bold"),
    "emphasis": SlotStyle(attributes="italic"),
    "strike": SlotStyle(attributes="strike"),
    "link": SlotStyle("primary", attributes="underline"),
    "target": SlotStyle("text-muted"),
    "quote": SlotStyle("text-muted"),
    "quote-mark": SlotStyle("primary", 60),
    "bullet": SlotStyle("accent"),
    "rule": SlotStyle("foreground", 30),
    "table-head": SlotStyle(attributes="bold"),
    "code": SlotStyle("accent"),
    "code-block": SlotStyle(background="surface"),
    "code-label": SlotStyle("text-muted"),
    "code-keyword": SlotStyle("secondary"),
    "code-type": SlotStyle("accent"),
    "code-string": SlotStyle("success"),
    "code-number": SlotStyle("warning"),
    "code-comment": SlotStyle("text-muted", attributes="italic"),
    "code-function": SlotStyle("primary"),
    "card-title": SlotStyle(attributes="bold"),
    "card-argument": SlotStyle("foreground"),
    "card-running": SlotStyle("accent"),
    "card-done": SlotStyle("success"),
    "card-failed": SlotStyle("error"),
    "card-denied": SlotStyle("warning"),
    "output": SlotStyle("foreground", 75),
    "diff-add": SlotStyle(background="success", background_share=22),
    "diff-remove": SlotStyle(background="error", background_share=22),
    "diff-add-word": SlotStyle(background="success", background_share=35),
    "diff-remove-word": SlotStyle(background="error", background_share=35),
    "diff-hunk": SlotStyle("text-muted"),
    "diff-number": SlotStyle("text-muted"),
    "new-text": SlotStyle("background", background="accent", attributes="bold"),  # the label of new text below the view
    "found": SlotStyle("background", background="warning"),  # a match of the search
    "choice": SlotStyle("accent", attributes="bold"),  # the highlighted option of a question
    "chosen": SlotStyle(background="accent", background_share=28),  # the marked card
    "risk": SlotStyle("warning", attributes="bold"),  # a word of a command that makes it risky
}

# For terminals with 256 colors. Their cube has six steps a channel, the darkest at 0 and 95: the nearest color to a
# soft green or red background is teal or gray, and that to the dark gray-blue of a prompt in tokyo-night is navy. These
# are colors of the cube and its grays.
_STYLES_256_COLORS_DARK: dict[str, SlotStyle] = {
    "user-band": SlotStyle(background="#303030"),
    "diff-add": SlotStyle(background="#005f00"),
    "diff-remove": SlotStyle(background="#5f0000"),
    "diff-add-word": SlotStyle(background="#008700"),
    "diff-remove-word": SlotStyle(background="#870000"),
    "chosen": SlotStyle(background="#005f5f"),
}
_STYLES_256_COLORS_LIGHT: dict[str, SlotStyle] = {
    "diff-add": SlotStyle(background="#d7ffd7"),
    "diff-remove": SlotStyle(background="#ffd7d7"),
    "diff-add-word": SlotStyle(background="#afffaf"),
    "diff-remove-word": SlotStyle(background="#ffafaf"),
    "chosen": SlotStyle(background="#afffff"),
}

# For the theme that uses the terminal's 16 colors, which cannot be blended.
_STYLES_TERMINAL_THEME: dict[str, SlotStyle] = {
    # A band of gray between the background and the text of a dark and of a light terminal sets the color of its text.
    "user-band": SlotStyle("ansi_bright_white", background="ansi_bright_black"),
    "user": SlotStyle("ansi_bright_white", attributes="bold"),
    "user-mark": SlotStyle("ansi_bright_white", attributes="bold"),
    "welcome": SlotStyle("text-muted", attributes="dim"),
    "thinking-title": SlotStyle("text-muted", attributes="dim"),
    "mark": SlotStyle("text-muted", attributes="dim"),
    "old": SlotStyle("foreground", attributes="dim"),
    "dim": SlotStyle("text-muted", attributes="dim"),
    "notice-info": SlotStyle("text-muted", attributes="dim"),
    "target": SlotStyle("text-muted", attributes="dim"),
    "quote": SlotStyle("text-muted", attributes="dim"),
    "rule": SlotStyle("foreground", attributes="dim"),
    "code-label": SlotStyle("text-muted", attributes="dim"),
    "diff-hunk": SlotStyle("text-muted", attributes="dim"),
    "diff-number": SlotStyle(attributes="dim"),  # keeps the color of the change, which has no background here
    "thinking": SlotStyle("text-muted", attributes="dim italic"),
    "code-comment": SlotStyle("text-muted", attributes="dim italic"),
    "diff-add": SlotStyle("success", attributes="not dim"),
    "diff-remove": SlotStyle("error", attributes="not dim"),
    "diff-add-word": SlotStyle(attributes="reverse"),
    "diff-remove-word": SlotStyle(attributes="reverse"),
    "new-text": SlotStyle("accent", attributes="reverse bold"),
    "found": SlotStyle("warning", attributes="reverse"),
    "chosen": SlotStyle(attributes="reverse"),
}

# For NO_COLOR: a background is shown in reverse, which is too much for a whole message.
_STYLES_NO_COLOR: dict[str, SlotStyle] = {
    **_STYLES_TERMINAL_THEME,
    "user-band": SlotStyle(attributes="bold"),
    "notice-warning": SlotStyle(attributes="bold"),
    "notice-error": SlotStyle(attributes="bold"),
    "code": SlotStyle(attributes="bold"),
    "choice": SlotStyle(attributes="reverse bold"),
    "risk": SlotStyle(attributes="bold underline"),
    "new-text": SlotStyle(attributes="reverse bold"),
    "found": SlotStyle(attributes="reverse"),
}

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
}
"""


class Palette:
    """The cached styles of one widget's slots. Call `clear` when the styles of the widget change."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._slot_styles: dict[str, Style] = {}
        self._styles: dict[TextStyle, Style] = {}
        self._readable_styles: dict[Style, Style] = {}
        self._padding: Style | None = None

    def clear(self) -> None:
        self._slot_styles.clear()
        self._styles.clear()
        self._readable_styles.clear()
        self._padding = None

    @property
    def base(self) -> Style:
        return self._widget.rich_style

    @property
    def padding(self) -> Style:
        """The style of the widget's padding, computed as Textual does."""
        if self._padding is None:
            base, background = self._widget.background_colors
            self._padding = ContentStyle(background=base + background).rich_style
        return self._padding

    def style(self, text_style: TextStyle) -> Style:
        """Return the Rich style of `text_style` on top of the widget's style."""
        style = self._styles.get(text_style)
        if style is None:
            style = self.base
            for slot in text_style.slots:
                style += self._slot_style(slot)
            style = self._readable(style)
            if text_style.href:
                style += Style(link=text_style.href)
            self._styles[text_style] = style
        return style

    def painted_over(self, segments: list[Segment], start: int, end: int, added: Style) -> list[Segment]:
        """Return `segments` with the style `added` on top of the characters from `start` up to `end`, readable there.

        An `end` of -1 means the end of the row, as in the selections of Textual.
        """
        result: list[Segment] = []
        position = 0
        for text, style, _ in segments:
            begin = min(len(text), max(0, start - position))
            stop = len(text) if end == -1 else min(len(text), max(begin, end - position))
            over = self._readable(style + added if style else added)
            result += [Segment(text[:begin], style), Segment(text[begin:stop], over), Segment(text[stop:], style)]
            position += len(text)
        return [segment for segment in result if segment.text]

    def _readable(self, style: Style) -> Style:
        """Return the style with a text color that contrasts with its background, if that is not the widget's."""
        if style.bgcolor == self.base.bgcolor or self._widget.app.current_theme.ansi:
            return style
        shown = self._readable_styles.get(style)
        if shown is None:
            shown = readable(style, COLOR_SYSTEMS[self._widget.app.console.color_system or "truecolor"])
            self._readable_styles[style] = shown
        return shown

    def _slot_style(self, slot: str) -> Style:
        """Return the style of a slot alone, with its colors blended into the widget's background."""
        style = self._slot_styles.get(slot)
        if style is None:
            if slot.startswith(SGR_SLOT_PREFIX):
                style = _sgr_style(slot.removeprefix(SGR_SLOT_PREFIX))
            else:
                definition = _special_styles(self._widget.app).get(slot, SLOT_STYLES[slot])
                style = Style.parse(definition.attributes) + Style(
                    color=self._color(definition.color, definition.share),
                    bgcolor=self._color(definition.background, definition.background_share),
                )
            self._slot_styles[slot] = style
        return style

    def _color(self, name: str, share: int) -> RichColor | None:
        """Return a color of `SlotStyle` with an opacity of `share` percent; None if `name` is empty."""
        if not name:
            return None
        if name.startswith(("#", "ansi_")):
            return Color.parse(name).rich_color
        colors = self._widget.app.theme_variables
        # A theme variable may have an opacity ("$foreground 60%"), or be "auto".
        named, _, theme_share = colors[name].partition(" ")
        color = Color.parse(colors["foreground"] if named == "auto" else named)
        if self._widget.app.current_theme.ansi:  # colors of the terminal cannot be blended
            return color.rich_color if color.a else None
        strength = color.a * share / 100 * float(theme_share.rstrip("%") or 100) / 100
        return self._widget.background_colors[1].blend(color, strength, alpha=1).rich_color


MIN_CONTRAST = 4.5
"""The minimum contrast of text on another background than the screen's, such as code on an added line (WCAG 2.1)."""


def readable(style: Style, colors: ColorSystem) -> Style:
    """Return the style with its text lighter or darker, as far as the contrast needs it on a terminal of `colors`."""
    if style.color is None or style.bgcolor is None or style.reverse:
        return style
    text = Color.from_rich_color(style.color)
    readable_text = readable_color(text, Color.from_rich_color(style.bgcolor), colors)
    return style if readable_text == text else style + Style(color=readable_text.rich_color)


def readable_color(text: Color, background: Color, colors: ColorSystem) -> Color:
    """Return the color `text`, lighter or darker as far as its contrast with `background` needs it in `colors`."""
    background = shown_color(background.rich_color, colors)
    white = Color(255, 255, 255)
    black = Color(0, 0, 0)
    farthest = max((white, black), key=lambda color: contrast(color, background))
    for step in range(11):
        candidate = text.blend(farthest, step / 10)
        if contrast(shown_color(candidate.rich_color, colors), background) >= MIN_CONTRAST:
            break
    return candidate


def shown_color(color: RichColor, colors: ColorSystem) -> Color:
    """Return a color as a terminal of `colors` shows it."""
    shown = color.downgrade(colors) if colors is ColorSystem.EIGHT_BIT else color
    return Color(*shown.get_truecolor())


def contrast(one: Color, other: Color) -> float:
    """Return the contrast ratio of WCAG 2.1."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: Color) -> float:
    red, green, blue = (
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in color.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


_SGR_ATTRIBUTES = {"1": "bold", "2": "dim", "3": "italic", "4": "underline", "7": "reverse", "9": "strike"}


def _sgr_style(parameters: str) -> Style:
    """Return the style of SGR parameters: an attribute, or a color of the text or of its background."""
    if parameters in _SGR_ATTRIBUTES:
        return Style.parse(_SGR_ATTRIBUTES[parameters])
    code, *values = map(int, parameters.split(";"))
    if values:  # a number of 256 colors after 5, or red, green and blue after 2
        kind, *numbers = values
        color = RichColor.from_ansi(numbers[0]) if kind == 5 else RichColor.from_rgb(*numbers)
        return Style(color=color) if code == 38 else Style(bgcolor=color)
    # Text is 30 to 37 and 90 to 97, background 40 to 47 and 100 to 107; from 90 on, the color is bright.
    is_bright, is_background = code >= 90, code // 10 in (4, 10)
    color = RichColor.from_ansi(code % 10 + 8 * is_bright)
    return Style(bgcolor=color) if is_background else Style(color=color)


def _special_styles(app: App[object]) -> dict[str, SlotStyle]:
    """Return the styles that replace `SLOT_STYLES` for this theme and number of terminal colors."""
    if app.no_color:
        return _STYLES_NO_COLOR
    if app.current_theme.ansi:
        return _STYLES_TERMINAL_THEME
    if app.console.color_system == "256":
        return _STYLES_256_COLORS_DARK if app.current_theme.dark else _STYLES_256_COLORS_LIGHT
    return {}
