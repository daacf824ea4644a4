"""Finds `@path` imports in an instruction file, and says which files are never read for one. Pure text and names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

_IMPORT = re.compile(r"(?<![^\s(\[\"'])@([^\s`<>()\[\]\"']+)")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")
_CODE_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_SECRET_NAMES = (".env", ".env.*", ".envrc", "*.pem", "*.key", "*.p12", ".netrc", ".npmrc", ".pypirc")
_KEY_NAME = re.compile(r"id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?")
_PUBLIC_NAMES = (".env.example", ".env.sample", ".env.template")


def find_imports(text: str) -> tuple[str, ...]:
    """Return the paths that `text` imports, in order and each once. Code, in fences or in a line, imports nothing."""
    found: dict[str, None] = {}
    for line in _lines_outside_fences(text):
        for match in _IMPORT.finditer(_CODE_SPAN.sub("", line)):
            name = match[1].rstrip(".,;:!?")
            if name and name.strip("./"):
                found[name] = None
    return tuple(found)


def is_secret(path: Path) -> bool:
    """Say whether a file by its name holds keys or belongs to git's own folder, whatever an instruction says."""
    name = path.name.casefold()
    if ".git" in (part.casefold() for part in path.parts):
        return True
    if _KEY_NAME.fullmatch(name):
        return True
    return name not in _PUBLIC_NAMES and any(fnmatchcase(name, pattern) for pattern in _SECRET_NAMES)


def _lines_outside_fences(text: str) -> Iterator[str]:
    """Yield the lines that are in no fenced block (CommonMark 0.31, section 4.5), whatever list it stands in."""
    fence = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence:
            if match and match[1][0] == fence[0] and len(match[1]) >= len(fence) and not match[2].strip():
                fence = ""
        elif match and not (match[1][0] == "`" and "`" in match[2]):
            fence = match[1]
        else:
            yield line
