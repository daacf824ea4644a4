"""Docstrings and comments that name a member of a class of qcode, as in `Session.close`, name one that exists."""

from __future__ import annotations

import ast
import re

from tests.arch.sources import modules

_CLASS = re.compile(r"^ *class (\w+)", re.MULTILINE)
_REFERENCE = re.compile(r"(?<!`)`([A-Z]\w*)\.([A-Za-z_]\w*)(?:\(\))?`")


def members(trees: list[ast.Module]) -> dict[str, set[str]]:
    """Return the names that each class defines or uses, with those of its bases; `*` if a base is not in `trees`."""
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for node in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        names = own.setdefault(node.name, set())
        bases.setdefault(node.name, set()).update(base_names(node))
        for child in ast.walk(node):
            match child:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    names.add(name)
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    names.add(name)

    def inherited(name: str) -> set[str]:
        if name not in own:
            return set() if name in ("object", "Exception", "Protocol", "Generic") else {"*"}
        return own[name].union(*map(inherited, bases[name]))

    return {name: inherited(name) for name in own}


def unknown_references(texts: dict[str, str]) -> list[str]:
    """Return each reference to a missing member as `module: Class.member`."""
    found = [(name, owner, member) for name, text in texts.items() for owner, member in _REFERENCE.findall(text)]
    known = members(trees_with({owner for _, owner, _ in found}, texts))
    return [
        f"{name}: {owner}.{member}"
        for name, owner, member in found
        if owner in known and not {member, "*"} & known[owner]
    ]


def trees_with(classes: set[str], texts: dict[str, str]) -> list[ast.Module]:
    """Return the modules that define `classes` or their bases; parsing all modules takes seconds."""
    left = {name: set(_CLASS.findall(text)) for name, text in texts.items()}
    trees: list[ast.Module] = []
    while needed := [name for name, defined in left.items() if defined & classes]:
        for name in needed:
            del left[name]
            trees.append(ast.parse(texts[name]))
        classes = classes.union(*(base_names(node) for tree in trees for node in ast.walk(tree)))
    return trees


def base_names(node: ast.AST) -> set[str]:
    """Return the names of the bases if the node is a class."""
    bases = node.bases if isinstance(node, ast.ClassDef) else []
    return {re.split(r"[\[.]", ast.unparse(base))[0] for base in bases}


def test_every_member_named_in_a_docstring_exists() -> None:
    assert unknown_references({name: path.read_text(encoding="utf-8") for name, path in modules().items()}) == []


def test_reference_to_a_missing_member_is_found() -> None:
    text = '"""See `Job.start`, `Job.stop` and `Job.pid`."""\nclass Job:\n    def stop(self): ...\n    pid: int\n'
    assert unknown_references({"jobs": text}) == ["jobs: Job.start"]
