"""The sed, awk and jq programs that are taken for reading, and the time it takes to say so."""

from __future__ import annotations

import time

import pytest

from qcode.safety.shell import languages


@pytest.mark.parametrize(
    "script",
    [
        "p", " 1,5 p ; $!d", "/a[x]b/I,+3{p;=;}", "1~2!{ s/a/b/g ; p } ; d;", "s,a\\,b,c,gI2;q5", "s|[[:alpha:]x]|-|",
        "/\\/x/p", "\n p \n", "1,/x/{n;d}", "q",
    ],
)  # fmt: skip
def test_sed_script_that_only_selects_and_substitutes_is_recognized(script: str) -> None:
    assert languages.is_reading_sed(script)


@pytest.mark.parametrize(
    "script",
    [
        "", ";", "p;;p", "p; ;", "; ; ;", "{}", "{p}p", "{{p}}", "{;p}", "1,p", "s/a/b/e", "s/a/b/w x", "s;a;b;", "w x",
        "r x", "e", "s/a/b", "s/[/]/b/w", "/a", "/a[/]b/p", "/[a/p", "p\np", "1,2,3p", "p}", "{p", "y/a/b/",
    ],
)  # fmt: skip
def test_other_sed_script_is_not_recognized(script: str) -> None:
    assert not languages.is_reading_sed(script)


@pytest.mark.parametrize("program", ['"', '"\\"', '{ print "a }', '/"/ "'])
def test_awk_program_with_an_unterminated_string_is_not_recognized(program: str) -> None:
    assert not languages.is_reading_awk(program)


@pytest.mark.parametrize(
    "pump", [" ; ", "; ", "p; ", "p ;", " p ;{p; ", '\\"', "$1~ ", "a/", "(a,", '"\\(', "1,", "[a"]
)
@pytest.mark.parametrize("start", ["p", "", "/", '"', "s/", "{"])
def test_verdict_on_a_hostile_script_is_quick(start: str, pump: str) -> None:
    script = (start + pump * 2_000)[:1_995] + "X"
    started = time.process_time()
    for is_reading in (languages.is_reading_sed, languages.is_reading_awk, languages.is_reading_jq):
        is_reading(script)
    assert time.process_time() - started < 0.1
