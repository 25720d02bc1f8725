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
from accel.sim.geometry import Bytes, Forms, Ints, Shorts
from accel.sim.hazards import CAUSES, ORDER, Hazards
from accel.sim.machine import ALL_CELLS, Costs, to_ps
from accel.sim.queues import QUEUES_PER_CORE, by_queue

# Beside the hazard causes: why an instruction could not start earlier.
QUEUE, NOTHING, PORT = 5, 6, 7
WAITS = (*CAUSES, "queue", "nothing", "port")


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
    order, first = by_queue(queue, program.cores * QUEUES_PER_CORE)
    work = np.stack(
        (
            costs.issue,
            costs.latency,
            costs.table,
            costs.dma_work,
            costs.dma_partitions,
            costs.rows,
            costs.read_bytes + costs.write_bytes,
            costs.cells,
            costs.ports,
        ),
        axis=1,
    )
    count = len(program)
    start, issued, moving, moved, busy = (np.zeros(count, np.int64) for _ in range(5))
    end, waited_for, behind = (np.full(count, -1, np.int64) for _ in range(3))
    cause = np.full(count, NOTHING, np.int8)
    _run(
        program.form,
        work,
        partition,
        order,
        first,
        (hazards.first, hazards.earlier, hazards.cause),
        (
            chip.activation_table_load_ps,
            chip.semaphore_ps,
            to_ps(chip.min_issue_cycles, chip.tensor_mhz),
        ),
        ahead,
        (
            np.zeros((program.cores, chip.dma_engines, 2), np.int64),
            _idle_stacks(program.cores, chip),
        ),
        (
            max(1, chip.partitions // chip.dma_engines),
            chip.dma_engine_step_ps,
            chip.cores_per_stack,
            chip.hbm_stack_bytes_per_us,
        ),
        (_idle_array(program.cores), _unused(program.cores)),
        bool(((costs.cells != 0) & (costs.cells != ALL_CELLS)).any()),
        (
            chip.tensor_limit_window_ps,
            chip.tensor_limit_window_ps * chip.partitions * chip.tensor_limit_percent // 100,
        ),
        (start, issued, end),
        (moving, moved, busy),
        (waited_for, behind),
        cause,
    )
    return Schedule(start, issued, end, moving, moved, busy, waited_for, cause, behind)


# Columns of a form's costs, and of a tensor engine's use.
_ISSUE, _LATENCY, _TABLE, _WORK, _PARTITIONS, _ROWS, _BYTES, _CELLS, _PORTS = range(9)
_PORT_COUNT = 2
_WINDOW, _USED, _USED_NEXT, _LIMITED = range(4)


def _idle_array(cores: int) -> Ints:
    """For each square of each core's array when it is free, and the matmul that has it last."""
    return np.tile(np.array((0, -1), np.int64), (cores, ALL_CELLS.bit_length(), 1))


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
    form: Forms,
    work: Ints,
    edges: tuple[Ints, Ints, Bytes],
    ends: Ints,
    starts: Ints,
    signal: int,
) -> tuple[int, int, int]:
    """When everything that instruction i waits for is done, why not earlier, and because of whom.

    −1 while something it waits for has not started yet: that is the last in the answer.
    """
    first, earlier, causes = edges
    time, why, whom = 0, NOTHING, -1
    for e in range(first[i], first[i + 1]):
        other = earlier[e]
        end = ends[other]
        if end < 0:
            return -1, NOTHING, other
        if causes[e] == ORDER:
            end = starts[other]
        elif work[form[other], _PARTITIONS] == 0:
            end += signal
        if end > time:
            time, why, whom = end, causes[e], other
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
    costs: Ints,
    at: int,
    core: int,
    served: tuple[Ints, Ints],
    rates: tuple[int, int, int, int],
    data: tuple[Ints, Ints, Ints],
) -> int:
    """Queues a transfer's data at the DMA engines of its partitions, from partition `at` on, and at
    the core's HBM stack. `rates`: partitions an engine, how much later than the engine before each
    of them is told, cores a stack, and its bytes per microsecond.

    Returns the transfer that the engine or stack which ends last was busy with before, −1 if it
    was idle.
    """
    servers, stacks = served
    partitions_per_engine, step, cores_per_stack, stack_rate = rates
    stack, triggered = core // cores_per_stack, time
    moving, moved, busy, whom = -1, time, 0, -1
    stop = at + costs[_PARTITIONS]
    while at < stop:
        server = at // partitions_per_engine % servers.shape[1]
        upto = min(stop, (at // partitions_per_engine + 1) * partitions_per_engine)
        begin = max(time, servers[core, server, 0])
        done = begin + (upto - at) * costs[_WORK]
        if done > moved:
            moved = done
            whom = servers[core, server, 1] if begin > time else -1
        moving = begin if moving < 0 else min(moving, begin)
        busy += done - begin
        time += step
        servers[core, server, 0], servers[core, server, 1] = done, i
        at = upto
    begin = max(triggered, stacks[stack, 0])
    done = begin + costs[_BYTES] * 1_000_000 // stack_rate
    if done > moved:
        moved, whom = done, stacks[stack, 1] if begin > triggered else -1
    stacks[stack, 0], stacks[stack, 1] = done, i
    data[0][i], data[1][i], data[2][i] = moving, moved, busy
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
def _run(
    form: Forms,
    work: Ints,
    partition: Ints,
    order: Ints,
    first: Ints,
    edges: tuple[Ints, Ints, Bytes],
    fixed: tuple[int, int, int],
    ahead: int,
    served: tuple[Ints, Ints],
    rates: tuple[int, int, int, int],
    engines: tuple[Ints, Ints],
    tiled: bool,
    limit: tuple[int, int],
    times: tuple[Ints, Ints, Ints],
    data: tuple[Ints, Ints, Ints],
    after: tuple[Ints, Ints],
    cause: Bytes,
) -> None:
    """Starts the earliest of all that can start, again and again. `order[first[q]:first[q + 1]]` is
    queue q, of which any can be next that is less than `ahead` places behind the first one left.

    A queue's next instruction and its time are kept until the queue starts one, or what its head
    waits for has started. `tiled`: whether matmuls share the tensor engine's array.
    """
    table_load, signal, dispatch = fixed
    starts, issues, ends = times
    waited_for, behind = after
    array, use = engines
    queues_per_core = (len(first) - 1) // len(array)
    used = np.flatnonzero(first[1:] > first[:-1])
    head, free = first[:-1].copy(), np.zeros(len(first) - 1, np.int64)
    previous, loaded = np.full(len(head), -1, np.int64), np.zeros(len(head), np.int64)
    ready = np.full(len(order), -1, np.int64)
    next_time, next_of = np.zeros(len(head), np.int64), np.full(len(head), -1, np.int64)
    # For each core and shared port when it is free, and who has it last.
    ports = np.zeros((len(array), _PORT_COUNT, 2), np.int64)
    held_by, settled = np.full(len(head), -1, np.int64), np.zeros(len(head), np.bool_)
    for _ in range(len(order)):
        chosen, best, i = -1, -1, -1
        for q in used:
            if held_by[q] >= 0:
                if ends[held_by[q]] < 0:
                    continue
                held_by[q] = -1
            if not settled[q]:
                settled[q], next_of[q] = True, -1
                for at in range(head[q], min(first[q + 1], head[q] + ahead)):
                    h = order[at]
                    if ends[h] >= 0:
                        continue
                    if ready[h] < 0:
                        time, why, whom = _when_ready(h, form, work, edges, ends, issues, signal)
                        if time < 0:
                            settled[q] = False
                            if ahead == 1:
                                held_by[q] = whom
                            continue
                        ready[h], cause[h], waited_for[h] = time, why, whom
                    time = max(ready[h], free[q])
                    if tiled and work[form[h], _CELLS] != 0:
                        squares = array[q // queues_per_core]
                        time = max(time, _array_free(work[form[h], _CELLS], squares)[0])
                    for p in range(_PORT_COUNT):
                        if work[form[h], _PORTS] >> p & 1:
                            time = max(time, ports[q // queues_per_core, p, 0])
                    if next_of[q] < 0 or time < next_time[q]:
                        next_of[q], next_time[q] = h, time
            h = next_of[q]
            time = next_time[q]
            if h >= 0 and (chosen < 0 or time < best or (time == best and h < i)):
                chosen, best, i = int(q), time, h
        core, costs = chosen // queues_per_core, work[form[i]]
        settled[chosen], next_of[chosen] = False, -1
        if best > ready[i] or (free[chosen] == best and previous[chosen] >= 0):
            cause[i], waited_for[i] = QUEUE, previous[chosen]
        for p in range(_PORT_COUNT):
            if costs[_PORTS] >> p & 1 and ports[core, p, 0] == best > max(ready[i], free[chosen]):
                cause[i], waited_for[i] = PORT, ports[core, p, 1]
        taken, extra = costs[_ISSUE], 0
        if costs[_TABLE] > 0 and costs[_TABLE] != loaded[chosen]:
            loaded[chosen], extra = costs[_TABLE], table_load
        if costs[_ROWS] > 0 and limit[0] > 0:
            extra = _limited_ps(best, taken, costs[_ROWS], use[core], limit)
        starts[i], issues[i], ends[i] = best, best + taken + extra, best + costs[_LATENCY] + extra
        data[0][i], data[1][i] = best, ends[i]
        free[chosen], previous[chosen] = issues[i], i
        if tiled and costs[_CELLS] != 0:
            # Another matmul can start as soon as it finds its squares of the array free.
            emptied, holder = _array_free(costs[_CELLS], array[core])
            if emptied == best and holder >= 0:
                cause[i], waited_for[i] = QUEUE, holder
            for c in range(array.shape[1]):
                if costs[_CELLS] >> c & 1:
                    array[core, c, 0], array[core, c, 1] = issues[i], i
            free[chosen] = min(issues[i], best + dispatch)
        if costs[_PORTS] != 0:
            for p in range(_PORT_COUNT):
                if costs[_PORTS] >> p & 1:
                    ports[core, p, 0], ports[core, p, 1] = issues[i], i
            settled[core * queues_per_core : (core + 1) * queues_per_core] = False
        if costs[_PARTITIONS] > 0:
            behind[i] = _move_data(i, best, costs, partition[i], core, served, rates, data)
            ends[i] = data[1][i] + costs[_LATENCY]
        while head[chosen] < first[chosen + 1] and ends[order[head[chosen]]] >= 0:
            head[chosen] += 1
