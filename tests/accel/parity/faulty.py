"""Kernels with one fault each, loaded by path as a user's file would be; `row_softmax` has none."""

import nki
import nki.isa as nisa
import nki.language as nl


def softmax_rows(x, out, rows, exponent=1.0, fill=0):
    """Softmax of some rows of x, with exp(exponent × ...)."""
    tile = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    top = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    weights = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[rows, :])
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=tile, axis=1, negate=True)
    nisa.activation(dst=weights, op=nl.exp, data=tile, bias=top, scale=exponent)
    nisa.tensor_reduce(dst=total, op=nl.add, data=weights, axis=1)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=weights, data=weights, op0=nl.multiply, operand0=total)
    nisa.dma_copy(dst=out[rows, :], src=weights)


@nki.jit
def row_softmax(x):
    """Right."""
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 128):
        softmax_rows(x, out, nl.ds(start, 128))
    return out


@nki.jit
def wrong_scale(x):
    """exp of the wrong values."""
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 128):
        softmax_rows(x, out, nl.ds(start, 128), 1.25)
    return out


@nki.jit
def wrong_second_tile(x):
    """The second 128 rows are computed differently."""
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 128):
        softmax_rows(x, out, nl.ds(start, 128), 1.0 if start == 0 else 1.25)
    return out


@nki.jit
def swapped_tiles(x):
    """Right values, stored at each other's rows."""
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    for start in range(0, 256, 128):
        nisa.dma_copy(dst=tile, src=x[nl.ds(start, 128), :])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[nl.ds(128 - start, 128), :], src=tile)
    return out


@nki.jit
def half_written(x):
    """The right half of the result is never stored."""
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    half = x.shape[1] // 2
    nisa.dma_copy(dst=out[:, 0:half], src=tile[:, 0:half])
    return out


@nki.jit
def half_loaded(x):
    """Reads what it did not load."""
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    half = x.shape[1] // 2
    nisa.dma_copy(dst=tile[:, 0:half], src=x[:, 0:half])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def root_of_negatives(x):
    """√x where √(2x)² was meant: NaN for half of the values."""
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=tile, op=nl.sqrt, data=tile, scale=2.0)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.multiply)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def narrow_product(x):
    """2x through a tile of fp8."""
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    narrow = nl.ndarray(x.shape, dtype=nl.float8_e4m3, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=0.0)
    nisa.tensor_copy(dst=narrow, src=tile)
    nisa.tensor_scalar(dst=tile, data=narrow, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def short_product(left_t, right):
    """left_t.T @ right without the last 128 of the contraction."""
    out = nl.ndarray((left_t.shape[1], right.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    psum = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.psum)
    result = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.sbuf)
    for start in range(0, left_t.shape[0] - 128, 128):
        left = nl.ndarray((128, left_t.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        other = nl.ndarray((128, right.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=left_t[nl.ds(start, 128), :])
        nisa.dma_copy(dst=other, src=right[nl.ds(start, 128), :])
        nisa.nc_matmul(dst=psum, stationary=left, moving=other)
    nisa.activation(dst=result, op=nl.relu, data=psum)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def doubles_in_place(x):
    """Returns nothing and writes its argument."""
    tile = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=x, src=tile)
