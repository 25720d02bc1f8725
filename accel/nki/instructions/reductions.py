"""Calls that reduce over free axes or over partitions, and the statistics instructions."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from accel.errors import KernelError
from accel.nki.enums import operation_name, reduce_cmd
from accel.nki.objects import NkiInstruction
from accel.nki.operands import READ, WRITE, Scalar, command, flag, given, integers, record, scalar
from accel.nki.recorder import Operand
from accel.nki.tensor import Tensor


def tensor_reduce(
    dst: Tensor,
    op: object,
    data: Tensor,
    axis: int | Sequence[int],
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """dst = op over the trailing free axes `axis` of data, times −1 with `negate`."""
    attributes = given(
        axis=_axes(axis, data.ndim),
        keepdims=flag(keepdims),
        negate=flag(negate),
        op=operation_name(op),
    )
    return record("tensor_reduce", (("dst", WRITE, dst), ("data", READ, data)), attributes)


def _axes(axis: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    axes = tuple(sorted(n + ndim if n < 0 else n for n in integers(axis, "axis")))
    if axes != tuple(range(ndim - len(axes), ndim)) or 0 in axes:
        raise KernelError(
            f"tensor_reduce: axis is {axes} of {ndim} axes, needs the last free ones",
            "permute the free axes of data so that the reduced ones come last",
        )
    return axes


def tensor_scalar_reduce(
    dst: Tensor,
    data: Tensor,
    op0: object,
    operand0: Scalar,
    reduce_op: object,
    reduce_res: Tensor | None = None,
    reverse0: bool = False,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_init: Scalar | None = None,
    reduce_res_negate: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """dst = data op0 operand0; reduce_res = reduce_op over the free axes of dst."""
    operands: list[Operand] = [("dst", WRITE, dst)]
    if reduce_res is not None:
        operands.append(("reduce_res", WRITE, reduce_res))
    operands.append(("data", READ, data))
    value0 = scalar(operands, "operand0", operand0)
    start = scalar(operands, "reduce_init", reduce_init)
    attributes = given(
        op0=operation_name(op0),
        operand0=value0,
        reduce_cmd=command(reduce_cmd, "reset_reduce"),
        reduce_init=start,
        reduce_op=operation_name(reduce_op),
        reduce_res_negate=flag(reduce_res_negate),
        reverse0=flag(reverse0),
    )
    return record("tensor_scalar_reduce", operands, attributes)


def tensor_scalar_cumulative(
    dst: Tensor,
    src: Tensor,
    op0: object,
    op1: object,
    imm0: Scalar,
    imm1: Scalar | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    name: str | None = None,
) -> NkiInstruction:
    """dst[:, i] = (src[:, i] op0 imm0) op1 dst[:, i − 1], starting from the accumulators."""
    operands: list[Operand] = [("dst", WRITE, dst), ("src", READ, src)]
    value0 = scalar(operands, "operand0", imm0)
    start = scalar(operands, "reduce_init", imm1)
    attributes = given(
        op0=operation_name(op0),
        op1=operation_name(op1),
        operand0=value0,
        reduce_cmd=command(reduce_cmd, "reset_reduce"),
        reduce_init=start,
    )
    return record("tensor_scalar_cumulative", operands, attributes)


def tensor_partition_reduce(
    dst: Tensor, op: object, data: Tensor, name: str | None = None
) -> NkiInstruction:
    """dst[0] = op over the partitions of data."""
    operands = (("dst", WRITE, dst), ("data", READ, data))
    return record("tensor_partition_reduce", operands, (("op", operation_name(op)),))


def bn_stats(dst: Tensor, data: Tensor, name: str | None = None) -> NkiInstruction:
    """Six statistics a partition of up to 512 elements."""
    return record("bn_stats", (("dst", WRITE, dst), ("data", READ, data)))


def bn_aggr(dst: Tensor, data: Tensor, name: str | None = None) -> NkiInstruction:
    """Mean and variance a partition from several `bn_stats` results."""
    return record("bn_aggr", (("dst", WRITE, dst), ("data", READ, data)))


def max8(dst: Tensor, src: Tensor, name: str | None = None) -> NkiInstruction:
    """The eight largest elements of each partition, largest first."""
    return record("max8", (("dst", WRITE, dst), ("src", READ, src)))


def nc_find_index8(
    dst: Tensor, data: Tensor, vals: Tensor, name: str | None = None
) -> NkiInstruction:
    """Position in data of each of eight values a partition."""
    return record(
        "nc_find_index8", (("dst", WRITE, dst), ("data", READ, data), ("vals", READ, vals))
    )


def nc_match_replace8(
    dst: Tensor,
    data: Tensor,
    vals: Tensor,
    imm: float,
    dst_idx: Tensor | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """dst = data with the first match of each of eight values replaced by `imm`."""
    operands: list[Operand] = [("dst", WRITE, dst)]
    if dst_idx is not None:
        operands.append(("dst_idx", WRITE, dst_idx))
    operands += [("data", READ, data), ("vals", READ, vals)]
    return record("nc_match_replace8", operands, (("imm", float(imm)),))


def nc_n_gather(
    dst: Tensor, data: Tensor, indices: Tensor, name: str | None = None
) -> NkiInstruction:
    """dst[p, i] = data[p, indices[p, i]]."""
    operands = (("dst", WRITE, dst), ("data", READ, data), ("indices", READ, indices))
    return record("nc_n_gather", operands)


def local_gather(
    dst: Tensor,
    src_buffer: Tensor,
    index: Tensor,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Gathers groups of elements of 16 partitions by the indices those partitions hold."""
    operands = (("dst", WRITE, dst), ("src_buffer", READ, src_buffer), ("index", READ, index))
    attributes = given(
        num_elem_per_idx=None if num_elem_per_idx == 1 else int(num_elem_per_idx),
        num_valid_indices=None if num_valid_indices is None else int(num_valid_indices),
    )
    return record("local_gather", operands, attributes)


def sequence_bounds(dst: Tensor, segment_ids: Tensor, name: str | None = None) -> NkiInstruction:
    """Start and end of the segment that each element belongs to."""
    return record("sequence_bounds", (("dst", WRITE, dst), ("segment_ids", READ, segment_ids)))


def nonzero_with_count(
    dst: Tensor,
    src: Tensor,
    index_offset: int = 0,
    padding_val: int = -1,
    name: str | None = None,
) -> NkiInstruction:
    """Positions of the elements that are not 0, padding, then their count; partition 0 of each 16.

    dst has one element a partition more than src.
    """
    attributes = given(
        index_offset=operator.index(index_offset) or None,
        padding_val=None if padding_val == -1 else operator.index(padding_val),
    )
    return record("nonzero_with_count", (("dst", WRITE, dst), ("src", READ, src)), attributes)


def topk(
    val_dst: Tensor, idx_dst: Tensor, src: Tensor, n: int, name: str | None = None
) -> NkiInstruction:
    """The largest elements, and their positions, of the n that each 16 partitions hold."""
    operands = (("val_dst", WRITE, val_dst), ("idx_dst", WRITE, idx_dst), ("src", READ, src))
    return record("topk", operands, (("n", operator.index(n)),))
