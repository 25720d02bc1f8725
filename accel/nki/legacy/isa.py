"""`neuronxcc.nki.isa`: every instruction call and enumeration that a kernel finds under that name.

Each call works out shape and element type of the result and issues the newer call with the
destination left open. Calls that name their destination (`dst=`) are emitted as they are.
"""

from __future__ import annotations

from accel.nki.enums import dge_mode, engine, oob_mode, reduce_cmd
from accel.nki.instructions.patterns import FLOAT32_MIN
from accel.nki.isa import (
    get_nc_version,
    gpsimd_engine,
    nc_version,
    scalar_engine,
    tensor_engine,
    unknown_engine,
    vector_engine,
)
from accel.nki.legacy.instructions.draws import dropout
from accel.nki.legacy.instructions.elementwise import (
    activation,
    activation_reduce,
    reciprocal,
    scalar_tensor_tensor,
    tensor_scalar,
    tensor_tensor,
    tensor_tensor_scan,
)
from accel.nki.legacy.instructions.matrix import nc_matmul, nc_transpose
from accel.nki.legacy.instructions.moves import (
    dma_copy,
    dma_transpose,
    memset,
    nc_stream_shuffle,
    select_reduce,
    tensor_copy,
    tensor_copy_predicated,
)
from accel.nki.legacy.instructions.patterns import affine_select, iota, range_select
from accel.nki.legacy.instructions.reductions import (
    bn_aggr,
    bn_stats,
    max8,
    nc_find_index8,
    nc_match_replace8,
    tensor_partition_reduce,
    tensor_reduce,
    tensor_scalar_reduce,
)

__all__ = [
    "activation",
    "activation_reduce",
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "dge_mode",
    "dma_copy",
    "dma_engine",
    "dma_transpose",
    "dropout",
    "engine",
    "fp32",
    "get_nc_version",
    "gpsimd_engine",
    "iota",
    "max8",
    "memset",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_matmul",
    "nc_stream_shuffle",
    "nc_transpose",
    "nc_version",
    "oob_mode",
    "range_select",
    "reciprocal",
    "reduce_cmd",
    "scalar_engine",
    "scalar_tensor_tensor",
    "select_reduce",
    "tensor_copy",
    "tensor_copy_predicated",
    "tensor_engine",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
    "unknown_engine",
    "vector_engine",
]

dma_engine = engine.dma


class fp32:
    """Constants of float32."""

    min = FLOAT32_MIN
