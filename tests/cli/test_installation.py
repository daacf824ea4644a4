"""`qcode update` and `qcode uninstall`: they report first, and act only after a flag or a confirmation."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from qcode.agent.hooks.transcript import TranscriptFile
from qcode.agent.keys.keys import key_store
from qcode.agent.trust.store import TrustStore
from qcode.cli.main import main
from qcode.cli.subcommands import update
from qcode.cli.subcommands.uninstall import STATE_NAMES
from qcode.cli.subcommands.update import Installation, installation
from qcode.config.paths import HISTORY_NAME
from qcode.safety.secret import Secret
from qcode.tui.prompt.history import PromptHistory, UnsentPrompt
from tests.e2e.running import CliRunner

PIP = f"{sys.executable} -m pip"


@contextmanager
def index(status: int, body: bytes) -> Iterator[tuple[str, list[str]]]:
    """Serve one answer as a package index; yield its address and the requests."""
    seen: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(f"{self.path} {self.headers['Accept']}")
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple/", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def files(*names: str, yanked: str = "") -> bytes:
    rows = [{"filename": name, "yanked": bool(yanked) and yanked in name} for name in names]
    return json.dumps({"meta": {"api-version": "1.1"}, "files": rows}).encode()


def sdist(version: str) -> str:
    return f"qcode_cli-{version}.tar.gz"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (200, files(sdist("0.0.9"), sdist("0.10.0"), sdist("0.9.1")), "Version 0.10.0 is available."),
        (200, files(sdist("99.0"), sdist("98.0"), yanked="99.0"), "Version 98.0 is available."),
        (200, files(sdist("99.0rc1"), "other-99.0.tar.gz", "qcode_cli-97.1-py3-none-any.whl"), "Version 97.1 is"),
        (200, files(sdist("0.1.0.0")), "this one is current"),
        pytest.param(200, files(sdist("9" * 5_000), sdist("97.1")), "Version 97.1 is available.", id="long"),
        (200, files(), "No version of qcode-cli is published yet."),
        (404, b"", "No version of qcode-cli is published yet."),
    ],
)
def test_check_reports_the_newest_version_of_the_index(status: int, body: bytes, text: str, tmp_path: Path) -> None:
    with index(status, body) as (address, seen):
        done = CliRunner(tmp_path).run(
            "update", "--check", env={"PIP_INDEX_URL": address, "HTTP_PROXY": "http://127.0.0.1:9"}
        )
    assert (done.code, done.err) == (0, "")
    assert text in done.out
    assert seen == ["/simple/qcode-cli/ application/vnd.pypi.simple.v1+json"]
    assert ("To update: " in done.out) is ("current" not in text)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("status", "body", "code", "text"),
    [
        (503, b"", 75, "cannot check for updates at 127.0.0.1: it answered 503; try again later"),
        (200, b"<html>", 1, "it does not answer with the JSON of PEP 691"),
        (200, b'{"files": [1]}', 1, "it does not answer with the JSON of PEP 691"),
        pytest.param(200, b"[" * 100_000, 1, "it does not answer with the JSON of PEP 691", id="deep"),
        pytest.param(200, b" " * (update.MAX_BYTES + 1), 75, "the answer is too large", id="large"),
    ],
)
def test_check_fails_with_one_line_if_the_index_fails(
    status: int, body: bytes, code: int, text: str, tmp_path: Path
) -> None:
    with index(status, body) as (address, _):
        done = CliRunner(tmp_path).run("update", "--check", env={"PIP_INDEX_URL": address, "NO_PROXY": "127.0.0.1"})
    assert (done.code, done.out) == (code, "")
    assert text in done.err
    assert done.err.count("\n") == 1


def test_invalid_address_of_the_index_is_an_error_in_one_line(tmp_path: Path) -> None:
    done = CliRunner(tmp_path).run("update", "--check", env={"PIP_INDEX_URL": "http://[::1/simple"})
    assert (done.code, done.out) == (2, "")
    assert done.err == "qcode: cannot check for updates: the address of the index is invalid: Invalid IPv6 URL\n"


def test_update_without_check_sends_nothing(tmp_path: Path) -> None:
    with index(500, b"") as (address, seen):
        done = CliRunner(tmp_path).run("update", env={"PIP_INDEX_URL": address})
    assert done.code == 0
    assert "The network was not used" in done.out
    assert seen == []


def test_update_names_the_clone_and_its_command(tmp_path: Path) -> None:
    done = CliRunner(tmp_path).run("update")
    assert f"installed from {Path(__file__).parents[2]}" in done.out
    assert f"run git pull and then {sys.executable} -m pip install --editable . in that folder" in done.out


def test_update_names_no_command_of_the_index_if_nothing_is_published(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(update, "installation", lambda: Installation("pipx"))
    monkeypatch.setattr(update, "newest_release", lambda env: None)
    assert main(["update", "--check"]) == 0
    out = capfd.readouterr().out
    assert "To update: install it again from a newer clone" in out
    assert "pipx upgrade" not in out


def test_update_of_a_copy_whose_clone_is_gone_names_no_folder_to_go_to(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("qcode.cli.subcommands.update.installation", lambda: Installation("pip", Path("/no/clone")))
    assert main(["update"]) == 0
    out = capfd.readouterr().out
    assert "that folder does not exist here" in out
    assert "git pull" not in out


WHEEL = {"url": "file:///tmp/new%20files/qcode_cli-0.1.0-py3-none-any.whl", "archive_info": {"hash": "sha256=0"}}
HOSTED = {"url": "https://files.test/qcode_cli-0.1.0.tar.gz", "archive_info": {}}
CHECKED_OUT = {"url": "https://git.test/q.git", "vcs_info": {"vcs": "git", "commit_id": "0"}}


@pytest.mark.parametrize(
    ("noted", "prefix", "source", "step"),
    [
        (WHEEL, "", "/tmp/new files/qcode_cli-0.1.0-py3-none-any.whl", f"{PIP} install ARCHIVE with it"),
        (WHEEL, "/h/pipx/venvs/qcode-cli", "/tmp/new files/", "archive and run pipx install --force ARCHIVE with it"),
        (HOSTED, "/h/uv/tools/qcode-cli", "https://files.test/", "and run uv tool install --force ARCHIVE with it"),
        (CHECKED_OUT, "", "git+https://git.test/q.git", f"{PIP} install --force-reinstall git+https://git.test/q.git"),
        (CHECKED_OUT, "/h/uv/tools/qcode-cli", "git+https", "uv tool install --force git+https://git.test/q.git"),
    ],
)
def test_update_of_a_copy_from_an_archive_or_a_repository_names_its_source(
    noted: dict[str, object],
    prefix: str,
    source: str,
    step: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    class Noted:
        def read_text(self, name: str) -> str:
            assert name == "direct_url.json"
            return json.dumps(noted)

    monkeypatch.setattr("importlib.metadata.distribution", lambda name: Noted())
    found = installation(prefix or None)
    monkeypatch.setattr(update, "installation", lambda: found)
    assert main(["update"]) == 0
    out = capfd.readouterr().out
    assert f"installed from {source}" in out
    assert out.endswith(f"{step}\n")
    # An archive has no newer version at the same place; the index has.
    monkeypatch.setattr(update, "newest_release", lambda env: "9.0")
    assert main(["update", "--check"]) == 0
    out = capfd.readouterr().out
    assert "Version 9.0 is available" in out
    assert ("ARCHIVE" in out) is False
    assert ("qcode-cli\n" in out) == ("archive_info" in noted)


@pytest.mark.parametrize(
    ("prefix", "installer", "upgrade", "from_clone", "remove"),
    [
        (
            "/h/.local/share/pipx/venvs/qcode-cli",
            "pipx",
            "pipx upgrade",
            "pipx install --force --editable .",
            "pipx uninstall",
        ),
        (
            "/h/.local/share/uv/tools/qcode-cli",
            "uv",
            "uv tool upgrade",
            "uv tool install --force --editable .",
            "uv tool uninst",
        ),
        ("/h/project/.venv", "pip", "pip install --upgrade", f"{PIP} install --editable .", f"{PIP} uninstall"),
    ],
)
def test_commands_are_those_of_the_installer(
    prefix: str, installer: str, upgrade: str, from_clone: str, remove: str
) -> None:
    found = installation(prefix)
    assert found.installer == installer
    assert found.update_command == from_clone  # the tests run in a clone
    assert Installation(found.installer).update_command.startswith(upgrade)
    assert found.remove_command.startswith(remove)


@pytest.mark.parametrize(
    ("left", "remove"), [("pipx_metadata.json", "pipx uninstall"), ("uv-receipt.toml", "uv tool uninstall")]
)
def test_installer_with_a_folder_of_its_own_is_known_by_its_file(left: str, remove: str, tmp_path: Path) -> None:
    (tmp_path / left).touch()
    assert installation(str(tmp_path)).remove_command.startswith(remove)


def test_environment_without_pip_is_updated_with_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "find_spec", lambda name: None)
    assert installation("/h/project/.venv").remove_command.endswith("uv pip uninstall qcode-cli")


def used(runner: CliRunner, home: Path) -> dict[str, str]:
    """Use qcode so that it keeps files of several kinds; return the environment."""
    env = {"QCODE_HOME": str(home)}
    assert runner.run("-m", "demo/demo", "-p", "hello", env=env).code == 0
    key = b"sk-ant-" + b"0123456789abcdef" * 5
    assert runner.run("auth", "login", "anthropic", "--no-check", env=env, stdin=key).code == 0
    (home / "config.toml").write_text("[ui]\nbell = false\n")
    (home / "config.toml.bak2").write_text("")
    (runner.work / ".qcode").mkdir()
    TrustStore(home / "state").remember(runner.work)
    PromptHistory(home / "state" / HISTORY_NAME).draft_file.save(UnsentPrompt("not sent"))
    TranscriptFile(home / "state", "1", runner.work, str).begin()
    key_store(home / "state", env).store("mcp:github:0123456789abcdef", Secret("{}"))
    return env


def test_uninstall_lists_and_removes_nothing_without_a_confirmation(tmp_path: Path) -> None:
    runner, home = CliRunner(tmp_path), tmp_path / "qcode"
    env = used(runner, home)
    before = sorted(home.rglob("*"))
    done = runner.run("uninstall", env=env)
    assert (done.code, done.err) == (0, "")
    for name in ("config.toml", "sessions", "credentials", "trust.json", "uninstall qcode-cli"):
        assert name in done.out
    assert "  keys of anthropic; logins of the tool servers github\n" in done.out
    assert str(runner.work / ".qcode") in done.out
    assert "Nothing was removed" in done.out
    assert sorted(home.rglob("*")) == before


def test_uninstall_removes_everything_that_qcode_wrote(tmp_path: Path) -> None:
    runner, home = CliRunner(tmp_path), tmp_path / "qcode"
    env = used(runner, home)
    done = runner.run("uninstall", "--yes", env=env)
    assert (done.code, done.err) == (0, "")
    assert "Removed " in done.out
    assert " items, 1 key, 1 login." in done.out
    assert not home.exists()
    assert (runner.work / ".qcode").exists()
    again = runner.run("uninstall", "--yes", env=env)
    assert "qcode keeps no files" in again.out


def test_uninstall_keeps_files_that_qcode_did_not_create(tmp_path: Path) -> None:
    runner, home = CliRunner(tmp_path), tmp_path / "qcode"
    env = used(runner, home)
    (home / "letters").mkdir()
    (home / "letters/one.txt").write_text("dear")
    (home / "state/mine.txt").write_text("mine")
    target = tmp_path / "target"
    target.mkdir()
    (target / "kept.toml").write_text("x")
    (home / "themes").symlink_to(target)
    done = runner.run("uninstall", "--yes", env=env)
    assert done.code == 0
    assert "letters" in done.err
    assert "mine.txt" in done.err
    left = sorted(str(path.relative_to(home)) for path in home.rglob("*"))
    assert left == ["letters", "letters/one.txt", "state", "state/mine.txt"]
    assert (target / "kept.toml").exists()


def test_names_of_state_files_are_all_known_to_uninstall() -> None:
    source = "".join(path.read_text() for path in (Path(__file__).parents[2] / "qcode" / "agent").rglob("*.py"))
    declared = set(re.findall(r'^[A-Z_]*NAME = "(\w+\.json)"$', source, re.MULTILINE))
    assert len(declared) > 5
    assert declared - {"keys.json"} <= set(STATE_NAMES)
