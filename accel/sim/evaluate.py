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
from accel.isa.indirect import INDEX, LANES, SCALAR, VECTOR, gather_lanes
from accel.isa.random import seeded
from accel.isa.row import Array
from accel.program import Engine, Form, Kind, Program, Storage
from accel.sim.buffers import Buffer, Slot, check_array, new_buffer, slot_of
from accel.sim.numerics import EXACT, Numerics

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
class Plan:
    """A form with everything about it that does not depend on where its operands lie."""

    form: Form
    row: Row
    slots: tuple[Slot, ...]
    moved: tuple[tuple[int, int], ...]  # (operand, its index) of those that one index moves
    fills: bool  # it writes every element of what it writes


class Values:
    """The values of every storage of one program, as its instructions are carried out."""

    def __init__(self, numerics: Numerics = EXACT) -> None:
        self._numerics = numerics
        self._storages: dict[int, tuple[Storage, Array | None]] = {}
        self._buffers: dict[int, Buffer] = {}
        self._plans: dict[int, Plan] = {}
        self._findings: dict[tuple[str, str, str, str], Uninitialised] = {}
        self._registers: dict[tuple[Engine, int], npt.NDArray[np.float32]] = {}
        self._random: dict[tuple[Engine, int], npt.NDArray[np.uint32]] = {}

    def allocate(self, number: int, storage: Storage, array: Array | None = None) -> None:
        """Registers a storage, uninitialised or holding what `array` does, which is not changed.

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
        buffer.own()
        buffer.settle()
        return buffer.data.view(numpy_dtype(buffer.storage.dtype)).reshape(buffer.storage.shape)

    def read(
        self, number: int, dtype: str, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> Array:
        """A view's elements; strides and offset in bytes. They are a copy, unless they are all that
        a storage of the program's own holds.
        """
        view, buffer = self._view(number, dtype, shape, strides, offset), self._buffer(number)
        whole = view.flags.c_contiguous and view.nbytes == buffer.data.nbytes
        return view if whole and not buffer.borrowed else view.copy()

    def _view(
        self, number: int, dtype: str, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> Array:
        buffer = self._buffer(number)
        buffer.settle()
        return np.ndarray(tuple(shape), numpy_dtype(dtype), buffer.data, offset, tuple(strides))

    @property
    def uninitialised(self) -> tuple[Uninitialised, ...]:
        """Reads of elements that nothing had written, one entry a place and operand."""
        return tuple(self._findings.values())

    def sources(
        self, form: Form, operands: Sequence[tuple[int, int]], place: str = ""
    ) -> dict[str, Array]:
        """Copies of what an instruction would read, by role."""
        plan = self._plans.get(id(form)) or self._plan(form)
        arrays: dict[str, Array] = {}
        self._read(plan, operands, place, arrays)
        return {slot.role: arrays[slot.role].copy() for slot in plan.slots if slot.reads}

    def execute(self, form: Form, operands: Sequence[tuple[int, int]], place: str = "") -> None:
        """Carries out one instruction; `operands` are (storage number, byte offset) in order."""
        self._carry_out(form, operands, place, {})

    def exchange(
        self,
        form: Form,
        operands: Sequence[tuple[int, int]],
        place: str,
        brought: Mapping[str, Array],
    ) -> None:
        """Carries out a collective; `brought`: what all its ranks read, see `isa.collective`."""
        self._carry_out(form, operands, place, dict(brought))

    def _carry_out(
        self,
        form: Form,
        operands: Sequence[tuple[int, int]],
        place: str,
        arrays: dict[str, Array],
    ) -> None:
        plan = self._plans.get(id(form)) or self._plan(form)
        try:
            if plan.moved:
                operands = self._moved(plan, operands, place)
                if not operands:
                    return
            self._read(plan, operands, place, arrays)
            self._compute(plan, operands, arrays)
        except KernelError as error:
            raise KernelError(error.message, error.hint, place) from None
        self._mark(plan, operands, arrays)

    def _compute(
        self, plan: Plan, operands: Sequence[tuple[int, int]], arrays: dict[str, Array]
    ) -> None:
        """Runs the instruction's meaning on its operands' arrays, by role."""
        meaning = plan.row.meaning
        if self._numerics.fp32_matmul == "device":
            meaning = plan.row.device_meaning or meaning
        with np.errstate(all="ignore"):
            meaning(plan.form, arrays)

    def _read(
        self,
        plan: Plan,
        operands: Sequence[tuple[int, int]],
        place: str,
        arrays: dict[str, Array],
    ) -> None:
        for slot, (number, offset) in zip(plan.slots, operands, strict=True):
            buffer = self._buffers.get(number) or self._buffer(number)
            if buffer.borrowed and slot.writes:
                buffer.own()
            if buffer.blank and not (slot.fills and plan.fills):
                buffer.settle()
            if slot.index is not None and slot.index.kind != SCALAR:
                continue  # where it lies is known only with the index values, below
            try:
                arrays[slot.role] = slot.view(buffer, offset)
            except (ValueError, TypeError):
                raise KernelError(f"{plan.form.op}: {slot.outside(buffer, offset)}") from None
            if slot.reads and not buffer.complete:
                self._check_written(plan, slot, buffer, offset, place)
            if slot.keeps:
                arrays[slot.role + ".written"] = slot.marks(buffer, offset)
        if plan.row.registers is not None:
            engine, core = plan.row.registers, self._storages[operands[0][0]][0].core
            lanes = self._registers.setdefault((engine, core), np.zeros(_LANES, np.float32))
            arrays["registers"] = lanes[self._partition(*operands[0]) :]
        if plan.row.generator:
            states = self._random_states(plan, operands[0][0])
            arrays["random"] = states[self._partition(*operands[0]) :]
        for slot, (number, offset) in zip(plan.slots, operands, strict=True):
            if slot.index is None or slot.index.kind == SCALAR:
                continue
            if slot.index.kind == VECTOR:
                arrays[slot.role] = slot.rows(self._buffer(number), offset)
            else:
                self._gather(plan, slot, number, offset, place, arrays)

    def _moved(
        self, plan: Plan, operands: Sequence[tuple[int, int]], place: str
    ) -> list[tuple[int, int]]:
        """The operands with those moved that one index moves; none where it is to be skipped."""
        result = list(operands)
        for position, at in plan.moved:
            slot, tile = plan.slots[position], plan.slots[at]
            (number, offset), (index_number, index_offset) = operands[position], operands[at]
            index_buffer = self._buffer(index_number)
            index_buffer.settle()
            if not index_buffer.complete:
                self._check_written(plan, tile, index_buffer, index_offset, place)
            index = int(tile.view(index_buffer, index_offset).reshape(-1)[0])
            count = slot.positions(self._buffer(number), offset)
            if not 0 <= index < count:
                if plan.form.attribute("oob_mode", "error") == "skip":
                    return []
                raise KernelError(
                    f"{plan.form.op}: index {index} of {slot.role} is outside the {count} places "
                    f"that {self._buffer(number).storage.name} has for it",
                    "keep the index inside the tensor, or skip those outside with oob_mode.skip",
                )
            assert slot.index is not None
            result[position] = (number, offset + index * slot.index.step)
        return result

    def _gather(
        self,
        plan: Plan,
        slot: Slot,
        number: int,
        offset: int,
        place: str,
        arrays: dict[str, Array],
    ) -> None:
        """A copy of the elements that lane indices choose; `_mark` writes it back if need be."""
        buffer = self._buffer(number)
        chosen = gather_lanes(plan.form, self._engine(plan), slot.shape, arrays[slot.role + INDEX])
        tile = slot.lanes(buffer, offset)
        if (chosen < 0).any() or (chosen >= tile.shape[1]).any():
            bad = int(chosen[(chosen < 0) | (chosen >= tile.shape[1])][0])
            raise KernelError(
                f"{plan.form.op}: index {bad} of {slot.role} is outside the {tile.shape[1]} "
                "elements of a partition"
            )
        marks = slot.lane_marks(buffer, offset)
        if marks is not None and slot.reads:
            found = np.take_along_axis(marks, chosen, axis=1)
            self._note_unwritten(plan, slot, buffer, place, np.argwhere(~found))
        arrays[slot.role] = np.take_along_axis(tile, chosen, axis=1).reshape(slot.shape)
        arrays[slot.role + ".chosen"] = chosen
        if slot.keeps:
            kept = np.ones(chosen.shape, np.bool_) if marks is None else marks
            arrays[slot.role + ".written"] = np.take_along_axis(kept, chosen, 1).reshape(slot.shape)

    def _engine(self, plan: Plan) -> Engine:
        """The engine asked for, or the one the instruction prefers."""
        if plan.form.engine is not Engine.ANY:
            return plan.form.engine
        return plan.row.engines[max(plan.row.engines)][0]

    def _random_states(self, plan: Plan, number: int) -> npt.NDArray[np.uint32]:
        """The generators of the engine of the core that storage `number` is on."""
        owner = (self._engine(plan), self._storages[number][0].core)
        if owner not in self._random:
            self._random[owner] = seeded(0, _LANES)
        return self._random[owner]

    def _partition(self, number: int, offset: int) -> int:
        """The partition that an on-chip operand starts at: each has registers of its own."""
        storage, _ = self._storages[number]
        return storage.start_partition + offset // storage.partition_bytes

    def _check_written(
        self, plan: Plan, slot: Slot, buffer: Buffer, offset: int, place: str
    ) -> None:
        if slot.all_written(buffer, offset):
            return
        missing = ~slot.marks(buffer, offset)
        if slot.every != (1, 1):
            missing &= slot.touched()
        self._note_unwritten(plan, slot, buffer, place, np.argwhere(missing))

    def _note_unwritten(
        self,
        plan: Plan,
        slot: Slot,
        buffer: Buffer,
        place: str,
        missing: npt.NDArray[np.int64],
    ) -> None:
        if not len(missing):
            return
        key = (buffer.storage.name, place, plan.form.op, slot.role)
        old = self._findings.get(key)
        first = tuple(int(n) for n in missing[0]) if old is None else old.first
        count = len(missing) + (0 if old is None else old.count)
        self._findings[key] = Uninitialised(*key, first, count)

    def _mark(
        self, plan: Plan, operands: Sequence[tuple[int, int]], arrays: Mapping[str, Array]
    ) -> None:
        for slot, (number, offset) in zip(plan.slots, operands, strict=True):
            buffer = self._buffers[number]
            if slot.writes and slot.index is not None and slot.index.kind == LANES:
                self._scatter(slot, buffer, offset, arrays)
                continue
            if not slot.writes or buffer.complete:
                continue
            if plan.row.partial and slot.role == "dst":
                slot.mark_some(buffer, offset, arrays["dst.written"])
            elif slot.every != (1, 1):
                slot.mark_some(buffer, offset, slot.touched())
            elif slot.index is not None and slot.index.kind == VECTOR:
                # Which rows a scatter reached depends on its index; none of them is reported.
                buffer.complete = True
            else:
                slot.mark(buffer, offset)

    def _scatter(
        self, slot: Slot, buffer: Buffer, offset: int, arrays: Mapping[str, Array]
    ) -> None:
        chosen = arrays[slot.role + ".chosen"].astype(np.int64)
        values = arrays[slot.role].reshape(chosen.shape)
        np.put_along_axis(slot.lanes(buffer, offset), chosen, values, axis=1)
        written = arrays.get(slot.role + ".written", np.ones(chosen.shape, np.bool_))
        for byte in range(slot.dtype.itemsize):
            marks = slot.lane_marks(buffer, offset, byte)
            if marks is not None:
                before = np.take_along_axis(marks, chosen, axis=1)
                after = before | written.reshape(chosen.shape).astype(np.bool_)
                np.put_along_axis(marks, chosen, after, axis=1)

    def _plan(self, form: Form) -> Plan:
        entry = row(form.op)
        slots = tuple(slot_of(form, access, entry) for access in form.accesses)
        places = {slot.role: position for position, slot in enumerate(slots)}
        moved = tuple(
            (position, places[slot.role + INDEX])
            for position, slot in enumerate(slots)
            if slot.index is not None and slot.index.kind == SCALAR
        )
        fills = entry.fills and all(slot.index is None for slot in slots)
        plan = self._plans[id(form)] = Plan(form, entry, slots, moved, fills)
        return plan

    def _buffer(self, number: int) -> Buffer:
        buffer = self._buffers.get(number)
        if buffer is None:
            storage, array = self._storages[number]
            buffer = self._buffers[number] = new_buffer(storage, array, self._numerics.unwritten)
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
