"""`qcode auth` as a program: its input, its messages, the stored key, and that no key is ever shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agent.keys.backends import FOLDER_VARIABLE, NAME
from tests.e2e.conftest import cli
from tests.e2e.running import KEY, CliRunner, Finished
from tests.e2e.terminal import Terminal
from tests.fakes.server import PROTOCOLS, FakeServer, ProtocolName
from tests.fakes.turns import Turn

__all__ = ["cli"]

ADDRESS_VARIABLES = {
    "openai": "OPENAI_BASE_URL",
    "openai-responses": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
}


class Auth:
    """Runs `qcode auth` in a temporary home."""

    def __init__(self, cli: CliRunner) -> None:
        self.place = cli
        self.env = {"QCODE_HOME": str(cli.home / "q")}

    def at(self, server: FakeServer, protocol: ProtocolName) -> None:
        self.env[ADDRESS_VARIABLES[protocol]] = server.base_url

    def use_keyring(self) -> Path:
        folder = self.place.home / "ring"
        folder.mkdir()
        root = str(Path(__file__).resolve().parents[2])
        self.env |= {"PYTHON_KEYRING_BACKEND": NAME, FOLDER_VARIABLE: str(folder), "PYTHONPATH": root}
        return folder

    def __call__(self, *words: str, stdin: str = "", **env: str) -> Finished:
        done = self.place.run("auth", *words, env={**self.env, **env}, stdin=stdin.encode())
        assert KEY not in done.out + done.err
        return done

    @property
    def file(self) -> Path:
        return self.place.home / "q" / "state" / "credentials" / "keys.json"

    def files_with_key(self) -> list[str]:
        """Return the names of the files in the home that contain the key."""
        files = [path for path in self.place.home.rglob("*") if path.is_file()]
        return sorted(path.name for path in files if KEY.encode() in path.read_bytes())


@pytest.fixture
def auth(cli: CliRunner) -> Auth:
    return Auth(cli)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_stored_key_is_used_for_a_prompt(protocol: ProtocolName, auth: Auth) -> None:
    with FakeServer(protocol, [Turn(text="hello there")], api_key=KEY) as server:
        auth.at(server, protocol)
        done = auth("login", protocol, stdin=f"export X_API_KEY='{KEY}'\n")
        assert (done.code, done.err) == (0, "")
        assert f"{protocol} accepted the key" in done.out
        assert "~/q/state/credentials/keys.json" in done.out
        asked = auth.place.run("-p", "hi", "-m", f"{protocol}/fake-1", env=auth.env)
        assert (asked.code, asked.out) == (0, "hello there\n")
    assert auth.files_with_key() == ["keys.json"]


@pytest.mark.broad
def test_login_stores_the_key_in_the_keyring_if_there_is_one(auth: Auth) -> None:
    ring = auth.use_keyring()
    with FakeServer("openai", [Turn(text="hello there")], api_key=KEY) as server:
        auth.at(server, "openai")
        assert "stored in the keyring" in auth("login", "openai", stdin=KEY).out
        assert [path.read_text() for path in ring.iterdir()] == [KEY]
        assert KEY not in auth.file.read_text()
        asked = auth.place.run("-p", "hi", "-m", "openai/fake-1", env=auth.env)
        assert (asked.code, asked.out) == (0, "hello there\n")
    assert "stored in the keyring" in auth("status", "openai").out
    assert "from the keyring" in auth("logout", "openai").out
    assert list(ring.iterdir()) == []


def test_refused_key_is_not_stored_and_the_old_one_is_kept(auth: Auth) -> None:
    with FakeServer("openai", [], api_key="sk-another-0123456789") as server:
        auth.at(server, "openai")
        done = auth("login", "openai", stdin=KEY)
        assert (done.code, done.out) == (41, "")
        assert "refused the key" in done.err
        assert "--no-check" in done.err
        assert len(done.err.splitlines()) == 1
        assert not auth.file.exists()
        assert auth("login", "openai", stdin="sk-another-0123456789").code == 0
        assert auth("login", "openai", stdin=KEY).code == 41
        assert "sk-another-0123456789" in auth.file.read_text()
        assert auth("login", "openai", "--no-check", stdin=KEY).code == 0
    assert auth.files_with_key() == ["keys.json"]


def test_login_stores_an_unchecked_key_with_a_note_while_offline(auth: Auth) -> None:
    done = auth("login", "openai", stdin=KEY, OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    assert done.code == 0
    assert "could not be checked (cannot reach openai" in done.out
    assert "stored in ~/q/state/credentials/keys.json, readable only by you\n" in done.out


@pytest.mark.parametrize(
    ("words", "stdin", "code", "part"),
    [
        ((), "", 2, "qcode auth login PROVIDER"),
        (("--json",), "", 2, "qcode auth login PROVIDER"),
        (("login",), KEY, 2, "name the provider"),
        (("login", "opnai"), KEY, 2, "did you mean openai?"),
        (("login", "openai", KEY), "", 2, "never on the command line"),
        (("login", KEY), "", 2, "unknown provider; qcode auth status lists all providers"),
        (("login", "openai", "--key"), "", 2, "use: qcode auth"),
        (("login", "openai"), "", 41, "no key was given"),
        (("login", "openai"), "\n \n", 41, "no key was given"),
        (("login", "openai"), "https://x.example", 41, "a URL"),
        (("login", "bedrock"), KEY, 2, "AWS chain"),
        (("login", "demo"), KEY, 2, "needs no key"),
        (("logout",), "", 2, "no key is stored"),
        (("status", "nowhere"), "", 2, "lists all providers"),
    ],
)
def test_login_error_is_one_line_with_its_exit_code(
    words: tuple[str, ...], stdin: str, code: int, part: str, auth: Auth
) -> None:
    done = auth(*words, stdin=stdin)
    assert (done.code, done.out) == (code, "")
    assert part in done.err
    assert len(done.err.splitlines()) == 1
    assert auth.files_with_key() == []


def test_local_server_may_have_a_key_but_needs_none(auth: Auth) -> None:
    assert auth("login", "ollama").out == "ollama needs no key; nothing was stored\n"
    assert auth("login", "vllm", "--no-check", stdin="abc").code == 0
    assert "stored in the key file" in auth("status", "vllm").out


def test_configured_provider_can_have_a_stored_key(auth: Auth) -> None:
    config = auth.place.home / "q" / "config.toml"
    config.parent.mkdir()
    with FakeServer("openai", [Turn(text="from the lab")], api_key=KEY) as server:
        config.write_text(
            f'[providers.lab]\ntype = "openai"\nbase_url = "{server.base_url}"\napi_key_env = "LAB_KEY"\n'
        )
        assert auth("login", "lab", stdin=KEY).code == 0
        asked = auth.place.run("-p", "hi", "-m", "lab/fake-1", env=auth.env)
        assert (asked.code, asked.out) == (0, "from the lab\n")
    output = auth.place.run("config", "show", env=auth.env)
    assert KEY not in output.out


def test_status_names_the_source_that_wins_and_the_unused_one(auth: Auth) -> None:
    auth("login", "openai", "--no-check", stdin=KEY)
    done = auth("status", GEMINI_API_KEY=KEY, OPENAI_API_KEY=KEY, AWS_PROFILE="work")
    rows = {line.split()[0]: line.partition(" ")[2].strip() for line in done.out.splitlines()}
    assert rows["openai"] == "environment variable OPENAI_API_KEY; the key in the key file is not used"
    assert rows["gemini"] == "environment variable GEMINI_API_KEY"
    assert rows["bedrock"] == "AWS chain (AWS_PROFILE is set)"
    assert rows["anthropic"].startswith("no key; set ANTHROPIC_API_KEY")
    assert rows["anthropic"].endswith(", or run qcode auth login anthropic")
    assert rows["ollama"] == "needs no key"
    assert done.code == 0
    assert auth("status", "anthropic").code == 41
    assert auth("status", "openai").code == 0


def test_status_for_a_script_is_json(auth: Auth) -> None:
    auth("login", "openai", "--no-check", stdin=KEY)
    (row,) = json.loads(auth("status", "openai", "--json").out)
    assert row == {
        "provider": "openai", "source": "file", "name": "qcode auth login openai", "shadowed": None, "ready": True,
    }  # fmt: skip


def test_logout_names_a_remaining_source_of_a_key(auth: Auth) -> None:
    auth("login", "openai", "--no-check", stdin=KEY)
    done = auth("logout", "openai", OPENAI_API_KEY=KEY)
    assert done.out.splitlines() == [
        "removed the key for openai from the key file",
        "OPENAI_API_KEY is still set and provides a credential",
    ]
    assert auth.files_with_key() == []
    assert auth("logout", "openai").out == "no key for openai was stored\n"


def test_login_reports_a_key_file_that_cannot_be_written(auth: Auth) -> None:
    auth.file.parent.mkdir(parents=True)
    auth.file.symlink_to("/dev/null")
    done = auth("login", "openai", "--no-check", stdin=KEY)
    assert done.code == 1
    assert "is a symbolic link, which is not followed" in done.err


def test_stored_key_stays_out_of_logs_sessions_and_reports(auth: Auth) -> None:
    script = [Turn(text=f"the key is {KEY}")]
    with FakeServer("openai", script, api_key=KEY) as server:
        auth.at(server, "openai")
        auth("login", "openai", stdin=KEY)
        log = auth.place.home / "debug.log"
        auth.place.run("-p", f"is it {KEY}?", "-m", "openai/fake-1", "--debug-log", str(log), env=auth.env)
    assert log.stat().st_size > 0
    assert auth.files_with_key() == ["keys.json"]


@pytest.mark.broad
def test_login_at_a_terminal_hides_the_key_and_asks_again_if_it_is_invalid(auth: Auth) -> None:
    with FakeServer("openai", [], api_key=KEY) as server:
        auth.at(server, "openai")
        with Terminal(auth.place, "auth", "login", env=auth.env, columns=100) as terminal:
            terminal.wait_for("Number or name:")
            terminal.press("openai\r")
            terminal.wait_for("API key for openai")
            terminal.press("https://nowhere.example\r")
            terminal.wait_for("that is a URL, not a key")
            terminal.wait_for(lambda text: text.count("API key for openai") == 2)
            terminal.press(f"\x1b[200~{KEY}\x1b[201~\r")
            terminal.wait_for("accepted the key")
            assert terminal.wait_for_end() == 0
            assert KEY not in terminal.raw
    assert auth.files_with_key() == ["keys.json"]


def test_cancelled_login_stores_nothing(auth: Auth) -> None:
    for keys in ("\x04", "\x03"):
        with Terminal(auth.place, "auth", "login", "openai", env=auth.env) as terminal:
            terminal.wait_for("API key for openai")
            terminal.wait_for(lambda _: not terminal.is_echoing)  # what is typed before that is discarded
            terminal.press(keys)
            assert terminal.wait_for_end() == 130
    assert not auth.file.exists()
