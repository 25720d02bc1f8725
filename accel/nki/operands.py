"""What every instruction call does with its arguments before it is recorded.

Numbers become floats (integers stay integers where bits matter), so that 1 and 1.0 give one form;
attributes that have their default are left out, so that programs stay readable.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

from accel.errors import KernelError
from accel.isa import OPERATORS
from accel.isa.indirect import INDEX
from accel.nki.enums import engine, member, reduce_cmd
from accel.nki.objects import NkiInstruction
from accel.nki.recorder import Attributes, Operand, current
from accel.nki.tensor import EmptyView, Tensor
from accel.program import AttributeValue, Engine, Mode

READ, WRITE, ACCUMULATE = Mode.READ, Mode.WRITE, Mode.ACCUMULATE

Scalar = float | Tensor
AnyEngine = Engine.ANY


def record(
    op: str, operands: Sequence[Operand], attributes: Attributes = (), on: engine = engine.unknown
) -> NkiInstruction:
    """Emits into the kernel being recorded; operands that are not tensors are errors."""
    plain = True
    for role, _, tensor in operands:
        if not isinstance(tensor, Tensor):
            got = repr(tensor) if isinstance(tensor, EmptyView) else type(tensor).__name__
            raise KernelError(f"{op}: {role} is {got}, needs a tensor")
        if tensor.chosen is not None:
            plain = False
    if not plain:
        operands, attributes = _with_indices(operands, attributes)
    requested = AnyEngine if on is engine.unknown or on is None else _engine(op, on)
    return NkiInstruction(current().emit(op, requested, operands, attributes))


def direct(call: str, role: str, tensor: object) -> Tensor:
    """An operand of a call that cores or ranks make together, where no index may say what it is."""
    if not isinstance(tensor, Tensor):
        got = repr(tensor) if isinstance(tensor, EmptyView) else type(tensor).__name__
        raise KernelError(f"{call}: {role} is {got}, needs a tensor")
    if tensor.is_indirect():
        raise KernelError(
            f"{call}: {role} is a view of {tensor.name} that finds its place by an index tile",
            "copy it to a tensor of its own first",
        )
    return tensor


def _with_indices(
    operands: Sequence[Operand], attributes: Attributes
) -> tuple[list[Operand], Attributes]:
    """Indirect operands followed by their index tiles, and what the indices mean."""
    result: list[Operand] = []
    extra: list[tuple[str, AttributeValue]] = []
    for role, mode, tensor in operands:
        result.append((role, mode, tensor))
        if tensor.chosen is not None:
            result.append((role + INDEX, READ, tensor.chosen.tile))
            extra.append((role + INDEX, str(tensor.chosen.meaning)))
    return result, tuple(sorted((*attributes, *extra)))


def _engine(op: str, on: engine) -> Engine:
    value = member(engine, on).value
    if not isinstance(value, Engine):
        raise KernelError(f"{op}: engine is {on!r}, needs a member of nisa.engine")
    return value


def command(value: object, default: str) -> str | None:
    """What to do with the accumulator registers, or None for the default."""
    name = str(member(reduce_cmd, value).value)
    return None if name == default else name


def given(**values: AttributeValue | None) -> Attributes:
    """The attributes that have a value. Callers write them in alphabetical order."""
    return tuple((name, value) for name, value in values.items() if value is not None)


def flag(value: object) -> bool | None:
    """True, or None for the default."""
    return True if value else None


def number(value: object, what: str, bits: bool = False) -> float | int:
    """A float, or an integer where the operation works on bits. Instructions are recognised by
    their numbers, so −0.0 becomes 0.0, which it equals, and NaN the one NaN that equals itself.
    """
    try:
        if bits:
            return operator.index(value)  # type: ignore[arg-type]
        result = float(value) + 0.0  # type: ignore[arg-type]
        return math.nan if math.isnan(result) else result
    except (TypeError, ValueError):
        raise KernelError(f"{what} is {type(value).__name__}, needs a number or a tile") from None


def scalar(
    operands: list[Operand], role: str, value: object, bits: bool = False
) -> float | int | None:
    """A per-partition tile becomes an operand, a number is returned as an attribute."""
    if value is None:
        return None
    if isinstance(value, Tensor):
        operands.append((role, READ, value))
        return None
    return number(value, role, bits)


def works_on_bits(name: str) -> bool:
    """Whether an operator's operands are integers."""
    found = OPERATORS.get(name)
    return found is not None and found.kind == "bits"


def integers(values: object, what: str) -> tuple[int, ...]:
    """A flat tuple of ints from an int or nested sequences of ints."""
    if isinstance(values, Sequence):
        return tuple(n for value in values for n in integers(value, what))
    try:
        return (operator.index(values),)  # type: ignore[arg-type]
    except TypeError:
        raise KernelError(f"{what} is {type(values).__name__}, needs ints") from None
