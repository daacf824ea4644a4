"""Commands from files: their keys, their folders, and the report of an invalid one."""

from __future__ import annotations

from pathlib import Path

import pytest

from qcode.config.definitions import CustomCommands, load_custom_commands


class CommandFolders:
    def __init__(self, base: Path) -> None:
        self.own, self.project = base / "home", base / "project"

    def write(self, name: str, text: str, *, in_project: bool = False) -> Path:
        folder = self.project / ".qcode/commands" if in_project else self.own / "commands"
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def load(self, *, is_trusted: bool = True, used_names: tuple[str, ...] = ()) -> CustomCommands:
        return load_custom_commands(self.own, self.project, reads_project=is_trusted, used_names=used_names)


@pytest.fixture
def folders(tmp_path: Path) -> CommandFolders:
    return CommandFolders(tmp_path)


def test_command_file_keys_are_all_read(folders: CommandFolders) -> None:
    text = (
        'description = "Review"\nargument = "[path]"\nmodel = "demo/other"\n'
        'prompt = """\nReview {{args}} well.\n"""\n[output]\nmax_tokens = 100\npolicy = "continue"\n'
    )
    folders.write("review.toml", text)
    (command,) = folders.load().commands
    assert (command.name, command.description, command.argument, command.model) == (
        "review",
        "Review",
        "[path]",
        "demo/other",
    )
    assert dict(command.output) == {"max_tokens": 100, "policy": "continue"}
    assert command.expand(" src {{args}} ") == "Review src {{args}} well."
    assert not command.is_from_project


def test_arguments_are_appended_without_a_placeholder(folders: CommandFolders) -> None:
    folders.write("a.toml", 'prompt = "Do it."')
    (command,) = folders.load().commands
    assert command.expand("") == "Do it."
    assert command.expand("now\nplease") == "Do it.\n\nnow\nplease"


@pytest.mark.parametrize(
    ("prompt", "arguments", "project_texts"),
    [
        ("See {{args}}, {{args}}.", " a b ", ["See ", ", ", "."]),
        ("{{args}}", "a", []),
        ("Do it.", "now", ["Do it.\n\n"]),
        ("Do it.", "", ["Do it."]),
        ("{{args}}x", "", ["x"]),
    ],
)
def test_project_command_marks_text_that_the_user_did_not_type(
    folders: CommandFolders, prompt: str, arguments: str, project_texts: list[str]
) -> None:
    folders.write("a.toml", f'prompt = "{prompt}"', in_project=True)
    (command,) = folders.load().commands
    sent = command.expand(arguments)
    assert [sent[start:end] for start, end in command.project_ranges(arguments)] == project_texts
    folders.write("b.toml", f'prompt = "{prompt}"')
    assert next(item for item in folders.load().commands if item.name == "b").project_ranges(arguments) == ()


def test_case_of_a_command_name_is_ignored(folders: CommandFolders) -> None:
    folders.write("Review.toml", 'prompt = "Do it."')
    folders.write("review.toml", 'prompt = "Other."', in_project=True)
    found = folders.load()
    (command,) = found.commands
    assert found.match_command("/review src") == found.match_command("/Review src") == (command, "src")
    assert "review.toml: /review is ignored, your " in found.problems[0]


def test_reported_path_of_a_command_begins_with_the_home_folder_as_a_tilde(
    folders: CommandFolders, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folders.write("broken.toml", "prompt = 1")
    folders.write("review.toml", 'prompt = "Do it."')
    folders.write("review.toml", 'prompt = "Other."', in_project=True)
    problems = folders.load().problems
    assert [problem[:2] for problem in problems] == ["~/", "~/"]
    assert str(tmp_path) not in " ".join(problems)


def test_command_name_contains_its_folders(folders: CommandFolders) -> None:
    folders.write("git/commit.toml", 'prompt = "c"')
    folders.write("git/log/short.toml", 'prompt = "s"')
    found = folders.load()
    assert [command.name for command in found.commands] == ["git:commit", "git:log:short"]
    typed = found.match_command("/git:commit  all of it\nplease ")
    assert typed is not None
    assert (typed[0].name, typed[1]) == ("git:commit", "all of it\nplease")
    assert found.match_command("/git") is None
    assert found.match_command("see /git:commit") is None


def test_too_many_files_drop_the_last_folders_by_name(folders: CommandFolders) -> None:
    for name in ("m", "a/x", "b/deep/y", "b/x", *(f"z/n{number:03}" for number in range(500))):
        folders.write(f"{name}.toml", 'prompt = "x"')
    found = folders.load()
    names = [command.name for command in found.commands]
    assert names == ["a:x", "b:deep:y", "b:x", "m", *(f"z:n{number:03}" for number in range(496))]
    assert found.problems == (f"{folders.own / 'commands'}: contains more than 500 files; the rest are ignored",)


def test_project_command_needs_trust_and_never_replaces_a_user_command(folders: CommandFolders) -> None:
    folders.write("review.toml", 'prompt = "mine"')
    folders.write("review.toml", 'prompt = "theirs"', in_project=True)
    folders.write("build.toml", 'prompt = "b"', in_project=True)
    assert [command.name for command in folders.load(is_trusted=False).commands] == ["review"]
    found = folders.load()
    assert {command.name: (command.prompt, command.is_from_project) for command in found.commands} == {
        "build": ("b", True),
        "review": ("mine", False),
    }
    assert "/review is ignored, your" in found.problems[0]


def test_built_in_command_keeps_its_name(folders: CommandFolders) -> None:
    folders.write("help.toml", 'prompt = "x"')
    found = folders.load(used_names=("help",))
    assert found.commands == ()
    assert "/help is ignored, a built-in command already has this name" in found.problems[0]


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("prompt = ", 1, "not valid TOML"),
        ('description = "x"', 1, "prompt must be a string"),
        ('prompt = "  "', 1, "prompt must be a string"),
        ('prompt = "x"\ndescripton = "y"', 2, "unknown key descripton; the nearest is description"),
        ('prompt = "x"\ndescription = "a\\nb"', 2, "description must be one line of text"),
        ('prompt = "x"\n[output]\nmax_token = 3', 3, "unknown key output.max_token; the nearest is output.max_tokens"),
        ('prompt = "x"\n[output]\nmax_tokens = 0', 3, "must be a whole number of at least 1"),
        ('prompt = "x"\noutput = 3', 2, "output must be a table"),
        ('prompt = "x"\nmodel = 3', 2, "model must be one line of text"),
    ],
)
def test_invalid_file_is_reported_with_its_line_and_skipped(
    folders: CommandFolders, text: str, line: int, problem: str
) -> None:
    path = folders.write("bad.toml", text)
    folders.write("good.toml", 'prompt = "x"')
    found = folders.load()
    assert [command.name for command in found.commands] == ["good"]
    (notices,) = found.problems
    assert notices.startswith(f"{path}:{line}: ")
    assert problem in notices
    assert "\n" not in notices


def test_other_files_are_ignored_or_reported(folders: CommandFolders) -> None:
    folders.write("notes.md", "x")
    folders.write(".hidden.toml", "x")
    path = folders.write("has blank.toml", 'prompt = "x"')
    path.with_name("bytes.toml").write_bytes(b'prompt = "\xff"')
    found = folders.load()
    assert found.commands == ()
    assert len(found.problems) == 2
    assert "letters, digits" in "".join(found.problems)
    assert "UTF-8" in "".join(found.problems)


def test_project_links_do_not_leave_the_project(folders: CommandFolders, tmp_path: Path) -> None:
    folders.write("ok.toml", 'prompt = "x"', in_project=True)
    (tmp_path / "outside.toml").write_text('prompt = "secret"')
    (folders.project / ".qcode/commands/out.toml").symlink_to(tmp_path / "outside.toml")
    (folders.project / ".qcode/commands/loop").symlink_to(folders.project / ".qcode")
    found = folders.load()
    assert [command.name for command in found.commands] == ["ok"]  # the loop gives no second name
    assert not any(command.prompt == "secret" for command in found.commands)
    assert any("leads outside the project" in problem for problem in found.problems)


def test_missing_folder_has_no_commands(folders: CommandFolders) -> None:
    assert folders.load() == CustomCommands()


def test_circular_link_is_reported(folders: CommandFolders) -> None:
    folders.write("good.toml", 'prompt = "x"', in_project=True)
    folder = folders.project / ".qcode/commands"
    (folder / "a").symlink_to("a")
    (folder / "b.toml").symlink_to("b.toml")
    found = folders.load()
    assert [command.name for command in found.commands] == ["good"]
    assert len(found.problems) == 1
    assert "b.toml" in found.problems[0]
