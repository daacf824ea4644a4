"""The data in the package: equal to tiktoken's, read without a network, and optional."""

from __future__ import annotations

import hashlib
import json
import lzma
import shutil
import socket
import subprocess
import sys
import threading
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from qcode.providers import tokens
from qcode.providers.tokens import DATA, NAME, TokenCounter, read_vocabulary
from scripts import build_vocabulary as build

if TYPE_CHECKING:
    from tiktoken import Encoding

FILES = (f"{NAME}.json", f"{NAME}.tiktoken.xz", f"{NAME}.LICENSE")


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def ranks() -> bytes:
    return lzma.decompress((DATA / f"{NAME}.tiktoken.xz").read_bytes())


def wheel_with(path: Path, name: str, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as members:
        members.writestr(f"somewhere/tokenizers/{name}", content)
    return path


@dataclass(frozen=True)
class Definition:
    """The vocabulary as the installed tiktoken defines it, and the files that it would fetch for that."""

    address: str
    expected_hash: str
    pattern: str
    special_tokens: dict[str, int]

    @property
    def cache_name(self) -> str:
        """Return the name of the rank file in a cache of tiktoken and in the wheel."""
        return hashlib.sha1(self.address.encode()).hexdigest()


@pytest.fixture(scope="module")
def defined() -> Definition:
    from tiktoken_ext import openai_public  # type: ignore[import-untyped]  # the plug-in part of tiktoken has no types

    asked: list[tuple[str, str]] = []

    def given(address: str, expected_hash: str) -> dict[bytes, int]:
        asked.append((address, expected_hash))
        return {}

    with mock.patch.object(openai_public, "load_tiktoken_bpe", given):
        found = openai_public.o200k_base()
    return Definition(*asked[0], found["pat_str"], found["special_tokens"])


def test_packaged_vocabulary_is_the_one_the_installed_tiktoken_expects(defined: Definition) -> None:
    facts = json.loads((DATA / FILES[0]).read_text(encoding="utf-8"))
    assert hashlib.sha256(ranks()).hexdigest() == defined.expected_hash == facts["sha256"]
    assert facts["pattern"] == defined.pattern
    assert facts["special_tokens"] == defined.special_tokens


def test_source_date_and_license_are_beside_the_data() -> None:
    facts = json.loads((DATA / FILES[0]).read_text(encoding="utf-8"))
    assert facts["source"]
    assert len(facts["date"]) == len("2026-01-01")
    assert FILES[2] in facts["license"]
    assert "Permission is hereby granted" in (DATA / FILES[2]).read_text(encoding="utf-8")


def test_tiktoken_is_loaded_by_counting_and_not_by_import() -> None:
    program = (
        "import sys\n"
        "from qcode.providers.tokens import TokenCounter\n"
        "counter = TokenCounter()\n"
        "before = {name for name in ('tiktoken', 'lzma', 'unittest') if name in sys.modules}\n"
        "assert counter.load() and counter.count('hello world') == 2\n"
        "print(sorted(before), 'tiktoken' in sys.modules, 'requests' in sys.modules, 'unittest' in sys.modules)"
    )
    assert run(program) == "[] True False False"


def test_counting_opens_no_socket() -> None:
    program = (
        "import socket\n"
        "def refuse(*a, **k): raise AssertionError('a socket was used')\n"
        "socket.socket = socket.create_connection = socket.getaddrinfo = refuse\n"
        "from qcode.providers.tokens import TokenCounter\n"
        "counter = TokenCounter()\n"
        "print(counter.load(), counter.count('hello world'))"
    )
    assert run(program) == "True 2"


def test_tiktoken_cache_folder_is_neither_read_nor_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defined: Definition
) -> None:
    poisoned = tmp_path / defined.cache_name
    poisoned.write_bytes(b"not a rank file")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **more: pytest.fail("asked the network"))
    assert len(read_vocabulary(DATA).encode_ordinary("hello world")) == 2
    assert poisoned.read_bytes() == b"not a rank file"


@pytest.mark.parametrize("spoil", [*FILES[:2], "damage", "empty facts", "no JSON", "not xz"])
def test_missing_or_damaged_data_means_estimates(
    spoil: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in FILES:
        shutil.copy(DATA / name, tmp_path / name)
    packed, facts = tmp_path / FILES[1], tmp_path / FILES[0]
    match spoil:
        case "damage":
            packed.write_bytes(packed.read_bytes()[:500_000])
        case "not xz":
            packed.write_bytes(b"something else")
        case "empty facts":
            facts.write_text("{}")
        case "no JSON":
            facts.write_text("{")
        case name:
            (tmp_path / name).unlink()
    monkeypatch.setattr(tokens, "DATA", tmp_path)
    monkeypatch.setattr(tokens, "loaded", [])
    counter = TokenCounter()
    assert not counter.load()
    assert counter.count("x" * 400) is None
    assert "estimated" in caplog.text


def test_missing_tiktoken_means_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    monkeypatch.setattr(tokens, "loaded", [])
    counter = TokenCounter()
    assert not counter.load()
    assert counter.count("x" * 400) is None


def test_threads_share_one_load(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []

    def reading(folder: Path) -> Encoding:
        reads.append(folder)
        return read_vocabulary(folder)

    monkeypatch.setattr(tokens, "loaded", [])
    monkeypatch.setattr(tokens, "read_vocabulary", reading)
    counts: list[int | None] = []

    def count() -> None:
        counter = TokenCounter()
        counter.load()
        counts.append(counter.count("hello world"))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [2, 2, 2, 2]
    assert reads == [DATA]


@pytest.mark.broad
def test_script_builds_the_packaged_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defined: Definition) -> None:
    wheel = wheel_with(tmp_path / "some.whl", defined.cache_name, ranks())
    monkeypatch.setattr(build, "DATA", tmp_path)
    monkeypatch.setattr(build, "_PRESET", 1)
    facts = json.loads((DATA / FILES[0]).read_text(encoding="utf-8"))
    assert build.main([str(wheel), facts["source"], facts["date"]]) == 0
    assert (tmp_path / FILES[0]).read_bytes() == (DATA / FILES[0]).read_bytes()
    assert (tmp_path / FILES[2]).read_bytes() == (DATA / FILES[2]).read_bytes()
    assert lzma.decompress((tmp_path / FILES[1]).read_bytes()) == ranks()


def test_wheel_with_another_file_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defined: Definition, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "DATA", tmp_path / "data")
    (tmp_path / "data").mkdir()
    changed = wheel_with(tmp_path / "changed.whl", defined.cache_name, b"YQ== 0\n")
    without = wheel_with(tmp_path / "without.whl", "another", b"")
    assert build.main([str(changed), "a source", "2026-01-02"]) == 1
    assert "not the rank file" in capsys.readouterr().err
    assert build.main([str(without), "a source", "2026-01-02"]) == 1
    assert "no rank file" in capsys.readouterr().err
    assert build.main([str(tmp_path / "none.whl"), "a source", "2026-01-02"]) == 1
    assert build.main([]) == 2
    assert list((tmp_path / "data").iterdir()) == []
