"""Functions of the older language that no one instruction computes as it is called.

Softmax, norms, moments, rounding, where. How the compiler of that language expanded them is not
published for all: values are exact, the instructions are the fewest we know.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from accel.errors import KernelError
from accel.nki.enums import reduce_cmd
from accel.nki.instructions.elementwise import activation
from accel.nki.instructions.moves import tensor_copy
from accel.nki.instructions.patterns import select_reduce
from accel.nki.instructions.reductions import nc_n_gather
from accel.nki.jit import tensor_values
from accel.nki.legacy import isa, lowering
from accel.nki.legacy.index import Mask
from accel.nki.legacy.session import session
from accel.nki.legacy.tile import (
    DType,
    Operated,
    Tile,
    binary,
    box_of,
    broadcast,
    issue,
    joint_shape,
    kind_of,
    unmasked,
)
from accel.nki.tiles import promoted
from accel.program import Memory

Axes = int | Sequence[int]


def where(
    condition: Tile, x: Operated, y: Operated, dtype: DType | None, mask: Mask | bool | None
) -> Tile:
    """x where condition is not 0, else y: one select, branches exchanged if x is a number."""
    chosen, other, reverse = (x, y, False) if isinstance(x, Tile) else (y, x, True)
    if not isinstance(chosen, Tile):
        raise KernelError("where: needs a tile, got two numbers")
    tiles = [part for part in (condition, chosen, other) if isinstance(part, Tile)]
    shape = joint_shape("where", *(tile.shape for tile in tiles))
    default = promoted(chosen.kind, other.kind) if isinstance(other, Tile) else chosen.kind
    return issue(
        select_reduce,
        shape,
        kind_of(dtype, default),
        box=box_of(mask, shape),
        predicate=broadcast(_whole_number(condition).tensor, shape),
        on_true=broadcast(chosen.tensor, shape),
        on_false=broadcast(other.tensor, shape) if isinstance(other, Tile) else other,
        reverse_pred=reverse,
    )


def _whole_number(condition: Tile) -> Tile:
    """Predicates are integers; a float condition becomes one."""
    if condition.kind.startswith(("uint", "int", "bool")):
        return condition
    return binary("not_equal", condition, 0.0)


def mean(
    x: Tile,
    axis: Axes,
    *,
    dtype: DType | None = None,
    mask: Mask | bool | None = None,
    keepdims: bool = False,
    **_: object,
) -> Tile:
    """The sum over free axes ÷ their extent."""
    total = isa.tensor_reduce("add", x, axis, dtype="float32", mask=mask, keepdims=keepdims)
    return binary("multiply", total, 1.0 / _extent(x, axis), dtype=kind_of(dtype, x.kind))


def var(
    x: Tile, axis: Axes, *, dtype: DType | None = None, mask: Mask | bool | None = None, **_: object
) -> Tile:
    """The mean over free axes of the squared distance from their mean."""
    centred = binary("subtract", x, mean(x, axis, dtype="float32", keepdims=True, mask=mask))
    square = binary("multiply", centred, centred, dtype="float32")
    return mean(square, axis, dtype=kind_of(dtype, x.kind), mask=mask)


def _extent(x: Tile, axis: Axes) -> int:
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    extent = 1
    for n in axes:
        extent *= x.shape[n]
    return extent


def softmax(
    x: Tile, axis: Axes, *, dtype: DType | None = None, mask: Mask | bool | None = None, **_: object
) -> Tile:
    """exp(x − max) ÷ its sum over the free axes, which `axis` must all name."""
    _all_free(x, axis, "softmax")
    lowest = isa.tensor_reduce("maximum", x, axis, negate=True, dtype="float32", mask=mask)
    sums = Tile(session().allocate((x.shape[0], 1), "float32", Memory.SBUF))
    powers = isa.activation(
        "exp",
        x,
        bias=lowest,
        reduce_op="add",
        reduce_res=sums,
        reduce_cmd=reduce_cmd.reset_reduce,
        dtype="float32",
        mask=mask,
    )
    inverse = isa.reciprocal(sums)
    return isa.tensor_scalar(powers, "multiply", inverse, dtype=kind_of(dtype, x.kind), mask=mask)


def rms_norm(
    x: Tile,
    w: Tile,
    axis: Axes,
    n: int,
    epsilon: float = 1e-06,
    *,
    dtype: DType | None = None,
    mask: Mask | bool | None = None,
    **_: object,
) -> Tile:
    """x ÷ sqrt(Σ x² ÷ n + epsilon) × w over the free axes."""
    _all_free(x, axis, "rms_norm")
    squares = isa.activation("square", x, dtype="float32", mask=mask)
    total = isa.tensor_reduce("add", squares, axis, mask=mask)
    scaled = isa.tensor_scalar(total, "multiply", 1.0 / n, op1="add", operand1=epsilon)
    root = isa.activation("rsqrt", scaled)
    normed = isa.tensor_scalar(x, "multiply", root, dtype="float32", mask=mask)
    return binary("multiply", normed, w, dtype=kind_of(dtype, x.kind), mask=mask)


def _all_free(x: Tile, axis: Axes, what: str) -> None:
    axes = {n % x.ndim for n in ((axis,) if isinstance(axis, int) else axis)}
    if axes != set(range(1, x.ndim)):
        raise KernelError(f"{what}: axis {axis} of {x.ndim} axes, needs every free axis")


def floor(
    x: Tile, *, dtype: DType | None = None, mask: Mask | bool | None = None, **_: object
) -> Tile:
    """x − (x mod 1)."""
    rest = isa.tensor_scalar(x, "mod", 1.0, dtype="float32", mask=mask)
    return binary("subtract", x, rest, dtype=kind_of(dtype, x.kind), mask=mask)


def ceil(
    x: Tile, *, dtype: DType | None = None, mask: Mask | bool | None = None, **_: object
) -> Tile:
    """x + (−x mod 1)."""
    rest = isa.tensor_scalar(
        x, "multiply", -1.0, op1="mod", operand1=1.0, dtype="float32", mask=mask
    )
    return binary("add", x, rest, dtype=kind_of(dtype, x.kind), mask=mask)


def trunc(
    x: Tile, *, dtype: DType | None = None, mask: Mask | bool | None = None, **_: object
) -> Tile:
    """x − sign(x) (|x| mod 1)."""
    rest = isa.tensor_scalar(x, "abs", 0.0, op1="mod", operand1=1.0, dtype="float32", mask=mask)
    sign = isa.activation("sign", x, dtype="float32", mask=mask)
    signed = binary("multiply", rest, sign, mask=mask)
    return binary("subtract", x, signed, dtype=kind_of(dtype, x.kind), mask=mask)


def fmod(
    x: Operated,
    y: Operated,
    dtype: DType | None = None,
    mask: Mask | bool | None = None,
    **_: object,
) -> Tile:
    """Remainder of x ÷ y with the sign of x."""
    kinds = [value.kind for value in (x, y) if isinstance(value, Tile)]
    if not kinds:
        raise KernelError("fmod: needs a tile, got two numbers")
    kind = kind_of(dtype, promoted(kinds[0], kinds[-1]))
    rest = binary("mod", _magnitude(x), _magnitude(y), dtype="float32", mask=mask)
    if not isinstance(x, Tile):
        return binary("multiply", rest, math.copysign(1.0, x), dtype=kind, mask=mask)
    sign = isa.activation("sign", x, dtype="float32", mask=mask)
    return binary("multiply", rest, sign, dtype=kind, mask=mask)


def _magnitude(value: Operated) -> Operated:
    if isinstance(value, Tile):
        return isa.tensor_scalar(value, "abs", 0.0, dtype="float32")
    return abs(value)


def cos(
    x: Tile, *, dtype: DType | None = None, mask: Mask | bool | None = None, **_: object
) -> Tile:
    """The sine a quarter turn on."""
    kind, box = kind_of(dtype, x.kind), box_of(mask, x.shape)
    return issue(activation, x.shape, kind, box=box, op="sin", data=x, bias=math.pi / 2)


def tan(
    x: Tile, *, dtype: DType | None = None, mask: Mask | bool | None = None, **_: object
) -> Tile:
    """The sine ÷ the cosine."""
    sine = isa.activation("sin", x, dtype="float32", mask=mask)
    cosine = cos(x, dtype="float32", mask=mask)
    return binary("divide", sine, cosine, dtype=kind_of(dtype, x.kind), mask=mask)


def gather_flattened(
    data: Tile, indices: Tile, *, dtype: DType | None = None, **options: object
) -> Tile:
    """data[p, indices[p, …]]: in each partition the elements at positions of the free axes."""
    unmasked("gather_flattened", options, indices.shape)
    shape, rows = indices.shape, lowering.flattened(data.tensor)
    places = lowering.flattened(indices.tensor)
    found = issue(nc_n_gather, places.shape, data.kind, data=rows, indices=places)
    if kind_of(dtype, data.kind) != data.kind:
        found = issue(tensor_copy, places.shape, kind_of(dtype, ""), src=found)
    return found if shape == places.shape else found.reshape(shape)


def device_print(prefix: str, x: Tile) -> None:
    """Prints the tile's values in evaluate mode; nothing in trace mode."""
    values, tensor = session().recorder.values, x.tensor
    if values is not None:
        print(prefix, tensor_values(values.array(tensor.storage), tensor))
