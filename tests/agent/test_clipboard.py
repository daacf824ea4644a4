"""The clipboard is read with the installed programs; a missing one is reported."""

from __future__ import annotations

import base64
from pathlib import Path

from qcode.agent.context.clipboard import ClipboardContent, read_clipboard
from tests.agent.context.folders import make_executable
from tests.agent.test_pictures import png


class FakeClipboard:
    def __init__(self, base: Path) -> None:
        self.bin, self.project = base / "bin", base / "project"
        self.bin.mkdir()
        self.project.mkdir()
        (base / "image.png").write_bytes(png(2, 2))
        self.image = base / "image.png"

    def program(self, name: str, script: str) -> None:
        make_executable(self.bin / name, script)

    def read(self, system: str = "linux", **env: str) -> ClipboardContent:
        return read_clipboard({"PATH": f"{self.bin}:/usr/bin:/bin", **env}, self.project, system=system)


def test_wayland_clipboard_gives_the_image_or_the_text(tmp_path: Path) -> None:
    fake = FakeClipboard(tmp_path)
    fake.program("wl-paste", f'case "$*" in --list-types) echo image/png;; "--type image/png") cat {fake.image};; esac')
    assert fake.read(WAYLAND_DISPLAY="w") == ClipboardContent(png(2, 2))
    fake.program("wl-paste", 'case "$*" in --list-types) echo text/plain;; --no-newline) printf "two\\nlines";; esac')
    assert fake.read(WAYLAND_DISPLAY="w") == ClipboardContent(text="two\nlines")


def test_x11_clipboard_lists_the_types_first(tmp_path: Path) -> None:
    fake = FakeClipboard(tmp_path)
    fake.program("xclip", f'case "$*" in *TARGETS) echo TARGETS image/png;; *image/png) cat {fake.image};; esac')
    assert fake.read(DISPLAY=":0") == ClipboardContent(png(2, 2))


def test_missing_clipboard_program_is_named(tmp_path: Path) -> None:
    fake = FakeClipboard(tmp_path)
    assert "wl-paste" in fake.read(WAYLAND_DISPLAY="w", PATH=str(fake.bin)).problem
    assert "xclip" in fake.read(DISPLAY=":0", PATH=str(fake.bin)).problem
    assert "no display" in fake.read().problem
    assert "powershell.exe" in fake.read(WSL_DISTRO_NAME="U", PATH=str(fake.bin)).problem


def test_macos_and_wsl_use_their_own_programs(tmp_path: Path) -> None:
    fake = FakeClipboard(tmp_path)
    fake.program("pngpaste", f"cat {fake.image}")
    assert fake.read("darwin") == ClipboardContent(png(2, 2))
    fake.program("pngpaste", "exit 1")
    fake.program("osascript", f"printf '\\302\\253data PNGf{png(2, 2).hex().upper()}\\302\\273'")
    assert fake.read("darwin") == ClipboardContent(png(2, 2))
    fake.program("osascript", "exit 1")
    fake.program("pbpaste", "printf text")
    assert fake.read("darwin") == ClipboardContent(text="text")
    fake.program("powershell.exe", f'case "$*" in *GetImage*) echo {base64.b64encode(png(2, 2)).decode()};; esac')
    assert fake.read(WSL_DISTRO_NAME="U") == ClipboardContent(png(2, 2))


def test_clipboard_program_in_the_project_is_not_run(tmp_path: Path) -> None:
    fake = FakeClipboard(tmp_path)
    make_executable(fake.project / "xclip", f"touch {tmp_path}/ran")
    assert "needs xclip" in fake.read(DISPLAY=":0", PATH=str(fake.project)).problem
    assert not (tmp_path / "ran").exists()


def test_failing_program_means_an_empty_clipboard(tmp_path: Path) -> None:
    fake = FakeClipboard(tmp_path)
    fake.program("xclip", "exit 1")
    assert fake.read(DISPLAY=":0") == ClipboardContent()
