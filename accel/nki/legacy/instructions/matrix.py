"""Calls of the tensor engine: matmul and transpose."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from accel.errors import KernelError
from accel.nki import isa as new
from accel.nki.enums import engine, matmul_perf_mode
from accel.nki.isa import (
    vector_engine,
)
from accel.nki.legacy import lowering
from accel.nki.legacy.index import Mask, mask_of, windows
from accel.nki.legacy.lowering import BLOCK
from accel.nki.legacy.session import session
from accel.nki.legacy.tile import (
    Box,
    DType,
    Shape,
    Tile,
    assign,
    box_of,
    copied,
    issue,
    kind_of,
)
from accel.nki.legacy.views import clipped, free_size
from accel.program import Memory


def nc_matmul(
    stationary: Tile,
    moving: Tile,
    *,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    tile_position: Sequence[int] = (),
    tile_size: Sequence[int] = (),
    mask: Mask | bool | None = None,
    perf_mode: str = "none",
    **_: object,
) -> Tile:
    """stationary.T @ moving in PSUM; `psum += nc_matmul(...)` accumulates."""
    if moving.limit is not None:
        mask = moving.limit & (True if mask is None else mask)
    call: Callable[..., object] = new.nc_matmul
    if is_stationary_onezero or is_moving_onezero or is_transpose or tile_position or tile_size:
        flags = (bool(is_stationary_onezero), bool(is_moving_onezero), bool(is_transpose))
        call = _flagged(*flags, tuple(tile_position), tuple(tile_size), _packing(perf_mode))
    elif perf_mode != "none":
        call = _flagged(False, False, False, (), (), _packing(perf_mode))
    right = moving.within(None if mask is None else windows(mask_of(mask), moving.shape))
    active, left = session(), stationary.tensor
    shape = _product_shape(left.geometry.shape, right.geometry.shape, perf_mode)
    result = issue(
        call,
        shape,
        "float32",
        memory=Memory.PSUM,
        stationary=lowering.in_sbuf(active, left),
        moving=lowering.in_sbuf(active, right),
    )
    if mask is not None:
        _clip_columns(result, mask_of(mask), moving.shape)
    return result


@functools.cache
def _product_shape(stationary: Shape, moving: Shape, perf_mode: str) -> Shape:
    """The shape of a matmul's result; two rows packed are an axis of both operands."""
    packed = _packing(perf_mode) is matmul_perf_mode.double_row
    return (math.prod(stationary[1 + packed :]), *moving[1 + packed :])


def _clip_columns(result: Tile, mask: Mask, moving: tuple[int, ...]) -> None:
    """Limits a matmul just issued to the columns of moving that the mask leaves.

    An expression of a mask does not say which operand's axis it is of, unless extents differ.
    """
    shape, pending = result.shape, result.open_result(session())
    assert pending is not None  # it was issued just now
    box = windows(mask, shape)
    counts = [count for _, count in box]
    pending.empty = 0 in counts
    if pending.empty or counts == list(shape):
        return
    sizes = {size for condition in mask.conditions for step, size in condition.axes if step}
    if counts[0] != shape[0] or shape[0] in sizes:
        raise KernelError(
            f"nc_matmul: mask ({mask.conditions[0]}) >= 0 is not of the columns of moving alone",
            "slice the operands instead",
        )
    part = ((0, moving[0]), *box[1:])
    pending.box = box
    pending.inputs = tuple(
        (role, mode, clipped(tensor, part) if role == "moving" else tensor)
        for role, mode, tensor in pending.inputs
    )


def _packing(perf_mode: str) -> matmul_perf_mode:
    """Names of this form end in the generation that has the mode, which the chip decides here."""
    name = perf_mode.removesuffix("_gen3")
    if name not in matmul_perf_mode.__members__:
        known = ", ".join(each.name for each in matmul_perf_mode)
        raise KernelError(f"nc_matmul: perf_mode is {perf_mode!r}, known: {known}")
    return matmul_perf_mode(name)


@functools.cache
def _flagged(
    stationary_onezero: bool,
    moving_onezero: bool,
    transpose: bool,
    position: tuple[int, ...],
    size: tuple[int, ...],
    packed: matmul_perf_mode,
) -> Callable[..., object]:
    """The call of the newer form with these flags: one object for equal flags."""
    return functools.partial(
        new.nc_matmul,
        is_stationary_onezero=stationary_onezero,
        is_moving_onezero=moving_onezero,
        is_transpose=transpose,
        tile_position=position,
        tile_size=size,
        perf_mode=packed,
    )


def nc_transpose(
    data: Tile,
    *,
    dtype: DType | None = None,
    engine: engine = engine.unknown,
    mask: Mask | bool | None = None,
    **_: object,
) -> Tile:
    """data with partitions and free axis exchanged: on the tensor engine, unless the vector engine
    is asked for, and then in PSUM.
    """
    box = box_of(mask, data.shape)
    if box is not None:
        return _part_transposed(data, box, dtype, engine)
    if engine is vector_engine and max(data.shape[0], free_size(data.shape)) > BLOCK:
        result = Tile(lowering.transposed_in_blocks(session(), data.tensor))
    elif engine is vector_engine:
        shape = (free_size(data.shape), data.shape[0])
        result = issue(new.nc_transpose, shape, data.kind, data=data, engine=engine)
    else:
        source = lowering.transposable(session(), data.tensor)
        result = issue(
            new.nc_transpose,
            source.shape[::-1],
            data.kind,
            memory=Memory.PSUM,
            data=source,
            engine=engine,
        )
    return result if kind_of(dtype, data.kind) == data.kind else copied(result, dtype)


def _part_transposed(data: Tile, box: Box, dtype: DType | None, engine: engine) -> Tile:
    """The transpose of what a mask leaves, where it lies in the transpose of everything."""
    memory = Memory.SBUF if engine is vector_engine or dtype is not None else Memory.PSUM
    shape = (free_size(data.shape), data.shape[0])
    if len(box) > 2:
        raise KernelError(
            f"nc_transpose: mask of a tile of {len(box)} axes", "transpose a 2-D view"
        )
    target = Tile(session().allocate(shape, kind_of(dtype, data.kind), memory))
    if all(count for _, count in box):
        part = nc_transpose(Tile(clipped(data.within(box), box)), dtype=dtype, engine=engine)
        assign(clipped(target.tensor, box[::-1]), part)
    return target
