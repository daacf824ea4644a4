"""The demo model's edits are real: applied to the file that was read, they give a better file."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.providers.demo.edits import DemoEdit, new_file, plan_edit, text_in_result

_WISH = "add a docstring to hello.py"


def _apply(text: str, edit: DemoEdit | None) -> str:
    assert edit is not None
    assert text.count(edit.old_text) == 1 or edit.replace_all
    return text.replace(edit.old_text, edit.new_text)


def _read(text: str) -> str:
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(text.split("\n"), 1))


def test_line_numbers_and_notes_are_removed_from_a_read_result() -> None:
    text = "a\n\tb\n\n12\tc"
    assert text_in_result(_read(text) + "\n(4 of 9 lines)") == text


def test_first_function_without_a_docstring_gets_one() -> None:
    text = 'def first():\n    """Said."""\n\n\nasync def second_one(\n    a,\n    b,\n):\n    return a\n'
    assert _apply(text, plan_edit(_WISH, "hello.py", text)) == text.replace(
        "    return a", '    """Second one."""\n    return a'
    )


def test_file_without_functions_gets_one_at_its_top() -> None:
    text = "#!/usr/bin/env python3\nprint('hello')\n"
    edited = _apply(text, plan_edit(_WISH, "src/hello.py", text))
    assert ast.get_docstring(ast.parse(edited)) == "What hello is for."
    assert edited.startswith("#!/usr/bin/env python3\n")


def test_old_text_grows_until_it_occurs_once() -> None:
    text = 'def a():\n    """Said."""\n    return 1\n\n\ndef b():\n    return 1\n'
    edit = plan_edit(_WISH, "hello.py", text)
    assert edit is not None
    assert edit.old_text == "def b():\n    return 1"
    assert ast.get_docstring(ast.parse(_apply(text, edit)).body[1]) == "B."  # type: ignore[arg-type]  # a function


@pytest.mark.parametrize("text", ['"""All."""\n', '"""All."""\n\n\ndef f(): return 1\n'])
def test_file_with_all_docstrings_is_unchanged(text: str) -> None:
    assert plan_edit(_WISH, "hello.py", text) is None


def test_class_whose_first_method_is_decorated_keeps_its_decorator() -> None:
    text = "class A:\n    @property\n    def x(self):\n        return 1\n"
    edited = _apply(text, plan_edit(_WISH, "a.py", text))
    assert edited == text.replace("    @property", '    """A."""\n    @property')


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("notes.md", "<!-- Edited by the qcode demo model. -->"),
        ("main.go", "// Edited by the qcode demo model."),
        ("run.sh", "# Edited by the qcode demo model."),
        ("broken.py", "# Edited by the qcode demo model."),
        ("notes.txt", "Edited by the qcode demo model."),
    ],
)
def test_other_files_get_a_comment_as_their_last_line(path: str, line: str) -> None:
    text = "same (\nother\nsame (\n"
    assert _apply(text, plan_edit(f"edit {path}", path, text)) == f"{text}{line}\n"


def test_explicit_replacement_is_made() -> None:
    prompt = "please replace `foo` with 'bar baz' in hello.py"
    assert plan_edit(prompt, "hello.py", "foo\n") == DemoEdit("foo", "bar baz", "replaced `foo` with `bar baz`")
    several = plan_edit(prompt, "hello.py", "foo foo\n")
    assert several is not None
    assert several.replace_all
    assert plan_edit(prompt, "hello.py", "nothing\n") is None


def test_new_python_file_is_a_program() -> None:
    text = new_file("hello.py")
    assert ast.get_docstring(ast.parse(text)) == "hello: written by the qcode demo model."
    edit = plan_edit(_WISH, "hello.py", text)
    assert edit is not None, "asked again, the demo has an edit to show"
    assert edit.summary == "added a docstring to `main`"


@given(st.text(alphabet="ab \n#()", max_size=60), st.sampled_from(["x.py", "x.md"]))
def test_edit_of_any_text_can_be_applied(text: str, path: str) -> None:
    edit = plan_edit(f"edit {path}", path, text)
    assert (edit is None) == (not text.strip())
    if edit:
        assert len(_apply(text, edit)) > len(text)
