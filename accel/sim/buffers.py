"""Buffers: the bytes of a storage, and operands as numpy views into them.

A buffer starts as one byte throughout, and each byte knows whether it was written.
A `Slot` is what a form says about one operand; with a buffer and a byte offset it gives the view of
the elements, and the view of their written marks. Marks are kept by byte, so that a storage may be
written as one dtype and read as another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.dtypes import itemsize, numpy_dtype
from accel.errors import UserError
from accel.isa.indirect import Index, index_of
from accel.isa.row import Array, Row
from accel.program import Access, Form, Mode, Storage

Marks = npt.NDArray[np.bool_]
_MOST_RUNS = 32


class Buffer:
    """A storage's bytes and which of them have been written: all (`complete`), else a few runs,
    else a mark a byte. `borrowed`: they are the caller's, to be copied before anything writes
    there. `blank`: those not written hold anything, until `settle`.
    """

    __slots__ = (
        "_marks",
        "_runs",
        "_unwritten",
        "blank",
        "borrowed",
        "complete",
        "data",
        "storage",
    )

    def __init__(
        self,
        storage: Storage,
        data: npt.NDArray[np.uint8],
        *,
        complete: bool = True,
        borrowed: bool = False,
        unwritten: int = 0,
    ) -> None:
        self.storage, self.data = storage, data
        self.complete, self.borrowed = complete, borrowed
        self.blank, self._unwritten = not complete, unwritten
        self._runs: list[tuple[int, int]] = []
        self._marks: Marks | None = None

    def own(self) -> None:
        """From now on the bytes are the buffer's own."""
        if self.borrowed:
            self.data, self.borrowed = self.data.copy(), False

    def settle(self) -> None:
        """What has not been written holds the byte it should; free once all is written."""
        if self.blank and not self.complete:
            if self._marks is not None:
                self.data[~self._marks] = self._unwritten
            else:
                kept = [(start, self.data[start:stop].copy()) for start, stop in self._runs]
                self.data.fill(self._unwritten)
                for start, run in kept:
                    self.data[start : start + len(run)] = run
        self.blank = False

    @property
    def marks(self) -> Marks:
        """One mark a byte, to read and set; from now on nothing is known otherwise."""
        if self._marks is None:
            self._marks = np.full(len(self.data), self.complete, np.bool_)
            for start, stop in self._runs:
                self._marks[start:stop] = True
            self.complete = False
        return self._marks

    def covers(self, start: int, stop: int) -> bool:
        """Whether all bytes of a run have been written."""
        if self._marks is not None:
            return bool(self._marks[start:stop].all())
        return any(first <= start and stop <= last for first, last in self._runs)

    def cover(self, start: int, stop: int) -> None:
        """All bytes of a run have been written."""
        if start == 0 and stop == len(self.data):
            self.complete, self._marks = True, None
        elif self._marks is not None or len(self._runs) == _MOST_RUNS:
            self.marks[start:stop] = True
        else:
            apart = []
            for first, last in self._runs:
                if last < start or stop < first:
                    apart.append((first, last))
                else:
                    start, stop = min(start, first), max(stop, last)
            self._runs = [*apart, (start, stop)]
            self.complete = start == 0 and stop == len(self.data)


@dataclass(frozen=True, slots=True)
class Slot:
    """One operand of a form. `keeps`: the instruction may leave elements as they were; `fills`: it
    writes every one, if its row says so.

    `steps` are the strides in bytes without the partition axis; `run_shape` and `run_steps` are
    the same bytes with the contiguous ones along the last axis. `index` says what the operand's
    index means, None for an ordinary operand. `every`: see `Role`.
    """

    role: str
    reads: bool
    writes: bool
    keeps: bool
    fills: bool
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    dtype: np.dtype[np.generic]
    run_shape: tuple[int, ...]
    run_steps: tuple[int, ...]
    on_chip: bool
    index: Index | None
    every: tuple[int, int]

    def touched(self) -> Marks:
        """Which elements the instruction touches: it may leave out partitions."""
        period, count = self.every
        lanes = np.arange(self.shape[0]) % period < count
        shaped = lanes.reshape(-1, *(1,) * (len(self.shape) - 1))
        return np.broadcast_to(shaped, self.shape)

    def view(self, buffer: Buffer, offset: int) -> Array:
        """The operand's elements."""
        strides = self._strides(buffer, self.steps)
        return np.ndarray(self.shape, self.dtype, buffer.data, offset, strides)

    def all_written(self, buffer: Buffer, offset: int) -> bool:
        """Whether every byte of the operand has been written."""
        if buffer.complete:
            return True
        if size := self._run(buffer):
            return buffer.covers(offset, offset + size)
        return bool(self._runs(buffer.marks, buffer, offset).all())

    def mark(self, buffer: Buffer, offset: int) -> None:
        """Every byte of the operand counts as written from now on."""
        if buffer.complete:
            return
        if size := self._run(buffer):
            buffer.cover(offset, offset + size)
        else:
            self._runs(buffer.marks, buffer, offset)[...] = True

    def marks(self, buffer: Buffer, offset: int) -> Marks:
        """A copy of whether each element has been written, judged by its first byte."""
        if buffer.complete:
            return np.ones(self.shape, np.bool_)
        return self._byte_marks(buffer.marks, buffer, offset).copy()

    def mark_some(self, buffer: Buffer, offset: int, written: Array) -> None:
        """The elements chosen by `written` count as written from now on."""
        if buffer.complete:
            return
        chosen = written.astype(np.bool_)
        for byte in range(self.dtype.itemsize):
            marks = self._byte_marks(buffer.marks, buffer, offset + byte)
            marks |= chosen

    def rows(self, buffer: Buffer, offset: int) -> Array:
        """What a vector of indices can choose from: an index replaces the operand's first axis."""
        assert self.index is not None
        shape, strides = self.shape[1:], self._strides(buffer, self.steps)[1:]
        count = self._positions(buffer, offset, self.index.step, shape, strides)
        steps = (self.index.step, *strides)
        return np.ndarray((count, *shape), self.dtype, buffer.data, offset, steps)

    def positions(self, buffer: Buffer, offset: int) -> int:
        """How many indices, from 0 on, move all of the operand without leaving its storage."""
        assert self.index is not None
        shape, strides = self.shape, self._strides(buffer, self.steps)
        if not self.on_chip or self.index.step % buffer.storage.partition_bytes == 0:
            return self._positions(buffer, offset, self.index.step, shape, strides)
        reach = self.dtype.itemsize + _span(shape[1:], strides[1:])
        width = buffer.storage.partition_bytes
        return max(0, (width - offset % width - reach) // self.index.step + 1)

    def _positions(
        self,
        buffer: Buffer,
        offset: int,
        step: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> int:
        reach = self.dtype.itemsize + _span(shape, strides)
        return max(0, (len(buffer.data) - offset - reach) // step + 1)

    def lanes(self, buffer: Buffer, offset: int) -> Array:
        """What lane indices choose from: every element [partitions, extent] of the view's tile."""
        return self._lanes(self.dtype, buffer.data, buffer, offset)

    def lane_marks(self, buffer: Buffer, offset: int, byte: int = 0) -> Marks | None:
        """Whether one byte of each of those elements has been written, to read and set."""
        if buffer.complete:
            return None
        return self._lanes(np.dtype(np.bool_), buffer.marks, buffer, offset + byte).view(np.bool_)

    def _lanes(
        self, dtype: np.dtype[np.generic], data: Array, buffer: Buffer, offset: int
    ) -> Array:
        assert self.index is not None
        shape = (self.shape[0], self.index.extent)
        strides = (buffer.storage.partition_bytes, self.index.step)
        return np.ndarray(shape, dtype, data, offset, strides)

    def outside(self, buffer: Buffer, offset: int) -> str:
        """The message for an operand that does not fit its storage."""
        return (
            f"{self.role} {self.shape} from byte {offset} on ends outside "
            f"{buffer.storage.name}, which has {len(buffer.data)} bytes"
        )

    def _run(self, buffer: Buffer) -> int:
        """The operand's size in bytes if they lie in one run, else 0."""
        if not self.on_chip:
            return self.run_shape[0] if len(self.run_shape) == 1 else 0
        if len(self.run_shape) != 2:
            return 0
        partitions, size = self.run_shape
        return partitions * size if partitions == 1 or size == buffer.storage.partition_bytes else 0

    def _strides(self, buffer: Buffer, steps: tuple[int, ...]) -> tuple[int, ...]:
        return (buffer.storage.partition_bytes, *steps) if self.on_chip else steps

    def _runs(self, written: Marks, buffer: Buffer, offset: int) -> Marks:
        strides = self._strides(buffer, self.run_steps)
        return np.ndarray(self.run_shape, np.bool_, written, offset, strides)

    def _byte_marks(self, written: Marks, buffer: Buffer, offset: int) -> Marks:
        strides = self._strides(buffer, self.steps)
        return np.ndarray(self.shape, np.bool_, written, offset, strides)


def new_buffer(storage: Storage, array: Array | None, unwritten: int) -> Buffer:
    """A storage never written, each byte `unwritten`, or one that borrows `array`."""
    if array is None:
        data = np.empty(storage.total_bytes, np.uint8)
        return Buffer(storage, data, complete=False, unwritten=unwritten)
    dense = np.ascontiguousarray(array)
    return Buffer(storage, dense.reshape(-1).view(np.uint8), borrowed=dense is array)


def check_array(storage: Storage, array: Array) -> None:
    """UserError where the array cannot be the storage's values."""
    if array.shape != storage.shape:
        raise UserError(f"{storage.name} has shape {array.shape}, must be {storage.shape}")
    if array.dtype != numpy_dtype(storage.dtype):
        raise UserError(f"{storage.name} has dtype {array.dtype}, must be {storage.dtype}")


def slot_of(form: Form, access: Access, entry: Row) -> Slot:
    """The slot of an operand of the row's instruction."""
    layout = access.layout
    lanes = (layout.partitions,) if layout.partitions else ()
    counts = tuple(count for _, count in layout.pattern)
    run_counts, run_steps = _runs(layout.pattern, itemsize(layout.dtype))
    accumulates = access.mode is Mode.ACCUMULATE
    # Adding on demand to what nothing wrote is undefined, so it counts as a read.
    keeps = accumulates or (entry.partial and access.role == "dst")
    index = index_of(form, access.role)
    every = next((role.every for role in entry.roles if role.name == access.role), (1, 1))
    demanded = accumulates and form.attribute("accumulate", "") == "true"
    return Slot(
        role=access.role,
        reads=access.mode is Mode.READ or demanded,
        writes=access.mode is not Mode.READ,
        keeps=keeps,
        fills=access.mode is Mode.WRITE and not keeps and index is None and every == (1, 1),
        shape=(*lanes, *counts),
        steps=tuple(step for step, _ in layout.pattern),
        dtype=numpy_dtype(layout.dtype),
        run_shape=(*lanes, *run_counts),
        run_steps=run_steps,
        on_chip=bool(layout.partitions),
        index=index,
        every=every,
    )


def _span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    return sum((count - 1) * stride for count, stride in zip(shape, strides, strict=True))


def _runs(
    pattern: tuple[tuple[int, int], ...], size: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The pattern in bytes: counts and steps of the outer axes, then one contiguous run."""
    outer, run = list(pattern), size
    while outer and (outer[-1][1] == 1 or outer[-1][0] == run):
        run *= outer.pop()[1]
    return (*(count for _, count in outer), run), (*(step for step, _ in outer), 1)
