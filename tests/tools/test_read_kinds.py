"""Images, PDFs and notebooks: the content that the model gets, and edits of a cell."""

from __future__ import annotations

import base64
import builtins
import io
import json
import random
import re
from typing import Any

import pytest
from PIL import Image as Pillow
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from qcode.tools.files import notebooks, pictures, read
from tests.tools.conftest import ToolRunner


def image(size: tuple[int, int], form: str = "PNG", mode: str = "RGB", *, is_noisy: bool = False) -> bytes:
    made = Pillow.new(mode, size, "red")
    if is_noisy:
        made = Pillow.frombytes("RGB", size, random.Random(1).randbytes(size[0] * size[1] * 3))
    target = io.BytesIO()
    made.save(target, form)
    return target.getvalue()


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
def test_image_is_returned_unchanged_under_any_name(runner: ToolRunner, form: str) -> None:
    data = image((30, 20), form)
    runner.add("picture.txt", data)
    outcome = runner.run("read", path="picture.txt")
    (shown,) = outcome.images
    assert shown.media_type == f"image/{form.lower()}"
    assert base64.b64decode(shown.data) == data
    assert outcome.content == f"[picture.txt: image/{form.lower()}, 30 x 20, {len(data):,} bytes]"


@pytest.mark.parametrize(
    ("made", "mode", "is_noisy", "media_type", "size"),
    [
        ((4_000, 1_000), "RGB", False, "image/jpeg", (1_568, 392)),
        ((1_000, 3_000), "RGBA", False, "image/png", (522, 1_568)),
        ((1_200, 1_100), "RGB", True, "image/jpeg", (1_200, 1_100)),
    ],
    ids=["wide", "tall and transparent", "heavy"],
)
def test_large_image_is_scaled_down(
    runner: ToolRunner, made: tuple[int, int], mode: str, is_noisy: bool, media_type: str, size: tuple[int, int]
) -> None:
    runner.add("a.png", image(made, mode=mode, is_noisy=is_noisy))
    (output,) = runner.run("read", path="a.png").images
    sent = base64.b64decode(output.data)
    assert output.media_type == media_type
    assert len(sent) <= pictures.MAX_BYTES
    width, height = Pillow.open(io.BytesIO(sent)).size
    assert abs(width - size[0]) <= 1
    assert abs(height - size[1]) <= 1


def test_damaged_or_oversized_image_is_refused(runner: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner.add("broken.png", image((30, 20))[:60])
    assert "broken image" in runner.run("read", path="broken.png").content
    monkeypatch.setattr(pictures, "MAX_PIXELS", 100)
    runner.add("a.png", image((30, 20)))
    assert "is too large to show: 30 x 20 pixels" in runner.run("read", path="a.png").content


def test_image_is_sent_unchanged_up_to_a_size_without_pillow(
    runner: ToolRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, load = image((30, 20)), builtins.__import__

    def without(name: str, *arguments: Any) -> Any:
        if name.startswith("PIL"):
            raise ImportError(name)
        return load(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    runner.add("a.png", data)
    assert base64.b64decode(runner.run("read", path="a.png").images[0].data) == data
    monkeypatch.setattr(pictures, "MAX_BYTES", 10)
    assert "pip install '.[images]'" in runner.run("read", path="a.png").content


def document(*pages: str, password: str = "") -> bytes:
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for text in pages:
        page = writer.add_blank_page(300, 300)
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
        content = DecodedStreamObject()
        content.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = content
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def test_pdf_text_is_read_by_pages(runner: ToolRunner) -> None:
    runner.add("a.pdf", document(*(f"This is page {number}" for number in range(1, 25))))
    content = runner.run("read", path="a.pdf").content
    assert content.startswith("[page 1]\nThis is page 1\n[page 2]\n")
    assert content.endswith('[pages 1-20 of 24; continue with pages "21-24"]')
    outcome = runner.run("read", path="a.pdf", pages="3-4")
    assert outcome.content.count("This is page") == 2
    assert "[pages 3-4 of 24" in outcome.content
    assert outcome.summary == "2 of 24 pages"
    assert runner.run("read", path="a.pdf", pages="24").content == "[page 24]\nThis is page 24\n[pages 24-24 of 24]"
    assert "page 25 is beyond its end" in runner.run("read", path="a.pdf", pages="25-30").content


@pytest.mark.parametrize("pages", ["0", "5-3", "a", "1,2", "-3"])
def test_invalid_page_ranges_are_refused(runner: ToolRunner, pages: str) -> None:
    runner.add("a.pdf", document("x"))
    assert "must be a page or a range" in runner.run("read", path="a.pdf", pages=pages).content


def test_page_beyond_the_limit_ends_with_the_number_of_its_other_characters(
    runner: ToolRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "MAX_PDF_CHARS", 20)
    runner.add("a.pdf", document("This is page 1", "This is page 2", "This is page 3"))
    content = runner.run("read", path="a.pdf").content
    assert "[page 2]\nThis i… [8 more characters on this page]\n[pages 1-2 of 3; continue" in content


def test_pdf_without_text_says_why(runner: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner.add("locked.pdf", document("secret", password="hush"))
    assert "protected by a password" in runner.run("read", path="locked.pdf").content
    runner.add("broken.pdf", document("x")[:40])
    assert "cannot read the PDF broken.pdf: " in runner.run("read", path="broken.pdf").content
    runner.add("blank.pdf", document(""))
    assert "the pages may be images" in runner.run("read", path="blank.pdf").content
    monkeypatch.setattr(read, "MAX_EXTRACTION_S", 0.001)
    assert "it took longer than 0.001 s" in runner.run("read", path="blank.pdf").content


def notebook(minor: int = 5, indent: int | None = 1) -> str:
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "id": "intro", "metadata": {}, "source": ["# Títle\n", "text"]},
        {
            "cell_type": "code",
            "execution_count": 3,
            "id": "calc",
            "metadata": {"tags": ["x"]},
            "outputs": [
                {"name": "stdout", "output_type": "stream", "text": ["4\n"]},
                {
                    "data": {"image/png": base64.b64encode(image((2, 2))).decode(), "text/plain": "<Figure>"},
                    "output_type": "display_data",
                },
                {
                    "ename": "E",
                    "evalue": "v",
                    "output_type": "error",
                    "traceback": ["\x1b[31mE\x1b[0m: v"],
                },
            ],
            "source": ["x = 2\n", "print(x + 2)"],
        },
        {"cell_type": "code", "execution_count": None, "id": "end", "metadata": {}, "outputs": [], "source": "y = 1"},
    ]
    whole = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": minor}
    return json.dumps(whole, indent=indent, ensure_ascii=False) + "\n"


def test_notebook_is_shown_as_cells_with_their_output(runner: ToolRunner) -> None:
    runner.add("a.ipynb", notebook())
    outcome = runner.run("read", path="a.ipynb")
    assert outcome.content == (
        "[cell 1: markdown, id intro]\n# Títle\ntext\n[cell 2: code, id calc]\nx = 2\nprint(x + 2)\n[stdout]\n4\n"
        "[output: image/png, image 1 below]\n[error]\nE: v\n[cell 3: code, id end]\ny = 1"
    )
    assert [shown.media_type for shown in outcome.images] == ["image/png"]
    part = runner.run("read", path="a.ipynb", offset=2, limit=1).content
    assert part.endswith("[cells 2-2 of 3; continue with offset 3]")
    assert "beyond its end" in runner.run("read", path="a.ipynb", offset=4).content


def test_long_output_of_a_cell_is_shortened(runner: ToolRunner) -> None:
    whole = json.loads(notebook())
    whole["cells"][1]["outputs"][0]["text"] = "z" * 50_000
    runner.add("a.ipynb", json.dumps(whole))
    content = runner.run("read", path="a.ipynb").content
    assert "46,060 characters omitted" in content
    assert len(content) < 6_000


def test_huge_cell_ends_with_the_number_of_its_other_characters(
    runner: ToolRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebooks, "MAX_CHARS", 100)
    whole = json.loads(notebook())
    whole["cells"][0]["source"] = "y" * 1_000
    runner.add("a.ipynb", json.dumps(whole))
    content = runner.run("read", path="a.ipynb").content
    found = re.search(r"y… \[(\d+) more characters in this cell\]\n\[cells 1-1 of 3", content)
    assert found is not None
    assert content.count("y") + int(found[1]) == 1_000


def test_images_of_a_cell_that_does_not_fit_are_not_sent(runner: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebooks, "MAX_CHARS", 100)
    runner.add("a.ipynb", notebook())
    first = runner.run("read", path="a.ipynb")
    assert first.content.endswith("[cells 1-1 of 3; continue with offset 2]")
    assert first.images == ()
    second = runner.run("read", path="a.ipynb", offset=2, limit=1)
    assert "image 1 below" in second.content
    assert len(second.images) == 1


def test_invalid_notebook_is_shown_as_text(runner: ToolRunner) -> None:
    runner.add("a.ipynb", '{"cells": 5}\n')
    assert "shown as text" in runner.run("read", path="a.ipynb").content
    assert "is not a notebook" in runner.run("notebook_edit", path="a.ipynb", cell="1", source="x").content


@pytest.mark.parametrize("indent", [1, 2, None])
def test_edit_changes_only_the_named_cell(runner: ToolRunner, indent: int | None) -> None:
    before = notebook(indent=indent)
    target = runner.have_read("a.ipynb", before)
    outcome = runner.run("notebook_edit", path="a.ipynb", cell="calc", source="x = 3\nprint(x)")
    assert outcome.content == "Replaced cell 2 in a.ipynb."
    after, old = json.loads(target.read_text()), json.loads(before)
    assert after["cells"][1]["source"] == ["x = 3\n", "print(x)"]
    assert (after["cells"][1]["outputs"], after["cells"][1]["execution_count"]) == ([], None)
    assert after["cells"][1]["metadata"] == {"tags": ["x"]}
    assert [after["cells"][0], after["cells"][2]] == [old["cells"][0], old["cells"][2]]
    # Spelled in the style of the file: undoing the change gives the very text that was there.
    after["cells"][1] = old["cells"][1]
    assert json.dumps(after, indent=indent, ensure_ascii=False) + "\n" == before
    runner.run("notebook_edit", path="a.ipynb", cell="3", source="y = 2")
    assert json.loads(target.read_text())["cells"][2]["source"] == "y = 2"


def test_cells_are_inserted_and_deleted(runner: ToolRunner) -> None:
    target = runner.have_read("a.ipynb", notebook())
    inserted = runner.run("notebook_edit", path="a.ipynb", cell="0", mode="insert", source="a", cell_type="markdown")
    assert inserted.content == "Inserted cell 1 in a.ipynb."
    assert not runner.run("notebook_edit", path="a.ipynb", cell="calc", mode="insert", source="b\nc").is_error
    cells = json.loads(target.read_text())["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "markdown", "code", "code", "code"]
    assert (cells[0]["source"], cells[3]["source"], cells[3]["outputs"]) == (["a"], ["b\n", "c"], [])
    assert cells[3]["id"] not in ("intro", "calc", "end")
    runner.run("notebook_edit", path="a.ipynb", cell="1", mode="delete")
    assert json.loads(target.read_text())["cells"] == cells[1:]
    assert (
        'no cell "nowhere"; read it for the ids of its 4 cells'
        in runner.run("notebook_edit", path="a.ipynb", cell="nowhere", source="x").content
    )
    assert "source is missing" in runner.run("notebook_edit", path="a.ipynb", cell="1").content


def test_cell_that_becomes_code_loses_its_attachments(runner: ToolRunner) -> None:
    """A code cell with attachments is invalid: Jupyter reports the notebook as damaged."""
    image = {"a.png": {"image/png": "aGk="}}
    cell = {"cell_type": "markdown", "metadata": {}, "attachments": image, "source": "![](attachment:a.png)"}
    target = runner.have_read("a.ipynb", json.dumps({"nbformat": 4, "nbformat_minor": 4, "cells": [cell, cell]}))
    runner.run("notebook_edit", path="a.ipynb", cell="1", source="x", cell_type="code")
    runner.run("notebook_edit", path="a.ipynb", cell="2", source="![](attachment:a.png) y")
    code, markdown = json.loads(target.read_text())["cells"]
    assert set(code) == {"cell_type", "metadata", "source", "outputs", "execution_count"}
    assert markdown["attachments"] == image


def test_cells_of_old_notebooks_get_no_ids(runner: ToolRunner) -> None:
    target = runner.have_read("a.ipynb", notebook(minor=4))
    runner.run("notebook_edit", path="a.ipynb", cell="0", mode="insert", source="a")
    assert "id" not in json.loads(target.read_text())["cells"][0]


def test_unread_notebook_is_not_changed(runner: ToolRunner) -> None:
    runner.add("a.ipynb", notebook())
    assert "read it first" in runner.run("notebook_edit", path="a.ipynb", cell="1", source="x").content


@pytest.mark.parametrize("number", ["\u00b2", "9" * 5_000, "-1", "0", "\u0663"])
def test_unknown_cell_number_is_an_error(runner: ToolRunner, number: str) -> None:
    path = runner.have_read("a.ipynb", json.dumps({"nbformat": 4, "cells": [{"cell_type": "raw", "source": "x"}]}))
    before = path.read_bytes()
    outcome = runner.run("notebook_edit", path="a.ipynb", cell=number, source="y")
    assert outcome.is_error
    assert "has no cell" in outcome.content
    assert path.read_bytes() == before


def test_notebook_with_a_lone_surrogate_can_be_changed(runner: ToolRunner) -> None:
    cells = '[{"cell_type": "raw", "source": "\u00e9"}, {"cell_type": "raw", "source": "\\ud800"}]'
    path = runner.have_read("a.ipynb", f'{{"nbformat":4,  "cells":{cells}}}')
    assert not runner.run("notebook_edit", path="a.ipynb", cell="1", source="\u00fc").is_error
    changed = json.loads(path.read_text("utf-8"))
    assert [cell["source"] for cell in changed["cells"]] == ["\u00fc", "\ud800"]
