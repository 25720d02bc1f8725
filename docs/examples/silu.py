"""SiLU, out = x · sigmoid(x), in the current form of the kernel language."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def silu(x):
    """x[rows, columns], 128 rows at a time; the last tile may have fewer."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, rows, nl.tile_size.pmax):
        part = slice(start, min(start + nl.tile_size.pmax, rows))
        tile = nl.ndarray((part.stop - start, columns), dtype=x.dtype, buffer=nl.sbuf)
        gate = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
        result = nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[part, :])
        nisa.activation(dst=gate, op=nl.sigmoid, data=tile)
        nisa.tensor_tensor(dst=result, data1=tile, data2=gate, op=nl.multiply)
        nisa.dma_copy(dst=out[part, :], src=result)
    return out
