"""No sequence of turns, undos, redos, resumes and user edits loses content that the user wrote."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from unittest.mock import patch

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from qcode.agent.checkpoints.blobs import digest_of
from qcode.agent.checkpoints.rewind import MoveImpossible
from tests.agent.checkpoints.runner import CheckpointRunner
from tests.fakes.examples import share

names = st.sampled_from(["a.txt", "b.txt", "dir/c.txt"])
contents = st.sampled_from([b"", b"one\n", b"two\r\n", b"\xff\x00three"])


class Bytes(RuleBasedStateMachine):
    """`owned` are the files whose current content is the user's."""

    def __init__(self) -> None:
        super().__init__()
        # This does not simulate a power failure, and waiting for the disk would take most of the time.
        self.waiting = patch("os.fsync", lambda _: None)
        self.waiting.start()
        self.base = Path(tempfile.mkdtemp())
        self.runner = CheckpointRunner(self.base)
        self.owned: dict[str, bytes] = {}
        self.left: dict[str, bytes] = {}
        """The content that a tool, a command or a rewind last wrote to each file."""

    @initialize(content=contents)
    def begin(self, content: bytes) -> None:
        self.edit("a.txt", content)

    @rule(name=names, content=contents)
    def edit(self, name: str, content: bytes) -> None:
        path = self.runner.path(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        # An edit that writes the bytes of qcode again changes nothing, so the content is not the user's.
        if self.left.get(name) == content:
            self.owned.pop(name, None)
        else:
            self.owned[name] = content

    @rule(name=names)
    def remove(self, name: str) -> None:
        self.runner.path(name).unlink(missing_ok=True)
        self.owned.pop(name, None)

    @rule(changes=st.dictionaries(names, contents, max_size=3))
    def turn(self, changes: dict[str, bytes]) -> None:
        before = self.runner.files
        self.runner.turn("go")
        for name, content in changes.items():
            self.runner.write(name, content)
            self.owned.pop(name, None)
            self.left[name] = content
            old = before.get(name)
            assert old is None or self.runner.blobs.get(digest_of(old)) == old, "a tool wrote over what was not kept"

    @rule(name=names, content=contents, is_gone=st.booleans())
    def command(self, name: str, content: bytes, is_gone: bool) -> None:
        path = self.runner.path(name)

        def change() -> None:
            path.parent.mkdir(exist_ok=True)
            if is_gone:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(content)

        self.runner.command("run", change)
        self.owned.pop(name, None)
        self._note_left()

    @rule(says_yes=st.booleans())
    def undo(self, says_yes: bool) -> None:
        self._step(self.runner.undo, says_yes)

    @rule(says_yes=st.booleans())
    def redo(self, says_yes: bool) -> None:
        self._step(self.runner.redo, says_yes)

    @rule(at=st.integers(0, 5), what=st.sampled_from(["both", "files", "conversation"]), says_yes=st.booleans())
    def rewind(self, at: int, what: str, says_yes: bool) -> None:
        owns = self.runner.rewinder.rewind_points()
        if owns:
            number = owns[at % len(owns)].number

            def do(overwrite: tuple[str, ...]) -> None:
                plan = self.runner.rewinder.plan_rewind(number, what)  # type: ignore[arg-type]  # one of the three
                self.runner.do(plan, overwrite)

            self._step(do, says_yes)

    def _step(self, do: object, says_yes: bool) -> None:
        assert callable(do)
        before = self.runner.files
        try:
            do(("a.txt", "b.txt", "dir/c.txt") if says_yes else ())
        except MoveImpossible:
            return
        after = self.runner.files
        for name, content in before.items():
            is_kept = after.get(name) == content or self.runner.blobs.get(digest_of(content)) == content
            assert is_kept, f"the content of {name} is nowhere any more"
        for name, content in list(self.owned.items()):
            if not says_yes:
                assert after.get(name) == content, f"{name} is the user's, and was changed without a question"
            if after.get(name) != content:
                self.owned.pop(name)
        self._note_left()

    def _note_left(self) -> None:
        self.left = {name: content for name, content in self.runner.files.items() if name not in self.owned}

    @rule()
    def resume(self) -> None:
        messages = self.runner.said
        if not list(self.runner.store.ids()):
            return
        self.runner = self.runner.again()
        assert self.runner.said == messages

    @rule()
    def there_and_back(self) -> None:
        """An undo followed by a redo changes nothing."""
        files, messages = self.runner.files, self.runner.said
        try:
            self.runner.undo(("a.txt", "b.txt", "dir/c.txt"))
        except MoveImpossible:
            return
        self.runner.redo()
        assert (self.runner.files, self.runner.said) == (files, messages)

    @invariant()
    def nothing_is_left_lying_around(self) -> None:
        assert set(self.runner.files) <= {"a.txt", "b.txt", "dir/c.txt"}

    def teardown(self) -> None:
        self.runner.session.close()
        self.waiting.stop()
        shutil.rmtree(self.base)


TestBytes = Bytes.TestCase
TestBytes.settings = settings(
    max_examples=share(40), stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
