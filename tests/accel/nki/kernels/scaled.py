"""Kernels in the current form, loaded by path as a user's file would be."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def scale(x, factor=2.0):
    """factor × x, one tile of 128 rows at a time."""
    rows, columns = x.shape
    assert rows % nl.tile_size.pmax == 0, f"rows must be a multiple of 128, got {rows}"
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(rows // nl.tile_size.pmax):
        tile = nl.ndarray((nl.tile_size.pmax, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[nl.ds(i * 128, 128), :])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=tile)
    return out


@nki.jit
def forgets_to_load(x):
    """Multiplies a tile of which only the left half was loaded."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    half = x.shape[1] // 2
    nisa.dma_copy(dst=tile[:, 0:half], src=x[:, 0:half])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def too_many_partitions(x):
    """A tile of 256 partitions."""
    tile = nl.ndarray((256, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)


@nki.jit
def wide_matmul(lhs_t, rhs):
    """A product wider than a PSUM bank."""
    left = nl.ndarray(lhs_t.shape, dtype=lhs_t.dtype, buffer=nl.sbuf)
    right = nl.ndarray(rhs.shape, dtype=rhs.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=lhs_t)
    nisa.dma_copy(dst=right, src=rhs)
    psum = nl.ndarray((lhs_t.shape[1], rhs.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=psum, stationary=left, moving=right)


@nki.jit
def narrow_matmul(lhs_t, rhs):
    """lhs_t.T @ rhs, one tile."""
    out = nl.ndarray((lhs_t.shape[1], rhs.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray(lhs_t.shape, dtype=lhs_t.dtype, buffer=nl.sbuf)
    right = nl.ndarray(rhs.shape, dtype=rhs.dtype, buffer=nl.sbuf)
    psum = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.psum)
    result = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=lhs_t)
    nisa.dma_copy(dst=right, src=rhs)
    nisa.nc_matmul(psum, stationary=left, moving=right)
    nisa.tensor_copy(dst=result, src=psum)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def overlapping_addresses(x):
    """Two tiles whose fixed addresses share bytes while both are in use."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    first = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, address=(0, 0))
    second = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, address=(0, 64))
    nisa.dma_copy(dst=first, src=x)
    nisa.dma_copy(dst=second, src=x)
    nisa.tensor_tensor(dst=first, data1=first, data2=second, op=nl.add)
    nisa.dma_copy(dst=out, src=first)
    return out


@nki.jit
def by_program(x):
    """Each program of the grid copies its own rows."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0] // nl.num_programs(0)
    tile = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    mine = nl.ds(nl.program_id(0) * rows, rows)
    nisa.dma_copy(dst=tile, src=x[mine])
    nisa.dma_copy(dst=out[mine], src=tile)
    return out


def plain(x):
    """Not decorated, and does nothing."""
    return x


def launches_by_program(x):
    """A plain function that runs a kernel on a grid."""
    return by_program[2](x)
