"""The paths that match a few letters, in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.text.match import FuzzySearch, PathIndex

NAMES = st.text(st.sampled_from(list("abcM_-.é")), min_size=1, max_size=6).filter(lambda name: name.strip(".") != "")
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
FILES = st.lists(PATHS, max_size=30)
QUERIES = st.text(st.sampled_from(list("abcM_/.")), min_size=1, max_size=5).filter(
    lambda text: not text.startswith("./")
)


def found(files: list[str], query: str, *recent: str, limit: int = 50) -> list[str]:
    return [match.path for match in FuzzySearch(PathIndex.of(files)).find(query, recent, limit)]


def has_letters(path: str, query: str) -> bool:
    letters = iter(path.lower())
    return all(letter in letters for letter in query.lower())


@given(FILES, QUERIES)
def test_search_finds_exactly_the_paths_with_the_letters_in_order(files: list[str], query: str) -> None:
    paths = set(PathIndex.of(files).paths)
    expected = {path for path in paths if has_letters(path, query)}
    if query.endswith("/"):
        expected -= {path for path in paths if path.lower() == query.lower()}
    assert set(found(files, query, limit=1_000)) == expected


@given(FILES, QUERIES, st.integers(1, 5))
def test_smaller_limit_gives_the_first_matches(files: list[str], query: str, limit: int) -> None:
    assert found(files, query, limit=limit) == found(files, query, limit=1_000)[:limit]


@given(FILES, st.lists(QUERIES, min_size=1, max_size=6))
def test_earlier_queries_do_not_change_the_matches(files: list[str], queries: list[str]) -> None:
    search = FuzzySearch(PathIndex.of(files))
    for query in queries:
        for size in range(1, len(query) + 1):
            seen = [match.path for match in search.find(query[:size], (), 20)]
            assert seen == found(files, query[:size], limit=20)


@given(FILES, QUERIES)
def test_highlighted_letters_spell_the_query(files: list[str], query: str) -> None:
    for match in FuzzySearch(PathIndex.of(files)).find(query):
        assert "".join(match.path[at] for at in match.matched_positions).lower() == query.lower()
        assert list(match.matched_positions) == sorted(set(match.matched_positions))


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("test", "tests/"),
        ("par", "src/parser.py"),
        ("main", "src/main.py"),
        ("domain", "src/domain.py"),
        ("src/p", "src/parser.py"),
        ("spy", "src/parser.py"),
        ("MAIN", "src/main.py"),
        ("./src/m", "src/main.py"),
    ],
)
def test_start_of_a_name_ranks_above_its_middle_and_short_above_long(query: str, first: str) -> None:
    files = ["src/domain.py", "src/main.py", "src/parser.py", "tests/test_parser.py", "tests/test_main_window.py"]
    assert found(files, query)[0] == first


def test_recent_files_come_first_among_matches() -> None:
    files = ["a/main.py", "b/domain.py", "zebra.py"]
    assert found(files, "main", "b/domain.py", "zebra.py") == ["b/domain.py", "a/main.py"]
    assert found(files, "", "zebra.py")[0] == "zebra.py"
    assert found(files, "", "gone.py")[:2] == ["a/", "b/"]


def test_each_folder_is_listed_once_with_a_slash() -> None:
    assert PathIndex.of(["a/b/c.py", "a/b/d.py"]).paths == ("a/", "a/b/", "a/b/c.py", "a/b/d.py")


def test_query_for_a_folder_does_not_list_the_folder_itself() -> None:
    assert "a/" not in found(["a/b/c.py", "a/x.py"], "a/")


def test_empty_catalog_gives_no_matches() -> None:
    assert found([], "a") == found([], "") == []
