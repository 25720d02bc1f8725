"""Softmax over rows: out[r, :] = exp(x[r, :] − max) ÷ Σ exp(x[r, :] − max).

Any x[R, C]; rows lie on partitions, 128 at a time. Rows of up to `ROW_COLUMNS` elements stay on
chip between the passes; wider ones are cut into chunks and read twice, with a running maximum and
a running sum that is rescaled when the maximum grows:

    for each chunk:  m' = max(m, max(chunk));  s = s · exp(m − m') + Σ exp(chunk − m');  m = m'
    for each chunk:  out = exp(chunk − m) · (1 ÷ s)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.kernels.tiling import like, load, sbuf, spans
from accel.nki.jit import jit
from accel.nki.tensor import Tensor

ROW_COLUMNS = 8192


@jit
def softmax(x: Tensor) -> Tensor:
    """Softmax along the last axis of x[R, C]; statistics in fp32, result in x's dtype."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for part in spans(rows, 128):
        if columns <= ROW_COLUMNS:
            _narrow(x[part, :], out[part, :])
        else:
            _wide(x[part, :], out[part, :])
    return out


def _narrow(x: Tensor, out: Tensor) -> None:
    tile = load(x)
    powers, total = like(x), sbuf(x.shape[0], 1)
    _exponentials(powers, tile, _negative_max(tile), total)
    _scale(out, powers, total)


def _wide(x: Tensor, out: Tensor) -> None:
    rows, columns = x.shape
    shift, total = sbuf(rows, 1), sbuf(rows, 1)
    for chunk in spans(columns, ROW_COLUMNS):
        tile = load(x[:, chunk])
        powers = like(tile)
        if chunk.start == 0:
            nisa.tensor_reduce(dst=shift, op=nl.maximum, data=tile, axis=1, negate=True)
            _exponentials(powers, tile, shift, total)
            continue
        shift, total = _merge(tile, powers, shift, total)
    for chunk in spans(columns, ROW_COLUMNS):
        tile = load(x[:, chunk])
        powers, ignored = like(tile), sbuf(rows, 1)
        _exponentials(powers, tile, shift, ignored)
        _scale(out[:, chunk], powers, total)


def _merge(tile: Tensor, powers: Tensor, shift: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
    """The running (−maximum, sum) after one more chunk."""
    rows = tile.shape[0]
    lower, factor, part, merged = (sbuf(rows, 1) for _ in range(4))
    nisa.tensor_tensor(dst=lower, data1=shift, data2=_negative_max(tile), op=nl.minimum)
    # exp(old maximum − new maximum) = exp(−shift + lower)
    nisa.activation(dst=factor, op=nl.exp, data=shift, scale=-1.0, bias=lower)
    _exponentials(powers, tile, lower, part)
    nisa.scalar_tensor_tensor(
        dst=merged, data=total, op0=nl.multiply, operand0=factor, op1=nl.add, operand1=part
    )
    return lower, merged


def _negative_max(tile: Tensor) -> Tensor:
    shift = sbuf(tile.shape[0], 1)
    nisa.tensor_reduce(dst=shift, op=nl.maximum, data=tile, axis=1, negate=True)
    return shift


def _exponentials(dst: Tensor, tile: Tensor, shift: Tensor, total: Tensor) -> None:
    """dst = exp(tile + shift), total = row sums of it, in one pass of the scalar engine."""
    nisa.activation_reduce(
        dst=dst, op=nl.exp, data=tile, bias=shift, reduce_op=nl.add, reduce_res=total
    )


def _scale(out: Tensor, powers: Tensor, total: Tensor) -> None:
    inverse, result = sbuf(powers.shape[0], 1), like(powers, out.dtype)
    nisa.reciprocal(dst=inverse, data=total)
    nisa.tensor_scalar(dst=result, data=powers, op0=nl.multiply, operand0=inverse)
    nisa.dma_copy(dst=out, src=result)


def softmax_reference(x: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
    """The same in numpy, fp32."""
    wide = x.astype(np.float32)
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    result: npt.NDArray[np.float32] = powers / powers.sum(axis=1, keepdims=True)
    return result
