"""The output of the small subcommands, without control sequences from files."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path

import pytest

from qcode.agent.models.limits import LimitStore
from qcode.agent.sessions.store import SessionStore
from qcode.agent.trust.store import TrustStore
from qcode.cli.main import main
from qcode.engine.model_facts import HostKnowledge
from qcode.protocol.messages import Message, Text, user


class Printed:
    """Runs commands in a temporary folder and returns their output."""

    def __init__(self, base: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.state = base / "home" / "state"
        self.work = base / "work"
        self.work.mkdir()
        self._capfd = capfd

    def __call__(self, *argv: str, code: int = 0) -> tuple[list[str], list[str]]:
        assert main(argv) == code
        out, err = self._capfd.readouterr()
        return out.splitlines(), err.splitlines()


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Printed:
    printed = Printed(tmp_path, capfd)
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(printed.work)
    return printed


def test_paths_below_the_home_folder_have_a_tilde_except_in_json_and_errors(
    printed: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file, short = tmp_path / "home" / "config.toml", "~/home/config.toml"
    assert printed("config", "set", "ui.vim", "true")[0] == [f"ui.vim = true in {short}"]
    assert f"ui.vim = true  ({short}:2)" in printed("config", "show")[0]
    assert json.loads(printed("config", "set", "ui.vim", "false", "--json")[0][0])["file"] == str(file)
    assert printed("config", "unset", "ui.vim")[0] == [f"ui.vim is not set in {short} (was false)"]
    assert printed("config", "path")[0] == [str(file)]
    assert printed("mcp", "add", "files", "--", "npx")[0] == [
        f"added files to {short}; qcode starts it in the next session"
    ]
    assert printed("mcp", "show", "files")[0][0].startswith(f"file:     {short}:")
    assert printed("mcp", "remove", "files")[0] == [f"removed files from {short}"]
    file.write_text(
        '[providers.desk]\ntype = "openai"\nbase_url = "http://127.0.0.1:1/v1"\nheaders = { Authorization = "k" }\n'
    )
    rows = printed("auth", "status", "desk")[0]
    assert rows == [f"desk  headers in the configuration ({short}:4)"]
    file.write_text("nonsense\n")
    assert str(file) in printed("config", "show", code=52)[1][0], "a line of a file that must be mended"


def test_project_settings_are_shown_if_it_is_trusted(printed: Printed) -> None:
    (printed.work / ".qcode").mkdir()
    (printed.work / ".qcode/config.toml").write_text("[output]\nmax_continuations = 1\n")
    out, err = printed("config", "show")
    assert "output.max_continuations = 3  (default)" in out
    assert "not trusted" in err[0]
    TrustStore(printed.state).remember(printed.work)
    out, err = printed("config", "show")
    assert [line for line in out if line.startswith("output.max_continuations = 1")]
    assert err == []


def test_models_are_filtered_by_part_of_their_name(printed: Printed) -> None:
    out, err = printed("models", "gpt-4o-mini")
    assert err == []
    assert out[0].startswith("model")
    assert all("gpt-4o-mini" in line for line in out[1:-1])
    assert out[-1].startswith("source: ")
    assert printed("models", "GPT-4o-Mini") == (out, [])
    out, err = printed("models", "no-such-model")
    assert len(out) == 1
    assert "no-such-model" in err[0]


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (("themes", "no\nsuch"), "invalid arguments: no⏎such; use: qcode themes"),
        (("config", "set"), "an argument is missing; use: qcode config set KEY VALUE"),
        (("config", "set", "a"), "an argument is missing; use: qcode config set KEY VALUE"),
        (("config", "unset"), "an argument is missing; use: qcode config unset KEY"),
        (("config", "set", "a", "b", "c"), "invalid arguments: set a b c; use: qcode config set KEY VALUE"),
        (("mcp", "add", "git"), "an argument is missing; use: qcode mcp add NAME"),
        (("config",), "an argument is missing; use: qcode config path"),
        (("sessions", "show"), "an argument is missing; use: qcode sessions show ID"),
        (("sessions", "delete"), "an argument is missing; use: qcode sessions delete ID"),
        (("sessions", "export"), "an argument is missing; use: qcode sessions export ID"),
        (("sessions", "show", "a", "b"), "invalid arguments: show a b; use: qcode sessions show ID"),
        (("hooks", "test"), "an argument is missing; use: qcode hooks"),
        (("skills", "show"), "an argument is missing; use: qcode skills"),
        (("permissions", "hook"), "hook needs --for; use: qcode permissions"),
        (("auth",), "an argument is missing; use: qcode auth login"),
        (("auth", "status", "a", "b"), "invalid arguments; use: qcode auth login"),
        (("auth", "login", "openai", "sk-canary"), "invalid arguments; use: qcode auth login"),
    ],
)
def test_invalid_arguments_are_named_with_the_usage(argv: tuple[str, ...], problem: str, printed: Printed) -> None:
    (line,) = printed(*argv, code=2)[1]
    assert line.startswith(f"qcode: {problem}")
    assert "sk-canary" not in line


def test_session_is_listed_shown_and_deleted(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    session = SessionStore(printed.state, printed.work).create("demo/demo", printed.work)
    session.append(user("hello \x1b]0;title\x07you"))
    session.close()
    (listed,), err = printed("sessions")
    assert printed("sessions", "list") == ([listed], err)
    assert listed.split() == [session.session_id, *listed.split()[1:-2], "hello", "you"]
    assert printed("sessions", "show", session.session_id[:-2])[0] == ["user: hello \x1b]0;title\x07you"]
    monkeypatch.setattr("os.isatty", lambda _: True)
    assert printed("sessions", "show", session.session_id)[0] == ["user: hello you"]
    assert printed("sessions", "delete", session.session_id)[0] == [f"deleted {session.session_id}"]
    assert printed("sessions") == (["no sessions of this folder yet"], [])


def test_export_format_follows_the_flag_or_the_file_name(printed: Printed) -> None:
    session = SessionStore(printed.state, printed.work).create("demo/demo", printed.work)
    session.append(user("hello you"))
    session.close()
    name = session.session_id
    markdown, output = printed("sessions", "export", name)
    assert "hello you" in markdown
    assert output == []
    assert json.loads("\n".join(printed("sessions", "export", name, "--format=json")[0]))["messages"]
    out, output = printed("sessions", "export", name, "-o", "talk.html")
    assert out == []
    assert output == [f"qcode: exported to {printed.work / 'talk.html'}"]
    page = (printed.work / "talk.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "hello you" in page
    assert printed("sessions", "export", name, "-o", "talk.html", code=42)[1] == [
        "qcode: talk.html already exists. Choose another file name."
    ]
    assert printed("sessions", "export", name, "--turns", "2-3", code=42)[1] == [
        "qcode: no turn in 2-3: this session has 1 turn."
    ]
    assert printed("sessions", "export", name, "--turns", "-1", "--no-tools") == (markdown, [])
    (refusal,) = printed("sessions", "export", name, "--format", "pdf", code=2)[1]
    assert '"pdf"' in refusal
    assert "use: qcode sessions export" in refusal
    assert "use: qcode sessions show ID" in printed("sessions", "show", name, "-o", "talk.html", code=2)[1][0]


def test_sessions_show_begins_a_line_after_each_attachment(printed: Printed) -> None:
    session = SessionStore(printed.state, printed.work).create("demo/demo", printed.work)
    session.append(Message("user", (Text('<hook event="SessionStart">\nbranch main\n</hook>'), Text("hello you"))))
    session.close()
    out, _ = printed("sessions", "show", session.session_id)
    assert out == ['user: <hook event="SessionStart">', "branch main", "</hook>", "hello you"]


def test_sessions_show_reports_an_incomplete_last_record(printed: Printed) -> None:
    store = SessionStore(printed.state, printed.work)
    session = store.create("demo/demo", printed.work)
    session.append(user("hello you"))
    session.close()
    with (store.folder / f"{session.session_id}.jsonl").open("ab") as file:
        file.write(b'{"kind":"mess')
    out, err = printed("sessions", "show", session.session_id)
    assert out == ["user: hello you"]
    assert err == ["qcode: the last record of this session is incomplete and was skipped."]


def test_theme_flag_with_an_unknown_name_is_a_usage_error(printed: Printed) -> None:
    out, err = printed("-p", "hello", "-m", "demo/demo", "--theme", "gruvbox-drak", code=2)
    assert (out, err) == ([], ['qcode: unknown theme "gruvbox-drak"; did you mean gruvbox-dark?'])


@pytest.mark.parametrize(("flags", "is_removed"), [((), True), (("--no-session",), False)])
def test_start_removes_sessions_older_than_retention_days(
    flags: tuple[str, ...], is_removed: bool, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SessionStore(printed.state, printed.work)
    for number in range(2):
        session = store.create("demo/demo", printed.work)
        session.append(user(f"hello {number}"))
        session.close()
    old, young = store.ids()
    long_ago = time.time() - 3 * 86_400
    os.utime(printed.state / "sessions" / store.folder.name / f"{old}.jsonl", (long_ago, long_ago))
    (printed.state.parent / "config.toml").write_text("[sessions]\nretention_days = 2\n")
    monkeypatch.setattr("sys.stdin", None)
    printed("-p", "hello", "-m", "demo/demo", *flags)
    assert (old not in store.ids()) is is_removed
    assert young in store.ids()


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("config",), 2),
        (("config", "path", "x"), 2),
        (("models", "a", "b"), 2),
        (("sessions", "show"), 2),
        (("sessions", "show", "x"), 42),
        (("sessions", "delete", ""), 42),
        (("themes", "x"), 2),
    ],
)
def test_wrong_subcommand_usage_is_one_line(argv: tuple[str, ...], code: int, printed: Printed) -> None:
    out, (line,) = printed(*argv, code=code)
    assert out == []
    assert line.startswith("qcode: ")


def test_models_lists_learned_limits(printed: Printed) -> None:
    store = LimitStore(printed.state)
    store.remember("http://host", "odd-model", HostKnowledge(output=8_192, is_silently_capped=True))
    store.remember("http://host", "odder-model", HostKnowledge(window=32_768, refuses_prefill=True))
    out, _ = printed("models", "odd")
    text = "\n".join(out)
    assert "learned from http://host: odd-model  output 8,192, silently capped" in text
    assert "learned from http://host: odder-model  window 32,768, no prefill" in text


def test_models_forget_reports_limits_that_it_cannot_delete(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LimitStore(printed.state)
    store.remember("http://host", "odd-model", HostKnowledge(output=8_192))

    def fail(path: Path, *, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "unlink", fail)
    _, err = printed("models", "forget", code=1)
    assert err == [f"qcode: cannot delete {store.path}: Read-only file system"]
