"""Layer norm and RMS norm over rows.

    layernorm: out[r, :] = (x[r, :] − mean) ÷ √(variance + eps) · gamma + beta
    rmsnorm:   out[r, :] = x[r, :] ÷ √(mean of squares + eps) · gamma

Any x[R, D] with a row on chip (D up to `MAX_COLUMNS`); gamma, beta [D]. Rows lie on partitions, 128
at a time; gamma and beta are copied to all partitions once. Layer norm's statistics come from the
vector engine's batch-norm instructions, 512 columns at a time; RMS norm's from one pass of the
scalar engine, which squares and sums. Statistics in fp32, result in x's dtype.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.kernels.tiling import load, load_to_all_partitions, sbuf, spans
from accel.nki.jit import jit
from accel.nki.tensor import Tensor

MAX_COLUMNS = 8192
STATISTICS_COLUMNS = 512


@jit
def layernorm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """Layer norm along the last axis of x[R, D], scaled by gamma[D] and shifted by beta[D]."""
    rows, columns = x.shape
    assert columns <= MAX_COLUMNS, f"a row has {columns} elements, at most {MAX_COLUMNS} fit"
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    partitions = min(rows, 128)
    weight, shift = (load_to_all_partitions(v, partitions) for v in (gamma, beta))
    offset = _constant(partitions, eps)
    for part in spans(rows, 128):
        tile = load(x[part, :])
        count = tile.shape[0]
        moments = _mean_and_variance(tile)
        inverse = _inverse_root(moments[:, 1:2], 1.0, offset[:count, :])
        centred, scaled = sbuf(count, columns), sbuf(count, columns)
        result = sbuf(count, columns, out.dtype)
        nisa.tensor_scalar(
            dst=centred,
            data=tile,
            op0=nl.subtract,
            operand0=moments[:, 0:1],
            op1=nl.multiply,
            operand1=inverse,
        )
        nisa.tensor_tensor(dst=scaled, data1=centred, data2=weight[:count, :], op=nl.multiply)
        nisa.tensor_tensor(dst=result, data1=scaled, data2=shift[:count, :], op=nl.add)
        nisa.dma_copy(dst=out[part, :], src=result)
    return out


@jit
def rmsnorm(x: Tensor, gamma: Tensor, eps: float = 1e-5) -> Tensor:
    """RMS norm along the last axis of x[R, D], scaled by gamma[D]."""
    rows, columns = x.shape
    assert columns <= MAX_COLUMNS, f"a row has {columns} elements, at most {MAX_COLUMNS} fit"
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    partitions = min(rows, 128)
    weight = load_to_all_partitions(gamma, partitions)
    offset = _constant(partitions, eps)
    for part in spans(rows, 128):
        tile = load(x[part, :])
        count = tile.shape[0]
        squares, total = sbuf(count, columns), sbuf(count, 1)
        nisa.activation_reduce(
            dst=squares, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=total
        )
        inverse = _inverse_root(total, 1.0 / columns, offset[:count, :])
        result = sbuf(count, columns, out.dtype)
        nisa.scalar_tensor_tensor(
            dst=result,
            data=tile,
            op0=nl.multiply,
            operand0=inverse,
            op1=nl.multiply,
            operand1=weight[:count, :],
        )
        nisa.dma_copy(dst=out[part, :], src=result)
    return out


def _constant(partitions: int, value: float) -> Tensor:
    tile = sbuf(partitions, 1)
    nisa.memset(dst=tile, value=value)
    return tile


def _mean_and_variance(tile: Tensor) -> Tensor:
    """[rows, 2]: mean and population variance of each row."""
    chunks = spans(tile.shape[1], STATISTICS_COLUMNS)
    statistics, moments = sbuf(tile.shape[0], 6 * len(chunks)), sbuf(tile.shape[0], 2)
    for i, chunk in enumerate(chunks):
        nisa.bn_stats(dst=statistics[:, 6 * i : 6 * i + 6], data=tile[:, chunk])
    nisa.bn_aggr(dst=moments, data=statistics)
    return moments


def _inverse_root(data: Tensor, scale: float, offset: Tensor) -> Tensor:
    """1 ÷ √(data · scale + offset), a column."""
    result = sbuf(data.shape[0], 1)
    nisa.activation(dst=result, op=nl.rsqrt, data=data, scale=scale, bias=offset)
    return result


Array = npt.NDArray[np.generic]


def layernorm_reference(
    x: Array, gamma: Array, beta: Array, eps: float = 1e-5
) -> npt.NDArray[np.float32]:
    """The same in numpy, fp32."""
    wide = x.astype(np.float32)
    centred = wide - wide.mean(axis=1, keepdims=True)
    scaled = centred / np.sqrt(wide.var(axis=1, keepdims=True) + np.float32(eps))
    result: npt.NDArray[np.float32] = scaled * gamma.astype(np.float32) + beta.astype(np.float32)
    return result


def rmsnorm_reference(x: Array, gamma: Array, eps: float = 1e-5) -> npt.NDArray[np.float32]:
    """The same in numpy, fp32."""
    wide = x.astype(np.float32)
    scale = 1.0 / np.sqrt((wide * wide).mean(axis=1, keepdims=True) + np.float32(eps))
    result: npt.NDArray[np.float32] = wide * scale * gamma.astype(np.float32)
    return result
