"""The JSON Schema of an answer (`--json-schema`): the answer must be one JSON value that is valid under the schema.

A reference must point into the schema itself or to a published metaschema; nothing is fetched. References are checked
before any answer is validated. Otherwise the validator would fail at an unknown reference, and follow a cycle that does
not descend into the value, such as `{"$ref": "#"}`, forever. The module and the validator load only for a schema.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from qcode.agent.context.attachments import decode_text
from qcode.agent.programs.faults import describe_fault, is_fault
from qcode.protocol.errors import InputError, UsageError
from qcode.protocol.reply import InvalidAnswer
from qcode.text.clean import one_line
from qcode.text.json import Json
from qcode.values import dataclass

if TYPE_CHECKING:
    from jsonschema.exceptions import SchemaError as JsonSchemaError
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator
    from referencing import Resource, Specification

    from qcode.text.json import JsonObject

_FENCE = re.compile(r"(`{3,}+|~{3,}+)[^\n`]*+\n")
_MAX_ERRORS = 5
_MAX_ERROR_CHARS = 300
_MAX_LEVELS = 64
_RECURSION_LIMIT = 6_000
"""The recursion limit with which the validator can handle `_MAX_LEVELS`."""
_PATTERN_TIMEOUT_S = 0.5
_TOO_DEEP = f"it nests more than {_MAX_LEVELS} levels deep"


class InvalidSchemaError(Exception):
    """A schema that cannot be used; the text is one line for the user."""


class _InvalidAnswerError(Exception):
    """An answer is invalid. `errors` are lines for the user and the model."""

    def __init__(self, *errors: str) -> None:
        super().__init__(*errors)
        self.errors = errors


@dataclass(frozen=True, slots=True)
class StructuredAnswer:
    """A valid answer: its JSON text, and the parsed value."""

    text: str
    value: Json


class AnswerSchema:
    """A JSON Schema, Draft 2020-12 unless it names another draft; raises `InvalidSchemaError` if it is invalid.

    `accept` is called with each answer that is valid under the schema, and raises an exception to reject the answer.
    `instructions` is the text for the model.
    """

    def __init__(self, text: str, accept: Callable[[Json], object] = lambda value: None) -> None:
        try:
            schema = _parse_strict(text)
        except ValueError as error:
            raise InvalidSchemaError(f"is not JSON: {error}") from None
        self._validator = _validator(schema)
        self._accept = accept
        self.instructions = _INSTRUCTIONS.format(schema=json.dumps(schema, ensure_ascii=False))

    def read(self, answer: str) -> StructuredAnswer | None:
        """Return the value of an answer, None if it is invalid."""
        try:
            return self._read(answer)
        except _InvalidAnswerError:
            return None

    def validate(self, answer: str) -> InvalidAnswer | None:
        """Return why an answer is invalid, None if it is valid."""
        try:
            self._read(answer)
        except _InvalidAnswerError as invalid:
            listed = "\n".join(f"- {error}" for error in invalid.errors)
            return InvalidAnswer("; ".join(invalid.errors), _REQUEST.format(errors=listed))
        return None

    def _read(self, answer: str) -> StructuredAnswer:
        """Return the parsed answer; raise `_InvalidAnswerError`."""
        text = answer.strip().removeprefix("\ufeff").strip()
        fenced = _FENCE.match(text)
        if fenced is not None and text.endswith(fenced[1], fenced.end()):
            text = text[fenced.end() :].removesuffix(fenced[1]).strip()
        if not text:
            raise _InvalidAnswerError("it contains no text")
        try:
            value = _parse_strict(text)
            with _deep_recursion():
                errors = list(islice(self._validator.iter_errors(value), _MAX_ERRORS))
        except ValueError as error:
            raise _InvalidAnswerError(f"it is not a single JSON value: {error}") from None
        except OverflowError:  # by `multipleOf`, which divides an integer of 400 digits by a `float`
            raise _InvalidAnswerError("a number is too large") from None
        if errors:
            raise _InvalidAnswerError(*map(_error_message, errors))
        try:
            self._accept(value)
        except BaseException as error:  # the program's code: its error is sent back to the model
            if not is_fault(error):
                raise
            raise _InvalidAnswerError(_shortened(describe_fault(error))) from None
        return StructuredAnswer(text, value)


class AnswerType:
    """The requested type of an answer: a dataclass, a `TypedDict`, a JSON Schema, or a class like a pydantic model."""

    def __init__(self, output: Any) -> None:
        """Raise `UsageError` if there is no schema for the type."""
        self._output = output
        self._accepted_value: Any = None
        try:
            self.schema = AnswerSchema(json.dumps(self._json_schema()), self._keep_answer)
        except BaseException as error:  # the program's class may create its schema itself
            if not is_fault(error):
                raise
            raise UsageError(f"output: {one_line(str(error))}") from None

    def _json_schema(self) -> Any:
        if isinstance(self._output, dict):
            return self._output
        if self._is_model:
            return self._output.model_json_schema()
        from qcode.agent.programs.hints import schema_of

        return schema_of(self._output)

    @property
    def _is_model(self) -> bool:
        """Whether the type has the methods of a pydantic model."""
        return hasattr(self._output, "model_json_schema") and hasattr(self._output, "model_validate")

    def _keep_answer(self, value: Json) -> None:
        """Convert an answer to the type and keep it; raise an exception if it does not fit."""
        from qcode.agent.programs.hints import value_of

        if isinstance(self._output, dict):
            self._accepted_value = value
        elif self._is_model:
            self._accepted_value = self._output.model_validate(value)
        else:
            self._accepted_value = value_of(self._output, value)

    def value(self, answer: str) -> Any:
        """Return an answer converted to the type, None if it is invalid."""
        # The schema passes each valid answer to `_keep_answer`, which converts it.
        return None if self.schema.read(answer) is None else self._accepted_value


def _parse_strict(text: str) -> Json:
    """Parse standard JSON; raise `ValueError`, also for NaN, Infinity, an overflow to infinity, or deep nesting."""
    try:
        value: Json = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if _depth(value) > _MAX_LEVELS:
        raise ValueError(_TOO_DEEP)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {digits} is too large")
    return number


def _validator(schema: Json) -> Validator:
    """Return a validator that fetches nothing; raise `InvalidSchemaError` for an invalid schema."""
    from jsonschema.exceptions import SchemaError as JsonSchemaError
    from jsonschema.validators import Draft202012Validator, validator_for
    from jsonschema_specifications import REGISTRY
    from referencing.jsonschema import specification_with

    declared = schema.get("$schema") if isinstance(schema, dict) else None
    dialect: Any = None  # the validator class of a draft, None if the draft is unsupported
    if declared is None:
        dialect = Draft202012Validator
    elif isinstance(declared, str):
        dialect = validator_for({"$schema": declared}, default=dialect)
    if dialect is None:
        raise InvalidSchemaError(f"has an unsupported $schema: {declared!r}; leave it out for Draft 2020-12")
    try:
        with _deep_recursion():
            dialect.check_schema(schema)
            problem = reference_problem(
                schema, specification_with(dialect.META_SCHEMA["$schema"]), dialect.check_schema
            )
    except JsonSchemaError as error:
        raise InvalidSchemaError(f"is not a valid JSON Schema: {_error_line(error)}") from None
    if problem:
        raise InvalidSchemaError(problem)
    if isinstance(schema, dict):  # for a reference to it, `$schema` would select a class without time limits
        schema = {name: value for name, value in schema.items() if name != "$schema"}
    # The default registry would fetch unknown references.
    validator: Validator = _with_time_limits(dialect)(schema, registry=REGISTRY)
    return validator


def _with_time_limits(dialect: Any) -> Any:
    """Return a validator class that matches the regular expressions of a schema with a time limit.

    `re`, which the validator uses, has none: a text of 40 `a` and a `!` would block `^(a+)+$` for hours.
    """
    from jsonschema import validators
    from jsonschema.exceptions import ValidationError

    def check_text(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[Any]:
        if isinstance(value, str) and not _is_match(pattern, value):
            yield ValidationError(f"{value!r} does not match {pattern!r}")

    def check_matching(validator: Any, subschemas: Any, value: Any, schema: Any) -> Iterator[Any]:
        for pattern, subschema in subschemas.items() if isinstance(value, dict) else ():
            for name, item in value.items():
                if _is_match(pattern, name):
                    yield from validator.descend(item, subschema, path=name, schema_path=pattern)

    def check_others(validator: Any, subschema: Any, value: Any, schema: Any) -> Iterator[Any]:
        others, patterns = value, schema.get("patternProperties", {})
        if isinstance(value, dict) and patterns:
            others = {name: item for name, item in value.items() if not any(_is_match(p, name) for p in patterns)}
            schema = {name: keyword for name, keyword in schema.items() if name != "patternProperties"}
        yield from dialect.VALIDATORS["additionalProperties"](validator, subschema, others, schema) or ()

    checks = {"pattern": check_text, "patternProperties": check_matching, "additionalProperties": check_others}
    extend: Any = validators.extend
    return extend(dialect, checks)


def _is_match(pattern: str, text: str) -> bool:
    """Return whether `pattern` matches somewhere in `text`; raise `_InvalidAnswerError` if that takes too long."""
    import regex  # most schemas have no pattern

    try:
        return regex.search(pattern, text, timeout=_PATTERN_TIMEOUT_S) is not None
    except TimeoutError:
        limit = f"{_PATTERN_TIMEOUT_S:g} s"
        raise _InvalidAnswerError(f"the pattern {_shortened(repr(pattern))} took longer than {limit}") from None
    except regex.error:  # it rejects a few patterns of `re`
        return re.search(pattern, text) is not None


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Raise the recursion limit temporarily, because an overflow in the validator's compiled code cannot be caught."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _depth(value: Json) -> int:
    depth = 0
    level = [value]
    while level:
        depth += 1
        level = [child for item in level for child in _children(item)]
    return depth


def _children(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _error_message(error: ValidationError) -> str:
    """Return the most useful message for an error: under `anyOf` or `oneOf`, the error of the closest alternative."""
    from jsonschema.exceptions import best_match

    return _error_line(best_match([error]) or error)


def _error_line(error: ValidationError | JsonSchemaError) -> str:
    return f"{error.json_path}: {_shortened(error.message)}"


def _shortened(message: str) -> str:
    message = " ".join(message.split())
    if len(message) <= _MAX_ERROR_CHARS:
        return message
    # A message of the validator begins with the value, which may be long, and ends with the error.
    half = _MAX_ERROR_CHARS // 2
    return f"{message[:half]} ... {message[-half:]}"


_INSTRUCTIONS = """\
A program reads the last reply of this run. That reply must be one JSON value that is valid under the JSON Schema \
below, and nothing else: no text before or after it, no code fence. Before that reply, use tools as needed.

<json_schema>
{schema}
</json_schema>"""

_REQUEST = """\
The program that reads your answer rejected it:
{errors}

Send the whole answer again, corrected: one JSON value that is valid under the JSON Schema you were given, and nothing \
else."""


_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# Keywords whose subschemas apply to the same value as the schema that contains them. The value of a keyword is one
# schema, a list of schemas, or a table of schemas.
_SCHEMA_KEYWORDS = ("not", "if", "then", "else")
_LIST_KEYWORDS = ("allOf", "anyOf", "oneOf")
_NAMED_KEYWORDS = ("dependentSchemas", "dependencies")


def reference_problem(schema: Json, specification: Specification[Any], check: Callable[[Any], None]) -> str:
    """Return the problem with the references of a schema, empty if all are valid.

    `check` is called with the target of each reference, which may not be a schema, and raises an error if it is not.
    """
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import Unresolvable

    resource = specification.create_resource(schema)
    pending: list[tuple[Resource[Any], Any]] = [(resource, REGISTRY.resolver_with_root(resource))]
    same_value_schemas: dict[int, set[int]] = {}  # by id of a schema: the ids of schemas that apply to the same value
    while pending:
        current, resolver = pending.pop()
        contents = current.contents
        if not isinstance(contents, dict) or id(contents) in same_value_schemas:
            continue
        same_value = {id(subschema) for subschema in _same_value_subschemas(contents)}
        same_value_schemas[id(contents)] = same_value
        references = [contents[key] for key in _REFERENCES if isinstance(contents.get(key), str)]
        for ref in references:
            try:
                resolved = resolver.lookup(ref)
            except (Unresolvable, ValueError):
                reason = "which the schema does not contain; external references are not supported"
                return f'has a $ref to "{ref}", {reason}'
            check(resolved.contents)
            same_value.add(id(resolved.contents))
            pending.append((specification.create_resource(resolved.contents), resolved.resolver))
        pending += [(subschema, resolver.in_subresource(subschema)) for subschema in current.subresources()]
    try:
        TopologicalSorter(same_value_schemas).prepare()  # finds a cycle that does not descend into the value
    except CycleError:
        return "has a $ref that refers to itself"
    return ""


def _same_value_subschemas(contents: JsonObject) -> Iterator[Json]:
    """Yield the subschemas that apply to the same value as the schema `contents`, such as those of `allOf`."""
    yield from (contents[key] for key in _SCHEMA_KEYWORDS if key in contents)
    for key in _LIST_KEYWORDS:
        schemas = contents.get(key)
        yield from schemas if isinstance(schemas, list) else ()
    for key in _NAMED_KEYWORDS:
        schemas_by_name = contents.get(key)
        yield from schemas_by_name.values() if isinstance(schemas_by_name, dict) else ()


def read_schema(argument: str) -> AnswerSchema:
    """Return the schema given as `JSON` or `@FILE`; raise `QcodeError` if it is invalid."""
    name = "--json-schema"
    is_file = argument.startswith("@")
    if is_file:
        name = f"{name} {argument}"
    text = _schema_text(Path(argument[1:]), name) if is_file else argument
    try:
        return AnswerSchema(text)
    except InvalidSchemaError as error:
        is_path_without_at = not is_file and "{" not in argument and Path(argument).suffix == ".json"
        hint = f" (a file is named as @{argument})" if is_path_without_at else ""
        raise InputError(f"{name} {error}{hint}") from None


def _schema_text(path: Path, name: str) -> str:
    try:
        return decode_text(path.expanduser().read_bytes(), name)
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from None
