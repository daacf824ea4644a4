"""The list of skills as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from qcode.agent.skills.listing import list_text
from tests.agent.skills.folders import Places, put


def test_list_has_the_whole_description_of_a_skill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = Places(tmp_path)
    monkeypatch.setenv("HOME", str(places.home))
    monkeypatch.setenv("QCODE_HOME", str(places.config))
    description = "Writes the notes of a release from the commits since the last tag, and checks every link in them."
    put(places.root, ".qcode/skills/release", description=description)
    agent = places.run().agent
    assert agent.skills is not None
    assert f"    {description}" in list_text(agent.skills, agent.context).split("\n")
