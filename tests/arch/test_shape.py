from __future__ import annotations

import ast
import re
from collections import Counter

import pytest

from tests.arch.sources import cycle, docstring, imports, modules, nodes

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 50
LONGER_DOCSTRINGS = {"qcode.engine": 60}
"""The engine tells the story of a turn in one page: no single module of it could."""


def test_every_file_is_under_600_lines() -> None:
    lengths = {name: path.read_text(encoding="utf-8").count("\n") for name, path in modules().items()}
    assert {name: lines for name, lines in lengths.items() if lines >= MAX_FILE_LINES} == {}


MAX_MODULES_IN_A_FOLDER = 16
LARGER_FOLDERS = {"qcode.agent": 20}
"""The services of the agent are side by side; several are separate only because they load late."""


def test_every_folder_holds_at_most_16_modules() -> None:
    folders = Counter(name.rpartition(".")[0] for name, path in modules().items() if path.name != "__init__.py")
    assert len(folders) > 20
    assert {
        folder: count
        for folder, count in folders.items()
        if count > LARGER_FOLDERS.get(folder, MAX_MODULES_IN_A_FOLDER)
    } == {}


SMALL_MODULE_LINES = 100


def test_small_module_with_one_importer_gives_its_reason() -> None:
    """Otherwise it belongs into that importer. A module without importers is a program."""
    importers = Counter(imported for found in imports().values() for imported in found)
    assert importers["qcode.values"] > 50
    unexplained = set()
    for name, path in modules().items():
        text = path.read_text(encoding="utf-8")
        is_small = text.count("\n") < SMALL_MODULE_LINES and path.name != "__init__.py"
        if is_small and importers[name] == 1 and not explains_why_it_is_separate(docstring(name)):
            unexplained.add(name)
    assert unexplained == set()


def explains_why_it_is_separate(doc: str) -> bool:
    return re.search(r"\b(?:[Aa]part|[Ss]eparate|[Ss]eparately)\b", doc) is not None


def test_reason_to_be_separate_is_recognized() -> None:
    assert explains_why_it_is_separate("Colors.\n\nA separate module because the first paint needs none.")
    assert not explains_why_it_is_separate("Colors.")


def test_every_function_is_under_50_lines() -> None:
    too_long = {}
    for name in modules():
        for node in nodes(name):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines >= MAX_FUNCTION_LINES:
                    too_long[f"{name}.{node.name}"] = lines
    assert too_long == {}


def test_imports_form_no_cycle() -> None:
    assert sum(len(imported) for imported in imports().values()) > 100
    assert cycle(imports()) == []


def test_reply_state_is_imported_by_its_package_only() -> None:
    private = "qcode.engine.reply.state"
    importers = {name for name, imported in imports().items() if private in imported}
    assert {"qcode.engine.reply.reply", "qcode.engine.reply.failures"} <= importers
    assert {name for name in importers if not name.startswith("qcode.engine.reply.")} == set()


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b", "c"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"b"}}, ["b", "c", "b"]),
        ({"a": {"a"}}, ["a", "a"]),
    ],
)
def test_import_cycle_is_found(graph: dict[str, set[str]], found: list[str]) -> None:
    assert cycle(graph) == found


def test_module_docstring_has_at_most_8_lines() -> None:
    docs = {name: docstring(name) for name in modules()}
    assert {name for name, doc in docs.items() if not doc} == set()
    lines = {name: len([line for line in doc.splitlines() if line.strip()]) for name, doc in docs.items() if doc}
    assert {name: count for name, count in lines.items() if count > LONGER_DOCSTRINGS.get(name, 8)} == {}


def test_engine_docstring_names_every_engine_module() -> None:
    """Readers look up the file for a question there."""
    story = docstring("qcode.engine")
    names = [name.removeprefix("qcode.engine.").replace(".", "/") for name in modules() if "qcode.engine." in name]
    assert len(names) > 15
    helpers = {"reply", "reply/state"}
    assert [name for name in names if name not in helpers and not re.search(rf"\b{name}\b", story)] == []


def test_value_classes_use_the_lightweight_decorator() -> None:
    """The standard decorator takes ten times as long at every start."""
    dear = set()
    for name, path in modules().items():
        text = path.read_text(encoding="utf-8")
        decorators = [line.strip() for line in text.splitlines() if line.strip().startswith("@dataclass")]
        # Textual's messages have no slots, and a class that is compared by identity is not one of our values.
        is_plain = set(decorators) <= {"@dataclass(frozen=True, slots=True)", "@dataclass(slots=True)"}
        is_ours = re.search(r"from qcode\.values import .*\bdataclass\b", text)
        if decorators and not is_ours and (is_plain or not name.startswith("qcode.tui.")):
            dear.add(name)
    assert dear == set()


def test_broad_except_occurs_only_at_the_edges() -> None:
    broad = set()
    for name in modules():
        for node in nodes(name):
            if isinstance(node, ast.ExceptHandler) and _is_broad(node) and not _raises_again(node):
                broad.add(name)
    assert {name for name in broad if not name.startswith(EDGES)} == set()


EDGES = (
    "qcode.acp.session",
    "qcode.acp.wire",
    "qcode.agent.driver",
    "qcode.agent.hooks.runner",
    "qcode.agent.keys.ring",
    "qcode.agent.programs",
    "qcode.headless.host.session",
    "qcode.providers.sdk",
    "qcode.tui.app",
    "qcode.tui.failures",
    "qcode.tui.transcript.layout",
    "qcode.tui.transcript.pane",
    "qcode.tui.turns",
    "qcode.tui.linear",
    "qcode.cli",
)
"""Functions that report an unknown fault to the user instead of ending the program with a traceback.

`providers.sdk.run_in_thread` and `keys.ring` raise the faults of a thread in the thread of the caller.
"""


def _is_broad(node: ast.ExceptHandler) -> bool:
    return node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException"))


def _raises_again(node: ast.ExceptHandler) -> bool:
    return any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(node))
