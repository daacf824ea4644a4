"""The line finder against texts whose lines are known, and against the standard reader."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.config.lines import find_lines, parse_key
from qcode.config.schema import dotted

TRICKY = '''# a comment with = and [brackets]
model = "a # no comment [x]"

[output] # the table
max_tokens=1
"quoted \\u0041.key" = 'literal \\'

[models."local/qwen = ]"]
note = """
[not.a.table]
key = 1
\\""" still inside """""
list = [ # comment ]
  "]", '[', { inner = 1 },
  2,
]
output = { max_tokens = 1, deep = { er = [ "}" ] } }
raw = \'\'\'
also = "no key"
\'\'\'
a.b . "c" = 1979-05-27 07:32:00
[[many]]
x = 1
[[many]]
y = 2
'''


def test_each_key_is_found_on_its_line() -> None:
    local = ("models", "local/qwen = ]")
    assert find_lines(TRICKY) == {
        ("model",): 2,
        ("output",): 4,
        ("output", "max_tokens"): 5,
        ("output", "quoted A.key"): 6,
        ("models",): 8,
        local: 8,
        (*local, "note"): 9,
        (*local, "list"): 13,
        (*local, "output"): 17,
        (*local, "output", "max_tokens"): 17,
        (*local, "output", "deep"): 17,
        (*local, "output", "deep", "er"): 17,
        (*local, "raw"): 18,
        (*local, "a"): 21,
        (*local, "a", "b"): 21,
        (*local, "a", "b", "c"): 21,
        ("many",): 22,
        ("many", "x"): 23,
        ("many", "y"): 25,
    }


def test_windows_line_ends_count_once() -> None:
    assert find_lines("a = 1\r\n\r\nb = 2\r\n") == {("a",): 1, ("b",): 3}


@pytest.mark.parametrize("text", ["", "\n", "# only a comment", "a = 1", "[t]"])
def test_truncated_text_is_accepted(text: str) -> None:
    assert set(find_lines(text)) == set(_paths(tomllib.loads(text)))


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=6)
SCALARS = st.one_of(
    st.integers(-9, 9).map(str),
    st.booleans().map(lambda one: str(one).lower()),
    st.sampled_from(['"#"', "'['", '"""\n[x]\n"""', "'''\nk = 1\n'''", '"\\""', "[1, # ]\n 2]", "{}", "[{a=1}]", "[]"]),
)


@given(st.dictionaries(NAMES, st.dictionaries(NAMES, SCALARS, max_size=4), max_size=4), st.sampled_from(["", " # x"]))
def test_generated_texts_give_the_lines_they_were_written_on(tables: dict[str, dict[str, str]], comment: str) -> None:
    text = ""
    expected: dict[tuple[str, ...], int] = {}
    for name, pairs in tables.items():
        expected[(name,)] = text.count("\n") + 1
        text += f"[ {dotted((name,))} ]{comment}\n\n"
        for key, value in pairs.items():
            expected[(name, key)] = text.count("\n") + 1
            text += f"  {dotted((key,))}\t= {value}{comment}\n"
    found = find_lines(text)
    assert found == expected
    assert set(found) == set(_paths(tomllib.loads(text)))


@given(st.lists(NAMES, min_size=1, max_size=4).map(tuple))
def test_dotted_name_reads_back_as_its_path(path: tuple[str, ...]) -> None:
    assert parse_key(dotted(path)) == path


def _paths(table: Mapping[str, object], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in table.items():
        yield (*prefix, name)
        if isinstance(value, dict):
            yield from _paths(value, (*prefix, name))
