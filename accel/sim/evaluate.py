"""Evaluate: what a program computes, with real values in real storage dtypes.

`Values` holds one byte buffer a storage (`buffers.py`) and carries instructions out one at a time,
so the kernel language runs it live; `evaluate` runs a finished program from named inputs. Reads of
elements that nothing had written are collected, not raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.dtypes import numpy_dtype
from accel.errors import KernelError, UserError
from accel.isa import Row, row
from accel.isa.row import Array
from accel.program import Engine, Form, Kind, Program, Storage
from accel.sim.buffers import Buffer, Slot, check_array, new_buffer, slot_of

_GIVEN = frozenset({Kind.INPUT, Kind.CONSTANT})
_LANES = 128


@dataclass(frozen=True, slots=True)
class Uninitialised:
    """`count` reads of elements of `storage` that nothing had written, the first one at `first`.

    `first` is an index into operand `operand` of instruction `op` at `place`.
    """

    storage: str
    place: str
    op: str
    operand: str
    first: tuple[int, ...]
    count: int

    def __str__(self) -> str:
        return (
            f"{self.op}: {self.operand} reads {self.count} elements of {self.storage} never "
            f"written, first at {list(self.first)} ({self.place})"
        )


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Arrays of the program's outputs by name, and reads of values that nobody wrote."""

    outputs: dict[str, Array]
    uninitialised: tuple[Uninitialised, ...]


@dataclass(frozen=True, slots=True)
class _Plan:
    """A form with everything about it that does not depend on where its operands lie."""

    form: Form
    row: Row
    slots: tuple[Slot, ...]


class Values:
    """The values of every storage of one program, as its instructions are carried out."""

    def __init__(self) -> None:
        self._storages: dict[int, tuple[Storage, Array | None]] = {}
        self._buffers: dict[int, Buffer] = {}
        self._plans: dict[int, _Plan] = {}
        self._findings: dict[tuple[str, str, str, str], Uninitialised] = {}
        self._registers: dict[Engine, npt.NDArray[np.float32]] = {
            engine: np.zeros(_LANES, np.float32) for engine in (Engine.SCALAR, Engine.VECTOR)
        }

    def allocate(self, number: int, storage: Storage, array: Array | None = None) -> None:
        """Registers a storage, uninitialised or holding a copy of `array`.

        UserError where the array's shape or dtype is not the storage's.
        """
        if array is not None:
            check_array(storage, array)
        self._storages[number] = (storage, array)
        self._buffers.pop(number, None)

    def release(self, number: int) -> None:
        """Forgets a storage's values; its number stays valid and reads as never written."""
        storage, _ = self._storages[number]
        self._storages[number] = (storage, None)
        self._buffers.pop(number, None)

    def array(self, number: int) -> Array:
        """A storage as a typed array over its own bytes; writes there leave no written mark."""
        buffer = self._buffer(number)
        return buffer.data.view(numpy_dtype(buffer.storage.dtype)).reshape(buffer.storage.shape)

    @property
    def uninitialised(self) -> tuple[Uninitialised, ...]:
        """Reads of elements that nothing had written, one entry a place and operand."""
        return tuple(self._findings.values())

    def execute(self, form: Form, operands: Sequence[tuple[int, int]], place: str = "") -> None:
        """Carries out one instruction; `operands` are (storage number, byte offset) in order."""
        plan = self._plans.get(id(form)) or self._plan(form)
        arrays: dict[str, Array] = {}
        try:
            self._read(plan, operands, place, arrays)
            with np.errstate(all="ignore"):
                plan.row.meaning(form, arrays)
        except KernelError as error:
            raise KernelError(error.message, error.hint, place) from None
        self._mark(plan, operands, arrays)

    def _read(
        self,
        plan: _Plan,
        operands: Sequence[tuple[int, int]],
        place: str,
        arrays: dict[str, Array],
    ) -> None:
        for slot, (number, offset) in zip(plan.slots, operands, strict=True):
            buffer = self._buffers.get(number) or self._buffer(number)
            if slot.axis is not None:
                continue  # where it lies is known only with the index values, below
            try:
                arrays[slot.role] = slot.view(buffer, offset)
            except (ValueError, TypeError):
                raise KernelError(f"{plan.form.op}: {slot.outside(buffer, offset)}") from None
            if slot.reads and buffer.written is not None:
                self._check_written(plan, slot, buffer, offset, place)
            if slot.keeps:
                arrays[slot.role + ".written"] = slot.marks(buffer, offset)
        if plan.row.registers is not None:
            lanes = self._registers[plan.row.registers]
            arrays["registers"] = lanes[self._partition(*operands[0]) :]
        for slot, (number, offset) in zip(plan.slots, operands, strict=True):
            if slot.axis is not None:
                index = arrays["index"]
                arrays[slot.role] = slot.reachable(self._buffer(number), offset, index)

    def _partition(self, number: int, offset: int) -> int:
        """The partition that an on-chip operand starts at: each has registers of its own."""
        storage, _ = self._storages[number]
        return storage.start_partition + offset // storage.partition_bytes

    def _check_written(
        self, plan: _Plan, slot: Slot, buffer: Buffer, offset: int, place: str
    ) -> None:
        if slot.axis is not None or slot.all_written(buffer, offset):
            return
        missing = np.argwhere(~slot.marks(buffer, offset))
        if not len(missing):
            return
        key = (buffer.storage.name, place, plan.form.op, slot.role)
        old = self._findings.get(key)
        first = tuple(int(n) for n in missing[0]) if old is None else old.first
        count = len(missing) + (0 if old is None else old.count)
        self._findings[key] = Uninitialised(*key, first, count)

    def _mark(
        self, plan: _Plan, operands: Sequence[tuple[int, int]], arrays: Mapping[str, Array]
    ) -> None:
        for slot, (number, offset) in zip(plan.slots, operands, strict=True):
            buffer = self._buffers[number]
            if not slot.writes or buffer.written is None:
                continue
            if plan.row.partial and slot.role == "dst":
                slot.mark_some(buffer, offset, arrays["dst.written"])
            elif slot.axis is not None:
                # Which rows a scatter reached depends on its index; none of them is reported.
                buffer.written = None
            else:
                slot.mark(buffer, offset)

    def _plan(self, form: Form) -> _Plan:
        entry = row(form.op)
        slots = tuple(slot_of(form, access, entry.partial) for access in form.accesses)
        plan = self._plans[id(form)] = _Plan(form, entry, slots)
        return plan

    def _buffer(self, number: int) -> Buffer:
        buffer = self._buffers.get(number)
        if buffer is None:
            storage, array = self._storages[number]
            buffer = self._buffers[number] = new_buffer(storage, array)
        return buffer


def evaluate(program: Program, inputs: Mapping[str, Array]) -> Evaluation:
    """Runs a program. `inputs` names every input and constant; UserError where one is wrong.

    A kernel's own storages live from their first to their last use.
    """
    _check_inputs(program, inputs)
    values = Values()
    for number, storage in enumerate(program.storages):
        array = inputs[storage.name] if storage.kind in _GIVEN else None
        values.allocate(number, storage, array)
    dying = _last_uses(program)
    for index in range(len(program)):
        operands = [(number, offset) for _, number, offset in program.operands(index)]
        form = program.forms[program.form[index]]
        values.execute(form, operands, program.place(index))
        for number in dying.get(index, ()):
            values.release(number)
    outputs = {
        storage.name: values.array(number)
        for number, storage in enumerate(program.storages)
        if storage.kind is Kind.OUTPUT
    }
    return Evaluation(outputs, values.uninitialised)


def _check_inputs(program: Program, inputs: Mapping[str, Array]) -> None:
    wanted = [storage.name for storage in program.storages if storage.kind in _GIVEN]
    missing = [name for name in wanted if name not in inputs]
    unknown = sorted(set(inputs) - set(wanted))
    if missing or unknown:
        problem = f"missing {missing[0]!r}" if missing else f"no input named {unknown[0]!r}"
        raise UserError(f"{program.name}: {problem}", f"its inputs are: {', '.join(wanted)}")


def _last_uses(program: Program) -> dict[int, list[int]]:
    """The scratch storages that each instruction is the last to touch."""
    counts = np.diff(program.first_operand)
    instruction = np.repeat(np.arange(len(program)), counts)
    last = np.full(len(program.storages), -1, np.int64)
    np.maximum.at(last, program.storage, instruction)
    dying: dict[int, list[int]] = {}
    for number, storage in enumerate(program.storages):
        if storage.kind is Kind.SCRATCH:
            dying.setdefault(int(last[number]), []).append(number)
    return dying
