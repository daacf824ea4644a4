"""The reference pages name everything that the program has, and nothing else."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import qcode
from qcode.cli.flags import SUBCOMMANDS
from qcode.cli.subcommands.uninstall import CONFIG_NAMES, STATE_NAMES
from qcode.config.json_schema import schema_text
from qcode.config.load import OUTPUT_CAP_VARIABLES
from qcode.protocol.errors import ExitCode
from qcode.providers.registry import PROVIDERS
from scripts import reference
from tests.docs.blocks import PAGES, ROOT, PageRunner, blocks_of
from tests.e2e.test_killed import SEEDS

FORMATS = (ROOT / "docs" / "output-formats.md").read_text(encoding="utf-8")
COMMAND_LINE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
SOURCE = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "qcode").rglob("*.py"))


@pytest.mark.parametrize("page", reference.PAGES, ids=lambda page: page.name)
def test_generated_parts_of_a_page_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == reference.rendered(text), "run: python -m scripts.reference"


def test_every_generated_part_is_on_one_page() -> None:
    found = [name for page in reference.PAGES for name in reference.parts_of(page.read_text(encoding="utf-8"))]
    assert sorted(found) == sorted(reference.PARTS)


@pytest.mark.parametrize("name", sorted({*qcode.__all__} - {"__version__", "Opening", "HookFunction"}))
def test_pages_about_python_explain_every_public_name(name: str) -> None:
    pages = [(ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("python-api.md", "how-to/embed.md")]
    assert any(re.search(rf"^### `{name}`$|`[^`\n]*\b{name}\b[^`\n]*`", page, re.MULTILINE) for page in pages)


def test_exit_codes_of_the_page_are_those_of_the_program() -> None:
    found = re.findall(r"^\| (\d+) \|", COMMAND_LINE, re.MULTILINE)
    assert [int(code) for code in found] == sorted(ExitCode)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_of_each_shell_is_one_line_of_the_page(shell: str) -> None:
    assert (
        len(re.findall(rf"^\| {shell} \|.*`[^`]*qcode --completion {shell}[^`]*` \|$", COMMAND_LINE, re.MULTILINE)) == 1
    )


def test_subcommands_of_the_page_are_those_of_the_program() -> None:
    section = COMMAND_LINE.split("## Subcommands")[1].split("## Flags")[0]
    assert set(re.findall(r"^\| `qcode ([a-z]+)", section, re.MULTILINE)) == set(SUBCOMMANDS)


def test_environment_variables_of_the_pages_are_read_by_the_program() -> None:
    section = COMMAND_LINE.split("## Environment variables")[1]
    named = set(re.findall(r"`([A-Z][A-Z0-9_]+)`", section))
    proxies = {"HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "HTTPS_PROXY"}
    assert {name for name in named - proxies if name not in SOURCE} == set()
    assert {*OUTPUT_CAP_VARIABLES, "QCODE_HOME", "QCODE_MODEL"} <= named
    addresses = {name for spec in PROVIDERS.values() for name in spec.base_url_variables}
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert {name for name in addresses if f"`{name}`" not in pages} == set()


def test_json_fields_of_the_page_are_those_of_the_program(tmp_path: Path) -> None:
    done = PageRunner(tmp_path).bash("qcode -p hello -o stream-json")
    init, *_, result = (json.loads(line) for line in done.stdout.splitlines())
    rows = {name: row[1] for row in rows_of("field") for name in re.findall(r"`(\w+)`", row[0])}
    assert set(rows) - {"structured_output"} == set(result)
    for name in ("usage", "api_calls"):
        assert set(result[name]) <= set(re.findall(r"`(\w+)`", rows[name]))
    (fields,) = (row[1] for row in rows_of("`system` subtype") if row[0] == "`init`")
    assert {"type", "subtype", "session_id", "uuid", *re.findall(r"`(\w+)`", fields)} == set(init)


def test_tools_and_themes_of_the_guides_are_those_of_the_program(tmp_path: Path) -> None:
    runner = PageRunner(tmp_path)
    init = json.loads(runner.bash("qcode -p hello -o stream-json").stdout.splitlines()[0])
    named = first_column(ROOT / "docs" / "guide" / "tools.md")
    only_elsewhere = {"apply_patch", "web_search", "exit_plan_mode", "server__tool"}
    assert named - only_elsewhere - {"brave", "tavily", "host"} == set(init["tools"])
    themes = set(runner.bash("qcode themes").stdout.split())
    assert first_column(ROOT / "docs" / "guide" / "themes.md") == themes | {"auto"}


def first_column(page: Path) -> set[str]:
    """Return the names in the first column of the tables of a page that are not generated."""
    text = re.sub(r"<!-- begin ([\w-]+) -->.*?<!-- end \1 -->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    cells = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    return {name.strip('"') for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_subtypes_of_the_page_are_those_of_the_program() -> None:
    named = {field for row in rows_of("`subtype`") for field in re.findall(r"`(\w+)`", row[0])}
    outcomes = (ROOT / "qcode" / "agent" / "outcomes.py").read_text(encoding="utf-8")
    assert named == {"success", *re.findall(r'"(error_\w+)"', outcomes)}
    lines = (ROOT / "qcode" / "headless" / "lines.py").read_text(encoding="utf-8")
    written = re.findall(r'"subtype": "(\w+)"', lines)
    assert sorted(row[0].strip("`") for row in rows_of("`system` subtype")) == sorted(written)


def rows_of(head: str) -> list[list[str]]:
    """Return the cells of the table of the formats whose first column is `head`."""
    (table,) = [part for part in FORMATS.split("\n\n") if part.startswith(f"| {head} |")]
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


def test_quoted_messages_of_the_pages_are_in_the_program() -> None:
    source = re.sub(r'\\n|"\s*f?"', "", SOURCE)
    quoted = [message for page in PAGES for message in re.findall(r"^\| \*(.*?)\* \|", page.read_text(), re.MULTILINE)]
    blocks = [block for page in PAGES for block in blocks_of(page) if block.info == "quote"]
    quoted += [line for block in blocks for line in block.text.splitlines() if re.match(r" {0,2}\w[^/]*$", line)]
    assert len(quoted) > 12
    missing = []
    for message in quoted:
        # The letter of a choice and the key of an action are put beside its words: `Yes (y)`, `Esc quit`.
        for part in re.split(r"…|[0-9][0-9,]*(?: requests)?|`\w+`| {2,}| \(\w\)|\b(?:Enter|Esc) ", message):
            words = part.strip(" .:;(),")
            if words and words not in source:
                missing.append(words)
    assert missing == []


def test_figures_of_the_readme_are_in_the_pages_that_prove_them() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8").split("## Why qcode")[1].split("## ")[0]
    proofs = {
        name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("performance.md", "guide/safety.md")
    }
    for figure in re.findall(r"\d\.\d\d s", readme):
        assert figure in proofs["performance.md"]
    for figure in re.findall(r"\d{2,3},\d{3}", readme):
        assert figure in proofs["guide/safety.md"]
    kills = re.search(r"(\d+) random moments", readme)
    assert kills is not None
    assert f"{kills[1]} random moments" in (ROOT / "docs/guide/sessions.md").read_text(encoding="utf-8")
    assert int(kills[1]) == 2 * len(SEEDS)
    protocols = {spec.protocol for spec in PROVIDERS.values()} - {"demo"}
    assert (len(protocols), len(PROVIDERS) - 1) == (5, 22), "README: five wire protocols, 22 known providers"


def test_config_schema_is_up_to_date() -> None:
    assert reference.SCHEMA.read_text(encoding="utf-8") == schema_text(), "run: python -m scripts.reference"


def test_files_of_the_page_are_those_that_uninstall_removes() -> None:
    text = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    names = {
        title: first_cells(text.split(f"## {title}\n")[1].split("\n## ")[0]) for title in ("Configuration", "State")
    }
    assert names == {"Configuration": list(CONFIG_NAMES), "State": list(STATE_NAMES)}


def first_cells(section: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def test_extras_of_the_page_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, re.MULTILINE)
    extras = {
        name: {re.split("[<>=]", item)[0] for item in given} for name, given in project["optional-dependencies"].items()
    }
    own = {name: set(given.strip().split(", ")) for name, given in rows}
    assert own == {name: given for name, given in extras.items() if name not in ("test", "docs", "lint")}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in own if f"`{name}`" not in readme] == []


def test_sizes_of_the_page_are_those_of_the_packages() -> None:
    """The figures are those of pip, which writes byte code; the version of a package changes them a little."""
    if (metadata.distribution("openai").read_text("INSTALLER") or "").strip() != "pip":
        pytest.skip("not installed with pip")
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the page has the figures of Python 3.11; newer versions need fewer packages")
    text = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8").split("## Size")[1]
    rows = {
        tuple(names.split(", ")): float(size)
        for names, size in re.findall(r"^\| ([a-z-]+(?:, [a-z-]+)*) \| ([\d.]+) \|", text, re.MULTILINE)
    }
    sizes = {name: size_of(name) for name in required_packages()}
    listed = {name for names in rows for name in names}
    assert {name for name, size in sizes.items() if size > 3.4} <= listed
    for names, size in rows.items():
        if names != ("qcode-cli",):  # its tests are not shipped
            assert size == pytest.approx(sum(sizes[name] for name in names), rel=0.15), names
    assert int(re.findall(r"(\d+) packages", text)[0]) == pytest.approx(len(sizes), abs=4)


def required_packages() -> set[str]:
    """Return the packages that an installation without extras has."""
    found: set[str] = set()
    left = ["qcode-cli"]
    while left:
        name = canonicalize_name(left.pop())
        if name not in found:
            found.add(name)
            needs = map(Requirement, metadata.requires(name) or [])
            left += [need.name for need in needs if not need.marker or need.marker.evaluate({"extra": ""})]
    return found


def size_of(name: str) -> float:
    """Return the megabytes of a package, with its byte code."""
    files = metadata.files(name) or []
    return sum(path.stat().st_size for file in files if (path := Path(str(file.locate()))).is_file()) / 1e6
