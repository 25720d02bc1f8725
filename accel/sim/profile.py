"""profile: where the time of a simulation goes, and what it would be if.

Comes in: a `Simulation` and the chip it ran on. Goes out: one frozen record, every figure of it
computed from the trace: how busy each queue is over time, what queues wait for, which kernel lines
the critical path runs through, which instructions cost most, how full the memories get, how often
inputs are read, and the latency with one thing of the machine changed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.chip import Chip
from accel.dtypes import itemsize
from accel.program import Form, Kind, Memory, Mode, Program
from accel.sim.geometry import Ints
from accel.sim.machine import PS_PER_US
from accel.sim.queues import FIRST_DMA_QUEUE, QUEUES_PER_CORE, queue_label
from accel.sim.schedule import WAITS
from accel.sim.simulation import Simulation, simulate
from accel.sim.trace import Trace, critical_path

SLICES = 60
"""Equal parts of the latency that a timeline has."""

_READ_AGAIN = 1.5  # times its size that reading an input has to come to before it is told


@dataclass(frozen=True, slots=True)
class Lane:
    """A queue, or the DMA engines of all cores: how busy, in the whole and in each slice (0 to 1).

    A DMA queue is busy while it starts transfers, the DMA engines while they move data. Within a
    transfer the work of its engines is taken to be even, so a slice can be a little off.
    """

    name: str
    instructions: int
    busy_us: float
    busy: float
    slices: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Stall:
    """Time a queue stood idle because of `cause` (see `WAITS`), waiting for what `line` did."""

    queue: str
    cause: str
    line: str
    op: str
    us: float
    times: int


@dataclass(frozen=True, slots=True)
class Part:
    """A share of the time: of the critical path a kernel line, of the work an instruction form."""

    line: str
    op: str
    us: float
    times: int


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Bytes that live tiles hold of one memory of all cores, at its fullest and in each slice."""

    memory: str
    capacity: int
    peak: int
    peak_us: float
    slices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """An input in HBM, and how often its bytes are read."""

    name: str
    size: int
    read: int

    @property
    def times(self) -> float:
        """Bytes read over bytes there are."""
        return self.read / self.size


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The latency with one thing changed; `faster`: today's latency over it."""

    name: str
    latency_us: float
    faster: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """Where the matmuls are: FLOP over HBM bytes (−1 without traffic), TFLOP/s, and the two roofs
    in TFLOP/s: of the tensor engines in bf16, and of DMA engines and HBM at this intensity.
    """

    intensity: float
    tflops: float
    compute_roof: float
    memory_roof: float


@dataclass(frozen=True, slots=True)
class Profile:
    """Everything about one simulation; lists are sorted, the most time first."""

    latency_us: float
    lanes: tuple[Lane, ...]
    stalls: tuple[Stall, ...]
    critical: tuple[Part, ...]
    instructions: tuple[Part, ...]
    occupancy: tuple[Occupancy, ...]
    readings: tuple[Reading, ...]
    roofline: Roofline
    what_ifs: tuple[WhatIf, ...]

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return dataclasses.asdict(self)


def profile_of(
    simulation: Simulation,
    program: Program,
    chip: Chip,
    compiler: str = "none",
    on_change: Callable[[str], None] = lambda name: None,
) -> Profile:
    """The profile of `simulate(program, chip, compiler)`; `on_change` hears of each what-if."""
    trace, metrics = simulation.trace, simulation.metrics
    seconds = metrics.latency_us / 1e6
    tflops = metrics.model_flops / 1e12 / seconds if seconds else 0.0
    cores = trace.program.cores
    intensity = metrics.mm_arithmetic_intensity
    return Profile(
        latency_us=metrics.latency_us,
        lanes=tuple(_lanes(trace, chip)),
        stalls=tuple(_stalls(trace)),
        critical=tuple(critical_parts(trace)),
        instructions=tuple(_costly(trace)),
        occupancy=tuple(_occupancy(trace, chip)),
        readings=tuple(_readings(trace.program)),
        roofline=Roofline(
            intensity,
            tflops,
            chip.peak_flops_per_us("bfloat16") * cores / 1e6,
            max(intensity, 0.0) * chip.moved_bytes_per_us(cores) / 1e6,
        ),
        what_ifs=tuple(_what_ifs(simulation, program, chip, compiler, on_change)),
    )


def _edges(trace: Trace) -> Ints:
    """The limits of the slices."""
    return np.linspace(0, trace.makespan_ps, SLICES + 1).astype(np.int64)


def _spread(begin: Ints, end: Ints, amount: Ints, edges: Ints) -> tuple[float, ...]:
    """How much of `amount`, even between begin and end, falls into each slice."""
    taken = end > begin
    begin, end, amount = begin[taken], end[taken], amount[taken].astype(np.float64)
    if not len(begin):
        return (0.0,) * (len(edges) - 1)
    rate = amount / (end - begin)
    times = np.concatenate((begin, end))
    order = np.argsort(times, kind="stable")
    times = times[order].astype(np.float64)
    slope = np.cumsum(np.concatenate((rate, -rate))[order])
    reached = np.concatenate(([0.0], np.cumsum(slope[:-1] * np.diff(times))))
    at = np.interp(edges.astype(np.float64), times, reached)
    return tuple(np.diff(at).tolist())


def _lanes(trace: Trace, chip: Chip) -> Iterable[Lane]:
    times, edges = trace.times, _edges(trace)
    width = np.maximum(1, np.diff(edges))
    whole = max(1, trace.makespan_ps)
    for queue in np.unique(trace.queue).tolist():
        mine = trace.queue == queue
        begin, end = times.start[mine], times.issued[mine]
        slices = np.array(_spread(begin, end, end - begin, edges)) / width
        busy = int((end - begin).sum())
        shown = tuple(np.round(slices, 4).tolist())
        yield Lane(queue_label(queue), int(mine.sum()), busy / PS_PER_US, busy / whole, shown)
    moves = times.work > 0
    if moves.any():
        engines = chip.dma_engines * trace.program.cores
        slices = np.array(_spread(times.moving, times.moved, times.work, edges)) / width / engines
        moving = int(times.work.sum()) / engines
        shown = tuple(np.minimum(1, np.round(slices, 4)).tolist())
        yield Lane("dma engines", int(moves.sum()), moving / PS_PER_US, moving / whole, shown)


def _stalls(trace: Trace) -> Iterable[Stall]:
    times, program = trace.times, trace.program
    order = np.lexsort((np.arange(len(trace.queue)), times.start, trace.queue))
    same = trace.queue[order][1:] == trace.queue[order][:-1]
    free = np.zeros(len(order), np.int64)
    free[1:] = np.where(same, times.issued[order][:-1], 0)
    idle = times.start[order] - free
    found: dict[tuple[int, int, str, str], list[int]] = {}
    for index, gap in zip(order[idle > 0].tolist(), idle[idle > 0].tolist(), strict=True):
        whom = int(times.waited_for[index])
        line, op = ("", "") if whom < 0 else (program.place(whom), _op(program, whom))
        key = (int(trace.queue[index]), int(times.cause[index]), line, op)
        found.setdefault(key, []).append(gap)
    rows = [
        Stall(queue_label(queue), WAITS[cause], line, op, sum(gaps) / PS_PER_US, len(gaps))
        for (queue, cause, line, op), gaps in found.items()
    ]
    return sorted(rows, key=lambda row: (-row.us, row.queue, row.cause, row.line))


def critical_parts(trace: Trace) -> list[Part]:
    """The critical path by kernel line, the most time first: each instruction counts from when it
    was released to when the next one was.
    """
    path = critical_path(trace)
    taken = np.diff(np.append(path.released, trace.makespan_ps))
    return _by_line(trace.program, path.instructions, taken)


def _by_line(program: Program, instructions: Ints, taken: Ints) -> list[Part]:
    found: dict[tuple[str, str], list[int]] = {}
    for index, time in zip(instructions.tolist(), taken.tolist(), strict=True):
        found.setdefault((program.place(index), _op(program, index)), []).append(time)
    rows = [
        Part(line, op, sum(parts) / PS_PER_US, len(parts)) for (line, op), parts in found.items()
    ]
    return sorted(rows, key=lambda row: (-row.us, row.line, row.op))


def _costly(trace: Trace) -> Iterable[Part]:
    """Kernel lines by how long their instructions held an engine or moved data."""
    times = trace.times
    engine = trace.queue % QUEUES_PER_CORE < FIRST_DMA_QUEUE
    taken = np.where(engine, times.issued - times.start, times.moved - times.moving)
    return _by_line(trace.program, np.arange(len(taken)), taken)


def _op(program: Program, index: int) -> str:
    return program.forms[int(program.form[index])].op


def _occupancy(trace: Trace, chip: Chip) -> Iterable[Occupancy]:
    program, edges = trace.program, _edges(trace)
    instruction = np.repeat(np.arange(len(program)), np.diff(program.first_operand))
    born = np.full(len(program.storages), np.iinfo(np.int64).max)
    died = np.zeros(len(program.storages), np.int64)
    np.minimum.at(born, program.storage, trace.times.start[instruction])
    np.maximum.at(died, program.storage, trace.times.end[instruction])
    limits = {
        Memory.SBUF: chip.sbuf_usable_bytes,
        Memory.PSUM: chip.psum_bank_bytes * chip.psum_banks,
    }
    for memory, limit in limits.items():
        alive = [
            n for n, storage in enumerate(program.storages)
            if storage.memory is memory and died[n] > 0
        ]  # fmt: skip
        size = np.array([program.storages[n].total_bytes for n in alive], np.int64)
        at = np.concatenate((born[alive], died[alive]))
        # What dies makes room before what is born at that moment takes it.
        order = np.lexsort((np.concatenate((size, -size)), at))
        held = np.cumsum(np.concatenate((size, -size))[order])
        capacity = limit * chip.partitions * program.cores
        if not len(held):
            yield Occupancy(memory.value, capacity, 0, 0.0, (0,) * SLICES)
            continue
        fullest = int(np.argmax(held))
        middle = (edges[1:] + edges[:-1]) // 2
        place = np.searchsorted(at[order], middle, side="right") - 1
        shown = np.where(place >= 0, held[place], 0)
        yield Occupancy(
            memory.value,
            capacity,
            int(held[fullest]),
            int(at[order][fullest]) / PS_PER_US,
            tuple(shown.tolist()),
        )


def _readings(program: Program) -> Iterable[Reading]:
    """Inputs that transfers read, those read most often first."""
    read: dict[int, int] = {}
    sizes = [_read_bytes(form) for form in program.forms]
    for index, form in enumerate(program.form.tolist()):
        if not sizes[form]:
            continue
        first = int(program.first_operand[index])
        for place, size in sizes[form]:
            number = int(program.storage[first + place])
            read[number] = read.get(number, 0) + size
    rows = [
        Reading(program.storages[n].name, program.storages[n].total_bytes, size)
        for n, size in read.items()
        if program.storages[n].kind in (Kind.INPUT, Kind.CONSTANT)
    ]
    return sorted(rows, key=lambda row: (-row.times, row.name))


def _read_bytes(form: Form) -> list[tuple[int, int]]:
    """(operand, bytes) of what a form reads from HBM."""
    return [
        (place, access.layout.elements * itemsize(access.layout.dtype))
        for place, access in enumerate(form.accesses)
        if access.mode is Mode.READ and access.layout.memory is Memory.HBM
    ]


def read_again(profile: Profile) -> list[Reading]:
    """Inputs that are read so often that keeping them on chip might pay."""
    return [reading for reading in profile.readings if reading.times >= _READ_AGAIN]


_HUGE = 10**12
_AT_ONCE: dict[str, Any] = {
    "dma_bytes_per_us": _HUGE,
    "dma_small_bytes_per_us": _HUGE,
    "dma_element_overhead_ps": 0,
    "dma_min_element_ps": 0,
    "dma_engine_step_ps": 0,
    "dma_latency_ps": 0,
    "hbm_bytes_per_us": _HUGE,
    "hbm_stack_bytes_per_us": _HUGE,
}


def _twice(clock: str) -> Callable[[Chip], Chip]:
    def faster(chip: Chip) -> Chip:
        change: dict[str, Any] = {clock: 2 * getattr(chip, clock)}
        return dataclasses.replace(chip, **change)

    return faster


def _same(chip: Chip) -> Chip:
    return chip


# What the machine is instead, and which effects are left out.
_CHANGES: tuple[tuple[str, Callable[[Chip], Chip], frozenset[str]], ...] = (
    (
        "transfers took no time",
        lambda chip: dataclasses.replace(chip, **_AT_ONCE),
        frozenset({"dge_issue"}),
    ),
    ("descriptors took no time", _same, frozenset({"dge_issue"})),
    ("semaphores took no time", _same, frozenset({"semaphore"})),
    ("the tensor engine were never limited", _same, frozenset({"tensor_limit"})),
    ("the tensor engine were twice as fast", _twice("tensor_mhz"), frozenset()),
    ("the vector engine were twice as fast", _twice("vector_mhz"), frozenset()),
    ("the scalar engine were twice as fast", _twice("scalar_mhz"), frozenset()),
    ("on-chip memory had no limit", _same, frozenset({"capacity"})),
    ("nothing waited for data", _same, frozenset({"hazards"})),
)


def _what_ifs(
    simulation: Simulation,
    program: Program,
    chip: Chip,
    compiler: str,
    on_change: Callable[[str], None],
) -> Iterable[WhatIf]:
    today = simulation.metrics.latency_us
    rows = []
    for name, change, ablate in _CHANGES:
        on_change(name)
        latency = simulate(program, change(chip), compiler, ablate).metrics.latency_us
        rows.append(WhatIf(name, latency, today / latency if latency else 1.0))
    return sorted(rows, key=lambda row: (-row.faster, row.name))
