"""Trace: a program on a chip, with the time of everything.

Comes in: a placed program and its schedule. Goes out: one frozen record of arrays, and questions
about it: how long an engine was active, what queues stalled for, which chain of instructions made
the whole as long as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accel.program import Program
from accel.sim.geometry import Flags, Ints, Shorts
from accel.sim.queues import QUEUES_PER_CORE, Queue
from accel.sim.schedule import WAITS, Schedule

_PLACES = ("queue", "order", "port")  # causes that let go when an instruction is issued


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """One row an instruction of `program`; times in ps from the start of the kernel."""

    program: Program
    chip: str
    queue: Shorts
    times: Schedule

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        names = ("start", "issued", "end", "moving", "moved", "work")
        why = ("waited_for", "cause", "behind")
        return (
            self.chip == other.chip
            and self.program == other.program
            and np.array_equal(self.queue, other.queue)
            and all(
                np.array_equal(getattr(self.times, n), getattr(other.times, n)) for n in names + why
            )
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def makespan_ps(self) -> int:
        """From time 0 to the end of the last instruction."""
        return int(self.times.end.max(initial=0))


def union_ps(begin: Ints, end: Ints) -> int:
    """Time covered by at least one of the intervals."""
    if not len(begin):
        return 0
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], end[order]
    reached = np.maximum.accumulate(end)
    fresh = np.maximum(begin[1:], reached[:-1])
    return int(end[0] - begin[0] + np.maximum(reached[1:] - fresh, 0).sum())


def active_ps(trace: Trace, queue: Queue) -> int:
    """Time during which a queue's engine processes at least one instruction, over all cores."""
    local = trace.queue % QUEUES_PER_CORE == queue
    cores = trace.queue // QUEUES_PER_CORE
    return sum(
        union_ps(trace.times.start[mine], trace.times.end[mine])
        for mine in (local & (cores == core) for core in range(trace.program.cores))
    )


def dma_active_ps(trace: Trace) -> int:
    """Time during which at least one transfer is under way, from its first byte until its end is
    signalled, over all cores.
    """
    dma = trace.times.work > 0
    cores = trace.queue // QUEUES_PER_CORE
    return sum(
        union_ps(trace.times.moving[mine], trace.times.end[mine])
        for mine in (dma & (cores == core) for core in range(trace.program.cores))
    )


def stalls_ps(trace: Trace) -> dict[tuple[int, str], int]:
    """(queue, cause) → time the queue stood idle before an instruction because of that cause."""
    times, stalls = trace.times, {}
    order = np.lexsort((np.arange(len(trace.queue)), times.start, trace.queue))
    same = trace.queue[order][1:] == trace.queue[order][:-1]
    free = np.zeros(len(order), np.int64)
    free[1:] = np.where(same, times.issued[order][:-1], 0)
    idle = times.start[order] - free
    keys = trace.queue[order].astype(np.int64) * len(WAITS) + times.cause[order]
    for key in np.unique(keys[idle > 0]).tolist():
        total = int(idle[(keys == key) & (idle > 0)].sum())
        stalls[key // len(WAITS), WAITS[key % len(WAITS)]] = total
    return stalls


@dataclass(frozen=True, slots=True, eq=False)
class CriticalPath:
    """The chain of instructions that ends last, first one first. `released`: when each was let go,
    in ps: its start, or, `by_data`, when the transfer before it had moved its data, behind which
    its own came to an end (a transfer on many DMA engines may do so on others still; then what
    comes next counts).
    """

    instructions: Ints
    released: Ints
    by_data: Flags


def critical_path(trace: Trace) -> CriticalPath:
    """Each instruction of the path waited for the one before, or its data came behind that one's.

    What waits for an instruction's place in a queue does not wait for its data.
    """
    times = trace.times
    rows: list[tuple[int, int, bool]] = []
    at, with_data = int(np.argmax(times.end)) if len(trace.queue) else -1, True
    after = trace.makespan_ps
    while at >= 0:
        behind = int(times.behind[at]) if with_data else -1
        if behind >= 0:
            after = min(after, int(times.moved[behind]))
            rows.append((at, after, True))
            at = behind
        else:
            after = min(after, int(times.start[at]))
            rows.append((at, after, False))
            with_data = WAITS[times.cause[at]] not in _PLACES
            at = int(times.waited_for[at])
    columns = np.array(rows[::-1], np.int64).reshape(-1, 3)
    return CriticalPath(columns[:, 0], columns[:, 1], columns[:, 2] != 0)
