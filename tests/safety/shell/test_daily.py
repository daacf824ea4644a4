"""Common commands in a real folder: reading runs unasked, and hidden effects inside or around it ask."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qcode.safety.rules import Rules
from tests.fakes.examples import share
from tests.safety.policies import judge_shell

DATA = Path(__file__).parent.parent / "data"
HOME = Path("/home/u")


def lines(name: str) -> list[str]:
    """Read commands, one in a line; the sign for a new line stands for one."""
    text = (DATA / name).read_bytes().decode("utf-8")
    return [line.replace("\u2424", "\n") for line in text.split("\n") if line]


HOSTILE = lines("hostile.txt")
DAILY = lines("daily.txt")
FINDINGS = lines("findings.txt")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a few files; nothing is changed in it."""
    root = tmp_path_factory.mktemp("work") / "repo"
    for name in ("src/app.py", "src/a.py", "tests/test_app.py", "logs/app.log", "nested/HEAD", "a.txt", "data.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")
    return root


def verdict(command: str, root: Path) -> str:
    return judge_shell(command, root, home=HOME).verdict


def test_common_commands_run_unasked(root: Path) -> None:
    assert [command for command in DAILY if verdict(command, root) != "allow"] == []


def test_findings_of_attacks_ask(root: Path) -> None:
    assert [command for command in FINDINGS if verdict(command, root) != "ask"] == []


@pytest.mark.parametrize("is_there", [True, False])
def test_hostile_command_asks_if_the_folder_exists_or_not(root: Path, tmp_path: Path, is_there: bool) -> None:
    folder = root if is_there else Path("/repo")
    (tmp_path / "repo").mkdir()
    assert [command for command in HOSTILE if verdict(command, folder) != "ask"] == []


AROUND = st.sampled_from(
    [
        "ls; {}", "{}; ls", "ls | {}", "({})", "{{ {}; }}", 'echo "$({})"', "for q in a b; do {}; done", "! {}",
        "{} 2>/dev/null", "{} # q", "\t {}  ", "true && {}", "ls\n{}", "[[ -f a ]] || {}", "{} \\\n  2>&1",
    ]
)  # fmt: skip
PLAIN = [
    command
    for command in HOSTILE
    # The last two have odd names, which a prefix turns into plain words.
    if command.isascii() and command.isprintable() and "$x" not in command and not command.startswith(("{", "l{"))
]


@settings(max_examples=share(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(PLAIN), st.lists(AROUND, min_size=1, max_size=3))
def test_surrounding_syntax_never_makes_a_command_more_allowed(root: Path, command: str, around: list[str]) -> None:
    if command.startswith("cd nested") and {"! {}", "ls | {}", "find . -name q | {}"} & set(around):
        return  # then git does not run in the folder
    for item in around:
        command = item.format(command)
    assert verdict(command, root) == "ask"


@settings(max_examples=share(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(DAILY + HOSTILE), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_verdict_does_not_depend_on_earlier_verdicts(root: Path, commands: list[str], random: object) -> None:
    first = {command: verdict(command, root) for command in commands}
    assert {command: verdict(command, root) for command in reversed(commands)} == first


@settings(max_examples=share(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(DAILY + HOSTILE), st.data())
def test_command_with_a_part_removed_has_a_verdict(root: Path, command: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(command)))
    end = data.draw(st.integers(start, len(command)))
    assert verdict(command[:start] + command[end:], root) in ("allow", "ask")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo/src").mkdir(parents=True)
    (tmp_path / "repo/x.py").write_text("x\n")
    (tmp_path / "outside.py").write_text("x\n")
    return tmp_path / "repo"


def allowed(root: Path, *commands: str) -> list[str]:
    return [command for command in commands if verdict(command, root) == "allow"]


def test_git_runs_in_subfolders_without_another_repository(repo: Path) -> None:
    assert allowed(repo, "cd src && git log", "cd src; git status", f"cd {repo} && git log") != []
    assert allowed(repo, "cd other && git log") == []
    (repo / "src/HEAD").write_text("ref: x\n")
    assert allowed(repo, "cd src && git log", "cd src; git status") == []
    (repo / "src/HEAD").unlink()
    (repo / "src/.git").write_text("gitdir: ../x\n")
    assert allowed(repo, "cd src && git log") == []


def test_loop_is_judged_for_each_of_its_words(repo: Path) -> None:
    assert allowed(repo, "for f in x.py src; do ls $f; done") != []
    assert allowed(repo, "for d in src; do (cd $d && ls ..); done") != []
    assert allowed(repo, "for f in x.py .env; do cat $f; done", "for d in src ..; do (cd $d && ls); done") == []


def test_second_iteration_of_a_loop_may_have_another_variable(repo: Path) -> None:
    inner = "cat $g; for g in .env; do :; done"
    assert allowed(repo, f"for g in x.py; do for f in *.py; do {inner}; done; done") == []
    assert allowed(repo, f"for g in x.py; do while read -r f; do {inner}; done < x.py; done") == []
    assert allowed(repo, "for g in x.py; do for f in *.py; do cat $g; done; done") != []


def test_second_iteration_of_a_loop_may_be_in_another_folder(repo: Path) -> None:
    assert allowed(repo, "cd src && for f in *.py; do cat ../x.py; cd ..; done") == []
    assert allowed(repo, "cd src && for f in *.py; do cat ../x.py; done") != []


def test_rules_apply_inside_loops_and_substitutions(repo: Path) -> None:
    def judge(command: str, **rules: list[str]) -> str:
        return judge_shell(command, repo, home=HOME, rules=Rules.of(**rules)).verdict

    assert judge("for f in a b; do make $f; done", allow=["shell(make *)"]) == "allow"
    assert judge('make "$(date)"', allow=["shell(make *)"]) == "ask"
    assert judge('echo "$(date)"; make x', allow=["shell(make *)"]) == "ask"
    assert judge("echo a; make x", allow=["shell(make *)"]) == "allow"
    assert judge('echo "$(make x)"', allow=["shell(make *)"]) == "ask"
    assert judge('echo "$(make x)"', allow=["shell(make *)", "shell(echo *)"]) == "allow"
    assert judge('echo "$(make x)"', deny=["shell(make *)"]) == "deny"
    assert judge("for f in x; do make $f; done", deny=["shell(make x)"]) == "deny"
    assert judge('for f in *.py; do cat "$f"; done', deny=["shell(cat x.py)"]) in ("ask", "deny")
    assert judge('while read -r x; do rm "$x"; done < x.py', deny=["shell(rm x)"]) in ("ask", "deny")


def test_very_long_nested_loop_asks(repo: Path) -> None:
    words = " ".join(str(number) for number in range(90))
    inner = f"for b in {words}; do for c in {words}; do ls $a$b$c; done; done"
    assert allowed(repo, f"for a in {words}; do {inner}; done") == []
    assert allowed(repo, f"for a in {words}; do echo $a; done") != []
