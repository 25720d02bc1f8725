"""Registers, and the loops whose bounds they hold.

A register's value is known at once where it is a constant, or where values are computed. Where only
shapes are recorded, a register loaded from memory takes its value from what the caller of the
recording gave for its name (the variable's), and is an error where the kernel needs one that was
not given. Loops are recorded unrolled.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from accel.errors import KernelError
from accel.nki.operands import READ, WRITE, given, record
from accel.nki.recorder import current
from accel.nki.tensor import Tensor
from accel.program import Memory


class VirtualRegister:
    """One 32-bit number of a sequencer. It counts as an int wherever Python takes one."""

    __slots__ = ("known", "name", "tensor")

    def __init__(self, tensor: Tensor, known: int | None = None) -> None:
        self.tensor, self.known = tensor, known
        self.name = tensor.name.rpartition(".")[0]

    def __index__(self) -> int:
        if self.known is None:
            raise KernelError(
                f"the kernel needs the value of register {self.name}, which shapes do not tell",
                f"run it with values, or give the value: registers={{{self.name!r}: 4}}",
            )
        return self.known

    __int__ = __index__

    def __bool__(self) -> bool:
        return self.__index__() != 0

    def __repr__(self) -> str:
        return f"register {self.name}"


Number = int | VirtualRegister


def register_alloc(x: int | VirtualRegister | Tensor | None = None) -> VirtualRegister:
    """A new register, holding `x` where it is given: an int, or one number in memory."""
    register = VirtualRegister(current().allocate((1, 1), "int32", Memory.REGISTER))
    if isinstance(x, Tensor):
        register_load(register, x)
    elif x is not None:
        register_move(register, x)
    return register


def register_move(dst: VirtualRegister, src: Number) -> None:
    """dst = an integer, or what another register holds."""
    _check("register_move", dst)
    if isinstance(src, VirtualRegister):
        record("register_move", (("dst", WRITE, dst.tensor), ("src", READ, src.tensor)))
        dst.known = src.known
        return
    try:
        value = operator.index(src)
    except TypeError:
        raise KernelError(
            f"register_move: src is {type(src).__name__}, needs an int or a register"
        ) from None
    record("register_move", (("dst", WRITE, dst.tensor),), given(value=value))
    dst.known = value


def register_load(dst: VirtualRegister, src: Tensor) -> None:
    """dst = the one number of a tensor in HBM or SBUF."""
    _check("register_load", dst)
    record("register_load", (("dst", WRITE, dst.tensor), ("src", READ, src)))
    recorder = current()
    if recorder.values is not None:
        dst.known = int(recorder.values.array(dst.tensor.storage).reshape(-1).astype(np.int64)[0])
        return
    values = recorder.register_values.get(dst.name)
    dst.known = None if values is None else next(values, None)


def register_store(dst: Tensor, src: Number) -> None:
    """The one number of a tensor = what a register holds."""
    register = src if isinstance(src, VirtualRegister) else register_alloc(src)
    record("register_store", (("dst", WRITE, dst), ("src", READ, register.tensor)))


def _check(call: str, register: object) -> None:
    if not isinstance(register, VirtualRegister):
        raise KernelError(
            f"{call}: dst is {type(register).__name__}, needs a register",
            "make one with nisa.register_alloc",
        )


def dynamic_range(start: Number, stop: Number | None = None, step: int = 1) -> range:
    """A loop whose bounds may be registers; `step` is a positive int."""
    if isinstance(step, VirtualRegister) or operator.index(step) < 1:
        raise KernelError(f"dynamic_range: step is {step!r}, needs a positive int")
    first, last = (0, start) if stop is None else (start, stop)
    return range(operator.index(first), operator.index(last), step)


def fori_loop(
    lower: Number, upper: Number, body_fun: Callable[[VirtualRegister], object], step: int = 1
) -> None:
    """Calls `body_fun` with a register that holds lower, lower + step, … below upper."""
    for value in dynamic_range(lower, upper, step):
        body_fun(register_alloc(value))


def while_loop(
    init: VirtualRegister, body_fun: Callable[[VirtualRegister], VirtualRegister]
) -> None:
    """Calls `body_fun` with the condition until the one it returns is 0."""
    condition = init
    while condition:
        condition = body_fun(condition)
        _check("while_loop", condition)
