"""Calls that draw random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accel.nki import isa as new
from accel.nki.legacy.index import Mask
from accel.nki.legacy.tile import (
    DType,
    Operated,
    Tile,
    binary,
    box_of,
    column,
    emit,
    issue,
    kind_of,
)

RANDOM_BITS = 24


def dropout(
    data: Tile,
    prob: Operated,
    *,
    mask: Mask | bool | None = None,
    dtype: DType | None = None,
    **_: object,
) -> Tile:
    """data with elements replaced by 0 with probability `prob`, a number or one a partition."""
    chosen = column(prob)
    box = box_of(mask, data.shape)
    kind = kind_of(dtype, data.kind)
    return issue(new.dropout, data.shape, kind, box=box, data=data, prob=chosen)


def dropout_at_rate(x: Tile, rate: Operated, **options: Any) -> Tile:
    """x with elements replaced by 0 with probability `rate`, one for all or one a partition."""
    if isinstance(rate, Tile) and rate.shape[0] == 1 < x.shape[0]:
        rate = rate.broadcast_to((x.shape[0], 1))
    return dropout(x, rate, **options)


def random_seed(seed: Tile, *, mask: Mask | bool | None = None, **_: object) -> None:
    """What `rand` and `dropout` draw from here on follows from a tile of one number."""
    box = box_of(mask, seed.shape)
    if box is None or all(count for _, count in box):
        emit(new.set_rng_seed, src_seeds=seed)


def rand(shape: Sequence[int], dtype: DType = "float32", **_: object) -> Tile:
    """A tile of random numbers, uniform from 0 to below 1."""
    counts = tuple(int(count) for count in shape)
    words = issue(new.rng, counts, "uint32")
    bits = binary("right_shift", words, 32 - RANDOM_BITS)
    return binary("multiply", bits, 2.0**-RANDOM_BITS, dtype=dtype)
