"""Recorder: the program a kernel is writing, and its values in evaluate mode.

Comes in: allocations and instructions, in program order. Goes out: a `Program`, the same with and
without values. An instruction whose operation, attributes and operand geometries were seen before
costs one dictionary look-up: its form was built and checked then. What depends on the position of
an operand (start partition, PSUM bank, bounds) is checked every time, but only where it can fail.
"""

from __future__ import annotations

import contextlib
import dataclasses
import linecache
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import PurePath
from types import FrameType, MappingProxyType
from typing import Protocol

import numpy as np
import numpy.typing as npt

from accel import isa
from accel.chip import Chip
from accel.errors import KernelError
from accel.nki.cores import Cores
from accel.nki.geometry import Geometry, dense_geometry
from accel.nki.tensor import Allocation, ReleasedAllocation, Tensor, check_bounds
from accel.program import (
    Access,
    AttributeValue,
    Builder,
    Engine,
    Form,
    Kind,
    Memory,
    Mode,
    Program,
    Storage,
)

Array = npt.NDArray[np.generic]
Operand = tuple[str, Mode, Tensor]
Attributes = tuple[tuple[str, AttributeValue], ...]

_SCALE_STARTS = (0, 4, 8, 12)  # MX scales of four tiles share the partitions of a quadrant
_INTO_ONE_BANK = frozenset({"nc_matmul", "nc_transpose"})
_OWN_FILES = str(PurePath(__file__).parent)
_ASSIGNED = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\[[^=]*\])?\s*=[^=]")


class Values(Protocol):
    """What evaluate mode needs: the arrays behind the storages."""

    def allocate(self, number: int, storage: Storage, array: Array | None = None) -> None:
        """Registers a storage, uninitialised or with the caller's values."""

    def release(self, number: int) -> None:
        """Forgets a storage's values."""

    def execute(self, form: Form, operands: tuple[tuple[int, int], ...], place: str) -> None:
        """Carries out one instruction."""

    def exchange(
        self,
        form: Form,
        operands: tuple[tuple[int, int], ...],
        place: str,
        brought: Mapping[str, Array],
    ) -> None:
        """Carries out a collective; `brought` are the operands of all ranks by `<role>@<i>`."""

    def sources(
        self, form: Form, operands: tuple[tuple[int, int], ...], place: str
    ) -> dict[str, Array]:
        """Copies of what the instruction would read."""

    def array(self, number: int) -> Array:
        """The storage as a typed array."""


class Recorder:
    """One program in the making. `program_id` and `grid` are the SPMD position being recorded."""

    def __init__(
        self,
        name: str,
        chip: Chip,
        kernel_file: str = "",
        *,
        cores: int = 1,
        values: Values | None = None,
    ) -> None:
        self.chip, self.values = chip, values
        self.kernel_file = kernel_file
        self.builder = Builder(name, chip.nc_version, cores)
        self.core = 0
        # The rank that this is the program of, how many are run (0: any number, shapes only), and
        # the number that the first of its cores has among those of all ranks.
        self.rank, self.ranks, self.first_core = 0, 1, 0
        self.grid: tuple[int, ...] = ()
        self.program_id: tuple[int, ...] = ()
        self.cores = Cores(1, lambda core: None)
        # What registers hold where nothing is computed: by name, one value a load.
        self.register_values: dict[str, Iterator[int]] = {}
        self._shared: list[Tensor] = []
        self._shared_used: dict[tuple[int, ...], int] = {}
        self._fitting: set[tuple[object, ...]] = set()
        self._forms: dict[tuple[object, ...], int] = {}
        self._legal: set[tuple[str, Geometry, int]] = set()
        self._sources: dict[tuple[int, int], int] = {}
        self._codes: list[object] = []
        self._targets: dict[int, str] = {}

    def allocate(
        self,
        shape: Sequence[int],
        dtype: str,
        memory: Memory,
        *,
        name: str = "",
        kind: Kind = Kind.SCRATCH,
        address: int | None = None,
        start_partition: int = 0,
        core: int | None = None,
        array: Array | None = None,
    ) -> Tensor:
        """A new storage as a tensor over all of it. Without a name it gets the variable's."""
        shape = tuple(shape)
        number = len(self.builder.storages)
        storage = Storage(
            name or f"{self._target()}.{number}",
            memory,
            dtype,
            shape,
            kind,
            address,
            start_partition,
            self.core if core is None else core,
        )
        geometry = dense_geometry(memory, dtype, shape)
        key = (geometry, address, start_partition)
        if key not in self._fitting:
            self._check_capacity(storage)
            self._fitting.add(key)
        self.builder.add_storage(storage)
        allocation = Allocation(number, storage, geometry.reach)
        if self.values is not None:
            self.values.allocate(number, storage, array)
            if memory is not Memory.HBM:
                allocation = ReleasedAllocation(number, storage, self.values.release)
        return Tensor(allocation, 0, geometry)

    def allocate_shared(self, shape: Sequence[int], dtype: str, name: str = "") -> Tensor:
        """HBM that all programs of the grid see: the n-th request of each is the same storage."""
        used = self._shared_used.get(self.program_id, 0)
        if used == len(self._shared):
            self._shared.append(self.allocate(shape, dtype, Memory.HBM, name=name, core=-1))
        tensor = self._shared[used]
        self._shared_used[self.program_id] = used + 1
        if (tensor.shape, tensor.dtype) != (tuple(shape), dtype):
            raise KernelError(
                f"shared_hbm tensor {tensor.name} is {tensor.shape} {tensor.dtype}, "
                f"program {self.program_id} asks for {tuple(shape)} {dtype}",
                "every program of a grid allocates the same shared tensors in the same order",
            )
        return tensor

    def enter_program(self, program_id: tuple[int, ...], core: int) -> None:
        """From here on the instructions are of this program of the grid, on this core."""
        self.program_id, self.core = program_id, core

    def emit(
        self,
        op: str,
        engine: Engine,
        operands: Sequence[Operand],
        attributes: Attributes = (),
    ) -> int:
        """Appends an instruction and, with values, carries it out. Returns its index.

        `operands` in the order of the instruction's roles; `attributes` sorted by name.
        """
        form, places = self.form(op, engine, operands, attributes)
        source = self.source(above=3)
        if self.builder.cores > 1 and _writes_shared(operands):
            try:
                return self.emit_at(form, places, source, self.core)
            finally:  # whatever the values say, so that a trace has the same order
                self.cores.turn()
        return self.emit_at(form, places, source, self.core)

    def emit_at(
        self,
        form: int,
        places: tuple[tuple[int, int], ...],
        source: int,
        core: int,
        brought: Mapping[str, Array] = MappingProxyType({}),
    ) -> int:
        """Appends a checked form as an instruction of `core`, from the line `source`."""
        index = self.builder.emit(form, places, source, core)
        if self.values is not None:
            place = str(self.builder.sources[source])
            if brought:
                self.values.exchange(self.builder.forms[form], places, place, brought)
            else:
                self.values.execute(self.builder.forms[form], places, place)
        return index

    def form(
        self,
        op: str,
        engine: Engine,
        operands: Sequence[Operand],
        attributes: Attributes = (),
    ) -> tuple[int, tuple[tuple[int, int], ...]]:
        """The checked form's number and the operands' places, without emitting."""
        key: list[object] = [op, engine, attributes]
        places = []
        for role, mode, tensor in operands:
            allocation, offset, geometry = tensor.allocation, tensor.byte_offset, tensor.geometry
            key += (role, mode, geometry)
            if offset + geometry.low < 0 or offset + geometry.reach > allocation.end:
                check_bounds(tensor)
            if (
                (offset or allocation.placed)
                and geometry.partition_bytes
                and (allocation.placed or (op, geometry, offset) not in self._legal)
            ):
                self._check_position(op, role, tensor)
            places.append((allocation.number, offset))
        number = self._forms.get(tuple(key))
        if number is None:
            number = self._new_form(op, engine, operands, attributes)
            self._forms[tuple(key)] = number
        return number, tuple(places)

    def _check_position(self, op: str, role: str, tensor: Tensor) -> None:
        _check_position(op, role, tensor, self.chip)
        if not tensor.allocation.placed:
            self._legal.add((op, tensor.geometry, tensor.byte_offset))

    def _new_form(
        self, op: str, engine: Engine, operands: Sequence[Operand], attributes: Attributes
    ) -> int:
        accesses = tuple(Access(role, mode, tensor.layout) for role, mode, tensor in operands)
        form = Form(op, engine, accesses, attributes)
        isa.check(form, self.chip)
        return self.builder.intern_form(form)

    def source(self, above: int = 0) -> int:
        """The number of the kernel's line being run: the innermost frame in the kernel's file.

        The nearest `above` callers are known not to be it.
        """
        frame: FrameType | None = sys._getframe(above + 1)
        assert frame is not None  # or _getframe would have raised
        if frame.f_code.co_filename != self.kernel_file:
            frame = self._kernel_frame(frame)
        if frame is None:
            return self.builder.intern_source("", 0)
        key = (id(frame.f_code), frame.f_lasti)
        number = self._sources.get(key)
        if number is None:
            code = frame.f_code
            self._codes.append(code)  # keeps the id above taken
            number = self.builder.intern_source(
                PurePath(code.co_filename).name, frame.f_lineno, code.co_name
            )
            self._sources[key] = number
            line = linecache.getline(code.co_filename, frame.f_lineno)
            found = _ASSIGNED.match(line)
            self._targets.setdefault(number, found[1] if found else "tile")
        return number

    def place(self) -> str:
        """The kernel's line being run, `file.py:12`."""
        return str(self.builder.sources[self.source()])

    def _target(self) -> str:
        return self._targets.get(self.source(above=2), "tile")

    def _kernel_frame(self, caller: FrameType) -> FrameType | None:
        frame: FrameType | None = caller
        while frame is not None:
            if frame.f_code.co_filename == self.kernel_file:
                return frame
            frame = frame.f_back
        frame = caller
        while frame is not None and frame.f_code.co_filename.startswith(_OWN_FILES):
            frame = frame.f_back
        return frame

    def _check_capacity(self, storage: Storage) -> None:
        chip = self.chip
        if storage.memory is Memory.HBM:
            return
        if storage.start_partition < 0 or (storage.address or 0) < 0:
            raise KernelError(
                f"{storage.name}: address ({storage.start_partition}, {storage.address})",
                "an address is (partition, byte), neither below 0",
            )
        if storage.start_partition + storage.shape[0] > chip.partitions:
            raise KernelError(
                f"{storage.name}: {storage.start_partition + storage.shape[0]} partitions, "
                f"{chip.name} has {chip.partitions}",
                "axis 0 of an on-chip tile is the partition axis: tile it by 128",
            )
        limit = chip.sbuf_partition_bytes
        if storage.memory is Memory.PSUM:
            limit = chip.psum_bank_bytes * chip.psum_banks
        end = (storage.address or 0) + storage.partition_bytes
        if end > limit:
            raise KernelError(
                f"{storage.name}: ends at byte {end} of a partition, "
                f"{storage.memory.value} of {chip.name} has {limit}",
                "make the free size of the tile smaller",
            )

    def output(self, tensor: Tensor, name: str) -> None:
        """Declares the tensor's storage an output under this name."""
        old = self.builder.storages[tensor.storage]
        if old.memory is not Memory.HBM:
            raise KernelError(
                f"{old.name}: a kernel returns HBM tensors, got {old.memory.value}",
                "copy it to an nl.shared_hbm tensor and return that",
            )
        if old.kind is Kind.SCRATCH:
            self.builder.replace_storage(
                tensor.storage, dataclasses.replace(old, kind=Kind.OUTPUT, name=name)
            )

    def build(self) -> Program:
        """The frozen program."""
        return self.builder.build()


def _writes_shared(operands: Sequence[Operand]) -> bool:
    """Whether an instruction writes HBM that several cores see. They take turns there, as cores of
    about the same speed would: what one of them clears first is not cleared after the other wrote.
    """
    return any(
        mode is not Mode.READ and tensor.memory is Memory.HBM and tensor.allocation.storage.core < 0
        for _, mode, tensor in operands
    )


def _check_position(op: str, role: str, tensor: Tensor, chip: Chip) -> None:
    """The rules on where an on-chip operand may start; engines reach partitions in quarters."""
    geometry, width = tensor.geometry, tensor.geometry.partition_bytes
    byte = tensor.byte_offset % width
    if byte + geometry.free_low < 0 or byte + geometry.free_reach > width:
        check_bounds(tensor)
    if not isa.is_engine_work(isa.row(op)):
        return
    if op in _INTO_ONE_BANK and geometry.memory is Memory.PSUM:
        _check_bank(op, role, tensor, chip)
    start = tensor.byte_offset // width + tensor.allocation.storage.start_partition
    count = geometry.shape[0]
    if role.endswith("_scale") and start % 32 in _SCALE_STARTS:
        return
    if start and not isa.legal_start(start, count):
        raise KernelError(
            f"{op}: {role} takes {count} partitions from partition {start}",
            "up to 32 partitions start at a multiple of 32, up to 64 at 0 or 64, more at 0",
        )


def _check_bank(op: str, role: str, tensor: Tensor, chip: Chip) -> None:
    """A tensor engine result lies in one PSUM bank. A tile without an address starts a bank if it
    is larger than one, and lies in one if it is not.
    """
    geometry, bank = tensor.geometry, chip.psum_bank_bytes
    first = (tensor.allocation.storage.address or 0) + tensor.byte_offset % geometry.partition_bytes
    last = first + geometry.free_reach - 1
    if chip.generation < 4 and first // bank != last // bank:
        raise KernelError(
            f"{op}: {role} takes bytes {first} to {last + 1} of a partition of psum, "
            f"across the end of a bank of {bank}",
            "write each bank with an instruction of its own",
        )


_CURRENT: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


def active() -> Recorder | None:
    """The recorder of the kernel being run, or None outside of one."""
    return _CURRENT.get()


def current() -> Recorder:
    """The recorder of the kernel being run; KernelError outside of one."""
    recorder = _CURRENT.get()
    if recorder is None:
        raise KernelError(
            "language call outside a kernel",
            "call it from a function decorated with @nki.jit",
        )
    return recorder


def use(recorder: Recorder) -> None:
    """Makes `recorder` the current one for the rest of this thread."""
    _CURRENT.set(recorder)


@contextlib.contextmanager
def recording(recorder: Recorder) -> Iterator[Recorder]:
    """Makes `recorder` the current one for the body."""
    token = _CURRENT.set(recorder)
    try:
        yield recorder
    finally:
        _CURRENT.reset(token)
