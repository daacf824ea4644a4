"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys

import pytest

from qcode.text.pattern import lazy_pattern
from tests.arch.sources import modules


def test_pattern_is_compiled_once_and_when_a_method_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_now = re.compile

    def watched(text: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(text)
        return compile_now(text, flags)

    monkeypatch.setattr(re, "compile", watched)
    word = lazy_pattern(r"(?P<first>\w)\w*", re.ASCII)
    assert (word.pattern, compiled) == (r"(?P<first>\w)\w*", [])
    assert [found["first"] for found in word.finditer("ab cd")] == ["a", "c"]
    assert [found["first"] for found in word.finditer("ef")] == ["e"]
    assert compiled == [r"(?P<first>\w)\w*"]
    assert word.fullmatch("é") is None
    assert lazy_pattern(rb"\d+").findall(b"1 22") == [b"1", b"22"]


def test_every_pattern_of_the_product_compiles() -> None:
    found = [
        (name, value)
        for name in modules()
        if name != "qcode.__main__"
        for value in vars(importlib.import_module(name)).values()
        if type(value).__name__ == "_LazyPattern"
    ]
    assert len(found) > 150
    for name, value in found:
        assert value.groups >= 0, name  # this compiles it


def test_start_compiles_few_patterns_of_the_product() -> None:
    """Each takes as long as to load a small module."""
    program = (
        "import sys, re._compiler as compiler\n"
        "texts, compile = [], compiler.compile\n"
        "def counted(pattern, flags=0):\n"
        "    frame = sys._getframe(1)\n"
        "    while frame.f_globals['__name__'] in ('re', 'qcode.text.pattern'): frame = frame.f_back\n"
        "    if frame.f_globals['__name__'].startswith('qcode.'): texts.append(pattern)\n"
        "    return compile(pattern, flags)\n"
        "compiler.compile = counted\n"
        "import qcode.cli.app, qcode.cli.pipe, qcode.agent.opening, qcode.providers.anthropic.client\n"
        "print(*texts, sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert len(done.stdout.split("\n")) < 10, done.stdout
