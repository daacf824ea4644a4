"""The parts of the package metadata that depend on the address of the repository: its links, and those of the README.

The address is a fact of a release, so the release workflow passes it in `QCODE_REPOSITORY` (`https://HOST/OWNER/NAME`).
Then the links and pictures of the README lead to the files of that version. Without it, as in a clone, the README is
used as it is. A wheel that is built from an sdist takes both from the sdist.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

VARIABLE = "QCODE_REPOSITORY"
_LINK = re.compile(r"(!?\[[^]]*\]\()(?![a-z]+:|#)([^)\s]+)")


def absolute(readme: str, repository: str, tag: str) -> str:
    """Return the README with links to the files of `tag`; pictures lead to the raw files."""

    def replaced(found: re.Match[str]) -> str:
        kind = "raw" if found[1].startswith("!") else "blob"
        return f"{found[1]}{repository}/{kind}/{tag}/{found[2]}"

    return _LINK.sub(replaced, readme)


class MetadataHook(MetadataHookInterface):
    """Sets `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository, tag = os.environ.get(VARIABLE, "").rstrip("/"), f"v{metadata['version']}"
        if repository and "readme" not in metadata:
            text = absolute(text, repository, tag)
        metadata.setdefault("readme", {"content-type": "text/markdown", "text": text})
        links = {
            "Source": repository,
            "Issues": f"{repository}/issues",
            "Documentation": f"{repository}/blob/{tag}/docs/README.md",
            "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        }
        metadata.setdefault("urls", links if repository else {})
