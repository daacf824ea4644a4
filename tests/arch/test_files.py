from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from qcode.cli.subcommands.update import DISTRIBUTION
from tests.arch.sources import ROOT

BUILT = {"__pycache__", "dist", "build", "node_modules"}
PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][0-9a-zA-Z.!+]*")
# Traces of the machine on which a file was made: an installed interpreter, a private index, a file address.
MACHINE = re.compile(
    r"/[\w./-]+/(?:site-packages|\.pyenv|\.venv)/|--(?:extra-)?index-url|^index-url|file:///(?:home|opt|work|root)"
)


def texts() -> Iterator[tuple[Path, str]]:
    """Yield the text files of the checkout, without built and hidden files, but with `.ci`."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name == ".ci" or not (name.startswith(".") or name in BUILT)]
        folders[:] = [name for name in folders if not name.endswith(".egg-info")]
        for name in names:
            path = Path(folder, name)
            try:
                yield path.relative_to(ROOT), path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def test_constraints_hold_names_and_versions_only() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not PIN.fullmatch(line)] == []
    names = [_normal(line.partition("==")[0]) for line in lines]
    assert len(names) == len(set(names))


def test_every_dependency_of_run_and_test_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    expected = [
        *project["dependencies"],
        *project["optional-dependencies"]["test"],
        *project["optional-dependencies"]["docs"],
    ]
    names = {_normal(re.split(r"[<>=!~\[; ]", requirement, maxsplit=1)[0]) for requirement in expected}
    pinned = {_normal(line.partition("==")[0]) for line in _constraints()}
    assert names - pinned == set()


def _constraints() -> list[str]:
    return (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_files_contain_no_trace_of_a_machine() -> None:
    own = Path(__file__).relative_to(ROOT)
    found = {str(path): match[0] for path, text in texts() if path != own and (match := MACHINE.search(text))}
    assert found == {}


def test_product_files_do_not_name_the_checkout_folder() -> None:
    folder = str(ROOT)
    if folder.count("/") < 2:
        pytest.skip("the checkout lies at the top of the file system: its name says nothing")
    assert [str(path) for path, text in texts() if path.parts[0] != "tests" and folder in text] == []


# The package `qcode` of the index is a stranger's, and `qcode-cli` is not published: a clone is installed. The section
# of the README about the time after the first release, and the command that reads the index, name `qcode-cli`.
INSTALLED_BY_NAME = re.compile(
    r"\bqcode(?:-cli)?\[(?=[a-z, ]+\])"
    r"|\b(?:pip[0-9.]*|pipx|uvx|uv)(?: +(?:pip|tool|install|run|upgrade|add|download|-[-\w]+))* +['\"]?qcode"
)
RELEASED = "## After the first release"


def test_pages_and_messages_do_not_install_qcode_by_name() -> None:
    own = Path(__file__).relative_to(ROOT)
    assert [str(path) for path, text in texts() if path != own and _installs_by_name(path, text)] == []


def _installs_by_name(path: Path, text: str) -> bool:
    if path == Path("README.md"):
        before, _, after = text.partition(RELEASED)
        section, _, rest = after.partition("\n## ")
        assert not re.search(r"\bqcode(?!-cli)(?:\[| *$)", section, re.MULTILINE)
        text = before + rest
    return INSTALLED_BY_NAME.search(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "pip install qcode",
        "pip3 install -U 'qcode'",
        "pipx run qcode",
        "uvx qcode",
        "uv tool install qcode-cli",
        "'qcode[images]'",
    ],
)
def test_install_by_name_is_recognized(text: str) -> None:
    assert INSTALLED_BY_NAME.search(text)


def test_distribution_is_qcode_cli_and_both_commands_are_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == DISTRIBUTION == "qcode-cli"
    assert project["scripts"] == {"qcode": "qcode.__main__:main", "qcode-cli": "qcode.__main__:main"}


def test_every_dependency_is_imported_by_the_program() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "qcode").rglob("*.py"))
    modules = {"google-genai": "google", "markdown-it-py": "markdown_it", "pyyaml": "yaml"}
    names = [_normal(re.split(r"[<>=!~\[; ]", dependency, maxsplit=1)[0]) for dependency in project["dependencies"]]
    unused = [
        name
        for name in names
        if not re.search(rf"^ *(?:import|from) {modules.get(name, name.replace('-', '_'))}\b", source, re.MULTILINE)
    ]
    assert unused == []


def test_license_file_matches_the_package_metadata() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


@pytest.mark.parametrize("name", ["run", "test", "check", "fmt", "lint", "types", "arch", "snap-update", "bench"])
def test_make_has_every_documented_target(name: str) -> None:
    done = subprocess.run(["make", "-n", name], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr


def test_make_check_runs_the_tests_the_types_and_the_contracts() -> None:
    done = subprocess.run(["make", "-n", "check"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    for command in ("-m pytest", "ruff check .", "ruff format --check .", "/mypy", "lint-imports", ".ci/ran.py"):
        assert command in done.stdout


def test_check_fails_if_no_test_ran(tmp_path: Path) -> None:
    def code(tests: int, skipped: int) -> int:
        report = tmp_path / "tests.xml"
        report.write_text(f'<testsuites><testsuite tests="{tests}" skipped="{skipped}"/></testsuites>')
        done = subprocess.run([sys.executable, str(ROOT / ".ci" / "ran.py"), str(report)], capture_output=True)
        return done.returncode

    assert [code(0, 0), code(3, 3), code(3, 2)] == [1, 1, 0]


def test_index_lists_every_page_of_docs() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")} - {"README.md"}
    decisions = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    missing = {page for page in pages if f"({page})" not in index and f"({Path(page).name})" not in decisions}
    assert missing == set()


def test_links_between_pages_are_valid() -> None:
    broken = []
    for path, text in texts():
        if path.suffix == ".md":
            for target, heading in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)#?([^)\s]*)\)", text):
                page = ROOT / path.parent / target if target else ROOT / path
                if not page.exists() or (heading and heading not in headings(page)):
                    broken.append(f"{path}: {target}#{heading}")
    assert broken == []


def headings(page: Path) -> set[str]:
    """Return the headings of a page as links name them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in found}


def test_files_named_by_the_architecture_page_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(qcode/[\w/]+\.py)`", page))
    assert len(named) > 30
    assert {name for name in named if not (ROOT / name).is_file()} == set()
    packages = {path.parent.name for path in (ROOT / "qcode").glob("*/__init__.py")}
    assert {
        package
        for package in packages
        if not re.search(rf"^.*\b{package}\b.*$", page.split("## Packages")[1].split("```")[1], re.MULTILINE)
    } == set()
