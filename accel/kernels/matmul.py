"""Matrix product with operands kept on chip: out[M, N] = lhs_t[K, M].T @ rhs[K, N].

Layouts. `lhs_t` is the left operand transposed, since the contraction must lie on partitions. Any
M, N, K; float32, bfloat16 or float16; accumulation in fp32; `out` has the inputs' dtype.

Algorithm. N, M and K are cut into blocks whose operand tiles fit in SBUF together. A result tile
(128 × 512) accumulates over a K block in one PSUM bank; where K has several blocks, the partial
sums are added in SBUF in fp32, and where it has one, the block of `rhs` stays for all of M:

    for each N block:
        for each M block:
            for each K block:  load rhs[K block, N block], lhs_t[K block, M block]
                for each 128 × 512 result tile:  psum = Σ_k lhs_t[k, m].T @ rhs[k, n];  sum
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
        kept = _load_block(rhs, k_blocks[0], columns) if len(k_blocks) == 1 else None
        for rows in spans(m, plan.block_m):
            sums = [sbuf(extent(r), extent(columns)) for r in spans(extent(rows), TILE_M)]
            for k_block in k_blocks[:-1]:
                left, right = (
                    _load_block(x, k_block, s) for x, s in ((lhs_t, rows), (rhs, columns))
                )
                _multiply(left, right, sums, sums if k_block.start else None)
            left = _load_block(lhs_t, k_blocks[-1], rows)
            right = kept or _load_block(rhs, k_blocks[-1], columns)
            results = [like(tile, out.dtype) for tile in sums]
            _multiply(left, right, results, None if kept else sums)
            for i, result in enumerate(results):
                first = rows.start + i * TILE_M
                nisa.dma_copy(dst=out[first : first + result.shape[0], columns], src=result)
    return out


def _load_block(hbm: Tensor, k_block: slice, columns: slice) -> list[Tensor]:
    return [
        load(hbm[k_block.start + step.start : k_block.start + step.stop, columns])
        for step in spans(extent(k_block), TILE_K)
    ]


def _multiply(
    left: list[Tensor], right: list[Tensor], dst: list[Tensor], sums: list[Tensor] | None
) -> None:
    """dst = left.T @ right (+ sums), rows of 128 a tile of `dst`."""
    for i, rows in enumerate(spans(left[0].shape[1], TILE_M)):
        for columns in spans(right[0].shape[1], TILE_N):
            total = psum(extent(rows), extent(columns))
            for stationary, moving in zip(left, right, strict=True):
                nisa.nc_matmul(dst=total, stationary=stationary[:, rows], moving=moving[:, columns])
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
