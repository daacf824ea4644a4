"""Skills at a real terminal and in a pipe: the prompt, the questions, and the subcommand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.skills.folders import put
from tests.e2e.running import CliRunner
from tests.e2e.test_prompt import READY, at
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, Turn


@pytest.fixture
def own(cli: CliRunner) -> Path:
    return cli.home / ".claude/skills"


def test_pipe_mode_sends_a_typed_skill_with_its_arguments(cli: CliRunner, own: Path) -> None:
    put(own, "pdf", body="Fill $ARGUMENTS from !`ls`.")
    (cli.work / "form.pdf").write_text("")
    with FakeServer("openai", [Turn(text="Filled.")]) as server:
        done = cli.ask(server, "-p", "/pdf form.pdf now")
        sent = server.requests[0].messages[-1].text
    assert (done.code, done.out, done.err) == (0, "Filled.\n", "")
    assert sent == f'<skill name="pdf" dir="{own}/pdf">\nFill form.pdf now from form.pdf.\n</skill>'


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("flags", "asked"), [((), "other"), (("-m", "openai/named"), "named")])
def test_pipe_mode_uses_the_model_of_a_command_unless_a_flag_names_one(
    flags: tuple[str, ...], asked: str, cli: CliRunner
) -> None:
    folder = cli.home / ".config/qcode/commands"
    folder.mkdir(parents=True)
    (folder / "one.toml").write_text('prompt = "Well?"\nmodel = "openai/other"\n')
    (folder / "two.md").write_text("---\nmodel: openai/other\n---\nWell?\n")
    with FakeServer("openai", [Turn(text="Well."), Turn(text="Well.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.base_url, "QCODE_HOME": str(folder.parent)}
        for typed in ("/one", "/two"):
            assert cli.run("-p", typed, *flags, env=env).code == 0
        assert [request.model for request in server.requests] == [asked, asked]


def test_pipe_mode_denies_a_command_of_a_skill_that_would_ask(cli: CliRunner, own: Path) -> None:
    put(own, "pdf", body="!`touch made`")
    with FakeServer("openai", []) as server:
        done = cli.ask(server, "-p", "/pdf", "-o", "json")
        assert server.requests == []
    assert done.code == 55
    assert "touch made" in done.err
    assert not (cli.work / "made").exists()


def test_pipe_mode_sends_an_unknown_name_as_text(cli: CliRunner, own: Path) -> None:
    put(own, "pdf")
    put(own, "hidden", user_invocable="false")
    for typed in ("/nothing here", "/hidden"):
        with FakeServer("openai", [Turn(text="Well.")]) as server:
            assert cli.ask(server, "-p", typed).code == 0
            assert server.requests[0].messages[-1].text == typed


def test_pipe_mode_runs_a_skill_that_is_named_after_skills(cli: CliRunner, own: Path) -> None:
    put(own, "pdf", body="Fill $ARGUMENTS.")
    put(own, "hidden", user_invocable="false", body="Hidden $ARGUMENTS.")
    commands = cli.home / ".config/qcode/commands"
    commands.mkdir(parents=True)
    (commands / "pdf.toml").write_text('prompt = "Of the command."\n')
    for typed, body in (
        ("/skills pdf a b", "Fill a b."),
        ("/skills hidden c", "Hidden c."),
        ("/skills x", "/skills x"),
    ):
        with FakeServer("openai", [Turn(text="Well.")]) as server:
            assert cli.ask(server, "-p", typed).code == 0
            assert body in server.requests[0].messages[-1].text


def test_pipe_mode_prefers_a_skill_to_a_command_of_the_project(cli: CliRunner, own: Path) -> None:
    put(own, "pdf", body="The skill says it.")
    (cli.work / ".qcode/commands").mkdir(parents=True)
    (cli.work / ".qcode/commands/pdf.toml").write_text('prompt = "Of the project."\n')
    with FakeServer("openai", [Turn(text="Well.")]) as server:
        cli.ask(server, "-p", "/pdf", "--trust")
        assert "The skill says it." in server.requests[0].messages[-1].text


def test_broken_skill_is_reported_at_the_start_and_a_hidden_one_only_in_the_list(cli: CliRunner, own: Path) -> None:
    put(own, "broken", "nothing")
    put(own, "pdf")
    put(cli.work / ".claude/skills", "pdf")
    with FakeServer("openai", [Turn(text="Well.")]) as server:
        done = cli.ask(server, "-p", "hi", "--trust")
    assert done.err.splitlines() == [
        "qcode: ~/.claude/skills/broken/SKILL.md:1: no front matter: the file must begin with a --- line",
    ]
    with FakeServer("openai", [Turn(text="Well.")]) as server:
        assert cli.ask(server, "-p", "hi", "--trust", "--no-skills").err == ""
    listed = cli.run("skills", "list", "--trust").out
    assert "not used: .claude/skills/pdf, because ~/.claude/skills/pdf has the name pdf" in listed


def test_model_loads_a_skill_and_the_app_shows_it(cli: CliRunner, own: Path) -> None:
    put(own, "pdf", body="canary")
    script = [Turn(calls=(Call("skill", '{"name": "pdf"}'),)), Turn(text="Loaded it.")]
    with FakeServer("openai", script) as server, at(server, cli) as terminal:
        terminal.wait_for(READY)
        terminal.press("go\r")
        terminal.wait_for("Loaded it.")
        terminal.wait_for("pdf · about")
        assert "canary" in str(server.requests[1].body)


def test_app_runs_a_skill_by_name_and_lists_it(cli: CliRunner, own: Path) -> None:
    put(own, "pdf", body="Fill $ARGUMENTS.", description="Fills forms.")
    put(own, "model", body="The skill says it.")
    with FakeServer("openai", [Turn(text="Once."), Turn(text="Twice.")]) as server, at(server, cli) as terminal:
        terminal.wait_for(READY)
        terminal.press("/pd")
        terminal.wait_for("Fills forms. (skill,")
        terminal.press("f x\r")
        terminal.wait_for("Once.")
        assert "Fill x." in server.requests[0].messages[-1].text
        terminal.wait_for("/pdf x")
        terminal.press("/skills\r")
        terminal.wait_for("~/.claude/skills,")
        terminal.press("/skills model\r")
        terminal.wait_for("Twice.")
        assert "The skill says it." in server.requests[1].messages[-1].text


@pytest.mark.sampled(2)
@pytest.mark.parametrize("is_allowed", [True, False])
def test_app_asks_before_a_command_of_a_skill(cli: CliRunner, own: Path, is_allowed: bool) -> None:
    put(own, "pdf", body="Made: !`touch made && ls`")
    with FakeServer("openai", [Turn(text="Once.")]) as server, at(server, cli) as terminal:
        terminal.wait_for(READY)
        terminal.press("/pdf\r")
        terminal.wait_for("touch made && ls")
        if is_allowed:
            terminal.press("\x1b[B\r")
            terminal.wait_for("Once.")
            assert "Made: made" in server.requests[0].messages[-1].text
        else:
            terminal.press("\x1b")
            terminal.wait_for("needs approval")
            assert server.requests == []
    assert (cli.work / "made").exists() is is_allowed


def test_subcommand_lists_shows_and_checks(cli: CliRunner, own: Path) -> None:
    put(own, "pdf", description="Fills forms.", hooks="{a: b}", allowed_tools="Read")
    put(own, "Bad Name")
    put(cli.work / ".claude/skills", "local")
    listed = cli.run("skills")
    assert listed.code == 0
    assert "pdf" in listed.out
    assert "local" not in listed.out
    assert "this folder is not trusted, so its own skills are not read; qcode trust accept trusts it" in listed.out
    assert "local" in cli.run("skills", "list", "--trust").out
    output = cli.run("skills", "show", "pdf").out
    assert "Without effect: hooks" in output
    assert "Allowed tools: Read (shown only: they grant nothing)" in output
    unknown = cli.run("skills", "show", "pdv")
    assert (unknown.code, "the nearest is pdf" in unknown.err) == (42, True)
    checked = cli.run("skills", "check", str(own))
    assert checked.code == 1
    assert "  - Skill name 'Bad Name' must be lowercase" in checked.out
    assert cli.run("skills", "check", str(cli.work / ".claude/skills/local")).out.startswith("Valid skill: ")
    assert cli.run("skills", "check", "nowhere").out.splitlines()[1].startswith("  - Path does not exist")
    assert cli.run("skills", "remove").code == 2
