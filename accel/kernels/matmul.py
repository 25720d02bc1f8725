"""Matrix product with operands kept on chip: out[M, N] = lhs_t[K, M].T @ rhs[K, N].

Layouts. `lhs_t` is the left operand transposed, since the contraction must lie on partitions. Any
M, N, K; float32, bfloat16 or float16; accumulation in fp32; `out` has the inputs' dtype.

Algorithm. N, M and K are cut into blocks whose operand tiles fit in SBUF together. A result tile
(128 × 512) accumulates over a K block in one PSUM bank, four of them at a time; where K has several
blocks, the partial sums are added in SBUF in fp32, and where it has one, the block of `rhs` stays
for all of M:

    for each N block:
        for each M block:
            for each K block:  load rhs[K block, N block], lhs_t[K block, M block]
                for each four 128 × 512 result tiles:  psum = Σ_k lhs_t[k, m].T @ rhs[k, n];  sum
            store the rows of the M block
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.dtypes import itemsize
from accel.kernels.tiling import extent, like, load, psum, sbuf, spans
from accel.nki.jit import jit
from accel.nki.tensor import Tensor

TILE_K, TILE_M, TILE_N = 128, 128, 512
# Both operands' blocks together may take this much of a partition; result rows and the tiles of the
# next block, which are loaded meanwhile, take the rest.
OPERAND_BYTES = 128 * 1024
# Rows of 2 KiB are what DMA needs to be near its peak rate.
ROW_BYTES = 2048
# Half of the banks, so that the others are copied out meanwhile.
RESULTS_AT_A_TIME = 4


@dataclass(frozen=True, slots=True)
class MatmulPlan:
    """Extents of the blocks that are on chip at a time."""

    block_m: int
    block_n: int
    block_k: int


def matmul_plan(m: int, n: int, k: int, dtype: str) -> MatmulPlan:
    """Blocks with rows of at least 2 KiB where the operand has them, and as much of K as then fits.

    What a short M leaves goes to N: every byte of lhs_t is loaded N ÷ block_n times.
    """
    size = itemsize(dtype)
    block_m = min(m, ROW_BYTES // size)
    block_n = min(n, ROW_BYTES // size)
    steps = -(-k // TILE_K)
    fitting = OPERAND_BYTES // ((block_m + block_n) * size)
    if fitting >= steps:
        wide = OPERAND_BYTES // (steps * size) - block_m
        block_n = min(n, max(block_n, min(wide // TILE_N, 4) * TILE_N))
    return MatmulPlan(block_m, block_n, min(max(fitting, 1), steps) * TILE_K)


@jit
def matmul(lhs_t: Tensor, rhs: Tensor) -> Tensor:
    """out[M, N] = lhs_t[K, M].T @ rhs[K, N]."""
    k, m = lhs_t.shape
    k_rhs, n = rhs.shape
    assert k == k_rhs, f"contraction extents differ: lhs_t K={k}, rhs K={k_rhs}"
    plan = matmul_plan(m, n, k, rhs.dtype)
    out = nl.ndarray((m, n), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    k_blocks = spans(k, plan.block_k)
    for columns in spans(n, plan.block_n):
        kept: list[Tensor] | None = None
        for rows in spans(m, plan.block_m):
            sums = [sbuf(extent(r), extent(columns)) for r in spans(extent(rows), TILE_M)]
            for k_block in k_blocks[:-1]:
                left, right = _load_blocks(k_block, (lhs_t, rows), (rhs, columns))
                _multiply(left, right, sums, sums if k_block.start else None)
            if kept:
                (left,) = _load_blocks(k_blocks[-1], (lhs_t, rows))
            else:
                left, right = _load_blocks(k_blocks[-1], (lhs_t, rows), (rhs, columns))
            whole = len(k_blocks) == 1
            kept = right if whole else None
            results = [like(tile, out.dtype) for tile in sums]
            _multiply(left, right, results, None if whole else sums)
            for i, result in enumerate(results):
                first = rows.start + i * TILE_M
                nisa.dma_copy(dst=out[first : first + result.shape[0], columns], src=result)
    return out


def _load_blocks(k_block: slice, *parts: tuple[Tensor, slice]) -> tuple[list[Tensor], ...]:
    """The columns of each operand, tile by tile in turn: the first product waits for two tiles."""
    blocks: tuple[list[Tensor], ...] = tuple([] for _ in parts)
    for step in spans(extent(k_block), TILE_K):
        rows = slice(k_block.start + step.start, k_block.start + step.stop)
        for tiles, (hbm, columns) in zip(blocks, parts, strict=True):
            tiles.append(load(hbm[rows, columns]))
    return blocks


def _multiply(
    left: list[Tensor], right: list[Tensor], dst: list[Tensor], sums: list[Tensor] | None
) -> None:
    """dst = left.T @ right (+ sums), rows of 128 a tile of `dst`.

    Several results take a step of K in turn, so the products keep up with tiles that still arrive.
    """
    row_tiles = spans(left[0].shape[1], TILE_M)
    tiles = [
        (i, rows, columns)
        for i, rows in enumerate(row_tiles)
        for columns in spans(right[0].shape[1], TILE_N)
    ]
    for first in range(0, len(tiles), RESULTS_AT_A_TIME):
        group = tiles[first : first + RESULTS_AT_A_TIME]
        totals = [psum(extent(rows), extent(columns)) for _, rows, columns in group]
        for stationary, moving in zip(left, right, strict=True):
            for total, (_, rows, columns) in zip(totals, group, strict=True):
                nisa.nc_matmul(dst=total, stationary=stationary[:, rows], moving=moving[:, columns])
        for total, (i, _, columns) in zip(totals, group, strict=True):
            target = dst[i][:, columns]
            if sums is None:
                nisa.tensor_copy(dst=target, src=total)
            else:
                nisa.tensor_tensor(dst=target, data1=sums[i][:, columns], data2=total, op=nl.add)


def matmul_reference(
    lhs_t: npt.NDArray[np.generic], rhs: npt.NDArray[np.generic]
) -> npt.NDArray[np.float32]:
    """The same in numpy, fp32."""
    result: npt.NDArray[np.float32] = lhs_t.astype(np.float32).T @ rhs.astype(np.float32)
    return result
