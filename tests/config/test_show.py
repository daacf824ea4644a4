"""`config show`: every setting with its origin, and no secret."""

from __future__ import annotations

from qcode.config.schema import KEYS
from qcode.config.show import setting_rows
from tests.config.folders import Folders
from tests.config.test_files import EVERYTHING

SECRETS = """
[providers.local]
type = "openai"
base_url = "https://user:canary1@host.example:8443/v1?key=canary2"
headers = { Authorization = "Bearer canary3" }
[mcp_servers.git]
command = "git-mcp --token canary4"
args = ["--key", "canary5"]
env = { TOKEN = "canary6" }
"""


def test_show_lists_every_fixed_key_with_its_origin(folders: Folders) -> None:
    rows = {row.key: row for row in setting_rows(folders.user("[output]\nmax_tokens = 5").load({"QCODE_MODEL": "a/b"}))}
    assert {key.name for key in KEYS if "*" not in key.path} <= set(rows)
    assert (rows["output.max_tokens"].value, str(rows["output.max_tokens"].origin)) == ("5", f"{folders.user_file}:2")
    assert (rows["model"].value, str(rows["model"].origin)) == ('"a/b"', "QCODE_MODEL")
    assert (rows["output.escalate"].value, str(rows["output.escalate"].origin)) == ("true", "default")
    assert rows["output.max_total_output_chars"].value == "(not set)"


def test_show_lists_named_providers_and_models(folders: Folders) -> None:
    rows = {row.key: row.value for row in setting_rows(folders.user(EVERYTHING).load())}
    assert rows['models."local/qwen3-coder".price.input'] == "0.5"
    assert rows['models."local/qwen3-coder".output.max_tokens'] == "16000"
    assert rows["providers.local.idle_timeout_s"] == "600"
    assert rows['ui.keys."app.quit"'] == '"ctrl+q"'
    assert rows["permissions.allow"] == '["shell(git log *)"]'


def test_show_hides_secrets(folders: Folders) -> None:
    settings = folders.user(SECRETS).load()
    rows = {row.key: row.value for row in setting_rows(settings)}
    assert "canary" not in str(rows)
    assert rows["providers.local.base_url"] == '"https://(hidden)@host.example:8443/v1?(hidden)"'
    assert rows["providers.local.headers.Authorization"] == "(hidden)"
    assert rows["mcp_servers.git.env.TOKEN"] == "(hidden)"


def test_printing_the_settings_shows_no_header_and_no_server_environment(folders: Folders) -> None:
    printed = repr(folders.user(SECRETS).load())
    assert "canary3" not in printed
    assert "canary5" not in printed
    assert "canary6" not in printed
