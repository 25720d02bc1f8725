"""Calls that move or fill: DMA transfers, copies, memset, copies under a predicate."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from accel.dtypes import FLOATS, PACKED, numpy_dtype
from accel.errors import KernelError
from accel.isa.values import integer_bounds
from accel.nki.enums import dge_mode, engine, oob_mode
from accel.nki.operands import READ, WRITE, flag, given, integers, number, record, scalar
from accel.nki.recorder import Attributes, Operand
from accel.nki.tensor import Tensor


def dma_copy(
    dst: Tensor,
    src: Tensor,
    priority: int | None = None,
    oob_mode: oob_mode = oob_mode.error,
    dge_mode: dge_mode = dge_mode.unknown,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> None:
    """dst = src between HBM and SBUF, cast through float32 where the dtypes differ."""
    operands: list[Operand] = [("dst", WRITE, dst), ("src", READ, src)]
    extra: Attributes = ()
    if dst.indirect is not None or src.indirect is not None:
        extra = _indirect(operands, dst, src, oob_mode)
    record("dma_copy", operands, _dge(dge_mode) + extra, engine)


def _indirect(operands: list[Operand], dst: Tensor, src: Tensor, oob: oob_mode) -> Attributes:
    if dst.indirect is not None and src.indirect is not None:
        raise KernelError("dma_copy: both dst and src are indirect, only one may be")
    where = dst.indirect or src.indirect
    assert where is not None
    operands.append(("index", READ, where.index))
    return given(
        axis=where.axis,
        indirect="dst" if dst.indirect is not None else "src",
        oob_mode=None if oob is oob_mode.error else oob.value,
    )


@functools.cache
def _dge(mode: dge_mode) -> Attributes:
    return given(dge_mode=None if mode is dge_mode.unknown else mode.value)


def dma_transpose(
    dst: Tensor,
    src: Tensor,
    axes: Sequence[int] | None = None,
    priority: int | None = None,
    dge_mode: dge_mode = dge_mode.unknown,
    oob_mode: oob_mode = oob_mode.error,
    name: str | None = None,
) -> None:
    """dst = src with its axes permuted; without `axes` the outermost and the innermost swap."""
    order = None if axes is None else integers(axes, "axes")
    operands = (("dst", WRITE, dst), ("src", READ, src))
    record("dma_transpose", operands, given(axes=order) + _dge(dge_mode))


def tensor_copy(
    dst: Tensor,
    src: Tensor,
    dtype: object = None,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> None:
    """dst = src, cast to dst's dtype; `dtype` is accepted for older kernels."""
    record("tensor_copy", (("dst", WRITE, dst), ("src", READ, src)), (), engine)


def memset(
    dst: Tensor,
    value: float,
    dtype: object = None,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> None:
    """Every element of dst = value."""
    whole = isinstance(value, int) and dst.dtype not in FLOATS
    filled = number(value, "value", bits=whole)
    if whole:
        _check_range(int(value), dst.dtype)
    record("memset", (("dst", WRITE, dst),), (("value", filled),), engine)


def _check_range(value: int, dtype: str) -> None:
    if dtype in PACKED and value:
        raise KernelError(f"memset: value is {value}, {dtype} is filled with 0 only")
    if dtype in PACKED or dtype == "bool_":
        return
    low, high = integer_bounds(numpy_dtype(dtype))
    if not low <= value <= high:
        raise KernelError(
            f"memset: value is {value}, {dtype} holds {low} to {high}",
            "fill with a number that the dtype holds",
        )


def tensor_copy_predicated(
    dst: Tensor,
    src: Tensor | float,
    predicate: Tensor,
    reverse_pred: bool = False,
    name: str | None = None,
) -> None:
    """dst = src where predicate is not 0 (with `reverse_pred`: where it is 0)."""
    operands: list[Operand] = [("dst", WRITE, dst)]
    value = scalar(operands, "src", src)
    operands.append(("predicate", READ, predicate))
    attributes = given(reverse_pred=flag(reverse_pred), value=value)
    record("tensor_copy_predicated", operands, attributes)


def nc_stream_shuffle(
    dst: Tensor, src: Tensor, shuffle_mask: Sequence[int], name: str | None = None
) -> None:
    """Partition p of each 32 = partition shuffle_mask[p] of src's 32; 255 keeps dst."""
    mask = integers(shuffle_mask, "shuffle_mask")
    record("nc_stream_shuffle", (("dst", WRITE, dst), ("src", READ, src)), (("mask", mask),))
