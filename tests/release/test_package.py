"""The wheel and the sdist have everything that the README names, and links that work outside of the repository."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from qcode import __version__
from tests.arch.sources import ROOT

REPOSITORY = "https://code.test/owner/qcode"
LINK = re.compile(r"!?\[[^]]*\]\(([^)\s]+)\)")


def build(kind: str, source: Path, target: Path, env: Mapping[str, str]) -> Path:
    """Build a wheel or an sdist of the checkout as an installer does, and return it."""
    program = f"from hatchling.build import build_{kind} as build; build(__import__('sys').argv[1])"
    target.mkdir(exist_ok=True)
    subprocess.run(
        [sys.executable, "-c", program, str(target)], cwd=source, env=env, check=True, capture_output=True, timeout=100
    )
    (built,) = target.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(f"qcode_cli-{__version__}.dist-info/METADATA").decode())


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the sdist of a release, unpacked, and the wheel that is built from it as an installer does."""
    base = tmp_path_factory.mktemp("release")
    archive = build("sdist", ROOT, base / "sdist", {"PATH": "/usr/bin:/bin", "QCODE_REPOSITORY": f"{REPOSITORY}/"})
    with tarfile.open(archive) as file:
        file.extractall(base, filter="data")
    folder = base / f"qcode_cli-{__version__}"
    return folder, build("wheel", folder, base / "wheel", {"PATH": "/usr/bin:/bin"})


@pytest.mark.broad
def test_links_of_a_release_lead_to_the_files_of_its_version(released: tuple[Path, Path]) -> None:
    found = metadata(released[1])
    urls = dict(row.split(", ", 1) for row in found.get_all("Project-URL", []))
    assert urls["Source"] == REPOSITORY
    assert urls["Changelog"] == f"{REPOSITORY}/blob/v{__version__}/CHANGELOG.md"
    assert set(urls) == {"Source", "Issues", "Documentation", "Changelog"}
    text = str(found.get_payload())
    links = LINK.findall(text)
    assert len(links) > 10
    assert [link for link in links if not link.startswith(f"{REPOSITORY}/")] == []
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    assert pictures
    assert all(picture.startswith(f"{REPOSITORY}/raw/v{__version__}/docs/") for picture in pictures)


def test_build_of_a_clone_names_no_address(tmp_path: Path) -> None:
    wheel = build("wheel", ROOT, tmp_path / "wheel", {"PATH": "/usr/bin:/bin"})
    found = metadata(wheel)
    assert found.get_all("Project-URL") is None
    assert str(found.get_payload()).strip() == (ROOT / "README.md").read_text(encoding="utf-8").strip()
    assert {"images", "bedrock", "otel", "ray"} <= set(found.get_all("Provides-Extra", []))
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        commands = archive.read(f"qcode_cli-{__version__}.dist-info/entry_points.txt").decode()
    assert "qcode/themes/dark.toml" in names
    assert [name for name in names if name.startswith(("tests/", "scripts/", "docs/"))] == []
    assert commands.count("= qcode.__main__:main") == 2


@pytest.mark.broad
def test_sdist_has_every_file_that_the_readme_and_its_pages_name(released: tuple[Path, Path]) -> None:
    folder = released[0]
    for page in (folder / "README.md", folder / "CONTRIBUTING.md", folder / "docs/README.md"):
        links = [link.partition("#")[0] for link in LINK.findall(page.read_text(encoding="utf-8"))]
        missing = [link for link in links if link and "://" not in link and not (page.parent / link).exists()]
        assert missing == [], page
    for name in ("Makefile", "constraints.txt", "LICENSE", "hatch_build.py", ".ci/run", "tests/arch", "themes"):
        assert (folder / name).exists(), name
