"""Trust applies to a folder with its current files; a trust file that others can write is ignored."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from qcode.agent.trust.service import files_in_use
from qcode.agent.trust.store import TooLargeToPin, TrustStore


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "state")


def test_folder_is_unknown_until_it_is_remembered(store: TrustStore, root: Path) -> None:
    assert not store.is_trusted(root)
    store.remember(root)
    assert TrustStore(store.state_dir).is_trusted(root)


def test_trust_file_is_private(store: TrustStore, root: Path) -> None:
    store.remember(root)
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert store.state_dir.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in store.state_dir.iterdir()] == ["trust.json"]


def test_folder_that_replaced_a_trusted_one_is_not_trusted(store: TrustStore, root: Path) -> None:
    store.remember(root)
    root.rename(root.with_name("moved"))
    assert not store.is_trusted(root)
    assert not store.is_trusted(root.with_name("moved"))
    root.mkdir()
    assert not store.is_trusted(root)


def test_folder_trusted_again_replaces_its_earlier_entry(store: TrustStore, root: Path) -> None:
    store.remember(root)
    root.rename(root.with_name("moved"))
    root.mkdir()
    store.remember(root)
    assert store.is_trusted(root)
    assert len(json.loads(store.path.read_text())["folders"]) == 1


def test_trust_covers_neither_parents_nor_subfolders(store: TrustStore, root: Path) -> None:
    inside = root / "vendor"
    inside.mkdir()
    store.remember(root)
    assert not store.is_trusted(inside)
    assert not store.is_trusted(root.parent)


def test_link_is_trusted_as_its_target(store: TrustStore, root: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    store.remember(link)
    assert store.is_trusted(root)
    assert store.is_trusted(link)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_file_writable_by_others_trusts_nothing(mode: int, store: TrustStore, root: Path) -> None:
    store.remember(root)
    store.path.chmod(mode)
    assert not store.is_trusted(root)


def test_linked_trust_file_trusts_nothing(store: TrustStore, root: Path, tmp_path: Path) -> None:
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
def test_invalid_file_trusts_nothing_and_is_replaced(text: str, store: TrustStore, root: Path) -> None:
    store.state_dir.mkdir()
    store.path.write_bytes(text.encode("latin-1"))
    store.path.chmod(0o600)
    assert not store.is_trusted(root)
    store.remember(root)
    assert store.is_trusted(root)


def test_folder_with_a_name_that_is_not_utf_8_can_be_trusted(store: TrustStore, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    store.remember(folder)
    assert store.is_trusted(folder)


def test_answer_that_cannot_be_stored_is_an_error(tmp_path: Path, root: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(OSError, match="exists"):
        TrustStore(tmp_path / "state").remember(root)
    with pytest.raises(FileNotFoundError):
        TrustStore(tmp_path / "other").remember(tmp_path / "nowhere")


def put(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_folder_with_changed_files_is_not_trusted_until_they_are_accepted(store: TrustStore, root: Path) -> None:
    put(root, ".qcode/config.toml", 'model = "demo/demo"\n')
    put(root, ".qcode/commands/gone.toml", 'prompt = "go"\n')
    store.remember(root)
    assert store.is_trusted(root)
    put(root, ".qcode/config.toml", 'model = "demo/demo"\n[tools]\nsandbox = "required"\n')
    put(root, ".qcode/agents/new.md", "You are new.\n")
    (root / ".qcode/commands/gone.toml").unlink()
    status = store.status_of(root)
    assert status.kind == "changed"
    assert [change.name for change in status.changes] == [
        ".qcode/agents/new.md",
        ".qcode/commands/gone.toml",
        ".qcode/config.toml",
    ]
    differences = status.differences()
    for line in ("+You are new.", ".qcode/commands/gone.toml was deleted", '+tools.sandbox = "required"'):
        assert line in differences.split("\n")
    store.remember(root, status.files)
    assert store.is_trusted(root)


def test_file_changed_after_it_was_shown_is_not_accepted(store: TrustStore, root: Path) -> None:
    put(root, ".qcode/config.toml", 'model = "a/b"\n')
    status = store.status_of(root)
    put(root, ".qcode/config.toml", 'model = "c/d"\n')
    store.remember(root, status.files)
    assert store.status_of(root).kind == "changed"


@pytest.mark.parametrize(
    ("name", "text", "is_asked"),
    [
        (".qcode/config.toml", '# a comment\n\nmodel   = "a/b"\n', False),
        (".qcode/config.toml", 'model = "a/b"\n[mcp_servers.x]\ncommand = "x"\n', False),
        (".qcode/config.toml", 'model = "a/c"\n', True),
        (".qcode/config.toml", "model = [", True),
        (".qcode/commands/a.toml", 'prompt = "b"\n', True),
        (".qcode/anything/deep/er", "x", True),
        (".qcode/.config.toml.swp", "x", False),
        (".qcode/config.toml~", "x", False),
        ("AGENTS.md", "Obey.", False),
        (".mcp.json", "{}", False),
        ("src/app.py", "x", False),
        ("sub/.qcode/config.toml", "x", False),
        (".qcode/skills/x/scripts/.hidden.sh", "x", True),
        (".agents/skills/x/SKILL.md", "x", True),
        (".claude/skills/x/SKILL.md", "x", True),
        (".claude/skills/x/scripts/run.py", "x", True),
        (".claude/skills/x/scripts/.env.sh", "x", True),
        (".claude/skills/x/scripts/__pycache__/run.pyc", "x", False),
        (".claude/skills/x/.git/index", "x", False),
        (".claude/commands/go.md", "x", True),
        (".claude/agents/a.md", "x", True),
        (".claude/hooks/check.sh", "x", True),
        (".claude/settings.json", "{}", True),
        ("sub/.claude/skills/x/SKILL.md", "x", False),
    ],
)
def test_only_files_that_qcode_uses_without_asking_are_pinned(
    name: str, text: str, is_asked: bool, store: TrustStore, root: Path
) -> None:
    put(root, ".qcode/config.toml", 'model = "a/b"\n')
    store.remember(root)
    put(root, name, text)
    assert (store.status_of(root).kind == "changed") is is_asked


def test_links_are_pinned_by_their_target(store: TrustStore, root: Path, tmp_path: Path) -> None:
    put(root, "shared/commands/go.toml", 'prompt = "go"\n')
    outside = put(tmp_path, "outside.toml", 'model = "a/b"\n')
    (root / ".qcode").mkdir()
    (root / ".qcode/commands").symlink_to("../shared/commands")
    (root / ".qcode/config.toml").symlink_to(outside)
    (root / ".qcode/loop").symlink_to(".")
    store.remember(root)
    put(root, "shared/commands/go.toml", 'prompt = "stop"\n')
    assert [change.name for change in store.status_of(root).changes] == [".qcode/commands/go.toml"]
    store.remember(root)
    outside.write_text('model = "canary"\n')
    (change,) = store.status_of(root).changes
    assert change.name == ".qcode/config.toml"
    assert "canary" not in store.path.read_text() + change.diff()


def test_special_file_neither_blocks_nor_hides_a_change(store: TrustStore, root: Path) -> None:
    (root / ".qcode").mkdir()
    os.mkfifo(root / ".qcode/config.toml")
    store.remember(root)
    assert store.is_trusted(root)
    (root / ".qcode/config.toml").unlink()
    put(root, ".qcode/config.toml", 'model = "a/b"\n')
    assert store.status_of(root).kind == "changed"


@pytest.mark.parametrize(("limit", "value"), [("MAX_PINNED_BYTES", 1_000), ("MAX_PINNED_FILES", 1)])
def test_folder_with_too_much_to_pin_is_never_trusted(
    limit: str, value: int, store: TrustStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"qcode.agent.trust.store.{limit}", value)
    store.remember(root)
    put(root, ".qcode/commands/go.toml", "x" * 600)
    put(root, ".claude/skills/x/SKILL.md", "x" * 600)
    status = store.status_of(root)
    assert status.kind == "unpinnable"
    assert "more than" in status.problem
    with pytest.raises(TooLargeToPin):
        store.remember(root)


def test_pins_of_another_subfolder_neither_count_nor_are_lost(root: Path, tmp_path: Path) -> None:
    put(root, "a/.claude/skills/x/SKILL.md", "x")
    put(root, "b/.claude/skills/x/SKILL.md", "x")
    in_a, in_b = (TrustStore(tmp_path / "state", root / name) for name in ("a", "b"))
    in_a.remember(root)
    assert in_a.is_trusted(root)
    assert TrustStore(tmp_path / "state").is_trusted(root)
    assert [change.name for change in in_b.status_of(root).changes] == ["b/.claude/skills/x/SKILL.md"]
    in_b.remember(root)
    assert in_a.is_trusted(root)
    assert in_b.is_trusted(root)
    put(root, "a/.claude/skills/x/SKILL.md", "y")
    assert not in_a.is_trusted(root)
    assert in_b.is_trusted(root)


def test_changes_below_a_folder_are_those_of_one_skill(store: TrustStore, root: Path) -> None:
    put(root, ".claude/skills/x/SKILL.md", "x")
    put(root, ".claude/skills/y/SKILL.md", "x")
    store.remember(root)
    put(root, ".claude/skills/x/scripts/run.py", "evil")
    assert [item.name for item in store.changes_below(root, root / ".claude/skills/x")] == [
        ".claude/skills/x/scripts/run.py"
    ]
    assert store.changes_below(root, root / ".claude/skills/y") == ()


def test_approved_change_of_a_skill_is_pinned_again(store: TrustStore, root: Path) -> None:
    file = put(root, ".claude/skills/x/SKILL.md", "x")
    store.remember(root)
    with store.accept_changes(root, frozenset({str(file.resolve())})):
        put(root, ".claude/skills/x/SKILL.md", "y")
    assert store.is_trusted(root)


def test_skill_is_one_row_of_the_files_in_use(store: TrustStore, root: Path) -> None:
    put(root, ".claude/skills/x/SKILL.md", "x")
    put(root, ".claude/skills/x/scripts/run.py", "x")
    put(root, ".claude/commands/go.md", "x")
    assert list(files_in_use(root, root, store.status_of(root))) == [
        (".claude/skills/x", "a skill, 2 files"),
        (".claude/commands/go.md", "one of its commands"),
    ]


def test_long_file_is_stored_only_as_a_hash(store: TrustStore, root: Path) -> None:
    put(root, ".qcode/notes/long", "x\n" * 50_000)
    store.remember(root)
    assert len(store.path.read_text()) < 2_000
    put(root, ".qcode/notes/long", "y\n" * 50_000)
    assert "so no diff is shown" in store.status_of(root).differences()


def test_trust_of_earlier_versions_applies_only_without_project_files(store: TrustStore, root: Path) -> None:
    store.remember(root)
    rows = json.loads(store.path.read_text())
    del rows["folders"][0]["pieces"]
    store.path.write_text(json.dumps({**rows, "version": 1}))
    assert store.is_trusted(root)
    put(root, ".qcode/config.toml", "")
    assert store.status_of(root).kind == "unpinned"
    assert not store.is_trusted(root)


def test_qcode_home_inside_the_folder_belongs_to_the_user(root: Path) -> None:
    store = TrustStore(root / ".qcode/state")
    put(root, ".qcode/config.toml", 'model = "a/b"\n')
    store.remember(root)
    put(root, ".qcode/config.toml", 'model = "c/d"\n')
    assert store.is_trusted(root)


def test_approved_change_is_pinned_alone(store: TrustStore, root: Path) -> None:
    mine, other = put(root, ".qcode/commands/a.toml", "1"), put(root, ".qcode/commands/b.toml", "1")
    store.remember(root)
    with store.accept_changes(root, frozenset({str(mine), str(root / ".qcode/new")})):
        mine.write_text("2")
        other.write_text("2")
        put(root, ".qcode/new", "x")
    assert [change.name for change in store.status_of(root).changes] == [".qcode/commands/b.toml"]


def test_approved_change_does_not_cover_earlier_changes(store: TrustStore, root: Path) -> None:
    mine = put(root, ".qcode/commands/a.toml", "1")
    store.remember(root)
    mine.write_text("from elsewhere")
    with store.accept_changes(root, frozenset({str(mine)})):
        mine.write_text("from elsewhere, edited")
    assert store.status_of(root).kind == "changed"


def test_approved_change_does_not_trust_the_folder(store: TrustStore, root: Path) -> None:
    mine = put(root, ".qcode/commands/a.toml", "1")
    with store.accept_changes(root, frozenset({str(mine)})):
        mine.write_text("2")
    assert store.status_of(root).kind == "unknown"
    assert not store.path.exists()


def test_trust_can_be_revoked(store: TrustStore, root: Path) -> None:
    store.remember(root)
    assert store.folders() == [root.resolve()]
    assert store.forget(root)
    assert not store.is_trusted(root)
    assert not store.forget(root)


@pytest.mark.parametrize("target", ["a", "x" * 4_000], ids=["in a circle", "too long to follow"])
def test_broken_link_is_ignored(target: str, store: TrustStore, root: Path) -> None:
    (root / ".qcode").mkdir()
    (root / ".qcode/a").symlink_to(target)
    store.remember(root)
    assert store.is_trusted(root)
    (root / ".qcode/a").unlink()
    assert store.status_of(root).kind == "changed"


def test_project_folder_that_links_to_itself_is_empty(store: TrustStore, root: Path) -> None:
    (root / ".qcode").symlink_to(".qcode")
    assert store.status_of(root).kind == "unknown"
    store.remember(root)
    assert store.is_trusted(root)


@pytest.mark.parametrize("name", [".qcode", ".claude", ".agents"])
def test_folder_that_cannot_be_searched_has_no_files(name: str, store: TrustStore, root: Path) -> None:
    (root / name).symlink_to("x" * 300)
    assert store.status_of(root).kind == "unknown"
    store.remember(root)
    assert store.is_trusted(root)


def test_settings_of_any_depth_are_pinned(store: TrustStore, root: Path) -> None:
    (root / ".qcode").mkdir()
    deep = root / ".qcode/config.toml"
    deep.write_text(f"a{'.a' * 3_000} = 1\n")
    store.remember(root)
    assert store.is_trusted(root)
    deep.write_text(f"a{'.a' * 3_000} = 2\n")
    assert store.status_of(root).kind == "changed"
