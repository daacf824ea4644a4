"""A replacement for `dataclass(slots=True)`, frozen or not, that creates a class in a tenth of the time.

Hundreds of these classes are created at every start, and the standard decorator compiles six methods for each. Here
all but `__init__` are shared, and that is compiled with the first instance. Type checkers see the standard decorator;
`fields`, `replace`, `asdict`, patterns, copying and pickling work as usual.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

ValueT = TypeVar("ValueT")

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, slots: bool, frozen: bool = False) -> Callable[[type[ValueT]], type[ValueT]]:
        """Make a class with slots; a frozen one has a hash. Fields are given by position or by name."""
        if not slots:
            raise TypeError("a value has slots")
        return lambda cls: _value_class(cls, is_frozen=frozen)


def _value_class(cls: type[ValueT], *, is_frozen: bool) -> type[ValueT]:
    # Without a docstring the standard decorator would compute a signature for it.
    cls.__doc__ = cls.__doc__ or cls.__name__
    made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    for name, method in _methods(made, is_frozen=is_frozen).items():
        if name not in cls.__dict__:
            setattr(made, name, method)
    return made


def _methods(cls: type[Any], *, is_frozen: bool) -> dict[str, Callable[..., Any] | None]:
    fields = dataclasses.fields(cls)
    if any(field.kw_only for field in fields):
        raise TypeError(f"{cls.__name__}: a field of a value is given by position")
    key = _getter([field.name for field in fields if field.compare])
    content = _getter([field.name for field in fields if field.init])
    shown = [field.name for field in fields if field.repr]

    def __init__(self: object, *args: object, **named: object) -> None:  # noqa: N807 - put into the class under this name
        cls.__init__ = _initializer(cls, fields)
        cls.__init__(self, *args, **named)

    def __eq__(self: object, other: object) -> bool:  # noqa: N807
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: object) -> int:  # noqa: N807
        return hash(key(self))

    def __repr__(self: object) -> str:  # noqa: N807
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def __reduce__(self: object) -> tuple[type[Any], tuple[object, ...]]:  # noqa: N807
        return cls, content(self)

    shared = {method.__name__: method for method in (__init__, __eq__, __repr__, __reduce__)}
    if not is_frozen:
        return {**shared, "__hash__": None}
    return {**shared, "__hash__": __hash__, "__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}


def _getter(names: list[str]) -> Callable[[object], tuple[object, ...]]:
    """Return a function that returns these attributes of a value as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _refuse_to_set(value: object, name: str, _: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(value: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _initializer(cls: type[Any], fields: tuple[dataclasses.Field[Any], ...]) -> Callable[..., None]:
    """Return the `__init__` of `cls`, which sets the slots directly, because the class refuses assignment."""
    names: dict[str, object] = {"_missing": dataclasses.MISSING}
    parameters, lines = ["self"], []
    for field in fields:
        if not field.init:
            continue  # `__post_init__` sets it
        slot = next(base.__dict__[field.name] for base in cls.__mro__ if field.name in base.__dict__)
        names[f"_set_{field.name}"] = slot.__set__
        value = field.name
        if field.default is not dataclasses.MISSING:
            names[f"_default_{field.name}"] = field.default
            parameters.append(f"{field.name}=_default_{field.name}")
        elif field.default_factory is not dataclasses.MISSING:
            names[f"_make_{field.name}"] = field.default_factory
            parameters.append(f"{field.name}=_missing")
            value = f"_make_{field.name}() if {field.name} is _missing else {field.name}"
        else:
            parameters.append(field.name)
        lines.append(f"_set_{field.name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    source = "\n    ".join((f"def __init__({', '.join(parameters)}):", *(lines or ["pass"])))
    exec(source, names)  # noqa: S102 - made of the names of the fields alone
    made: Callable[..., None] = names["__init__"]  # type: ignore[assignment]  # what the line above defined
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made
