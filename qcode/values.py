"""A replacement for `dataclass(slots=True)`, frozen or not, that creates a class in a tenth of the time.

Hundreds of these classes are created at every start, and most get few instances or none. So the methods are created
with the first instance, `__init__` is compiled after some calls, and `fields()` is computed on demand.
Type checkers see the standard decorator; `replace`, `asdict`, patterns, copying and pickling work as usual.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

ValueT = TypeVar("ValueT")

MAX_PLAIN_CALLS = 24
"""The number of calls of an `__init__` before it is compiled. Compiling takes as long as 50 calls."""

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        *, slots: bool, frozen: bool = False, kw_only: bool = False
    ) -> Callable[[type[ValueT]], type[ValueT]]:
        """Make a class with slots, and with a hash if it is frozen. With `kw_only`, all fields are passed by name."""
        if not slots:
            raise TypeError("a value has slots")
        return lambda cls: _value_class(cls, is_frozen=frozen, is_kw_only=kw_only)


class _Fields:
    """The fields of a class. The first read of `__dataclass_fields__` replaces this with the standard value.

    `annotations` and `defaults` have a key for each field, in order. A default is a value, `field(...)` or `MISSING`.
    """

    __slots__ = ("annotations", "defaults", "has_options", "is_kw_only")

    def __init__(self, cls: type[object], *, is_kw_only: bool) -> None:
        self.is_kw_only = is_kw_only
        self.annotations: dict[str, object] = {}
        self.defaults: dict[str, Any] = {}
        self.has_options = False
        for base in reversed(cls.__mro__[1:]):
            inherited = base.__dict__.get("__dataclass_fields__")
            if isinstance(inherited, _Fields):
                self.annotations.update(inherited.annotations)
                self.defaults.update(inherited.defaults)
                self.has_options |= inherited.has_options
            elif inherited is not None:
                self.annotations.update({name: spec.type for name, spec in inherited.items()})
                self.defaults.update(inherited)
                self.has_options = True

    def __get__(self, instance: object, owner: type[Any]) -> dict[str, Field[Any]]:
        holder: Any = next(base for base in owner.__mro__ if base.__dict__.get("__dataclass_fields__") is self)
        fields: dict[str, Field[Any]] = {}
        for name, default in self.defaults.items():
            spec: Any = default if isinstance(default, Field) else dataclasses.field(default=default)
            spec.name, spec.type, spec.kw_only = name, self.annotations[name], self.is_kw_only
            spec._field_type = dataclasses._FIELD  # type: ignore[attr-defined]  # `dataclasses.fields` compares it
            fields[name] = spec
        holder.__dataclass_fields__ = fields
        return fields

    def names(self, option: str) -> list[str]:
        """Return the fields that have this option of `dataclasses.field`: `init`, `repr` or `compare`."""
        if not self.has_options:
            return list(self.defaults)
        return [name for name, spec in self.defaults.items() if not isinstance(spec, Field) or getattr(spec, option)]

    def default(self, name: str) -> tuple[Any, Any]:
        """Return the default of a field, and the function that creates it; one or both are `MISSING`."""
        default = self.defaults[name]
        return (default.default, default.default_factory) if isinstance(default, Field) else (default, MISSING)


def _value_class(cls: type[Any], *, is_frozen: bool, is_kw_only: bool) -> type[Any]:
    """Return a class with slots and the body of `cls`. If `is_kw_only`, its fields are passed by name only."""
    body = {name: value for name, value in cls.__dict__.items() if name not in ("__dict__", "__weakref__")}
    fields = _Fields(cls, is_kw_only=is_kw_only)
    inherited = frozenset(fields.defaults)
    for name, annotation in body.get("__annotations__", {}).items():
        if "ClassVar" not in str(annotation):
            fields.annotations[name] = annotation
            fields.defaults[name] = default = body.pop(name, MISSING)
            fields.has_options |= isinstance(default, Field)
            _check_default(cls, name, default)
    defined_names = frozenset(body)

    def __init__(self: object, *args: object, **named: object) -> None:  # noqa: N807 - put into the class under this name
        # The first instance creates the methods, and replaces this one.
        for name, method in _methods(value_class, fields, is_frozen=is_frozen).items():
            if name not in defined_names:
                setattr(value_class, name, method)
        value_class.__init__(self, *args, **named)

    body["__init__"] = __init__
    body["__qualname__"] = cls.__qualname__
    body["__doc__"] = cls.__doc__ or cls.__name__
    body["__slots__"] = tuple(name for name in fields.defaults if name not in inherited)
    body["__match_args__"] = () if is_kw_only else tuple(fields.names("init"))
    body["__dataclass_fields__"] = fields
    if is_frozen:
        body.setdefault("__setattr__", _refuse_to_set)
        body.setdefault("__delattr__", _refuse_to_delete)
    else:
        body.setdefault("__hash__", None)
    kind: Any = type(cls)
    value_class: type[Any] = kind(cls.__name__, cls.__bases__, body)
    return value_class


def _check_default(cls: type[object], name: str, default: object) -> None:
    """Raise `TypeError` for a field that this decorator does not support."""
    if name == "_" or (isinstance(default, Field) and default.kw_only is not MISSING):
        raise TypeError(f"{cls.__name__}.{name}: `kw_only` applies to all fields of a value or to none")
    if default.__class__.__hash__ is None:
        raise TypeError(f"{cls.__name__}.{name}: mutable default; use field(default_factory=...)")


def _methods(cls: type[Any], fields: _Fields, *, is_frozen: bool) -> dict[str, Callable[..., Any]]:
    """Return the generated methods of a class by name."""
    compared_values = _getter(fields.names("compare"))
    init_names, repr_names = fields.names("init"), fields.names("repr")
    init_values = _getter(init_names)

    def __eq__(self: object, other: object) -> bool:  # noqa: N807
        return compared_values(self) == compared_values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: object) -> int:  # noqa: N807
        return hash(compared_values(self))

    def __repr__(self: object) -> str:  # noqa: N807
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in repr_names)})"

    def __reduce__(self: object) -> tuple[Callable[..., object], tuple[object, ...]]:  # noqa: N807
        values = init_values(self)
        if fields.is_kw_only:
            return _make, (cls, dict(zip(init_names, values, strict=True)))
        return cls, values

    shared: dict[str, Callable[..., Any]] = {
        "__init__": _plain_initializer(cls, fields),
        "__eq__": __eq__,
        "__repr__": __repr__,
        "__reduce__": __reduce__,
    }
    return {**shared, "__hash__": __hash__} if is_frozen else shared


def _make(cls: Callable[..., object], values: dict[str, object]) -> object:
    return cls(**values)


def _getter(names: list[str]) -> Callable[[object], tuple[object, ...]]:
    """Return a function that returns these attributes of a value as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _refuse_to_set(value: object, name: str, _: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(value: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _setter(cls: type[Any], name: str) -> Callable[[object, object], None]:
    """Return a function that sets a slot directly, because a frozen class refuses assignment."""
    slot = cls.__dict__.get(name) or next(base.__dict__[name] for base in cls.__mro__ if name in base.__dict__)
    setter: Callable[[object, object], None] = slot.__set__
    return setter


def _plain_initializer(cls: type[Any], fields: _Fields) -> Callable[..., None]:
    """Return an `__init__` that replaces itself with a compiled one after some calls, or if its arguments are wrong."""
    names = fields.names("init")
    setters = {name: _setter(cls, name) for name in names}
    defaults: dict[str, object] = {}
    factories: dict[str, Callable[[], object]] = {}
    for name in names:
        default, factory = fields.default(name)
        if factory is not MISSING:
            factories[name] = factory
        elif default is not MISSING:
            defaults[name] = default
    post_init: Callable[[object], None] | None = getattr(cls, "__post_init__", None)
    calls = 0

    def __init__(self: object, *args: object, **named: object) -> None:  # noqa: N807
        nonlocal calls
        calls += 1
        arguments = {**dict(zip(names, args, strict=False)), **named}
        values = {**defaults, **arguments}
        for name, factory in factories.items():
            if name not in arguments:
                values[name] = factory()
        has_all_fields = values.keys() == setters.keys()
        # `arguments` is shorter if there are too many positional arguments, or if one is also passed by name.
        has_surplus = len(arguments) < len(args) + len(named) or (fields.is_kw_only and bool(args))
        if calls > MAX_PLAIN_CALLS or not has_all_fields or has_surplus:
            # For wrong arguments, the compiled one raises the usual `TypeError`.
            cls.__init__ = _compiled_initializer(cls, fields)
            cls.__init__(self, *args, **named)
            return
        for name, value in values.items():
            setters[name](self, value)
        if post_init is not None:
            post_init(self)

    return __init__


def _compiled_initializer(cls: type[Any], fields: _Fields) -> Callable[..., None]:
    """Return an `__init__` that is compiled from source, as `dataclasses` does: `_set_x(self, x)` for each field."""
    names: dict[str, object] = {"_missing": MISSING}
    parameters, lines = ["self", "*"] if fields.is_kw_only else ["self"], []
    for name in fields.names("init"):
        names[f"_set_{name}"] = _setter(cls, name)
        default, factory = fields.default(name)
        value = name
        if default is not MISSING:
            names[f"_default_{name}"] = default
            parameters.append(f"{name}=_default_{name}")
        elif factory is not MISSING:
            names[f"_make_{name}"] = factory
            parameters.append(f"{name}=_missing")
            value = f"_make_{name}() if {name} is _missing else {name}"
        else:
            parameters.append(name)
        lines.append(f"_set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    source = "\n    ".join((f"def __init__({', '.join(parameters)}):", *(lines or ["pass"])))
    exec(source, names)  # noqa: S102 - the source contains nothing but names of fields
    initializer: Callable[..., None] = names["__init__"]  # type: ignore[assignment]  # `exec` defined it
    initializer.__qualname__ = f"{cls.__qualname__}.__init__"
    return initializer
