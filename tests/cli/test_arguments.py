"""A command line becomes `Options`, or one line with the error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.agent.options import CHOOSE, LATEST
from qcode.cli.arguments import (
    CommandLineError,
    parse,
    parse_subcommand,
    pipe_flags,
    requested_format,
    split_subcommand,
)
from qcode.cli.help_text import help_text
from qcode.text.numbers import MAX_WHOLE_NUMBER


@pytest.mark.parametrize(
    "argv",
    [
        ["-p", "say hi"],
        ["say hi", "-p"],
        ["--print", "say hi"],
        ["--prompt", "say hi"],
        ["-p", "--trust", "say hi"],
        ["-m", "demo/demo", "say hi", "-p"],
        ["-p", "--", "say hi"],
    ],
)
def test_prompt_may_be_anywhere_on_the_command_line(argv: list[str]) -> None:
    arguments = parse(argv)
    assert (arguments.prompt, arguments.print) == ("say hi", True)


def test_prompt_alone_opens_the_app() -> None:
    arguments = parse(["say hi"])
    assert (arguments.prompt, arguments.print) == ("say hi", False)


def test_after_two_dashes_a_prompt_may_begin_with_one() -> None:
    assert parse(["-p", "--", "--help me"]).prompt == "--help me"


def test_value_of_a_flag_may_be_two_dashes() -> None:
    assert parse(["-p", "say hi", "--system-prompt=--"]).system_prompt == "--"
    assert list(map(str, parse(["--file=--"]).file)) == ["--"]
    with pytest.raises(CommandLineError, match='--effort: "--" is not one of'):
        parse(["--effort=--"])


def test_sessions_are_named_or_the_latest() -> None:
    assert parse([]).resume is None
    assert parse(["-c"]).resume == LATEST
    assert parse(["-r", "2026"]).resume == "2026"
    assert parse(["-r"]).resume == CHOOSE


def test_rules_are_split_at_commas_outside_brackets() -> None:
    arguments = parse(["--allowed-tools", "shell(git log -n {1,2}), edit(src/**)", "--allowed-tools", "read(a,b)"])
    assert arguments.allowed_tools == ("shell(git log -n {1,2})", "edit(src/**)", "read(a,b)")


def test_quotes_inside_a_shell_rule_hide_brackets_and_commas() -> None:
    rules = parse(["--allowed-tools", "shell(echo '), x'), edit(it's.txt), read"]).allowed_tools
    assert rules == ("shell(echo '), x')", "edit(it's.txt)", "read")


def test_rule_with_an_open_bracket_is_kept() -> None:
    assert parse(["--disallowed-tools", "read, shell(rm"]).disallowed_tools == ("read", "shell(rm")


def test_undecodable_argument_is_read_as_utf_8() -> None:
    assert parse(["-p", "caf\udcc3\udca9"]).prompt == "café"
    assert parse(["-p", "caf\udce9"]).prompt == "caf\ufffd"


@pytest.mark.parametrize(
    ("argv", "found"),
    [
        (["doctor"], ("doctor", [])),
        (["-C", "/tmp", "doctor"], ("doctor", ["-C", "/tmp"])),
        (["--cwd=/tmp", "--trust", "sessions", "list"], ("sessions", ["--cwd=/tmp", "--trust", "list"])),
        (["-C/tmp", "models", "--json"], ("models", ["-C/tmp", "--json"])),
        (["-C", "doctor"], None),
        (["-m", "doctor", "hello"], None),
        (["-r", "doctor"], None),
        (["-r", "-c", "doctor"], ("doctor", ["-r", "-c"])),
        (["-p", "doctor"], None),
        (["-C", "/tmp", "-p", "doctor"], None),
        (["--", "doctor"], None),
        (["explain", "doctor"], None),
        (["--bogus", "doctor"], None),
        ([], None),
    ],
)
def test_flags_may_stand_before_a_subcommand(argv: list[str], found: tuple[str, list[str]] | None) -> None:
    assert split_subcommand(argv) == found


@pytest.mark.parametrize(
    ("word", "close"), [("doctr", "doctor"), ("Sessions", "sessions"), ("model", "models"), ("auht", "auth")]
)
def test_single_word_similar_to_a_subcommand_is_not_a_prompt(word: str, close: str) -> None:
    for argv in ([word], ["-C", "/tmp", word], [word, "-C", "/tmp"], [word, "--json"], [word, "sonnet"]):
        with pytest.raises(CommandLineError, match=f"did you mean qcode {close}"):
            split_subcommand(argv)
    for argv in (["-p", word], [word, "-p"], [word, "--print"], [word, "-o", "json", "-p"], ["--", word]):
        assert split_subcommand(argv) is None
    assert split_subcommand([f"{word} please"]) is None


@pytest.mark.parametrize(
    "word",
    [
        "hello",
        "hi",
        "test",
        "fix",
        "explain",
        "build",
        "commit",
        "refactor",
        "review",
        "ж",
        "/help",
        "/doctor",
        "@stats",
    ],
)
def test_other_single_words_are_prompts(word: str) -> None:
    assert split_subcommand([word]) is None


@pytest.mark.parametrize("flag", ["--yol", "--yolo1", "--trsut", "--trus", "--allowed-tool"])
def test_suggestion_names_no_flag_that_lowers_safety(flag: str) -> None:
    with pytest.raises(CommandLineError) as caught:
        parse([flag])
    assert str(caught.value) == f"unknown flag {flag}"


@pytest.mark.parametrize(
    ("argv", "format"),
    [
        (["-p", "x", "-o", "json", "--bogus"], "json"),
        (["--output-format=stream-json", "a", "b"], "stream-json"),
        (["-ojson"], "json"),
        (["-o", "xml"], "text"),
        (["-o"], "text"),
        (["-p", "--", "-o", "json"], "text"),
    ],
)
def test_wanted_format_is_known_also_of_a_wrong_command_line(argv: list[str], format: str) -> None:
    assert requested_format(argv) == format


def test_flags_that_were_not_given_set_nothing() -> None:
    assert parse(["-p", "x"]).flags() == {}


def test_flags_name_the_keys_they_set() -> None:
    flags = parse(["-m", "demo/demo", "--max-output-tokens", "9", "--no-escalation", "--yolo"]).flags()
    assert flags == {
        "model": "demo/demo",
        "output.max_tokens": 9,
        "output.escalate": False,
        "permissions.mode": "bypass",
    }


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        (["--modle", "x"], "--model"),
        (["a", "b"], "quotes"),
        (["-p", "a", "b"], "quotes"),
        (["--max-turns", "-1"], "--max-turns"),
        (["--max-budget-usd", "free"], "USD"),
        (["--max-budget-usd", "nan"], "USD"),
        (["--max-budget-usd", "sNaN"], '"sNaN" is not an amount in USD'),
        (["--fork-session"], "-c or -r"),
        (["--resume", ""], "-r is empty"),
        (["--resume=", "-p", "x"], "-r is empty"),
        (["-m", " "], "-m is empty"),
        (["-p", "-hello"], "put it last, after --"),
        (["--mod", "x"], "--mod"),
    ],
)
def test_invalid_command_line_is_reported(argv: list[str], part: str) -> None:
    with pytest.raises(CommandLineError) as raised:
        parse(argv)
    assert part in str(raised.value)
    assert "\n" not in str(raised.value)


@given(st.lists(st.text(max_size=8), max_size=6))
def test_any_command_line_is_a_value_or_a_usage_error(argv: list[str]) -> None:
    try:
        arguments = parse(argv)
    except CommandLineError as error:
        assert str(error)
    else:
        assert arguments.output_format in ("text", "json", "stream-json")


@pytest.mark.parametrize(
    ("argv", "found"),
    [
        (["-o", "json", "--json-schema", "{}"], ("-o", "--json-schema")),
        (["--input-format", "stream-json", "-o", "stream-json"], ("-o", "--input-format")),
        (["-o", "text", "--exit-tools", "x.json"], ()),
    ],
)
def test_pipe_only_flags_are_found(argv: list[str], found: tuple[str, ...]) -> None:
    assert pipe_flags(parse(argv)) == found


@pytest.mark.parametrize("flag", ["--foo", "--yol", "--tru", "--trsut", "--allowed-tool"])
def test_suggestion_never_names_a_flag_that_lowers_safety(flag: str) -> None:
    with pytest.raises(CommandLineError) as refused:
        parse([flag])
    assert str(refused.value).startswith(f"unknown flag {flag}")
    assert not {"--yolo", "--trust", "--allowed-tools"} & set(str(refused.value).replace("?", " ").split())


def test_mistyped_flag_names_the_nearest() -> None:
    with pytest.raises(CommandLineError, match=r"did you mean --model\?"):
        parse(["--modle", "x"])
    with pytest.raises(CommandLineError, match=r"^unknown flag --bogus$"):
        parse(["--bogus"])


def test_login_with_another_flag_says_that_it_is_used_alone() -> None:
    with pytest.raises(CommandLineError, match="--login takes no prompt and no other flag; use: qcode --login"):
        parse(["--login", "-v"])


def test_flag_for_linear_mode_names_the_ways_to_start_it() -> None:
    with pytest.raises(CommandLineError) as refused:
        parse(["--linear"])
    assert str(refused.value) == (
        "unknown flag --linear; TERM=dumb starts the linear mode, `qcode config set ui.linear true` keeps it"
    )


@pytest.mark.parametrize("name", ["acp", "batch", "mcp"])
def test_subcommand_that_runs_conversations_can_switch_hooks_and_skills_off(name: str) -> None:
    options, _, _ = parse_subcommand(name, ["--no-hooks", "--no-skills"], "usage")
    assert options.no_hooks
    assert options.no_skills


@pytest.mark.parametrize("typed", [["--permission-mode", "ask"], ["--permission-mode=ask"]])
def test_mode_ask_is_another_name_for_default(typed: list[str]) -> None:
    assert parse(typed).permission_mode == "default"
    assert parse_subcommand("permissions", typed, "usage")[0].permission_mode == "default"
    assert "ask is another name for default" in " ".join(help_text().split())


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["-p", "one", "-p", "two"], "more than one prompt was given: put the prompt in quotes"),
        (
            ["-p", "hi", "--wait-for-limit", "5m"],
            "the time of --wait-for-limit follows an equals sign: --wait-for-limit=5m",
        ),
        (["-p", "hi", "--no-escalation=1"], "--no-escalation takes no value"),
        (["-p", "hi", "-o", "jsn"], '-o: "jsn" is not one of text, json, stream-json'),
        (["-p", "hi", "--max-turns", "0"], '--max-turns: "0" is not a whole number of at least 1'),
        (["-p", "hi", "-m"], "-m needs a value"),
        (["--effort", "huge"], '--effort: "huge" is not one of none, minimal, low, medium, high, max'),
        (["--reasoning-effort"], "--reasoning-effort needs a value"),
        (
            ["--permission-mode", "asks"],
            '--permission-mode: "asks" is not one of plan, default (or ask), accept-edits, auto, bypass',
        ),
        (["-mdemo/demo", "--output-format=xml"], '--output-format: "xml" is not one of text, json, stream-json'),
        (["--max-budget-usd", "1e400"], '--max-budget-usd: "1e400" is not an amount in USD greater than 0'),
    ],
)
def test_error_names_the_typed_flag_and_what_to_type_instead(argv: list[str], why: str) -> None:
    with pytest.raises(CommandLineError) as caught:
        parse(argv)
    assert str(caught.value) == why


@pytest.mark.parametrize("digits", [23, 5_000])
def test_huge_number_is_read_as_the_largest_one(digits: int) -> None:
    assert parse(["-p", "hi", "--max-output-tokens", "9" * digits]).max_output_tokens == MAX_WHOLE_NUMBER


@pytest.mark.parametrize("flag", ["--max-turns", "--max-budget-usd", "--timeout", "--effort", "--no-such-flag", "--x"])
def test_error_repeats_only_the_start_of_a_long_value(flag: str) -> None:
    for argv in ([flag, "x" * 100_000], [f"{flag}={'x' * 100_000}"], [f"{flag}{'x' * 100_000}"]):
        with pytest.raises(CommandLineError) as caught:
            parse(argv)
        assert len(str(caught.value)) < 250


@pytest.mark.parametrize(("word", "meant"), [("exec", "qcode -p TEXT"), ("completion", "qcode --completion bash")])
def test_command_of_a_similar_program_is_not_sent_to_a_model(word: str, meant: str) -> None:
    with pytest.raises(CommandLineError, match=meant):
        split_subcommand([word, "fix it"])
    for argv in (["-p", word], ["-c", word], ["--", word]):
        assert split_subcommand(argv) is None
