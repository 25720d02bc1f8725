"""Calls of the tensor engine: matmul and transpose."""

from __future__ import annotations

from collections.abc import Sequence

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
    return issue(
        new.nc_matmul,
        (free_size(stationary.shape), *moving.shape[1:]),
        "float32",
        memory=Memory.PSUM,
        stationary=stationary,
        moving=moving,
        is_stationary_onezero=is_stationary_onezero,
        is_moving_onezero=is_moving_onezero,
        is_transpose=is_transpose,
        tile_position=tile_position,
        tile_size=tile_size,
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
