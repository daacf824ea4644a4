"""The key of a provider: environment before stored keys, and the keyring only if it is needed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from qcode.agent import crash
from qcode.agent.keys import keys as keys_module
from qcode.agent.keys.keys import KeyCommands, Keys, key_store
from qcode.agent.keys.store import KeyStore
from qcode.agent.models.selection import choose_model
from qcode.config.settings import Settings
from qcode.providers.registry import PROVIDERS, connect, custom_provider, key_name
from qcode.safety.secret import Secret
from tests.agent.keys.backends import Locked, Working, make
from tests.agent.keys.conftest import UseKeyring, use_keyring

__all__ = ["use_keyring"]

CANARY = "sk-canary-0123456789abcdef"
OPENAI = PROVIDERS["openai"]


def stored(base: Path, *names: str) -> KeyStore:
    store = key_store(base, {})
    for name in names:
        store.store(name, Secret(CANARY))
    return key_store(base, {})


def test_variable_takes_precedence_over_a_stored_key(tmp_path: Path) -> None:
    store = stored(tmp_path, "openai")
    assert Keys({"OPENAI_API_KEY": "set"}, lambda: store).key_of(OPENAI) == ("set", "OPENAI_API_KEY")
    assert Keys({"OPENAI_API_KEY": " "}, lambda: store).key_of(OPENAI) == (CANARY, "qcode auth login openai")
    assert Keys({}, lambda: store).key_of(PROVIDERS["anthropic"]) == ("", "")


def test_providers_that_read_the_same_variable_share_a_key(tmp_path: Path) -> None:
    keys = Keys({}, lambda: stored(tmp_path, "openai"))
    assert keys.key_of(PROVIDERS["openai-responses"]) == (CANARY, "qcode auth login openai")
    own = custom_provider("openai-responses", "openai-responses", "", api_key_env="WORK_KEY")
    assert (key_name(own), keys.key_of(own)) == ("openai-responses", ("", ""))


def test_provider_of_the_configuration_has_its_own_key(tmp_path: Path) -> None:
    lab = custom_provider("lab", "openai", "https://lab.example/v1", api_key_env="OPENAI_API_KEY")
    assert Keys({}, lambda: stored(tmp_path, "openai")).key_of(lab) == ("", "")
    assert Keys({}, lambda: stored(tmp_path, "lab")).key_of(lab) == (CANARY, "qcode auth login lab")


def test_stored_key_chooses_the_provider_as_a_variable_does(tmp_path: Path) -> None:
    keys = Keys({"GEMINI_API_KEY": "x"}, lambda: stored(tmp_path, "openai"))
    chosen = choose_model(Settings(), keys, None, None, has_demo=True)
    assert (chosen.spec.name, chosen.note) == ("openai", "a key is stored (qcode auth login openai)")


def test_key_in_a_locked_keyring_is_skipped_with_a_complaint(tmp_path: Path, use_keyring: UseKeyring) -> None:
    use_keyring(make(Working))
    store = stored(tmp_path, "anthropic")
    use_keyring(make(Locked))
    keys = Keys({"OPENAI_API_KEY": "x"}, lambda: store)
    assert choose_model(Settings(), keys, None, None, has_demo=True).spec.name == "openai"
    (problem,) = keys.problems
    assert "cannot read the key of anthropic: the keyring is locked" in problem


def test_damaged_key_file_is_reported(tmp_path: Path) -> None:
    store = stored(tmp_path, "openai")
    store.file.path.write_text("{")
    keys = Keys({}, lambda: store)
    assert keys.key_of(OPENAI) == ("", "")
    assert keys.stored_names() == ()
    assert len(keys.problems) == 1


def test_refused_key_is_named_by_the_command_that_stored_it() -> None:
    from qcode.protocol.errors import ProviderError
    from tests.fakes.server import FakeServer

    with FakeServer("openai", [], api_key="another") as server:
        provider = connect(OPENAI, base_url=server.base_url, api_key=CANARY, key_source="qcode auth login openai")
        with pytest.raises(ProviderError) as raised:
            asyncio.run(provider.model_names())
    assert "refused the key stored with qcode auth login openai: " in raised.value.message
    assert raised.value.message.endswith("store a valid one")


def test_missing_key_error_names_both_ways_to_set_one() -> None:
    from qcode.protocol.errors import ProviderError

    with pytest.raises(ProviderError, match="set OPENAI_API_KEY, or store one with qcode auth login openai"):
        connect(OPENAI)


def test_crash_report_contains_no_stored_key(tmp_path: Path) -> None:
    env = {"QCODE_HOME": str(tmp_path)}
    shapeless = "canary.of.no.known.shape"
    store = key_store(tmp_path, {})
    store.store("openai", Secret(shapeless))
    Keys({}, lambda: store).key_of(OPENAI)
    text = crash.describe_crash(RuntimeError(f"broke on {shapeless}"), env)
    assert shapeless not in text
    (report,) = (tmp_path / "state" / crash.FOLDER).iterdir()
    assert shapeless not in report.read_text()


def test_each_home_has_its_own_keyring_entry(tmp_path: Path, use_keyring: UseKeyring) -> None:
    ring = use_keyring(make(Working))
    key_store(tmp_path / "a", {"QCODE_HOME": "a"}).store("openai", Secret(CANARY))
    key_store(tmp_path / "b", {}).store("openai", Secret(CANARY))
    assert len(list(ring.iterdir())) == 2


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in the configuration folder that prints a key, and counts its runs in the file `runs`."""
    monkeypatch.setattr(keys_module, "printed_keys", {})
    path = tmp_path / "key.sh"
    path.write_text(f"#!/bin/sh\necho run >> runs\necho '  {CANARY} '\necho more\n")
    path.chmod(0o755)
    return path


def commanded(folder: Path, *command: str, env: dict[str, str] | None = None, name: str = "openai") -> Keys:
    found = {"PATH": os.environ["PATH"]} | (env or {})
    return Keys(found, lambda: stored(folder, "openai"), KeyCommands({name: command}, folder))


def test_command_supplies_the_key_once_for_all_agents(script: Path) -> None:
    first, second = commanded(script.parent, "./key.sh"), commanded(script.parent, "./key.sh")
    assert first.key_of(OPENAI) == (CANARY, "providers.openai.api_key_command")
    assert second.key_of(PROVIDERS["openai-responses"]) == (CANARY, "providers.openai.api_key_command")
    assert (script.parent / "runs").read_text() == "run\n"
    assert Secret(CANARY) in second.known_keys()


def test_command_does_not_run_to_list_credentials(script: Path) -> None:
    keys = commanded(script.parent, "./key.sh")
    assert keys.source_of(OPENAI) == keys.credential_of(OPENAI) == "providers.openai.api_key_command"
    assert not (script.parent / "runs").exists()


def test_variable_takes_precedence_over_a_command(script: Path) -> None:
    keys = commanded(script.parent, "./key.sh", env={"OPENAI_API_KEY": "set"})
    assert keys.key_of(OPENAI) == ("set", "OPENAI_API_KEY")


def test_relative_program_is_that_of_the_configuration_folder(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = script.parent / "project"
    project.mkdir()
    (project / "key.sh").write_text("#!/bin/sh\necho evil\n")
    (project / "key.sh").chmod(0o755)
    monkeypatch.chdir(project)
    assert commanded(script.parent, "./key.sh").key_of(OPENAI)[0] == CANARY


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("sh", "-c", "echo first >&2; echo 'no such entry' >&2; exit 3"), "exit code 3: no such entry"),
        (("false",), "exit code 1"),
        (("no-such-program",), "no-such-program could not be started: No such file or directory"),
        (("printf", "\n\n"), "it printed nothing"),
        (("sleep", "60"), "it did not end within 0.1 s"),
        (("sh", "-c", "sleep 60 & echo x >&2; wait"), "it did not end within 0.1 s"),
    ],
)
def test_failed_command_is_one_line_and_no_stored_key_replaces_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], why: str
) -> None:
    if "sleep" in " ".join(command):
        monkeypatch.setattr(keys_module, "COMMAND_TIMEOUT_S", 0.1)
    keys = commanded(tmp_path, *command)
    assert keys.key_of(OPENAI)[0] == ""
    assert keys.problems == (f"providers.openai.api_key_command failed: {why}",)
    assert keys.failure_of(OPENAI) == keys.problems[0]


def test_shell_characters_in_a_command_mean_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "printed_keys", {})
    keys = commanded(tmp_path, "echo", "$HOME;`touch", "x`", "|", "cat")
    assert keys.key_of(OPENAI)[0] == "$HOME;`touch x` | cat"
    assert not (tmp_path / "x").exists()
