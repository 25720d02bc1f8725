"""Cutting extents into tiles, and the loads that every kernel starts with.

`spans(197, 128)` is `[0:128], [128:197]`: the last tile is ragged, not padded, so no kernel here
needs its sizes to be multiples of anything.
"""

from __future__ import annotations

import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.nki.recorder import current
from accel.nki.tensor import Tensor


def spans(extent: int, size: int) -> list[slice]:
    """Slices of at most `size` that cover `range(extent)` once."""
    return [slice(start, min(start + size, extent)) for start in range(0, extent, size)]


def extent(span: slice) -> int:
    """Elements in a slice made by `spans`."""
    return int(span.stop - span.start)


def sbuf(partitions: int, columns: int, dtype: str = nl.float32) -> Tensor:
    """A new SBUF tile."""
    return nl.ndarray((partitions, columns), dtype=dtype, buffer=nl.sbuf)


def like(tile: Tensor, dtype: str = nl.float32) -> Tensor:
    """A new SBUF tile of the same extents."""
    return sbuf(tile.shape[0], tile.shape[1], dtype)


def psum(partitions: int, columns: int, dtype: str = nl.float32) -> Tensor:
    """A new PSUM tile. A matmul writes to one bank (2 KiB a partition) of it."""
    return nl.ndarray((partitions, columns), dtype=dtype, buffer=nl.psum)


def generation() -> int:
    """The generation of NeuronCore the kernel is recorded for; 1 on inf1."""
    return current().chip.generation


def load(hbm: Tensor) -> Tensor:
    """A two-dimensional HBM view as a new SBUF tile of the same dtype; rows on partitions."""
    tile = sbuf(hbm.shape[0], hbm.shape[1], hbm.dtype)
    nisa.dma_copy(dst=tile, src=hbm)
    return tile


def load_to_all_partitions(hbm: Tensor, partitions: int) -> Tensor:
    """A vector [n] in HBM as a tile [partitions, n], every partition holding a copy."""
    tile = sbuf(partitions, hbm.shape[0], hbm.dtype)
    nisa.dma_copy(dst=tile, src=hbm.ap(pattern=[[0, partitions], [1, hbm.shape[0]]]))
    return tile
