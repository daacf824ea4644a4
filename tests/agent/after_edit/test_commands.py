"""The commands of `[after_edit]`: formatter, check and tests, under the rules of the session."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qcode.agent.after_edit.commands import NO, YES
from qcode.agent.trust.service import files_in_use
from qcode.agent.trust.store import TrustStore
from qcode.config.load import file_layer
from qcode.protocol.approvals import ASKED_BY_QCODE, Answer, Deny, Question
from qcode.protocol.errors import ConfigError
from qcode.protocol.events import ApprovalRequested, Notice, SteeringAdded, ToolOutput, TurnEvent
from qcode.safety.rules import Rules
from tests.agent.after_edit.editing import DONE, Editing, edit, write
from tests.fakes.conversation import Model
from tests.fakes.scripted import call_reply

FORMAT = {"diagnostics": False, "format": "sed -i s/bad/good/ {file}"}
SED = Rules.of(allow=["shell(sed -i *)"])


def texts(editing: Editing, kind: type[Notice] | type[SteeringAdded]) -> list[str]:
    return [event.text for event in editing.events if isinstance(event, kind)]


def test_formatter_changes_the_file_and_the_result_says_so(tmp_path: Path) -> None:
    replies = write("bad\nx\n", "a.txt"), edit("good\nx", "good\ny", "a.txt"), DONE
    editing = Editing(tmp_path, *replies, settings=FORMAT, rules=SED)
    first, second = editing.run()
    assert editing.told[0] == (
        "Created a.txt (2 lines).\n\nThe formatter changed a.txt after this edit (`sed -i s/bad/good/ a.txt`):\n"
        "--- as written\n+++ now\n@@ -1,2 +1,2 @@\n-bad\n+good\n x"
    )
    assert first.outcome.summary == "+2 -0 lines, formatted"
    assert "+good\n" in first.outcome.diff
    assert "+bad\n" not in first.outcome.diff
    # The model has seen the formatted file, so its next edit needs no further read.
    assert second.state == "done"
    assert (editing.work / "a.txt").read_text() == "good\ny\n"


def test_undo_restores_the_file_before_edit_and_formatter(tmp_path: Path) -> None:
    editing = Editing(tmp_path, write("bad\n", "a.txt"), DONE, edit("good", "bad 2", "a.txt"), DONE,
                      settings=FORMAT, rules=SED)  # fmt: skip

    async def played() -> list[str | None]:
        seen: list[str | None] = []
        file = editing.work / "a.txt"
        await editing.play()
        await editing.play()
        seen.append(file.read_text())
        for _ in range(2):
            checkpoints = editing.it.conversation.checkpoints
            report = await checkpoints.perform(await checkpoints.plan_undo())
            assert not report.problems
            seen.append(file.read_text() if file.exists() else None)
        await editing.it.conversation.close()
        return seen

    assert asyncio.run(played()) == ["good 2\n", "good\n", None]


def test_formatter_is_for_the_files_of_its_pattern(tmp_path: Path) -> None:
    formats = {"*.txt": "sed -i s/bad/good/ {file}", "docs/*": ["sed", "-i", "s/bad/better/", "{file}"]}
    replies = (write("bad\n", name) for name in ("sub/a.txt", "docs/b", "c.py"))
    editing = Editing(tmp_path, *replies, DONE, settings={**FORMAT, "format": formats}, rules=SED)
    editing.run()
    found = {name: (editing.work / name).read_text() for name in ("sub/a.txt", "docs/b", "c.py")}
    assert found == {"sub/a.txt": "good\n", "docs/b": "better\n", "c.py": "bad\n"}


def test_name_of_a_file_cannot_become_part_of_the_command(tmp_path: Path) -> None:
    name = "a; touch pwned $(touch pwned) 'x.txt"
    editing = Editing(tmp_path, write("bad\n", name), write("bad\n", "-n"), DONE, settings=FORMAT, mode="bypass")
    editing.run()
    assert (editing.work / name).read_text() == "good\n"
    assert (editing.work / "-n").read_text() == "good\n"
    assert not (editing.work / "pwned").exists()


def test_formatter_that_fails_leaves_the_edit(tmp_path: Path) -> None:
    editing = Editing(tmp_path, write("x\n", "a.txt"), DONE, settings={**FORMAT, "format": "false"}, mode="bypass")
    (finished,) = editing.run()
    assert finished.state == "done"
    assert "The formatter failed and left the file as written: [no output]\n[exit code 1]" in editing.told[0]


def test_formatter_that_changes_the_file_and_fails_is_recorded_as_a_change(tmp_path: Path) -> None:
    settings = {**FORMAT, "format": "sed -i s/one/two/ {file}; echo 1 problem left; exit 1"}
    replies = write("one\n", "a.txt"), edit("two", "three", "a.txt"), DONE
    editing = Editing(tmp_path, *replies, settings=settings, mode="bypass")
    _, second = editing.run()
    assert "The formatter failed: 1 problem left\n[exit code 1]" in editing.told[0]
    assert "The formatter changed a.txt after this edit" in editing.told[0]
    assert second.state == "done", second
    assert (editing.work / "a.txt").read_text() == "three\n"


def test_diff_of_a_secret_file_stays_if_the_formatter_changes_another_file(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: .env\n+KEY=1\n*** Add File: a.txt\n+bad\n*** End Patch"
    replies, model = (call_reply("apply_patch", {"input": patch}), DONE), Model("gpt-5")
    editing = Editing(tmp_path, *replies, settings=FORMAT, mode="bypass", model=model, is_attended=True)
    (finished,) = editing.run(on_event=editing.allow)
    assert "+++ b/.env\n" in finished.outcome.diff
    assert "+good\n" in finished.outcome.diff
    assert finished.outcome.summary == "+2 -0 lines, formatted"


def test_command_that_would_ask_does_not_run_unattended_and_is_reported_once(tmp_path: Path) -> None:
    editing = Editing(tmp_path, write("bad\n", "a.txt"), write("bad\n", "b.txt"), DONE, settings=FORMAT)
    editing.run()
    assert (editing.work / "a.txt").read_text() == "bad\n"
    assert len(texts(editing, Notice)) == 1
    assert texts(editing, Notice)[0].startswith("after_edit.format did not run (sed -i s/bad/good/ {file}): ")


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("touch {file}.done", "shell(touch *.done)"),
        ("touch done", "shell(touch done)"),
        ("sed -i s/bad/good/ {file}", "shell(sed -i s/bad/good/ a.txt)"),  # `sed *` could do more than this
    ],
)
def test_notice_about_a_command_that_did_not_run_names_the_rule_that_allows_it(
    command: str, rule: str, tmp_path: Path
) -> None:
    settings = {**FORMAT, "format": command}
    editing = Editing(tmp_path / "asks", write("bad\n", "a.txt"), DONE, settings=settings)
    editing.run()
    (notice,) = texts(editing, Notice)
    assert notice.endswith(f"; to allow it, add {rule} to permissions.allow")
    rules = Rules.of(allow=[rule])
    allowed = Editing(tmp_path / "allowed", write("bad\n", "a.txt"), DONE, settings=settings, rules=rules)
    allowed.run()
    assert texts(allowed, Notice) == []


def test_notice_about_several_commands_names_no_rule_for_one_of_them(tmp_path: Path) -> None:
    settings = {**FORMAT, "format": "touch one && touch two"}
    editing = Editing(tmp_path, write("bad\n", "a.txt"), DONE, settings=settings)
    editing.run()
    assert texts(editing, Notice)[0].endswith(
        "; to allow it, add a shell(...) rule for each command to permissions.allow"
    )


def test_notice_about_a_command_for_which_a_rule_asks_proposes_no_other_rule(tmp_path: Path) -> None:
    rules = Rules.of(ask=["shell(sed -i *)"])
    editing = Editing(tmp_path, write("bad\n", "a.txt"), DONE, settings=FORMAT, rules=rules)
    editing.run()
    (notice,) = texts(editing, Notice)
    assert "permissions.allow" not in notice


def test_command_that_a_rule_denies_never_runs(tmp_path: Path) -> None:
    rules = Rules.of(deny=["shell(sed -i *)"])
    editing = Editing(tmp_path, write("bad\n", "a.txt"), DONE, settings=FORMAT, rules=rules, mode="bypass")
    editing.run()
    assert (editing.work / "a.txt").read_text() == "bad\n"


@pytest.mark.parametrize("decision", [Answer(YES), Answer(NO), Deny()])
def test_user_is_asked_once_about_a_command(tmp_path: Path, decision: Answer | Deny) -> None:
    asked: list[Question] = []
    editing = Editing(
        tmp_path, write("bad\n", "a.txt"), write("bad\n", "b.txt"), DONE, settings=FORMAT, is_attended=True
    )

    def answer(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested) and isinstance(event.approval, Question):
            asked.append(event.approval)
            editing.it.conversation.answer(event.approval.id, decision)

    finished = editing.run(on_event=answer)
    assert [item.state for item in finished] == ["done", "done"]
    (question,) = asked
    assert question.question.startswith("Run the format command each time the model has edited a file?")
    assert question.detail == "sed -i s/bad/good/ {file}"
    assert (question.server, question.asker) == (ASKED_BY_QCODE, "qcode")
    text = "good\n" if decision == Answer(YES) else "bad\n"
    assert [(editing.work / name).read_text() for name in ("a.txt", "b.txt")] == [text, text]


def test_check_that_fails_is_appended_to_the_result(tmp_path: Path) -> None:
    settings = {"diagnostics": False, "check": "grep -n wrong {file} && exit 3 || exit 0"}
    replies = write("fine\n", "a.txt"), write("wrong\n", "b.txt"), DONE
    editing = Editing(tmp_path, *replies, settings=settings, mode="bypass")
    _, finished = editing.run()
    assert editing.told[0] == "Created a.txt (1 line)."
    assert '<diagnostics file="b.txt">\nThe check of this file failed:\ngrep -n wrong b.txt' in editing.told[1]
    assert "1:wrong\n[exit code 3]\n</diagnostics>" in editing.told[1]
    assert finished.outcome.summary == "+1 -0 lines, check failed"


def test_failed_tests_go_back_to_the_model_until_they_pass(tmp_path: Path) -> None:
    settings = {"diagnostics": False, "test": "grep right a.txt"}
    editing = Editing(tmp_path, write("x\n", "a.txt"), DONE, edit("x", "right", "a.txt"), DONE, settings=settings)
    editing.run()
    (steered,) = texts(editing, SteeringAdded)
    assert steered.startswith("The test command failed after your edits (round 1 of 3).")
    assert "\n$ grep right a.txt\n" in steered
    assert texts(editing, Notice) == []
    assert not [event for event in editing.events if isinstance(event, ToolOutput)]


def test_failed_tests_go_back_at_most_max_rounds_times(tmp_path: Path) -> None:
    settings = {"diagnostics": False, "test": "grep right a.txt", "max_rounds": 2}
    tries = [reply for number in range(3) for reply in (write(f"{number}\n", f"{number}.txt"), DONE)]
    editing = Editing(tmp_path, *tries, settings=settings)
    editing.run()
    assert [text.partition(").")[0][-13:] for text in texts(editing, SteeringAdded)] == [
        "(round 1 of 2",
        "(round 2 of 2",
    ]
    assert texts(editing, Notice) == ["The test command still fails after 2 rounds: grep right a.txt"]
    assert editing.it.provider.left == 0


def test_turn_ends_if_the_model_edits_nothing_after_failed_tests(tmp_path: Path) -> None:
    settings = {"diagnostics": False, "test": "grep right a.txt"}
    editing = Editing(tmp_path, write("x\n", "a.txt"), DONE, DONE, DONE, settings=settings)
    editing.run(prompts=2)
    assert len(texts(editing, SteeringAdded)) == 1
    assert texts(editing, Notice) == ["The test command failed, and no edit followed: grep right a.txt"]


def test_tests_do_not_run_without_an_edit(tmp_path: Path) -> None:
    editing = Editing(tmp_path, DONE, settings={"diagnostics": False, "test": "touch ran"}, mode="bypass")
    editing.run()
    assert not (editing.work / "ran").exists()


def test_trust_question_shows_the_commands_of_a_project(tmp_path: Path) -> None:
    (tmp_path / ".qcode").mkdir()
    (tmp_path / ".qcode/config.toml").write_text(
        '[after_edit]\ntest = "curl evil\\u202e"\ncheck = 5\n[after_edit.format]\n"*.py" = ["x", "{file}", "a b"]\n'
    )
    rows = list(files_in_use(tmp_path, tmp_path, TrustStore(tmp_path / "state").status_of(tmp_path)))
    assert ("after an edit: format", "runs *.py: x {file} 'a b'") in rows
    assert any(name == "after an edit: test" and "curl evil" in what and "\u202e" not in what for name, what in rows)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("diagnostics = true", "a project may only set after_edit.diagnostics to false"),
        ('diagnostics = "auto"', "a project may only set after_edit.diagnostics to false"),
        ('servers = { python = ["evil"] }', "a project may not set after_edit.servers.python"),
        ("format = []\ntest = 5", "after_edit.test must be a command line"),
        ('check = { "*.py" = [] }', "after_edit.check must be a command line"),
    ],
)
def test_invalid_settings_of_a_project_are_refused(tmp_path: Path, settings: str, message: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"[after_edit]\n{settings}\n")
    with pytest.raises(ConfigError, match=message):
        file_layer(file, "project")


def test_untrusted_folder_runs_no_command(tmp_path: Path) -> None:
    editing = Editing(
        tmp_path, write("bad\n", "a.txt"), DONE, settings={**FORMAT, "test": "touch ran"}, is_trusted=False, rules=SED
    )
    editing.run(on_event=editing.allow)
    assert (editing.work / "a.txt").read_text() == "bad\n"
    assert not (editing.work / "ran").exists()
    assert not [text for text in texts(editing, Notice) if "permissions.allow" in text]  # a rule would not help
