"""Many names in one folder are judged together, exactly as `PathJudge.judge` decides about each path."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.safety import paths
from qcode.safety.paths import PathJudge, SessionFolders
from qcode.safety.protected_paths import CREDENTIALS, STARTUP, is_ordinary_name
from tests.safety.policies import judge_shell

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n"
NAMES = (
    "module_1.py", "README.md", "Makefile", "a-b", "x", "_", "9", "tests", "src", "node_modules", "config", "CONFIG",
    "config.worktree", "HEAD", "hooks", "credentials.json", "Credentials.JSON", "credentials", "auth", "auth.json",
    "keys", "trust.json", "secrets.toml", "server.pem", "SERVER.PEM", "server.pem.", "a.key", "b.Key", "a.p12",
    "a.asc.key", "a.pub",
    "id_rsa", "ID_RSA", "id_work", "id_x.pub", "git~1", "GIT~2", ".git", ".GIT", ".git.", ".gitignore", ".env", ".ENV",
    ".env.example", ".envrc", "env", "-x", "--output=x", "a b", " a", "a ", "a.", "a..", "a:b", "a\\b", "a\nb",
    "a\x1bb",
    "\u00e9", "a\u200b.py", "\u017fecret.pem", "server.\u212aey", "\u202epy.exe", "\udcff", "proc", "dev", "etc",
    "home", "u", "repo", "added", "locked", "own", "OWN", "bin", "Bin", "gh", "hub", "git", "fish", "qcode",
    *(entry.rpartition("/")[2] for entry in (*CREDENTIALS, *STARTUP)),
)  # fmt: skip
FOLDERS = (
    "repo", "repo/src", "repo/.git", "repo/vendor/.git", "repo/vendor", "repo/.qcode", "repo/added", "repo/locked",
    "repo/own", "repo/own/keys", "repo/node_modules", "repo/to_src", "repo/to_outside", "repo/loop", "repo/gone",
    "repo/to_module", "outside", ".", ".config", ".config/gh", ".config/qcode", ".ssh", ".cargo", ".local",
)  # fmt: skip
"""Relative to the home of the user, in which the repository is."""
ROOTS = ("repo", ".", ".config", ".cargo", ".ssh", "repo/src", "repo/own")
QUICK_ROOTS = ("repo", ".", ".ssh")
"""The folders that `make test` tries: a repository, a home, and a protected folder."""


def make_file(path: Path) -> None:
    path.write_text("x = 1\n" * 40)


def make_key(path: Path) -> None:
    path.write_text(KEY)


def make_hard_link(path: Path) -> None:
    other = path.parent.parent / f"other-{os.urandom(4).hex()}"
    other.write_text("x\n")
    os.link(other, path)


def make_read_only(path: Path) -> None:
    make_file(path)
    path.chmod(0o400)


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(path.parent / target if target.startswith("/") else target)


KINDS: dict[str, Callable[[Path], None]] = {
    "file": make_file,
    "key": make_key,
    "hard link": make_hard_link,
    "folder": Path.mkdir,
    "pipe": make_pipe,
    "read-only": make_read_only,
    "link to a sibling": link_to("module_1.py"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "link out": link_to("/etc/passwd"),
    "link up": link_to(".."),
    "link to nothing": link_to("gone"),
    "link to a secret": link_to(".env"),
    "missing": lambda path: None,
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path)


def make_home(place: Path) -> Path:
    home = place / "home/u"
    for folder in FOLDERS:
        if folder.rpartition("/")[2] not in ("to_src", "to_outside", "to_module", "loop", "gone"):
            (home / folder).mkdir(parents=True, exist_ok=True)
    for name, target in (("to_src", "src"), ("to_outside", "../outside"), ("loop", "loop"), ("to_module", "x.py")):
        (home / "repo" / name).symlink_to(target)
    make_file(home / "repo/x.py")
    return home


def session_folders_for(home: Path, root: str) -> SessionFolders:
    repo = home / "repo"
    return SessionFolders(home / root, (repo / "added",), (repo / "locked",), home, (repo / "own",))


def spelled(folder: Path, session_folders: SessionFolders) -> list[str]:
    """Return the starts of paths that name a folder: absolute, below `~`, relative, and with a detour."""
    assert session_folders.home is not None
    below = os.path.relpath(folder, session_folders.root)
    from_home = os.path.relpath(folder, session_folders.home)
    return [f"{folder}/", f"~/{from_home}/", "" if below == "." else f"{below}/", f"{folder}/../{folder.name}/", "./"]


def assert_same(session_folders: SessionFolders, prefix: str, names: list[str]) -> set[str]:
    """Hold the verdicts on names together against those one by one; return the names that were decided together."""
    left = PathJudge(session_folders).names_to_judge(prefix, names)
    assert [name for name in names if name in left] == left
    decided = set(names) - set(left)
    for name in decided:
        paths.files_without_key.clear()
        verdict = PathJudge(session_folders).judge(f"{prefix}{name}", "read")
        assert verdict.is_allowed, f"{prefix}{name} in {session_folders.root}: {verdict.reason}"
    return decided


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "root", [pytest.param(root, marks=() if root in QUICK_ROOTS else pytest.mark.broad) for root in ROOTS]
)
def test_every_name_in_every_folder_gets_the_verdict_of_its_path(home: Path, root: str) -> None:
    session_folders = session_folders_for(home, root)
    names = list(dict.fromkeys(NAMES))
    for folder in FOLDERS:
        place = home / folder
        if place.is_dir():
            for name in names:
                if not os.path.lexists(place / name):
                    make_file(place / name)
        for prefix in spelled(place, session_folders):
            assert_same(session_folders, prefix, names)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(NAMES) | st.text("aA.-_ \u200b\u017f~:e", min_size=1, max_size=4),
            st.sampled_from(list(KINDS)),
        ),
        min_size=4,
        max_size=14,
        unique_by=lambda pair: pair[0],
    ),
    st.sampled_from(["repo", "repo/src", "repo/.git", "repo/vendor", "repo/added", "repo/own", "repo/to_src", "."]),
    st.sampled_from(ROOTS),
)
def test_any_names_of_any_kind_get_the_verdict_of_their_paths(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[str, str]], folder: str, root: str
) -> None:
    place = tmp_path_factory.mktemp("names")
    home = make_home(place)
    for name, kind in made:
        if name not in (".", "..") and not os.path.lexists(home / folder / name):
            KINDS[kind](home / folder / name)
    try:
        for prefix in spelled(home / folder, session_folders_for(home, root)):
            assert_same(session_folders_for(home, root), prefix, [name for name, _ in made])
    finally:
        shutil.rmtree(place)


def test_ordinary_files_and_folders_are_judged_together(home: Path) -> None:
    src = home / "repo/src"
    kinds = {kind: f"ordinary_{number}.py" for number, kind in enumerate(KINDS)}
    for kind, name in kinds.items():
        KINDS[kind](src / name)
    session_folders = session_folders_for(home, "repo")
    together = {
        kinds["file"],
        kinds["folder"],
        *(["ordinary_5.py"] if os.access(src / "ordinary_5.py", os.R_OK) else []),
    }
    for prefix in ("src/", f"{src}/", "~/repo/src/", "to_src/", f"{home}/repo/../repo/src/"):
        assert assert_same(session_folders, prefix, list(kinds.values())) == together


@pytest.mark.parametrize("name", ["module_1.py", "README.md", "Makefile", "a-b", "x", "_", "test_x.spec.ts", "LICENSE"])
def test_common_project_names_are_ordinary(name: str) -> None:
    assert is_ordinary_name(name)


def test_file_that_becomes_a_key_is_detected(home: Path) -> None:
    src, names = home / "repo/src", [f"module_{number}.py" for number in range(6)]
    for name in names:
        make_file(src / name)
    time.sleep(0.03)  # the clock of a file system ticks; within one tick nothing is remembered
    judge = PathJudge(session_folders_for(home, "repo"))
    assert judge.names_to_judge("src/", names) == []
    times = (src / names[2]).stat()
    with (src / names[2]).open("r+") as file:
        file.write(KEY)
    os.utime(src / names[2], ns=(times.st_atime_ns, times.st_mtime_ns))
    assert judge.names_to_judge("src/", names) == [names[2]]
    assert judge.judge(f"src/{names[2]}", "read").verdict == "ask"


def test_recently_written_file_is_not_cached(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src, names = home / "repo/src", [f"module_{number}.py" for number in range(6)]
    for name in names:
        make_file(src / name)
    changed = (src / names[0]).stat().st_ctime_ns
    monkeypatch.setattr(time, "time_ns", lambda: changed + 1_000_000)
    paths.files_without_key.clear()
    assert PathJudge(session_folders_for(home, "repo")).names_to_judge("src/", names) == []
    assert not paths.files_without_key


def test_names_added_to_a_listed_folder_are_in_the_next_verdict(home: Path) -> None:
    src = home / "repo/src"
    make_file(src / "a.txt")
    time.sleep(0.03)  # within one tick the listing is not kept
    assert judge_shell("cat src/*.txt", home / "repo").is_allowed
    (src / "b.txt").symlink_to("/etc/passwd")
    assert not judge_shell("cat src/*.txt", home / "repo").is_allowed
    (src / "b.txt").unlink()
    make_key(src / ".c.txt")
    assert judge_shell("cat src/*.txt", home / "repo").is_allowed
    (src / ".c.txt").rename(src / "c.txt")
    assert not judge_shell("cat src/*.txt", home / "repo").is_allowed


@pytest.mark.parametrize(("ctime_ns", "waits_ns"), [(5_000_000_001, 20_000_000), (5_000_000_000, 2_000_000_000)])
def test_folder_is_settled_after_a_tick_of_its_file_system(home: Path, ctime_ns: int, waits_ns: int) -> None:
    info = SimpleNamespace(st_ctime_ns=ctime_ns)
    settled = [paths.is_ctime_final(cast("os.stat_result", info), ctime_ns + waits_ns + more) for more in (0, 1)]
    assert settled == [False, True]
