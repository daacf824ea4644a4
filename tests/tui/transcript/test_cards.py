"""Cards of tool calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from qcode.agent.call_titles import VERBS
from qcode.tools.output import LiveOutput, OutputCollector
from qcode.tools.registry import specs
from qcode.tui.transcript.cards import Card, CardState, CardUpdate
from qcode.tui.transcript.line import shown_text, source_text


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


def rows(card: Card, width: int = 60) -> list[str]:
    return shown_text(card.rows(width)).split("\n")


def running(clock: Clock) -> Card:
    card = Card("shell", "make test", clock)
    card.change(CardUpdate(state="running"))
    return card


@pytest.mark.parametrize(
    ("state", "row"),
    [
        ("writing", "○ write_file big.py  writing…"),
        ("waiting", "○ write_file big.py  waiting"),
        ("done", "✓ write_file big.py"),
        ("failed", "✗ write_file big.py  failed"),
        ("denied", "✗ write_file big.py  denied"),
        ("declined", "✗ write_file big.py  declined"),
        ("unanswered", "– write_file big.py  not answered"),
        ("rejected", "✗ write_file big.py  not run"),
        ("cancelled", "– write_file big.py  cancelled"),
        ("stopped", "– write_file big.py  stopped"),
    ],
)
def test_card_shows_its_state_in_words(state: CardState, row: str) -> None:
    card = Card("write_file", "big.py", Clock())
    card.change(CardUpdate(state=state))
    assert rows(card) == [row]


def test_running_card_counts_seconds_and_a_finished_one_shows_its_duration() -> None:
    clock = Clock()
    card = running(clock)
    clock.now += 62
    card.touch()
    assert rows(card) == ["● Run    make test  running 1 min 02 s"]
    card.change(CardUpdate(state="done", summary="12 passed"))
    clock.now += 100
    assert rows(card) == ["✓ Run    make test  12 passed · 1 min 02 s"]


def test_wide_status_that_does_not_fit_after_the_argument_is_below_it() -> None:
    card = running(Clock())
    card.change(CardUpdate(state="failed", summary="日本語のエラー"))
    assert rows(card, 40) == ["✗ Run    make test", "  failed · 日本語のエラー"]


def test_duration_in_a_wrapped_status_stays_in_one_row() -> None:
    clock = Clock()
    card = running(clock)
    clock.now += 62
    card.change(CardUpdate(state="failed", summary="the reason of the failure"))
    for width in range(24, 46):
        assert any(row.endswith("1 min 02 s") for row in rows(card, width)), width
    assert rows(card, 42) == ["✗ Run    make test", "  failed · the reason of the failure ·", "  1 min 02 s"]


def test_place_of_a_command_stays_after_the_summary_while_the_state_changes() -> None:
    card = running(Clock())
    card.change(CardUpdate(summary="in background", sandbox_note="in the sandbox"))
    assert rows(card)[-1].endswith("in background · in the sandbox")
    card.change(CardUpdate(state="done", summary="exit 0"))
    assert rows(card) == ["✓ Run    make test  exit 0 · in the sandbox"]


def test_output_is_collapsed_to_head_and_tail() -> None:
    card = running(Clock())
    card.change(CardUpdate(append="".join(f"line {number}\n" for number in range(130))))
    assert rows(card)[1:] == [
        *("  │ line 0", "  │ line 1", "  │ line 2", "  │ … 122 more lines"),
        *(f"  │ line {number}" for number in range(125, 130)),
    ]
    card.unfold(True)
    assert rows(card)[1:] == [f"  │ line {number}" for number in range(130)]


def test_hidden_lines_include_those_that_the_output_leaves_out(tmp_path: Path) -> None:
    lines = [f"line {number}\n" for number in range(1, 201)]
    collector = OutputCollector(400, lambda: tmp_path)
    collector.add("".join(lines).encode())
    collector.close()
    card = running(Clock())
    card.change(CardUpdate(output=collector.text_for_user()))
    assert rows(card)[4] == "  │ … 192 more lines"
    card.change(CardUpdate(output="".join(lines[:20]) + "[... 1,500 characters omitted ...]\n" + "end\n" * 5))
    assert rows(card)[4] == "  │ … 17 more lines and 1,500 characters"


def test_live_output_that_comes_too_fast_is_counted() -> None:
    card = running(Clock())
    live = LiveOutput(lambda text: card.change(CardUpdate(append=text)))
    for numbers in (range(10), range(10, 50_000), range(50_000, 100_000)):
        live.add("".join(f"line {number}\n" for number in numbers))
        live.flush()
    assert rows(card)[4:7] == ["  │ … 99,992 more lines", "  │ line 99995", "  │ line 99996"]


def test_output_slightly_longer_than_its_fold_is_shown_completely() -> None:
    card = running(Clock())
    card.change(CardUpdate(output="\n".join("0123456789")))
    assert [row[4:] for row in rows(card)[1:]] == list("0123456789")


def test_appended_chunks_join_and_the_final_output_replaces_them() -> None:
    card = running(Clock())
    card.change(CardUpdate(append="half a "))
    card.change(CardUpdate(append="line\nnext"))
    assert rows(card)[1:] == ["  │ half a line", "  │ next"]
    card.change(CardUpdate(output="all new"))
    assert rows(card)[1:] == ["  │ all new"]


def test_output_looks_as_in_a_terminal() -> None:
    card = running(Clock())
    card.change(CardUpdate(output="10%\r50%\r100%\r\n\x1b[31mred\x1b[0m [bold]\ta\n"))
    assert rows(card)[1:] == ["  │ 100%", "  │ red [bold]  a"]


def test_long_argument_wraps_and_is_cut_after_three_rows_until_expanded() -> None:
    card = Card("shell", "word " * 60, Clock())
    assert len(rows(card, 40)) == 4
    assert rows(card, 40)[2].endswith("…")
    card.unfold(True)
    assert rows(card, 40)[-1] == "  waiting"
    assert sum(row.count("word") for row in rows(card, 40)) == 60


def test_diff_is_shown_under_its_card() -> None:
    card = Card("edit", "x.py", Clock())
    card.change(
        CardUpdate(state="done", diff="--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n", summary="1 line")
    )
    assert rows(card) == ["✓ Edit   x.py  1 line", "  1 - a = 1", "  1 + a = 2"]


def test_long_diff_is_collapsed() -> None:
    card = Card("edit", "x.py", Clock())
    card.change(CardUpdate(diff="@@ -0,0 +1,100 @@\n" + "".join(f"+row {number}\n" for number in range(100))))
    assert "  … 70 more rows" in rows(card)
    assert len(rows(card)) == 32


@pytest.mark.parametrize("width", [80, 40, 24, 12])
def test_card_fits_at_every_width(width: int) -> None:
    card = running(Clock())
    card.change(CardUpdate(argument="日本語 " * 20, append="x" * 300, summary="a summary of some length"))
    card.change(CardUpdate(diff="@@ -1 +1 @@\n-" + "a" * 90 + "\n+" + "b" * 90 + "\n"))
    assert max(line.width for line in card.rows(width)) <= width


def test_copied_output_has_no_gutter() -> None:
    card = running(Clock())
    card.change(CardUpdate(output="first\n  second"))
    assert source_text(card.rows(60)[1:]) == "first\n  second"


@pytest.mark.parametrize(
    ("name", "verb"), [("shell", "Run"), ("multi_edit", "Edit"), ("ask_person", "Ask"), ("agent", "Task")]
)
def test_tools_have_display_names_in_a_column(name: str, verb: str) -> None:
    card = Card(name, "it", Clock())
    assert rows(card) == [f"○ {verb:<6} it  waiting"]
    assert rows(Card("github__search", "it", Clock())) == ["○ github__search it  waiting"]


def test_every_tool_has_a_display_name() -> None:
    assert {spec.name for spec in specs()} - set(VERBS) == set()


def test_read_call_is_one_row_and_expands_to_its_output() -> None:
    card = Card("grep", "a long pattern " * 8, Clock())
    card.change(CardUpdate(state="done", output="a.py:1\nb.py:2", summary="2 matches in 2 files"))
    assert rows(card) == ["✓ Search a long pattern a long patter…  2 matches in 2 files"]
    assert len(rows(card, 40)) == 1
    card.unfold(True)
    assert rows(card)[-2:] == ["  │ a.py:1", "  │ b.py:2"]
    failed = Card("read", "x.py", Clock())
    failed.change(CardUpdate(state="failed", summary="x.py does not exist"))
    assert rows(failed) == ["✗ Read   x.py  failed · x.py does not exist"]


def test_card_without_an_argument_has_no_extra_blank_before_its_status() -> None:
    card = Card("todo", "", Clock())
    card.change(CardUpdate(state="done", summary="3 of 3 done"))
    assert rows(card) == ["✓ Todo   3 of 3 done"]
    card.change(CardUpdate(argument="find the tests"))
    assert rows(card) == ["✓ Todo   find the tests  3 of 3 done"]


def test_failed_read_call_wraps_if_its_reason_does_not_fit_one_row() -> None:
    card = Card("read", "src/a.py", Clock())
    card.change(CardUpdate(state="failed", summary="not found"))
    assert rows(card) == ["✗ Read   src/a.py  failed · not found"]
    card.change(CardUpdate(summary="this file does not exist, and the nearest one is src/b.py"))
    assert rows(card) == [
        "✗ Read   src/a.py",
        "  failed · this file does not exist, and the nearest one is",
        "  src/b.py",
    ]


@pytest.mark.parametrize("name", ["todo", "read", "task"])
def test_call_that_did_not_run_shows_its_reason_folded_and_unfolded(name: str) -> None:
    card = Card(name, "", Clock())
    card.change(CardUpdate(state="rejected", output="missing `items`"))
    assert rows(card)[1:] == ["  │ missing `items`"]
    card.unfold(True)
    assert rows(card)[1:] == ["  │ missing `items`"]


@pytest.mark.parametrize("is_unfolded", [False, True])
@pytest.mark.parametrize("state", ["done", "failed"])
def test_output_wraps_between_words(state: CardState, is_unfolded: bool) -> None:
    card = running(Clock())
    text = "There is no tool of this name. The tools are: agent, diagnostics, edit, fetch"
    card.change(CardUpdate(output=text, state=state))
    card.is_unfolded = is_unfolded
    first, second = rows(card)[1:]
    assert (first, second) == (
        "  │ There is no tool of this name. The tools are: agent,",
        "  │ diagnostics, edit, fetch",
    )
    assert source_text(card.rows(60)[1:]) == text


def test_output_colors_continue_across_rows_and_other_sequences_are_removed() -> None:
    card = running(Clock())
    card.change(CardUpdate(append="\x1b[1;31mFAILED\x1b[0m a\x1b]0;title\x07\x1b[2J\n\x1b[38;5;208mstill\n"))
    card.change(CardUpdate(append="orange\x1b[m plain\x1b[8mseen"))
    spans = [line.spans[1:] for line in card.rows(60)[1:]]
    assert [[(text, style_of.slots[1:]) for text, style_of in row] for row in spans] == [
        [("FAILED", ("sgr-1", "sgr-31")), (" a", ())],
        [("still", ("sgr-38;5;208",))],
        [("orange", ("sgr-38;5;208",)), (" plain", ()), ("seen", ())],
    ]
    assert source_text(card.rows(60)[1:]) == "FAILED a\nstill\norange plainseen"
    assert "FAILED a" in card.source()


def test_narrow_card_of_an_edit_keeps_the_name_of_the_file() -> None:
    path = "packages/frontend/components/checkout/very/deep/folder/structure/cart_total.py"
    card = Card("write", path, Clock())
    card.change(CardUpdate(state="declined"))
    assert rows(card, 36) == ["✗ Write", "  …/folder/structure/cart_total.py", "  declined"]
    assert path in "".join(row.strip() for row in rows(card, 60))


def test_narrow_card_keeps_the_name_of_the_file() -> None:
    card = Card("read", "src/shop/checkout/api/cart.py", Clock())
    card.change(CardUpdate(state="done", summary="120 lines"))
    assert rows(card, 40) == ["✓ Read   …/api/cart.py  120 lines"]


def test_long_status_leaves_half_of_a_narrow_row_to_the_argument() -> None:
    card = Card("read", "src/cart.py", Clock())
    card.change(CardUpdate(state="done", summary="call found in reply text · 120 lines"))
    assert rows(card, 36) == ["✓ Read   src/cart.py  call found in…"]
    assert rows(card, 16) == ["✓ Read   …art.py"]


def test_redrawn_line_shows_its_last_state_in_its_colors() -> None:
    card = running(Clock())
    card.change(CardUpdate(append="\x1b[31m" + "fetching a.whl" + "\x1b[0m\r\x1b[32mfetched "))
    (row,) = card.rows(60)[1:]
    assert [(text, style.slots[1:]) for text, style in row.spans[1:]] == [
        ("fetched ", ("sgr-32",)), (" a.whl", ("sgr-31",))
    ]  # fmt: skip
    card.change(CardUpdate(append="\r\x1b[0m\n"))
    assert rows(card)[1:] == ["  │ fetched  a.whl"]
    assert card.source().endswith("fetched  a.whl\n")


def test_long_progress_bar_stays_in_one_row() -> None:
    card = running(Clock())
    for number in range(3_000):
        card.change(CardUpdate(append=f"\r{number:>4} of 3000 files"))
    assert rows(card)[1:] == ["  │ 2999 of 3000 files"]


@pytest.mark.parametrize(
    ("sequence", "slots"),
    [
        ("38:2::255:100:31", ("sgr-38;2;255;100;31",)),
        ("38:2:255:100:31", ("sgr-38;2;255;100;31",)),
        ("48:5:9;1", ("sgr-1", "sgr-48;5;9")),
        ("4:3", ("sgr-4",)),
        ("4;31;4:0", ("sgr-31",)),
        ("58;5;9", ()),
        ("58:2::255:0:0;32", ("sgr-32",)),
        ("38;5", ()),
    ],
)
def test_color_with_details_after_colons_is_read_as_one_parameter(sequence: str, slots: tuple[str, ...]) -> None:
    card = running(Clock())
    card.change(CardUpdate(append=f"\x1b[{sequence}mtext"))
    ((_, style),) = card.rows(60)[1].spans[1:]
    assert style.slots[1:] == slots


def test_text_in_its_background_color_stays_legible() -> None:
    card = running(Clock())
    card.change(CardUpdate(append="\x1b[31;41mred\x1b[38;2;1;2;3;48;2;1;2;3mdark"))
    slots = [style_of.slots for _, style_of in card.rows(60)[1].spans[1:]]
    assert slots == [("output", "sgr-31"), ("output", "sgr-38;2;1;2;3")]


@pytest.mark.broad
def test_output_full_of_sequences_takes_linear_time() -> None:
    card = running(Clock())
    card.change(CardUpdate(append="\x1b[31mx\x1b[m" * 200_000))
    assert len(card.rows(60)) == 3


def test_live_output_keeps_its_beginning_and_end_and_counts_the_lines_between() -> None:
    card = running(Clock())
    card.unfold(True)
    for start in range(0, 30_000, 300):
        card.change(CardUpdate(append="".join(f"line {number}\n" for number in range(start, start + 300))))
        shown = rows(card)[1:]
        assert len(shown) <= 2_001
        assert shown[0] == "  │ line 0"
        assert shown[-1] == f"  │ line {start + 299}"
    at = next(index for index, row in enumerate(shown) if "omitted" in row)
    before, after = int(shown[at - 1].split()[-1]), int(shown[at + 1].split()[-1])
    assert f"[... {after - before - 1:,} lines, " in shown[at]
    card.unfold(False)
    assert rows(card)[4] == "  │ … 29,992 more lines"
    card.change(CardUpdate(output="all\nof it"))
    assert rows(card)[1:] == ["  │ all", "  │ of it"]


def test_colors_of_live_output_stay_with_their_lines_when_the_middle_is_omitted() -> None:
    card = running(Clock())
    card.unfold(True)
    card.change(CardUpdate(append="plain\n" * 1_990 + "\x1b[31mred from here\n" + "still red\n" * 100))
    red = [line.text for line in card.lay_out(60) if any("sgr-31" in style.slots for _, style in line.spans)]
    assert red == ["  │ red from here", *["  │ still red"] * 100]


def test_live_line_without_end_is_bounded() -> None:
    card = running(Clock())
    for number in range(100):
        card.change(CardUpdate(append="".join(f"\r\x1b[32m{number}.{step} %" for step in range(300))))
    card.unfold(True)
    assert rows(card)[1:] == ["  │ 99.299 %"]
    assert len(card.source()) < 40_000
    for _ in range(10):
        card.change(CardUpdate(append="." * 15_000))
    assert max(map(len, card.source().split("\n"))) < 40_000
