"""Both search programs give the same answer for any tree, any gitignore rules and any arguments."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qcode.text.json import Json
from qcode.tools.files import grep
from qcode.tools.files import grep as search
from qcode.tools.workspace import Workspace
from tests.tools.conftest import ToolRunner

RIPGREP = shutil.which("rg")
NEEDED = pytest.mark.skipif(RIPGREP is None, reason="ripgrep is not installed")

NAMES = st.sampled_from(["a.py", "b.txt", "src/a.py", "src/deep/c.ts", "-x.py", ".hidden", "log/x.log", "src/ä b.txt"])
TEXTS = st.lists(st.sampled_from(["foo", "bar", "foo bar", "", "  x", "Foo(", "b\tfoo", "é foo", "end"]), max_size=8)
ENDS = st.sampled_from(["\n", ""])
FILES = st.dictionaries(NAMES, st.builds(lambda lines, end: "\n".join(lines) + end, TEXTS, ENDS), max_size=5)
IGNORED = st.lists(
    st.sampled_from(["*.log", "src/", "!a.py", "/a.py", "deep", "*.txt", "# x", "log/*", "**/c.ts"]), max_size=3
)
PATTERNS = st.sampled_from(
    [
        "foo", "^foo", "foo$", "^$", "o+", "(foo|bar)", "[^a-z]", "b.r", r"\bfoo\b", "x*", "nowhere", r"\s+x",
        r"Foo\(", "é",
    ]
)  # fmt: skip
ACROSS = st.sampled_from(
    [
        r"foo\nbar", "foo.*bar", r"(?s)foo.bar", r"^foo$\n^bar$", r"\n", r"bar\n", "x*", r"o\s+b", "foo",
        r"\n\n+", "bar\nfoo", "^$",
    ]
)  # fmt: skip
ASKED = st.fixed_dictionaries(
    {},
    optional={
        "glob": st.sampled_from(
            [
                "*.py",
                "!*.py",
                "src/**",
                "*.{py,ts}",
                "**/c.ts",
                "/a.py",
                "nothing",
                "*.log",
                "!src",
                "!deep/",
                "src/*/c.ts",
                "[ab].*",
            ]
        ),
        "ignore_case": st.booleans(),
        "context": st.integers(0, 3),
        "output": st.sampled_from(["content", "files", "count"]),
        "path": st.sampled_from(["src", ".", "log"]),
    },
)


@NEEDED
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES, IGNORED, ASKED, st.booleans(), st.data())
def test_ripgrep_and_python_give_equal_answers(
    tmp_path: Path,
    files: dict[str, str],
    ignored: list[str],
    asked: dict[str, Json],
    multiline: bool,
    data: st.DataObject,
) -> None:
    root = tmp_path / "repo"
    shutil.rmtree(root, ignore_errors=True)
    (root / "src").mkdir(parents=True)
    (root / "log").mkdir()
    runner = ToolRunner(Workspace(root))
    for name, text in {**files, ".gitignore": "\n".join(ignored) + "\n"}.items():
        runner.add(name, text)
    arguments = {**asked, "pattern": data.draw(ACROSS if multiline else PATTERNS), "multiline": multiline}
    with pytest.MonkeyPatch.context() as patch:
        with_ripgrep = runner.run("grep", **arguments)
        patch.setattr(grep, "find_program", lambda *_: None)
        assert runner.run("grep", **arguments) == with_ripgrep
    assert not with_ripgrep.is_error


@pytest.mark.parametrize("has_ripgrep", [pytest.param(True, marks=NEEDED), False])
class TestAcrossLines:
    @pytest.fixture(autouse=True)
    def choose(self, monkeypatch: pytest.MonkeyPatch, has_ripgrep: bool) -> None:
        if not has_ripgrep:
            monkeypatch.setattr(grep, "find_program", lambda *_: None)

    def test_multiline_match_shows_all_its_lines(self, runner: ToolRunner) -> None:
        runner.add("a.py", "def f(\n    x,\n):\n    pass\nf()\n")
        outcome = runner.run("grep", pattern=r"def f\(.*?\):", multiline=True, context=1)
        assert outcome.content == "a.py\n1:def f(\n2:    x,\n3:):\n4-    pass"
        assert runner.run("grep", pattern=r"f\(\n", multiline=True).content == "a.py\n1:def f("

    def test_carriage_returns_are_ordinary_characters(self, runner: ToolRunner) -> None:
        runner.add("a.txt", "one\r\ntwo\r\n")
        assert runner.run("grep", pattern=r"one\r?\ntwo", multiline=True).content == "a.txt\n1:one\n2:two"
        assert runner.run("grep", pattern=r"one\ntwo", multiline=True).content == "[no matches]"

    def test_single_line_pattern_cannot_contain_a_line_break(self, runner: ToolRunner) -> None:
        runner.add("a.txt", "one\ntwo\n\\n\n")
        for pattern in ("one\ntwo", r"one\ntwo", r"[\n]", r"\x0a"):
            outcome = runner.run("grep", pattern=pattern)
            assert outcome.is_error
            assert "multiline" in outcome.content
        assert runner.run("grep", pattern=r"\\n").content == "a.txt\n3:\\n"
        assert runner.run("grep", pattern=r"^o[^\n]e$").content == "a.txt\n1:one"

    def test_match_of_many_lines_is_bounded(self, runner: ToolRunner) -> None:
        runner.add("a.txt", "line\n" * 100_000)
        outcome = runner.run("grep", pattern=".*", multiline=True)
        assert len(outcome.content.split("\n")) == grep.MAX_MATCHES + 2
        assert outcome.content.endswith("[there are more matches; narrow the pattern, path or glob]")

    def test_very_large_file_is_not_searched_across_lines(
        self, runner: ToolRunner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(search, "MAX_FILE_BYTES", 10)
        runner.add("large.txt", "0123456789\n0123456789\n")
        outcome = runner.run("grep", pattern=r"9\n0", multiline=True, path="large.txt")
        assert outcome.content.endswith("large.txt is too large to be searched across lines")
