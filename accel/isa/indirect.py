"""Indirect operands: whose place is found at run time, from an index that lies in SBUF.

An operand `src` that takes an index has beside it a read operand `src_index` and an attribute of
the same name, which says what the index means and how many bytes one step of it is:

    scalar:2048        one index moves the whole operand
    vector:2048        one index a position of the operand's first axis: gather and scatter by DMA
    lanes:4:512        one index an element of a partition, of 512; partitions share them in groups

Index i of a group of 16 partitions (32 on the tensor engine) lies at [i mod 16, i div 16] of the
index tile's same partitions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from accel.chip import Chip
from accel.errors import KernelError
from accel.isa.row import Array, Row
from accel.isa.values import Int64, flat
from accel.program import Access, Engine, Form, Memory

INDEX = "_index"
SCALAR, VECTOR, LANES = "scalar", "vector", "lanes"
INTEGERS = frozenset({"uint8", "uint16", "uint32", "int8", "int16", "int32"})
_SINCE_GENERATION = 4


@dataclass(frozen=True, slots=True)
class Index:
    """`kind` is scalar, vector or lanes; `step` is in bytes; `extent` the elements of a partition
    that lanes choose from.
    """

    kind: str
    step: int
    extent: int = 0

    def __str__(self) -> str:
        return ":".join(map(str, (self.kind, self.step, self.extent)[: 3 if self.extent else 2]))


@functools.cache
def _parsed(text: str) -> Index:
    kind, *numbers = text.split(":")
    return Index(kind, *map(int, numbers))


def index_of(form: Form, role: str) -> Index | None:
    """What the index of an operand means; None for an ordinary operand."""
    text = form.attribute(role + INDEX, "")
    return _parsed(text) if isinstance(text, str) and text else None


def indirect_roles(form: Form) -> tuple[str, ...]:
    """The operands of a form that take an index."""
    return tuple(a.role for a in form.accesses if index_of(form, a.role) is not None)


def is_index(row: Row, name: str) -> bool:
    """Whether this is the name of an index of one of the row's operands."""
    base = name.removesuffix(INDEX)
    return base != name and any(role.name == base for role in row.roles)


def gather_lanes(form: Form, engine: Engine, shape: tuple[int, ...], index: Array) -> Int64:
    """Element positions [partitions, count] that a lane index chooses; KernelError outside."""
    group = _group(engine)
    lanes, count = shape[0], math.prod(shape[1:])
    rows = flat(index)
    first = range(0, lanes, group)
    chosen = [rows[start : start + group].T.reshape(-1)[:count] for start in first]
    if any(len(part) < count for part in chosen):
        raise KernelError(
            f"{form.op}: an index of {rows.shape[1]} columns holds {rows.shape[1] * group} "
            f"offsets a group of {group} partitions, the view asks for {count}",
            "give num_elem of indirect()",
        )
    sizes = [min(group, lanes - start) for start in first]
    parts = [part[None].repeat(size, 0) for part, size in zip(chosen, sizes, strict=True)]
    return np.concatenate(parts).astype(np.int64)


def problem(row: Row, form: Form, chip: Chip) -> str | None:
    """The first rule that an indirect operand of the form breaks."""
    for access in form.accesses:
        index, tile = index_of(form, access.role), form.access(access.role + INDEX)
        if index is None:
            continue
        if tile is None:
            return f"operand {access.role}{INDEX} is missing"
        if tile.layout.dtype not in INTEGERS:
            return f"{access.role}{INDEX} is {tile.layout.dtype}, must be an integer"
        if tile.layout.memory is not Memory.SBUF:
            return f"{access.role}{INDEX} is in {tile.layout.memory}, must be in sbuf"
        found = _kind_problem(row, access, tile, index, chip)
        if found is not None:
            return found
    return None


def _kind_problem(row: Row, access: Access, tile: Access, index: Index, chip: Chip) -> str | None:
    count = tile.layout.elements * max(1, tile.layout.partitions)
    if index.kind == SCALAR:
        return None if count == 1 else f"{access.role}{INDEX} has {count} elements, must have 1"
    if index.kind == VECTOR:
        return _vector_problem(row, access, count)
    if access.role not in row.lanes:
        legal = f"only {' and '.join(row.lanes)}" if row.lanes else "no operand of it"
        return f"{access.role} is a view by indirect(), which {legal} may be"
    if chip.generation < _SINCE_GENERATION:
        return f"{access.role} is a view by indirect(), which needs gen4, not {chip.nc_version}"
    lanes, chosen = access.layout.partitions, access.layout.elements
    group = _group(row.engines[chip.generation][0])
    if 0 < lanes % group < chosen:
        return (
            f"{access.role} takes {chosen} offsets of groups of {group} partitions, the last group "
            f"of its {lanes} has {lanes % group}"
        )
    return None


def _group(engine: Engine) -> int:
    """How many partitions hold the offsets of one group."""
    return 32 if engine is Engine.TENSOR else 16


def _vector_problem(row: Row, access: Access, count: int) -> str | None:
    if not row.gathers:
        return f"{access.role} takes a vector of indices, which only DMA transfers do"
    if access.layout.memory is not Memory.HBM:
        return f"{access.role} is in {access.layout.memory}, a vector of indices needs it in hbm"
    rows = access.layout.shape[0]
    if count == rows or (row.name == "dma_transpose" and count > rows):
        return None
    return f"{access.role}{INDEX} has {count} elements, {access.role} has {rows} rows"


def vector_index(form: Form, arrays: Mapping[str, Array], role: str) -> Int64 | None:
    """The indices of an operand that is gathered or scattered, along the partitions first."""
    index = index_of(form, role)
    if index is None or index.kind != VECTOR:
        return None
    picked = arrays[role + INDEX]
    return flat(picked).T.reshape(-1).astype(np.int64)
