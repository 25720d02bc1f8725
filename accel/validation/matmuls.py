"""The matmuls behind the published timings, in our own words, and the DMA overview's kernel.

The publications name third-party kernels, which are not part of this project. What decides a
kernel's time is which instructions it issues in which order on which tiles; the functions here
issue the same ones, and were checked, outside the project, to trace to the same instruction stream
as the published sources (`docs/adr/0008-validation.md`).

Shapes: C[M, N] = lhs_t[K, M].T @ rhs[K, N], in tiles of K 128, M 128, N 512.
"""

from __future__ import annotations

import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.nki.jit import jit
from accel.nki.tensor import Tensor

TILE_K, TILE_M, TILE_N = 128, 128, 512


def _rows(index: int, size: int) -> slice:
    return slice(index * size, (index + 1) * size)


def _load(hbm: Tensor, rows: slice, columns: slice) -> Tensor:
    tile = nl.ndarray(
        (rows.stop - rows.start, columns.stop - columns.start), dtype=hbm.dtype, buffer=nl.sbuf
    )
    nisa.dma_copy(dst=tile, src=hbm[rows, columns])
    return tile


def _new_result(lhs_t: Tensor, rhs: Tensor) -> Tensor:
    return nl.ndarray((lhs_t.shape[1], rhs.shape[1]), dtype=lhs_t.dtype, buffer=nl.shared_hbm)


def _store_psum(result: Tensor, rows: slice, columns: slice, psum: Tensor) -> None:
    tile = nl.ndarray(psum.shape, dtype=result.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=psum)
    nisa.dma_copy(dst=result[rows, columns], src=tile)


def _psum() -> Tensor:
    return nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)


@jit
def matmul_tiled(lhs_t: Tensor, rhs: Tensor) -> Tensor:
    """Both operands loaded tile by tile, next to each multiplication."""
    result = _new_result(lhs_t, rhs)
    for m in range(lhs_t.shape[1] // TILE_M):
        for n in range(rhs.shape[1] // TILE_N):
            psum = _psum()
            for k in range(rhs.shape[0] // TILE_K):
                left = nl.ndarray((TILE_K, TILE_M), dtype=lhs_t.dtype, buffer=nl.sbuf)
                right = nl.ndarray((TILE_K, TILE_N), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=left, src=lhs_t[_rows(k, TILE_K), _rows(m, TILE_M)])
                nisa.dma_copy(dst=right, src=rhs[_rows(k, TILE_K), _rows(n, TILE_N)])
                nisa.nc_matmul(dst=psum, stationary=left, moving=right)
            _store_psum(result, _rows(m, TILE_M), _rows(n, TILE_N), psum)
    return result


@jit
def matmul_hoisted(lhs_t: Tensor, rhs: Tensor) -> Tensor:
    """One column of the left operand is kept, one of the right operand is loaded a result tile."""
    result = _new_result(lhs_t, rhs)
    steps = range(rhs.shape[0] // TILE_K)
    for m in range(lhs_t.shape[1] // TILE_M):
        left = [_load(lhs_t, _rows(k, TILE_K), _rows(m, TILE_M)) for k in steps]
        for n in range(rhs.shape[1] // TILE_N):
            right = [_load(rhs, _rows(k, TILE_K), _rows(n, TILE_N)) for k in steps]
            psum = _psum()
            for k in steps:
                nisa.nc_matmul(dst=psum, stationary=left[k], moving=right[k])
            _store_psum(result, _rows(m, TILE_M), _rows(n, TILE_N), psum)
    return result


@jit
def matmul_blocked_free(lhs_t: Tensor, rhs: Tensor) -> Tensor:
    """Blocks of 2 × 2 result tiles share their operand columns."""
    result = _new_result(lhs_t, rhs)
    steps, block = range(rhs.shape[0] // TILE_K), range(2)
    for m in range(lhs_t.shape[1] // TILE_M // 2):
        left = [
            [_load(lhs_t, _rows(k, TILE_K), _rows(2 * m + i, TILE_M)) for k in steps] for i in block
        ]
        for n in range(rhs.shape[1] // TILE_N // 2):
            right = [
                [_load(rhs, _rows(k, TILE_K), _rows(2 * n + j, TILE_N)) for k in steps]
                for j in block
            ]
            for i in block:
                for j in block:
                    psum = _psum()
                    for k in steps:
                        nisa.nc_matmul(dst=psum, stationary=left[i][k], moving=right[j][k])
                    _store_psum(result, _rows(2 * m + i, TILE_M), _rows(2 * n + j, TILE_N), psum)
    return result


@jit
def matmul_blocked(
    lhs_t: Tensor, rhs: Tensor, block_m: int = 16, block_n: int = 2, block_k: int = 8
) -> Tensor:
    """All three dimensions blocked; partial sums are kept in SBUF; stores of block_n tiles."""
    result = _new_result(lhs_t, rhs)
    wide_m, wide_n = block_m * TILE_M, block_n * TILE_N
    blocks_m = range(lhs_t.shape[1] // wide_m)
    for n in range(rhs.shape[1] // wide_n):
        sums = [_zero_tiles(block_m, block_n, lhs_t.dtype) for _ in blocks_m]
        for k in range(rhs.shape[0] // (block_k * TILE_K)):
            steps = range(k * block_k, (k + 1) * block_k)
            right = [_load(rhs, _rows(s, TILE_K), _rows(n, wide_n)) for s in steps]
            for m in blocks_m:
                left = [_load(lhs_t, _rows(s, TILE_K), _rows(m, wide_m)) for s in steps]
                _multiply_block(left, right, sums[m])
        for m in blocks_m:
            for i in range(block_m):
                packed = nl.ndarray((TILE_M, wide_n), dtype=result.dtype, buffer=nl.sbuf)
                for j in range(block_n):
                    nisa.tensor_copy(dst=packed[:, _rows(j, TILE_N)], src=sums[m][i][j])
                rows = _rows(m * block_m + i, TILE_M)
                nisa.dma_copy(dst=result[rows, _rows(n, wide_n)], src=packed)
    return result


def _zero_tiles(block_m: int, block_n: int, dtype: str) -> list[list[Tensor]]:
    tiles = []
    for _ in range(block_m):
        row = []
        for _ in range(block_n):
            tile = nl.ndarray((TILE_M, TILE_N), dtype=dtype, buffer=nl.sbuf)
            nisa.memset(dst=tile, value=0.0)
            row.append(tile)
        tiles.append(row)
    return tiles


def _multiply_block(left: list[Tensor], right: list[Tensor], sums: list[list[Tensor]]) -> None:
    for j in range(len(sums[0])):
        for i in range(len(sums)):
            psum = _psum()
            for stationary, moving in zip(left, right, strict=True):
                nisa.nc_matmul(
                    dst=psum,
                    stationary=stationary[:, _rows(i, TILE_M)],
                    moving=moving[:, _rows(j, TILE_N)],
                )
            nisa.tensor_tensor(dst=sums[i][j], data1=sums[i][j], data2=psum, op=nl.add)


@jit
def exp_whole(x: Tensor) -> Tensor:
    """One load, one exponential, one store: the DMA overview's kernel."""
    out = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    raised = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=raised, op=nl.exp, data=tile)
    nisa.dma_copy(dst=out, src=raised)
    return out
