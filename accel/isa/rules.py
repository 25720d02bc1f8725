"""Rules: functions from (form, chip) to None or one fragment naming operand, value and limit.

Builders, so that a row reads as a list: `same_size("data", "dst")`, `not_both_psum("data1",
"data2")`. A rule is silent about operands that are not there; `check` has complained already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from accel.chip import Chip
from accel.dtypes import FLOATS
from accel.isa.functions import FUNCTIONS
from accel.isa.operators import COMPARISONS, OPERATORS
from accel.program import Access, AttributeValue, Engine, Form, Layout, Memory

Rule = Callable[[Form, Chip], str | None]
REDUCE_COMMANDS = frozenset({"idle", "reset", "reduce", "reset_reduce", "load_reduce"})


def present(form: Form, roles: Iterable[str]) -> list[Access]:
    """The operands of these roles that the form has."""
    return [access for access in map(form.access, roles) if access is not None]


def total(layout: Layout) -> int:
    """All elements of an operand."""
    return math.prod(layout.shape)


def same_size(*roles: str) -> Rule:
    """Equal partitions and elements a partition."""

    def rule(form: Form, chip: Chip) -> str | None:
        accesses = present(form, roles)
        for other in accesses[1:]:
            first, second = accesses[0].layout, other.layout
            if (first.partitions, first.elements) != (second.partitions, second.elements):
                return (
                    f"{other.role} is {_size(second)}, "
                    f"must match {accesses[0].role}, which is {_size(first)}"
                )
        return None

    return rule


def _size(layout: Layout) -> str:
    return f"{layout.partitions} partitions of {layout.elements} elements"


def same_total(first: str, second: str) -> Rule:
    """Equal numbers of elements, however they lie."""

    def rule(form: Form, chip: Chip) -> str | None:
        a, b = form.access(first), form.access(second)
        if a is None or b is None or total(a.layout) == total(b.layout):
            return None
        return (
            f"{first} has {total(a.layout)} elements {a.layout.shape}, "
            f"{second} has {total(b.layout)} {b.layout.shape}"
        )

    return rule


def per_partition(role: str, like: str, elements: int = 1) -> Rule:
    """`elements` elements in each of the partitions of `like`."""

    def rule(form: Form, chip: Chip) -> str | None:
        access, other = form.access(role), form.access(like)
        if access is None or other is None:
            return None
        wanted = (other.layout.partitions, elements)
        if (access.layout.partitions, access.layout.elements) == wanted:
            return None
        return f"{role} is {_size(access.layout)}, must be {wanted[0]} partitions of {elements}"

    return rule


def same_dtype(*roles: str) -> Rule:
    """Equal dtypes."""

    def rule(form: Form, chip: Chip) -> str | None:
        accesses = present(form, roles)
        for other in accesses[1:]:
            if other.layout.dtype != accesses[0].layout.dtype:
                return (
                    f"{other.role} is {other.layout.dtype}, "
                    f"{accesses[0].role} is {accesses[0].layout.dtype}: they must be equal"
                )
        return None

    return rule


def dtype_among(role: str, allowed: frozenset[str]) -> Rule:
    """The operand's dtype is one of these."""

    def rule(form: Form, chip: Chip) -> str | None:
        access = form.access(role)
        if access is None or access.layout.dtype in allowed:
            return None
        return f"{role} is {access.layout.dtype}, must be one of {', '.join(sorted(allowed))}"

    return rule


def not_both_psum(first: str, second: str) -> Rule:
    """The engine has one PSUM read port for the two."""

    def rule(form: Form, chip: Chip) -> str | None:
        accesses = present(form, (first, second))
        if len(accesses) < 2 or any(a.layout.memory is not Memory.PSUM for a in accesses):
            return None
        return f"{first} and {second} are both in psum, at most one may be"

    return rule


def elements_between(role: str, low: int, high: int) -> Rule:
    """Bounds on the elements a partition."""

    def rule(form: Form, chip: Chip) -> str | None:
        access = form.access(role)
        if access is None or low <= access.layout.elements <= high:
            return None
        return f"{role} has {access.layout.elements} elements a partition, must be {low} to {high}"

    return rule


def operator(name: str, *, reduction: bool = False, optional: bool = False) -> Rule:
    """The attribute names an ALU operator (legal as a reduction); bit operators need integers."""

    def rule(form: Form, chip: Chip) -> str | None:
        value = form.attribute(name, "")
        if optional and value == "":
            return None
        found = OPERATORS.get(str(value))
        if found is None:
            return f"{name} is {value!r}, known operators: {', '.join(OPERATORS)}"
        if reduction and found.reduce is None:
            return f"{name} is {value!r}, which cannot reduce"
        return _bits_need_integers(form, str(value)) if found.kind == "bits" else None

    return rule


def _bits_need_integers(form: Form, name: str) -> str | None:
    for access in form.accesses:
        if access.layout.dtype in FLOATS:
            return f"{access.role} is {access.layout.dtype}, {name} needs integers"
    return None


def same_kind(first: str, second: str) -> Rule:
    """Two operator attributes are both arithmetic or both on bits."""

    def rule(form: Form, chip: Chip) -> str | None:
        pair = [OPERATORS.get(str(form.attribute(name, ""))) for name in (first, second)]
        kinds = {found.kind for found in pair if found is not None and found.name != "bypass"}
        if len(kinds) < 2:
            return None
        return f"{first} and {second} are {' and '.join(sorted(kinds))} operators, must be one kind"

    return rule


def comparison(name: str) -> Rule:
    """The attribute names a comparison."""
    return among(name, COMPARISONS)


def function(name: str) -> Rule:
    """The attribute names an activation function."""
    return among(name, frozenset(FUNCTIONS))


def among(name: str, allowed: frozenset[str], default: str = "") -> Rule:
    """The attribute's value is one of these."""

    def rule(form: Form, chip: Chip) -> str | None:
        value = form.attribute(name, default)
        if value in allowed:
            return None
        return f"{name} is {value!r}, must be one of {', '.join(sorted(allowed))}"

    return rule


def number_or_operand(name: str, unless: Callable[[Form], bool] = lambda form: False) -> Rule:
    """A scalar comes as a number attribute or as an operand of the same name, not as both."""

    def rule(form: Form, chip: Chip) -> str | None:
        value: AttributeValue | None = form.attribute(name, "")
        operand = form.access(name)
        if value != "" and operand is not None:
            return f"{name} is given as a number and as an operand"
        if value == "" and operand is None and not unless(form):
            return f"{name} is missing"
        return None

    return rule


def is_unary(name: str) -> Callable[[Form], bool]:
    """Whether the operator attribute is absent or takes no second input."""

    def test(form: Form) -> bool:
        found = OPERATORS.get(str(form.attribute(name, "")))
        return found is None or found.unary

    return test


def pattern_covers(role: str) -> Rule:
    """`pattern` is a flat (step, count, …) of up to four pairs over the operand's free elements."""

    def rule(form: Form, chip: Chip) -> str | None:
        pattern, access = form.attribute("pattern", ()), form.access(role)
        if not isinstance(pattern, tuple) or len(pattern) % 2 or not 2 <= len(pattern) <= 8:
            return f"pattern is {pattern!r}, must be 1 to 4 pairs of (step, count)"
        count = math.prod(pattern[1::2])
        if access is None or access.layout.elements == count:
            return None
        return f"pattern has {count} elements, {role} has {access.layout.elements} a partition"

    return rule


def on_engine(engine: Engine, rule: Rule) -> Rule:
    """The rule, where the kernel asked for this engine."""

    def guarded(form: Form, chip: Chip) -> str | None:
        return rule(form, chip) if form.engine is engine else None

    return guarded
