"""The schema of `--json-schema`, from the command line or a file. What reads it is loaded only where one is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from qcode.cli.failure import StartError
from qcode.runtime.attachments import InputError, decoded

if TYPE_CHECKING:
    from qcode.headless.schema import AnswerSchema


def read_schema(given: str | None) -> AnswerSchema | None:
    """Return what `JSON` or `@FILE` says, None where nothing is given; raise `StartError` for what is no schema."""
    if given is None:
        return None
    from qcode.headless.schema import AnswerSchema, SchemaError

    text, name = given, "--json-schema"
    if given.startswith("@"):
        name = f"{name} {given}"
        text = _read(Path(given[1:]), name)
    try:
        return AnswerSchema(text)
    except SchemaError as error:
        is_path = text is given and "{" not in given and Path(given).suffix == ".json"
        hint = f" (a file is named as @{given})" if is_path else ""
        raise StartError(f"{name} {error}{hint}", 42) from None


def _read(path: Path, name: str) -> str:
    try:
        return decoded(path.expanduser().read_bytes(), name)
    except (OSError, ValueError, RuntimeError) as error:
        raise StartError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}", 42) from None
    except InputError as error:
        raise StartError(str(error), 42) from None
