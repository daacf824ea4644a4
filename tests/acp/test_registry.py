"""The entry for the public registry of agents."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

from qcode import __version__

ROOT = Path(__file__).parents[2]
ENTRY = ROOT / "docs" / "registry" / "qcode"


def test_registry_entry_pins_this_version_of_the_package() -> None:
    entry = json.loads((ENTRY / "agent.json").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert entry["id"] == ENTRY.name
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])
    assert entry["version"] == __version__
    assert entry["distribution"]["uvx"] == {"package": f"{project['name']}=={__version__}", "args": ["acp"]}
    assert entry["license"] == project["license"]


def test_icon_of_the_registry_is_small_and_has_the_current_color_only() -> None:
    icon = ElementTree.fromstring((ENTRY / "icon.svg").read_text("utf-8"))
    assert (icon.get("width"), icon.get("height"), icon.get("viewBox")) == ("16", "16", "0 0 16 16")
    colors = {item.get(name) for item in icon.iter() for name in ("fill", "stroke", "color") if item.get(name)}
    assert colors <= {"currentColor", "none"}
