"""Theme files: qcode's own are valid and readable; a user's are checked, and errors name the file."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path

import pytest
from rich.color import Color as RichColor
from rich.console import COLOR_SYSTEMS
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.theme import Theme

from qcode.tui.app import QcodeApp
from qcode.tui.shared_widgets import SteadyInput
from qcode.tui.terminal import themed_app
from qcode.tui.theme import (
    AUTO,
    COLORS,
    ThemeError,
    builtin_folder,
    choose_theme,
    first_theme,
    for_256_colors,
    load_themes,
    parse_theme,
    read_theme,
    with_grays,
)
from qcode.tui.transcript.line import style_of
from qcode.tui.transcript.palette import MIN_CONTRAST, Palette, contrast, readable, shown_color
from tests.tui.harness import Running, drive
from tests.tui.scripted import ScriptedConversation, ended, says
from tests.tui.scripted_keys import ScriptedKeysService

GOOD = {"name": "mine", "dark": True, "colors": dict.fromkeys(COLORS, "#123456")}


def _text(name: str = "mine", **colors: str) -> str:
    expected = {**dict.fromkeys(COLORS, "#123456"), **colors}
    rows = "".join(f'{color} = "{value}"\n' for color, value in expected.items())
    return f'name = "{name}"\ndark = true\n[colors]\n{rows}'


OURS = (
    "dark",
    "light",
    "high-contrast",
    "terminal",
    "terminal-light",
    "catppuccin-mocha",
    "gruvbox-dark",
    "tokyo-night",
)
COLORED = tuple(name for name in OURS if not name.startswith("terminal"))

TEXT_SLOTS = (
    *("welcome", "user", "user-mark", "thinking", "thinking-title", "mark", "dim", "notice-info", "notice-warning"),
    *("notice-error", "heading", "link", "target", "quote", "bullet", "code", "code-block", "card-argument"),
    *("card-running", "card-done", "card-failed", "card-denied", "output", "diff-add", "diff-remove", "diff-hunk"),
    *("new-text", "found"),
)
"""Slots of readable text."""

ON_CODE = ("label", "keyword", "type", "string", "number", "comment", "function")

APART = (
    ("notice-info", "notice-warning", "notice-error"),
    ("card-running", "card-done", "card-failed", "card-denied", "dim"),
    ("code-keyword", "code-type", "code-string", "code-number", "code-comment", "code-function", "code-block"),
    ("diff-add", "diff-remove", ""),
    ("diff-add", "diff-add-word"),
    ("diff-remove", "diff-remove-word"),
    ("", "heading", "link", "code", "quote", "strong", "emphasis", "strike"),
    ("user", "", "thinking"),
    ("heading", "heading-1"),
    ("found", "new-text", ""),
    ("old", ""),
)
"""Slots that must look different; the empty one is plain text."""


def test_built_in_themes_load_without_problems() -> None:
    themes, problems = load_themes()
    assert set(themes) == set(OURS)
    assert problems == ()
    assert [name for name, theme in themes.items() if not theme.dark] == ["light", "terminal-light"]
    assert [name for name, theme in themes.items() if theme.ansi] == ["terminal-light", "terminal"]


def styles_of(name: str) -> dict[tuple[str, ...], Style]:
    """Return the style of each slot in a theme, with its background."""
    found: dict[tuple[str, ...], Style] = {}
    expected = {*(slots for group in APART for slots in group), *TEXT_SLOTS}
    styles: set[tuple[str, ...]] = {(slot,) if slot else () for slot in expected}
    styles |= {("code-block", f"code-{slot}") for slot in ON_CODE}
    styles |= {("diff-add", "diff-add-word"), ("diff-remove", "diff-remove-word"), ("heading", "heading-1")}

    async def test(run: Running) -> None:
        palette = Palette(run.app.widgets.transcript)
        found.update({slots: palette.style(style_of(*slots)) for slots in styles})

    drive(test, theme=name)
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OURS)
def test_slots_with_different_meanings_have_different_colors(name: str) -> None:
    styles = styles_of(name)
    nested = {slots[-1]: slots for slots in styles if len(slots) == 2}
    for group in APART:
        shown = {slot: styles[nested.get(slot, (slot,) if slot else ())] for slot in group}
        for one, other in combinations(group, 2):
            if (name, one, other) == ("terminal-light", "code-type", "code-function"):
                continue  # few of the 16 colors are readable on white
            assert _is_distinguishable(shown[one], shown[other]), f"{one or 'text'} and {other or 'text'}"


def _is_distinguishable(one: Style, other: Style) -> bool:
    """Whether the attributes differ, or a color enough to be visible."""
    if (one.bold, one.italic, one.underline, one.strike, one.reverse, one.dim) != (
        other.bold,
        other.italic,
        other.underline,
        other.strike,
        other.reverse,
        other.dim,
    ):
        return True
    return any(_distance(getattr(one, part), getattr(other, part)) > 24 for part in ("color", "bgcolor"))


def _distance(one: RichColor | None, other: RichColor | None) -> float:
    if one is None or other is None or not (one.triplet and other.triplet):
        return 0 if one == other else 1_000
    return math.dist(one.triplet, other.triplet)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", COLORED)
def test_every_text_contrasts_with_its_background(name: str) -> None:
    least = 7.0 if name == "high-contrast" else 4.5
    for slots, style in styles_of(name).items():
        if slots == ("old",):
            continue
        assert style.color is not None
        assert style.bgcolor is not None
        ratio = contrast(Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor))
        assert ratio >= least, f"{' '.join(slots)}: {ratio:.1f}"


CHANGED = ("diff-add", "diff-remove")
ON_GROUNDS = (
    *((f"code-{code}", change) for code in ON_CODE for change in CHANGED),
    *((f"code-{code}", change, f"{change}-word") for code in ON_CODE for change in CHANGED),
    *((change, f"{change}-word") for change in CHANGED),
    *((change, "diff-number") for change in CHANGED),
    *((change,) for change in CHANGED),
    *(("code-block", f"code-{code}") for code in ON_CODE),
    *(("user-band", user) for user in ("user", "user-mark")),
    ("chosen",),
    ("found",),
    ("new-text",),
)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("colors", ["truecolor", "256"])
@pytest.mark.parametrize("name", COLORED)
def test_text_on_a_changed_line_contrasts_with_its_ground_in_every_color_depth(name: str, colors: str) -> None:
    system = COLOR_SYSTEMS[colors]
    ratios: dict[str, float] = {}

    async def test(run: Running) -> None:
        run.app.console._color_system = system
        palette = Palette(run.app.widgets.transcript)
        for slots in (*ON_GROUNDS, *((slot,) for slot in TEXT_SLOTS)):
            style = palette.style(style_of(*slots))
            assert style.color is not None
            assert style.bgcolor is not None
            ratios[" ".join(slots)] = contrast(shown_color(style.color, system), shown_color(style.bgcolor, system))
        rows = [palette.style(style_of(change)).bgcolor for change in CHANGED]
        words = [palette.style(style_of(change, f"{change}-word")).bgcolor for change in CHANGED]
        assert len({shown_color(ground, system) for ground in (*rows, *words) if ground is not None}) == 4

    drive(test, theme=name)
    assert {slots: ratio for slots, ratio in ratios.items() if ratio < MIN_CONTRAST} == {}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("colors", ["truecolor", "256"])
@pytest.mark.parametrize("name", COLORED)
def test_selected_chosen_and_found_text_contrasts_in_every_slot(name: str, colors: str) -> None:
    system = COLOR_SYSTEMS[colors]
    ratios: dict[str, float] = {}

    async def test(run: Running) -> None:
        run.app.console._color_system = system
        transcript = run.app.widgets.transcript
        palette = Palette(transcript)
        states = {
            "selected": transcript.selected_text_style(),
            "chosen": palette.style(style_of("chosen")),
            "found": palette.style(style_of("found")),
        }
        for slots in (*ON_GROUNDS, *((slot,) for slot in TEXT_SLOTS)):
            text = Segment("text", palette.style(style_of(*slots)))
            for state, added in states.items():
                ((_, style, _),) = palette.painted_over([text], 0, -1, added)
                assert style is not None
                assert style.color is not None
                assert style.bgcolor is not None
                ground = shown_color(style.bgcolor, system)
                ratios[f"{' '.join(slots)} {state}"] = contrast(shown_color(style.color, system), ground)

    drive(test, theme=name)
    assert {slots: round(ratio, 1) for slots, ratio in ratios.items() if ratio < MIN_CONTRAST} == {}


@pytest.mark.parametrize("name", ["dark", "catppuccin-mocha", "gruvbox-dark", "tokyo-night"])
def test_prompt_is_on_gray_in_256_colors(name: str) -> None:
    system = COLOR_SYSTEMS["256"]
    bands: list[Color] = []

    async def test(run: Running) -> None:
        run.app.console._color_system = system
        style = Palette(run.app.widgets.transcript).style(style_of("user-band"))
        assert style.bgcolor is not None
        bands.append(shown_color(style.bgcolor, system))

    drive(test, theme=name)
    assert [(band.r, band.g, band.b) for band in bands] == [(0x30, 0x30, 0x30)]


@pytest.mark.parametrize("name", ["dark", "catppuccin-mocha", "gruvbox-dark", "tokyo-night"])
def test_dark_backgrounds_are_different_grays_in_256_colors(name: str) -> None:
    theme = with_grays(load_themes()[0][name])
    backgrounds = [
        shown_color(Color.parse(color or "").rich_color, COLOR_SYSTEMS["256"])
        for color in (theme.background, theme.surface, theme.panel)
    ]
    assert len(set(backgrounds)) == 3
    for color in backgrounds:
        assert color.r == color.g == color.b > 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", COLORED)
def test_selected_text_and_hints_in_fields_contrast_in_256_colors(name: str) -> None:
    system = COLOR_SYSTEMS["256"]
    ratios: dict[str, float] = {}

    async def test(run: Running) -> None:
        app, field = run.app, SteadyInput()
        app.console._color_system = system
        app.theme = "textual-light"
        app.theme = name
        await app.screen.mount(field)
        await run.pilot.pause()
        for widget, prefix in ((app.widgets.prompt, "text-area"), (field, "input")):
            for part in ("selection", "placeholder"):
                style = widget.get_component_rich_style(f"{prefix}--{part}")
                assert style.color is not None
                assert style.bgcolor is not None
                ground = shown_color(style.bgcolor, system)
                ratios[f"{prefix} {part}"] = contrast(shown_color(style.color, system), ground)

    drive(test, theme=name)
    assert {part: round(ratio, 1) for part, ratio in ratios.items() if ratio < MIN_CONTRAST} == {}


def test_only_the_shown_theme_is_adapted_to_256_colors(monkeypatch: pytest.MonkeyPatch) -> None:
    adapted: set[str] = set()

    def adapt(theme: Theme) -> Theme:
        adapted.add(theme.name)
        return for_256_colors(theme)

    async def test(run: Running) -> None:
        run.app.console._color_system = COLOR_SYSTEMS["256"]
        run.app.theme = "tokyo-night"
        await run.pilot.pause()
        assert len(run.app.theme_names) > 5
        assert adapted == {"tokyo-night"}

    monkeypatch.setattr(themed_app, "for_256_colors", adapt)
    drive(test)


def test_app_uses_gray_backgrounds_only_in_256_colors() -> None:
    async def test(run: Running) -> None:
        app, theme = run.app, load_themes()[0]["tokyo-night"]
        app.theme = "tokyo-night"
        assert app.current_theme.surface == theme.surface
        app.console._color_system = COLOR_SYSTEMS["256"]
        assert app.current_theme.surface == "#121212"

    drive(test)


# Blue, the darkest of the 16 colors, has a contrast of 2.2 with black in xterm; bright blue has 4.5 with both.
def test_terminal_theme_has_no_dark_blue_and_no_dim_comment_on_a_changed_line() -> None:
    assert load_themes()[0]["terminal"].primary == "ansi_bright_blue"
    dim: list[bool | None] = []

    async def test(run: Running) -> None:
        palette = Palette(run.app.widgets.transcript)
        dim.extend(palette.style(style_of("code-comment", change)).dim for change in CHANGED)

    drive(test, theme="terminal")
    assert dim == [False, False]


XTERM = {
    "ansi_blue": "#0000ee",
    "ansi_bright_blue": "#5c5cff",
    "ansi_magenta": "#cd00cd",
    "ansi_red": "#cd0000",
    "ansi_default": "#000000",
}


def test_terminal_theme_for_a_light_background_has_only_colors_that_contrast_with_white() -> None:
    theme = load_themes()[0]["terminal-light"]
    texts = ("primary", "secondary", "accent", "foreground", "success", "warning", "error")
    ratios = {text: contrast(Color.parse(XTERM[getattr(theme, text)]), Color.parse("white")) for text in texts}
    assert {text: ratio for text, ratio in ratios.items() if ratio < MIN_CONTRAST} == {}


def test_readable_text_keeps_its_color_and_other_text_most_of_its_hue() -> None:
    system = COLOR_SYSTEMS["truecolor"]
    good = Style.parse("#ffffff on #005f00")
    assert readable(good, system) == good
    raised = readable(Style.parse("#7aa2f7 on #3a6b3f"), system)
    assert raised.color is not None
    red, _, blue = raised.color.get_truecolor()
    assert blue > red


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", COLORED)
def test_old_text_of_an_attempt_is_readable(name: str) -> None:
    style = styles_of(name)[("old",)]
    assert style.color is not None
    assert style.bgcolor is not None
    assert contrast(Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor)) >= 3.0


@pytest.mark.parametrize("name", COLORED)
def test_every_panel_color_contrasts_with_every_background(name: str) -> None:
    theme = load_themes()[0][name]
    variables = {**theme.to_color_system().generate(), **theme.variables}
    least = 7.0 if name == "high-contrast" else 4.5
    for ground in ("background", "surface"):
        for paint in ("foreground", "muted", *(f"text-{part}" for part in _PARTS)):
            ratio = contrast(Color.parse(variables[ground]), Color.parse(variables[paint]))
            assert ratio >= least, f"{paint} on {ground}: {ratio:.1f}"


_PARTS = ("accent", "primary", "success", "warning", "error")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OURS)
def test_app_renders_in_every_theme(name: str) -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("f1", "slash")
        await run.pilot.pause()
        assert run.app.theme == name
        assert "Shift+Enter" in run.app.export_screenshot().replace("&#160;", " ")

    drive(test, ScriptedConversation(), theme=name)


def test_packaged_theme_folder_is_preferred_to_that_of_a_checkout(tmp_path: Path) -> None:
    package = tmp_path / "qcode"
    (tmp_path / "themes").mkdir()
    package.mkdir()
    assert builtin_folder(package) == tmp_path / "themes"
    (package / "themes").mkdir()
    assert builtin_folder(package) == package / "themes"


def test_plain_dark_theme_is_used_if_the_theme_folder_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcode.tui.theme.builtin_folder", lambda: tmp_path)
    assert first_theme("auto", None, {}) is None
    themes, problems = load_themes()
    assert list(themes) == ["dark"]
    assert problems == ("No theme files found; using a plain dark theme. Reinstall qcode.",)


def test_user_theme_replaces_built_in_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(_text("mine"), encoding="utf-8")
    (tmp_path / "b.toml").write_text(_text("dark", primary="#ff0000"), encoding="utf-8")
    themes, problems = load_themes(tmp_path)
    assert problems == ()
    assert "mine" in themes
    assert themes["dark"].primary == "#ff0000"


def test_invalid_theme_file_is_skipped_named_and_reported(tmp_path: Path) -> None:
    (tmp_path / "themes").mkdir()
    (tmp_path / "themes" / "bad.toml").write_text(_text("bad", primary="bluish"), encoding="utf-8")

    async def test(run: Running) -> None:
        assert 'colors.primary = "bluish" is not a color' in run.text.replace("\n", " ")
        assert "bad" not in run.app.theme_names

    drive(test, config_dir=tmp_path)


def test_missing_theme_folder_is_not_an_error(tmp_path: Path) -> None:
    assert load_themes(tmp_path / "none")[1] == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "No Caps"}, "name must be"),
        ({"name": 3}, "name must be"),
        ({"dark": "yes"}, "dark must be true or false"),
        ({"color": {}}, "color; did you mean colors?"),
        ({"variables": {"boder": "#123456"}}, "variables.boder; did you mean variables.border?"),
        ({"colors": {}}, "colors.primary is missing"),
        (
            {"colors": {**dict.fromkeys(COLORS, "#123456"), "primry": "#fff"}},
            "did you mean colors.primary?",
        ),
        (
            {"colors": {**dict.fromkeys(COLORS, "#123456"), "error": "#12345"}},
            'colors.error = "#12345" is not a color',
        ),
        ({"colors": [1]}, "colors must be a table of strings"),
        ({"variables": {"border": 3}}, "variables must be a table of strings"),
        ({"variables": {"border": "thick"}}, 'variables.border = "thick" is not a color'),
        ({"terminal_colors": 1}, "terminal_colors must be true or false"),
    ],
)
def test_theme_error_names_the_file(change: dict[str, object], message: str) -> None:
    with pytest.raises(ThemeError, match=r"^Theme x\.toml: ") as caught:
        parse_theme({**GOOD, **change}, "x.toml")
    assert message in str(caught.value)


@pytest.mark.parametrize("text", [b"\xff", b"dark = 3", None])
def test_theme_error_names_the_home_folder_with_a_tilde(
    text: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "sand.toml"
    if text is not None:
        file.write_bytes(text)
    with pytest.raises(ThemeError, match=r"^Theme ~/sand\.toml[:,]"):
        read_theme(file)


def test_theme_file_that_is_unreadable_or_not_toml_is_a_one_line_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("name = ", encoding="utf-8")
    with pytest.raises(ThemeError, match="not valid TOML") as caught:
        read_theme(broken)
    assert "\n" not in str(caught.value)
    with pytest.raises(ThemeError, match="cannot read the file"):
        read_theme(tmp_path / "none.toml")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ThemeError, match="not valid TOML"):
        read_theme(binary)


def test_theme_needs_only_the_required_colors() -> None:
    theme = parse_theme(GOOD, "x.toml")
    assert theme.name == "mine"
    assert theme.variables["muted"].startswith("#")
    assert parse_theme({**GOOD, "terminal_colors": True}, "x.toml").variables["muted"] == "dim"


def test_theme_error_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(_text("mine", error="reddish"), encoding="utf-8")
    line = path.read_text(encoding="utf-8").split("\n").index('error = "reddish"') + 1
    with pytest.raises(ThemeError, match=rf"mine\.toml, line {line}: colors\.error = \"reddish\" is not a color"):
        read_theme(path)


@pytest.mark.parametrize(
    ("expected", "ground", "chosen"),
    [
        (AUTO, None, "dark"),
        (AUTO, "15;0", "dark"),
        (AUTO, "0;15", "light"),
        (AUTO, "0;default;7", "light"),
        (AUTO, "odd", "dark"),
        ("light", "15;0", "light"),
        ("tokyo-night", "0;15", "tokyo-night"),
        ("nowhere", None, "dark"),
    ],
)
def test_auto_theme_matches_the_terminal(expected: str, ground: str | None, chosen: str) -> None:
    assert choose_theme(expected, OURS, {"COLORFGBG": ground} if ground else {}) == chosen
    assert choose_theme(expected, ["only"], {}) == "only"
    if expected == AUTO:
        few = choose_theme(expected, OURS, {"COLORFGBG": ground} if ground else {}, has_few_colors=True)
        assert few == {"dark": "terminal", "light": "terminal-light"}[chosen]


def contrast_of(app: QcodeApp, text: str) -> float:
    """Return the lowest contrast of the segments on the screen that contain `text`."""
    segments = [segment for strip in app.screen._compositor.render_strips() for segment in strip]
    styles = [segment.style for segment in segments if text in segment.text and segment.style is not None]
    return min(
        contrast(Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor))
        for style in styles
        if style.color is not None and style.bgcolor is not None
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("theme", ["light", "dark", "gruvbox-dark", "high-contrast"])
def test_current_match_and_placeholder_of_a_key_contrast_with_their_background(theme: str) -> None:
    async def test(run: Running) -> None:
        await run.send("go")
        await run.until_idle()
        await run.pilot.press("ctrl+f", *"needle")
        await run.until(lambda: "2 of 2" in run.screen)
        assert contrast_of(run.app, "needle") >= 4.5
        await run.pilot.press("escape")
        await run.send("/connect anthropic")
        await run.until(lambda: "aste or type the key" in run.screen)
        await run.pilot.pause()
        assert contrast_of(run.app, "aste or type the key") >= 4.5

    talk = ScriptedConversation([*says("a needle and a needle"), ended()])
    drive(test, talk, theme=theme, connect=ScriptedKeysService())
