"""The list of skills as text."""

from __future__ import annotations

from pathlib import Path

from qcode.agent.skills.listing import list_text
from tests.agent.skills.folders import Places, put


def test_list_has_the_whole_description_of_a_skill(tmp_path: Path) -> None:
    places = Places(tmp_path)
    description = "Writes the notes of a release from the commits since the last tag, and checks every link in them."
    put(places.root, ".qcode/skills/release", description=description)
    skills = places.run().agent.skills
    assert skills is not None
    assert f"    {description}" in list_text(skills).split("\n")
