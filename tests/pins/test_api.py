"""The public Python API: names, signatures, fields and exit codes, as programs rely on them."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import types
from pathlib import Path

import pytest

import qcode
from tests.pins.conftest import OPTION
from tests.pins.golden import DATA

OF_AGENT = ("cancel", "close", "fork", "open", "run", "stream")
"""The methods of `Agent` that are stable; the others serve the front ends."""
STORED = DATA / "api.txt"
STUB = Path(qcode.__file__).with_suffix(".pyi")


def test_names_signatures_and_fields_stay(pytestconfig: pytest.Config) -> None:
    """New names may come, and new fields with a default."""
    found = [line for name in qcode.__all__ for line in _described(name)]
    if pytestconfig.getoption(OPTION, default=False):
        STORED.write_text("".join(f"{line}\n" for line in found))
    stored = STORED.read_text().splitlines()
    assert [line for line in stored if line not in found] == [], "programs that use these would break"
    known = {line.partition(".")[0] for line in stored if "." in line}
    added = [line for line in found if line not in stored and line.partition(".")[0] in known and ": " in line]
    assert [line for line in added if " = " not in line and not line.endswith(": property")] == []


def _described(name: str) -> list[str]:
    """Return a line for the name, and for each stable member of a class."""
    found = getattr(qcode, name)
    if isinstance(found, types.UnionType):
        return [f"{name}: UnionType"]
    if not isinstance(found, type):
        return [f"{name}{inspect.signature(found)}" if inspect.isfunction(found) else f"{name}: {type(found).__name__}"]
    lines = [f"class {name}({', '.join(base.__name__ for base in found.__bases__)})"]
    if dataclasses.is_dataclass(found):
        lines += [f"{name}.{field.name}: {field.type}{_default(field)}" for field in dataclasses.fields(found)]
    for member, value in sorted(vars(found).items()):
        plain = value.__func__ if isinstance(value, classmethod) else value
        is_made_by_users = member == "__init__" and issubclass(found, Exception)
        if (member.startswith("_") and not is_made_by_users) or (name == "Agent" and member not in OF_AGENT):
            continue
        if isinstance(plain, property):
            lines.append(f"{name}.{member}: property")
        elif inspect.isfunction(plain):
            lines.append(f"{name}.{member}{inspect.signature(plain)}")
        elif member == "exit_code" and isinstance(value, int):
            lines.append(f"{name}.exit_code = {int(value)}")
    return lines


def _default(field: dataclasses.Field[object]) -> str:
    if field.default is not dataclasses.MISSING:
        return f" = {field.default!r}"
    return "" if field.default_factory is dataclasses.MISSING else " = ..."


def test_type_checkers_see_the_same_names() -> None:
    stub = ast.parse(STUB.read_text("utf-8")).body
    nodes = [node for node in stub if isinstance(node, ast.ImportFrom)]
    (listed,) = [node.value for node in stub if isinstance(node, ast.Assign)]
    assert sorted(ast.literal_eval(listed)) == sorted(qcode.__all__)  # for `from qcode import *`
    stubbed = {(node.module, alias.asname or alias.name) for node in nodes for alias in node.names}
    assert stubbed == {(module, name) for name, module in vars(qcode)["_MODULE_BY_NAME"].items()}
    assert qcode.__all__ == ["__version__", *sorted(name for _, name in stubbed)]


def test_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(qcode, "Agnt")
    assert "Agent" in dir(qcode)
