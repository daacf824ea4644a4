"""Where the references of a JSON Schema lead, found out before anything is held against it. Pure; nothing is fetched.

A reference that leads out of the schema can never be followed, and one that comes back to where it began without
going down into the value would be followed for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from referencing import Resource, Specification

    from qcode.protocol.json import Json, JsonObject

# Keywords whose schemas look at the same value as the schema they stand in.
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ONE = ("not", "if", "then", "else")
_SEVERAL = ("allOf", "anyOf", "oneOf")
_NAMED = ("dependentSchemas", "dependencies")


def fault_of(schema: Json, specification: Specification[Any], check: Callable[[Any], None]) -> str:
    """Return what is wrong with the references of a schema, empty where nothing is.

    `check` raises for what is no schema: a reference may lead to a place that is none by its keyword.
    """
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import Unresolvable

    resource = specification.create_resource(schema)
    todo: list[tuple[Resource[Any], Any]] = [(resource, REGISTRY.resolver_with_root(resource))]
    in_place: dict[int, set[int]] = {}
    while todo:
        current, resolver = todo.pop()
        contents = current.contents
        if not isinstance(contents, dict) or id(contents) in in_place:
            continue
        same_value = in_place[id(contents)] = {id(part) for part in _in_place(contents)}
        for ref in (contents[key] for key in _REFERENCES if isinstance(contents.get(key), str)):
            try:
                found = resolver.lookup(ref)
            except (Unresolvable, ValueError):
                return f'has a $ref to "{ref}", which is not in it; nothing outside the schema is looked up'
            check(found.contents)
            same_value.add(id(found.contents))
            todo.append((specification.create_resource(found.contents), found.resolver))
        todo += [(part, resolver.in_subresource(part)) for part in current.subresources()]
    try:
        TopologicalSorter(in_place).prepare()
    except CycleError:
        return "refers to itself without end"
    return ""


def _in_place(contents: JsonObject) -> Iterator[Json]:
    yield from (contents[key] for key in _ONE if key in contents)
    for key in _SEVERAL:
        several = contents.get(key)
        yield from several if isinstance(several, list) else ()
    for key in _NAMED:
        named = contents.get(key)
        yield from named.values() if isinstance(named, dict) else ()
