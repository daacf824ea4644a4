from __future__ import annotations

import ast

import pytest

from tests.arch.sources import cycle, imported_modules, modules

LONGEST_FILE = 400
LONGEST_FUNCTION = 50


def test_every_file_is_under_400_lines() -> None:
    lengths = {name: path.read_text(encoding="utf-8").count("\n") for name, path in modules().items()}
    assert {name: lines for name, lines in lengths.items() if lines >= LONGEST_FILE} == {}


def test_every_function_is_under_50_lines() -> None:
    too_long = {}
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines >= LONGEST_FUNCTION:
                    too_long[f"{name}.{node.name}"] = lines
    assert too_long == {}


def test_no_module_imports_itself_round_a_corner() -> None:
    files = modules()
    graph = {name: set(imported_modules(path, set(files))) - {name} for name, path in files.items()}
    assert sum(len(imports) for imports in graph.values()) > 100
    assert cycle(graph) == []


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b", "c"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"b"}}, ["b", "c", "b"]),
        ({"a": {"a"}}, ["a", "a"]),
    ],
)
def test_the_search_for_cycles_finds_them(graph: dict[str, set[str]], found: list[str]) -> None:
    assert cycle(graph) == found


def test_every_module_says_what_it_is_for_in_at_most_8_lines() -> None:
    docs = {name: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) for name, path in modules().items()}
    assert {name for name, doc in docs.items() if not doc} == set()
    lines = {name: len([line for line in doc.splitlines() if line.strip()]) for name, doc in docs.items() if doc}
    assert {name: count for name, count in lines.items() if count > 8} == {}


def test_values_are_made_the_cheap_way() -> None:
    """A class of the standard decorator costs every start ten times as much."""
    dear = set()
    for name, path in modules().items():
        text = path.read_text(encoding="utf-8")
        decorators = [line.strip() for line in text.splitlines() if line.strip().startswith("@dataclass")]
        is_plain = set(decorators) == {"@dataclass(frozen=True, slots=True)"} and "field(init=False" not in text
        if is_plain and "from qcode.protocol.values import dataclass" not in text:
            dear.add(name)
    assert dear == set()


def test_there_is_no_broad_except_but_at_the_edges() -> None:
    broad = set()
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ExceptHandler) and _is_broad(node) and not _raises_again(node):
                broad.add(name)
    assert {name for name in broad if not name.startswith(EDGES)} == set()


EDGES = (
    "qcode.runtime.driver",
    "qcode.tui.app",
    "qcode.tui.failures",
    "qcode.tui.turns",
    "qcode.tui.linear",
    "qcode.cli",
)
"""Where an unknown fault is reported to a person instead of ending the program with a traceback."""


def _is_broad(node: ast.ExceptHandler) -> bool:
    return node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException"))


def _raises_again(node: ast.ExceptHandler) -> bool:
    return any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(node))
