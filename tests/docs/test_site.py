"""The documentation site: every page has its place, every link works, and nothing loads from another host."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import moving_picture
from tests.docs.blocks import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site."""
    target = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)],
        cwd=ROOT, env={"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return target


@pytest.mark.broad  # `make docs` builds the site, too
def test_site_is_built_without_a_warning_and_has_every_page(site: Path) -> None:
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.name != "README.md"]
    missing = [
        str(page)
        for page in pages
        if not (site / page.relative_to(ROOT / "docs").with_suffix("") / "index.html").exists()
    ]
    assert missing == []
    for name in ("index.html", "CHANGELOG/index.html", "SECURITY/index.html", "tutorial/quickstart/index.html"):
        assert (site / name).exists(), name


def test_every_page_but_decisions_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"^ +- (?:\w+: )?([\w/-]+\.md)$", text, re.MULTILINE))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages - named if not page.startswith("decisions/")} == set()


@pytest.mark.broad  # `make docs` builds the site, too
def test_code_blocks_of_the_site_have_no_notes_for_tests(site: Path) -> None:
    html = (site / "how-to/install/index.html").read_text(encoding="utf-8")
    assert "skip=" not in html
    assert 'class="highlight"' in html


@pytest.mark.broad  # `make docs` builds the site, too
def test_pages_of_the_site_load_nothing_from_another_host(site: Path) -> None:
    html = (site / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'(?:src|<link[^>]*rel="(?:stylesheet|preconnect)"[^>]*href)="https?://[^"]*"', html) == []


def test_moving_picture_is_small_and_shows_both_recoveries_and_the_approval() -> None:
    text = moving_picture.PICTURE.read_text(encoding="utf-8")
    assert len(text) < 200_000
    assert "<script" not in text
    assert not re.search(r'(?:href|src)="(?!#)', text)
    words = " ".join(re.sub(r"<[^>]*>", " ", text).split())
    for part in ("truncated at the output limit", "continued 1/3", "none missing", "Edit hello.py", "1 Yes", "Done:"):
        assert part in words
    assert "prefers-reduced-motion" in text


def test_rows_that_frames_share_are_drawn_once() -> None:
    frames = [moving_picture.Frame(("a", "b", ""), 1.0), moving_picture.Frame(("a", "c", ""), 1.0)]
    text = moving_picture.picture(frames)
    assert text.count('<g id="r') == 3
    assert text.count('href="#r0"') == 2
    assert "50.000%" in text
