"""The contents of a configuration file, and the reports of mistakes in one."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import pytest

from qcode.config.settings import McpServer, Network, Output, ProviderSettings
from qcode.protocol.errors import ConfigError
from qcode.protocol.usage import Price
from tests.config.folders import Folders

EVERYTHING = """
model = "anthropic/claude-x"
small_model = "local/tiny"
[output]
max_tokens = 4000
escalate = false
max_continuations = 0
policy = "continue"
tool_call_repair = "resume"
max_tool_repair_attempts = 2
max_total_completion_tokens = 90000
max_total_output_chars = 200000
min_escalation_gain = 2
[network]
connect_timeout_s = 1.5
first_event_timeout_s = 30
idle_timeout_s = 20
max_retries = 0
retry_after_max_s = 9
[permissions]
mode = "accept-edits"
allow = ["shell(git log *)"]
ask = ["shell(git push *)"]
deny = ["edit(secrets/**)"]
[tools]
shell_timeout_s = 5
max_output_chars = 1000
tool_timeout_s = 6
sandbox = "off"
[ui]
theme = "paper"
linear = true
bell = true
title = false
show_thinking = "hidden"
mouse = false
[ui.keys]
"app.quit" = "ctrl+q"
[providers.local]
type = "openai"
base_url = "http://localhost:8000/v1"
api_key_env = "LOCAL_KEY"
headers = { "X-Team" = "blue" }
max_tokens_field = "max_completion_tokens"
reasoning_field = "reasoning"
default_model = "qwen"
idle_timeout_s = 600
[models."local/qwen3-coder"]
context_window = 131072
max_output_tokens = 32768
prefill = true
images = false
thinking = true
inline_thinking = true
text_tool_calls = true
output = { max_tokens = 16000 }
price = { input = 0.5, output = 2.0, cache_read = 0.05, cache_write = 0.6 }
[mcp_servers.git]
command = "git-mcp"
args = ["--verbose", ""]
env = { A = "" }
"""


def test_mode_ask_in_a_file_is_the_default_mode(folders: Folders) -> None:
    settings = folders.user('[permissions]\nmode = "ask"').load()
    assert settings.permissions.mode == "default"
    assert settings.origin("permissions.mode").kind == "file"


def test_every_key_of_the_contract_is_read(folders: Folders) -> None:
    settings = folders.user(EVERYTHING).load()
    assert (settings.model, settings.small_model) == ("anthropic/claude-x", "local/tiny")
    assert settings.output == Output(4000, False, 0, "continue", "resume", 2, 90000, 200000, 2.0)
    assert settings.network == Network(1.5, 30, 20, 0, 9)
    assert settings.permissions.mode == "accept-edits"
    assert settings.permissions.allow == ("shell(git log *)",)
    assert settings.permissions.ask == ("shell(git push *)",)
    assert settings.permissions.deny == ("edit(secrets/**)",)
    assert (settings.tools.shell_timeout_s, settings.tools.max_output_chars) == (5, 1000)
    assert (settings.tools.tool_timeout_s, settings.tools.sandbox) == (6, "off")
    ui = settings.ui
    assert (ui.theme, ui.linear, ui.bell, ui.title, ui.show_thinking, ui.mouse) == (
        *("paper", True, True),
        *(False, "hidden", False),
    )
    assert dict(ui.keys) == {"app.quit": "ctrl+q"}
    assert settings.providers["local"] == ProviderSettings(
        "openai",
        "http://localhost:8000/v1",
        "LOCAL_KEY",
        None,
        {"X-Team": "blue"},
        "max_completion_tokens",
        "reasoning",
        default_model="qwen",
        network=Network(1.5, 30, 600, 0, 9),
    )
    model = settings.models["local/qwen3-coder"]
    assert (model.context_window, model.max_output_tokens) == (131072, 32768)
    assert (model.prefill, model.images, model.thinking) == (True, False, True)
    assert (model.inline_thinking, model.text_tool_calls) == (True, True)
    assert model.output == Output(16000, False, 0, "continue", "resume", 2, 90000, 200000, 2.0)
    assert settings.mcp_servers["git"] == McpServer("git-mcp", ("--verbose", ""), {"A": ""})


def test_defaults_are_the_documented_ones(folders: Folders) -> None:
    settings = folders.load()
    assert settings.output == Output(None, True, 3, "escalate", "reject", 1, None, None, 1.25)
    assert settings.network == Network(10, 600, 90, 5, 120)
    assert (settings.permissions.mode, settings.permissions.allow) == ("default", ())
    assert (settings.tools.shell_timeout_s, settings.tools.sandbox) == (120, "auto")
    assert (settings.model, settings.warnings) == (None, ())


def test_price_keeps_every_digit(folders: Folders) -> None:
    text = '[models."a/b"]\nprice = { input = 0.10, output = 3, cache_read = 0.0000000000000000001 }'
    price = folders.user(text).load().models["a/b"].price
    assert price == Price(Decimal("0.10"), Decimal(3), Decimal("0.0000000000000000001"))
    assert price is not None
    assert str(price.input) == "0.10"


def test_provider_network_keys_may_be_in_a_subtable(folders: Folders) -> None:
    settings = folders.user('[providers.x]\ntype="openai"\nnetwork = { max_retries = 1 }').load()
    assert settings.network_for("x") == Network(max_retries=1)
    assert settings.network_for("unheard-of") == Network()
    twice = '[providers.x]\ntype="openai"\nmax_retries = 2\nnetwork = { max_retries = 1 }'
    with pytest.raises(ConfigError, match=r"config\.toml:4: providers\.x\.max_retries is set twice"):
        folders.user(twice).load()


def test_built_in_provider_needs_no_type(folders: Folders) -> None:
    settings = folders.user('[providers.anthropic]\ndefault_model = "claude"').load()
    assert settings.providers["anthropic"].type == "anthropic"


MISTAKES = [
    ("\n\nmodle = 'x'", 3, "unknown key modle; the nearest is model"),
    ("[output]\nmax_token = 1", 2, "unknown key output.max_token; the nearest is output.max_tokens"),
    ("max_tokens = 1", 1, "unknown key max_tokens; the nearest is output.max_tokens"),
    ("# x\n[outptu]\nmax_tokens = 1", 2, "unknown key outptu; the nearest is output"),
    ("[network]\ntimeout = 1", 2, "the nearest is network."),
    ("[providers.local]\nbase_ulr = 'x'", 2, "the nearest is providers.local.base_url"),
    ("[providers.local]\napi_key = 'sk-canary'", 2, "the nearest is providers.local.api_key_env"),
    ('[models."a/b"]\noutput = { max_token = 1 }', 2, 'the nearest is models."a/b".output.max_tokens'),
    ('[models."a/b"]\nprice.inptu = 1', 2, 'the nearest is models."a/b".price.input'),
    ("[output]\nmax_tokens = '8k'", 2, "output.max_tokens must be a whole number of at least 1, not a string"),
    ("[output]\nmax_tokens = 0", 2, "output.max_tokens must be a whole number of at least 1, not 0"),
    ("[output]\nmax_tokens = true", 2, "not true or false"),
    ("[output]\nmax_tokens = 8000.0", 2, "must be a whole number"),
    ("[output]\nescalate = 1", 2, "output.escalate must be true or false, not a number"),
    ("[output]\nmin_escalation_gain = 0.5", 2, "must be a number of at least 1"),
    ("[output]\nmin_escalation_gain = nan", 2, "must be a number of at least 1"),
    ("[output]\npolicy = 'continu'", 2, 'must be one of "escalate", "continue"; did you mean "continue"?'),
    ("[network]\nidle_timeout_s = 0", 2, "must be a number greater than 0"),
    ("[network]\nidle_timeout_s = inf", 2, "must be a number greater than 0"),
    ("output = 5", 1, "output must be a table, not a number"),
    ("[[output]]\nmax_tokens = 1", 1, "output must be a table, not a list"),
    ("[model]\nname = 'x'", 1, "model must be a string, not a table"),
    ("model = ''", 1, "model must be a string, not an empty string"),
    ("model = 1979-05-27", 1, "model must be a string, not a date or time"),
    ("[permissions]\nallow = 'x'", 2, "permissions.allow must be a list of rules"),
    ("[permissions]\n\ndeny = [\n 'a',\n 1]", 3, "permissions.deny must be a list of rules"),
    ("[permissions]\nmode = 'foo'", 2, 'must be one of "plan", "default" (or "ask"), "accept-edits", "auto", "bypass"'),
    ("[permissions]\nmode = 'bypass'", 2, "--permission-mode bypass"),
    ("[ui.keys]\n'app.quit' = 1", 2, 'ui.keys."app.quit" must be a string, not a number'),
    ("[providers.local]\nbase_url = 'localhost:8000'", 2, "starts with http:// or https://"),
    ("[providers.local]\nbase_url = 'http://localhost:99999/v1'", 2, "has a valid host and port"),
    ("[providers.local]\napi_key_env = 'sk-canary'", 2, "must be the name of an environment variable, not a key"),
    ("[providers.local]\nheaders = { A = '' }", 2, "providers.local.headers.A must be a string"),
    ("[providers.local]", 1, 'providers.local needs a type: one of "openai"'),
    ("\n[providers.local]\nbase_url = 'http://h'", 3, "providers.local needs a type"),
    ("[providers.'a/b']\ntype = 'openai'", 1, "must not be empty or contain a slash"),
    ("[models.gpt]\nimages = true", 1, '[models."PROVIDER/MODEL"]'),
    ("[models.'x/']\nimages = true", 1, '[models."PROVIDER/MODEL"]'),
    ('[models."a/b"]\nprice = { input = 1 }', 2, 'models."a/b".price also needs output'),
    ('[models."a/b"]\nprice = { input = -1, output = 1 }', 2, "must be a number of at least 0"),
    ("[mcp_servers.git]\nargs = ['x']", 2, "mcp_servers.git needs either a command or a url"),
    ("[mcp_servers.git]\ncommand = 'x'\nurl = 'http://h'", 2, "either a command or a url"),
    ("model = \n", 1, "not valid TOML: Invalid value"),
    ("model = 'a'\n\nmodel = 'b'\n", 3, "not valid TOML: Cannot overwrite a value"),
    ("a = 1\nb = 'x\n", 2, "not valid TOML"),
]


@pytest.mark.parametrize(("text", "line", "words"), MISTAKES, ids=[mistake[2][:40] for mistake in MISTAKES])
def test_error_is_one_line_with_file_line_and_correction(folders: Folders, text: str, line: int, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        folders.user(text).load()
    message = str(caught.value)
    assert message.startswith(f"{folders.user_file}:{line}: "), message
    assert words in message
    assert "\n" not in message
    assert "canary" not in message


def test_invalid_utf_8_is_reported_with_its_line(folders: Folders) -> None:
    folders.user_file.write_bytes(b"# fine\nmodel = '\xff'\n")
    with pytest.raises(ConfigError, match=r"config\.toml:2: is not UTF-8 text"):
        folders.load()


def test_byte_order_mark_is_accepted(folders: Folders) -> None:
    assert folders.user("\ufeffmodel = 'x'").load().model == "x"


@pytest.mark.parametrize("text", ["x = " + "9" * 5000, "x = " + "[" * 3000 + "]" * 3000])
def test_absurd_values_are_a_configuration_error(folders: Folders, text: str) -> None:
    with pytest.raises(ConfigError, match="not valid TOML"):
        folders.user(text).load()


def test_special_file_is_refused_without_blocking(folders: Folders) -> None:
    os.mkfifo(folders.user_file)
    with pytest.raises(ConfigError, match="is not a regular file"):
        folders.load()
    folders.user_file.unlink()
    folders.user_file.mkdir()
    with pytest.raises(ConfigError, match="is not a regular file"):
        folders.load()


def test_huge_file_is_refused(folders: Folders) -> None:
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        folders.user("#" * ((1 << 20) + 1)).load()


def test_named_settings_file_must_exist(folders: Folders, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot read the file: No such file or directory"):
        folders.load(extra=tmp_path / "nowhere.toml")
