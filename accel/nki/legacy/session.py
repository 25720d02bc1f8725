"""Session: what the older language needs beside the recorder while one kernel runs.

In this form an instruction returns a tile, and `dst[i] = nisa.op(...)` tells only afterwards where
the result goes. So an instruction with a result stays *pending* until the next instruction, a use
of its result, or an assignment: an assignment makes it write the destination directly, anything
else gives it a tile of its own. Program order never changes. Two more things are kept here:

- PSUM tiles from `nl.zeros` need no instruction as long as a matmul accumulates into all of them
  first; otherwise they are set to zero on first touch;
- a result that was assigned is also still the value of its own variable. Should its destination be
  overwritten while the variable lives, it is copied away first.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from accel.errors import KernelError
from accel.nki.legacy.bodies import Bodies, Path
from accel.nki.legacy.depth import parts_of
from accel.nki.legacy.index import Window
from accel.nki.legacy.views import clipped, overlap, whole
from accel.nki.recorder import Attributes, Operand, Recorder, current, recording
from accel.nki.tensor import Tensor
from accel.program import Engine, Memory, Mode

Instruction = tuple[str, Engine, Sequence[Operand], Attributes]
Template = tuple[str, Engine, tuple[tuple[str, Mode, str], ...], Attributes]
"""An instruction without its destination; each operand has the name of the argument it is."""

_ASSIGNED = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\[[^=]*\])?\s*(?::[^=]+)?=[^=]")


class Named(Protocol):
    """A value that a variable of the kernel may still hold."""

    def moved(self, tensor: Tensor) -> None:
        """The value now lies in `tensor`."""

    @property
    def tensor(self) -> Tensor:
        """Where the value lies."""


class Capture(Recorder):
    """Keeps the instruction it is asked to emit: the calls of `nki.isa` serve both forms.

    It is the current recorder while a kernel of the older form runs.
    """

    kept: Instruction | None = None
    expecting = False

    def emit(
        self,
        op: str,
        engine: Engine,
        operands: Sequence[Operand],
        attributes: Attributes = (),
    ) -> int:
        """Keeps the instruction."""
        if not self.expecting:
            raise KernelError(
                f"{op} of the newer form in a kernel of neuronxcc.nki", "keep to one form a kernel"
            )
        self.kept = (op, engine, operands, attributes)
        return -1


class Pending:
    """An instruction whose destination is open. `box` clips the destination; an `empty` one
    writes nothing. `tensor` is set once the destination is known; the result of a `spent` one went
    into an accumulation and has no place of its own.
    """

    __slots__ = (
        "attributes",
        "box",
        "dtype",
        "empty",
        "engine",
        "inputs",
        "memory",
        "op",
        "shape",
        "source",
        "spent",
        "tensor",
    )

    def __init__(
        self,
        op: str,
        engine: Engine,
        inputs: tuple[Operand, ...],
        attributes: Attributes,
        shape: tuple[int, ...],
        dtype: str,
        memory: Memory,
        source: int,
    ) -> None:
        self.op, self.engine, self.inputs, self.attributes = op, engine, inputs, attributes
        self.shape, self.dtype, self.memory, self.source = shape, dtype, memory, source
        self.box: Sequence[Window] | None = None
        self.empty = False
        self.spent = False
        self.tensor: Tensor | None = None


class Round:
    """The calls of one `loop_reduce` line while its loops stand at `indices` and the others where
    they are, and the instruction of each whose result is its reduction so far.
    """

    __slots__ = ("calls", "indices", "results")

    def __init__(self) -> None:
        self.indices: tuple[int, ...] = ()
        self.calls = 0
        self.results: list[Pending] = []


class Session:
    """One kernel being recorded in the older form."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.capture = Capture(recorder.builder.name, recorder.chip)
        self.pending: Pending | None = None
        self.zeroed: dict[int, Tensor] = {}
        self.constants: dict[tuple[str, int, str], Tensor] = {}
        self.rounds: dict[tuple[int, Path | None], Round] = {}
        self.bodies = Bodies()
        self.templates: dict[object, Template] = {}
        self._held: dict[int, list[weakref.ref[Named]]] = {}
        self._assigned: weakref.ref[Named] | None = None
        self._names: dict[int, str] = {}

    def captured(self, call: Callable[..., object], **arguments: object) -> Instruction:
        """The instruction that a call of `nki.isa` stands for, not emitted."""
        capture = self.capture
        capture.expecting = True
        call(**arguments)
        capture.expecting = False
        assert capture.kept is not None  # every call of nki.isa records one instruction
        return capture.kept

    def template(
        self, call: Callable[..., object], target: Tensor, arguments: Mapping[str, object]
    ) -> Template:
        """What a call of `nki.isa` stands for, whatever storage its arguments are views of."""
        views = {
            name: Tensor(value.allocation, value.byte_offset, value.geometry)
            for name, value in arguments.items()
            if isinstance(value, Tensor)
        }  # the same tensor given twice is two operands
        op, engine, operands, attributes = self.captured(call, dst=target, **{**arguments, **views})
        names = {id(view): name for name, view in views.items()}
        inputs = tuple((role, mode, names[id(view)]) for role, mode, view in operands[1:])
        return op, engine, inputs, attributes

    def defer(
        self,
        template: Template,
        arguments: Mapping[str, Any],
        shape: tuple[int, ...],
        dtype: str,
        memory: Memory,
    ) -> Pending:
        """Appends an instruction, its first operand to be decided on flush or assignment."""
        if self.pending is not None:
            self.flush()
        op, engine, roles, attributes = template
        inputs = tuple([(role, mode, arguments[name]) for role, mode, name in roles])
        source = self.recorder.source(above=3)
        pending = Pending(op, engine, inputs, attributes, shape, dtype, memory, source)
        self.pending = pending
        return pending

    def flush(self) -> None:
        """Gives the pending instruction, if there is one, a tile of its own."""
        pending, self.pending = self.pending, None
        if pending is not None:
            target = self.allocate(pending.shape, pending.dtype, pending.memory, pending.source)
            self._write(pending, target)

    def settle(self, pending: Pending) -> Tensor:
        """Where the result of an instruction lies."""
        if pending.spent:
            place = str(self.recorder.builder.sources[pending.source])
            raise KernelError(
                "a matmul result is used after it was accumulated with +=",
                "assign it to a tile of its own first, then add that",
                place,
            )
        if pending.tensor is None:
            self.flush()
        assert pending.tensor is not None  # only the one pending instruction has no place
        return pending.tensor

    def assign(self, pending: Pending, target: Tensor) -> None:
        """Makes the pending instruction write `target`, whatever was there."""
        self.pending = None
        if pending.op == "nc_matmul":
            pending.attributes = _overwriting(pending.attributes)
        self._write(pending, target)

    def accumulate(self, pending: Pending, target: Tensor) -> None:
        """Makes the pending matmul add to `target`; all of a zero tile needs no zeroing first."""
        self.pending = None
        if pending.box is None and target.storage in self.zeroed and whole(target):
            del self.zeroed[target.storage]
        self._write(pending, target)
        pending.spent = True

    def _write(self, pending: Pending, target: Tensor) -> None:
        pending.tensor = target
        if pending.empty:
            return
        if pending.box is not None:
            target = clipped(target, pending.box)
        mode = Mode.ACCUMULATE if pending.op == "nc_matmul" else Mode.WRITE
        operands = (("dst", mode, target), *pending.inputs)
        self._append(pending.op, pending.engine, operands, pending.attributes, pending.source)

    def emit(
        self, op: str, engine: Engine, operands: Sequence[Operand], attributes: Attributes = ()
    ) -> None:
        """Appends an instruction whose destination is among its operands."""
        self.flush()
        self._append(op, engine, operands, attributes, self.recorder.source())

    def _append(
        self,
        op: str,
        engine: Engine,
        operands: Sequence[Operand],
        attributes: Attributes,
        source: int,
    ) -> None:
        if self._assigned is not None:
            self._hold_assigned()
        if self.zeroed or self._held:
            self._prepare(operands)
        recorder = self.recorder
        try:
            form, places = recorder.form(op, engine, operands, attributes)
        except KernelError as error:
            parts = list(parts_of(op, operands, attributes))
            for part in parts:
                self._append(op, engine, part, attributes, source)
            if parts:
                return
            if error.place:
                raise
            place = str(recorder.builder.sources[source])
            raise KernelError(error.message, error.hint, place) from None
        recorder.builder.emit(form, places, source, recorder.core)
        if recorder.values is not None:
            place = str(recorder.builder.sources[source])
            recorder.values.execute(recorder.builder.forms[form], places, place)

    def _prepare(self, operands: Sequence[Operand]) -> None:
        for _, mode, tensor in operands:
            storage = tensor.allocation.number
            if storage in self.zeroed:
                self.fill(self.zeroed.pop(storage), 0.0)
            if mode is not Mode.READ and storage in self._held:
                self._keep_values(tensor)

    def fill(self, tensor: Tensor, value: float) -> None:
        """Sets a fresh tile to a number, before the pending instruction, which cannot know it."""
        operands = (("dst", Mode.WRITE, tensor),)
        self._append("memset", Engine.ANY, operands, (("value", value),), self.recorder.source())

    def zeros_on_touch(self, tensor: Tensor) -> None:
        """Marks a fresh PSUM tile as all zero; what touches it first decides how it becomes so."""
        self.zeroed[tensor.storage] = tensor

    def assigned(self, value: Named) -> None:
        """A variable's value was just written to where it is assigned to.

        Most such values are temporaries and gone by the next instruction.
        """
        self._assigned = weakref.ref(value)

    def _hold_assigned(self) -> None:
        value = self._assigned() if self._assigned is not None else None
        self._assigned = None
        if value is not None:
            self._hold(value)

    def _hold(self, value: Named) -> None:
        storage = value.tensor.storage
        alive = [ref for ref in self._held.get(storage, ()) if ref() is not None]
        self._held[storage] = [*alive, weakref.ref(value)]

    def _keep_values(self, target: Tensor) -> None:
        for ref in self._held.pop(target.storage, ()):
            value = ref()
            if value is None:
                continue
            if value.tensor.storage != target.storage or not overlap(value.tensor, target):
                self._hold(value)
                continue
            value.moved(self._copied(value.tensor))

    def copied(self, tensor: Tensor) -> Tensor:
        """A copy of a view in a tile of its own."""
        self.flush()
        return self._copied(tensor)

    def _copied(self, tensor: Tensor) -> Tensor:
        source = self.recorder.source()
        copy = self.allocate(tensor.shape, tensor.dtype, Memory.SBUF, source)
        operands = (("dst", Mode.WRITE, copy), ("src", Mode.READ, tensor))
        self._append("tensor_copy", Engine.ANY, operands, (), source)
        return copy

    def allocate(
        self, shape: tuple[int, ...], dtype: str, memory: Memory, source: int | None = None
    ) -> Tensor:
        """A tile for an intermediate value, named after the variable of the source line."""
        number = self.recorder.source() if source is None else source
        name = f"{self._name(number)}.{len(self.recorder.builder.storages)}"
        return self.recorder.allocate(shape, dtype, memory, name=name)

    def _name(self, source: int) -> str:
        name = self._names.get(source)
        if name is None:
            line = self.recorder.builder.sources[source].line
            found = _ASSIGNED.match(linecache.getline(self.recorder.kernel_file, line))
            name = self._names[source] = found[1] if found else "tile"
        return name


@functools.cache
def _overwriting(attributes: Attributes) -> Attributes:
    return tuple((k, "false" if k == "accumulate" else value) for k, value in attributes)


_SESSION: ContextVar[Session | None] = ContextVar("session", default=None)


def active_session() -> Session | None:
    """The session of the kernel being run, if one of this form is."""
    return _SESSION.get()


def session() -> Session:
    """The session of the kernel being run; KernelError outside of one."""
    active = _SESSION.get()
    if active is None:
        current()  # says so where no kernel runs at all
        raise KernelError(
            "language call of neuronxcc.nki in a kernel of another form",
            "decorate the kernel with neuronxcc.nki.jit",
        )
    return active


@contextlib.contextmanager
def recording_session(recorder: Recorder) -> Iterator[Session]:
    """A session for the body; its last instruction is written when the body ends."""
    fresh = Session(recorder)
    token = _SESSION.set(fresh)
    try:
        with recording(fresh.capture):
            yield fresh
            fresh.flush()
    finally:
        _SESSION.reset(token)
