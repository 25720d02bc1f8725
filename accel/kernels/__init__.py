"""The kernel library: kernels in the NKI language, each with its numpy meaning beside it.

`KERNELS` maps a name to kernel and reference. Files: `tiling` (cutting extents, loads), `matmul`,
`softmax`, `norm` (layer and RMS norm), `attention` (flash attention, forward).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from accel.kernels.attention import flash_attention, flash_attention_reference
from accel.kernels.matmul import matmul, matmul_reference
from accel.kernels.norm import layernorm, layernorm_reference, rmsnorm, rmsnorm_reference
from accel.kernels.softmax import softmax, softmax_reference
from accel.nki.jit import Kernel


@dataclass(frozen=True, slots=True)
class LibraryKernel:
    """A kernel and what it means: `reference` takes the same arguments as numpy arrays."""

    kernel: Kernel
    reference: Callable[..., Any]


KERNELS: dict[str, LibraryKernel] = {
    "matmul": LibraryKernel(matmul, matmul_reference),
    "softmax": LibraryKernel(softmax, softmax_reference),
    "layernorm": LibraryKernel(layernorm, layernorm_reference),
    "rmsnorm": LibraryKernel(rmsnorm, rmsnorm_reference),
    "flash_attention": LibraryKernel(flash_attention, flash_attention_reference),
}

__all__ = [
    "KERNELS",
    "LibraryKernel",
    "flash_attention",
    "layernorm",
    "matmul",
    "rmsnorm",
    "softmax",
]
