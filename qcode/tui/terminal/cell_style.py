"""The style of a cell as the terminal gets it, also without colors, and the shortest sequences that change it.

Separate from the painter because it knows SGR and OSC 8, but nothing of rows and frames.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from rich.color import Color as RichColor
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.strip import Strip


class CellStyle(NamedTuple):
    """The style of a cell: its SGR parameters, and the parameters of OSC 8 if it belongs to a link."""

    sgr: str = ""
    link: str = ""


PLAIN = CellStyle()


@lru_cache(maxsize=4096)
def style_of(style: Style, colors: ColorSystem) -> CellStyle:
    """Return the style of a cell in a terminal with these `colors`."""
    link = f"id={style.link_id};{style.link}" if style.link else ""
    return CellStyle(Strip.render_ansi(style, colors), link)


_END_PARAMETERS = {
    "1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "6": "25", "7": "27", "8": "28", "9": "29", "21": "24",
    "51": "54", "52": "54", "53": "55", "fg": "39", "bg": "49",
}  # fmt: skip
"""The parameter that ends each attribute. `22` ends both bold and dim."""
_EXTENDED_COLORS = {"38": "fg", "48": "bg"}
"""The attributes set by `38;5;N` and `38;2;R;G;B`, or `48;…`."""
_BACKGROUND_NUMBERS = frozenset(map(str, (*range(40, 48), *range(100, 108))))
_UNSEEN_ON_BLANKS = frozenset({"1", "2", "3", "5", "6", "8", "fg"})
"""Attributes that do not change the look of a blank, such as bold."""


@lru_cache(maxsize=4096)
def attributes_of(sgr: str) -> Mapping[str, str]:
    """Return the attributes that SGR parameters set, with the parameters of each."""
    attributes: dict[str, str] = {}
    numbers = iter(sgr.split(";") if sgr else ())
    for number in numbers:
        if number in _EXTENDED_COLORS:
            kind = next(numbers)
            color = [next(numbers) for _ in range(1 if kind == "5" else 3)]
            attributes[_EXTENDED_COLORS[number]] = ";".join((number, kind, *color))
        elif number in _END_PARAMETERS:
            attributes[number] = number
        elif number not in ("39", "49"):  # the default colors
            attributes["bg" if number in _BACKGROUND_NUMBERS else "fg"] = number
    return attributes


@lru_cache(maxsize=4096)
def blank_style(style: CellStyle) -> CellStyle:
    """Return the simplest style in which a blank looks as it does with `style`."""
    attributes = attributes_of(style.sgr)
    if style.link or not attributes.keys() <= _UNSEEN_ON_BLANKS | {"bg"}:
        return style
    return CellStyle(attributes.get("bg", ""))


@lru_cache(maxsize=4096)
def nearest_blank_style(current: CellStyle, blank: CellStyle) -> CellStyle:
    """Return the style closest to `current` in which a blank looks as it does in the style `blank`."""
    seen_attributes = {*attributes_of(blank_style(current).sgr), *attributes_of(blank.sgr)}
    if blank.link or current.link or not seen_attributes <= {"bg"}:
        return blank
    # Only the background differs: keep all other attributes of `current`, which do not show on a blank.
    kept = [value for name, value in attributes_of(current.sgr).items() if name != "bg"]
    return CellStyle(";".join([*kept, *attributes_of(blank.sgr).values()]))


@lru_cache(maxsize=4096)
def change_style(before: CellStyle, after: CellStyle) -> str:
    """Return the shortest sequence that changes one style to another.

    Example: from bold and dim to bold, the sequence is `CSI 22;1 m`, because `22` also ends bold.
    """
    link = f"\x1b]8;{after.link or ';'}\x1b\\" if before.link != after.link else ""
    old = attributes_of(before.sgr)
    new = attributes_of(after.sgr)
    if old == new:
        return link
    ended = {_END_PARAMETERS[name] for name in old if name not in new}
    started = [value for name, value in new.items() if old.get(name) != value or _END_PARAMETERS[name] in ended]
    change = ";".join([*sorted(ended), *started])
    reset_and_set = ";".join(["0", *new.values()]) if new else ""  # `CSI m` is a reset
    shortest = min(change, reset_and_set, key=len)
    return f"{link}\x1b[{shortest}m"


class NoColors(LineFilter):
    """Removes all colors, for NO_COLOR. Cells with a background color, such as a selection or a cursor, become reverse.

    The theme must have the default background of the terminal. Textual's own filter turns colors into grays.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(text, style and _without_colors(style), control) for text, style, control in segments]


_DEFAULT_COLORS = Style.from_color(RichColor.default(), RichColor.default())


@lru_cache(maxsize=4096)
def _without_colors(style: Style) -> Style:
    is_marked = style.bgcolor is not None and not style.bgcolor.is_default
    return style + _DEFAULT_COLORS + (Style(reverse=True) if is_marked else Style.null())
