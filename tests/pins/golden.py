"""Golden files: comparing, recording, and the compact form of recorded requests.

A recorded conversation is a list of requests, each of which repeats most of the one before it. On disk an unchanged
part is `{"same": ...}`, and a long text or a tool definition is a reference into `shared.json`. Both are expanded
before they are compared, so a difference is shown in full.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
MAX_DIFF_LINES = 120
MAX_LINE_CHARS = 240
MIN_SHARED_CHARS = 400
MIN_SAME_CHARS = 60
_HOW_TO_ACCEPT = "If the change is wanted: pytest tests/pins --accept-pins, and commit the new data."


class Golden:
    """Compares with the recorded data, or records."""

    def __init__(self, *, is_accepting: bool, data: Path = DATA) -> None:
        self._is_accepting = is_accepting
        self._data = data

    def check_text(self, name: str, found: str) -> None:
        """Compare `found` with the file `name`."""
        path = self._data / name
        if self._is_accepting:
            _write(path, found)
        _compare(name, path.read_text("utf-8") if path.exists() else None, found)

    def check_requests(self, name: str, found: list[dict[str, Any]]) -> None:
        """Compare recorded requests with the file `name`, whose long parts are in `shared.json`."""
        path, shared_path = self._data / name, self._data / "shared.json"
        shared = _shared(shared_path)
        if self._is_accepting:
            folded = fold(found, shared)
            _write(path, pretty(folded))
            _write(shared_path, pretty(_referenced(shared, self._data)))
            _shared.cache_clear()
        recorded = _load(path, None)
        expected = None if recorded is None else pretty(unfold(from_lines(recorded), shared))
        _compare(name, expected, pretty(found))


def pretty(value: Any) -> str:
    """Return JSON for people: a long text of several lines is an object with its lines."""
    return json.dumps(_to_lines(value), ensure_ascii=False, indent=1) + "\n"


def _to_lines(value: Any) -> Any:
    if isinstance(value, str) and "\n" in value and len(value) > MIN_SAME_CHARS:
        return {"lines": value.splitlines(keepends=True)}
    if isinstance(value, list):
        return [_to_lines(item) for item in value]
    if isinstance(value, dict):
        return {key: _to_lines(each) for key, each in value.items()}
    return value


def from_lines(value: Any) -> Any:
    """Undo `pretty` on a parsed value."""
    if isinstance(value, dict):
        if list(value) == ["lines"] and isinstance(value["lines"], list):
            return "".join(value["lines"])
        return {key: from_lines(each) for key, each in value.items()}
    return [from_lines(item) for item in value] if isinstance(value, list) else value


def fold(requests: list[dict[str, Any]], shared: dict[str, Any]) -> list[Any]:
    """Return the compact form; long parts are added to `shared`."""
    previous: Any = None
    folded = []
    for request in requests:
        folded.append(_fold_same(request, previous, lambda value: _fold_shared(value, shared)))
        previous = request
    return folded


def unfold(folded: list[Any], shared: dict[str, Any]) -> list[Any]:
    """Return the unfolded value."""
    previous: Any = None
    requests = []
    for request in folded:
        previous = _unfold(request, previous, shared)
        requests.append(previous)
    return requests


def _fold_same(value: Any, previous: Any, finish: Callable[[Any], Any]) -> Any:
    """Replace parts that equal the same part of the previous request; elements of lists count from the start."""
    if value == previous and _size(value) >= MIN_SAME_CHARS and json.dumps(value) == json.dumps(previous):
        return {"same": True}
    if _is_tool(value) or (isinstance(value, list) and value and all(_is_tool(item) for item in value)):
        return finish(value)
    if isinstance(value, dict) and isinstance(previous, dict):
        return {key: _fold_same(each, previous.get(key), finish) for key, each in value.items()}
    if isinstance(value, list) and isinstance(previous, list):
        equal = [json.dumps(left) == json.dumps(right) for left, right in zip(value, previous, strict=False)]
        count = equal.index(False) if False in equal else len(equal)
        rest = [
            _fold_same(each, previous[at] if at < len(previous) else None, finish)
            for at, each in enumerate(value[count:], start=count)
        ]
        return [{"same": count}, *rest] if count else rest
    return finish(value)


def _is_tool(value: Any) -> bool:
    names = ("description", "toolSpec")
    return (
        isinstance(value, dict)
        and (any(name in value for name in names) or value.get("type") == "function")
        and "id" not in value
    )


def _fold_shared(value: Any, shared: dict[str, Any]) -> Any:
    if (isinstance(value, str) or _is_tool(value)) and _size(value) >= MIN_SHARED_CHARS:
        name = f"{_kind_of(value)} {_hash(value)}"
        shared[name] = value
        return {"shared": name}
    if isinstance(value, list):
        folded = [_fold_shared(item, shared) for item in value]
        if _size(folded) < MIN_SHARED_CHARS or any(list(item) != ["shared"] for item in folded):
            return folded
        name = f"list {_hash(value)}"
        shared[name] = folded
        return {"shared": name}
    if isinstance(value, dict):
        return {key: _fold_shared(each, shared) for key, each in value.items()}
    return value


def _referenced(shared: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the entries that the files below `folder` refer to, sorted by name."""
    left = [json.loads(path.read_text("utf-8")) for path in folder.rglob("*.json") if path.name != "shared.json"]
    names: set[str] = set()
    while left:
        value = left.pop()
        if isinstance(value, dict) and list(value) == ["shared"] and value["shared"] not in names:
            names.add(value["shared"])
            left.append(shared.get(value["shared"]))
        elif isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
    return {name: shared[name] for name in sorted(names) if name in shared}


def _unfold(value: Any, previous: Any, shared: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        if list(value) == ["shared"]:
            missing = f"missing in shared.json: {value['shared']}"
            return _unfold(shared.get(value["shared"], missing), None, shared)
        if value == {"same": True}:
            return previous
        before = previous if isinstance(previous, dict) else {}
        return {key: _unfold(each, before.get(key), shared) for key, each in value.items()}
    if not isinstance(value, list):
        return value
    kept_items: list[Any] = []
    if value and isinstance(value[0], dict) and list(value[0]) == ["same"] and value[0] != {"same": True}:
        kept_items = previous[: value[0]["same"]]
        value = value[1:]
    old = previous if isinstance(previous, list) else []
    rest = [
        _unfold(each, old[at] if at < len(old) else None, shared)
        for at, each in enumerate(value, start=len(kept_items))
    ]
    return [*kept_items, *rest]


def _kind_of(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    inner = value.get("function") or value.get("toolSpec") or value
    return f"tool {inner.get('name', '')}"


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]


def _size(value: Any) -> int:
    return len(json.dumps(value))


@functools.cache
def _shared(path: Path) -> dict[str, Any]:
    return {key: from_lines(value) for key, value in _load(path, {}).items()}


def _load(path: Path, default: Any) -> Any:
    return json.loads(path.read_text("utf-8")) if path.exists() else default


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _compare(name: str, expected: str | None, found: str) -> None:
    if expected == found:
        return
    if expected is None:
        raise AssertionError(f"nothing is recorded for {name}. {_HOW_TO_ACCEPT}\n{found[:2_000]}")
    lines = list(
        difflib.unified_diff(expected.splitlines(), found.splitlines(), f"recorded {name}", "now", lineterm="", n=2)
    )
    if not lines:
        lines = ["only line ends differ", repr(expected[-200:]), repr(found[-200:])]
    lines = _shortened(lines)
    more = f"\n… {len(lines) - MAX_DIFF_LINES} more lines" if len(lines) > MAX_DIFF_LINES else ""
    text = "\n".join(lines[:MAX_DIFF_LINES])
    raise AssertionError(f"{name} differs from what is recorded. {_HOW_TO_ACCEPT}\n{text}{more}")


def _shortened(lines: list[str]) -> list[str]:
    """Cut long lines of a diff to the part that differs from their counterpart."""
    removed = [at for at, line in enumerate(lines) if line.startswith("-")]
    short_lines = [line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]} …" for line in lines]
    for at in removed:
        run = next(other for other in range(at, len(lines) + 1) if other == len(lines) or lines[other][0] != "-")
        first = next(other for other in range(at, -2, -1) if other == -1 or lines[other][0] != "-") + 1
        partner = run + at - first
        if partner >= len(lines) or lines[partner][0] != "+" or len(lines[at]) <= MAX_LINE_CHARS:
            continue
        left, right = lines[at][1:], lines[partner][1:]
        pairs = enumerate(zip(left, right, strict=False))
        same = next((number for number, (one, other) in pairs if one != other), min(len(left), len(right)))
        start = max(0, same - MAX_LINE_CHARS // 3)
        for number, sign, text in ((at, "-", left), (partner, "+", right)):
            short_lines[number] = f"{sign}{'… ' if start else ''}{text[start : start + MAX_LINE_CHARS]} …"
    return short_lines
