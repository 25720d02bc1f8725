"""The closed sets of the kernel language: engines, memories, modes, and the operator tokens.

A token such as `nl.add` names an ALU operation or an activation function where an instruction
takes one, and computes on tiles where it is called. `operation_name` accepts a token, its name, or
the numpy function of the same meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum, StrEnum
from typing import Self, TypeVar

import numpy as np

from accel.errors import KernelError
from accel.isa import FUNCTIONS, OPERATORS
from accel.isa.functions import PARAMETRIC
from accel.program import Engine

Member = TypeVar("Member", bound=Enum)


class _Numbered(Enum):
    """An enumeration whose members kernels may also give by the number that stands for them."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        number = _NUMBERS.get(cls.__name__, {}).get(value)
        return None if number is None else cls[number]


_NUMBERS: dict[str, dict[object, str]] = {
    "engine": {
        0: "unknown",
        1: "tensor",
        2: "scalar",
        3: "gpsimd",
        4: "dma",
        5: "vector",
        6: "sync",
    },
    "reduce_cmd": dict(enumerate(("idle", "reset", "reduce", "reset_reduce", "load_reduce"))),
    "dge_mode": dict(enumerate(("unknown", "swdge", "hwdge", "none"))),
    "oob_mode": dict(enumerate(("error", "skip"))),
}


class engine(_Numbered):
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


class reduce_cmd(_Numbered):
    """What an instruction does to its engine's accumulator registers."""

    idle = "idle"
    reset = "reset"
    reduce = "reduce"
    reset_reduce = "reset_reduce"
    load_reduce = "load_reduce"


class dge_mode(_Numbered):
    """Who generates the descriptors of a transfer."""

    unknown = "unknown"
    swdge = "swdge"
    hwdge = "hwdge"
    none = "none"


class oob_mode(_Numbered):
    """What an indirect transfer does with an index out of bounds."""

    error = "error"
    skip = "skip"


class dma_engine(Enum):
    """Which DMA moves a tile between cores: the shared one, or GpSimd's own."""

    dma = 1
    gpsimd_dma = 2


class matmul_perf_mode(Enum):
    """Packing of fp8 operands."""

    none = "none"
    double_row = "double_row"


def member(kind: type[Member], value: object) -> Member:
    """The member that a kernel gives by itself or by its number."""
    if isinstance(value, kind):
        return value
    if type(value) is int and value in _NUMBERS.get(kind.__name__, {}):
        return kind(value)
    name = kind.__name__
    names = ", ".join(each.name for each in kind)
    raise KernelError(f"{name} is {value!r}, needs a member of nisa.{name}", f"members: {names}")


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


_ONLY_OPERATIONS = frozenset({"average", *PARAMETRIC})


def operation_name(op: object) -> str:
    """The instruction table's name of an operator token, numpy function, or name."""
    if type(op) is Token:
        return op.__name__
    name = _NUMPY_NAMES.get(op, "") if callable(op) else ""
    name = name or (op if isinstance(op, str) else str(getattr(op, "__name__", "")))
    name = _RENAMED.get(name, name)
    if name not in OPERATORS and name not in FUNCTIONS and name not in _ONLY_OPERATIONS:
        raise KernelError(f"unknown operator {op!r}", "use an operator of nki.language, as nl.add")
    return name
