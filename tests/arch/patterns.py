"""Every regular expression of qcode, how it is used, and hostile texts made from its own characters."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import islice, product
from pathlib import Path
from types import ModuleType
from typing import Any

import qcode
from qcode.text.pattern import lazy_pattern

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import re._constants as codes  # type: ignore[import-not-found]  # no stubs: the parser of `re` is private
    import re._parser as parser  # type: ignore[import-not-found]

Text = str | bytes
SOURCE = Path(qcode.__file__).parent
LAZY = type(lazy_pattern(""))
ANCHORED = frozenset({"match", "fullmatch"})
SEARCHING = frozenset({"search", "sub", "subn", "finditer", "findall", "split"})


@dataclass(frozen=True)
class Found:
    """A pattern with the names it has and the methods that are called on it; none are known for a passed value."""

    pattern: re.Pattern[Any]
    name: str
    methods: frozenset[str] = field(default_factory=frozenset)

    @property
    def is_anchored(self) -> bool:
        """Whether it is only ever tried at one place of a text."""
        return bool(self.methods) and self.methods <= ANCHORED


@cache
def modules() -> tuple[ModuleType, ...]:
    """Return every module of qcode that can be imported here, imported."""
    found = [qcode]
    for info in pkgutil.walk_packages(qcode.__path__, "qcode."):
        if not info.name.endswith("__main__"):
            found.append(importlib.import_module(info.name))
    return tuple(found)


@cache
def collected() -> tuple[Found, ...]:
    """Return the patterns of all modules, classes, containers and calls of `re`, compiled or as text."""
    methods = _methods_by_name()
    named: dict[re.Pattern[Any], tuple[list[str], set[str], bool]] = {}

    def add(pattern: re.Pattern[Any], name: str, used: Iterable[str]) -> None:
        names, known, is_passed = named.setdefault(pattern, ([], set(), False))
        used = set(used)
        names.append(name)
        known |= used
        named[pattern] = (names, known, is_passed or not used)

    for module in modules():
        for name, value in vars(module).items():
            for path, pattern in _patterns_in(value, name, module.__name__):
                own = methods.get((module.__name__, path) if path.startswith("_") else ("", path), ())
                add(pattern, f"{module.__name__}.{path}", own)
    for name, method, pattern in _constant_calls():
        add(pattern, name, {method})
    for name, found in _texts().items():
        for path, text in found:
            add(re.compile(text), f"{name}.{path}", methods.get((name, path), ()))
    return tuple(
        Found(pattern, min(names, key=len), frozenset() if is_passed else frozenset(used))
        for pattern, (names, used, is_passed) in named.items()
    )


def _patterns_in(value: object, path: str, module: str, depth: int = 0) -> Iterator[tuple[str, re.Pattern[Any]]]:
    if isinstance(value, re.Pattern):
        yield path, value
    elif isinstance(value, LAZY):
        yield path, re.compile(value.pattern, value.flags)
    elif depth > 4 or isinstance(value, ModuleType):
        return
    elif isinstance(value, Mapping):
        for key, inner in list(value.items()):
            yield from _patterns_in(key, f"{path}[key]", module, depth + 1)
            yield from _patterns_in(inner, f"{path}[{key!r:.40}]", module, depth + 1)
    elif isinstance(value, list | tuple | set | frozenset):
        for index, inner in enumerate(value):
            yield from _patterns_in(inner, f"{path}[{index}]", module, depth + 1)
    elif getattr(value, "__module__", None) == module:
        slots = [getattr(value, slot, None) for kind in type(value).__mro__ for slot in getattr(kind, "__slots__", ())]
        inner_values = [*getattr(value, "__dict__", {}).items(), *enumerate(slots)]
        defaults = [
            *(getattr(value, "__defaults__", None) or ()),
            *(getattr(value, "__kwdefaults__", None) or {}).values(),
        ]
        for key, inner in [*inner_values, *enumerate(defaults)]:
            yield from _patterns_in(inner, f"{path}.{key}", module, depth + 1)


@cache
def _uses() -> Mapping[Path, list[ast.Name | ast.Attribute | ast.Call]]:
    """Return the names, attributes and calls of each file."""
    return {
        path: [
            node
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Name | ast.Attribute | ast.Call)
        ]
        for path in sorted(SOURCE.rglob("*.py"))
    }


@cache
def _methods_by_name() -> Mapping[tuple[str, str], frozenset[str]]:
    """Return the methods of patterns called on each name: of a private one by its module, of others anywhere."""
    used: dict[tuple[str, str], set[str]] = {}
    for path, nodes in _uses().items():
        module = ".".join(("qcode", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")

        def key(name: str, module: str = module) -> tuple[str, str]:
            return (module if name.startswith("_") else "", name)

        loaded: dict[str, int] = {}
        for node in nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                loaded[node.id] = loaded.get(node.id, 0) + 1
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.attr in ANCHORED | SEARCHING:
                    used.setdefault(key(node.value.id), set()).add(node.attr)
                    loaded[node.value.id] = loaded.get(node.value.id, 0) - 1
                elif node.attr in ("pattern", "flags"):
                    loaded[node.value.id] = loaded.get(node.value.id, 0) - 1
        for name, count in loaded.items():
            if count > 0 and key(name) in used:
                used[key(name)].add("passed")
    return {name: frozenset(found - {"passed"}) if "passed" not in found else SEARCHING for name, found in used.items()}


def _constant_calls() -> Iterator[tuple[str, str, re.Pattern[Any]]]:
    """Yield a name, a method and the pattern of each `re.search("…", …)` and the like."""
    for path, nodes in _uses().items():
        for node in nodes:
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "re"
                and node.func.attr in ANCHORED | SEARCHING
                and isinstance(node.args[0], ast.Constant)
            ):
                flags = 0
                for argument in [
                    *node.args[2:],
                    *(keyword.value for keyword in node.keywords if keyword.arg == "flags"),
                ]:
                    for part in ast.walk(argument):
                        if (
                            isinstance(part, ast.Attribute)
                            and isinstance(part.value, ast.Name)
                            and part.value.id == "re"
                        ):
                            flags |= getattr(re, part.attr)
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", node.func.attr, re.compile(node.args[0].value, flags)


@cache
def _texts() -> Mapping[str, list[tuple[str, str]]]:
    """Return for each module the texts that `re` compiles with their first use: by name, or with flags in front."""
    passed = {
        (path, node.args[0].id)
        for path, nodes in _uses().items()
        for node in nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ANCHORED | SEARCHING
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "re" and isinstance(node.args[0], ast.Name)
    }
    found: dict[str, list[tuple[str, str]]] = {}
    for module in modules():
        for name, value in vars(module).items():
            texts = [value] if isinstance(value, str) else []
            if isinstance(value, tuple):
                texts = [text for item in value if isinstance(text := getattr(item, "pattern", None), str)]
            is_passed = (Path(str(module.__file__)), name) in passed
            for text in texts:
                if is_passed or text.startswith("(?i)"):
                    found.setdefault(module.__name__, []).append((name, text))
    return found


def is_repeating(pattern: re.Pattern[Any]) -> bool:
    """Return whether anything in the pattern repeats without a limit; one without is linear."""
    return any(op in _REPEATS and argument[1] > MAX_REPEATS for op, argument in _nodes(_parsed(pattern)))


MAX_REPEATS = 64
"""A repetition up to so many is a constant factor."""

_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
_CATEGORIES = {
    codes.CATEGORY_DIGIT: "1",
    codes.CATEGORY_NOT_DIGIT: "a-",
    codes.CATEGORY_SPACE: " \n\t",
    codes.CATEGORY_NOT_SPACE: "a-",
    codes.CATEGORY_WORD: "a1_",
    codes.CATEGORY_NOT_WORD: " -",
}


def _parsed(pattern: re.Pattern[Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)


def _nodes(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each operation of a parsed pattern with its argument, outer ones first."""
    for op, argument in tree:
        yield op, argument
        for part in argument if isinstance(argument, tuple | list) else (argument,):
            if isinstance(part, parser.SubPattern):
                yield from _nodes(part)
            elif isinstance(part, list):
                for inner in part:
                    if isinstance(inner, parser.SubPattern):
                        yield from _nodes(inner)


def alphabet(pattern: re.Pattern[Any]) -> list[str]:
    """Return the words and single characters that the pattern is made of, and some that it excludes."""
    words: list[str] = []
    _add_words(_parsed(pattern), words)
    return list(dict.fromkeys(word for word in words if word))


def _add_words(tree: Any, words: list[str]) -> None:
    word = ""
    for op, argument in tree:
        if op is codes.LITERAL:
            word += chr(argument)
            continue
        words.append(word)
        word = ""
        if op is codes.NOT_LITERAL:
            words += [chr(argument), "a"]
        elif op is codes.ANY:
            words += ["a", " "]
        elif op is codes.IN:
            words += _members(argument)
        else:
            for part in argument if isinstance(argument, tuple | list) else (argument,):
                for inner in part if isinstance(part, list) else [part]:
                    if isinstance(inner, parser.SubPattern):
                        _add_words(inner, words)
    words.append(word)


def _members(members: list[tuple[Any, Any]]) -> list[str]:
    """Return a few characters of a class, of each kind that it names."""
    found: list[str] = []
    for op, argument in members:
        if op is codes.LITERAL:
            found.append(chr(argument))
        elif op is codes.RANGE:
            found.append(chr(argument[0]))
        elif op is codes.CATEGORY:
            found += _CATEGORIES[argument]
        elif op is codes.NEGATE:
            found += ["a", " "]
    return found


def hostile(pattern: re.Pattern[Any], length: int, most: int) -> Iterator[tuple[str, str, str]]:
    """Yield starts, pumps and ends, made of the parts of the pattern: at most `most`, the likeliest first."""
    letters = alphabet(pattern)
    letters.sort(key=len, reverse=True)
    ends = ["", "\x00"]
    pumps = [*letters, *("".join(pair) for pair in product(letters, repeat=2) if pair[0] != pair[1])]
    starts = ["", *letters]
    ordered = (
        (starts[start], pumps[total - 3 * start], end)
        for total in range(3 * len(starts) + len(pumps))
        for start in range(min(len(starts), total // 3 + 1))
        if total - 3 * start < len(pumps)
        for end in ends
    )
    yield from islice(ordered, most)
