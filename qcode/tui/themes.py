"""Themes: TOML files, validated into Textual themes. Ours travel with the package; a person adds their own folder.

A file holds `name`, `dark`, `[colors]` and, where wanted, `terminal_colors = true` (the terminal's own palette, names
such as `ansi_blue`) and `[variables]`, which replace single colours that Textual derives.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from textual.color import Color, ColorParseError
from textual.theme import Theme

COLORS = (
    "primary",
    "secondary",
    "accent",
    "foreground",
    "background",
    "surface",
    "panel",
    "success",
    "warning",
    "error",
)
"""The colours a theme must name, so that no theme mixes with another's defaults. `muted` and `boost` may be named."""

_OPTIONAL = ("muted", "boost")
_TOP = ("name", "dark", "terminal_colors", "colors", "variables")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


# Textual's own style sheets name these, and derive none of them for a theme of terminal colours.
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
    """A theme file is not usable; the message is one line that names the file and what to change."""


def theme_folders(package: Path | None = None) -> tuple[Path, ...]:
    """Return the folder of the themes that come with qcode: inside the package, or beside it in a checkout."""
    root = package if package is not None else Path(__file__).resolve().parent.parent
    for folder in (root / "themes", root.parent / "themes"):
        if folder.is_dir():
            return (folder,)
    return ()


def load_themes(user_folder: Path | None = None) -> tuple[dict[str, Theme], tuple[str, ...]]:
    """Return all themes by name and what is wrong with the files that were left out.

    A person's theme replaces one of ours with the same name. The dictionary is never empty.
    """
    themes: dict[str, Theme] = {}
    problems: list[str] = []
    folders = [*theme_folders(), *([user_folder] if user_folder is not None else [])]
    for path in (path for folder in folders for path in _files(folder)):
        try:
            theme = read_theme(path)
        except ThemeError as problem:
            problems.append(str(problem))
        else:
            themes[theme.name] = theme
    if not themes:
        themes["dark"] = Theme(name="dark", primary="#7aa2f7", dark=True)
        problems.append("No theme files were found beside the program; a plain dark theme is used. Reinstall qcode.")
    return themes, tuple(problems)


def theme_note(theme: Theme) -> str:
    """Return what to say about a theme in a list of them."""
    if theme.ansi:
        return "the terminal's own colours"
    return "dark" if theme.dark else "light"


def read_theme(path: Path) -> Theme:
    """Return the theme in `path`; raise `ThemeError` where it cannot be one."""
    try:
        with path.open("rb") as file:
            data = tomllib.load(file)
    except OSError as error:
        raise ThemeError(f"Theme {path}: cannot be read ({error.strerror}).") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ThemeError(f"Theme {path}: not valid TOML ({error}).") from error
    return parse_theme(data, str(path))


def parse_theme(data: Mapping[str, Any], source: str) -> Theme:
    """Return the theme that `data` describes; raise `ThemeError`, naming `source`, where something is wrong."""
    _refuse_unknown(data, _TOP, source)
    name = data.get("name")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ThemeError(f"Theme {source}: name must be lower-case letters, digits and hyphens.")
    dark = _boolean(data, "dark", source)
    has_terminal_colors = "terminal_colors" in data and _boolean(data, "terminal_colors", source)
    colors = _texts(data.get("colors", {}), "colors", source)
    _refuse_unknown(colors, (*COLORS, *_OPTIONAL), source, "colors.")
    for color in COLORS:
        if color not in colors:
            raise ThemeError(f"Theme {source}: colors.{color} is missing.")
    for color, value in colors.items():
        _check_color(value, f"colors.{color}", source)
    variables = _texts(data.get("variables", {}), "variables", source)
    for variable, value in variables.items():
        _check_color(value, f"variables.{variable}", source)
    muted = colors.pop("muted", "") or _muted(colors, has_terminal_colors)
    variables = {**(_TERMINAL_VARIABLES if has_terminal_colors else {"text-muted": muted}), "muted": muted, **variables}
    theme = Theme(name=name, primary=colors["primary"], dark=dark, ansi=has_terminal_colors, variables=variables)
    for color, value in colors.items():
        setattr(theme, color, value)
    return theme


def _muted(colors: Mapping[str, str], has_terminal_colors: bool) -> str:
    """Return the style of what matters less: a blend, or with unknown colours the terminal's own dimming."""
    if has_terminal_colors:
        return "dim"
    return Color.parse(colors["background"]).blend(Color.parse(colors["foreground"]), 0.65).hex


def _files(folder: Path) -> Iterator[Path]:
    try:
        yield from sorted(folder.glob("*.toml"))
    except OSError:
        return


def _refuse_unknown(data: Mapping[str, Any], known: tuple[str, ...], source: str, prefix: str = "") -> None:
    for key in data:
        if key not in known:
            raise ThemeError(f"Theme {source}: {prefix}{key} is not known; use one of {', '.join(known)}.")


def _boolean(data: Mapping[str, Any], key: str, source: str) -> bool:
    value = data.get(key)
    if not isinstance(value, bool):
        raise ThemeError(f"Theme {source}: {key} must be true or false.")
    return value


def _texts(value: object, key: str, source: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ThemeError(f"Theme {source}: {key} must be a table of texts.")
    return dict(value)


def _check_color(value: str, key: str, source: str) -> None:
    try:
        Color.parse(value)
    except ColorParseError as error:
        raise ThemeError(f"Theme {source}: {key} = {value!r} is no colour; write it as #rrggbb.") from error
