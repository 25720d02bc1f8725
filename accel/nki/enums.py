"""The closed sets of the kernel language: engines, memories, modes, and the operator tokens.

A token such as `nl.add` names an ALU operation or an activation function where an instruction
takes one, and computes on tiles where it is called. `operation_name` accepts a token, its name, or
the numpy function of the same meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum, StrEnum

import numpy as np

from accel.errors import KernelError
from accel.isa import FUNCTIONS, OPERATORS
from accel.program import Engine


class engine(Enum):
    """Who executes an instruction; `unknown` leaves it to the machine."""

    unknown = Engine.ANY
    tensor = Engine.TENSOR
    vector = Engine.VECTOR
    scalar = Engine.SCALAR
    gpsimd = Engine.GPSIMD
    sync = Engine.SYNC
    dma = "dma"


class MemoryRegion(StrEnum):
    """Where a tensor lives. `hbm` is the private kind."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    hbm = "private_hbm"
    shared_hbm = "shared_hbm"


class reduce_cmd(Enum):
    """What an instruction does to its engine's accumulator registers."""

    idle = "idle"
    reset = "reset"
    reduce = "reduce"
    reset_reduce = "reset_reduce"
    load_reduce = "load_reduce"


class dge_mode(Enum):
    """Who generates the descriptors of a transfer."""

    unknown = "unknown"
    swdge = "swdge"
    hwdge = "hwdge"
    none = "none"


class oob_mode(Enum):
    """What an indirect transfer does with an index out of bounds."""

    error = "error"
    skip = "skip"


class matmul_perf_mode(Enum):
    """Packing of fp8 operands."""

    none = "none"
    double_row = "double_row"


class nc_version(IntEnum):
    """Generations in order, so that kernels may compare them."""

    gen2 = 2
    gen3 = 3
    gen4 = 4


class Token:
    """An operator of the language: a name for instructions, a function for tiles."""

    __slots__ = ("__name__", "_apply")

    def __init__(self, name: str, apply: Callable[..., object]) -> None:
        self.__name__ = name
        self._apply = apply

    def __call__(self, *tiles: object, **options: object) -> object:
        return self._apply(*tiles, **options)

    def __repr__(self) -> str:
        return f"nl.{self.__name__}"


_NUMPY_NAMES: dict[object, str] = {
    np.true_divide: "divide",
    np.absolute: "abs",
    np.invert: "invert",
    np.remainder: "mod",
    np.max: "maximum",
    np.amax: "maximum",
    np.min: "minimum",
    np.amin: "minimum",
    np.sum: "add",
    np.prod: "multiply",
}
_RENAMED = {"max": "maximum", "min": "minimum", "sum": "add", "prod": "multiply"}


def operation_name(op: object) -> str:
    """The instruction table's name of an operator token, numpy function, or name."""
    if type(op) is Token:
        return op.__name__
    name = _NUMPY_NAMES.get(op, "") if callable(op) else ""
    name = name or (op if isinstance(op, str) else str(getattr(op, "__name__", "")))
    name = _RENAMED.get(name, name)
    if name not in OPERATORS and name not in FUNCTIONS:
        raise KernelError(f"unknown operator {op!r}", "use an operator of nki.language, as nl.add")
    return name
