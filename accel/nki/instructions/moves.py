"""Calls that move or fill: DMA transfers, copies, memset, copies under a predicate."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from accel.dtypes import FLOATS, PACKED, numpy_dtype
from accel.errors import KernelError
from accel.isa.copies import SOURCES
from accel.isa.values import integer_bounds
from accel.nki.enums import dge_mode, engine, member, oob_mode, operation_name
from accel.nki.objects import NkiInstruction
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
    dst_rmw_op: object = None,
    unique_indices: bool = True,
) -> NkiInstruction:
    """dst = src between HBM and SBUF, cast through float32 where the dtypes differ.

    `dst_rmw_op` (NKI 0.2): dst = dst op src, which is `dma_compute` since.
    """
    if dst_rmw_op is not None:
        both = (src, dst)
        return dma_compute(dst, both, dst_rmw_op, unique_indices=unique_indices, oob_mode=oob_mode)
    operands = (("dst", WRITE, dst), ("src", READ, src))
    return record("dma_copy", operands, _modes(dge_mode, oob_mode), engine)


def _oob(mode: oob_mode) -> oob_mode:
    return member(oob_mode, mode)


@functools.cache
def _modes(dge: dge_mode, oob: oob_mode) -> Attributes:
    dge, oob = member(dge_mode, dge), _oob(oob)
    return given(
        dge_mode=None if dge.value == "unknown" else dge.value,
        oob_mode=None if oob.value == "error" else oob.value,
    )


def dma_compute(
    dst: Tensor,
    srcs: Sequence[Tensor],
    reduce_op: object = None,
    scales: object = None,
    unique_indices: bool = True,
    oob_mode: oob_mode = oob_mode.error,
    name: str | None = None,
) -> NkiInstruction:
    """dst = the sum of up to 16 tensors, in float32 by the DMA engines.

    With a vector of indices: dst += a source, gathering it or scattering to dst. The order of
    `reduce_op` and `scales` in NKI 0.2 is accepted too.
    """
    if isinstance(reduce_op, Sequence) and not isinstance(reduce_op, str):
        reduce_op, scales = scales, reduce_op
    factors: tuple[object, ...] = tuple(scales) if isinstance(scales, Sequence) else ()
    if any(factor != 1 for factor in factors) or (factors and len(factors) != len(srcs)):
        raise KernelError(f"dma_compute: scales are {factors}, each source takes 1.0")
    if not 2 <= len(srcs) <= len(SOURCES):
        raise KernelError(
            f"dma_compute: {len(srcs)} sources, takes 2 to {len(SOURCES)}",
            "to add to dst, give dst among the sources",
        )
    if not unique_indices:
        raise KernelError("dma_compute: unique_indices is false, only unique ones are supported")
    operands: list[Operand] = [("dst", WRITE, dst)]
    operands += [(role, READ, src) for role, src in zip(SOURCES, srcs, strict=False)]
    mode = _oob(oob_mode).value
    attributes = given(oob_mode=None if mode == "error" else mode, op=operation_name(reduce_op))
    return record("dma_compute", operands, attributes)


def dma_transpose(
    dst: Tensor,
    src: Tensor,
    axes: Sequence[int] | None = None,
    priority: int | None = None,
    dge_mode: dge_mode = dge_mode.unknown,
    oob_mode: oob_mode = oob_mode.error,
    name: str | None = None,
) -> NkiInstruction:
    """dst = src with its axes permuted; without `axes` the outermost and the innermost swap."""
    order = None if axes is None else integers(axes, "axes")
    operands = (("dst", WRITE, dst), ("src", READ, src))
    return record("dma_transpose", operands, given(axes=order) + _modes(dge_mode, oob_mode))


def tensor_copy(
    dst: Tensor,
    src: Tensor,
    dtype: object = None,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """dst = src, cast to dst's dtype; `dtype` is accepted for older kernels."""
    return record("tensor_copy", (("dst", WRITE, dst), ("src", READ, src)), (), engine)


def memset(
    dst: Tensor,
    value: float,
    dtype: object = None,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """Every element of dst = value."""
    whole = isinstance(value, int) and dst.dtype not in FLOATS
    filled = number(value, "value", bits=whole)
    if whole:
        _check_range(int(value), dst.dtype)
    return record("memset", (("dst", WRITE, dst),), (("value", filled),), engine)


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
) -> NkiInstruction:
    """dst = src where predicate is not 0 (with `reverse_pred`: where it is 0)."""
    operands: list[Operand] = [("dst", WRITE, dst)]
    value = scalar(operands, "src", src)
    operands.append(("predicate", READ, predicate))
    attributes = given(reverse_pred=flag(reverse_pred), value=value)
    return record("tensor_copy_predicated", operands, attributes)


def nc_stream_shuffle(
    dst: Tensor, src: Tensor, shuffle_mask: Sequence[int], name: str | None = None
) -> NkiInstruction:
    """Partition p of each 32 = partition shuffle_mask[p] of src's 32; 255 keeps dst."""
    mask = integers(shuffle_mask, "shuffle_mask")
    return record("nc_stream_shuffle", (("dst", WRITE, dst), ("src", READ, src)), (("mask", mask),))
