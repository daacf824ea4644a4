"""Who decides the output cap: flag, the model's file entry, the global one, and only then the environment."""

from __future__ import annotations

import pytest

from qcode.config.caps import CapOverride, output_override
from qcode.config.settings import Origin
from tests.config.writing import Folders

MODEL = "local/qwen"
BOTH = f'[output]\nmax_tokens = 2000\n[models."{MODEL}"]\noutput = {{ max_tokens = 1000 }}'
ENV = {"QCODE_MAX_OUTPUT_TOKENS": "3000", "QWEN_CODE_MAX_OUTPUT_TOKENS": "4000"}


def test_a_flag_beats_everything(folders: Folders) -> None:
    settings = folders.user(BOTH).load(ENV, {"output.max_tokens": 5})
    assert output_override(settings, MODEL) == CapOverride(5, Origin("flag", "--max-output-tokens"))


def test_the_models_own_cap_beats_the_global_one(folders: Folders) -> None:
    settings = folders.user(BOTH).load(ENV)
    assert output_override(settings, MODEL) == CapOverride(1000, Origin("file", f"{folders.user_file}:4"))
    assert output_override(settings, "other/m") == CapOverride(2000, Origin("file", f"{folders.user_file}:2"))


def test_a_project_may_narrow_the_global_cap_but_the_models_own_still_wins(folders: Folders) -> None:
    settings = folders.user(BOTH).in_project("[output]\nmax_tokens = 7").load()
    assert output_override(settings, MODEL) == CapOverride(1000, Origin("file", f"{folders.user_file}:4"))
    assert output_override(settings, "other/m") == CapOverride(7, Origin("file", f"{folders.project_file}:2", True))


def test_here_a_file_beats_the_environment(folders: Folders) -> None:
    assert output_override(folders.user("[output]\nmax_tokens = 9").load(ENV), MODEL) == CapOverride(
        9, Origin("file", f"{folders.user_file}:2")
    )


def test_our_variable_comes_before_the_one_of_others(folders: Folders) -> None:
    assert output_override(folders.load(ENV), MODEL) == CapOverride(3000, Origin("env", "QCODE_MAX_OUTPUT_TOKENS"))
    others = {"QWEN_CODE_MAX_OUTPUT_TOKENS": " 4000\n", "QCODE_MAX_OUTPUT_TOKENS": "  "}
    assert output_override(folders.load(others), MODEL) == CapOverride(
        4000, Origin("env", "QWEN_CODE_MAX_OUTPUT_TOKENS")
    )


def test_nobody_asked(folders: Folders) -> None:
    assert output_override(folders.load(), MODEL) is None


@pytest.mark.parametrize("text", ["8k", "-1", "0", "000", "+5", "1_000", "8e3", "8000.0", "0x10", "٨٠٠", "9" * 5000])
def test_a_bad_variable_is_ignored_with_one_warning(folders: Folders, text: str) -> None:
    settings = folders.load({"QCODE_MAX_OUTPUT_TOKENS": text})
    assert output_override(settings, MODEL) is None
    assert settings.warnings == ("QCODE_MAX_OUTPUT_TOKENS is not a positive whole number and is ignored",)


@pytest.mark.parametrize("text", ["", "  ", "\t\n"])
def test_an_empty_variable_is_ignored_in_silence(folders: Folders, text: str) -> None:
    settings = folders.load({"QCODE_MAX_OUTPUT_TOKENS": text})
    assert (output_override(settings, MODEL), settings.warnings) == (None, ())


def test_after_a_bad_variable_the_next_one_counts(folders: Folders) -> None:
    settings = folders.load(ENV | {"QCODE_MAX_OUTPUT_TOKENS": "many"})
    found = output_override(settings, MODEL)
    assert found is not None
    assert found.tokens == 4000
    assert len(settings.warnings) == 1


def test_other_output_settings_of_a_model_lie_over_the_global_ones(folders: Folders) -> None:
    text = f'[output]\npolicy = "continue"\n[models."{MODEL}".output]\nmax_continuations = 1\nescalate = false'
    settings = folders.user(text).load(flags={"output.max_continuations": 0})
    found = settings.output_for(MODEL)
    assert (found.policy, found.escalate, found.max_continuations) == ("continue", False, 0)
    assert settings.output_for("other/m").escalate is True
