"""Tests use no private member of the product: they would break with every change of its inside."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.arch.sources import ROOT, modules, nodes

OF_OTHERS = frozenset({"_exit", "_file", "_pool", "_server", "_variables"})
"""Private names of the standard library, of Textual, of httpx2 and of the fakes that the product happens to use too."""

NOT_OWN = re.compile(r"(?<!\bself\.)(?<!\bcls\.)\b_\w+")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and len(name) > 1


@cache
def private_names() -> frozenset[str]:
    """Return the private names of the product's modules, classes and functions."""
    found = set()
    for module in modules():
        for node in nodes(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.attr if isinstance(node, ast.Attribute) else node.id)
    return frozenset(name for name in found if is_private(name)) - OF_OTHERS


def uses(tree: ast.AST) -> Iterator[str]:
    """Yield each private member of the product that a test file reads, imports or replaces."""
    every = list(ast.walk(tree))
    members = [node for node in every if isinstance(node, ast.Attribute)]
    own = {node.attr for node in members if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")}
    own |= {node.name for node in every if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    yield from (ast.unparse(node) for node in members if node.attr in private_names() - own)
    for node in every:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("qcode"):
            yield from (alias.name for alias in node.names if is_private(alias.name))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            named = [word.value for word in node.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
            yield from (name for name in named if name.rpartition(".")[2] in private_names())


def may_use(text: str) -> bool:
    """Return whether a file may use a private member of the product; parsing all files takes seconds."""
    return not private_names().isdisjoint(NOT_OWN.findall(text))


def test_no_test_uses_a_private_member_of_the_product() -> None:
    found = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if may_use(text) and (used := sorted(set(uses(ast.parse(text))))):
            found[str(path.relative_to(ROOT))] = used
    assert len(private_names()) > 1_000
    assert found == {}


@pytest.mark.parametrize(
    "code",
    [
        "from qcode.agent.trust.store import _lines",
        "conversation._run()",
        "monkeypatch.setattr('qcode.agent.trust.store._lines', list)",
        "monkeypatch.setattr(trust, '_lines', list)",
        "assert agent.conversation._counter is None",
    ],
)
def test_use_of_a_private_member_is_found(code: str) -> None:
    assert may_use(code)
    assert list(uses(ast.parse(code)))


def test_own_members_of_a_test_class_are_not_those_of_the_product() -> None:
    assert not list(uses(ast.parse("class Fake:\n    def _run(self): self._counter = 1\nFake()._run()._counter")))
