"""The app uses private members of Textual in one module only, whose tests check each of them."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import Iterable, Iterator

from textual.drivers.linux_driver import LinuxDriver

import qcode.tui
from qcode.tui.terminal import textual_internals as internals

INTERNALS = internals.__name__


def sources() -> Iterator[tuple[str, ast.Module]]:
    for found in pkgutil.walk_packages(qcode.tui.__path__, "qcode.tui."):
        if found.name != INTERNALS:
            yield found.name, ast.parse(inspect.getsource(importlib.import_module(found.name)))


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def named_in(tree: ast.AST) -> set[str]:
    """Return the private names that a class defines, uses on `self` or `super()`, or names in a string (`getattr`)."""
    names = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and (
            isinstance(node.value, ast.Call) or (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        )
    }
    names |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    names |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return set(filter(private, names))


def of_textual(bases: Iterable[type]) -> set[str]:
    return {name for base in bases if base.__module__.partition(".")[0] == "textual" for name in named_by(base)}


@functools.cache
def named_by(base: type) -> set[str]:
    return named_in(ast.parse(textwrap.dedent(inspect.getsource(base))))


def test_no_other_module_imports_a_private_module_or_name_of_textual() -> None:
    for name, tree in sources():
        imported = {
            f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        } | {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        textual = {module for module in imported if module.partition(".")[0] == "textual"}
        assert [module for module in textual if any(map(private, module.split(".")))] == [], name


def test_no_other_class_uses_or_hides_a_private_member_of_textual() -> None:
    seen = 0
    for name, tree in sources():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            made = getattr(importlib.import_module(name), node.name, None)
            # A class created in a function is a driver.
            bases = made.__mro__ if isinstance(made, type) else LinuxDriver.__mro__
            theirs = of_textual(bases)
            seen += bool(theirs)
            assert named_in(node) & theirs == set(), f"{name}.{node.name}"
    assert seen > 30


def test_private_members_are_used_only_on_own_objects() -> None:
    for name, tree in sources():
        for node in ast.walk(tree):
            # `_replace` is the public method of named tuples, `os._exit` a public function.
            if isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in ("_replace", "_exit"):
                assert isinstance(node.value, ast.Name), f"{name}: {ast.unparse(node)}"
                assert node.value.id == "self", f"{name}: {ast.unparse(node)}"
