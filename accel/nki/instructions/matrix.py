"""Calls of the tensor engine: matmul and transpose."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from accel.nki.enums import engine, matmul_perf_mode
from accel.nki.objects import NkiInstruction
from accel.nki.operands import ACCUMULATE, READ, WRITE, flag, given, integers, record
from accel.nki.recorder import Attributes
from accel.nki.tensor import Tensor


def nc_matmul(
    dst: Tensor,
    stationary: Tensor,
    moving: Tensor,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: Sequence[int] = (),
    tile_size: Sequence[int] = (),
    perf_mode: matmul_perf_mode = matmul_perf_mode.none,
    name: str | None = None,
) -> NkiInstruction:
    """dst[M, N] (+)= stationary[K, M].T @ moving[K, N] in PSUM.

    `accumulate=None`: elements not written since their allocation are overwritten, others added to.
    """
    attributes = _attributes(
        accumulate,
        bool(is_moving_onezero),
        bool(is_stationary_onezero),
        bool(is_transpose),
        perf_mode,
        tuple(tile_position or ()),
        tuple(tile_size or ()),
    )
    operands = (
        ("dst", ACCUMULATE, dst),
        ("stationary", READ, stationary),
        ("moving", READ, moving),
    )
    return record("nc_matmul", operands, attributes)


@functools.cache
def _attributes(
    accumulate: bool | None,
    moving_onezero: bool,
    stationary_onezero: bool,
    transpose: bool,
    perf_mode: matmul_perf_mode,
    position: tuple[int, ...],
    size: tuple[int, ...],
) -> Attributes:
    return given(
        accumulate="auto" if accumulate is None else "true" if accumulate else "false",
        is_moving_onezero=flag(moving_onezero),
        is_stationary_onezero=flag(stationary_onezero),
        is_transpose=flag(transpose),
        perf_mode=None if perf_mode is matmul_perf_mode.none else perf_mode.value,
        tile_position=integers(position, "tile_position") if position else None,
        tile_size=integers(size, "tile_size") if size else None,
    )


def nc_transpose(
    dst: Tensor, data: Tensor, engine: engine = engine.unknown, name: str | None = None
) -> NkiInstruction:
    """dst = data.T: up to 128×128 from SBUF to PSUM on the tensor engine, 32×32 on the vector."""
    return record("nc_transpose", (("dst", WRITE, dst), ("data", READ, data)), (), engine)
