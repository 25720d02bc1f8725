"""Numerics: how far evaluation follows the machine's arithmetic, where there is a choice.

`precise` keeps every tensor in its storage dtype; without it, floats of fewer bits keep float32
beside their bytes, so that what is left of an error is not rounding. `fp32_matmul` is exact to
float32 rounding, or goes through the tensor engine's passes over parts of float32 operands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from accel.errors import UserError

PRECISE_VARIABLE = "NKI_PRECISE_FP"

Fp32Matmul = Literal["exact", "device"]
FP32_MATMULS: tuple[str, ...] = get_args(Fp32Matmul)


@dataclass(frozen=True, slots=True)
class Numerics:
    """The choices; the defaults are exact storage and exact float32 products. `unwritten` is the
    byte that memory holds before anything wrote it: all ones, NaN in every float format.
    """

    precise: bool = True
    fp32_matmul: Fp32Matmul = "exact"
    unwritten: int = 0xFF


EXACT = Numerics()


def numerics_of(environment: Mapping[str, str], fp32_matmul: str = "exact") -> Numerics:
    """The choices of an environment and of an option; UserError for an unknown word."""
    precise = environment.get(PRECISE_VARIABLE, "1")
    if precise not in ("0", "1"):
        raise UserError(f"{PRECISE_VARIABLE} is {precise!r}", "set it to 0 or 1")
    for choice in get_args(Fp32Matmul):
        if choice == fp32_matmul:
            return Numerics(precise == "1", choice)
    raise UserError(
        f"unknown float32 matmul {fp32_matmul!r}", f"choose one of {', '.join(FP32_MATMULS)}"
    )
