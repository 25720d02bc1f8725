"""lockstep: a kernel evaluated twice at once, rounded to its storage dtypes and to float32 only.

Comes in: the kernel's instructions, one at a time (`Lockstep` stands in for `Values`). Goes out: a
`Step` each: what it read from (the instructions that last wrote the bytes), what rounding has cost
its result so far, whether that is finite, and which of the reference's values it equals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.dtypes import FLOATS, itemsize, numpy_dtype
from accel.errors import KernelError
from accel.isa import row
from accel.isa.indirect import index_of
from accel.isa.row import Array
from accel.program import Access, Form, Mode, Storage
from accel.sim.evaluate import Values
from accel.sim.numerics import EXACT, Numerics
from accel.sim.wide import WideValues

Float64 = npt.NDArray[np.float64]
# Says which of the reference's values these are: a name, "" for none, None for too few to tell.
Recognise = Callable[[Float64], str | None]


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction. `sources` are earlier steps; `loss` is the largest difference of the rounded
    from the unrounded result, relative to the latter's root mean square; `found` as `Recognise`.
    """

    op: str
    place: str
    sources: tuple[int, ...]
    reads_unwritten: bool
    finite: bool
    loss: float
    found: str | None


class Lockstep(Values):
    """`Values` that compute a second time without rounding, and note what each instruction did."""

    def __init__(self, recognise: Recognise, numerics: Numerics = EXACT) -> None:
        super().__init__(numerics)
        self.unrounded = WideValues(numerics)
        self.steps: list[Step] = []
        self._recognise = recognise
        self._sizes: dict[int, Storage] = {}
        self._writers: dict[int, npt.NDArray[np.int32]] = {}
        self._accumulators: dict[object, int] = {}
        self._follows = True

    def allocate(self, number: int, storage: Storage, array: Array | None = None) -> None:
        """As for `Values`, in both."""
        super().allocate(number, storage, array)
        self.unrounded.allocate(number, storage, array)
        self._sizes[number] = storage
        self._writers.pop(number, None)

    def release(self, number: int) -> None:
        """As for `Values`, in both."""
        super().release(number)
        self.unrounded.release(number)
        self._writers.pop(number, None)

    def execute(self, form: Form, operands: Sequence[tuple[int, int]], place: str = "") -> None:
        """As for `Values`, in both; KernelError only where the rounded one has it."""
        before = sum(finding.count for finding in self.uninitialised)
        super().execute(form, operands, place)
        unwritten = sum(finding.count for finding in self.uninitialised) > before
        self._follow(form, operands, place)
        sources = self._sources(form, operands)
        self._write(form, operands)
        self.steps.append(self._step(form, operands, place, sources, unwritten))

    def writers(self, number: int, offset: int, count: int) -> npt.NDArray[np.int32]:
        """The step that last wrote each of `count` bytes of a storage; −1 for none."""
        return self._written_by(number)[offset : offset + count]

    def _follow(self, form: Form, operands: Sequence[tuple[int, int]], place: str) -> None:
        """The instruction without rounding, as long as that takes the same way."""
        if not self._follows:
            return
        try:
            self.unrounded.execute(form, operands, place)
        except KernelError:
            self._follows = False

    @property
    def follows(self) -> bool:
        """Whether the unrounded evaluation came to the end."""
        return self._follows

    def _step(
        self,
        form: Form,
        operands: Sequence[tuple[int, int]],
        place: str,
        sources: tuple[int, ...],
        unwritten: bool,
    ) -> Step:
        finite, loss, found = True, 0.0, None
        for access, (number, offset) in zip(form.accesses, operands, strict=True):
            if access.mode is Mode.READ or access.layout.dtype not in FLOATS:
                continue
            if index_of(form, access.role) is not None:
                continue  # where it lies is known to the evaluation only
            rounded = self._result(self, access, number, offset)
            finite &= bool(np.isfinite(rounded).all())
            exact = self._result(self.unrounded, access, number, offset) if self._follows else None
            if exact is not None:
                loss = max(loss, _loss(rounded, exact))
            seen = self._recognise(rounded if exact is None else exact)
            found = seen if found is None else found or seen
        return Step(form.op, place, sources, unwritten, finite, loss, found)

    def _result(self, values: Values, access: Access, number: int, offset: int) -> Float64:
        shape, strides = self._geometry(access, number)
        layout = access.layout
        return values.read(number, layout.dtype, shape, strides, offset).astype(np.float64)

    def _geometry(self, access: Access, number: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shape and byte strides of an operand."""
        layout = access.layout
        strides = tuple(step for step, _ in layout.pattern)
        if layout.partitions:
            strides = (self._sizes[number].partition_bytes, *strides)
        return layout.shape, strides

    def _sources(self, form: Form, operands: Sequence[tuple[int, int]]) -> tuple[int, ...]:
        found: set[int] = set()
        for access, (number, offset) in zip(form.accesses, operands, strict=True):
            if access.mode is not Mode.WRITE:
                found.update(np.unique(self._bytes(form, access, number, offset)).tolist())
        registers, command = row(form.op).registers, form.attribute("reduce_cmd", "idle")
        if registers is not None and (command != "idle" or form.access("reduce_res") is not None):
            if command != "reset_reduce":
                found.add(self._accumulators.get(registers, -1))
            self._accumulators[registers] = len(self.steps)
        return tuple(sorted(found - {-1}))

    def _write(self, form: Form, operands: Sequence[tuple[int, int]]) -> None:
        for access, (number, offset) in zip(form.accesses, operands, strict=True):
            if access.mode is not Mode.READ:
                self._bytes(form, access, number, offset)[...] = len(self.steps)

    def _bytes(self, form: Form, access: Access, number: int, offset: int) -> npt.NDArray[np.int32]:
        """The writers of an operand's bytes; of all its storage where an index chooses them."""
        writers = self._written_by(number)
        if index_of(form, access.role) is not None:
            return writers
        shape, strides = self._geometry(access, number)
        size = writers.itemsize
        steps = tuple(size * step for step in (*strides, 1))
        return np.ndarray(
            (*shape, itemsize(access.layout.dtype)), writers.dtype, writers, size * offset, steps
        )

    def _written_by(self, number: int) -> npt.NDArray[np.int32]:
        writers = self._writers.get(number)
        if writers is None:
            writers = np.full(self._sizes[number].total_bytes, -1, np.int32)
            self._writers[number] = writers
        return writers


def _loss(rounded: Float64, exact: Float64) -> float:
    with np.errstate(all="ignore"):
        good = np.isfinite(rounded) & np.isfinite(exact)
        scale = float(np.sqrt(np.mean(exact[good] ** 2))) if good.any() else 0.0
        largest = float(np.abs(rounded - exact)[good].max()) if good.any() else 0.0
    return largest / scale if scale else 0.0


def storage_bytes(storage: Storage, index: tuple[int, ...]) -> tuple[int, int]:
    """First byte and number of bytes of one element of an HBM storage."""
    flat = int(np.ravel_multi_index(index, storage.shape)) if storage.shape else 0
    size = numpy_dtype(storage.dtype).itemsize
    return flat * size, size
