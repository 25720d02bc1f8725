"""Small programs and forms for tests, so that a test says only what it is about."""

from __future__ import annotations

import math

import numpy as np

from accel.dtypes import itemsize, numpy_dtype
from accel.isa import Role, row
from accel.program import Access, Engine, Form, Kind, Layout, Memory, Mode, Storage
from accel.sim.evaluate import Values


def layout(shape: tuple[int, ...], dtype: str = "float32", memory: Memory = Memory.SBUF) -> Layout:
    """A whole row-major tensor: partitions first on-chip."""
    counts = shape if memory is Memory.HBM else shape[1:]
    steps = [itemsize(dtype) * math.prod(counts[i + 1 :]) for i in range(len(counts))]
    partitions = 0 if memory is Memory.HBM else shape[0]
    return Layout(memory, dtype, partitions, tuple(zip(steps, counts, strict=True)))


def form(op: str, engine: Engine = Engine.ANY, attributes: dict | None = None, **operands) -> Form:
    """A form over whole tensors; each operand is a Layout or a shape, modes as the table says."""
    roles = {role.name: role for role in row(op).roles}
    accesses = tuple(
        Access(name, _mode(roles.get(name)), value if isinstance(value, Layout) else layout(value))
        for name, value in operands.items()
    )
    return Form(op, engine, accesses, tuple(sorted((attributes or {}).items())))


def _mode(role: Role | None) -> Mode:
    """As the table says; the index of an operand is read."""
    return Mode.READ if role is None else role.mode


def run(op: str, attributes: dict | None = None, engine: Engine = Engine.ANY, **operands):
    """Carries one instruction out. Operands are arrays (their values) or layouts (unwritten).

    Returns the written operands by role, and the `Values` to look deeper.
    """
    values = Values()
    layouts = {}
    for number, (name, value) in enumerate(operands.items()):
        given = None if isinstance(value, Layout) else value
        layouts[name] = value if given is None else layout(value.shape, _name(value.dtype))
        shape = layouts[name].shape
        memory = layouts[name].memory
        storage = Storage(name, memory, layouts[name].dtype, shape, Kind.SCRATCH)
        values.allocate(number, storage, given)
    built = form(op, engine, attributes, **layouts)
    values.execute(built, [(number, 0) for number in range(len(operands))], "kernel.py:1")
    results = {
        access.role: values.array(number)
        for number, access in enumerate(built.accesses)
        if access.mode is not Mode.READ
    }
    return results, values


def _name(dtype: np.dtype) -> str:
    names = ("float32", "bfloat16", "float16", "int32", "uint32", "uint16", "uint8", "int8")
    return next(name for name in names if numpy_dtype(name) == dtype)


def psum(shape: tuple[int, ...], dtype: str = "float32") -> Layout:
    """A whole PSUM tile."""
    return layout(shape, dtype, Memory.PSUM)


def hbm(shape: tuple[int, ...], dtype: str = "float32") -> Layout:
    """A whole HBM tensor."""
    return layout(shape, dtype, Memory.HBM)
