"""The lightweight dataclass decorator behaves like the standard one."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

from qcode import values


@values.dataclass(frozen=True, slots=True)
class Ours:
    """A value."""

    name: str
    size: int = 3
    parts: tuple[int, ...] = ()
    made: list[int] = field(default_factory=list, compare=False)
    secret: str = field(default="", repr=False)
    limit: ClassVar[int] = 7

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("a size is not negative")

    @property
    def double(self) -> int:
        return self.size * 2


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    """A value."""

    name: str
    size: int = 3
    parts: tuple[int, ...] = ()
    made: list[int] = field(default_factory=list, compare=False)
    secret: str = field(default="", repr=False)
    limit: ClassVar[int] = 7

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("a size is not negative")

    @property
    def double(self) -> int:
        return self.size * 2


@values.dataclass(frozen=True, slots=True)
class Empty:
    pass


@values.dataclass(frozen=True, slots=True)
class OnlyOne:
    value: object


@values.dataclass(frozen=True, slots=True)
class OwnWords:
    value: int

    def __repr__(self) -> str:
        return f"<{self.value}>"


Maker = Callable[..., Any]
each = pytest.mark.parametrize("make", [Ours, Standard])


def test_repr_equals_that_of_a_standard_dataclass() -> None:
    ours, standard = Ours("a", parts=(1,), secret="x"), Standard("a", parts=(1,), secret="x")
    assert repr(ours) == repr(standard).replace("Standard", "Ours")
    assert dataclasses.asdict(ours) == dataclasses.asdict(standard)
    assert [item.name for item in dataclasses.fields(ours)] == [item.name for item in dataclasses.fields(standard)]
    assert Ours.__match_args__ == Standard.__match_args__
    assert Ours.__slots__ == Standard.__slots__


@each
def test_equal_fields_make_equal_values(make: Maker) -> None:
    assert make("a") == make("a", made=[1])
    assert hash(make("a")) == hash(make("a", made=[1]))
    assert make("a") != make("b")
    assert make("a") != ("a", 3, ())
    assert Ours("a") != Standard("a")  # type: ignore[comparison-overlap]  # that is the point


@each
def test_value_is_frozen(make: Maker) -> None:
    value = make("a")
    with pytest.raises(FrozenInstanceError, match="size"):
        value.size = 4
    with pytest.raises((FrozenInstanceError, TypeError)):
        value.other = 4
    with pytest.raises(FrozenInstanceError, match="size"):
        del value.size
    assert not hasattr(value, "__dict__")


@each
def test_post_init_and_default_factories_run(make: Maker) -> None:
    with pytest.raises(ValueError, match="not negative"):
        make("a", -1)
    with pytest.raises(TypeError, match="name"):
        make()
    with pytest.raises(TypeError, match="unknown"):
        make("a", unknown=1)
    assert make("a").made is not make("a").made
    assert (make("a").double, make.limit) == (6, 7)  # type: ignore[attr-defined]  # a class, not any maker


@each
def test_value_is_replaced_copied_and_pickled(make: Maker) -> None:
    value = make("a", 5, (1, 2))
    assert dataclasses.replace(value, name="b") == make("b", 5, (1, 2))
    for again in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert again == value


@values.dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A value with fields that are given by name only."""

    name: str
    size: int = 3


def test_value_with_named_fields_takes_no_positions() -> None:
    value = Named(name="a")
    assert (value, value.size) == (Named(size=3, name="a"), 3)
    with pytest.raises(TypeError, match="positional"):
        Named("a")  # type: ignore[call-arg]  # that is the point
    assert dataclasses.replace(value, size=4) == Named(name="a", size=4)
    assert pickle.loads(pickle.dumps(value)) == copy.copy(value) == value
    assert all(item.kw_only for item in dataclasses.fields(Named))
    assert Named.__match_args__ == ()


@values.dataclass(slots=True)
class Changing:
    """A value that is not frozen."""

    name: str
    size: int = 0
    shown: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        self.shown = self.name.upper()


def test_value_that_is_not_frozen_can_be_written_to_and_has_no_hash() -> None:
    value = Changing("a")
    value.size += 2
    assert value == Changing("a", 2)
    assert repr(value) == "Changing(name='a', size=2, shown='A')"
    assert pickle.loads(pickle.dumps(value)) == value
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)
    with pytest.raises(AttributeError):
        value.other = 1  # type: ignore[attr-defined]  # it has slots
    with pytest.raises(TypeError):
        Changing("a", 2, "b")  # type: ignore[call-arg]  # the class sets it itself


def test_value_matches_a_class_pattern() -> None:
    match Ours("a", 9):
        case Ours(name, size):
            assert (name, size) == ("a", 9)


def test_values_without_and_with_one_field() -> None:
    assert Empty() == Empty()
    assert repr(Empty()) == "Empty()"
    assert hash(OnlyOne(1)) == hash(OnlyOne(1))
    assert OnlyOne(1) != OnlyOne(2)
    assert OnlyOne((1, 2)) != OnlyOne(1)


def test_defined_method_is_kept() -> None:
    assert repr(OwnWords(3)) == "<3>"


def test_unsupported_options_are_refused() -> None:
    make: Any = values.dataclass
    with pytest.raises(TypeError):
        make(frozen=True, slots=False)
    with pytest.raises(TypeError, match="kw_only"):

        @values.dataclass(frozen=True, slots=True)
        class Mixed:
            value: int = field(kw_only=True)

    with pytest.raises(TypeError, match="mutable default"):

        @values.dataclass(frozen=True, slots=True)
        class Shared:
            parts: list[int] = []  # noqa: RUF012  # that is the point


@values.dataclass(frozen=True, slots=True)
class Wider(Ours):
    """A value with more fields than its base."""

    size: int = 5
    color: str = "red"


def test_inherited_fields_come_first_and_keep_their_place() -> None:
    assert repr(Wider("a", color="blue")) == "Wider(name='a', size=5, parts=(), made=[], color='blue')"
    assert [item.name for item in dataclasses.fields(Wider)] == [
        *(item.name for item in dataclasses.fields(Ours)),
        "color",
    ]
    assert Wider("a", 3) != Ours("a")
    assert Wider("a") == dataclasses.replace(Wider("b"), name="a")
    kind: Any = Wider
    assert kind.__slots__ == ("color",)


@pytest.mark.parametrize("make", [Ours, Standard, Wider])
def test_many_values_are_like_the_first(make: Maker) -> None:
    """The initializer is compiled after some calls; arguments count as before."""
    for number in range(2 * values.MAX_PLAIN_CALLS):
        value = make("a", number, made=[number])
        assert (value.name, value.size, value.parts, value.made) == ("a", number, (), [number])
        assert make("a").made == []
    with pytest.raises(TypeError, match="multiple values"):
        make("a", name="b")
    with pytest.raises(ValueError, match="not negative"):
        make("a", size=-1)


@pytest.mark.parametrize(
    ("given", "named", "match"),
    [((), {}, "name"), (("a",), {"name": "b"}, "multiple values"), (("a",), {"other": 1}, "other"),
     ((), {"other": 1}, "other"), (range(9), {}, "positional")],
)  # fmt: skip
def test_wrong_arguments_are_refused_as_by_a_function(
    given: tuple[object, ...], named: dict[str, object], match: str
) -> None:
    @values.dataclass(frozen=True, slots=True)
    class New:
        name: str
        size: int = 1

    make: Any = New
    for _ in range(2):
        with pytest.raises(TypeError, match=match):
            make(*given, **named)
    assert New("a").size == 1
