"""Calls whose result depends on the position of an element: iota and the selects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accel.nki.enums import operation_name, reduce_cmd
from accel.nki.objects import NkiInstruction
from accel.nki.operands import READ, WRITE, command, flag, given, integers, number, record, scalar
from accel.nki.recorder import Operand
from accel.nki.tensor import Tensor

FLOAT32_MIN = float(np.finfo(np.float32).min)


def iota(
    dst: Tensor,
    pattern: Sequence[Sequence[int]],
    offset: int = 0,
    channel_multiplier: int = 0,
    name: str | None = None,
) -> NkiInstruction:
    """dst[p, i, …] = offset + p × channel_multiplier + Σ step × index over `[[step, count], …]`."""
    attributes = given(
        channel_multiplier=int(channel_multiplier),
        offset=int(offset),
        pattern=integers(pattern, "pattern"),
    )
    return record("iota", (("dst", WRITE, dst),), attributes)


def affine_select(
    dst: Tensor,
    pattern: Sequence[Sequence[int]],
    channel_multiplier: int,
    on_true_tile: Tensor,
    on_false_value: float,
    cmp_op: object = "equal",
    offset: int = 0,
    name: str | None = None,
) -> NkiInstruction:
    """dst = on_true_tile where the affine value of the position compares true with 0.

    The order of NKI 0.2, in which offset is the third argument, is told by its types.
    """
    if isinstance(on_false_value, Tensor):
        # (dst, pattern, offset, channel_multiplier, on_true_tile, on_false_value[, cmp_op])
        first, step, tile = channel_multiplier, on_true_tile, on_false_value
        value, compared = cmp_op, offset or "equal"
        return affine_select(dst, pattern, step, tile, value, compared, first, name)
    attributes = given(
        channel_multiplier=int(channel_multiplier),
        cmp=operation_name(cmp_op),
        offset=int(offset),
        on_false=number(on_false_value, "on_false_value"),
        pattern=integers(pattern, "pattern"),
    )
    return record(
        "affine_select", (("dst", WRITE, dst), ("on_true", READ, on_true_tile)), attributes
    )


def range_select(
    dst: Tensor,
    on_true_tile: Tensor,
    comp_op0: object,
    comp_op1: object,
    bound0: Tensor,
    bound1: Tensor,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_res: Tensor | None = None,
    reduce_op: object = "maximum",
    range_start: float = 0,
    on_false_value: float = FLOAT32_MIN,
    name: str | None = None,
) -> NkiInstruction:
    """dst = on_true_tile where (index op0 bound0) and (index op1 bound1), else the false value."""
    operands: list[Operand] = [("dst", WRITE, dst)]
    if reduce_res is not None:
        operands.append(("reduce_res", WRITE, reduce_res))
    operands += [
        ("on_true", READ, on_true_tile),
        ("bound0", READ, bound0),
        ("bound1", READ, bound1),
    ]
    attributes = given(
        comp_op0=operation_name(comp_op0),
        comp_op1=operation_name(comp_op1),
        on_false=number(on_false_value, "on_false_value"),
        range_start=number(range_start, "range_start"),
        reduce_cmd=command(reduce_cmd, ""),
        reduce_op=operation_name(reduce_op),
    )
    return record("range_select", operands, attributes)


def select_reduce(
    dst: Tensor,
    predicate: Tensor,
    on_true: Tensor,
    on_false: Tensor | float,
    reduce_res: Tensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_op: object = "maximum",
    reverse_pred: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """dst = on_true where predicate is not 0, else on_false."""
    operands: list[Operand] = [
        ("dst", WRITE, dst),
        ("predicate", READ, predicate),
        ("on_true", READ, on_true),
    ]
    value = scalar(operands, "on_false", on_false)
    if reduce_res is not None:
        operands.append(("reduce_res", WRITE, reduce_res))
    told = command(reduce_cmd, "idle")
    attributes = given(
        on_false=value,
        reduce_cmd=told,
        reduce_op=None if told is None else operation_name(reduce_op),
        reverse_pred=flag(reverse_pred),
    )
    return record("select", operands, attributes)
