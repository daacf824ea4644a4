"""The precedence of layers, and the origin of each value."""

from __future__ import annotations

from pathlib import Path

import pytest

from qcode.config.settings import Origin
from qcode.protocol.errors import ConfigError
from tests.config.folders import Folders


def test_flags_override_environment_which_overrides_project_and_user(folders: Folders, tmp_path: Path) -> None:
    folders.user("model = 'user'\nsmall_model = 'user'")
    assert folders.load().model == "user"
    folders.in_project("\nmodel = 'project'")
    assert folders.load().model == "project"
    origin = folders.load().origin("model")
    assert (origin.kind, origin.where, origin.is_project) == ("file", f"{folders.project_file}:2", True)
    assert folders.load().small_model == "user"
    env = {"QCODE_MODEL": " env "}
    assert folders.load(env).model == "env"
    assert folders.load(env).origin("model") == Origin("env", "QCODE_MODEL")
    extra = tmp_path / "extra.toml"
    extra.write_text("model = 'extra'")
    assert folders.load(env, extra=extra).model == "extra"
    found = folders.load(env, {"model": "flag"}, extra=extra)
    assert found.model == "flag"
    assert found.origin("model") == Origin("flag", "--model")


def test_program_gives_settings_as_a_mapping(folders: Folders) -> None:
    folders.user("model = 'user'\n[permissions]\nallow = ['read']")
    given = {"model": "given", "permissions": {"allow": ["shell(make test)"]}, "network": {"idle_timeout_s": 90}}
    settings = folders.load({"QCODE_MODEL": "env"}, extra=given)
    assert (settings.model, settings.network.idle_timeout_s) == ("given", 90)
    assert settings.permissions.allow == ("read", "shell(make test)")
    assert str(settings.origin("model")) == "Options(settings=...)"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"modell": "x"}, r"^Options\(settings=\.\.\.\): unknown key modell; the nearest is model"),
        ({"network": 3}, r"network must be a table"),
        ({"output": {"max_tokens": "many"}}, r"output\.max_tokens must be a whole number of at least 1"),
        ({"permissions": {"mode": "bypass"}}, r"`bypass` cannot be set"),
    ],
)
def test_invalid_mapping_is_one_line_with_the_key(folders: Folders, given: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as raised:
        folders.load(extra=given)
    assert "\n" not in str(raised.value)


def test_without_the_user_configuration_models_and_providers_stay(folders: Folders) -> None:
    folders.user(
        "model = 'user'\n[providers.local]\ntype = 'openai'\nbase_url = 'http://h'\n"
        "[permissions]\nallow = ['read']\n[mcp_servers.s]\ncommand = 'c'\n[output]\nmax_tokens = 7"
    )
    settings = folders.load(user_config=False)
    assert (settings.model, settings.output.max_tokens, list(settings.providers)) == ("user", 7, ["local"])
    assert settings.permissions.allow == ()
    assert dict(settings.mcp_servers) == {}


def test_default_has_the_origin_default(folders: Folders) -> None:
    assert str(folders.load().origin("network.idle_timeout_s")) == "default"
    assert folders.user("[network]\nidle_timeout_s = 90").load().origin("network.idle_timeout_s").kind == "file"


def test_flag_not_given_sets_nothing(folders: Folders) -> None:
    settings = folders.user("model = 'x'").load(flags={"model": None, "output.escalate": False})
    assert (settings.model, settings.output.escalate) == ("x", False)
    assert settings.origin("output.escalate").where == "--no-escalation"


def test_base_url_flag_sets_the_endpoint_of_its_provider(folders: Folders) -> None:
    flags = {"providers.openai.base_url": "http://localhost:1/v1"}
    settings = folders.load({"OPENAI_BASE_URL": "https://elsewhere.example"}, flags)
    assert settings.providers["openai"].base_url == "http://localhost:1/v1"
    assert settings.origin("providers.openai.base_url").where == "--base-url"


def test_invalid_flag_is_named_as_typed(folders: Folders) -> None:
    with pytest.raises(ConfigError, match=r"^--max-output-tokens must be a whole number of at least 1"):
        folders.load(flags={"output.max_tokens": 0})
    with pytest.raises(ConfigError, match=r"unknown key output\.cap; the nearest is output\."):
        folders.load(flags={"output.cap": 1})


def test_endpoints_come_from_the_environment_over_files(folders: Folders) -> None:
    folders.user("[providers.openai]\nbase_url = 'http://file'\ndefault_model = 'm'")
    env = {
        "OPENAI_BASE_URL": "http://env",
        "ANTHROPIC_BASE_URL": "http://a",
        "GOOGLE_GEMINI_BASE_URL": "",
    }
    providers = folders.load(env).providers
    assert (providers["openai"].base_url, providers["openai"].default_model) == ("http://env", "m")
    assert providers["openai-responses"].base_url == "http://env"
    assert providers["anthropic"].type == "anthropic"
    assert "gemini" not in providers
    with pytest.raises(ConfigError, match=r"^OPENAI_BASE_URL must be a URL"):
        folders.load({"OPENAI_BASE_URL": "localhost"})


def test_rules_of_all_layers_are_combined(folders: Folders) -> None:
    folders.user("[permissions]\ndeny = ['read(a)']\nask = ['read(b)']\nallow = ['read(c)']")
    folders.in_project("[permissions]\ndeny = []\nask = ['read(b)', 'read(d)']")
    flags: dict[str, list[str]] = {"permissions.allow": ["read(e)"], "permissions.deny": ["read(f)"]}
    settings = folders.load(flags=flags)
    assert settings.permissions.deny == ("read(a)", "read(f)")
    assert settings.permissions.ask == ("read(b)", "read(d)")
    assert settings.permissions.allow == ("read(c)", "read(e)")
    assert settings.origin("permissions.allow").where == f"{folders.user_file}:4, --allowed-tools"


def test_tables_of_two_files_are_merged_key_by_key(folders: Folders) -> None:
    folders.user("[models.'a/b']\nimages = true\ncontext_window = 5000\n[ui.keys]\nx = 'f2'")
    folders.in_project("[models.'a/b']\ncontext_window = 6000")
    model = folders.load().models["a/b"]
    assert (model.images, model.context_window) == (True, 6000)
    assert folders.load().origin('models."a/b".images').where == f"{folders.user_file}:2"


@pytest.mark.parametrize(
    "text",
    [
        "[permissions]\nmode = 'plan'",
        "[permissions]\nallow = ['shell(ls)']",
        "[providers.x]\ntype = 'openai'",
        "[providers.openai]\nbase_url = 'http://evil.example'",
        "[providers.openai]\nheaders = { A = 'b' }",
        "[providers.openai]\nmax_retries = 1",
        "[providers.openai]\nnetwork = { max_retries = 1 }",
        "[providers]\n[providers.openai]",
        "[tools]\nsandbox = 'off'",
        "[tools]\nsandbox = 'auto'",
        "[ui.keys]\n'approval.deny' = 'y'",
        "[models.'a/b']\nprice = { input = 0, output = 0 }",
    ],
)
def test_project_cannot_set_keys_that_lower_protection(folders: Folders, text: str) -> None:
    with pytest.raises(ConfigError, match=r"\.qcode/config\.toml:2: a project may "):
        folders.in_project(text).load()
    assert folders.load(is_trusted=False).providers == {}


def test_project_may_require_a_sandbox(folders: Folders) -> None:
    assert folders.user("[tools]\nsandbox='off'").in_project("[tools]\nsandbox='required'").load().tools.sandbox == (
        "required"
    )


def test_project_server_is_marked_and_cannot_replace_a_user_server(folders: Folders) -> None:
    folders.user("[mcp_servers.mine]\ncommand = 'mine'\nenv = { TOKEN = 'canary' }")
    folders.in_project("[mcp_servers.theirs]\ncommand = 'theirs'")
    servers = folders.load().mcp_servers
    assert (servers["mine"].is_from_project, servers["theirs"].is_from_project) == (False, True)
    folders.in_project("[mcp_servers.mine]\ncommand = 'evil'")
    with pytest.raises(ConfigError, match=r"\.qcode/config\.toml:2: mcp_servers\.mine is already defined in your"):
        folders.load()


def test_untrusted_project_is_not_read(folders: Folders) -> None:
    folders.in_project("this is [ no TOML")
    settings = folders.load(is_trusted=False)
    assert settings.model is None
    assert settings.warnings == (
        f"this folder is not trusted, so {folders.project_file} is ignored; qcode trust accept trusts it",
    )


def test_user_file_is_not_restricted_like_a_project_file(folders: Folders) -> None:
    folders.in_project("[permissions]\nmode = 'plan'")
    folders.user_file.symlink_to(folders.project_file)
    assert folders.load().permissions.mode == "plan"


def test_values_cannot_be_changed_afterwards(folders: Folders) -> None:
    settings = folders.user("[providers.x]\ntype='openai'\nheaders={A='b'}").load()
    with pytest.raises(TypeError):
        settings.providers["x"].headers["A"] = "c"  # type: ignore[index]  # that it is refused is the point
    with pytest.raises(AttributeError):
        settings.output.max_tokens = 1  # type: ignore[misc]  # that it is refused is the point


def test_rule_keeps_its_line_through_all_layers(tmp_path: Path) -> None:
    folders = Folders(tmp_path).user('[permissions]\ndeny = ["shell(a)", # one\n  "shell(b)",\n]\n')
    folders.in_project('permissions.deny = ["shell(b)", { rule = "shell(c)", examples = ["c", "c d"] }]\n')
    settings = folders.load(flags={"permissions.deny": ("shell(d)",)})
    origins = [str(origin) for origin in settings.item_origins["permissions.deny"]]
    user, project = folders.user_file, folders.project_file
    assert [str(rule) for rule in settings.permissions.deny] == ["shell(a)", "shell(b)", "shell(c)", "shell(d)"]
    assert origins == [f"{user}:2", f"{user}:3", f"{project}:1", "--disallowed-tools"]
