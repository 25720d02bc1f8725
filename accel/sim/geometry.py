"""Geometry: storages and operands of a program as arrays the compiled loops can read.

Comes in: a `Program`. Goes out: `Stores` (one row a storage) and `Boxes` (one row an operand). A
box is one closed interval a dimension of the operand's storage, at most `DIMENSIONS` of them, the
innermost counted in bytes. Two operands of one storage can only touch the same byte if their boxes
overlap; a pattern that does not follow the storage's dimensions gets the smallest box around it,
and an operand whose place an index decides at run time gets everything the index can choose.

Most storages and operands share a class (same shape; same layout in the same shape), so Python
works once a class and numpy spreads the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from accel import isa
from accel.dtypes import itemsize
from accel.isa.indirect import Index, index_of
from accel.program import Access, Form, Kind, Layout, Memory, Mode, Program

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]
Shorts = npt.NDArray[np.int16]
Flags = npt.NDArray[np.bool_]

DIMENSIONS = 4
MEMORIES = tuple(Memory)
MODES = {Mode.READ: 0, Mode.WRITE: 1, Mode.ACCUMULATE: 2}

_CLASS = attrgetter("memory", "dtype", "shape", "kind", "start_partition", "address")
_ClassKey = tuple[Memory, str, tuple[int, ...], Kind, int, int | None]


@dataclass(frozen=True, slots=True, eq=False)
class Stores:
    """One row a storage: its class, and what the loops need. `address` is −1 where it is open.

    `given`: the caller fills it (inputs and constants). `strides` and `sizes` are those of the box
    dimensions, one row a class.
    """

    kind: Ints
    keys: tuple[_ClassKey, ...]
    memory: Bytes
    partitions: Ints
    partition_bytes: Ints
    start_partition: Ints
    address: Ints
    given: Flags
    strides: Ints
    sizes: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Boxes:
    """One row an operand. `touched` is the bytes it is sure to touch, at most the box's volume.

    `first_operand` and `storage` repeat the program's in the one integer type (and writable) that
    the loops are compiled for.
    """

    first_operand: Ints
    storage: Ints
    low: Ints
    high: Ints
    touched: Ints
    mode: Bytes
    instruction: Ints


def stores_of(program: Program) -> Stores:
    """The storages of a program as arrays."""
    index: dict[_ClassKey, int] = {}
    kind = np.fromiter(
        (index.setdefault(_CLASS(s), len(index)) for s in program.storages),
        np.int64,
        len(program.storages),
    )
    keys = tuple(index)
    grids = [_grid(key) for key in keys]
    rows = np.array([_row(key) for key in keys], np.int64).reshape(-1, 6)[kind]
    return Stores(
        kind=kind,
        keys=keys,
        memory=rows[:, 0].astype(np.int8),
        partitions=rows[:, 1].copy(),
        partition_bytes=rows[:, 2].copy(),
        start_partition=rows[:, 3].copy(),
        address=rows[:, 4].copy(),
        given=rows[:, 5].astype(np.bool_),
        strides=np.array([g[0] for g in grids], np.int64).reshape(-1, DIMENSIONS),
        sizes=np.array([g[1] for g in grids], np.int64).reshape(-1, DIMENSIONS),
    )


def _row(key: _ClassKey) -> tuple[int, int, int, int, int, int]:
    memory, dtype, shape, kind, start_partition, address = key
    width = itemsize(dtype)
    for count in shape[1:]:
        width *= count
    given = kind in (Kind.INPUT, Kind.CONSTANT)
    place = -1 if address is None else address
    return MEMORIES.index(memory), shape[0] if shape else 1, width, start_partition, place, given


def _grid(key: _ClassKey) -> tuple[list[int], list[int]]:
    """Strides (bytes) and sizes of the box dimensions; surplus outer dimensions are merged."""
    memory, dtype, shape, *_ = key
    sizes = list(shape) or [1]
    sizes[-1:] = [sizes[-1] * itemsize(dtype)] if len(sizes) > 1 or memory is Memory.HBM else sizes
    if len(sizes) == 1 and memory is not Memory.HBM:
        sizes.append(itemsize(dtype))
    first = 0 if memory is Memory.HBM else 1
    while len(sizes) > DIMENSIONS:
        sizes[first : first + 2] = [sizes[first] * sizes[first + 1]]
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size)
    missing = DIMENSIONS - len(sizes)
    total = strides[0] * sizes[0]
    return [max(1, total)] * missing + strides, [1] * missing + sizes


def boxes_of(program: Program, stores: Stores) -> Boxes:
    """The operands of a program as boxes."""
    pairs_of = [(form, access) for form in program.forms for access in form.accesses]
    accesses = [access for _, access in pairs_of]
    layouts: dict[Layout, int] = {}
    layout_of = np.array([layouts.setdefault(a.layout, len(layouts)) for a in accesses], np.int64)
    mode_of = np.array([MODES[a.mode] for a in accesses], np.int8)
    counts = np.diff(program.first_operand)
    instruction = np.repeat(np.arange(len(program)), counts)
    access = _access_numbers(program, counts)

    kinds = stores.kind[program.storage]
    pairs = layout_of[access] * max(1, len(stores.keys)) + kinds
    unique, inverse = np.unique(pairs, return_inverse=True)
    table = list(layouts)
    extents = np.array(
        [_extent(table[p // len(stores.keys)], stores, int(p) % len(stores.keys)) for p in unique],
        np.int64,
    ).reshape(-1, DIMENSIONS + 4)[inverse]
    low, high = _intervals(program.offset, extents, stores.strides[kinds], stores.sizes[kinds])
    indices = [index_of(form, a.role) for form, a in pairs_of]
    _widen(low, high, indices, access, stores, program.storage)
    unsure = np.array([_may_keep(form, a) for form, a in pairs_of], np.bool_)
    return Boxes(
        program.first_operand.astype(np.int64),
        program.storage.astype(np.int64),
        low,
        high,
        np.where(unsure[access], 0, extents[:, -1]),
        mode_of[access],
        instruction,
    )


def _may_keep(form: Form, access: Access) -> bool:
    """Whether an instruction that writes the operand may leave all of it as it was."""
    if access.mode is Mode.READ:
        return False
    partial = isa.row(form.op).partial and access.role == "dst"
    skips = form.attribute("oob_mode", "error") == "skip"
    return partial or skips or index_of(form, access.role) is not None


def _widen(
    low: Ints,
    high: Ints,
    indices: list[Index | None],
    access: Ints,
    stores: Stores,
    storage: npt.NDArray[np.int32],
) -> None:
    """Boxes of all an index can choose: on-chip the rest of each partition (of all partitions
    where it steps by partitions), the whole tensor in HBM."""
    steps = np.array([0 if index is None else index.step for index in indices], np.int64)[access]
    moved = np.flatnonzero(steps)
    kinds, width = stores.kind[storage[moved]], stores.partition_bytes[storage[moved]]
    strides, last = stores.strides[kinds], stores.sizes[kinds] - 1
    inside = stores.memory[storage[moved]] != MEMORIES.index(Memory.HBM)
    inside &= steps[moved] % np.maximum(width, 1) != 0
    free = ~inside[:, None] | (strides < width[:, None])
    low[moved] = np.where(free, 0, low[moved])
    high[moved] = np.where(free, last, high[moved])


def _access_numbers(program: Program, counts: Ints) -> Ints:
    """For each operand, the number of its access in the list over all forms."""
    first_access = np.zeros(len(program.forms) + 1, np.int64)
    np.cumsum([len(form.accesses) for form in program.forms], out=first_access[1:])
    within = np.arange(len(program.storage)) - np.repeat(program.first_operand[:-1], counts)
    numbers: Ints = np.repeat(first_access[program.form], counts) + within
    return numbers


def _extent(layout: Layout, stores: Stores, kind: int) -> list[int]:
    """Extents a dimension, then: irregular?, bytes before the offset, span in bytes, bytes touched.

    A step belongs to the outermost dimension whose stride it reaches.
    """
    strides = [int(s) for s in stores.strides[kind]]
    width = itemsize(layout.dtype)
    extents, before, span, irregular = [1] * DIMENSIONS, 0, width, 0
    extents[-1] = width
    pattern = list(layout.pattern)
    if layout.partitions > 1:
        pattern.append((_partition_stride(stores, kind), layout.partitions))
    for step, count in pattern:
        if step == 0 or count <= 1:
            continue
        reach = abs(step) * (count - 1)
        span += reach
        before += reach if step < 0 else 0
        home = next((d for d, s in enumerate(strides) if s <= abs(step)), DIMENSIONS - 1)
        irregular |= abs(step) % strides[home] != 0
        extents[home] += abs(step) // strides[home] * (count - 1)
    return [*extents, irregular, before, span, _distinct(pattern, width)]


def _distinct(pattern: list[tuple[int, int]], width: int) -> int:
    """Bytes a pattern touches, or fewer where it may touch some of them twice."""
    axes = sorted((abs(step), count) for step, count in pattern if step and count > 1)
    elements, span = 1, width
    for step, count in axes:
        if step < span:
            return width * max(count for _, count in axes)
        elements *= count
        span += step * (count - 1)
    return elements * width


def _partition_stride(stores: Stores, kind: int) -> int:
    _, dtype, shape, *_ = stores.keys[kind]
    width = itemsize(dtype)
    for count in shape[1:]:
        width *= count
    return width


def _intervals(offset: Ints, extents: Ints, strides: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Closed intervals a dimension from the offset; flat ones where the pattern leaves the grid."""
    first = offset - extents[:, DIMENSIONS + 1]
    low = first[:, None] // strides % sizes
    high = low + extents[:, :DIMENSIONS] - 1
    flat = (high >= sizes).any(axis=1) | (extents[:, DIMENSIONS] != 0)
    if flat.any():
        last = (first + extents[:, DIMENSIONS + 2] - 1)[flat]
        end = last[:, None] // strides[flat] % sizes[flat]
        start, size = low[flat], sizes[flat]
        inside = np.ones(len(start), np.bool_)
        for d in range(DIMENSIONS):
            same = start[:, d] == end[:, d]
            lower = np.where(inside, start[:, d], 0)
            upper = np.where(inside, end[:, d], size[:, d] - 1)
            inside &= same
            start[:, d], end[:, d] = lower, upper
        low[flat], high[flat] = start, end
    return np.ascontiguousarray(low), np.ascontiguousarray(high)
