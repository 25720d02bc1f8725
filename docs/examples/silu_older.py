"""SiLU, out = x · sigmoid(x), in the older form of the kernel language."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def silu(x):
    """x[rows, columns]; rows are a multiple of 128."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    lane, column = nl.arange(128)[:, None], nl.arange(columns)[None, :]
    for i in nl.affine_range(rows // 128):
        tile = nl.load(x[i * 128 + lane, column])
        gate = nisa.activation(op=nl.sigmoid, data=tile, dtype=nl.float32)
        nl.store(out[i * 128 + lane, column], value=nl.multiply(tile, gate, dtype=x.dtype))
    return out
