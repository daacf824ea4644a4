"""Hooks of the documentation site (`mkdocs.yml`): pages outside `docs`, links, and code blocks with notes for tests."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
ADDED = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
_FENCE = re.compile(r"^```([a-z]+) [^\n]*$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages at the top of the repository."""
    for name in ADDED:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with links that work on the site, and with code blocks that only name their language."""
    name = page.file.src_uri
    folder = PurePosixPath() if name in ADDED else PurePosixPath("docs", name).parent

    def link(match: re.Match[str]) -> str:
        target = normpath(str(folder / match[2]))
        if target not in (*ADDED, "README.md") and not target.startswith("docs/"):
            return match[1]  # a source file, which is not part of the site
        path = relpath(target.removeprefix("docs/"), PurePosixPath(name).parent)
        return f"[{match[1]}]({path}{match[3] or ''})"

    return _LINK.sub(link, _FENCE.sub(r"```\1", markdown))
