"""How arguments are read, and that the table is well formed."""

from __future__ import annotations

import time
from itertools import chain
from typing import get_args

import pytest

from qcode.safety.shell import table
from qcode.safety.shell.ast import PLACEHOLDER, Expansion, Word
from qcode.safety.shell.table import (
    ConditionalOperands,
    Operands,
    OptionSpec,
    ParsedArguments,
    ProgramSpec,
    Role,
    programs,
    read_arguments,
)

SORT = ProgramSpec(
    "sort",
    {
        "-r": OptionSpec("none"),
        "--reverse": OptionSpec("none"),
        "-u": OptionSpec("none"),
        "-k": OptionSpec("required"),
        "--key": OptionSpec("required"),
        "-S": OptionSpec("required", "number"),
        "-c": OptionSpec("optional", "word"),
        "--check": OptionSpec("optional", "word"),
        "--like": OptionSpec("required", "read"),
    },
    {"-o": "writes a file", "--output": "writes a file"},
    Operands(("read",), 0),
)


def read(program: ProgramSpec, *texts: str | Word) -> ParsedArguments:
    found = read_arguments(program, words(*texts))
    assert isinstance(found, ParsedArguments), found
    return found


def complaint(program: ProgramSpec, *texts: str | Word) -> str:
    found = read_arguments(program, words(*texts))
    assert isinstance(found, str), found
    assert "\n" not in found
    return found


def words(*texts: str | Word) -> tuple[Word, ...]:
    return tuple(Word(text) if isinstance(text, str) else text for text in texts)


def given(arguments: ParsedArguments) -> list[tuple[str, str | None]]:
    return [(name, None if word is None else word.text) for name, word in arguments.options]


def operands(arguments: ParsedArguments) -> list[str]:
    return [word.text for word, _ in arguments.operands]


def row(**fields: object) -> ProgramSpec:
    """Return a row made as the data file would make it."""
    return table.program_of("p", fields)


@pytest.mark.parametrize(
    ("texts", "options", "files"),
    [
        (["-r", "f"], [("-r", None)], ["f"]),
        (["f", "-r"], [("-r", None)], ["f"]),
        (["-ru", "f"], [("-r", None), ("-u", None)], ["f"]),
        (["-k", "2", "f"], [("-k", "2")], ["f"]),
        (["-k2", "f"], [("-k", "2")], ["f"]),
        (["-rk2", "f"], [("-r", None), ("-k", "2")], ["f"]),
        (["-rk", "2", "f"], [("-r", None), ("-k", "2")], ["f"]),
        (["-kr", "f"], [("-k", "r")], ["f"]),
        (["-k", "-r", "f"], [("-k", "-r")], ["f"]),
        (["-k", "--", "f"], [("-k", "--")], ["f"]),
        (["--key=2", "f"], [("--key", "2")], ["f"]),
        (["--key", "2", "f"], [("--key", "2")], ["f"]),
        (["--key=", "f"], [("--key", "")], ["f"]),
        (["--check", "quiet"], [("--check", None)], ["quiet"]),
        (["--check=quiet", "f"], [("--check", "quiet")], ["f"]),
        (["-c", "f"], [("-c", None)], ["f"]),
        (["-cf", "g"], [("-c", "f")], ["g"]),
        (["-rcu"], [("-r", None), ("-c", "u")], []),
        (["--", "-r", "--", "-o"], [], ["-r", "--", "-o"]),
        (["-"], [], ["-"]),
        (["", "f"], [], ["", "f"]),
    ],
)
def test_arguments_are_read_as_getopt_long_reads_them(
    texts: list[str], options: list[tuple[str, str | None]], files: list[str]
) -> None:
    found = read(SORT, *texts)
    assert given(found) == options
    assert operands(found) == files
    assert all(role == "read" for _, role in found.operands)


@pytest.mark.parametrize(
    "texts",
    [
        ["-x"],
        ["-rx"],
        ["--rev"],
        ["--revers", "f"],
        ["--reverse=yes"],
        ["-o", "f"],
        ["-ro", "f"],
        ["-of"],
        ["--output=f"],
        ["--out=f"],
        ["-k"],
        ["-rk"],
        ["--key"],
        ["-5"],
        ["@f"],
        ["--", "@f"],
        ["--like=@f"],
        ["-S", "many"],
        ["-Sx"],
        ["-S", ""],
        ["--check=a b"],
        ["--check="],
        ["-S", "12\n"],
    ],
)
def test_arguments_are_not_understood_if_the_reading_is_not_certain(texts: list[str]) -> None:
    assert complaint(SORT, *texts)


def test_refused_option_is_named_with_the_reason_of_the_table() -> None:
    assert complaint(SORT, "-ro", "f") == "the option -o of sort writes a file"
    assert complaint(SORT, "--zero") == "the option --zero of sort may do more than read"


@pytest.mark.parametrize(
    "word",
    [
        Word(PLACEHOLDER, unknown="text"),
        Word(PLACEHOLDER, unknown="words"),
        Word(f"-{PLACEHOLDER}", unknown="text"),
        Word(f"--key={PLACEHOLDER}", unknown="text"),
        Word(f"src/{PLACEHOLDER}", unknown="words"),
        Word(PLACEHOLDER, expansions=(Expansion("X"),), unknown="text"),
        Word("-*", has_glob=True),
        Word("--*", has_glob=True),
        Word("-r*", has_glob=True),
    ],
)
def test_word_that_could_become_an_option_is_not_understood(word: Word) -> None:
    assert complaint(SORT, word)


def test_unknown_word_is_an_operand_if_it_cannot_be_an_option() -> None:
    inside = Word(f"src/{PLACEHOLDER}", unknown="text")
    leading = Word(PLACEHOLDER, unknown="words")
    assert read(SORT, inside).operands == ((inside, "read"),)
    assert read(SORT, "--", leading).operands == ((leading, "read"),)
    assert read(SORT, Word("*.py", has_glob=True)).by_role("read") == (Word("*.py", has_glob=True),)


def test_next_word_is_not_a_value_if_it_could_be_several() -> None:
    assert complaint(SORT, "-k", Word("*", has_glob=True))
    assert complaint(SORT, "--key", Word(PLACEHOLDER, unknown="words"))
    assert read(SORT, "-k", Word(PLACEHOLDER, unknown="text")).options[0][1] == Word(PLACEHOLDER, unknown="text")
    assert complaint(SORT, "-S", Word(PLACEHOLDER, unknown="text"))
    assert read(SORT, "-S", Word(PLACEHOLDER, unknown="number")).has("-S")


def test_wildcard_in_an_attached_value_counts_only_if_the_value_is_a_file() -> None:
    assert read(SORT, Word("--key=*.py", has_glob=True)).options == (("--key", Word("*.py")),)
    assert read(SORT, Word("--like=*.py", has_glob=True)).by_role("read") == (Word("*.py", has_glob=True),)
    assert complaint(SORT, Word("--check=*", has_glob=True))


def test_value_of_a_path_role_is_read_but_is_not_an_operand() -> None:
    found = read(SORT, "--like", "other", "f")
    assert operands(found) == ["f"]
    assert [word.text for word in found.by_role("read")] == ["other", "f"]
    assert found.values("--like") == ("other",)


def test_number_is_an_option_if_the_program_says_so() -> None:
    head = row(number=True, none="-q", operands=["read..."])
    assert given(read(head, "-5", "f")) == [(table.NUMBER, "5")]
    assert complaint(head, "-5q", "f")
    assert complaint(head, "-q5", "f")
    assert complaint(head, "-٥", "f")
    assert complaint(SORT, "-5", "f")


def test_plus_is_not_understood_if_it_may_be_an_option() -> None:
    tail = row(plus=True, operands=["read..."])
    assert complaint(tail, "+5", "f")
    assert operands(read(tail, "--", "+5")) == ["+5"]
    assert operands(read(SORT, "+5")) == ["+5"]


def test_options_end_at_the_first_operand_if_the_program_stops() -> None:
    awk = row(stops=True, none="-r", operands=["text", "read..."])
    assert operands(read(awk, "-r", "p", "-x", "--")) == ["p", "-x", "--"]
    assert complaint(awk, "-x", "p")


def test_roles_go_to_operands_in_order() -> None:
    def roles(form: list[str], count: int, **more: object) -> list[Role] | str:
        found = read_arguments(row(operands=form, **more), tuple(Word(f"w{index}") for index in range(count)))
        return found if isinstance(found, str) else [role for _, role in found.operands]

    assert roles(["pattern", "read..."], 3) == ["pattern", "read", "read"]
    assert roles(["pattern", "read..."], 1) == ["pattern"]
    assert roles(["read...", "text"], 3) == ["read", "read", "text"]
    assert roles(["text", "read"], 2) == ["text", "read"]
    assert isinstance(roles(["text", "read"], 3), str)
    assert isinstance(roles([], 1), str)
    assert isinstance(roles(["read..."], 3, maximum=2), str)
    assert isinstance(roles(["read..."], 1, minimum=2), str)


def test_several_words_are_not_understood_if_they_shift_roles() -> None:
    several = Word("*", has_glob=True)
    assert complaint(row(operands=["pattern", "read..."]), several, "f")
    assert complaint(row(operands=["read...", "text"]), several, "f")
    assert complaint(row(operands=["read..."], maximum=2), several)
    assert complaint(row(operands=["text", "read"]), "x", several)
    assert read(row(operands=["pattern", "read..."]), "x", several).by_role("read") == (several,)


def test_default_is_read_if_no_operand_names_a_file() -> None:
    search = row(operands=["pattern", "tree..."], default="tree:.")
    assert read(search, "x").by_role("tree") == (Word("."),)
    assert read(search, "x", "src").by_role("tree") == (Word("src"),)
    vanishing = Word(PLACEHOLDER, unknown="words")
    assert read(search, "--", "x", vanishing).by_role("tree") == (vanishing, Word("."))
    assert read(search, "x", Word("*", has_glob=True)).by_role("tree") == (Word("*", has_glob=True),)
    assert complaint(row(operands=["read..."], minimum=1), "--", vanishing)


def test_option_is_a_whole_word_and_its_value_the_next_if_the_row_says_words() -> None:
    xxd = row(style="words", none="-a -ps", required={"-l": "word"}, operands=["read"])
    assert given(read(xxd, "-ps", "-l", "5", "f")) == [("-ps", None), ("-l", "5")]
    for texts in (["-al", "5"], ["-l5"], ["-p"], ["-s"], ["-aps"], ["--a"]):
        assert complaint(xxd, *texts, "f")


def test_value_is_the_next_word_if_it_cannot_be_attached() -> None:
    tree = row(attached=False, none="-a -d", required={"-L --sort": "word"}, operands=["names..."])
    assert given(read(tree, "-ad", "-L", "2", "--sort", "size")) == [
        ("-a", None),
        ("-d", None),
        ("-L", "2"),
        ("--sort", "size"),
    ]
    for texts in (["-L2"], ["-aL", "2"], ["--sort=size"]):
        assert complaint(tree, *texts)


def test_option_takes_two_words_if_it_has_two_roles() -> None:
    jq = row(none="-r", required={"--arg": "text number"}, operands=["jq"])
    found = read(jq, "--arg", "-r", "5", ".")
    assert given(found) == [("--arg", "-r"), ("--arg", "5")]
    assert [word.text for word in found.by_role("text", "number")] == ["-r", "5"]
    assert complaint(jq, "--arg", "x")
    assert complaint(jq, "--arg", "x", "y")


def test_every_word_is_an_operand_if_the_row_says_text() -> None:
    echo = row(style="text", operands=["text..."])
    words = ("-x", "--", "@f", Word(PLACEHOLDER, unknown="words"))
    assert [word for word, _ in read(echo, *words).operands] == [*map(Word, words[:3]), words[3]]


def test_operand_is_one_of_the_choices_if_there_are_any() -> None:
    tput = row(choices="cols lines", operands=["name..."])
    assert operands(read(tput, "cols", "lines")) == ["cols", "lines"]
    assert complaint(tput, "reset")
    assert complaint(tput, Word(f"a{PLACEHOLDER}", unknown="text"))


def test_dash_is_not_understood_if_the_row_refuses_it() -> None:
    tac = row(refused={"-": "is copied"}, operands=["read..."], minimum=1)
    assert complaint(tac, "-") == "the input - of p is copied"
    assert complaint(tac, "--", "f", "-")
    assert complaint(tac)
    assert complaint(row(refused={"--": "is a path"}, operands=["read..."]), "--", "f")


@pytest.mark.parametrize(
    ("role", "good", "bad"),
    [
        ("number", ["5", "-5", "+5", "1.5", "10K", "2MiB", "50%"], ["", "x", "1e9", "0x10", "inf", "5 6", "١"]),
        ("seconds", ["0", "0.5", "10", "10s", "9.999"], ["11", "10.5", "100", "1m", "-1", "1e3", ""]),
        ("date", ["yesterday", "@1700000000", "2024-01-01 10:00 +0200", ""], ['TZ="/etc/x" now', "a=b", "a\nb", "$x"]),
        ("word", ["a", "1,2n", "%h:%m", "a/b", "-1"], ["", "a b", "$x", "a;b", "a\nb", "é", "a*"]),
        ("name", ["UTF-8", "LC_TIME"], ["a/b", "../x", ""]),
        ("format", ["+%F", "+%H:%M\n"], ["%F", "0101", "-u", ""]),
    ],
)
def test_value_has_the_format_of_its_role(role: Role, good: list[str], bad: list[str]) -> None:
    program = row(required={"-v": role})
    for text in good:
        assert read(program, "-v", text).by_role(role) == (Word(text),)
    for text in bad:
        assert complaint(program, "-v", text)


def test_first_case_with_an_option_of_each_group_replaces_the_operands() -> None:
    grep = row(
        none="-r --recursive",
        required={"-e --regexp": "pattern"},
        operands=["pattern", "read..."],
        when=[
            {"options": "-e --regexp + -r --recursive", "operands": ["tree..."], "default": "tree:."},
            {"options": "-r --recursive", "operands": ["pattern", "tree..."], "default": "tree:."},
            {"options": "-e --regexp", "operands": ["read..."]},
        ],
    )
    assert read(grep, "x", "f").by_role("pattern", "read") == (Word("x"), Word("f"))
    assert read(grep, "f", "--regexp=x").by_role("read") == (Word("f"),)
    assert read(grep, "-r", "x").by_role("tree") == (Word("."),)
    assert read(grep, "f", "-re", "x").operands == ((Word("f"), "tree"),)


def test_expression_of_find_is_read_after_the_starting_points() -> None:
    find = programs()["find"]
    found = read(find, "-P", "src", "tests", "(", "-name", "-delete", "-o", "!", "-newer", "f", ")", "-print")
    assert [word.text for word in found.by_role("names")] == ["src", "tests"]
    assert found.by_role("list") == (Word("f"),)
    assert found.values("-name") == ("-delete",)
    assert found.has("-print")
    assert read(find, "-name", "x").by_role("names") == (Word("."),)


@pytest.mark.parametrize(
    "texts",
    [
        [".", "-delete"],
        [".", "-exec", "rm", "{}", ";"],
        [".", "-name"],
        [".", "-print", "src"],
        [".", "-print", "-P"],
        ["-L", "."],
        ["--", "."],
        [",", "."],
        [")", "."],
        ["@f"],
        [".", "-maxdepth", "x"],
        [".", "--print"],
        [".", Word(PLACEHOLDER, unknown="text")],
        [Word(PLACEHOLDER, unknown="text")],
        [".", "-print", Word("*", has_glob=True)],
        [".", "-name", Word("*", has_glob=True)],
    ],
)
def test_expression_of_find_is_not_understood_if_the_table_lacks_a_word(texts: list[str | Word]) -> None:
    assert complaint(programs()["find"], *texts)


def test_every_row_is_well_formed() -> None:
    for name, program in programs().items():
        forms = (program.operands, *(case.operands for case in program.when))
        roles = chain(
            (option.role for option in program.options.values()),
            chain.from_iterable(form.roles for form in forms),
            (form.default[1] for form in forms if form.default is not None),
        )
        assert set(roles) <= {*get_args(table.Role)}, name
        assert not program.options.keys() & program.refused.keys(), name
        assert program.core_options <= {*program.options, table.NUMBER}, name
        for case in program.when:
            assert all(group and group <= program.options.keys() for group in case.groups), (name, case)
        for option in (*program.options, *program.refused):
            is_short = len(option) == 2 and option[0] == "-" and (option[1].isalnum() or option[1] in ".?-")
            is_long = option.startswith("--") and option[2:].replace("-", "").isalnum()
            assert is_short or is_long or option == "-" or program.style in ("find", "words"), (name, option)


def test_row_of_the_data_file_becomes_a_program() -> None:
    found = row(
        core=True,
        core_options="-a",
        none="-a -b",
        refused={"-o --out": "writes"},
        operands=["text", "read..."],
        default="list:.",
        when=[{"options": "-a + -b", "operands": []}],
    )
    assert found.refused == {"-o": "writes", "--out": "writes"}
    assert found.core_options == {"-a"}
    assert found.operands == Operands(("text", "read"), 1, 0, None, (Word("."), "list"))
    assert found.when == (ConditionalOperands((frozenset({"-a"}), frozenset({"-b"})), Operands()),)


def test_table_loads_in_milliseconds() -> None:
    def measure() -> float:
        table.read_table.cache_clear()
        start = time.process_time()
        programs()
        return time.process_time() - start

    assert min(measure() for _ in range(10)) < 0.05
