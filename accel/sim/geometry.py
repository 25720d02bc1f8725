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

import numpy as np
import numpy.typing as npt

from accel import isa
from accel.dtypes import itemsize
from accel.isa.indirect import index_of
from accel.program import (
    Access,
    ClassKey,
    Form,
    Kind,
    Layout,
    Memory,
    Mode,
    Program,
    class_key,
)
from accel.sim.compiled import compiled

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]
Shorts = npt.NDArray[np.int16]
Forms = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

DIMENSIONS = 4
MEMORIES = tuple(Memory)
MODES = {Mode.READ: 0, Mode.WRITE: 1, Mode.ACCUMULATE: 2}


@dataclass(frozen=True, slots=True, eq=False)
class Stores:
    """One row a storage: its class, and what the loops need. `address` is −1 where it is open.

    `given`: the caller fills it (inputs and constants). `strides` and `sizes` are those of the box
    dimensions, one row a class.
    """

    kind: Ints
    keys: tuple[ClassKey, ...]
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
    """One row an operand. `corners` are the lower and the upper ends of its box; `touched` is the
    bytes it is sure to touch, at most the box's volume.

    `first_operand` and `storage` repeat the program's in the one integer type (and writable) that
    the loops are compiled for.
    """

    first_operand: Ints
    storage: Ints
    corners: Ints
    touched: Ints
    mode: Bytes
    instruction: Ints

    @property
    def low(self) -> Ints:
        """The lower ends of each box."""
        return self.corners[:, 0]

    @property
    def high(self) -> Ints:
        """The upper ends of each box."""
        return self.corners[:, 1]


def stores_of(program: Program) -> Stores:
    """The storages of a program as arrays."""
    kinds, inverse = np.unique(program.storage_class, return_inverse=True)
    first = np.zeros(len(kinds), np.int64)
    first[inverse[::-1]] = np.arange(len(inverse))[::-1]
    kind = inverse.astype(np.int64)
    keys = tuple(class_key(program.storages[n]) for n in first.tolist())
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


def _row(key: ClassKey) -> tuple[int, int, int, int, int, int]:
    memory, dtype, shape, kind, start_partition, address = key
    width = itemsize(dtype)
    for count in shape[1:]:
        width *= count
    given = kind in (Kind.INPUT, Kind.CONSTANT)
    place = -1 if address is None else address
    return MEMORIES.index(memory), shape[0] if shape else 1, width, start_partition, place, given


def _grid(key: ClassKey) -> tuple[list[int], list[int]]:
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
    accesses = [(form, access) for form in program.forms for access in form.accesses]
    first_access = np.zeros(len(program.forms) + 1, np.int64)
    np.cumsum([len(form.accesses) for form in program.forms], out=first_access[1:])
    numbers = np.zeros((len(accesses), max(1, len(stores.keys))), np.int32)
    storage, first_operand = (
        program.storage.astype(np.int64),
        program.first_operand.astype(np.int64),
    )
    pair, instruction, pairs = _pairs(
        program.form, first_operand, first_access, storage, stores.kind, numbers
    )
    rows = _extent_rows(accesses, pairs, stores)
    corners, touched, mode = _boxes(
        pair,
        program.offset,
        rows,
        stores.strides[pairs[:, 1]],
        stores.sizes[pairs[:, 1]],
    )
    return Boxes(first_operand, storage, corners, touched, mode, instruction)


@compiled
def _pairs(
    form: Forms,
    first_operand: Ints,
    first_access: Ints,
    storage: Ints,
    kind: Ints,
    numbers: Forms,
) -> tuple[Ints, Ints, Ints]:
    """For each operand its pair of access and class of storage, numbered as they appear, and its
    instruction; the pairs. `numbers`, by access and class, is zero where a pair has none yet.
    """
    pair = np.empty(len(storage), np.int64)
    instruction = np.empty(len(storage), np.int64)
    pairs = np.empty((256, 2), np.int64)
    count = 0
    for i in range(len(form)):
        begin = first_operand[i]
        shift = first_access[form[i]] - begin
        for k in range(begin, first_operand[i + 1]):
            a, c = k + shift, kind[storage[k]]
            if numbers[a, c] == 0:
                if count == len(pairs):
                    pairs = np.concatenate((pairs, np.empty_like(pairs)))
                pairs[count, 0], pairs[count, 1] = a, c
                count += 1
                numbers[a, c] = count
            pair[k], instruction[k] = numbers[a, c] - 1, i
    return pair, instruction, pairs[:count].copy()


# Columns of a pair's row after the extents of its dimensions: whether its pattern leaves the grid,
# bytes before the offset, span in bytes, bytes touched, mode, and what an index may choose:
# nothing, all, or all of each partition (then the bytes of one).
_IRREGULAR, _BEFORE, _SPAN, _TOUCHED, _MODE, _FREE, _COLUMNS = range(DIMENSIONS, DIMENSIONS + 7)
_FIXED, _ANYWHERE = 0, -1


def _extent_rows(accesses: list[tuple[Form, Access]], pairs: Ints, stores: Stores) -> Ints:
    """What the boxes of a pair of access and class of storage have in common."""
    extents: dict[tuple[Layout, int], list[int]] = {}
    rows = np.zeros((len(pairs), _COLUMNS), np.int64)
    for n, (number, kind) in enumerate(pairs.tolist()):
        form, access = accesses[number]
        key = (access.layout, kind)
        if key not in extents:
            extents[key] = _extent(access.layout, stores, kind)
        rows[n, : _TOUCHED + 1] = extents[key]
        if _may_keep(form, access):
            rows[n, _TOUCHED] = 0
        rows[n, _MODE], rows[n, _FREE] = MODES[access.mode], _chosen(form, access, stores, kind)
    return rows


def _chosen(form: Form, access: Access, stores: Stores, kind: int) -> int:
    """What an index can choose of a storage: on-chip the rest of each partition (of all partitions
    where it steps by partitions), the whole tensor in HBM.
    """
    index = index_of(form, access.role)
    if index is None or not index.step:
        return _FIXED
    width = _partition_stride(stores, kind)
    inside = stores.keys[kind][0] is not Memory.HBM and index.step % max(width, 1) != 0
    return width if inside else _ANYWHERE


def _may_keep(form: Form, access: Access) -> bool:
    """Whether an instruction that writes the operand may leave all of it as it was."""
    if access.mode is Mode.READ:
        return False
    partial = isa.row(form.op).partial and access.role == "dst"
    skips = form.attribute("oob_mode", "error") == "skip"
    return partial or skips or index_of(form, access.role) is not None


@compiled
def _boxes(
    pair: Ints, offset: Ints, rows: Ints, strides: Ints, sizes: Ints
) -> tuple[Ints, Ints, Bytes]:
    """Closed intervals a dimension of each operand, the bytes it touches, and its mode.

    `rows`, `strides` and `sizes` by pair. A pattern that leaves the grid gets flat intervals.
    """
    dimensions = strides.shape[1]
    corners = np.empty((len(pair), 2, dimensions), np.int64)
    touched = np.empty(len(pair), np.int64)
    mode = np.empty(len(pair), np.int8)
    for k in range(len(pair)):
        p, low, high = pair[k], corners[k, 0], corners[k, 1]
        touched[k], mode[k] = rows[p, _TOUCHED], rows[p, _MODE]
        begin = offset[k] - rows[p, _BEFORE]
        rest, flat = begin, rows[p, _IRREGULAR] != 0
        for d in range(dimensions):
            at = 0
            if sizes[p, d] > 1:
                at = rest if d == dimensions - 1 else rest // strides[p, d]
                rest -= at * strides[p, d]
            low[d], high[d] = at, at + rows[p, d] - 1
            flat = flat or high[d] >= sizes[p, d]
        if flat:
            end, inside = begin + rows[p, _SPAN] - 1, True
            for d in range(dimensions):
                last = end // strides[p, d] % sizes[p, d]
                same = low[d] == last
                high[d] = last if inside else sizes[p, d] - 1
                if not inside:
                    low[d] = 0
                inside = inside and same
        if rows[p, _FREE] != _FIXED:
            for d in range(dimensions):
                if rows[p, _FREE] == _ANYWHERE or strides[p, d] < rows[p, _FREE]:
                    low[d], high[d] = 0, sizes[p, d] - 1
    return corners, touched, mode


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
