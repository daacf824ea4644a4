"""Theme files: ours load and can be read; a person's own are checked, and named when something is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.color import Color

from qcode.tui.themes import COLORS, ThemeError, load_themes, parse_theme, read_theme, theme_folders
from tests.tui.harness import Running, drive
from tests.tui.scripted import ScriptedConversation

GOOD = {"name": "mine", "dark": True, "colors": dict.fromkeys(COLORS, "#123456")}


def _text(name: str = "mine", **colors: str) -> str:
    wanted = {**dict.fromkeys(COLORS, "#123456"), **colors}
    rows = "".join(f'{color} = "{value}"\n' for color, value in wanted.items())
    return f'name = "{name}"\ndark = true\n[colors]\n{rows}'


def test_ours_are_dark_light_high_contrast_and_terminal_and_have_no_problems() -> None:
    themes, problems = load_themes()
    assert set(themes) == {"dark", "light", "high-contrast", "terminal"}
    assert problems == ()
    assert themes["dark"].dark
    assert not themes["light"].dark
    assert themes["terminal"].ansi


@pytest.mark.parametrize("name", ["dark", "light", "high-contrast"])
def test_every_text_colour_stands_out_from_every_background(name: str) -> None:
    theme = load_themes()[0][name]
    variables = {**theme.to_color_system().generate(), **theme.variables}
    least = 7.0 if name == "high-contrast" else 4.5
    for ground in ("background", "surface"):
        for ink in ("foreground", "muted", "text-accent", "text-primary", "text-success", "text-warning", "text-error"):
            contrast = _contrast(Color.parse(variables[ground]), Color.parse(variables[ink]))
            assert contrast >= least, f"{ink} on {ground}: {contrast:.1f}"


def _contrast(one: Color, other: Color) -> float:
    """The contrast ratio of WCAG 2.1."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: Color) -> float:
    parts = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in color.normalized]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("name", ["dark", "light", "high-contrast", "terminal"])
def test_every_theme_paints_the_whole_app(name: str) -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("f1", "slash")
        await run.pilot.pause()
        assert run.app.theme == name
        assert "Esc closes" in run.app.export_screenshot().replace("&#160;", " ")

    drive(test, ScriptedConversation(), theme=name)


def test_the_packaged_folder_comes_before_the_one_of_a_checkout(tmp_path: Path) -> None:
    package = tmp_path / "qcode"
    (tmp_path / "themes").mkdir()
    package.mkdir()
    assert theme_folders(package) == (tmp_path / "themes",)
    (package / "themes").mkdir()
    assert theme_folders(package) == (package / "themes",)


def test_a_persons_theme_joins_ours_and_replaces_one_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(_text("mine"), encoding="utf-8")
    (tmp_path / "b.toml").write_text(_text("dark", primary="#ff0000"), encoding="utf-8")
    themes, problems = load_themes(tmp_path)
    assert problems == ()
    assert "mine" in themes
    assert themes["dark"].primary == "#ff0000"


def test_a_bad_file_is_left_out_named_and_shown(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(_text("bad", primary="bluish"), encoding="utf-8")

    async def test(run: Running) -> None:
        assert "colors.primary = 'bluish' is no colour" in run.text.replace("\n", " ")
        assert "bad" not in run.app.host.theme_names

    drive(test, user_themes=tmp_path)


def test_a_folder_that_is_not_there_is_no_problem(tmp_path: Path) -> None:
    assert load_themes(tmp_path / "none")[1] == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "No Caps"}, "name must be"),
        ({"name": 3}, "name must be"),
        ({"dark": "yes"}, "dark must be true or false"),
        ({"colours": {}}, "colours is not known"),
        ({"colors": {}}, "colors.primary is missing"),
        ({"colors": {**dict.fromkeys(COLORS, "#123456"), "primry": "#fff"}}, "colors.primry is not known"),
        ({"colors": {**dict.fromkeys(COLORS, "#123456"), "error": "#12345"}}, "colors.error = '#12345' is no colour"),
        ({"colors": [1]}, "colors must be a table of texts"),
        ({"variables": {"border": 3}}, "variables must be a table of texts"),
        ({"variables": {"border": "thick"}}, "variables.border = 'thick' is no colour"),
        ({"terminal_colors": 1}, "terminal_colors must be true or false"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(change: dict[str, object], said: str) -> None:
    with pytest.raises(ThemeError, match=r"^Theme x\.toml: ") as caught:
        parse_theme({**GOOD, **change}, "x.toml")
    assert said in str(caught.value)


def test_a_file_that_is_not_toml_or_cannot_be_read_is_an_error_in_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("name = ", encoding="utf-8")
    with pytest.raises(ThemeError, match="not valid TOML") as caught:
        read_theme(broken)
    assert "\n" not in str(caught.value)
    with pytest.raises(ThemeError, match="cannot be read"):
        read_theme(tmp_path / "none.toml")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ThemeError, match="not valid TOML"):
        read_theme(binary)


def test_a_theme_needs_only_the_colours_that_must_be_named() -> None:
    theme = parse_theme(GOOD, "x.toml")
    assert theme.name == "mine"
    assert theme.variables["muted"].startswith("#")
    assert parse_theme({**GOOD, "terminal_colors": True}, "x.toml").variables["muted"] == "dim"
