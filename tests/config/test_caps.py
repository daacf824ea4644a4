"""The output cap comes from the flag, the model's entry, the global entry, or the environment, in this order."""

from __future__ import annotations

import pytest

from qcode.config.settings import Settings
from qcode.text.numbers import MAX_WHOLE_NUMBER
from tests.config.folders import Folders

MODEL = "local/qwen"
BOTH = f'[output]\nmax_tokens = 2000\n[models."{MODEL}"]\noutput = {{ max_tokens = 1000 }}'
ENV = {"QCODE_MAX_OUTPUT_TOKENS": "3000", "QWEN_CODE_MAX_OUTPUT_TOKENS": "4000"}


def cap(settings: Settings, model: str) -> int | None:
    return settings.output_for(model).max_tokens


def test_cap_flag_overrides_all_other_sources(folders: Folders) -> None:
    settings = folders.user(BOTH).load(ENV, {"output.max_tokens": 5})
    assert cap(settings, MODEL) == 5


def test_cap_of_a_model_overrides_the_global_cap(folders: Folders) -> None:
    settings = folders.user(BOTH).load(ENV)
    assert cap(settings, MODEL) == 1000
    assert cap(settings, "other/m") == 2000


def test_project_may_lower_the_global_cap_but_not_that_of_a_model(folders: Folders) -> None:
    settings = folders.user(BOTH).in_project("[output]\nmax_tokens = 7").load()
    assert cap(settings, MODEL) == 1000
    assert cap(settings, "other/m") == 7


def test_cap_in_a_file_overrides_the_environment(folders: Folders) -> None:
    assert cap(folders.user("[output]\nmax_tokens = 9").load(ENV), MODEL) == 9


def test_qcode_variable_comes_before_the_variable_of_qwen_code(folders: Folders) -> None:
    assert cap(folders.load(ENV), MODEL) == 3000
    others = {"QWEN_CODE_MAX_OUTPUT_TOKENS": " 4000\n", "QCODE_MAX_OUTPUT_TOKENS": "  "}
    assert cap(folders.load(others), MODEL) == 4000


def test_cap_is_unset_by_default(folders: Folders) -> None:
    assert cap(folders.load(), MODEL) is None


@pytest.mark.parametrize("text", ["8k", "-1", "0", "000", "+5", "1_000", "8e3", "8000.0", "0x10", "٨٠٠"])
def test_bad_variable_is_ignored_with_one_warning(folders: Folders, text: str) -> None:
    settings = folders.load({"QCODE_MAX_OUTPUT_TOKENS": text})
    assert cap(settings, MODEL) is None
    assert settings.warnings == ("QCODE_MAX_OUTPUT_TOKENS is not a positive whole number and is ignored",)


@pytest.mark.parametrize("text", ["10000000000000000000000", "9" * 5000])
def test_huge_cap_is_used_as_the_largest_one(folders: Folders, text: str) -> None:
    settings = folders.load({"QCODE_MAX_OUTPUT_TOKENS": text})
    assert (cap(settings, MODEL), settings.warnings) == (MAX_WHOLE_NUMBER, ())


@pytest.mark.parametrize("text", ["", "  ", "\t\n"])
def test_empty_variable_is_ignored_without_a_warning(folders: Folders, text: str) -> None:
    settings = folders.load({"QCODE_MAX_OUTPUT_TOKENS": text})
    assert (cap(settings, MODEL), settings.warnings) == (None, ())


def test_invalid_variable_falls_back_to_the_next_one(folders: Folders) -> None:
    settings = folders.load(ENV | {"QCODE_MAX_OUTPUT_TOKENS": "many"})
    found = cap(settings, MODEL)
    assert found == 4000
    assert len(settings.warnings) == 1


def test_output_settings_of_a_model_override_the_global_ones(folders: Folders) -> None:
    text = f'[output]\npolicy = "continue"\n[models."{MODEL}".output]\nmax_continuations = 1\nescalate = false'
    settings = folders.user(text).load(flags={"output.max_continuations": 0})
    found = settings.output_for(MODEL)
    assert (found.policy, found.escalate, found.max_continuations) == ("continue", False, 0)
    assert settings.output_for("other/m").escalate is True
