"""The strace harness reports the effects of programs, so that a proof by it can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.safety.shell.scratch import Scratch, make_scratch
from tests.safety.shell.strace import Opened, Run, observe, require_strace, shell_argv


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    require_strace()
    return make_scratch(tmp_path.resolve())


def run(scratch: Scratch, command: str) -> Run:
    (found,) = observe([shell_argv(command)], scratch.workspace, scratch.env)
    return found


def names(scratch: Scratch, opened: frozenset[Opened]) -> set[str]:
    return {item.real.removeprefix(f"{scratch.root}/") for item in opened if scratch.holds(item.real)}


def programs(found: Run) -> list[str]:
    return [Path(item).name for item in found.executed]


def test_read_file_is_reported_with_its_link_target(scratch: Scratch) -> None:
    (found,) = observe([["cat", "src/link_key", "./data.txt"]], scratch.workspace, scratch.env)
    assert found.code == 0
    assert b"a private key" in found.output
    assert names(scratch, found.read) == {"home/.ssh/id_rsa", "workspace/data.txt"}
    assert Opened(f"{scratch.workspace}/src/link_key", f"{scratch.home}/.ssh/id_rsa") in found.read
    assert found.changed == found.connected == ()
    assert programs(found) == ["cat"]


def test_file_name_with_any_character_is_reported(scratch: Scratch) -> None:
    name = 'a "b" <c>\\d\n, e\u00e9) = 3'
    (scratch.workspace / name).write_text("x")
    (found,) = observe([["cat", name]], scratch.workspace, scratch.env)
    assert names(scratch, found.read) == {f"workspace/{name}"}


def test_chdir_applies_to_later_paths(scratch: Scratch) -> None:
    found = run(scratch, "cd src; cd deep; cat inner.py; exec ls ../../docs")
    assert names(scratch, found.read) == {"workspace/src/deep/inner.py"}
    assert f"{scratch.workspace}/docs" in found.listed
    assert programs(found) == ["bash", "cat", "ls"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("command", "change"),
    [
        ("echo x > made", "openat({}/made, "),
        ("echo x >> data.txt", "openat({}/data.txt, "),
        ("echo x > nowhere/made", "openat({}/nowhere/made, "),
        ("rm data.txt", 'unlinkat(AT_FDCWD<{}>, "data.txt"'),
        ("mkdir made", 'mkdir("made"'),
        ("chmod 600 data.txt", 'fchmodat(AT_FDCWD<{}>, "data.txt"'),
        ("mv data.txt made", "rename"),
        ("ln -s data.txt made", 'symlinkat("data.txt"'),
        ("ln data.txt made", "linkat("),
        ("truncate -s 0 data.txt", "ftruncate("),
        ("touch -d yesterday data.txt", "utimensat("),
        ("sort -o data.txt data.txt", "openat({}/data.txt, "),
        ("kill -0 $$", "kill("),
    ],
)
def test_change_is_reported_if_it_succeeds_or_fails(scratch: Scratch, command: str, change: str) -> None:
    found = run(scratch, command)
    assert [item for item in found.changed if item.startswith(change.format(scratch.workspace))], found.changed


def test_connection_is_reported(scratch: Scratch) -> None:
    found = run(scratch, "exec 3<>/dev/udp/127.0.0.1/9")
    assert [item for item in found.connected if "127.0.0.1" in item]


def test_program_started_by_a_grandchild_is_reported(scratch: Scratch) -> None:
    found = run(scratch, f"( ( {scratch.outside}/bin/evil; true ) & wait )")
    assert {"evil", "touch"} <= {*programs(found)}
    assert [item for item in found.changed if "pwned" in item]


def test_every_command_of_a_batch_has_its_own_result(scratch: Scratch) -> None:
    commands = [["cat", "data.txt"], ["cat", "nothing"], ["true"], ["cat", "docs/guide.md"]]
    found = observe(commands, scratch.workspace, scratch.env)
    assert [item.code for item in found] == [0, 1, 0, 0]
    assert [names(scratch, item.read) for item in found] == [
        {"workspace/data.txt"},
        set(),
        set(),
        {"workspace/docs/guide.md"},
    ]
    assert b"nothing: No such file" in found[1].errors
    assert f"{scratch.workspace}/nothing" in found[1].looked


def test_command_gets_only_the_environment_it_is_given_and_no_input(scratch: Scratch) -> None:
    found = run(scratch, "cat; env")
    assert b"SECRET_TOKEN" not in found.output
    assert b"RIPGREP_CONFIG_PATH" not in found.output
    assert f"HOME={scratch.home}".encode() in found.output
