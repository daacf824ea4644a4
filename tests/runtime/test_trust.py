"""Trust is in one folder as it was then; a file others could have written trusts nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from qcode.runtime.trust import TrustStore


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "state")


def test_a_folder_is_unknown_until_it_is_remembered(store: TrustStore, root: Path) -> None:
    assert not store.is_trusted(root)
    store.remember(root)
    assert TrustStore(store.state_dir).is_trusted(root)


def test_the_file_is_for_its_owner_only(store: TrustStore, root: Path) -> None:
    store.remember(root)
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert store.state_dir.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in store.state_dir.iterdir()] == ["trust.json"]


def test_what_is_put_in_the_place_of_a_folder_is_not_trusted(store: TrustStore, root: Path) -> None:
    store.remember(root)
    root.rename(root.with_name("moved"))
    assert not store.is_trusted(root)
    assert not store.is_trusted(root.with_name("moved"))
    root.mkdir()
    assert not store.is_trusted(root)


def test_a_folder_that_is_trusted_again_replaces_the_one_before(store: TrustStore, root: Path) -> None:
    store.remember(root)
    root.rename(root.with_name("moved"))
    root.mkdir()
    store.remember(root)
    assert store.is_trusted(root)
    assert len(json.loads(store.path.read_text())["folders"]) == 1


def test_neither_parents_nor_folders_inside_are_covered(store: TrustStore, root: Path) -> None:
    inside = root / "vendor"
    inside.mkdir()
    store.remember(root)
    assert not store.is_trusted(inside)
    assert not store.is_trusted(root.parent)


def test_a_link_is_the_folder_it_leads_to(store: TrustStore, root: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    store.remember(link)
    assert store.is_trusted(root)
    assert store.is_trusted(link)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_trusts_nothing(mode: int, store: TrustStore, root: Path) -> None:
    store.remember(root)
    store.path.chmod(mode)
    assert not store.is_trusted(root)


def test_a_link_in_the_place_of_the_file_trusts_nothing(store: TrustStore, root: Path, tmp_path: Path) -> None:
    store.remember(root)
    other = tmp_path / "other.json"
    store.path.rename(other)
    store.path.symlink_to(other)
    assert not store.is_trusted(root)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"version":1}', '{"version":1,"folders":{}}', '{"version":1,"folders":[1,{},{"path":"/"}]}',
        '{"version":9,"folders":[]}', "\xff",
    ],
)  # fmt: skip
def test_a_file_that_makes_no_sense_trusts_nothing_and_is_replaced(text: str, store: TrustStore, root: Path) -> None:
    store.state_dir.mkdir()
    store.path.write_bytes(text.encode("latin-1"))
    store.path.chmod(0o600)
    assert not store.is_trusted(root)
    store.remember(root)
    assert store.is_trusted(root)


def test_a_folder_whose_name_is_no_text_can_be_trusted(store: TrustStore, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    store.remember(folder)
    assert store.is_trusted(folder)


def test_an_answer_that_cannot_be_kept_is_an_error(tmp_path: Path, root: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(OSError, match="exists"):
        TrustStore(tmp_path / "state").remember(root)
    with pytest.raises(FileNotFoundError):
        TrustStore(tmp_path / "other").remember(tmp_path / "nowhere")
