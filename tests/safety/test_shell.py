"""The shell judge: nothing harmful runs without asking, and most of what is harmless does."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.safety import scripts
from qcode.safety.shell import judge_shell

ROWS = [
    json.loads(line) for line in (Path(__file__).parent / "data/shell_commands.jsonl").read_text("utf-8").splitlines()
]
HARMLESS = [row["command"] for row in ROWS if row["auto_approve_ok"] and not row["command"].startswith("git ")]
READING = [
    *r"""
ls
ls -la --color=never src
cat src/app.py | head -n 20
grep -rn --include=*.py foo src
rg -n foo src
rg --files | wc -l
find src -name '*.py' -type f
find . \( -name a -o -name b \) -print0
head -5 a.txt
tail -n +20 a.txt
sed -n '1,5p;10p' a.txt
sed 's/a/b/g' a.txt
sed -n '/^def /p' a.py
sort -k2 -t: a.txt
sort a.txt | uniq -c | sort -rn
awk -F: '{print $1, $NF}' a.txt
awk 'NR>5 && NR<9' a.txt
awk '/x/ {n++} END {printf "%d\n", n}' a.txt
jq '.dependencies | keys' package.json
test -f a && echo yes
[ -d src ] || echo no
wc -l src/*.py
cat a.txt 2>/dev/null
diff -u a.txt b.txt
command -v git
which python3
python3 --version
timeout 5 nice -n 5 ls
time ls
date +%F
stat -c %s a.txt
echo 'a  b' "c"
printf '%s\n' a b
cat -- -odd
du -sh src
tree -L 2 -a
file src/app.py
md5sum a.txt
cut -d: -f1 a.txt
tr a-z A-Z < a.txt
seq 1 5
sleep 1
grep foo a.txt /dev/null
ls src # what is there
cat ./src/*.py
xxd a.bin
uname -a; nproc
basename src/app.py .py
""".strip().splitlines(),
    "ls\npwd",
]

UNCLEAR = [
    *r"""
rm a
'ls'
l\s
/bin/ls
ls /etc
ls ~
cat ~/.ssh/id_rsa
cat .env
cat < .env
cat ../x
cat '~/../../etc/shadow'
grep x /proc/self/environ
cat /dev/tty
ls -la --col
ls --unknown
sort -o x a
sort -oa a
uniq a b
uniq a -c
xxd a -p
od -w /etc/passwd
awk '{print}' -F /etc/passwd
command rm -v x
command ls -v
sed -i s/a/b/ x
sed -n 'w out' x
sed 's/a/b/w out' x
sed 's/a/b/e' x
sed '1e id' x
sed 'r /etc/passwd' x
sed -f s x
awk '{system("id")}' x
awk '{print | "sh"}' x
awk '{print ENVIRON["K"]}'
awk '{print > "f"}' x
awk 'BEGIN{ARGV[1]="/etc/passwd"}' x
awk '{print}' a=b
awk '/[]/]"/ {system("id")} x ~ /"/' a
awk '} {print > "f"}' a
find . -delete
find . -fprintf f x
find / -name x
find . -name *.py
find -L . -name x
tail -f a
jq env
jq 'input' a
jq '$ENV' a
date -s now
date 010100002030
hostname -F x
printf -v x y
printf '%n' x
test -v x
[ a
echo *
cat *
ls *.py
cat src/.*
cat src/**
timeout 5
timeout 5 rm x
nohup rm x
time rm x
sudo ls
env ls
env
xargs ls
cd src
export A=b
A=b ls
! ls
if true
source x
. x
eval ls
ps aux
printenv
kill 1
rg --pre x y
rg -z x
rg -L x
rg --hostname-bin=x y
grep -R x src
diff -l a b
tree -o x
file -m x y
md5sum -c x
shuf -o x y
sleep 100
tee x
python3 -c 1
node -e 1
go version
npm --version
cargo --version
ls & ls
ls > x
ls >> x
ls | tee x
grep -f ~/.netrc x
du --files0-from=x
wc --files0-from=x
sort --files0-from=x
man ls
less x
git status
sort -T /tmp x
cat $HOME/x
cat "$HOME/x"
cat `x`
cat {a,b}
cat a{1..3}
""".strip().splitlines(),
    "\u200bls",
    "l\u0455",
]

REPO, HOME = Path("/repo"), Path("/home/u")


def _verdict(command: str) -> str:
    return judge_shell(command, REPO, home=HOME).verdict


def test_no_calibration_row_is_falsely_approved() -> None:
    wrong = [row["command"] for row in ROWS if not row["auto_approve_ok"] and _verdict(row["command"]) != "ask"]
    assert wrong == []


def test_every_harmless_calibration_row_but_git_runs_without_asking() -> None:
    assert [command for command in HARMLESS if _verdict(command) != "allow"] == []


@pytest.mark.parametrize("row", [row["command"] for row in ROWS if row["command"].startswith("git ")])
def test_git_asks_while_nobody_has_looked_at_its_configuration(row: str) -> None:
    assert _verdict(row) == "ask"


@pytest.mark.parametrize(
    "command",
    READING,
)
def test_reading_runs_without_asking(command: str) -> None:
    assert judge_shell(command, REPO, home=HOME).reason == "it only reads"


@pytest.mark.parametrize(
    "command",
    UNCLEAR,
)
def test_everything_not_surely_understood_asks(command: str) -> None:
    assert _verdict(command) == "ask"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    (root / "src/app.py").write_text("x\n")
    return root


def test_a_recursive_search_asks_where_it_would_read_secrets(repo: Path) -> None:
    def judge(command: str) -> str:
        return judge_shell(command, repo, home=repo.parent / "home").verdict

    assert judge("grep -rn x .") == "allow"
    (repo / ".env").write_text("KEY=1\n")
    assert judge("grep -rn x .") == "ask"
    assert judge("grep -rn x") == "ask"
    assert judge("diff -r . src") == "ask"
    assert judge("grep -rn x src") == "allow"
    assert judge("grep -rn --include='*.py' x .") == "allow"
    assert judge("rg x") == "allow"
    assert judge("rg --hidden x") == "ask"
    assert judge("rg -uu x") == "ask"
    assert judge("rg -g .env x") == "ask"
    (repo / ".env").unlink()
    (repo / ".git").mkdir()
    (repo / ".git/config").write_text("[remote]\n")
    assert judge("grep -rn x .") == "ask"
    assert judge("grep -rn --exclude-dir=.git x .") == "allow"


def test_links_below_a_searched_folder_do_not_matter(repo: Path, tmp_path: Path) -> None:
    """grep -r does not follow them; -R does, and asks."""
    (repo / "src/out").symlink_to(tmp_path / "outside.txt")
    assert judge_shell("grep -rn x src", repo, home=tmp_path / "home").verdict == "allow"
    assert judge_shell("grep -Rn x src", repo, home=tmp_path / "home").verdict == "ask"
    assert judge_shell("cat src/out", repo, home=tmp_path / "home").verdict == "ask"


def test_wildcards_are_judged_by_what_they_match(repo: Path, tmp_path: Path) -> None:
    def judge(command: str) -> str:
        return judge_shell(command, repo, home=tmp_path / "home").verdict

    assert judge("cat src/*") == "allow"
    (repo / "src/out").symlink_to(tmp_path / "outside.txt")
    assert judge("cat src/*") == "ask"
    assert judge("cat src/*.py") == "allow"


def test_a_program_of_the_workspace_asks(repo: Path) -> None:
    own = repo / "bin"
    own.mkdir()
    (own / "ls").write_text("#!/bin/sh\n")
    (own / "ls").chmod(0o755)
    assert judge_shell("ls", repo, search_path=f"{own}:/usr/bin:/bin").verdict == "ask"
    assert judge_shell("ls", repo, search_path=f"/usr/bin:/bin:{own}").verdict == "allow"
    assert judge_shell("cat src/app.py", repo, search_path=f"{own}:/usr/bin:/bin").verdict == "allow"


SHELL_PIECES = r"""ls cat rm src -la -n | && ; & > < x ' " \ $ ` * ~ # ( ) { } find -exec awk '{print}' .env 2>&1"""
TOKENS = st.sampled_from([*SHELL_PIECES.split(), " ", "\n"])


@given(st.lists(TOKENS, max_size=10).map("".join) | st.lists(TOKENS, max_size=10).map(" ".join) | st.text(max_size=30))
def test_any_text_has_a_verdict(command: str) -> None:
    assert judge_shell(command, REPO, home=HOME).verdict in ("allow", "ask")


PLAIN = st.lists(
    st.sampled_from(
        ["ls", "cat", "rm", "src", "-la", "-rf", "sort", "-o", "x", "find", "-delete", ".env", "timeout", "5"]
    ),
    min_size=1,
    max_size=5,
)


@given(PLAIN, st.data())
def test_quotes_and_blanks_never_make_a_command_more_allowed(words: list[str], data: st.DataObject) -> None:
    """Quotes around or between letters and more blanks mean the same to bash: they must not turn ask into allow."""
    disguised = []
    for word in words:
        cut = data.draw(st.integers(0, len(word)))
        quote = data.draw(st.sampled_from(["''", '""', "\\"]))
        if quote == "\\":
            disguised.append(f"{word[:cut]}\\{word[cut:]}" if cut < len(word) else word)
        else:
            disguised.append(
                data.draw(st.sampled_from([f"{word[:cut]}{quote}{word[cut:]}", f"{quote[0]}{word}{quote[0]}"]))
            )
    blank = data.draw(st.sampled_from([" ", "  ", "\t", " \t "]))
    if _verdict(" ".join(words)) == "ask":
        assert _verdict(blank.join(disguised)) == "ask"
        assert _verdict(f" {blank.join(words)}{blank}") == "ask"


@given(st.lists(st.sampled_from(["ls", "rm x", "cat .env", "pwd", "sort -o a b"]), min_size=2, max_size=4), st.data())
def test_a_list_is_never_more_allowed_than_its_parts(parts: list[str], data: st.DataObject) -> None:
    operators = [data.draw(st.sampled_from([" | ", " && ", " || ", "; ", "\n"])) for _ in parts[1:]]
    command = parts[0] + "".join(operator + part for operator, part in zip(operators, parts[1:], strict=True))
    is_allowed = all(_verdict(part) == "allow" for part in parts)
    assert _verdict(command) == ("allow" if is_allowed else "ask")


AWK_WORDS = r"""/ " { } print $1 > | system ( ) x ; [ ] ^ \ ~ ! , + getline a NR && - == 1"""
AWK_PIECES = st.sampled_from([*AWK_WORDS.split(), " "])


@pytest.mark.skipif(shutil.which("gawk") is None, reason="the sandbox that the answer is compared with is gawk's")
@given(st.lists(AWK_PIECES, max_size=14).map("".join))
def test_an_accepted_awk_program_neither_runs_nor_writes(program: str) -> None:
    """gawk itself says so: in its sandbox, system, getline, pipes and redirections are errors."""
    if not scripts.is_reading_awk(program):
        return
    argv = ["gawk", "--sandbox", program]
    done = subprocess.run(
        argv, input=b"a b\n", capture_output=True, check=False, timeout=20, env={"PATH": "/usr/bin:/bin"}
    )
    assert b"sandbox" not in done.stderr


SED_PIECES = st.sampled_from(
    ["s", "/", "a", "b", "w", "e", "r", "p", ";", "1", ",", "$", "\\", "[", "]", "g", "{", "}", " "]
)


@given(st.lists(SED_PIECES, max_size=12).map("".join))
def test_an_accepted_sed_script_neither_runs_nor_writes(script: str) -> None:
    """GNU sed itself says so: in its sandbox, e, r and w are errors."""
    if not scripts.is_reading_sed(script):
        return
    done = subprocess.run(["sed", "--sandbox", script], input=b"ab\n", capture_output=True, check=False, timeout=20)
    assert b"sandbox" not in done.stderr
