"""Letters of all scripts outside quotes are ordinary text for bash and the judge; what could deceive a reader asks."""

from __future__ import annotations

import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qcode.safety.rules import Rules
from qcode.safety.shell import characters
from qcode.safety.shell.ast import UnsupportedSyntax
from qcode.safety.shell.characters import is_plain
from qcode.safety.shell.judge import read_flow
from tests.fakes.examples import share
from tests.safety.policies import judge_shell
from tests.safety.shell.strace import observe, require_strace, shell_argv

BASH = shutil.which("bash") or "bash"
REPO, HOME = Path("/repo"), Path("/home/u")
LOCALES = ("C", "C.UTF-8")
NFD = unicodedata.normalize("NFD", "résumé")

LETTERS = st.characters(min_codepoint=0x80, categories=("L", "N", "M"))
OTHERS = st.characters(min_codepoint=0x80, exclude_categories=["Cs"])
ASCII = st.sampled_from(list("ab1~-_./=:@%+,^ '\"\\#$;|&<>(){}*?!2\t\n"))
TEXTS = st.lists(LETTERS | LETTERS | OTHERS | ASCII | ASCII, max_size=10).map("".join)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "répo"
    root.mkdir()
    return root


def _words_of_bash(text: str, locale: str, cwd: Path) -> list[str]:
    """Return the arguments that bash passes to a command for `text`."""
    argv: list[str | bytes] = [BASH, "--noprofile", "--norc", "-f", "-c", f"printf '%s\\0' {text}".encode()]
    env = {"PATH": "", "HOME": "~", "LC_ALL": locale}
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, check=False, timeout=20)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().split("\0")[:-1]


def _judge(command: str, **rules: list[str]) -> tuple[str, str]:
    verdict = judge_shell(command, REPO, home=HOME, rules=Rules.of(**rules))
    return verdict.verdict, verdict.reason


@pytest.mark.parametrize(
    ("locale", "step"),
    [("C.UTF-8", 20), *(pytest.param(locale, 1, marks=pytest.mark.broad) for locale in LOCALES)],
)
def test_every_accepted_character_stays_in_its_word(tmp_path: Path, locale: str, step: int) -> None:
    plain = [chr(code) for code in range(0x80, sys.maxunicode, step) if is_plain(f"a{chr(code)}", 1)]
    assert len(plain) > 100_000 // step
    words = [word for char in plain for word in (f"a{char}b", f"-{char}", f"1{char}") if is_plain(word, 1)]
    for start in range(0, len(words), 5_000):
        batch = words[start : start + 5_000]
        assert _words_of_bash(" ".join(batch), locale, tmp_path) == batch


@settings(max_examples=share(150), deadline=None)
@given(TEXTS)
def test_words_with_any_letters_are_those_that_bash_gets(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    try:
        commands = [part.command for part in read_flow(f"printf '%s\\0' {text}", "/").parts]
    except UnsupportedSyntax:
        return
    if len(commands) != 1 or commands[0].inputs or set(text) & set("<>"):
        return
    folder = tmp_path_factory.mktemp("empty")
    words = [word.text for word in commands[0].words[2:]]
    for locale in LOCALES:
        assert _words_of_bash(text, locale, folder) == (words or [""])


@settings(max_examples=share(200), deadline=None)
@given(st.lists(LETTERS | st.sampled_from(list("ab1.-_/=")), min_size=1, max_size=12).map("".join))
def test_word_is_judged_as_if_it_were_quoted_or_refused(word: str) -> None:
    bare, quoted = (judge_shell(f"cat {form}", REPO, home=HOME) for form in (word, f"'{word}'"))
    assert bare == quoted or bare.check == "shell:not-plain"


@pytest.mark.parametrize(
    "command",
    [
        "cat résumé.txt", f"cat {NFD}.txt", "cat Straße/Übersicht.md", "cat źródło/łódź.py", "cat Привет/файл.md",
        "cat 報告/資料１.txt", "cat レポート.txt", "cat 보고서.txt", "cat תקציר.txt", "cat نص.txt", "cat संग्रह.txt",
        "cat …", "cat «a»–b", "cat ½.txt", "cat ❤️.md 🚀.md ✅.md 👍🏽🇫🇷", "ls é*", "cat {é,à}.txt", "cat é=1",
        "cat é2>&1", "for f in é à; do cat $f; done", "[ -f é ] && cat é", "rg 'l’été' src", "echo 'नमस्ते — ⚠️'",
        "git log -- é", "cd é && cat ü", "echo « a »", "grep \"ă\\\"\" x", "cat \"é\"à'ü'",
    ],
)  # fmt: skip
def test_reading_with_letters_of_any_script_runs_without_asking(command: str) -> None:
    assert _judge(command)[0] == "allow"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("cat a\u00a0b", "it has no-break space (U+00A0), which is not an ordinary space"),
        ("cat a\u3000b", "it has ideographic space (U+3000), which is not an ordinary space"),
        ("cat a\u2028b", "it has line separator (U+2028), which is not an ordinary space"),
        ("cat a\u200bb", "it has zero width space (U+200B), which is invisible"),
        ("cat 'a\u202eb'", "it has right-to-left override (U+202E), which is invisible"),
        ("cat a\u3164", "it has hangul filler (U+3164), which is invisible"),
        ("cat a\ufe0f", "it has variation selector-16 (U+FE0F), which is invisible"),
        ("cat a\U000e0101", "it has variation selector-18 (U+E0101), which is invisible"),
        ("cat \u0301", "it has combining acute accent (U+0301) without a letter before it"),
        ("cat x;\u0338ls", "it has combining long solidus overlay (U+0338) without a letter before it"),
        ("cat a" + 9 * "\u0301", "it has more than 6 marks on one letter"),
        ("cat a\x07b", "it has the control character U+0007"),
        ("cat a\x85b", "it has the control character U+0085"),
        ("cat \ue000", "it has the private character U+E000"),
        ("cat \u0378", "it has the unassigned character U+0378"),
        ("cat \ud800", "it has the invalid character U+D800"),
        ("cat a；ls", "it has ； (U+FF1B) outside quotes, which looks like ';'"),
        ("cat a\u037els", "it has \u037e (U+037E) outside quotes, which looks like ';'"),
        ("cat a｜sh", "it has ｜ (U+FF5C) outside quotes, which looks like '|'"),
        ("cat aǀsh", "it has ǀ (U+01C0) outside quotes, which looks like '|'"),
        ("cat ＆ ls", "it has ＆ (U+FF06) outside quotes, which looks like '&'"),
        ("cat ＄(id)", "qcode cannot read its syntax"),
        ("cat a＞b", "it has ＞ (U+FF1E) outside quotes, which looks like '>'"),
        ("cat ｀id｀", "it has ｀ (U+FF40) outside quotes, which looks like a quote"),
        ("cat l’été", "it has ’ (U+2019) outside quotes, which looks like a quote"),
        ("ls –la", "it has – (U+2013) outside quotes, which looks like '-'"),
        ("[ a = — ]", "it has — (U+2014) outside quotes, which looks like '-'"),
        ("cat ʼa", "it has ʼ (U+02BC) outside quotes, which looks like a quote"),
        ("cat ∑", "it has ∑ (U+2211) outside quotes"),
        (
            "cat “a；b” l’",
            "it has “ (U+201C) outside quotes, which looks like a quote; ； (U+FF1B) outside quotes, which looks like "
            "';'; ” (U+201D) outside quotes, which looks like a quote; "
            "’ (U+2019) outside quotes, which looks like a quote",
        ),
        (
            "cat 'l’' ；\u200b",
            "it has zero width space (U+200B), which is invisible; ； (U+FF1B) outside quotes, which looks like ';'",
        ),
        ('echo "$(cat ’)"', "it has ’ (U+2019) outside quotes, which looks like a quote"),
    ],
)
def test_character_that_could_deceive_asks_with_its_name(command: str, reason: str) -> None:
    assert _judge(command) == ("ask", reason)
    assert _judge(command, allow=["shell(cat *)"])[0] == "ask"


def test_program_with_a_name_in_another_script_is_not_the_one_it_looks_like() -> None:
    name = "с\u0430t"  # in Cyrillic
    reason = f"the name of its program, {name}, contains с (U+0441), \u0430 (U+0430)"
    assert _judge(f"{name} x", allow=["shell(cat *)"]) == ("ask", reason)
    assert judge_shell(f"{name} x", REPO, home=HOME).proposed_rule == ""


def test_option_with_a_foreign_letter_is_not_the_one_it_looks_like() -> None:
    assert _judge("grep -\u0435 x a.txt") == ("ask", "the option -\u0435 of grep contains \u0435 (U+0435)")
    assert _judge("rg --hidd\u0435n x", allow=["shell(rg *)"])[0] == "ask"


def test_command_with_letters_may_be_allowed_from_now_on() -> None:
    verdict = judge_shell("make übersicht", REPO, home=HOME)
    assert (verdict.verdict, verdict.proposed_rule) == ("ask", "shell(make übersicht)")
    assert _judge("make übersicht", allow=[verdict.proposed_rule])[0] == "allow"
    assert judge_shell("make '；' ü", REPO, home=HOME).proposed_rule == "shell(make '；' ü)"
    assert judge_shell("pytest tests/é", REPO, home=HOME).prefix_rule == "shell(pytest *)"
    assert _judge("pytest tests/é", allow=["shell(pytest *)"])[0] == "allow"


def test_rule_that_restricts_matches_composed_and_decomposed_accents_but_one_that_allows_is_exact() -> None:
    assert _judge(f"make {NFD}", deny=["shell(make résumé)"])[0] == "deny"
    assert _judge(f"ls; make {NFD} x", ask=["shell(make r*é *)"])[1] == "the rule shell(make r*é *) asks for it"
    assert _judge(f"make {NFD}", allow=["shell(make résumé)"])[0] == "ask"
    assert _judge(f"cat {NFD}", deny=["read(RÉSUMÉ)"])[0] == "ask"
    assert _judge(f"cat résumé > {NFD}", deny=["edit(résumé)"])[0] == "deny"


def test_host_with_foreign_letters_is_named_and_no_wildcard_covers_it() -> None:
    host = "ex\u0430mple.com"  # with a Cyrillic letter
    reason = f"curl may do more than read, and {host} contains \u0430 (U+0430)"
    for form in (f"https://{host}/x", host, f"'https://user@{host}:80'", f"--url=https://{host}"):
        assert _judge(f"curl {form}", allow=["shell(curl *)"]) == ("ask", reason)
    assert _judge(f"wget {host}", allow=[f"shell(wget {host})"])[0] == "allow"
    assert _judge(f"scp é.txt u@{host}:x", allow=["shell(scp *)"])[0] == "ask"
    for plain in ("curl https://example.com/é", "scp é.txt u@example.com:é", "wget -O é example.com"):
        assert _judge(plain, allow=[f"shell({plain.split()[0]} *)", "shell(wget -O é *)"])[0] == "allow", plain


def test_secret_and_protected_names_stay_protected_beside_letters(repo: Path) -> None:
    (repo / "é").mkdir()
    (repo / "é/.env").write_text("KEY=1\n")
    (repo / "lié").symlink_to(repo.parent)
    for command in ("cat é/.env", "cat é/../é/.env", "cat é .env", "cd é && cat .env", "cat lié/x", "cat é.\u212aey"):
        assert judge_shell(command, repo).verdict == "ask", command
    assert judge_shell("rg x é", repo).verdict == "allow"


@pytest.mark.parametrize("locale", LOCALES)
def test_program_opens_exactly_the_file_that_was_judged(repo: Path, locale: str) -> None:
    require_strace()
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": locale}
    names = ["résumé.txt", f"{NFD}.txt", "報告.txt", "n–n", "файл…", "🚀.md"]
    for name in names:
        (repo / name).write_text("x\n")
    for name, run in zip(names, observe([shell_argv(f"cat {name}") for name in names], repo, env), strict=True):
        assert [opened.real for opened in run.read if opened.real.startswith(str(repo))] == [str(repo / name)]


def test_letter_asks_if_commands_are_not_passed_in_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(characters, "IS_UTF8", False)
    assert _judge("cat données") == ("ask", "it has é (U+00E9) outside quotes")
    assert _judge("cat 'données'")[0] == "allow"
