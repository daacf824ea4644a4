"""Globs of rules."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.agent.context.globs import GlobError, compile_glob


@pytest.mark.parametrize(
    ("pattern", "covered", "other"),
    [
        ("src/**/*.{ts,tsx}", ["src/a.ts", "src/x/y/b.tsx"], ["src/a.js", "a.ts", "srcx/a.ts"]),
        ("**/*.py", ["a.py", "x/a.py"], ["a.pyc", "a.py/x"]),
        ("*.md", ["a.md"], ["x/a.md"]),
        ("./docs/*.md", ["docs/a.md"], ["docs/x/a.md"]),
        ("/docs/a?.md", ["docs/ab.md"], ["docs/a.md", "docs/a/.md"]),
        ("{src,lib}/**", ["src/a", "lib/x/y"], ["src", "other/a"]),
        ("a/{b,c{d,e}}/?.[a-c]x", ["a/b/z.ax", "a/ce/1.cx"], ["a/c/z.ax", "a/b/z.dx"]),
        ("[!a]b", ["cb"], ["ab", "/b"]),
        ("a**b", ["axx/yb", "ab"], ["a"]),
        ("**/**/a", ["a", "x/y/a"], ["b"]),
        ("a\\*", ["a*"], ["ab"]),
        ("a]b", ["a]b"], ["ab"]),
        ("{,x}a", ["a", "xa"], ["ya"]),
    ],
)
def test_pattern_covers_paths(pattern: str, covered: list[str], other: list[str]) -> None:
    glob = compile_glob(pattern)
    assert [path for path in covered if not glob.matches(path)] == []
    assert [path for path in other if glob.matches(path)] == []


def test_open_brace_is_an_error() -> None:
    with pytest.raises(GlobError, match="not closed"):
        compile_glob("src/{a,b")


@pytest.mark.parametrize(
    ("pattern", "path", "is_covered"),
    [
        ("src/{" + ",".join(f"name{number}" for number in range(10_000)) + "}/*.ts", "src/name9999/a.ts", True),
        ("src/{" + ",".join(f"name{number}" for number in range(10_000)) + "}/*.ts", "src/" + "name" * 500, False),
        ("**/" * 5_000 + "a", "x/" * 200 + "b", False),
        ("*a" * 300, "a" * 400 + "b", False),
    ],
)
def test_huge_pattern_ends_quickly(pattern: str, path: str, is_covered: bool) -> None:
    started = time.process_time()
    assert compile_glob(pattern).matches(path) is is_covered
    assert time.process_time() - started < 0.3  # 0.1 s on a machine with nothing else to do


@given(st.text(alphabet="ab*?{},[]!/\\", max_size=12), st.text(alphabet="ab/", max_size=8))
def test_any_pattern_compiles_or_raises_a_glob_error(pattern: str, path: str) -> None:
    try:
        glob = compile_glob(pattern)
    except GlobError:
        return
    assert glob.matches(path) in (True, False)


@given(st.text(alphabet="abc/.", max_size=8))
def test_pattern_without_wildcards_covers_only_its_own_path(path: str) -> None:
    plain = path.removeprefix("./").removeprefix("/")
    assert compile_glob(path).matches(plain)
    assert not compile_glob(path).matches(f"{plain}x")
