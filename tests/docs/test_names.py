"""Every flag, command, key, variable, file and exit code that a page names exists."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs import names
from tests.docs.blocks import PAGES, ROOT

OWN = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
FOREIGN_FLAGS: dict[str, set[str]] = {
    "CONTRIBUTING.md": {"-k", "-n"},
    "containers.md": {"--build-arg", "--privileged", "--user"},
    "comparison.md": {"-s"},
    "install.md": {"--force"},
    "mcp.md": {"--require"},
    "from-claude-code.md": {"--flag", "--resume-session-at", "--resume-drops-turn", "--session-mirror"},
    "permissions.md": {"--force"},
    "local-models.md": {"--context-length", "--max-model-len", "--parallel", "--jinja"},
}
"""Flags of other programs that a page names, and flags of Claude Code that qcode does not have."""
FOREIGN_VARIABLES = {"CLAUDE_CODE_MAX_OUTPUT_TOKENS", "GEMINI_SANDBOX", "QWEN_SANDBOX", "HTTP_PROXY"}
"""Those of other programs in the comparison, and one that only the HTTP library reads."""
FOREIGN_FILES = {"acp.json"}
"""A file of an editor."""
FOREIGN_NAMES = {"create_sdk_mcp_server", "ansi_default", "test_truncated_call_is_never_executed"}
"""A function of an SDK, a color of Textual, and an example."""
OWN_SLASH_COMMANDS = {"/output", "/review", "/git:commit", "/release-notes", "/x", "/name", "/server:prompt", "/tmp"}
"""Commands of linear mode, commands that a page defines, and paths."""
EXAMPLES = ("qcode/providers/acme/", "themes/NAME.toml")


each_page = pytest.mark.parametrize("page", OWN, ids=lambda page: page.relative_to(ROOT).as_posix())


@functools.cache
def source() -> str:
    """Return the program with its data files, its tests and scripts."""
    rooms = [ROOT / name for name in ("qcode", "scripts", "tests", "themes", ".ci", ".github")]
    own = Path(__file__).parent
    paths = [path for room in rooms for end in ("py", "toml", "sh", "yml") for path in room.rglob(f"*.{end}")]
    paths += [ROOT / "Makefile", ROOT / "pyproject.toml"]
    return "\n".join(path.read_text(encoding="utf-8") for path in paths if path.parent != own)


@functools.cache
def has_word(word: str) -> bool:
    # The word comes first: a pattern that begins with a look behind is tried at each of five million characters.
    literal = re.escape(word)
    return re.search(rf"{literal}(?<![\w.-]{literal})(?![\w-])", source()) is not None


@each_page
def test_paths_of_a_page_exist(page: Path) -> None:
    text = names.prose(page.read_text(encoding="utf-8"))
    found = re.findall(r"`((?:qcode|tests|scripts|docs|themes|\.ci|\.github)/[\w./-]+\.\w+)`", text)
    assert [path for path in found if not path.startswith(EXAMPLES) and not (ROOT / path).exists()] == []


@each_page
def test_files_that_a_page_names_are_known_to_the_program(page: Path) -> None:
    found = names.files(page.read_text(encoding="utf-8")) - FOREIGN_FILES
    assert {name for name in found if "NAME" not in name and not has_word(name)} == set()


@each_page
def test_exit_codes_of_a_page_exist(page: Path) -> None:
    assert names.unknown_exit_codes(page.read_text(encoding="utf-8")) == set()


@each_page
def test_flags_that_a_page_names_alone_exist(page: Path) -> None:
    assert names.unknown_flags(page.read_text(encoding="utf-8")) - FOREIGN_FLAGS.get(page.name, set()) == set()


@each_page
def test_commands_of_a_page_are_accepted_by_the_parser(page: Path) -> None:
    assert names.invalid_commands(page.read_text(encoding="utf-8")) == set()


@each_page
def test_slash_commands_of_a_page_exist(page: Path) -> None:
    assert names.unknown_slash_commands(page.read_text(encoding="utf-8")) - OWN_SLASH_COMMANDS == set()


@each_page
def test_config_keys_of_a_page_exist(page: Path) -> None:
    assert names.unknown_config_keys(page.read_text(encoding="utf-8")) == set()


@each_page
def test_keyboard_keys_of_a_page_are_bound(page: Path) -> None:
    assert names.unknown_keyboard_keys(page.read_text(encoding="utf-8")) == set()


@each_page
def test_environment_variables_of_a_page_are_read(page: Path) -> None:
    found = names.variables(page.read_text(encoding="utf-8")) - FOREIGN_VARIABLES
    assert {name for name in found if not has_word(name)} == set()


@each_page
def test_identifiers_of_a_page_are_in_the_program(page: Path) -> None:
    found = names.identifiers(page.read_text(encoding="utf-8")) - FOREIGN_NAMES
    assert {name for name in found if not has_word(name)} == set()


@each_page
def test_make_targets_of_a_page_exist(page: Path) -> None:
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert names.targets(page.read_text(encoding="utf-8")) - known == set()


@pytest.mark.parametrize(
    ("text", "check", "wrong"),
    [
        ("Use `--max-token 3`.", names.unknown_flags, {"--max-token"}),
        ("Type `/undoo`.", names.unknown_slash_commands, {"/undoo"}),
        ("Set `output.max_token = 3`.", names.unknown_config_keys, {"output.max_token = 3"}),
        ("In `[providers.lab.heders]`", names.unknown_config_keys, {"[providers.lab.heders]"}),
        ('In `models."a/b".image`', names.unknown_config_keys, {'models."a/b".image'}),
        ("It ends with exit codes 41 and 99.", names.unknown_exit_codes, {99}),
        ("It exits with 44.", names.unknown_exit_codes, {44}),
        ("| a | exit code |\n|---|---|\n| b | 3, 0 |\n", names.unknown_exit_codes, {3}),
        ("Press Ctrl+Q or Ctrl+O.", names.unknown_keyboard_keys, {"Ctrl+Q"}),
    ],
)
def test_wrong_name_is_found(text: str, check: Callable[[str], set[object]], wrong: set[object]) -> None:
    assert check(text) == wrong


@pytest.mark.parametrize(
    "text",
    [
        "Run `qcode trust everything`.",
        "Run `qcode doctor --jsn`.",
        "Run `qcode -p --output-format xml`.",
        "```sh\ngit diff | qcode -p hi --timeouts 3\n```",
        "```console\n$ qcode sessions lst\n```",
        '```sh skip="no key"\nwhile true; do qcode models forgt --al; done\n```',
    ],
)
def test_command_that_the_parser_refuses_is_found(text: str) -> None:
    assert len(names.invalid_commands(text)) == 1


def test_commands_are_found_behind_pipes_and_in_substitutions() -> None:
    script = 'cat x | qcode -p "a b" > f\nmkdir "$(dirname "$(qcode config path)")"\nX=1 qcode -c'
    assert names.commands_of(script) == [["-p", "a b"], ["config", "path"], ["-c"]]
