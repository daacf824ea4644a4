"""Images in the prompt: pasted as paths, taken from the clipboard, shown as labels, sent as blocks."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from qcode.agent.context.clipboard import ClipboardContent
from qcode.agent.context.pictures import Picture, picture_at
from qcode.protocol.errors import InputError
from qcode.protocol.messages import Image
from qcode.tui.prompt.history import PromptHistory
from qcode.tui.prompt.labels import image_paths
from tests.agent.test_pictures import png
from tests.tui.harness import Running, drive
from tests.tui.scripted import Gate, ScriptedConversation, ended, says

SHOT = Picture(Image("image/png", "QQ=="), "shot.png", (1200, 800), "/tmp/shot.png")
LABEL = "[Image #1 shot.png 1200x800]"


def read(path: str) -> Picture:
    if path != "/tmp/shot.png":
        raise InputError("no")
    return SHOT


async def paste(run: Running, text: str) -> None:
    run.app.widgets.prompt.post_message(events.Paste(text))
    await run.pilot.pause()


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("/a/b.png", ("/a/b.png",)),
        ("'/a/b c.PNG' ", ("/a/b c.PNG",)),
        (r"/a/b\ c.jpeg", ("/a/b c.jpeg",)),
        ("file:///a/b%20c.gif", ("file:///a/b%20c.gif",)),
        ("/a/1.png /a/2.webp", ("/a/1.png", "/a/2.webp")),
        ("see /a/b.png", ()),
        ("/a/it's here.png", ("/a/it's here.png",)),
        ("/a/b.txt", ()),
        ("", ()),
        ("line\n/a/b.png", ()),
    ],
)
def test_image_paths_are_recognized_in_pastes(text: str, paths: tuple[str, ...]) -> None:
    assert image_paths(text) == paths


def test_pasted_path_becomes_an_image_that_is_sent() -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        await paste(run, "'/tmp/shot.png'")
        assert run.app.widgets.prompt.text == f"{LABEL} "
        await run.send("what is this")
        await run.until_idle()
        assert conversation.prompts == [f"{LABEL} what is this"]
        assert conversation.prompt_attachments == [(SHOT.image,)]
        assert LABEL in run.text

    drive(test, conversation, read_picture=read)


@pytest.mark.parametrize("line", ["!file ", "/model x "])
def test_image_of_a_line_that_takes_none_stays_in_the_prompt_and_the_reason_is_shown(line: str) -> None:
    async def test(run: Running) -> None:
        await run.type(line)
        await paste(run, "/tmp/shot.png")
        await run.send("")
        await run.pilot.pause()
        assert run.app.widgets.prompt.text == f"{line}{LABEL} "
        assert "cannot take images or asides. Delete the label, or send it" in " ".join(run.text.split())

    drive(test, read_picture=read)


def test_image_is_sent_with_the_prompt_of_a_command() -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        await run.type("/plan rebuild ")
        await paste(run, "/tmp/shot.png")
        await run.send("")
        await run.until_idle()
        assert conversation.attached_blocks == (SHOT.image,)
        assert conversation.prompts == [f"rebuild {LABEL}"]

    drive(test, conversation, read_picture=read)


def test_deleted_label_sends_no_image_and_undo_brings_it_back() -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        await paste(run, "/tmp/shot.png")
        await run.pilot.press("backspace", "backspace", *"no", "enter")
        await run.until_idle()
        await run.pilot.press("up", "up")
        await paste(run, "/tmp/shot.png")
        await run.pilot.press("backspace", "backspace", "ctrl+z", "enter")
        await run.until_idle()
        assert [len(images) for images in conversation.prompt_attachments] == [0, 1]

    drive(test, conversation, read_picture=read)


def test_path_of_another_file_stays_text() -> None:
    async def test(run: Running) -> None:
        await paste(run, "/tmp/other.png")
        assert run.app.widgets.prompt.text == "/tmp/other.png"

    drive(test, read_picture=read)


def test_model_without_images_is_warned_about_before_sending() -> None:
    conversation = ScriptedConversation()
    conversation.supports_images = False

    async def test(run: Running) -> None:
        await paste(run, "/tmp/shot.png")
        await paste(run, "/tmp/shot.png")
        assert run.text.count("demo/scripted does not accept images") == 1
        assert conversation.prompts == []

    drive(test, conversation, read_picture=read)


def test_ctrl_v_pastes_image_or_text_or_reports_reason(tmp_path: Path) -> None:
    clips = [
        ClipboardContent(png(3, 2)),
        ClipboardContent(text="some text"),
        ClipboardContent(problem="reading the clipboard needs xclip"),
    ]

    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        await run.pilot.press("ctrl+v")
        await run.until(lambda: prompt.text == "[Image #1 clipboard 3x2] ")
        await run.pilot.press("alt+v")
        await run.until(lambda: prompt.text.endswith("some text"))
        await run.pilot.press("ctrl+v")
        await run.until(lambda: "reading the clipboard needs xclip" in run.status)

    drive(test, read_clipboard=lambda: clips.pop(0), size=(120, 24))


def test_image_added_during_a_turn_is_sent_with_the_steering() -> None:
    gate = Gate()
    conversation = ScriptedConversation([gate, *says("one"), ended()], [*says("two"), ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await paste(run, "/tmp/shot.png")
        await run.pilot.press("enter")
        gate.open()
        await run.until(lambda: len(conversation.prompts) == 2)
        assert conversation.prompt_attachments[1] == (SHOT.image,)
        await run.until_idle()

    drive(test, conversation, read_picture=read)


def test_history_of_other_sessions_has_a_mention_instead_of_the_label(tmp_path: Path) -> None:
    async def test(run: Running) -> None:
        await paste(run, "/tmp/shot.png")
        await run.send("look")
        await run.until_idle()

    drive(test, read_picture=read, history_file=tmp_path / "history")
    assert PromptHistory(tmp_path / "history").entries == ("@/tmp/shot.png look",)


def test_image_is_read_from_a_path_or_an_address(tmp_path: Path) -> None:
    (tmp_path / "a b.png").write_bytes(png(4, 5))
    for path in ("a b.png", str(tmp_path / "a b.png"), f"file://{tmp_path}/a%20b.png"):
        found = picture_at(path, tmp_path)
        assert (found.name, found.size, found.image.media_type) == ("a b.png", (4, 5), "image/png")
    (tmp_path / "text.png").write_text("no image")
    for path in ("missing.png", "text.png", ".", "file://[x/a.png", "file:///a%00.png"):
        with pytest.raises(InputError):
            picture_at(path, tmp_path)
