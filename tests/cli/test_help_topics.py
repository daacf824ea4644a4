"""`qcode help TOPIC` explains every subcommand, section, flag and config key, from the tables of the program."""

from __future__ import annotations

import pytest

from qcode.cli.flags import FLAGS, HELP_WIDTH, SECTIONS, SUBCOMMANDS, TOPICS
from qcode.cli.help_text import help_text
from qcode.cli.main import main
from qcode.cli.subcommands.help import topic_lines
from qcode.config.schema import KEYS
from qcode.protocol.errors import ExitCode


def printed(capfd: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["help", *words]) == code
    out, err = capfd.readouterr()
    return err if code else out


def test_help_without_a_topic_is_the_help_and_lists_the_topics(capfd: pytest.CaptureFixture[str]) -> None:
    out = printed(capfd)
    assert out.startswith(help_text())
    assert set(TOPICS) <= set(out.partition("Topics of")[2].replace(",", " ").split())


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_help_flag_after_a_subcommand_shows_its_help(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([name, "-x", "--help"]) == 0
    out, _ = capfd.readouterr()
    assert out == (help_text() if name == "help" else printed(capfd, name))


def test_help_flag_without_a_subcommand_shows_the_whole_help(capfd: pytest.CaptureFixture[str]) -> None:
    for argv in (["-p", "models", "--help"], ["doctr", "--help"], ["--help", "--json"]):
        assert main(argv) == 0
        assert capfd.readouterr().out == help_text()


@pytest.mark.parametrize("topic", TOPICS)
def test_every_topic_has_a_text(topic: str, capfd: pytest.CaptureFixture[str]) -> None:
    out = printed(capfd, topic)
    assert len(out) > 20
    if topic in SUBCOMMANDS:
        assert f"qcode {topic}" in out
        assert all(f"qcode {other} " not in out for other in SUBCOMMANDS if other != topic)


@pytest.mark.parametrize("name", [name for name in SUBCOMMANDS if SUBCOMMANDS[name].flags])
def test_help_of_a_subcommand_names_each_of_its_flags(name: str) -> None:
    text = " ".join(topic_lines(name))
    assert [flag.typed for flag in SUBCOMMANDS[name].flags if not any(each in text for each in flag.names)] == []


def test_help_topic_shows_subcommand_and_section_of_the_same_name(capfd: pytest.CaptureFixture[str]) -> None:
    out = printed(capfd, "sessions")
    assert "qcode sessions export ID" in out
    assert "--fork-session" in out


@pytest.mark.parametrize("name", [name for flag in FLAGS for name in flag.names])
def test_every_flag_has_a_line(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    lines = list(topic_lines(name))
    assert name in lines[0].replace(",", " ").replace("[", " ").split()
    if name not in ("-h", "--help", "--version"):  # these are answered before the topic is read
        assert printed(capfd, name) == "".join(f"{line}\n" for line in lines)


def test_every_config_key_and_every_table_has_lines(capfd: pytest.CaptureFixture[str]) -> None:
    for key in KEYS:
        page = " ".join(printed(capfd, key.name).split())
        assert f"{key.name}: {key.kind.expected}" in page
    ui = printed(capfd, "ui")
    assert [key.name for key in KEYS if key.path[0] == "ui"] == [
        line.partition(":")[0] for line in ui.splitlines() if not line.startswith(" ")
    ]


def test_every_line_of_the_help_fits_in_80_columns(capfd: pytest.CaptureFixture[str]) -> None:
    names = [name for flag in FLAGS for name in flag.names]
    topics = [*TOPICS, *names, *(key.name for key in KEYS), "OPENAI_API_KEY", "ANTHROPIC_BASE_URL"]
    pages = [printed(capfd), *("\n".join(topic_lines(topic)) for topic in topics)]
    assert [line for page in pages for line in page.splitlines() if len(line) > HELP_WIDTH] == []


def test_section_has_each_of_its_flags(capfd: pytest.CaptureFixture[str]) -> None:
    out = printed(capfd, "limits-of-one-prompt")
    assert all(flag.names[-1] in out for flag in SECTIONS["Limits of one prompt"])


@pytest.mark.parametrize("code", list(ExitCode))
def test_every_exit_code_has_its_line(code: int, capfd: pytest.CaptureFixture[str]) -> None:
    (line,) = printed(capfd, str(int(code))).splitlines()
    number, meaning = line.split("  ")
    assert (number, len(meaning) > 4) == (str(int(code)), True)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("QCODE_HOME", "folder of config and state"),
        ("OPENAI_API_KEY", "a key of openai, openai-responses"),
        ("AZURE_OPENAI_ENDPOINT", "the address of azure"),
    ],
)
def test_environment_variable_has_its_line(name: str, shown: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert shown in printed(capfd, name)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("sesions",), "did you mean qcode help sessions?"),
        (("ui.them",), "did you mean qcode help ui.theme?"),
        (("exit",), "did you mean qcode help exit-codes?"),
        (("--yol",), "the topics are"),
        (("99",), 'no help about "99"'),
        (("QCODE_HOUSE",), "no help about"),
        (("a\x1b[31mb",), "no help about"),
        (("one", "two"), "use: qcode help [TOPIC]"),
    ],
)
def test_unknown_topic_is_an_error_with_a_hint(
    words: tuple[str, ...], hint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    err = printed(capfd, *words, code=2)
    assert hint in err
    assert "\x1b" not in err
