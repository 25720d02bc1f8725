"""Schedule: when everything happens, by one event-driven pass over in-order queues.

Comes in: the queue, costs and hazards of each instruction. Goes out: `Schedule`, start and end of
each in picoseconds and what it waited for last. An instruction starts when its queue is free and
everything it waits for has ended. A DMA transfer then queues at the DMA engines that serve its
partitions, each a first-come-first-served server, and ends a fixed latency after its last byte.

Of all queue heads that can start, the earliest goes first; ties go by program order, so the result
does not depend on anything but its inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accel.chip import Chip
from accel.program import Program
from accel.sim.compiled import compiled
from accel.sim.geometry import Bytes, Ints, Shorts
from accel.sim.hazards import Hazards
from accel.sim.machine import Costs
from accel.sim.queues import QUEUES_PER_CORE

# Beside the hazard causes: why an instruction could not start, or its data not move, earlier.
QUEUE, DMA_ENGINE, NOTHING = 4, 5, 6
WAITS = ("raw", "war", "waw", "space", "queue", "dma", "nothing")


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """One row an instruction; times in ps.

    `issued`: its queue was free again. `moving`/`moved`: a transfer's data phase (else start/end).
    `waited_for`: the instruction it waited for last, −1 for none; `cause`: why (`WAITS`).
    """

    start: Ints
    issued: Ints
    end: Ints
    moving: Ints
    moved: Ints
    work: Ints
    waited_for: Ints
    cause: Bytes


def schedule(
    program: Program,
    queue: Shorts,
    costs: Costs,
    partition: Ints,
    hazards: Hazards,
    chip: Chip,
) -> Schedule:
    """`queue` and `partition` (first physical partition of a transfer) are one an instruction."""
    form = program.form
    order = np.argsort(queue, kind="stable")
    first = np.searchsorted(queue[order], np.arange(program.cores * QUEUES_PER_CORE + 1))
    work = np.stack(
        (
            costs.issue[form],
            costs.latency[form],
            costs.table[form],
            costs.dma_work[form],
            partition,
            costs.dma_partitions[form],
        ),
        axis=1,
    )
    count = len(program)
    times = np.zeros((count, 6), np.int64)
    times[:, _END] = -1
    waited_for = np.full(count, -1, np.int64)
    cause = np.full(count, NOTHING, np.int8)
    queues = np.full((len(first) - 1, 6), -1, np.int64)
    queues[:, _HEAD] = first[:-1]
    queues[:, _FREE] = queues[:, _LOADED] = 0
    _run(
        order,
        first,
        work,
        chip.activation_table_load_ps,
        (hazards.first, hazards.earlier),
        hazards.cause,
        queues,
        np.zeros((program.cores, chip.dma_engines, 2), np.int64),
        max(1, chip.partitions // chip.dma_engines),
        times,
        waited_for,
        cause,
    )
    start, issued, end, moving, moved, moving_work = (np.ascontiguousarray(c) for c in times.T)
    return Schedule(start, issued, end, moving, moved, moving_work, waited_for, cause)


# Columns of an instruction's costs, of its times, and of a queue's state.
_ISSUE, _LATENCY, _TABLE, _WORK, _PARTITION, _PARTITIONS = range(6)
_START, _ISSUED, _END, _MOVING, _MOVED, _MOVE_WORK = range(6)
_HEAD, _FREE, _PREVIOUS, _READY, _BLOCKER, _LOADED = range(6)


@compiled
def _when_ready(
    i: int, q: int, queues: Ints, times: Ints, edges: tuple[Ints, Ints], causes: Bytes
) -> tuple[int, int, int]:
    """When instruction i at the head of queue q can start, why not earlier, and because of whom.

    −1 while something it waits for has no end yet; the queue remembers what.
    """
    first, earlier = edges
    blocker = queues[q, _BLOCKER]
    if blocker >= 0 and times[blocker, _END] < 0:
        return -1, NOTHING, -1
    queues[q, _BLOCKER] = -1
    time, whom = queues[q, _FREE], queues[q, _PREVIOUS]
    why = QUEUE if whom >= 0 else NOTHING
    for e in range(first[i], first[i + 1]):
        end = times[earlier[e], _END]
        if end < 0:
            queues[q, _BLOCKER] = earlier[e]
            return -1, NOTHING, -1
        if end > time:
            time, why, whom = end, causes[e], earlier[e]
    return time, why, whom


@compiled
def _move_data(
    i: int,
    time: int,
    work: Ints,
    times: Ints,
    servers: Ints,
    core: int,
    partitions_per_engine: int,
) -> int:
    """Queues a transfer's data at the DMA engines of its partitions.

    Returns the transfer that the engine which ends last was busy with before, −1 if it was idle.
    """
    moving, moved, busy, whom = -1, time, 0, -1
    at, stop = work[i, _PARTITION], work[i, _PARTITION] + work[i, _PARTITIONS]
    while at < stop:
        server = at // partitions_per_engine % servers.shape[1]
        upto = min(stop, (at // partitions_per_engine + 1) * partitions_per_engine)
        begin = max(time, servers[core, server, 0])
        done = begin + (upto - at) * work[i, _WORK]
        if done > moved:
            moved = done
            whom = servers[core, server, 1] if begin > time else -1
        moving = begin if moving < 0 else min(moving, begin)
        busy += done - begin
        servers[core, server, 0], servers[core, server, 1] = done, i
        at = upto
    times[i, _MOVING], times[i, _MOVED], times[i, _MOVE_WORK] = moving, moved, busy
    times[i, _END] = moved + work[i, _LATENCY]
    return whom


@compiled
def _run(
    order: Ints,
    first: Ints,
    work: Ints,
    table_load: int,
    edges: tuple[Ints, Ints],
    causes: Bytes,
    queues: Ints,
    servers: Ints,
    partitions_per_engine: int,
    times: Ints,
    waited_for: Ints,
    cause: Bytes,
) -> None:
    """Starts the earliest queue head again and again. `order[first[q]:first[q + 1]]` is queue q."""
    queues_per_core = len(queues) // len(servers)
    for _ in range(len(order)):
        chosen, best, i = -1, -1, -1
        for q in range(len(queues)):
            if queues[q, _HEAD] == first[q + 1]:
                continue
            head = order[queues[q, _HEAD]]
            if queues[q, _READY] < 0:
                time, why, whom = _when_ready(head, q, queues, times, edges, causes)
                queues[q, _READY], cause[head], waited_for[head] = time, why, whom
            ready = queues[q, _READY]
            if ready >= 0 and (chosen < 0 or ready < best or (ready == best and head < i)):
                chosen, best, i = q, ready, head
        extra = 0
        if work[i, _TABLE] > 0 and work[i, _TABLE] != queues[chosen, _LOADED]:
            queues[chosen, _LOADED], extra = work[i, _TABLE], table_load
        end, issued = best + work[i, _LATENCY] + extra, best + work[i, _ISSUE] + extra
        times[i, _START], times[i, _ISSUED], times[i, _END] = best, issued, end
        times[i, _MOVING], times[i, _MOVED] = best, end
        queues[chosen, _HEAD] += 1
        queues[chosen, _FREE], queues[chosen, _PREVIOUS], queues[chosen, _READY] = issued, i, -1
        if work[i, _PARTITIONS] > 0:
            core = chosen // queues_per_core
            whom = _move_data(i, best, work, times, servers, core, partitions_per_engine)
            if whom >= 0:
                cause[i], waited_for[i] = DMA_ENGINE, whom
