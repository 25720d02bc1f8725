"""What a schedule does to the bytes of the machine, worked out without the simulator's geometry.

Comes in: a `Simulation`. On-chip operands become sets of bytes of physical partitions, HBM operands
sets of bytes of their tensor, both as bits of Python integers. Checked are: that conflicting
accesses keep their order in time, that no two live tiles share a byte, and, by carrying the
instructions out on one array a memory in the order in which they start, that the values stay.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from accel.chip import Chip
from accel.dtypes import itemsize
from accel.isa.indirect import INDEX
from accel.program import Access, Form, Kind, Layout, Memory, Mode, Program, Storage
from accel.sim.evaluate import Values
from accel.sim.queues import FIRST_DMA_QUEUE, QUEUES_PER_CORE
from accel.sim.simulation import Simulation

_ON_CHIP = (Memory.SBUF, Memory.PSUM)
_PARTITIONS = 128


@dataclass(frozen=True, slots=True)
class Touch:
    """Bytes that an instruction touches: `place` names the memory (or tensor), partitions
    `first` to `end` of it, and in each the bytes that are set in `bits`.
    """

    instruction: int
    mode: Mode
    place: tuple[str, int]
    first: int
    end: int
    bits: int

    def meets(self, other: Touch) -> bool:
        """Whether the two share a byte."""
        together = self.place == other.place and self.first < other.end and other.first < self.end
        return together and bool(self.bits & other.bits)


def touches(program: Program) -> list[Touch]:
    """Every operand of a program with addresses."""
    return [
        _touch(program, index, access, number, offset)
        for index in range(len(program))
        for access, number, offset in program.operands(index)
    ]


def _touch(program: Program, index: int, access: Access, number: int, offset: int) -> Touch:
    storage, layout = program.storages[number], access.layout
    form = program.forms[program.form[index]]
    if form.attribute(access.role + INDEX, ""):
        return _anywhere(program, number, offset, index, access)
    if storage.memory in _ON_CHIP:
        assert storage.address is not None
        lane, byte = divmod(offset, storage.partition_bytes)
        first = storage.start_partition + lane
        bits = _bits(layout) << (storage.address + byte - _before(layout))
        end = first + layout.partitions
        return Touch(index, access.mode, (storage.memory, storage.core), first, end, bits)
    bits = _bits(layout) << (offset - _before(layout))
    return Touch(index, access.mode, ("tensor", number), 0, 1, bits)


def _anywhere(program: Program, number: int, offset: int, index: int, access: Access) -> Touch:
    """An operand whose place an index decides may be anywhere in its storage, but an index of
    free elements stays in the operand's partitions.
    """
    storage = program.storages[number]
    if storage.memory not in _ON_CHIP:
        bits = (1 << storage.total_bytes) - 1
        return Touch(index, access.mode, ("tensor", number), 0, 1, bits)
    assert storage.address is not None
    bits = ((1 << storage.partition_bytes) - 1) << storage.address
    first = storage.start_partition + offset // storage.partition_bytes
    place = (storage.memory, storage.core)
    return Touch(index, access.mode, place, first, first + access.layout.partitions, bits)


@functools.cache
def _bits(layout: Layout) -> int:
    """The bytes of a pattern, counted from its lowest one."""
    bits = (1 << itemsize(layout.dtype)) - 1
    for step, count in layout.pattern:
        single = bits
        for n in range(1, count):
            bits |= single << abs(step) * n
    return bits


@functools.cache
def _before(layout: Layout) -> int:
    """Bytes of a pattern before its first element: what negative steps reach."""
    return sum(-step * (count - 1) for step, count in layout.pattern if step < 0)


def disordered(simulation: Simulation) -> Iterator[str]:
    """Pairs of instructions that conflict and are not kept in order."""
    trace, program = simulation.trace, simulation.program
    times, queue = trace.times, trace.queue
    by_place: dict[tuple[str, int], list[Touch]] = {}
    for touch in touches(program):
        earlier = by_place.setdefault(touch.place, [])
        for other in earlier:
            i, j = other.instruction, touch.instruction
            if i == j or (other.mode is Mode.READ and touch.mode is Mode.READ):
                continue
            if not touch.meets(other):
                continue
            same = queue[i] == queue[j] and queue[i] % QUEUES_PER_CORE < FIRST_DMA_QUEUE
            reads_result = touch.mode is Mode.READ
            adds = touch.mode is Mode.ACCUMULATE and other.mode is not Mode.READ
            if same and not reads_result:
                kept = times.start[j] >= times.issued[i] and times.end[j] >= times.end[i]
            else:
                kept = times.start[j] >= times.end[i]
            if not kept:
                kind = "raw" if reads_result or (adds and not same) else other.mode + touch.mode
                yield (
                    f"{kind}: {j} {_op(program, j)} starts at {times.start[j]}, "
                    f"{i} {_op(program, i)} ends at {times.end[i]}, both touch {touch.place}"
                )
        earlier.append(touch)


def _op(program: Program, index: int) -> str:
    return program.forms[program.form[index]].op


def overlapping(program: Program) -> Iterator[str]:
    """Pairs of tiles that hold the same byte while both are in use, in program order."""
    lives: dict[int, tuple[int, int]] = {}
    for index in range(len(program)):
        for _, number, _ in program.operands(index):
            lives[number] = (lives.get(number, (index, index))[0], index)
    placed = [n for n in lives if program.storages[n].memory in _ON_CHIP]
    for position, n in enumerate(placed):
        for m in placed[:position]:
            a, b = program.storages[n], program.storages[m]
            alive = lives[n][0] <= lives[m][1] and lives[m][0] <= lives[n][1]
            if (a.memory, a.core) == (b.memory, b.core) and alive and _meet(a, b):
                yield f"{a} and {b} live at {lives[n]} and {lives[m]}"


def _meet(a: Storage, b: Storage) -> bool:
    assert a.address is not None
    assert b.address is not None
    lanes = a.start_partition < b.start_partition + b.shape[0]
    lanes &= b.start_partition < a.start_partition + a.shape[0]
    bytes_ = a.address < b.address + b.partition_bytes
    return lanes and bytes_ and b.address < a.address + a.partition_bytes


def outside(simulation: Simulation, chip: Chip) -> Iterator[str]:
    """Tiles that do not fit their memory, or were placed across a bank that would hold them."""
    program = simulation.program
    for number in sorted(set(program.storage.tolist())):
        storage = program.storages[number]
        if storage.memory not in _ON_CHIP:
            continue
        assert storage.address is not None
        end = storage.address + storage.partition_bytes
        if storage.memory is Memory.SBUF:
            fits = end <= chip.sbuf_usable_bytes
        else:
            bank = chip.psum_bank_bytes
            fits = end <= bank * chip.psum_banks
            open_ = simulation.placed.program.storages[number].address is None
            small = storage.partition_bytes <= bank and open_
            fits &= not small or storage.address // bank == (end - 1) // bank
        if storage.address < 0 or not fits:
            yield str(storage)


def values_in_time(
    simulation: Simulation, inputs: Mapping[str, np.ndarray], chip: Chip
) -> dict[str, np.ndarray]:
    """The outputs, where every on-chip tile is a piece of one array a memory and core, and
    instructions are carried out in the order in which they start.
    """
    machine = _Machine(simulation.program, inputs, chip)
    start = simulation.trace.times.start
    for index in np.argsort(start, kind="stable").tolist():
        machine.carry_out(index)
    return machine.outputs()


class _Machine:
    """Memories as storages of 128 partitions; at its birth a tile is as if never written."""

    def __init__(self, program: Program, inputs: Mapping[str, np.ndarray], chip: Chip) -> None:
        self.program, self.values, self.born = program, Values(), set[int]()
        self.memories: dict[tuple[str, int], int] = {}
        for number, storage in enumerate(program.storages):
            if storage.memory not in _ON_CHIP:
                given = storage.kind in (Kind.INPUT, Kind.CONSTANT)
                self.values.allocate(number, storage, inputs[storage.name] if given else None)
        sizes = {
            Memory.SBUF: chip.sbuf_usable_bytes,
            Memory.PSUM: chip.psum_bank_bytes * chip.psum_banks,
        }
        for memory, size in sizes.items():
            for core in range(program.cores):
                number = len(program.storages) + len(self.memories)
                self.memories[memory, core] = number
                whole = Storage(f"{memory} {core}", memory, "uint8", (_PARTITIONS, size), core=core)
                self.values.allocate(number, whole)

    def carry_out(self, index: int) -> None:
        """One instruction on physical addresses."""
        places = []
        for _, number, offset in self.program.operands(index):
            storage = self.program.storages[number]
            if storage.memory in _ON_CHIP:
                if number not in self.born:
                    self._give_birth(number, storage)
                number, offset = self._physical(storage, offset)
            places.append((number, offset))
        self.values.execute(_physical_form(self.program.forms[self.program.form[index]]), places)

    def _physical(self, storage: Storage, offset: int) -> tuple[int, int]:
        assert storage.address is not None
        number = self.memories[storage.memory, storage.core]
        width = self.values.array(number).shape[1]
        lane, byte = divmod(offset, storage.partition_bytes)
        return number, (storage.start_partition + lane) * width + storage.address + byte

    def _give_birth(self, number: int, storage: Storage) -> None:
        self.born.add(number)
        assert storage.address is not None
        memory = self.memories[storage.memory, storage.core]
        rows = slice(storage.start_partition, storage.start_partition + storage.shape[0])
        columns = slice(storage.address, storage.address + storage.partition_bytes)
        data = self.values.array(memory)
        data[rows, columns] = 0xFF
        buffer = self.values._buffer(memory)
        buffer.marks.reshape(data.shape)[rows, columns] = False

    def outputs(self) -> dict[str, np.ndarray]:
        """The arrays of the outputs by name."""
        return {
            storage.name: self.values.array(number)
            for number, storage in enumerate(self.program.storages)
            if storage.kind is Kind.OUTPUT
        }


@functools.cache
def _physical_form(form: Form) -> Form:
    """Without what only placement says; one object a form, as the evaluator keeps them."""
    extra = ("spill",)
    kept = tuple(pair for pair in form.attributes if pair[0] not in extra)
    return dataclasses.replace(form, attributes=kept)
