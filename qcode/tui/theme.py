"""Themes: TOML files, validated and converted to Textual themes. The user may add a folder of theme files.

A file contains `name`, `dark` and `[colors]`. With `terminal_colors = true`, colors are names of the palette of the
terminal, such as `ansi_blue`. An optional table `[variables]` overrides single colors that Textual derives.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.color import ColorSystem
from textual.color import Color, ColorParseError
from textual.theme import Theme

from qcode.config.paths import with_tilde
from qcode.text.clean import quoted
from qcode.text.pattern import lazy_pattern

COLORS: Mapping[str, str] = {
    "primary": "headings and links",
    "secondary": "keywords in code",
    "accent": "marks and inline code",
    "foreground": "text",
    "background": "the background of the screen",
    "surface": "the background of the prompt, panels and code blocks",
    "panel": "the background of raised parts of panels",
    "success": "finished calls and added lines",
    "warning": "notices and questions",
    "error": "failed calls and removed lines",
}
"""The required colors and their use. All are required, because Textual's defaults would not match the others."""
OPTIONAL_COLORS: Mapping[str, str] = {
    "muted": "secondary text; default: a blend of foreground and background",
    "boost": "a tint over raised parts; default: white or black, almost transparent",
}
KEYS: Mapping[str, str] = {
    "name": "required: lower-case letters, digits and hyphens",
    "dark": "required: `true` for a dark theme, `false` for a light one",
    "colors": "required: the table of colors, each `#rrggbb` or a CSS name",
    "terminal_colors": "`true` uses the colors of the terminal, named `ansi_blue`, `ansi_default` and so on",
    "variables": "a table of colors that are otherwise derived from the others, such as `input-selection-background`",
}
"""The keys of a theme file, with their meaning for the reference documentation."""

AUTO = "auto"
"""The name that selects a light or a dark theme to match the terminal."""

TERMINAL = "terminal"
"""The theme that uses the colors of the terminal."""
TERMINAL_LIGHT = "terminal-light"
"""The theme of terminal colors for a light background, without the colors that are hard to read on white."""

_DEFAULT = "dark"
_NAME = lazy_pattern(r"[a-z0-9][a-z0-9-]*")


# Textual's style sheets use these, and Textual does not derive them for themes of terminal colors.
_TERMINAL_VARIABLES = {
    "ansi-background": "ansi_black",
    "ansi-foreground": "ansi_white",
    "block-cursor-foreground": "ansi_black",
    "block-cursor-background": "ansi_white",
    "input-cursor-background": "ansi_white",
    "input-cursor-foreground": "ansi_black",
    "input-selection-background": "ansi_bright_blue",
    "input-selection-foreground": "ansi_black",
    "screen-selection-background": "ansi_bright_blue",
    "screen-selection-foreground": "ansi_black",
}


class ThemeError(ValueError):
    """A theme file cannot be used. The message is one line with the file and the change it needs."""


def builtin_folder(package: Path | None = None) -> Path | None:
    """Return the folder of the built-in themes, inside the package or beside it in a checkout; None if it is missing.

    `package` is the folder of the package, that of qcode by default.
    """
    root = package if package is not None else Path(__file__).resolve().parent.parent
    for folder in (root / "themes", root.parent / "themes"):
        if folder.is_dir():
            return folder
    return None


def load_themes(user_folder: Path | None = None) -> tuple[dict[str, Theme], tuple[str, ...]]:
    """Return all themes by name, and an error for each file that cannot be used.

    A user's theme replaces a built-in theme of the same name. The dictionary is never empty.
    """
    themes: dict[str, Theme] = {}
    problems: list[str] = []
    for path in (*_theme_files(builtin_folder()), *_theme_files(user_folder)):
        try:
            theme = read_theme(path)
        except ThemeError as problem:
            problems.append(str(problem))
        else:
            themes[theme.name] = theme
    if not themes:
        themes["dark"] = Theme(name="dark", primary="#7aa2f7", dark=True)
        problems.append("No theme files found; using a plain dark theme. Reinstall qcode.")
    return themes, tuple(problems)


def first_theme(
    chosen: str, user_folder: Path | None, environ: Mapping[str, str], *, has_few_colors: bool = False
) -> Theme | None:
    """Return the theme of the first paint without loading the others; None if they are needed to choose it.

    `has_few_colors`: the terminal has 16 colors or none, so only a theme of terminal colors is returned.
    """
    folder = builtin_folder()
    names = [path.stem for path in _theme_files(folder)]
    if folder is None or not names or _theme_files(user_folder):
        return None
    name = choose_theme(chosen, names, environ, has_few_colors=has_few_colors)
    try:
        theme = read_theme(folder / f"{name}.toml")
    except ThemeError:
        return None
    if has_few_colors and not theme.ansi:
        return None
    return theme if theme.name == name else None


def theme_note(theme: Theme) -> str:
    """Return the words that describe a theme in a list, such as `dark`."""
    if theme.ansi:
        return "the colors of the terminal" if theme.dark else "terminal colors readable on white"
    return "dark" if theme.dark else "light"


def choose_theme(chosen: str, names: Iterable[str], environ: Mapping[str, str], *, has_few_colors: bool = False) -> str:
    """Return the theme of `names`, at least one, to use if the user chose `chosen`; for an unknown name the dark theme.

    `auto` is light or dark to match the terminal, dark if its background is unknown. On a terminal with 16 colors
    (`has_few_colors`) `auto` uses the palette of the terminal, because blended backgrounds would become the same color.
    """
    available = tuple(names)
    if chosen == AUTO:
        # Some terminals (rxvt, Konsole, iTerm2) set COLORFGBG to color numbers, the background last: `15;0` is dark.
        background = environ.get("COLORFGBG", "").rpartition(";")[2]
        light, dark = (TERMINAL_LIGHT, TERMINAL) if has_few_colors else ("light", _DEFAULT)
        chosen = light if background in ("7", "15") else dark
    return next(name for name in (chosen, _DEFAULT, available[0]) if name in available)


def read_theme(path: Path) -> Theme:
    """Return the theme in `path`; raise `ThemeError` if it is invalid."""
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        raise ThemeError(f"Theme {with_tilde(str(path))}: cannot read the file ({error.strerror}).") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ThemeError(f"Theme {with_tilde(str(path))}: not valid TOML ({error}).") from error
    return parse_theme(data, with_tilde(str(path)), text)


def parse_theme(data: Mapping[str, Any], source: str, text: str = "") -> Theme:
    """Return the theme described by `data`; raise `ThemeError`, naming `source`, if it is invalid.

    `text` is the TOML of `data`, for line numbers in errors.
    """
    try:
        return _theme(data)
    except _WrongKeyError as wrong:
        line = _line_number(text, wrong.key)
        raise ThemeError(f"Theme {source}{f', line {line}' if line else ''}: {wrong}") from None


class _WrongKeyError(ValueError):
    """The theme cannot be used because of `key`: it is missing or unknown, or its value is invalid."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def _line_number(text: str, key: str) -> int | None:
    """Return the line of `key` in a TOML text, None if it is not there."""
    if not text:
        return None
    from qcode.config.lines import find_lines

    return find_lines(text).get(tuple(key.split(".")))


def _theme(data: Mapping[str, Any]) -> Theme:
    _refuse_unknown(data, tuple(KEYS))
    name = data.get("name")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise _WrongKeyError("name", "name must be lower-case letters, digits and hyphens.")
    dark = _boolean(data, "dark")
    has_terminal_colors = "terminal_colors" in data and _boolean(data, "terminal_colors")
    colors = _string_table(data.get("colors", {}), "colors")
    _refuse_unknown(colors, (*COLORS, *OPTIONAL_COLORS), "colors.")
    for color in COLORS:
        if color not in colors:
            raise _WrongKeyError("colors", f"colors.{color} is missing.")
    for color, value in colors.items():
        _check_color(value, f"colors.{color}")
    variables = _string_table(data.get("variables", {}), "variables")
    if variables:
        _refuse_unknown(variables, _color_variables(), "variables.", lists_allowed=False)
    for variable, value in variables.items():
        _check_color(value, f"variables.{variable}")
    muted = colors.pop("muted", "") or _muted_style(colors, has_terminal_colors)
    defaults = _TERMINAL_VARIABLES if has_terminal_colors else {"text-muted": muted}
    variables = {**defaults, "muted": muted, **variables}
    theme = Theme(name=name, primary=colors["primary"], dark=dark, ansi=has_terminal_colors, variables=variables)
    for color, value in colors.items():
        setattr(theme, color, value)
    return theme


def _muted_style(colors: Mapping[str, str], has_terminal_colors: bool) -> str:
    """Return the style of less important text: a blend of colors, or the attribute `dim` with terminal colors."""
    if has_terminal_colors:
        return "dim"
    return Color.parse(colors["background"]).blend(Color.parse(colors["foreground"]), 0.65).hex


_FADED = ("background", "surface", "muted", "text-muted", "input-selection-background", "input-selection-foreground")
"""Colors of text with a low contrast, and their backgrounds."""
_GRAYS = (0, *range(8, 239, 10))
"""The grays of 256 colors: black, and the ramp from 8 to 238."""
_FIRST_CUBE_STEP = 95
"""The darkest step of the color cube above black. A color below it becomes black, navy or another unrelated color."""


def for_256_colors(theme: Theme) -> Theme:
    """Return a theme for 256 colors: with grays, and with muted and selected text that is readable in these colors."""
    from qcode.tui.transcript.palette import readable_color  # most terminals have more colors

    theme = with_grays(theme)
    generated = {**theme.to_color_system().generate(), **theme.variables}
    colors = {name: Color.parse(generated[name]) for name in _FADED if name in generated}
    background, surface = colors["background"], colors["surface"]
    selected = surface + colors["input-selection-background"]
    backgrounds = {
        "input-selection-foreground": (selected,),
        "muted": (background, surface),
        "text-muted": (background, surface),
    }
    names = [name for name in backgrounds if name in colors]
    for name in names:
        for color_behind in backgrounds[name]:
            colors[name] = readable_color(colors[name], color_behind, ColorSystem.EIGHT_BIT)
    return replace(theme, variables={**theme.variables, **{name: colors[name].hex for name in names}})


def with_grays(theme: Theme) -> Theme:
    """Return a theme for 256 colors, with the nearest grays for dark backgrounds. Different backgrounds stay different.

    A theme without one of the three backgrounds stays as it is.
    """
    if not (theme.background and theme.surface and theme.panel):
        return theme
    background, surface, panel = map(Color.parse, (theme.background, theme.surface, theme.panel))
    background_gray, surface_gray, panel_gray = map(_gray_index, (background, surface, panel))
    if surface_gray == background_gray and surface != background:
        is_darker = surface.brightness < background.brightness and background_gray > 1
        surface_gray += -1 if is_darker else 1
    if panel_gray in (background_gray, surface_gray) and panel not in (background, surface):
        panel_gray = max(background_gray, surface_gray) + 1
    return replace(
        theme,
        background=_gray(background, background_gray),
        surface=_gray(surface, surface_gray),
        panel=_gray(panel, panel_gray),
    )


def _gray_index(color: Color) -> int:
    return min(range(len(_GRAYS)), key=lambda index: abs(_GRAYS[index] - color.brightness * 255))


def _gray(color: Color, index: int) -> str:
    """Return the gray at `index` of `_GRAYS` if `color` is darker than the color cube; otherwise `color`."""
    level = _GRAYS[min(index, len(_GRAYS) - 1)]
    return color.hex if max(color.rgb) >= _FIRST_CUBE_STEP else Color(level, level, level).hex


def _theme_files(folder: Path | None) -> list[Path]:
    """Return the theme files of `folder`; empty if it is None or cannot be read."""
    if folder is None:
        return []
    try:
        return sorted(folder.glob("*.toml"))
    except OSError:
        return []


def _color_variables() -> tuple[str, ...]:
    """Return the names of the colors that Textual derives from a theme."""
    return (*Theme(name="any", primary="#000000").to_color_system().generate(), *_TERMINAL_VARIABLES)


def _refuse_unknown(
    data: Mapping[str, Any], allowed: tuple[str, ...], prefix: str = "", *, lists_allowed: bool = True
) -> None:
    """Raise `_WrongKeyError` for a key that is not in `allowed`, with the nearest of them or, if none is near, all."""
    for key in data:
        if key not in allowed:
            from qcode.text.match import suggestion

            fallback_hint = f"use one of {', '.join(allowed)}." if lists_allowed else "there is no such color variable."
            hint = suggestion(key, allowed, fallback_hint, f"{prefix}{{}}")
            raise _WrongKeyError(prefix + key, f"unknown key {prefix}{key}; {hint}")


def _boolean(data: Mapping[str, Any], key: str) -> bool:
    value = data.get(key)
    if not isinstance(value, bool):
        raise _WrongKeyError(key, f"{key} must be true or false.")
    return value


def _string_table(value: object, key: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise _WrongKeyError(key, f"{key} must be a table of strings.")
    return dict(value)


def _check_color(value: str, key: str) -> None:
    try:
        Color.parse(value)
    except ColorParseError as error:
        raise _WrongKeyError(key, f"{key} = {quoted(str(value))} is not a color; use #rrggbb.") from error
