"""`nki.isa`: every instruction call and enumeration that a kernel finds under that name."""

from __future__ import annotations

from accel.errors import KernelError
from accel.nki.enums import (
    dge_mode,
    dma_engine,
    engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
)
from accel.nki.instructions.draws import (
    dropout,
    rand2,
    rand_get_state,
    rand_set_state,
    rng,
    set_rng_seed,
)
from accel.nki.instructions.elementwise import (
    activation,
    activation_reduce,
    reciprocal,
    scalar_tensor_tensor,
    tensor_scalar,
    tensor_tensor,
    tensor_tensor_scan,
)
from accel.nki.instructions.matrix import nc_matmul, nc_transpose
from accel.nki.instructions.moves import (
    dma_compute,
    dma_copy,
    dma_transpose,
    memset,
    nc_stream_shuffle,
    tensor_copy,
    tensor_copy_predicated,
)
from accel.nki.instructions.mx import nc_matmul_mx, quantize_mx
from accel.nki.instructions.patterns import affine_select, iota, range_select, select_reduce
from accel.nki.instructions.pipelines import activate2, exponential
from accel.nki.instructions.reductions import (
    bn_aggr,
    bn_stats,
    local_gather,
    max8,
    nc_find_index8,
    nc_match_replace8,
    nc_n_gather,
    nonzero_with_count,
    sequence_bounds,
    tensor_partition_reduce,
    tensor_reduce,
    tensor_scalar_cumulative,
    tensor_scalar_reduce,
    topk,
)
from accel.nki.meetings import core_barrier, sendrecv
from accel.nki.objects import NkiInstruction
from accel.nki.recorder import current
from accel.nki.registers import (
    VirtualRegister,
    register_alloc,
    register_load,
    register_move,
    register_store,
)

__all__ = [
    "NkiInstruction",
    "NkiValidationError",
    "VirtualRegister",
    "activate2",
    "activation",
    "activation_reduce",
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "core_barrier",
    "dge_mode",
    "dma_compute",
    "dma_copy",
    "dma_engine",
    "dma_transpose",
    "dropout",
    "engine",
    "exponential",
    "get_nc_sub_version",
    "get_nc_version",
    "gpsimd_engine",
    "iota",
    "local_gather",
    "matmul_perf_mode",
    "max8",
    "memset",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_matmul",
    "nc_matmul_mx",
    "nc_n_gather",
    "nc_stream_shuffle",
    "nc_transpose",
    "nc_version",
    "nonzero_with_count",
    "oob_mode",
    "quantize_mx",
    "rand2",
    "rand_get_state",
    "rand_set_state",
    "range_select",
    "reciprocal",
    "reduce_cmd",
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
    "rng",
    "scalar_engine",
    "scalar_tensor_tensor",
    "select_reduce",
    "sendrecv",
    "sequence_bounds",
    "set_rng_seed",
    "tensor_copy",
    "tensor_copy_predicated",
    "tensor_engine",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
    "topk",
    "unknown_engine",
    "vector_engine",
]

tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown

NkiValidationError = KernelError


def get_nc_version() -> nc_version:
    """The generation the kernel is recorded for; KernelError on inf1, which NKI has no name for."""
    chip = current().chip
    if chip.generation not in {version.value for version in nc_version}:
        raise KernelError(
            f"nki.isa.nc_version has no name for {chip.name}: NKI does not support it",
            "leave the question out for kernels that run on it",
        )
    return nc_version(chip.generation)


def get_nc_sub_version() -> int:
    """The revision of the silicon within its generation; 0, the first, for every chip here."""
    current()
    return 0


def __getattr__(name: str) -> object:
    raise AttributeError(f"nki.isa has no {name!r}")
