"""Calls that move, fill or choose: DMA transfers, copies, memset, selects."""

from __future__ import annotations

from collections.abc import Sequence

from accel.errors import KernelError
from accel.nki import isa as new
from accel.nki.enums import dge_mode, engine, oob_mode, reduce_cmd
from accel.nki.legacy.index import Mask
from accel.nki.legacy.tile import (
    DType,
    Number,
    Operated,
    Tile,
    box_of,
    column,
    emit,
    issue,
    kind_of,
    unmasked,
)
from accel.nki.legacy.views import clipped, fitted


def dma_copy(
    *,
    dst: Tile,
    src: Tile,
    mask: Mask | bool | None = None,
    oob_mode: oob_mode = oob_mode.error,
    dge_mode: dge_mode = dge_mode.unknown,
    **_: object,
) -> None:
    """dst = src by DMA, cast where the element types differ."""
    box = box_of(mask, dst.shape)
    target, source = dst.within(box), fitted(src.within(box), dst.shape)
    if box is not None:
        if any(count == 0 for _, count in box):
            return
        target, source = clipped(target, box), clipped(source, box)
    emit(new.dma_copy, dst=target, src=source, oob_mode=oob_mode, dge_mode=dge_mode)


def dma_transpose(
    src: Tile, *, axes: Sequence[int] | None = None, dtype: DType | None = None, **options: object
) -> Tile:
    """src transposed by DMA into SBUF."""
    unmasked("dma_transpose", options, src.shape)
    order = tuple(axes) if axes is not None else _swapped(src.ndim)
    if sorted(order) != list(range(src.ndim)):
        raise KernelError(f"dma_transpose: axes is {order}, needs an order of {src.ndim} axes")
    shape = tuple(src.shape[axis] for axis in order)
    return issue(new.dma_transpose, shape, kind_of(dtype, src.kind), src=src, axes=order)


def _swapped(ndim: int) -> tuple[int, ...]:
    return (ndim - 1, *range(1, ndim - 1), 0)


def memset(
    shape: Sequence[int],
    value: Number,
    dtype: DType,
    *,
    mask: Mask | bool | None = None,
    engine: engine = engine.unknown,
    **_: object,
) -> Tile:
    """A tile of one value."""
    extents = tuple(int(n) for n in shape)
    kind, box = kind_of(dtype, "float32"), box_of(mask, extents)
    return issue(new.memset, extents, kind, box=box, value=value, engine=engine)


def nc_stream_shuffle(src: Tile, dst: Tile, shuffle_mask: Sequence[int], **options: object) -> None:
    """Partition p of each 32 of dst = partition shuffle_mask[p] of src's 32."""
    unmasked("nc_stream_shuffle", options, dst.shape)
    emit(new.nc_stream_shuffle, dst=dst, src=src, shuffle_mask=shuffle_mask)


def tensor_copy(
    src: Tile,
    *,
    mask: Mask | bool | None = None,
    dtype: DType | None = None,
    engine: engine = engine.unknown,
    **_: object,
) -> Tile:
    """A copy in SBUF, cast to `dtype`."""
    kind, box = kind_of(dtype, src.kind), box_of(mask, src.shape)
    return issue(new.tensor_copy, src.shape, kind, box=box, src=src, engine=engine)


def tensor_copy_predicated(
    *, src: Operated, dst: Tile, predicate: Tile, reverse_pred: bool = False, **options: object
) -> None:
    """dst = src where predicate is not 0."""
    unmasked("tensor_copy_predicated", options, dst.shape)
    emit(
        new.tensor_copy_predicated,
        dst=dst,
        src=src,
        predicate=predicate,
        reverse_pred=reverse_pred,
    )


def select_reduce(
    *,
    dst: Tile,
    predicate: Tile,
    on_true: Tile,
    on_false: Operated,
    reduce_res: Tile | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_op: object = "maximum",
    reverse_pred: bool = False,
    **options: object,
) -> None:
    """dst = on_true where predicate is not 0, else on_false."""
    unmasked("select_reduce", options, dst.shape)
    emit(
        new.select_reduce,
        dst=dst,
        predicate=predicate,
        on_true=on_true,
        on_false=on_false,
        reduce_res=column(reduce_res),
        reduce_cmd=reduce_cmd,
        reduce_op=reduce_op,
        reverse_pred=reverse_pred,
    )
