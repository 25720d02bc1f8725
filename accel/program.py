"""Program: what a kernel asks the machine to do, as arrays, without any time.

Comes in: instructions recorded by the kernel language (or the compiler), in program order. Goes
out: one frozen record of numpy arrays with side tables, which the evaluator gives values to and the
simulator gives time to. Most instructions of a kernel differ only in *where* they read and write,
so everything else is interned: a `Form` is the static part of an instruction (operation, engine
asked for, operand layouts, attributes), and an instruction is a form number, a core, a source line
and one (storage, byte offset) pair an operand. Checks and costs are computed once a form.

Places kept for what later languages need: `core` is a column; semaphores, barriers and collectives
are operations with attributes; registers are storages in `Memory.REGISTER`; a dynamic loop is a
`loop_begin`/`loop_end` pair of operations around its body. The text form (`program_text.py`)
prints and parses back.

Layout of storages. On-chip: `shape[0]` is partitions, the rest is the free size of a partition;
byte offset = partition × partition_bytes + byte in partition. HBM: row-major bytes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from accel.dtypes import itemsize

AttributeValue = str | int | float | bool | tuple[int, ...]


class Memory(StrEnum):
    """Where a storage lives. `SBUF` and `PSUM` are on-chip and have partitions."""

    HBM = "hbm"
    SBUF = "sbuf"
    PSUM = "psum"
    REGISTER = "register"


class Engine(StrEnum):
    """Who executes. `ANY` is a kernel's open choice, which the machine layer decides."""

    TENSOR = "tensor"
    VECTOR = "vector"
    SCALAR = "scalar"
    GPSIMD = "gpsimd"
    SYNC = "sync"
    ANY = "any"


class Mode(StrEnum):
    """How an instruction touches an operand. `ACCUMULATE`: PSUM adds to what is there."""

    READ = "r"
    WRITE = "w"
    ACCUMULATE = "a"


class Kind(StrEnum):
    """Whose a storage is: the caller's (`INPUT`, `OUTPUT`), constant data, or the kernel's own."""

    INPUT = "input"
    OUTPUT = "output"
    CONSTANT = "constant"
    SCRATCH = "scratch"


@dataclass(frozen=True, slots=True)
class Storage:
    """One allocation. `address` is the byte in each partition (SBUF: 0 at the start of the
    partition; PSUM: bank × bank bytes + byte) once the kernel or placement fixed it; None before.
    `start_partition` is the first physical partition. `core` −1 means shared by all cores.
    """

    name: str
    memory: Memory
    dtype: str
    shape: tuple[int, ...]
    kind: Kind = Kind.SCRATCH
    address: int | None = None
    start_partition: int = 0
    core: int = 0

    @property
    def partition_bytes(self) -> int:
        """Bytes a partition (on-chip), or bytes a row of dimension 0 (HBM)."""
        return math.prod(self.shape[1:]) * itemsize(self.dtype)

    @property
    def total_bytes(self) -> int:
        """Bytes over all partitions or rows."""
        return self.shape[0] * self.partition_bytes if self.shape else itemsize(self.dtype)


@dataclass(frozen=True, slots=True)
class Layout:
    """The static part of an operand's address: how many partitions, and the pattern in each.

    `pattern` is (step in bytes, count) pairs, outermost first; on-chip it does not contain the
    partition axis (`partitions` ≥ 1, consecutive); for HBM `partitions` is 0 and the pattern has
    every axis. A step of 0 repeats (broadcast).
    """

    memory: Memory
    dtype: str
    partitions: int
    pattern: tuple[tuple[int, int], ...]

    @property
    def elements(self) -> int:
        """Elements a partition (on-chip), or all elements (HBM)."""
        return math.prod(count for _, count in self.pattern)

    @property
    def shape(self) -> tuple[int, ...]:
        """The operand as an array: partitions first where there are any."""
        counts = tuple(count for _, count in self.pattern)
        return (self.partitions, *counts) if self.partitions else counts

    @property
    def run_bytes(self) -> int:
        """Length of the contiguous run at the inner end of the pattern, in bytes."""
        run = itemsize(self.dtype)
        for step, count in reversed(self.pattern):
            if count != 1 and step != run:
                break
            run *= count
        return run


@dataclass(frozen=True, slots=True)
class Access:
    """One operand of a form: its role in the instruction, how it is touched, where it lies."""

    role: str
    mode: Mode
    layout: Layout


@dataclass(frozen=True, slots=True)
class Form:
    """The static part of an instruction. `attributes` is sorted by name."""

    op: str
    engine: Engine
    accesses: tuple[Access, ...]
    attributes: tuple[tuple[str, AttributeValue], ...] = ()

    def access(self, role: str) -> Access | None:
        """The operand with this role, or None."""
        return next((a for a in self.accesses if a.role == role), None)

    def attribute(self, name: str, default: AttributeValue = False) -> AttributeValue:
        """The attribute's value, or `default` where the form does not have it."""
        return next((value for key, value in self.attributes if key == name), default)


@dataclass(frozen=True, slots=True)
class Source:
    """A line of the kernel's own file."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "?"


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Instructions in program order. Arrays are read-only; `==` compares everything.

    `storage_class`: equal for storages that differ only in name and core. `form`, `core`, `source`:
    one entry an instruction. `first_operand[i]:first_operand[i + 1]` are instruction i's entries of
    `storage` and `offset`, in the order of its form's accesses.
    """

    name: str
    target: str
    cores: int
    storages: tuple[Storage, ...]
    forms: tuple[Form, ...]
    sources: tuple[Source, ...]
    form: npt.NDArray[np.int32]
    core: npt.NDArray[np.int16]
    source: npt.NDArray[np.int32]
    first_operand: npt.NDArray[np.int64]
    storage: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    storage_class: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.form)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program):
            return NotImplemented
        tables = ("name", "target", "cores", "storages", "forms", "sources")
        arrays = ("form", "core", "source", "first_operand", "storage", "offset")
        return all(getattr(self, t) == getattr(other, t) for t in tables) and all(
            np.array_equal(getattr(self, a), getattr(other, a)) for a in arrays
        )

    __hash__ = None  # type: ignore[assignment]

    def operands(self, index: int) -> list[tuple[Access, int, int]]:
        """(access, storage number, byte offset) of each operand of one instruction."""
        first = self.first_operand[index]
        accesses = self.forms[self.form[index]].accesses
        return [
            (access, int(self.storage[first + i]), int(self.offset[first + i]))
            for i, access in enumerate(accesses)
        ]

    def place(self, index: int) -> str:
        """The kernel line an instruction comes from, `file.py:12`."""
        return str(self.sources[self.source[index]])


ClassKey = tuple[Memory, str, tuple[int, ...], Kind, int, int | None]


def class_key(storage: Storage) -> ClassKey:
    """What storages of one class have in common."""
    return (
        storage.memory,
        storage.dtype,
        storage.shape,
        storage.kind,
        storage.start_partition,
        storage.address,
    )


def classes_of(storages: Iterable[Storage]) -> npt.NDArray[np.int32]:
    """The class of each storage, numbered as they appear."""
    index: dict[ClassKey, int] = {}
    return np.array([index.setdefault(class_key(s), len(index)) for s in storages], np.int32)


class Builder:
    """Collects storages and instructions in program order; `build` freezes them.

    The kernel language calls `emit` a hundred thousand times, so it takes plain tuples and interns
    by key.
    """

    def __init__(self, name: str, target: str, cores: int = 1) -> None:
        self.name, self.target, self.cores = name, target, cores
        self.storages: list[Storage] = []
        self.forms: list[Form] = []
        self.sources: list[Source] = []
        self._form_index: dict[Form, int] = {}
        self._source_index: dict[tuple[str, int, str], int] = {}
        self._class_index: dict[ClassKey, int] = {}
        self._storage_class: list[int] = []
        self.form: list[int] = []
        self.core: list[int] = []
        self.source: list[int] = []
        self.operands: list[tuple[tuple[int, int], ...]] = []

    def add_storage(self, storage: Storage) -> int:
        """Registers an allocation and returns its number."""
        self.storages.append(storage)
        self._storage_class.append(self._class(storage))
        return len(self.storages) - 1

    def replace_storage(self, number: int, storage: Storage) -> None:
        """Puts another storage in the place of one, with the same bytes."""
        self.storages[number] = storage
        self._storage_class[number] = self._class(storage)

    def _class(self, storage: Storage) -> int:
        return self._class_index.setdefault(class_key(storage), len(self._class_index))

    def intern_form(self, form: Form) -> int:
        """The number of an equal form, adding it where it is new."""
        index = self._form_index.get(form)
        if index is None:
            index = self._form_index[form] = len(self.forms)
            self.forms.append(form)
        return index

    def intern_source(self, file: str, line: int, function: str = "") -> int:
        """The number of a source line, adding it where it is new."""
        key = (file, line, function)
        index = self._source_index.get(key)
        if index is None:
            index = self._source_index[key] = len(self.sources)
            self.sources.append(Source(file, line, function))
        return index

    def emit(
        self, form: int, operands: tuple[tuple[int, int], ...], source: int, core: int = 0
    ) -> int:
        """Appends an instruction; `operands` are (storage, byte offset). Returns its index."""
        self.form.append(form)
        self.core.append(core)
        self.source.append(source)
        self.operands.append(operands)
        return len(self.form) - 1

    def build(self) -> Program:
        """The frozen program."""
        counts = np.fromiter(map(len, self.operands), np.int64, len(self.operands))
        first = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=first[1:])
        pairs = itertools.chain.from_iterable(self.operands)
        flat = np.fromiter(itertools.chain.from_iterable(pairs), np.int64).reshape(-1, 2)
        arrays = (
            np.array(self.form, np.int32),
            np.array(self.core, np.int16),
            np.array(self.source, np.int32),
            first,
            flat[:, 0].astype(np.int32),
            flat[:, 1].copy(),
            np.array(self._storage_class, np.int32),
        )
        for array in arrays:
            array.setflags(write=False)
        return Program(
            self.name,
            self.target,
            self.cores,
            tuple(self.storages),
            tuple(self.forms),
            tuple(self.sources),
            *arrays,
        )
