"""The animation in the README: `python -m scripts.moving_picture` records the app and writes `docs/moving.svg`.

qcode runs in a real terminal on the demo model: a truncated reply is requested again and continued, then an edit is
shown and approved. The SVG contains each distinct row of the screen once. The frames refer to the rows, and CSS shows
one frame after another. A viewer without animation shows the last frame.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TypeAlias
from xml.sax.saxutils import escape

from pyte.screens import Char

from tests.e2e.running import CliRunner
from tests.e2e.terminal import Terminal

PICTURE = Path(__file__).parents[1] / "docs" / "moving.svg"
COLUMNS, ROWS = 88, 24
_CELL_W, _CELL_H, _PAD = 8.4, 18, 14  # pixels
_FOREGROUND, _BACKGROUND = "#c8d0dc", "#12151c"
_MAX_S, _MIN_S = 1.2, 0.08  # of one frame
_COLORS = {
    "black": "#1c1f26", "red": "#e06c75", "green": "#98c379", "brown": "#e5c07b", "blue": "#61afef",
    "magenta": "#c678dd", "cyan": "#56b6c2", "white": "#c8d0dc",
}  # fmt: skip

Style: TypeAlias = "tuple[str, str, bool, bool]"
"""Foreground, background, bold, italic."""


@dataclass(frozen=True)
class Frame:
    """The rows of a screen as SVG, and the seconds for which it is shown."""

    rows: tuple[str, ...]
    seconds: float


class Recorder:
    """A recorder of the screen of a terminal as frames. Equal frames become one."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._since = time.monotonic()
        self.frames: list[Frame] = []

    def add_frame(self, seconds: float = 0.0) -> None:
        """Add the current screen. It is shown for `seconds`, by default for about the time since the last frame."""
        now = time.monotonic()
        rows = tuple(row_svg(self._terminal, row) for row in range(ROWS))
        shown = seconds or min(max(now - self._since, _MIN_S), _MAX_S)
        if self.frames and self.frames[-1].rows == rows:
            self.frames[-1] = Frame(rows, min(self.frames[-1].seconds + shown, seconds or _MAX_S))
        else:
            self.frames.append(Frame(rows, shown))
        self._since = now

    def record_until(self, expected: str, every_s: float, seconds: float = 0.0) -> None:
        """Add a frame every `every_s` seconds until the screen shows `expected`. Show the last one for `seconds`."""
        last = time.monotonic()

        def is_shown(text: str) -> bool:
            nonlocal last
            if time.monotonic() - last >= every_s:
                last = time.monotonic()
                self.add_frame()
            return expected in text

        self._terminal.wait_for(is_shown, 60)
        self.add_frame(seconds)

    def type_prompt(self, text: str) -> None:
        """Type a prompt, with a frame after every three letters, and send it."""
        for start in range(0, len(text), 3):
            typed = text[: start + 3].rstrip()
            self._terminal.press(text[start : start + 3])
            self._terminal.wait_for(lambda screen, typed=typed: typed in screen)  # type: ignore[misc]  # bound now
            self.add_frame(0.12)
        self._terminal.press("\r")


def record() -> list[Frame]:
    """Play the demonstration and return its frames."""
    with tempfile.TemporaryDirectory() as folder:
        cli = CliRunner(Path(folder))
        cli.work = cli.home / "project"
        cli.work.mkdir()
        (cli.work / "hello.py").write_text('def hello(name):\n    return f"Hello, {name}"\n')
        home = {"QCODE_HOME": str(cli.home / ".qcode"), "NO_COLOR": "", "COLORTERM": "truecolor"}
        arguments = ("-m", "demo/demo", "--trust", "--theme", "dark")
        with Terminal(cli, *arguments, env=home, columns=COLUMNS, rows=ROWS) as terminal:
            terminal.wait_for("? keys")
            recorder = Recorder(terminal)
            recorder.add_frame(1.2)
            recorder.type_prompt("a very long reply")
            for text in ("truncated at the output limit", "continued 1/3", "none missing"):
                recorder.record_until(text, 0.4)
            recorder.record_until("Shift+Tab", 0.4, 3.0)
            recorder.type_prompt("add a docstring to hello.py")
            recorder.record_until("1 Yes", 0.3, 3.0)
            # A key right after the question appears counts as typed before it, and does not answer it.
            shown = time.monotonic()
            terminal.wait_for(lambda _: time.monotonic() - shown > 1)
            terminal.press("y")
            recorder.record_until("Done:", 0.3)
            recorder.record_until("Shift+Tab", 0.3, 4.0)
            return recorder.frames


def row_svg(terminal: Terminal, row: int) -> str:
    """Return one row of the screen as SVG: the backgrounds, then the text of each run of cells of the same style."""
    cells = [terminal.screen.buffer[row][index] for index in range(COLUMNS)]
    parts, column, texts = [], 0, []
    for style, group in groupby(cells, key=_style):
        run = list(group)
        foreground, background, is_bold, is_italic = style
        width = f"{len(run) * _CELL_W:g}"
        if background != _BACKGROUND:
            parts.append(f'<rect x="{column * _CELL_W:g}" width="{width}" height="{_CELL_H}" fill="{background}"/>')
        text = "".join(cell.data for cell in run)
        stripped = text.lstrip(" ")
        indent = len(text) - len(stripped)
        stripped = stripped.rstrip(" ")
        if stripped:
            marks = (' font-weight="bold"' if is_bold else "") + (' font-style="italic"' if is_italic else "")
            texts.append(
                f'<text x="{(column + indent) * _CELL_W:g}" y="13" fill="{foreground}"{marks} '
                f'textLength="{len(stripped) * _CELL_W:g}">{escape(stripped)}</text>'
            )
        column += len(run)
    return "".join((*parts, *texts))


def _style(cell: Char) -> Style:
    foreground, background = _color(cell.fg, _FOREGROUND), _color(cell.bg, _BACKGROUND)
    if cell.reverse:
        foreground, background = background, foreground
    return foreground, background, cell.bold, cell.italics


def _color(name: str, default: str) -> str:
    if name == "default":
        return default
    return _COLORS.get(name.removeprefix("bright"), f"#{name}" if len(name) == 6 else default)


def picture(frames: list[Frame]) -> str:
    """Return the frames as one animated SVG without scripts and links."""
    names: dict[str, str] = {}
    for frame in frames:
        for row in frame.rows:
            if row:
                names.setdefault(row, f"r{len(names)}")
    width, height = COLUMNS * _CELL_W + 2 * _PAD, ROWS * _CELL_H + 2 * _PAD
    defined = "".join(f'<g id="{name}">{row}</g>' for row, name in names.items())
    total = sum(frame.seconds for frame in frames)
    steps, drawn, elapsed = [], [], 0.0
    for number, frame in enumerate(frames):
        steps.append(f"{elapsed / total * 100:.3f}%{{transform:translateY(-{number * height:g}px)}}")
        elapsed += frame.seconds
        rows = "".join(
            f'<use href="#{names[row]}" y="{index * _CELL_H}"/>' for index, row in enumerate(frame.rows) if row
        )
        drawn.append(f'<g transform="translate({_PAD} {number * height + _PAD:g})">{rows}</g>')
    last = f"translateY(-{(len(frames) - 1) * height:g}px)"
    style = (
        f"text{{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:14px;"
        f"white-space:pre}}#film{{transform:{last}}}@keyframes film{{{''.join(steps)}100%{{transform:{last}}}}}"
        f"@media (prefers-reduced-motion:no-preference){{#film{{animation:film {total:.2f}s step-end infinite}}}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" xml:space="preserve" role="img" aria-label="qcode in a terminal"><style>{style}</style>'
        f'<rect width="100%" height="100%" rx="8" fill="{_BACKGROUND}"/><defs>{defined}</defs>'
        f'<g id="film">{"".join(drawn)}</g></svg>\n'
    )


def main() -> None:
    PICTURE.write_text(picture(record()), encoding="utf-8")


if __name__ == "__main__":
    main()
