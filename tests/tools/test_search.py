"""glob and grep: the names and lines that they find, and that both search programs agree."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qcode.text.json import Json
from qcode.tools.files import grep, listing
from qcode.tools.files import grep as search
from qcode.tools.files.patterns import compile_pattern
from qcode.tools.workspace import Access, Workspace
from tests.tools.conftest import TOOLS, ToolRunner

HAS_RIPGREP = shutil.which("rg") is not None
WITH = [pytest.param(True, marks=pytest.mark.skipif(not HAS_RIPGREP, reason="ripgrep is not installed")), False]


@pytest.fixture
def tree(runner: ToolRunner) -> ToolRunner:
    runner.add(".gitignore", "*.log\n/build/\n!keep.log\nignored_dir/\n")
    runner.add(".git/config", "needle\n")
    runner.add(".github/ci.yml", "needle\n")
    runner.add("a.py", "needle one\nplain\nNeedle two\n")
    runner.add("src/b.py", "x\ny\nneedle\nz\n")
    runner.add("src/deep/c.ts", "a needle in a line\r\n")
    runner.add("src/.gitignore", "secret.txt\n!debug.log\n")
    runner.add("src/secret.txt", "needle\n")
    runner.add("src/debug.log", "needle\n")
    runner.add("x.log", "needle\n")
    runner.add("keep.log", "needle\n")
    runner.add("build/out.py", "needle\n")
    runner.add("src/build/in.py", "needle\n")
    runner.add("ignored_dir/y.py", "needle\n")
    runner.add("binary.bin", b"needle\0needle\n")
    (runner.root / "link.py").symlink_to("a.py")
    (runner.root / "linked").symlink_to("src")
    return runner


def _without_ripgrep(runner: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grep, "find_program", lambda *arguments: None)


def _files(runner: ToolRunner, **arguments: Json) -> list[str]:
    outcome = runner.run("glob", **arguments)
    assert not outcome.is_error, outcome.content
    return sorted(line for line in outcome.content.split("\n") if not line.startswith("["))


def test_glob_leaves_out_ignored_files(tree: ToolRunner) -> None:
    assert _files(tree, pattern="**/*.py") == ["a.py", "link.py", "src/b.py", "src/build/in.py"]
    assert _files(tree, pattern="**/*.log") == ["keep.log", "src/debug.log"]
    assert _files(tree, pattern="**/*.yml") == [".github/ci.yml"]
    assert _files(tree, pattern="**/config") == []


def test_glob_searches_only_the_folders_of_a_pattern(tree: ToolRunner) -> None:
    assert _files(tree, pattern="*.py") == ["a.py", "link.py"]
    assert _files(tree, pattern="./src/*") == ["src/.gitignore", "src/b.py", "src/debug.log"]
    assert _files(tree, pattern="src/**") == _files(tree, pattern="**", path="src")
    assert _files(tree, pattern="{src/b,a}.py") == ["a.py", "src/b.py"]
    assert _files(tree, pattern="src/deep/c.ts") == ["src/deep/c.ts"]
    assert _files(tree, pattern=f"{tree.root}/src/[a-b].py") == ["src/b.py"]
    assert _files(tree, pattern="**", path=".github") == [".github/ci.yml"]
    assert "3 below match **/*.ts" not in tree.run("glob", pattern="*.ts").content
    assert "1 below match **/*.ts" in tree.run("glob", pattern="*.ts").content


def test_ignored_folder_is_searched_if_it_is_named(tree: ToolRunner) -> None:
    assert _files(tree, pattern="*", path="build") == ["build/out.py"]
    assert _files(tree, pattern="ignored_dir/*.py") == ["ignored_dir/y.py"]


def test_glob_lists_the_newest_first_and_is_bounded(runner: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in range(5):
        os.utime(runner.add(f"{index}.txt"), (index, index))
    monkeypatch.setattr(listing, "MAX_FILES", 3)
    assert runner.run("glob", pattern="*.txt").content == "4.txt\n3.txt\n2.txt\n[2 more files; narrow the pattern]"


def test_walk_past_its_time_limit_says_so(tree: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcode.tools.files.walk.MAX_ENTRIES", 5)
    assert "the search stopped after 5 entries" in tree.run("glob", pattern="**/nothing").content


@pytest.mark.parametrize("pattern", ["../*", "src/../../*", "", "[z-a]", "/etc/*", "{" + "a,b}{" * 12 + "a,b}"])
def test_bad_patterns_are_refused(tree: ToolRunner, pattern: str) -> None:
    assert tree.run("glob", pattern=pattern).is_error


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("[a-c].py", "b.py", "d.py"),
        ("[!a].py", "b.py", "a.py"),
        ("[^a]", "b", "/"),
        ("[]a]", "]", "b"),
        ("[&&~~||]", "~", "a"),
        ("**/x", "a/b/x", "a/bx"),
        ("a/**/x", "a/x", "b/x"),
        ("{a,b/c}.{x,y}", "b/c.y", "b.y"),
        ("*", ".hidden", "a/b"),
        ("a{b", "a{b", "ab"),
    ],
)
def test_glob_pattern_matches_its_paths_only(pattern: str, yes: str, no: str) -> None:
    matcher = compile_pattern(pattern)
    assert matcher.fullmatch(yes)
    assert not matcher.fullmatch(no)


@example("[?--]", "")
@example("[a||b]", "")
@given(st.text(alphabet="ab*?[]{},!/.^-\\&|~", max_size=12), st.text(alphabet="ab/.", max_size=8))
def test_any_pattern_compiles_or_is_refused(pattern: str, path: str) -> None:
    from qcode.protocol.tools import Refused

    try:
        matcher = compile_pattern(pattern)
    except Refused:
        return
    assert matcher.fullmatch(path) is None or isinstance(matcher.fullmatch(path), re.Match)
    if not re.search(r"[*?\[{]", pattern) and not pattern.startswith("./"):
        assert (matcher.fullmatch(path) is not None) == (pattern == path)


CALLS: list[dict[str, Json]] = [
    {"pattern": "needle"},
    {"pattern": "needle", "ignore_case": True},
    {"pattern": "needle", "context": 1},
    {"pattern": "needle", "context": 3, "ignore_case": True},
    {"pattern": "needle", "output": "files"},
    {"pattern": "needle", "output": "count", "ignore_case": True},
    {"pattern": "needle", "glob": "*.py"},
    {"pattern": "needle", "glob": "src/**/*.py"},
    {"pattern": "needle", "glob": "!*.py"},
    {"pattern": "needle", "glob": "*.{ts,yml}"},
    {"pattern": "needle", "path": "src"},
    {"pattern": "needle", "path": "src", "glob": "deep/*"},
    {"pattern": "needle", "path": "src/b.py"},
    {"pattern": "needle", "path": "x.log"},
    {"pattern": "^n.*e$"},
    {"pattern": "line$"},
    {"pattern": "nowhere"},
    {"pattern": "needle", "path": "ignored_dir"},
    {"pattern": "needle", "path": "linked"},
]


@pytest.mark.skipif(not HAS_RIPGREP, reason="ripgrep is not installed")
@pytest.mark.parametrize("arguments", CALLS, ids=[str(call) for call in CALLS])
def test_ripgrep_and_python_find_the_same(
    tree: ToolRunner, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Json]
) -> None:
    with_ripgrep = tree.run("grep", **arguments)
    _without_ripgrep(tree, monkeypatch)
    assert tree.run("grep", **arguments) == with_ripgrep
    assert not with_ripgrep.is_error


@pytest.mark.parametrize("has_ripgrep", WITH)
class TestGrep:
    @pytest.fixture(autouse=True)
    def choose(self, tree: ToolRunner, monkeypatch: pytest.MonkeyPatch, has_ripgrep: bool) -> None:
        if not has_ripgrep:
            _without_ripgrep(tree, monkeypatch)

    def test_matches_are_listed_below_their_file(self, tree: ToolRunner) -> None:
        outcome = tree.run("grep", pattern="needle", path="src", context=1)
        assert outcome.content == (
            "src/b.py\n2-y\n3:needle\n4-z\n\nsrc/build/in.py\n1:needle\n\nsrc/debug.log\n1:needle\n\n"
            "src/deep/c.ts\n1:a needle in a line"
        )
        assert outcome.summary == "4 matches in 4 files"

    def test_gaps_between_matches_are_marked(self, tree: ToolRunner) -> None:
        tree.add("gap.txt", "hit\n1\n2\n3\n4\nhit\n")
        assert (
            tree.run("grep", pattern="hit", path="gap.txt", context=1).content == "gap.txt\n1:hit\n2-1\n--\n5-4\n6:hit"
        )

    def test_grep_lists_files_or_counts_on_request(self, tree: ToolRunner) -> None:
        assert tree.run("grep", pattern="(?i)needle", path="a.py", output="count").content == "     2\ta.py"
        files = tree.run("grep", pattern="needle", output="files").content.split("\n")
        assert files == [
            ".github/ci.yml",
            "a.py",
            "keep.log",
            "src/b.py",
            "src/build/in.py",
            "src/debug.log",
            "src/deep/c.ts",
        ]

    def test_matches_are_bounded(self, tree: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(grep, "MAX_MATCHES", 3)
        tree.add("many.txt", "hit\n" * 10)
        content = tree.run("grep", pattern="hit").content
        assert content == "many.txt\n1:hit\n2:hit\n3:hit\n[there are more matches; narrow the pattern, path or glob]"

    def test_long_lines_are_shown_around_the_match(self, tree: ToolRunner) -> None:
        tree.add("long.js", "é" * 3_000 + "HIT" + "y" * 3_000 + "\n")
        content = tree.run("grep", pattern="HIT", path="long.js").content
        assert "HIT" in content
        assert len(content) < grep.MAX_LINE_CHARS + 50

    def test_bad_pattern_is_refused_with_its_reason(self, tree: ToolRunner) -> None:
        outcome = tree.run("grep", pattern="foo(")
        assert outcome.is_error
        assert outcome.content.startswith("grep: the search failed: ")
        assert "\n" not in outcome.content

    def test_reason_for_a_long_bad_pattern_is_the_end_of_the_message(self, tree: ToolRunner) -> None:
        outcome = tree.run("grep", pattern="(" * 2_500 + "a" + ")" * 2_499)
        assert outcome.is_error
        assert "((" not in outcome.content

    def test_pattern_that_cannot_be_compiled_is_refused(self, tree: ToolRunner) -> None:
        for pattern in ("a{4294967295}", "(" * 2_000 + "a" + ")" * 2_000):
            outcome = tree.run("grep", pattern=pattern)
            assert outcome.is_error
            assert outcome.content.startswith("grep: the search failed: ")

    def test_very_long_pattern_is_refused(self, tree: ToolRunner) -> None:
        assert tree.run("grep", pattern="(" * 200_000).content.startswith("the pattern is longer than 5,000 characters")

    def test_file_named_like_standard_input_is_searched(self, tree: ToolRunner) -> None:
        tree.add("-", "needle in a dash\n")
        assert tree.run("grep", pattern="needle", path="-").content == "-\n1:needle in a dash"

    def test_option_like_pattern_is_a_pattern(self, tree: ToolRunner) -> None:
        tree.add("-x.txt", "--pre=touch\n")
        assert tree.run("grep", pattern="--pre=touch").content == "-x.txt\n1:--pre=touch"
        assert tree.run("grep", pattern="pre", path="-x.txt").content == "-x.txt\n1:--pre=touch"

    def test_files_in_other_encodings_are_searched(self, tree: ToolRunner) -> None:
        tree.add("wide.txt", "\ufeffune épée\n".encode("utf-16-le"))
        tree.add("latin.txt", "une \u00e9p\u00e9e needle\n".encode("latin-1"))
        assert "1:une épée" in tree.run("grep", pattern="épée", path="wide.txt").content
        assert "needle" in tree.run("grep", pattern="needle", path="latin.txt").content

    def test_unreadable_files_are_left_out_and_counted(self, tree: ToolRunner) -> None:
        @dataclass
        class Opinion:
            verdict: str
            reason: str = ""
            check: str = ""

        def judge(path: str, access: Access) -> Opinion:
            return Opinion("ask" if path.endswith("a.py") else "allow")

        workspace = Workspace(tree.root, judge=judge)
        outcome = asyncio.run(TOOLS["grep"].run({"pattern": "needle"}, workspace, tree.context))
        assert "needle one" not in outcome.content
        assert "matches in 1 more file that" in outcome.content
        named = asyncio.run(TOOLS["grep"].run({"pattern": "needle", "path": "a.py"}, workspace, tree.context))
        assert "needle one" in named.content


def test_ripgrep_inside_the_workspace_is_not_used(tree: ToolRunner, tmp_path: Path) -> None:
    trap = tree.add("bin/rg", f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    tree.environment = {"PATH": f"{tree.root}/bin:bin:.:/usr/bin:/bin"}
    assert not tree.run("grep", pattern="needle").is_error
    assert not tree.run("shell", command="true").is_error
    assert not (tmp_path / "sprung").exists()


def test_crash_of_the_search_program_is_an_error(tree: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tree.root.parent / "crashing.py"
    monkeypatch.setattr(grep, "find_program", lambda *_: None)
    monkeypatch.setattr(grep, "SCANNER", program)
    for body in ("raise MemoryError", "import os; os.kill(os.getpid(), 9)"):
        program.write_text(body)
        outcome = tree.run("grep", pattern="needle")
        assert outcome.is_error
        assert outcome.content in (
            "grep: the search failed: MemoryError",
            "grep: the search failed: the search program crashed",
        )


def test_pattern_that_runs_forever_is_stopped(tree: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    _without_ripgrep(tree, monkeypatch)
    monkeypatch.setattr(search, "MAX_SEARCH_S", 0.3)
    tree.add("evil.txt", "a" * 40 + "!\n")
    outcome = tree.run("grep", pattern="(a+)+$", path="evil.txt")
    assert "the search was stopped after 0.3 s" in outcome.content


def test_cancel_ends_a_search_at_once(tree: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    _without_ripgrep(tree, monkeypatch)
    tree.add("evil.txt", "a" * 60 + "!\n")

    async def cancel_once_it_runs() -> float:
        started: list[subprocess.Popen[bytes]] = []

        class Recorded(subprocess.Popen[bytes]):
            def __init__(self, *arguments: Any, **keywords: Any) -> None:
                super().__init__(*arguments, **keywords)
                started.append(self)

        monkeypatch.setattr(subprocess, "Popen", Recorded)
        arguments: dict[str, Json] = {"pattern": "(a+)+$", "path": "evil.txt"}
        task = asyncio.ensure_future(TOOLS["grep"].run(arguments, tree.workspace, tree.context))
        while not started:
            await asyncio.sleep(0.01)
        start = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert started[0].poll() is not None
        return time.monotonic() - start

    assert asyncio.run(cancel_once_it_runs()) < 2


@pytest.mark.parametrize("pattern", ["*a" * 40 + "*b", "**/" + "a*/**/" * 40 + "b", "{*a,a*}" * 5 + "*?*?*?*?*?*?*?*b"])
def test_no_glob_pattern_runs_forever(runner: ToolRunner, pattern: str) -> None:
    runner.add("a" * 200)
    runner.add("a/" * 90 + "c")
    assert "no file matches" in runner.run("glob", pattern=pattern).content


@pytest.mark.parametrize("rule", ["*a" * 40 + "*b", "**/a/" * 40 + "b"])
def test_no_gitignore_rule_runs_forever(runner: ToolRunner, rule: str) -> None:
    runner.add(".gitignore", f"*.log\n{rule}\n**/*_out_*.txt\n")
    runner.add("a" * 200)
    runner.add("a/" * 90 + "c")
    runner.add("x.log")
    runner.add("d/my_out_1.txt")
    found = runner.run("glob", pattern="**").content.splitlines()
    assert sorted(len(name) for name in found) == [10, 181, 200]
    assert "a" * 200 in runner.run("ls").content
