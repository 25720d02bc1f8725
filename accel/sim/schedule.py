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
from accel.sim.hazards import CAUSES, ORDER, Hazards
from accel.sim.machine import ALL_CELLS, Costs, to_ps
from accel.sim.queues import QUEUES_PER_CORE

# Beside the hazard causes: why an instruction could not start earlier.
QUEUE, NOTHING = 5, 6
WAITS = (*CAUSES, "queue", "nothing")


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """One row an instruction; times in ps.

    `issued`: its queue, or its part of the tensor engine's array, was free again.
    `moving`/`moved`: a transfer's data phase (else start/end).
    `waited_for`: the instruction it waited for last, −1 for none; `cause`: why (`WAITS`).
    `behind`: the transfer after whose data its own came to an end at the last of its DMA engines,
    or at the HBM stack, −1 if that was idle.
    """

    start: Ints
    issued: Ints
    end: Ints
    moving: Ints
    moved: Ints
    work: Ints
    waited_for: Ints
    cause: Bytes
    behind: Ints


def schedule(
    program: Program,
    queue: Shorts,
    costs: Costs,
    partition: Ints,
    hazards: Hazards,
    chip: Chip,
    ahead: int = 1,
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
            costs.rows[form],
            costs.read_bytes[form] + costs.write_bytes[form],
            costs.cells[form],
        ),
        axis=1,
    )
    count = len(program)
    times = np.zeros((count, 6), np.int64)
    times[:, _END] = -1
    waited_for = np.full(count, -1, np.int64)
    cause = np.full(count, NOTHING, np.int8)
    behind = np.full(count, -1, np.int64)
    queues = np.full((len(first) - 1, 4), -1, np.int64)
    queues[:, _HEAD] = first[:-1]
    queues[:, _FREE] = queues[:, _LOADED] = 0
    _run(
        order,
        first,
        work,
        chip.activation_table_load_ps,
        (hazards.first, hazards.earlier),
        hazards.cause,
        chip.semaphore_ps,
        to_ps(chip.min_issue_cycles, chip.tensor_mhz),
        ahead,
        queues,
        np.tile(np.array((0, -1), np.int64), (program.cores, ALL_CELLS.bit_length(), 1)),
        np.zeros((program.cores, chip.dma_engines, 2), np.int64),
        (max(1, chip.partitions // chip.dma_engines), chip.dma_engine_step_ps),
        _idle_stacks(program.cores, chip),
        (chip.cores_per_stack, chip.hbm_stack_bytes_per_us),
        _unused(program.cores),
        (
            chip.tensor_limit_window_ps,
            chip.tensor_limit_window_ps * chip.partitions * chip.tensor_limit_percent // 100,
        ),
        times,
        waited_for,
        cause,
        behind,
    )
    start, issued, end, moving, moved, moving_work = (np.ascontiguousarray(c) for c in times.T)
    return Schedule(start, issued, end, moving, moved, moving_work, waited_for, cause, behind)


# Columns of an instruction's costs, of its times, of a queue's state, and of a tensor engine's use.
_ISSUE, _LATENCY, _TABLE, _WORK, _PARTITION, _PARTITIONS, _ROWS, _BYTES, _CELLS = range(9)
_START, _ISSUED, _END, _MOVING, _MOVED, _MOVE_WORK = range(6)
_HEAD, _FREE, _PREVIOUS, _LOADED = range(4)
_WINDOW, _USED, _USED_NEXT, _LIMITED = range(4)


def _idle_stacks(cores: int, chip: Chip) -> Ints:
    """For each HBM stack when it is free, and the transfer that it was last busy with."""
    stacks = np.zeros((chip.stacks_of(cores), 2), np.int64)
    stacks[:, 1] = -1
    return stacks


def _unused(cores: int) -> Ints:
    """The use of each core's tensor engine before it began: it starts limited."""
    use = np.zeros((cores, 4), np.int64)
    use[:, _LIMITED] = 1
    return use


@compiled
def _when_ready(
    i: int,
    blocker: Ints,
    work: Ints,
    times: Ints,
    edges: tuple[Ints, Ints],
    causes: Bytes,
    signal: int,
) -> tuple[int, int, int]:
    """When everything that instruction i waits for is done, why not earlier, and because of whom.

    −1 while something it waits for has not started yet; `blocker` remembers what.
    """
    first, earlier = edges
    if blocker[i] >= 0 and times[blocker[i], _END] < 0:
        return -1, NOTHING, -1
    blocker[i] = -1
    time, why, whom = 0, NOTHING, -1
    for e in range(first[i], first[i + 1]):
        end = times[earlier[e], _END]
        if end < 0:
            blocker[i] = earlier[e]
            return -1, NOTHING, -1
        if causes[e] == ORDER:
            end = times[earlier[e], _ISSUED]
        elif work[earlier[e], _PARTITIONS] == 0:
            end += signal
        if end > time:
            time, why, whom = end, causes[e], earlier[e]
    return time, why, whom


@compiled
def _limited_ps(time: int, issue: int, rows: int, use: Ints, limit: tuple[int, int]) -> int:
    """How much longer a tensor-engine instruction takes because the engine is held at half rate.

    `use`: of this core's engine, in ps × rows. It is held while it used less than `limit[1]` of
    the window before; windows of `limit[0]` follow each other from time 0 on.
    """
    window, least = limit
    now = time // window
    if now > use[_WINDOW]:
        before = use[_USED] if now == use[_WINDOW] + 1 else 0
        if now == use[_WINDOW] + 2:
            before = use[_USED_NEXT]
        use[_LIMITED] = before < least
        use[_USED] = use[_USED_NEXT] if now == use[_WINDOW] + 1 else 0
        use[_WINDOW], use[_USED_NEXT] = now, 0
    taken = 2 * issue if use[_LIMITED] else issue
    here = min(taken, (now + 1) * window - time)
    work = issue * rows
    use[_USED] += work * here // taken
    use[_USED_NEXT] += work - work * here // taken
    return taken - issue


@compiled
def _move_data(
    i: int,
    time: int,
    work: Ints,
    times: Ints,
    servers: Ints,
    core: int,
    spread: tuple[int, int],
    stacks: Ints,
    share: tuple[int, int],
) -> int:
    """Queues a transfer's data at the DMA engines of its partitions and at the core's HBM stack.

    `spread`: partitions an engine, and how much later than the engine before each of them is told.
    `share`: cores a stack, and its bytes per microsecond.

    Returns the transfer that the engine or stack which ends last was busy with before, −1 if it
    was idle.
    """
    partitions_per_engine, step = spread
    stack, triggered = core // share[0], time
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
        time += step
        servers[core, server, 0], servers[core, server, 1] = done, i
        at = upto
    begin = max(triggered, stacks[stack, 0])
    done = begin + work[i, _BYTES] * 1_000_000 // share[1]
    if done > moved:
        moved, whom = done, stacks[stack, 1] if begin > triggered else -1
    stacks[stack, 0], stacks[stack, 1] = done, i
    times[i, _MOVING], times[i, _MOVED], times[i, _MOVE_WORK] = moving, moved, busy
    times[i, _END] = moved + work[i, _LATENCY]
    return whom


@compiled
def _array_free(cells: int, array: Ints) -> tuple[int, int]:
    """When all the squares of the array in `cells` are free, and the matmul that has the last."""
    time, holder = 0, -1
    for c in range(len(array)):
        if cells >> c & 1 and array[c, 0] > time:
            time, holder = array[c, 0], array[c, 1]
    return time, holder


@compiled
def _next_of(
    q: int,
    heads: tuple[Ints, Ints],
    work: Ints,
    times: Ints,
    edges: tuple[Ints, Ints],
    causes: Bytes,
    signal: int,
    ahead: int,
    queues: Ints,
    array: Ints,
    ready: Ints,
    blocker: Ints,
    waited_for: Ints,
    cause: Bytes,
) -> tuple[int, int, bool]:
    """When a queue can start which instruction next (−1: none yet), and whether that may change
    before the queue starts anything: something at its head waits for what has not started.
    """
    order, first = heads
    best, chosen, waiting = -1, -1, False
    for at in range(queues[q, _HEAD], min(first[q + 1], queues[q, _HEAD] + ahead)):
        head = order[at]
        if times[head, _END] >= 0:
            continue
        if ready[head] < 0:
            time, why, whom = _when_ready(head, blocker, work, times, edges, causes, signal)
            ready[head], cause[head], waited_for[head] = time, why, whom
        if ready[head] < 0:
            waiting = True
            continue
        time = max(ready[head], queues[q, _FREE])
        if work[head, _CELLS] != 0:
            time = max(time, _array_free(work[head, _CELLS], array)[0])
        if chosen < 0 or time < best:
            chosen, best = head, time
    return best, chosen, waiting


@compiled
def _run(
    order: Ints,
    first: Ints,
    work: Ints,
    table_load: int,
    edges: tuple[Ints, Ints],
    causes: Bytes,
    signal: int,
    dispatch: int,
    ahead: int,
    queues: Ints,
    array: Ints,
    servers: Ints,
    spread: tuple[int, int],
    stacks: Ints,
    share: tuple[int, int],
    use: Ints,
    limit: tuple[int, int],
    times: Ints,
    waited_for: Ints,
    cause: Bytes,
    behind: Ints,
) -> None:
    """Starts the earliest of all that can start, again and again. `order[first[q]:first[q + 1]]` is
    queue q, of which any can be next that is less than `ahead` places behind the first one left.
    """
    queues_per_core = len(queues) // len(servers)
    ready = np.full(len(order), -1, np.int64)
    blocker = np.full(len(order), -1, np.int64)
    next_time = np.full(len(queues), -1, np.int64)
    next_of = np.full(len(queues), -1, np.int64)
    known = np.zeros(len(queues), np.bool_)
    for _ in range(len(order)):
        chosen, best, i = -1, -1, -1
        for q in range(len(queues)):
            if not known[q]:
                time, head, waiting = _next_of(
                    q,
                    (order, first),
                    work,
                    times,
                    edges,
                    causes,
                    signal,
                    ahead,
                    queues,
                    array[q // queues_per_core],
                    ready,
                    blocker,
                    waited_for,
                    cause,
                )
                next_time[q], next_of[q], known[q] = time, head, not waiting
            time, head = next_time[q], next_of[q]
            if head >= 0 and (chosen < 0 or time < best or (time == best and head < i)):
                chosen, best, i = q, time, head
        core = chosen // queues_per_core
        known[chosen] = False
        if best > ready[i] or (queues[chosen, _FREE] == best and queues[chosen, _PREVIOUS] >= 0):
            cause[i], waited_for[i] = QUEUE, queues[chosen, _PREVIOUS]
        taken = work[i, _ISSUE]
        extra = 0
        if work[i, _TABLE] > 0 and work[i, _TABLE] != queues[chosen, _LOADED]:
            queues[chosen, _LOADED], extra = work[i, _TABLE], table_load
        if work[i, _CELLS] != 0:
            emptied, holder = _array_free(work[i, _CELLS], array[core])
            if emptied == best:
                cause[i], waited_for[i] = QUEUE, holder
            if limit[0] > 0:
                extra = _limited_ps(best, taken, work[i, _ROWS], use[core], limit)
            for c in range(array.shape[1]):
                if work[i, _CELLS] >> c & 1:
                    array[core, c, 0], array[core, c, 1] = best + taken + extra, i
        end, issued = best + work[i, _LATENCY] + extra, best + taken + extra
        times[i, _START], times[i, _ISSUED], times[i, _END] = best, issued, end
        times[i, _MOVING], times[i, _MOVED] = best, end
        # Another matmul can start as soon as it finds its squares of the array free.
        free = issued if work[i, _CELLS] == 0 else min(issued, best + dispatch)
        queues[chosen, _FREE], queues[chosen, _PREVIOUS] = free, i
        while queues[chosen, _HEAD] < first[chosen + 1] and (
            times[order[queues[chosen, _HEAD]], _END] >= 0
        ):
            queues[chosen, _HEAD] += 1
        if work[i, _PARTITIONS] > 0:
            behind[i] = _move_data(i, best, work, times, servers, core, spread, stacks, share)
