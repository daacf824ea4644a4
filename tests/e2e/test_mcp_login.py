"""`qcode mcp login` and `logout`, with a browser that is a script, and with a pasted address."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.e2e.running import CliRunner, Finished
from tests.fakes.oauth_server import OAuthServer
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, ReceivedRequest, Turn

_BROWSER = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=20).read()"


@pytest.fixture
def server(cli: CliRunner) -> Iterator[OAuthServer]:
    with OAuthServer() as found:
        assert cli.run("mcp", "add", "guarded", found.address).code == 0
        yield found


def log_in(cli: CliRunner, *flags: str) -> Finished:
    script = cli.home / "browser.py"
    script.write_text(_BROWSER)
    return cli.run("mcp", "login", "guarded", "--trust", *flags, env={"BROWSER": f"{sys.executable} {script} %s"})


def _calls(asked: ReceivedRequest) -> Turn:
    if asked.results:
        return Turn(text=f"It is {asked.results[0].content}.")
    return Turn(calls=[Call("guarded__whoami", "{}", "call_1")])


def test_login_is_used_by_pipe_mode_and_its_tokens_are_never_printed(cli: CliRunner, server: OAuthServer) -> None:
    assert "guarded  never started  http" in cli.run("mcp", "list").out
    done = log_in(cli)
    assert (done.code, done.err) == (0, "")
    assert f"Signed in to guarded at {server.base}." in done.out
    assert "guarded  never started, signed in" in cli.run("mcp", "list").out
    given = ("-p", "who", "--trust", "--allowed-tools", "mcp(guarded/whoami)", "--debug-log", str(cli.home / "log"))
    with FakeServer("anthropic", _calls) as model:
        answer = cli.ask(model, *given)
    assert (answer.code, answer.out.strip()) == (0, "It is you.")
    printed = done.out + answer.out + answer.err + (cli.home / "log").read_text()
    assert not [token for token in (*server.valid, *server.refreshes) if token in printed]


def test_failed_login_is_one_line_without_the_response(cli: CliRunner, server: OAuthServer) -> None:
    server.pages["/token"] = (400, "<html>code canary</html>")
    done = log_in(cli)
    assert done.code == 41
    assert done.err == "qcode: guarded: the login failed: the authorization server answered 400\n"


def test_pipe_mode_never_signs_in_and_names_the_command(cli: CliRunner, server: OAuthServer) -> None:
    browser = cli.home / "opened"
    done = cli.run("-p", "hi", "-m", "demo/demo", "--trust", env={"BROWSER": f"touch {browser} %s", "DISPLAY": ":0"})
    assert done.code == 0
    assert "guarded was not started: it needs a login: run qcode mcp login guarded; continuing without it" in done.err
    assert not browser.exists()
    assert set(server.paths()) == {"/mcp"}


@pytest.mark.broad
def test_address_is_pasted_without_a_browser(cli: CliRunner, server: OAuthServer) -> None:
    process = subprocess.Popen(
        cli.command("mcp", "login", "guarded", "--no-browser"),
        cwd=cli.work,
        env=cli.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    address = next(line.strip() for line in process.stdout if "/authorize?" in line)
    form = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    out, _ = process.communicate(f"{server.granted(form)}\n", timeout=60)
    assert process.returncode == 0, out
    assert "Signed in to guarded" in out


@pytest.mark.broad
def test_logout_revokes_and_remove_deletes_the_login(cli: CliRunner, server: OAuthServer) -> None:
    assert "no login of guarded is stored" in cli.run("mcp", "logout", "guarded").out
    log_in(cli)
    assert "deleted, and its tokens are revoked" in cli.run("mcp", "logout", "guarded").out
    assert not server.valid
    log_in(cli)
    assert "the login of guarded is deleted" in cli.run("mcp", "remove", "guarded").out
    assert not any("mcp:" in path.read_text() for path in cli.home.rglob("keys.json"))


@pytest.mark.broad
def test_provider_commands_do_not_list_logins(cli: CliRunner, server: OAuthServer) -> None:
    log_in(cli)
    assert "mcp:" not in cli.run("auth", "status").out


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("login", "nobody"), "unknown tool server"),
        (("login", "local"), "local is a program; only a server with a URL has a login"),
        (("login", "headed"), "has an Authorization header"),
        (("login", "guarded", "--env", "A=B"), "--env"),
        (("list", "--no-browser"), "--no-browser"),
        (("add", "x", "y", "--client-id", "z"), "--client-id"),
        (("login", "gone"), "gone: it cannot be reached"),
    ],
)
def test_unusable_login_says_why(arguments: tuple[str, ...], says: str, cli: CliRunner, server: OAuthServer) -> None:
    cli.run("mcp", "add", "local", "--", "true")
    cli.run("mcp", "add", "headed", server.address, "--header", "Authorization: Bearer ${X}", env={"X": "1"})
    cli.run("mcp", "add", "gone", "http://127.0.0.1:9/mcp")
    done = cli.run("mcp", *arguments, env={"X": "1"})
    assert done.code != 0
    assert says in done.err


def test_project_server_has_no_login_before_it_is_approved(cli: CliRunner, server: OAuthServer) -> None:
    (cli.work / ".mcp.json").write_text(f'{{"mcpServers": {{"theirs": {{"url": "{server.address}"}}}}}}')
    assert "unknown tool server" in cli.run("mcp", "login", "theirs").err
    assert "is not approved yet" in cli.run("mcp", "login", "theirs", "--trust").err
    assert server.asked == []
