"""A kernel's own records: made from any keywords, open whatever the dataclass decorator says."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import pytest

import accel.nki.isa as nisa
import accel.nki.language as nl


class Plain(nl.NKIObject):
    size: int
    name: str = "x"


@dataclass(frozen=True)
class Frozen(nl.NKIObject):
    size: int
    parts: list[int] = field(default_factory=list)
    scale: float = field(default=2.0)


@dataclass(frozen=True)
class Derived(Frozen):
    extra: int = 3
    total: int = 0

    def __post_init__(self) -> None:
        self.total = self.size + self.extra


class Own(nl.NKIObject):
    def __init__(self, width: int) -> None:
        self.area = width * width


class Shape(nl.NKIObject, ABC):
    @abstractmethod
    def sides(self) -> int: ...


def test_fields_are_given_by_keyword_and_may_stay_unset() -> None:
    given = Plain(name="y", other=4)

    assert (given.name, given.other) == ("y", 4)
    assert not hasattr(given, "size")


def test_fields_are_given_by_position_in_order() -> None:
    assert (Plain(3).size, Plain(3).name) == (3, "x")
    with pytest.raises(TypeError, match="2 fields, got 3"):
        Plain(1, "a", 2)


def test_a_frozen_dataclass_can_change_and_has_defaults_of_its_own() -> None:
    first, second = Frozen(size=1), Frozen(size=2)
    first.parts.append(5)
    first.size = 7

    assert (first.size, first.scale, second.parts) == (7, 2.0, [])


def test_a_dataclass_keeps_its_later_step_and_its_bases_fields() -> None:
    made = Derived(4, extra=5)

    assert (made.size, made.extra, made.total, made.scale) == (4, 5, 9, 2.0)


def test_a_constructor_of_ones_own_is_called() -> None:
    assert Own(3).area == 9
    with pytest.raises(TypeError):
        Own(other=1)


def test_abstract_classes_may_be_objects_too() -> None:
    class Square(Shape):
        def sides(self) -> int:
            return 4

    assert Square().sides() == 4


def test_dependencies_are_accepted_between_instructions_only() -> None:
    first, second = nisa.NkiInstruction(0), nisa.NkiInstruction(1)

    assert second.depends_on(first).depends_on(first, first) is second
    with pytest.raises(TypeError, match="got int"):
        second.depends_on(3)
