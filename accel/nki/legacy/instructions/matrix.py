"""Calls of the tensor engine: matmul and transpose."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from accel.errors import KernelError
from accel.nki import isa as new
from accel.nki.enums import engine
from accel.nki.isa import (
    vector_engine,
)
from accel.nki.legacy import lowering
from accel.nki.legacy.index import Mask
from accel.nki.legacy.session import session
from accel.nki.legacy.tile import (
    DType,
    Tile,
    copied,
    issue,
    kind_of,
)
from accel.nki.legacy.views import free_size
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
    mask: Mask | None = None,
    **_: object,
) -> Tile:
    """stationary.T @ moving in PSUM; `psum += nc_matmul(...)` accumulates."""
    if mask is not None:
        raise KernelError("nc_matmul: mask is not supported", "slice the operands instead")
    call = new.nc_matmul
    if is_stationary_onezero or is_moving_onezero or is_transpose or tile_position or tile_size:
        flags = (bool(is_stationary_onezero), bool(is_moving_onezero), bool(is_transpose))
        call = _flagged(*flags, tuple(tile_position), tuple(tile_size))
    columns, free = stationary.shape[1:], moving.shape[1:]
    shape = (columns[0] if len(columns) == 1 else math.prod(columns), *free)
    return issue(call, shape, "float32", memory=Memory.PSUM, stationary=stationary, moving=moving)


@functools.cache
def _flagged(
    stationary_onezero: bool,
    moving_onezero: bool,
    transpose: bool,
    position: tuple[int, ...],
    size: tuple[int, ...],
) -> Callable[..., None]:
    """The call of the newer form with these flags: one object for equal flags."""
    return functools.partial(
        new.nc_matmul,
        is_stationary_onezero=stationary_onezero,
        is_moving_onezero=moving_onezero,
        is_transpose=transpose,
        tile_position=position,
        tile_size=size,
    )


def nc_transpose(
    data: Tile, *, dtype: DType | None = None, engine: engine = engine.unknown, **_: object
) -> Tile:
    """data with partitions and free axis exchanged: on the tensor engine, unless the vector engine
    is asked for, and then in PSUM.
    """
    if engine is vector_engine:
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
