"""Calls whose result depends on the position of an element."""

from __future__ import annotations

from accel.errors import KernelError
from accel.nki import isa as new
from accel.nki.enums import reduce_cmd
from accel.nki.instructions.patterns import FLOAT32_MIN
from accel.nki.legacy import lowering
from accel.nki.legacy.index import UNUSED, Index, Mask
from accel.nki.legacy.session import session
from accel.nki.legacy.tile import (
    DType,
    Number,
    Tile,
    box_of,
    column,
    issue,
    kind_of,
    unmasked,
)


def affine_select(
    pred: Mask,
    on_true_tile: Tile,
    on_false_value: Number,
    *,
    mask: Mask | bool | None = None,
    dtype: DType | None = None,
    **_: object,
) -> Tile:
    """on_true_tile where the one affine condition `pred` holds, else a number."""
    if not isinstance(pred, Mask) or len(pred.conditions) != 1:
        raise KernelError("affine_select: pred must be one comparison of index expressions")
    shape, condition = on_true_tile.shape, pred.conditions[0]
    axes = (UNUSED,) * (len(shape) - len(condition.axes)) + condition.axes
    (channel, _size), *free = axes
    return issue(
        new.affine_select,
        shape,
        kind_of(dtype, on_true_tile.kind),
        box=box_of(mask, shape),
        pattern=tuple((step, n) for (step, _), n in zip(free, shape[1:], strict=True)),
        channel_multiplier=channel,
        on_true_tile=lowering.in_sbuf(session(), on_true_tile.tensor),
        on_false_value=on_false_value,
        cmp_op="greater_equal",
        offset=condition.base,
    )


def iota(expr: Index, dtype: DType, *, mask: Mask | bool | None = None, **_: object) -> Tile:
    """The values of an index expression as a tile."""
    axes = expr.axes if len(expr.axes) > 1 else (*expr.axes, UNUSED)
    (channel, partitions), *free = axes
    shape = (partitions, *(size for _, size in free))
    return issue(
        new.iota,
        shape,
        kind_of(dtype, "int32"),
        box=box_of(mask, shape),
        pattern=tuple(free),
        offset=expr.base,
        channel_multiplier=channel,
    )


def range_select(
    *,
    on_true_tile: Tile,
    comp_op0: object,
    comp_op1: object,
    bound0: Tile,
    bound1: Tile,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_res: Tile | None = None,
    reduce_op: object = "maximum",
    range_start: float = 0,
    on_false_value: float = FLOAT32_MIN,
    dtype: DType | None = None,
    **options: object,
) -> Tile:
    """on_true_tile where the column lies in the range of its partition, else a number."""
    unmasked("range_select", options, on_true_tile.shape)
    return issue(
        new.range_select,
        on_true_tile.shape,
        kind_of(dtype, on_true_tile.kind),
        on_true_tile=on_true_tile,
        comp_op0=comp_op0,
        comp_op1=comp_op1,
        bound0=column(bound0),
        bound1=column(bound1),
        reduce_cmd=reduce_cmd,
        reduce_res=column(reduce_res),
        reduce_op=reduce_op,
        range_start=range_start,
        on_false_value=on_false_value,
    )
