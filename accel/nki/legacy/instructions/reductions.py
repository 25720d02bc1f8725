"""Calls that reduce over free axes or partitions, and the statistics instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from accel.errors import KernelError
from accel.nki import isa as new
from accel.nki.legacy.index import Mask, Window
from accel.nki.legacy.session import session
from accel.nki.legacy.tile import (
    Box,
    DType,
    Operated,
    Tile,
    box_of,
    column,
    issue,
    kind_of,
    unmasked,
)
from accel.nki.legacy.views import clipped, permuted
from accel.nki.tensor import Tensor

Extent = TypeVar("Extent", int, Window)


def bn_stats(
    data: Tile, *, mask: Mask | bool | None = None, dtype: DType | None = None, **_: object
) -> Tile:
    """Six statistics a partition of up to 512 elements."""
    return _per_partition(new.bn_stats, data, 6, kind_of(dtype, data.kind), mask)


def bn_aggr(
    data: Tile, *, mask: Mask | bool | None = None, dtype: DType | None = None, **_: object
) -> Tile:
    """Mean and variance a partition from several `bn_stats` results."""
    return _per_partition(new.bn_aggr, data, 2, kind_of(dtype, data.kind), mask)


def _per_partition(
    call: Callable[..., object], data: Tile, width: int, kind: str, mask: Mask | bool | None
) -> Tile:
    """An instruction with `width` results a partition, on the part of data inside the mask."""
    box = box_of(mask, data.shape)
    source = data.within(box)
    if box is None:
        return issue(call, (data.shape[0], width), kind, data=source)
    result = issue(call, (data.shape[0], width), kind, data=clipped(source, box))
    return _within(result, (box[0], (0, width)), box)


def max8(
    *, src: Tile, mask: Mask | bool | None = None, dtype: DType | None = None, **_: object
) -> Tile:
    """The eight largest elements of each partition, largest first."""
    return _per_partition(_max8, src, 8, kind_of(dtype, src.kind), mask)


def _max8(dst: Tensor, data: Tensor) -> None:
    new.max8(dst, src=data)


def nc_find_index8(
    *, data: Tile, vals: Tile, dtype: DType | None = None, **options: object
) -> Tile:
    """Position in data of each of eight values a partition."""
    unmasked("nc_find_index8", options, data.shape)
    shape, kind = (data.shape[0], 8), kind_of(dtype, "uint32")
    return issue(new.nc_find_index8, shape, kind, data=data, vals=vals)


def nc_match_replace8(
    *,
    data: Tile,
    vals: Tile,
    imm: float,
    dst_idx: Tile | None = None,
    dtype: DType | None = None,
    **options: object,
) -> Tile:
    """data with the first match of each of eight values a partition replaced by `imm`."""
    unmasked("nc_match_replace8", options, data.shape)
    kind = kind_of(dtype, data.kind)
    return issue(
        new.nc_match_replace8, data.shape, kind, data=data, vals=vals, imm=imm, dst_idx=dst_idx
    )


def tensor_partition_reduce(
    op: object, data: Tile, *, dtype: DType | None = None, **options: object
) -> Tile:
    """op over the partitions of data."""
    unmasked("tensor_partition_reduce", options, data.shape)
    shape = (1, *data.shape[1:])
    return issue(new.tensor_partition_reduce, shape, kind_of(dtype, data.kind), op=op, data=data)


def tensor_reduce(
    op: object,
    data: Tile,
    axis: int | Sequence[int],
    *,
    mask: Mask | bool | None = None,
    dtype: DType | None = None,
    negate: bool = False,
    keepdims: bool = False,
    **_: object,
) -> Tile:
    """op over free axes, which any permutation of the free axes can bring to the end."""
    axes, box = _free_axes(axis, data.ndim), box_of(mask, data.shape)
    source = data.within(box)
    kept = [n for n in range(data.ndim) if n not in axes]
    if kept + axes != list(range(data.ndim)):
        source = permuted(source, kept + axes)
    order = [*kept, *axes]
    result = issue(
        new.tensor_reduce,
        tuple(_reduced(data.shape, axes, 1, keepdims)),
        kind_of(dtype, data.kind),
        op=op,
        data=source if box is None else clipped(source, [box[n] for n in order]),
        axis=tuple(range(len(kept), data.ndim)),
        negate=negate,
    )
    return result if box is None else _within(result, _reduced(box, axes, (0, 1), keepdims), box)


def _reduced(
    values: Sequence[Extent], axes: Sequence[int], one: Extent, keepdims: bool
) -> list[Extent]:
    if keepdims:
        return [one if n in axes else value for n, value in enumerate(values)]
    left: list[Extent] = [value for n, value in enumerate(values) if n not in axes]
    if len(left) == 1:
        left.append(one)
    return left


def _within(result: Tile, result_box: Box, data_box: Box) -> Tile:
    """Limits what an instruction just issued writes, for operands already clipped."""
    pending = result.open_result(session())
    assert pending is not None  # it was issued just now
    pending.box = result_box
    pending.empty = any(count == 0 for _, count in data_box)
    return result


def _free_axes(axis: int | Sequence[int], ndim: int) -> list[int]:
    given = [axis] if isinstance(axis, int) else list(axis)
    axes = sorted(n + ndim if n < 0 else n for n in given)
    if not axes or axes[0] < 1 or axes[-1] >= ndim:
        raise KernelError(
            f"reduction over axis {axis} of {ndim} axes",
            "axis 0 is the partition axis: reduce free axes, or transpose first",
        )
    return axes


def tensor_scalar_reduce(
    *,
    data: Tile,
    op0: object,
    operand0: Operated,
    reduce_op: object,
    reduce_res: Tile,
    reverse0: bool = False,
    dtype: DType | None = None,
    mask: Mask | bool | None = None,
    **_: object,
) -> Tile:
    """data op0 operand0, leaving the reduction of it over the free axes in reduce_res."""
    return issue(
        new.tensor_scalar_reduce,
        data.shape,
        kind_of(dtype, data.kind),
        box=box_of(mask, data.shape),
        data=data,
        op0=op0,
        operand0=column(operand0),
        reduce_op=reduce_op,
        reduce_res=column(reduce_res),
        reverse0=reverse0,
    )
