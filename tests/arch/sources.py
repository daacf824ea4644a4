"""The source files of the product as the shape tests see them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ROOT / "qcode"


@cache
def modules() -> Mapping[str, Path]:
    """Return the file of each module of the product, by dotted name; there are always some."""
    found = {}
    for path in sorted(PRODUCT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    assert len(found) > 50, "the product was not found"
    return found


@cache
def nodes(name: str) -> tuple[ast.AST, ...]:
    """Return all nodes of a module's syntax tree, the module first."""
    return tuple(ast.walk(ast.parse(modules()[name].read_text(encoding="utf-8"))))


def docstring(name: str) -> str:
    """Return the docstring of a module, empty if it has none."""
    root = nodes(name)[0]
    assert isinstance(root, ast.Module)
    return ast.get_docstring(root) or ""


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """Return the modules of the product that each module imports, anywhere in it."""
    return {name: frozenset(_imported(name)) - {name} for name in modules()}


def _imported(importer: str) -> Iterator[str]:
    names = modules()
    for node in nodes(importer):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                if submodule in names:
                    yield submodule
                elif node.module in names:
                    yield node.module


def cycle(graph: Mapping[str, Set[str]]) -> list[str]:
    """Return the modules of one import cycle in order, its first repeated at the end; empty without a cycle."""
    done: set[str] = set()
    for start in graph:
        path: list[str] = []
        stack = [(start, iter(sorted(graph[start])))] if start not in done else []
        path.extend(name for name, _ in stack)
        while stack:
            name, rest = stack[-1]
            following = next((other for other in rest if other in path or other not in done), None)
            if following is None:
                done.add(name)
                stack.pop()
                path.pop()
            elif following in path:
                return [*path[path.index(following) :], following]
            else:
                stack.append((following, iter(sorted(graph[following]))))
                path.append(following)
    return []
