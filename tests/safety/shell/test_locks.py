"""The judge allows more with a stronger sandbox: one that masks files, one that cannot, and none."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from qcode.safety.probes import Probes, Repository, TrackedFiles, WorkspaceContents
from qcode.safety.rules import Rules, covers, parse_rule
from qcode.safety.shell.judge import NO_SANDBOX as NEEDS_SANDBOX
from qcode.safety.verdict import SHELL_PATH, SHELL_READS, SandboxSupport
from tests.fakes.tools import spec_of
from tests.safety.policies import BUBBLEWRAP, CLEAN, LANDLOCK, NO_SANDBOX, judge_shell, policy_for

CORE = [
    "ls", "ls -la src", "cat app.py", "cat app.py | head -n 5", "wc -l app.py", "grep -n x app.py", "pwd; ls",
    "echo hi",
    "cat app.py 2>/dev/null || true", "cd src && ls", "[ -f app.py ] && cat app.py", "sort app.py | uniq -c",
    "head -5 app.py", "tail -5 app.py",
]  # fmt: skip
BEYOND_CORE = [
    "grep -rn x .", "find . -name '*.py'", "rg x", "git log", "git status", "ls *.py",
    "for f in app.py; do cat $f; done",
    'echo "$(pwd)"', "echo $HOME", "jq . app.py", "sed -n 1p app.py", "awk '{print $1}' app.py", "ls -R",
]  # fmt: skip
SECRET = TrackedFiles(frozenset({".env"}), (".env",))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    (root / "app.py").write_text("x\n")
    return root


@pytest.mark.parametrize("command", CORE)
def test_core_of_the_table_runs_unasked_without_a_sandbox(repo: Path, command: str) -> None:
    verdict = judge_shell(command, repo, NO_SANDBOX)
    assert (verdict.verdict, verdict.confinement) == ("allow", None)
    assert judge_shell(command, repo).confinement == "read-only"


@pytest.mark.parametrize("command", BEYOND_CORE)
def test_command_beyond_the_core_asks_without_a_sandbox(repo: Path, command: str) -> None:
    asked = judge_shell(command, repo, NO_SANDBOX)
    assert (asked.verdict, asked.check) == ("ask", NEEDS_SANDBOX), asked.reason
    allowed = judge_shell(command, repo)
    assert (allowed.verdict, allowed.check, allowed.confinement) == ("allow", SHELL_READS, "read-only"), allowed.reason


@pytest.mark.parametrize(
    "command",
    [
        "grep -rn x .",
        "grep --exclude a --include b -r x .",
        "grep -rn x",
        "rg x",
        "rg --hidden x .",
        "cd src && grep -r x ..",
    ],
)
def test_search_asks_if_a_secret_is_in_reach_and_cannot_be_masked(repo: Path, command: str) -> None:
    def judge(support: SandboxSupport, *secrets: str) -> str:
        found = WorkspaceContents(tuple(str(repo / name) for name in secrets))
        return judge_shell(command, repo, replace(CLEAN, sandbox=lambda: support, contents=lambda: found)).check

    assert judge(LANDLOCK) == SHELL_READS
    assert judge(LANDLOCK, ".env") == SHELL_PATH
    assert judge(BUBBLEWRAP, ".env") == SHELL_READS


@pytest.mark.parametrize("command", [command for command in BEYOND_CORE if not command.startswith("for")])
def test_part_that_needs_the_sandbox_asks_beside_a_part_allowed_by_a_rule(repo: Path, command: str) -> None:
    """A part that a rule allows runs outside the sandbox, and the rest of the command with it."""
    rules = Rules.of(allow=["shell(make)"])
    assert judge_shell(command, repo, rules=rules).confinement == "read-only"
    for whole in (f"make; {command}", f"make && {command}", f"{command} | make"):
        assert judge_shell(whole, repo, rules=rules).check == NEEDS_SANDBOX
    if "$" not in command:
        both = Rules.of(allow=["shell(make)", f"shell({command})"])
        assert judge_shell(f"make; {command}", repo, rules=both).is_allowed


@pytest.mark.parametrize("command", [*CORE, "for name in app.py; do cat $name; done"])
def test_core_commands_run_beside_a_part_allowed_by_a_rule(repo: Path, command: str) -> None:
    rules = Rules.of(allow=["shell(make)"])
    verdict = judge_shell(f"make; {command}", repo, rules=rules)
    assert (verdict.verdict, verdict.confinement) == ("allow", None)


@pytest.mark.parametrize(
    "command",
    [
        "git -C . push x", "git --no-pager push", "git -c a=b push x", "strace -f git push", "busybox git push x",
        "git -c alias.x=push x", "git -cALIAS.x=push x", "git --config-env=alias.x=NAME x",
    ],
)  # fmt: skip
def test_deny_rule_covers_options_before_the_subcommand_and_wrappers(repo: Path, command: str) -> None:
    rules = Rules.of(deny=["shell(git push *)"])
    assert judge_shell(command, repo, rules=rules, mode="bypass").verdict == "deny"
    assert judge_shell("git log", repo, rules=rules, mode="bypass").is_allowed


def test_search_of_one_folder_is_not_stopped_by_a_secret_in_another(repo: Path) -> None:
    found = WorkspaceContents((str(repo / ".env"),))
    probes = replace(CLEAN, sandbox=lambda: LANDLOCK, contents=lambda: found)
    assert judge_shell("grep -rn x src", repo, probes).is_allowed


def test_search_asks_if_the_workspace_could_not_be_walked_in_time(repo: Path) -> None:
    probes = replace(CLEAN, contents=lambda: WorkspaceContents(is_complete=False))
    assert judge_shell("grep -rn x .", repo, probes).verdict == "ask"
    assert judge_shell("grep -n x app.py", repo, probes).is_allowed


def test_command_that_writes_and_searches_asks_if_a_secret_is_in_reach(repo: Path) -> None:
    """The sandbox that can hold a writable workspace hides nothing in it."""
    probes = replace(CLEAN, contents=lambda: WorkspaceContents((str(repo / ".env"),)))
    policy = policy_for(repo, probes, mode="accept-edits")
    assert policy.judge(spec_of("shell"), {"command": "grep -rn x . > found.txt"}).verdict == "ask"
    assert policy.judge(spec_of("shell"), {"command": "grep -rn x src > found.txt"}).confinement == "workspace"


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("git diff", Repository(find_tracked=lambda: SECRET)),
        ("git grep x", Repository(find_tracked=lambda: SECRET)),
        ("git show HEAD", Repository(find_history_secrets=lambda: (".env",))),
        ("git log -p", Repository(find_history_secrets=lambda: (".env",))),
        ("git log -p", Repository(find_history_secrets=lambda: None)),
        ("git status", Repository(is_present=False)),
        ("git diff app.py src", Repository(is_present=False)),
        ("git status", Repository("it sets core.fsmonitor")),
    ],
)
def test_git_asks_if_it_could_show_a_tracked_secret_or_no_repository_is_there(
    repo: Path, command: str, found: Repository
) -> None:
    assert judge_shell(command, repo).is_allowed
    assert judge_shell(command, repo, replace(CLEAN, repository=lambda: found)).verdict == "ask"


@pytest.mark.parametrize("command", ["git log --oneline", "git status", "git diff --stat", "git branch -a"])
def test_git_that_prints_no_content_runs_although_a_secret_is_tracked(repo: Path, command: str) -> None:
    found = Repository(find_tracked=lambda: SECRET, find_history_secrets=lambda: (".env",))
    assert judge_shell(command, repo, replace(CLEAN, repository=lambda: found)).is_allowed


def test_no_argument_of_a_call_lifts_the_sandbox(repo: Path) -> None:
    policy = policy_for(repo)
    for more in ({"unconfined": True}, {"unconfined": True, "background": True}):
        assert policy.judge(spec_of("shell"), {"command": "cat app.py", **more}).verdict == "ask"


def test_bypass_mode_mounts_protected_names_read_only_if_the_sandbox_can(repo: Path) -> None:
    for command in ("make", "x=1; echo evil >> ~/.bashrc", 'f=a; echo evil > "$f"'):
        verdict = policy_for(repo, mode="bypass").judge(spec_of("shell"), {"command": command})
        assert (verdict.verdict, verdict.confinement) == ("allow", "protect"), command


@pytest.mark.parametrize(
    ("rule", "covered", "not_covered"),
    [
        ("git log *", ["git log -p", "git log --all main"], ["git log --output=x", "git log --outp=x -p"]),
        ("git show *", ["git show HEAD"], ["git show --ext-diff", "git show --textconv HEAD"]),
        ("sort *", ["sort -u a"], ["sort -o a b", "sort -uo a b", "sort --compress-program=x a"]),
        ("find *", ["find . -name x"], ["find . -delete", "find . -exec rm {} +", "find . -fprint x"]),
        ("sed *", ["sed -n 1p a"], ["sed -i s/a/b/ a", "sed 'w x' a", "sed -n -i 1p a"]),
        ("sed -i *", ["sed -i s/a/b/ x"], []),
        ("git push *", ["git push origin main"], ["git push --receive-pack=evil x", "git push --exec evil x"]),
        ("tar *", ["tar -tf a.tar"], ["tar -xf a --to-command=sh", "tar xIf ./evil a", "tar -xIf ./evil a"]),
        ("tar *", ["tar xf a.tar"], ["tar --use-compress x"]),
        ("git log --output=x *", ["git log --output=x -p"], ["git log --output=y -p"]),
        ("make *", ["make test", "make -j4 all"], ["make -f evil.mk", "make --eval=x", "make CC=id", "make a ARGS=b"]),
        ("go test *", ["go test -short -race ./..."], ["go test --toolexec id", "go test -ldflags=-extld=x"]),
        (
            "go test *",
            ["go test -run Cover"],
            ["go test --test.coverprofile=x", "go test -test.trace x", "go test -o=x"],
        ),
        ("pytest *", ["pytest -xvs --cov=src"], ["pytest @options", "pytest --log-file=x", "pytest --pdbcls=a:b"]),
        ("yarn test *", ["yarn test --watch"], ["yarn test --cwd /tmp", "yarn --cwd=/tmp test"]),
        ("git *", ["git push origin"], ["git bisect run x", "git submodule foreach x", "git archive -o x HEAD"]),
        ("git *", ["git fetch --tags"], ["git filter-branch --tree-filter x", "git init --template=x", "git am -o x"]),
        ("perl *", ["perl script.pl"], ["perl -MEvil x", "perl -I. x", "perl -d x"]),
    ],
)
def test_wildcard_of_an_allow_rule_covers_no_option_that_writes_or_runs(
    repo: Path, rule: str, covered: list[str], not_covered: list[str]
) -> None:
    policy = policy_for(repo, NO_SANDBOX, rules=Rules.of(allow=[f"shell({rule})"]))
    verdicts = {command: policy.judge(spec_of("shell"), {"command": command}) for command in (*covered, *not_covered)}
    assert [command for command in covered if not verdicts[command].is_allowed] == []
    assert [command for command in not_covered if verdicts[command].is_allowed] == []


def _wildcards() -> list[tuple[str, list[str], list[str]]]:
    """Return each rule of `wildcards.txt` with the commands that it covers, and those that it does not."""
    text = (Path(__file__).parent.parent / "data/wildcards.txt").read_text("utf-8")
    blocks = [block.split("\n") for block in text.strip().split("\n\n")[1:]]
    return [(rule, _signed(lines, "+"), _signed(lines, "-")) for rule, *lines in blocks]


def _signed(lines: list[str], sign: str) -> list[str]:
    return [line[2:] for line in lines if line.startswith(sign)]


@pytest.mark.parametrize(("rule", "covered", "not_covered"), _wildcards())
def test_wildcard_covers_only_harmless_options_of_programs_outside_the_table(
    rule: str, covered: list[str], not_covered: list[str]
) -> None:
    parsed = parse_rule(rule)
    assert [command for command in covered if not covers(parsed, command, allows=True)] == []
    assert [command for command in not_covered if covers(parsed, command, allows=True)] == []


def test_rule_that_names_an_option_covers_it_once() -> None:
    for rule, command in (
        ("shell(curl -o out.html *)", "curl -o out.html https://x.org"),
        ("shell(pytest --cov-report=html *)", "pytest --cov-report=html tests"),
        ("shell(git submodule foreach *)", "git submodule foreach git status"),
    ):
        assert covers(parse_rule(rule), command, allows=True), command
    for rule, command in (
        ("shell(curl -o out.html *)", "curl -o out.html -o .bashrc https://x.org"),
        ("shell(sort -o out *)", "sort -o out -o .bashrc x"),
        ("shell(tar xf Files.tar *)", "tar xf Files.tar -C /"),
    ):
        assert not covers(parse_rule(rule), command, allows=True), command
    assert covers(parse_rule("shell(tar xf *)"), "tar xf Files.tar", allows=True)


def test_probes_without_data_allow_nothing(repo: Path) -> None:
    assert [command for command in (*CORE, *BEYOND_CORE) if judge_shell(command, repo, Probes()).is_allowed] == []


@pytest.mark.parametrize(
    "command",
    [
        "echo x | tee -a ~/.${f}rc", "tee ~/.b{ash,}rc", "tee ~/.$(echo bash)rc", "tee ~/.`echo bash`rc",
        "tee .g?t/hooks/x", 'tee ~/.ba$"sh"rc', "tee ~/.ba$'s'hrc", "tee ~/.$'\\x62ashrc'", "cp x ~/.local/bin/ls",
        "tee ~/.config/fish/config.fish", "cp x ~/.config/autostart/y.desktop", "cp x ~/.Cargo/bin/y",
    ],
)  # fmt: skip
def test_bypass_without_a_sandbox_refuses_words_that_may_become_a_protected_name(repo: Path, command: str) -> None:
    verdict = judge_shell(command, repo, NO_SANDBOX, mode="bypass")
    assert (verdict.verdict, verdict.check) == ("deny", "path:protected")


@pytest.mark.parametrize(
    "command",
    [
        "make", "cp {a,b}.py src", "awk '{print $1}' app.py > x", "tee x.$ext", "cp a $HOME/x", "tee $(pwd)/x",
        "rm -rf .*cache", "npm run build -- ./$x", "touch .gitignore", "tee src/.env.${stage}",
    ],
)  # fmt: skip
def test_bypass_without_a_sandbox_runs_commands_without_protected_names(repo: Path, command: str) -> None:
    assert judge_shell(command, repo, NO_SANDBOX, mode="bypass").is_allowed


def test_wildcard_matches_multibyte_names_as_bash_does_without_a_locale(repo: Path) -> None:
    (repo / ".env").write_text("SECRET=x")
    (repo / "src/\u00e9").symlink_to("../.env")
    seen = subprocess.run(["bash", "-c", "cat src/??"], cwd=repo, env={"LC_ALL": "C"}, capture_output=True, check=True)
    assert seen.stdout == b"SECRET=x"
    assert judge_shell("cat src/??", repo).check == SHELL_PATH
