"""`@` in the prompt: the mention at the cursor, quoting of paths, and the menu."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from qcode.agent.context.attachments import attach_mentions
from qcode.agent.context.file_index import FileIndex, FileMatches
from qcode.protocol.messages import Text, assistant, user
from qcode.text.match import FuzzySearch, PathIndex
from qcode.tui.prompt.menu import Mention, mention_at, mention_of, recent_paths
from tests.tui.harness import Running, drive
from tests.tui.scripted import ScriptedConversation, call

FILES = ("src/main.py", "src/deep/test_main.py", "README.md", "my dir/a b.py", 'odd"name.py')


class Finder(FileIndex):
    """Real ranking over a fixed list; `more` are files found by the first refresh."""

    def __init__(self, *files: str, more: tuple[str, ...] = ()) -> None:
        self.search = FuzzySearch(PathIndex.of(files))
        self.more = (*files, *more)
        self.refreshes = 0
        self.recent: tuple[str, ...] = ()

    def find(self, query: str, recent: Sequence[str] = (), limit: int = 50) -> FileMatches:
        self.recent = tuple(recent)
        return FileMatches(self.search.find(query, recent, limit))

    def refresh(self, changed: Callable[[], None]) -> None:
        self.refreshes += 1
        if self.refreshes == 1 and len(self.more) > len(FILES):
            self.search = FuzzySearch(PathIndex.of(self.more))
            threading.Thread(target=changed).start()


@pytest.mark.parametrize(
    ("line", "column", "mention"),
    [
        ("@", 1, Mention(0, 1, "")),
        ("see @src/m", 10, Mention(4, 10, "src/m")),
        ("see @src/main", 8, Mention(4, 13, "src")),
        ('see @"my dir/a', 14, Mention(4, 14, "my dir/a")),
        ('@"a b" then', 4, Mention(0, 6, "a ")),
        (r"@my\ dir", 8, Mention(0, 8, "my dir")),
        ("me@here.com", 11, None),
        ("@done now", 9, None),
        ('@"a b" ', 7, None),
        ("no", 2, None),
    ],
)
def test_mention_at_the_cursor_is_found(line: str, column: int, mention: Mention | None) -> None:
    assert mention_at(line, column) == mention


@given(
    st.text(st.sampled_from(list("ab \\\"'.(é")), min_size=1, max_size=12).filter(lambda name: name.strip(" .") != "")
)
def test_completed_mention_attaches_that_file(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.mktemp("files")
    Path(folder, name).write_text("inside")
    mentioned = attach_mentions(f"look at {mention_of(name)} now", folder)
    assert (len(mentioned.blocks), mentioned.problems) == (1, ())


def test_file_is_found_by_letters_and_inserted_with_enter() -> None:
    async def test(run: Running) -> None:
        prompt, menu = run.app.widgets.prompt, run.app.widgets.menu
        await run.pilot.press(*"see @", *"mai")
        await run.pilot.pause()
        assert [choice.text for choice in menu.choices] == ["@src/main.py", "@src/deep/test_main.py"]
        assert menu.choices[0].matched_positions == (4, 5, 6)
        await run.pilot.press("enter")
        assert prompt.text == "see @src/main.py "
        assert not menu.is_open
        assert run.conversation.prompts == []

    drive(test, files=Finder(*FILES))


def test_long_path_of_wide_characters_shows_its_end() -> None:
    path = f"{'資料' * 12}/最後.md"  # 56 cells

    async def test(run: Running) -> None:
        await run.pilot.press("@", *"md")
        await run.pilot.pause()
        menu = run.app.widgets.menu
        row = menu.render().plain
        assert row.startswith("› …")
        assert row.endswith("/最後.md")
        assert menu.size.width - 1 <= cell_len(row) <= menu.size.width

    drive(test, files=Finder(path), size=(40, 24))


def test_completed_folder_can_be_continued_and_names_with_blanks_are_quoted() -> None:
    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        await run.pilot.press("@", *"my")
        await run.pilot.press("tab")
        assert prompt.text == '@"my dir/'
        await run.pilot.pause()
        assert [choice.text for choice in run.app.widgets.menu.choices] == ['@"my dir/a b.py"']
        await run.pilot.press("a", "tab")
        await run.pilot.pause()
        assert prompt.text == '@"my dir/a b.py" '

    drive(test, files=Finder(*FILES))


def test_colon_after_a_completed_file_replaces_the_blank_for_a_range_of_lines() -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("@", *"read", "tab", ":", "1", "-", "5")
        assert run.app.widgets.prompt.text == "@README.md:1-5"
        await run.pilot.press("ctrl+u", "@", *"read", "tab", "x", "backspace", "space", ":")
        assert run.app.widgets.prompt.text == "@README.md  :"

    drive(test, files=Finder(*FILES))


def test_mention_in_the_middle_is_completed_in_place() -> None:
    async def test(run: Running) -> None:
        await run.type("fix @read please")
        run.app.widgets.prompt.move_cursor((0, 9))
        await run.pilot.pause()
        await run.pilot.press("tab")
        assert run.app.widgets.prompt.text == "fix @README.md please"

    drive(test, files=Finder(*FILES))


def test_fully_typed_name_is_sent_with_one_enter() -> None:
    async def test(run: Running) -> None:
        await run.pilot.press(*"@README", "full_stop", *"md", "enter")
        await run.until_idle()
        assert run.conversation.prompts == ["@README.md"]

    drive(test, files=Finder(*FILES))


def test_escape_closes_the_menu_and_keeps_the_text() -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("@", "s", "escape")
        assert not run.app.widgets.menu.is_open
        assert run.app.widgets.prompt.text == "@s"

    drive(test, files=Finder(*FILES))


def test_files_that_are_found_later_join_the_open_menu() -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("@", *"late")
        await run.until(lambda: run.app.widgets.menu.is_open)
        assert run.app.widgets.menu.choices[0].text == "@late.py"
        assert finder.refreshes == 1

    finder = Finder(*FILES, more=("late.py", "later.py"))
    drive(test, files=finder)


def test_files_of_recent_calls_are_completed_first() -> None:
    read = call("read", '{"path": "src/deep/test_main.py"}')
    messages = (user("go"), assistant(Text(""), read))

    async def test(run: Running) -> None:
        await run.pilot.press("@")
        await run.pilot.pause()
        assert run.app.widgets.menu.choices[0].text == "@src/deep/test_main.py"

    assert recent_paths(messages) == ("src/deep/test_main.py",)
    drive(test, ScriptedConversation(messages=messages), files=Finder(*FILES))
