"""Hazards: which instruction has to wait for which, from the bytes they touch.

Comes in: operands as boxes, the queue of each instruction, and which tiles took over whose space.
Goes out: `Hazards`, a compressed list of (instruction, earlier instruction, why), and the operands
that read what nobody wrote. Every edge points back in program order.

No edge where the hardware needs none: an in-order engine cannot overtake itself, so only reading a
result (RAW) matters inside one; a chain of accumulations by one engine into one PSUM tile adds up
in any case. DMA queues issue in order but finish in any, so they get every edge.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from accel import isa
from accel.program import Memory, Program
from accel.sim.compiled import compiled
from accel.sim.geometry import DIMENSIONS, MEMORIES, Boxes, Bytes, Flags, Ints, Shorts, Stores
from accel.sim.queues import QUEUES_PER_CORE, by_queue, in_order_queues

RAW, WAR, WAW, SPACE, ORDER = 0, 1, 2, 3, 4
CAUSES = ("raw", "war", "waw", "space", "order")

_READ, _WRITE, _ACCUMULATE = 0, 1, 2
_GRID_CELLS = 64  # an operand


@dataclass(frozen=True, slots=True, eq=False)
class Hazards:
    """`earlier[first[i]:first[i + 1]]` are the instructions i waits for, `cause` says why.

    `unwritten`: operands that read bytes of which some have no writer.
    """

    first: Ints
    earlier: Ints
    cause: Bytes
    unwritten: Ints


def hazards_of(
    program: Program,
    stores: Stores,
    boxes: Boxes,
    queue: Shorts,
    taken: tuple[Ints, Ints],
    ahead: int = 1,
) -> Hazards:
    """`queue`: one an instruction. `taken`: compressed lists, storage → storages it replaces.

    `ahead`: of how many instructions at its head a queue may start any. Those of one engine that
    must not pass each other then get an edge, cause `ORDER`: the later starts after the earlier.
    """
    first, earlier, cause, unwritten = _find(
        boxes.first_operand,
        boxes.storage,
        boxes.mode,
        boxes.low,
        boxes.high,
        boxes.touched,
        boxes.instruction,
        queue,
        in_order_queues(program.cores),
        QUEUES_PER_CORE,
        tracked(program, stores, boxes),
        stores.given,
        taken[0],
        taken[1],
        _positions(queue, program.cores * QUEUES_PER_CORE),
        _stateful(program),
        ahead,
    )
    return Hazards(first, earlier, cause, np.flatnonzero(unwritten))


def _stateful(program: Program) -> Flags:
    """Instructions that read or change what an engine keeps: accumulators, generators."""
    rows = [isa.row(form.op) for form in program.forms]
    flags = [row.registers is not None or row.generator for row in rows]
    result: Flags = np.array(flags, np.bool_)[program.form]
    return result


def _positions(queue: Shorts, queues: int) -> Ints:
    """The place of each instruction in its queue."""
    order, first = by_queue(queue, queues)
    result = np.empty(len(queue), np.int64)
    result[order] = np.arange(len(queue)) - first[queue[order]]
    return result


def no_hazards(program: Program) -> Hazards:
    """As if no two instructions ever touched the same byte (for ablation)."""
    none = np.zeros(0, np.int64)
    return Hazards(np.zeros(len(program) + 1, np.int64), none, none.astype(np.int8), none)


def tracked(program: Program, stores: Stores, boxes: Boxes) -> Flags:
    """Storages whose accesses can conflict: not HBM that is the caller's and only read, or whose
    every byte is written once and never read, and not registers."""
    count = len(stores.kind)
    read = np.zeros(count, np.bool_)
    written = np.zeros(count, np.bool_)
    read[program.storage[boxes.mode == _READ]] = True
    written[program.storage[boxes.mode != _READ]] = True
    hbm = stores.memory == MEMORIES.index(Memory.HBM)
    register = stores.memory == MEMORIES.index(Memory.REGISTER)
    conflicting = read & (written | ~stores.given)
    times = np.bincount(boxes.storage, minlength=count)
    alone = np.flatnonzero((hbm & written & ~read & (times > 1))[boxes.storage])
    for mine in _by_storage(boxes, alone):
        conflicting[boxes.storage[mine[0]]] = _written_twice(boxes.low[mine], boxes.high[mine])
    result: Flags = np.where(hbm, conflicting, ~register)
    return result


def _by_storage(boxes: Boxes, operands: Ints) -> list[Ints]:
    """The operands of each storage."""
    if not len(operands):
        return []
    ordered = operands[np.argsort(boxes.storage[operands], kind="stable")]
    return np.split(ordered, np.flatnonzero(np.diff(boxes.storage[ordered])) + 1)


def _written_twice(low: Ints, high: Ints) -> bool:
    """Whether two boxes share a byte: they are laid on a grid of all their edges."""
    end = high + 1
    edges = [np.unique(np.concatenate((low[:, d], end[:, d]))) for d in range(DIMENSIONS)]
    shape = tuple(len(e) for e in edges)
    if math.prod(shape) > _GRID_CELLS * (len(low) + 1):
        return True  # hardly two edges in line: the walk looks at the pairs
    first = [np.searchsorted(e, low[:, d]) for d, e in enumerate(edges)]
    stop = [np.searchsorted(e, end[:, d]) for d, e in enumerate(edges)]
    layers = np.zeros(shape, np.int64)
    for corner in itertools.product((0, 1), repeat=DIMENSIONS):
        at = tuple(stop[d] if side else first[d] for d, side in enumerate(corner))
        np.add.at(layers, at, (-1) ** sum(corner))
    for axis in range(DIMENSIONS):
        np.cumsum(layers, axis=axis, out=layers)
    return bool((layers > 1).any())


@compiled
def _overlap(low: Ints, high: Ints, a: int, b: int) -> int:
    """Volume two boxes share; 0 if they do not touch."""
    volume = 1
    for d in range(low.shape[1]):
        width = min(high[a, d], high[b, d]) - max(low[a, d], low[b, d]) + 1
        if width <= 0:
            return 0
        volume *= width
    return volume


@compiled
def _covers(low: Ints, high: Ints, outer: int, inner: int) -> bool:
    for d in range(low.shape[1]):
        if low[inner, d] < low[outer, d] or high[inner, d] > high[outer, d]:
            return False
    return True


@compiled
def _ordered(queue: Shorts, in_order: Flags, a: int, b: int) -> bool:
    """Whether two instructions share a queue that also finishes in order."""
    return bool(queue[a] == queue[b] and in_order[queue[a]])


@compiled
def _why(mode: int, node_mode: int, same: bool) -> int:
    """Cause of an edge from an earlier access to a later one, −1 where none is needed."""
    if node_mode == _READ:
        return -1 if mode == _READ or same else WAR
    if mode == _READ:
        return RAW
    if same:
        return -1
    return RAW if mode == _ACCUMULATE else WAW


@compiled
def _find(
    first_operand: Ints,
    storage: Ints,
    modes: Bytes,
    low: Ints,
    high: Ints,
    touched: Ints,
    instruction: Ints,
    queue: Shorts,
    in_order: Flags,
    queues_per_core: int,
    tracked_storage: Flags,
    given: Flags,
    taken_first: Ints,
    taken: Ints,
    position: Ints,
    stateful: Flags,
    ahead: int,
) -> tuple[Ints, Ints, Bytes, Flags]:
    """Walks the program once. Per storage a chain of accesses that a later one may have to wait
    for; an access drops out when a later one is sure to be waited for instead."""
    operands, count = len(storage), len(first_operand) - 1
    head = np.full(len(given), -1, np.int64)
    following = np.full(operands, -1, np.int64)
    # By storage and queue: the place in it of the first instruction that touches the storage.
    touched_at = np.full((len(given), queues_per_core), -1, np.int64)
    unwritten = np.zeros(operands, np.bool_)
    first = np.zeros(count + 1, np.int64)
    earlier = np.empty(4 * operands + 16, np.int64)
    cause = np.empty(4 * operands + 16, np.int8)
    edges = 0
    last = np.full(len(in_order), -1, np.int64)
    for i in range(count):
        start, local = edges, queue[i] % queues_per_core
        if stateful[i]:
            other, last[queue[i]] = last[queue[i]], i
            if other >= 0 and position[i] - position[other] < ahead:
                earlier, cause, edges = _add(earlier, cause, start, edges, other, ORDER)
        # Reads before writes: an instruction does not read what it writes itself.
        for writing in range(2):
            for k in range(first_operand[i], first_operand[i + 1]):
                s = storage[k]
                if (modes[k] != _READ) != (writing == 1) or not tracked_storage[s]:
                    continue
                if touched_at[s, local] < 0:
                    touched_at[s, local] = position[i]
                if position[i] - touched_at[s, local] < ahead:
                    for t in range(taken_first[s], taken_first[s + 1]):
                        node = head[taken[t]]
                        while node >= 0:
                            other, node = instruction[node], following[node]
                            same = _ordered(queue, in_order, i, other)
                            near = position[i] - position[other] < ahead
                            if not same or near:
                                earlier, cause, edges = _add(
                                    earlier, cause, start, edges, other, ORDER if same else SPACE
                                )
                written, previous, node = 0, -1, head[s]
                while node >= 0:
                    other, later = instruction[node], following[node]
                    volume = _overlap(low, high, k, node)
                    drops = False
                    if volume > 0 and other != i:
                        same = _ordered(queue, in_order, i, other)
                        near = same and position[i] - position[other] < ahead
                        why = _why(modes[k], modes[node], same)
                        if near and why < 0 and (modes[k] != _READ or modes[node] != _READ):
                            why = ORDER
                        if why >= 0:
                            earlier, cause, edges = _add(earlier, cause, start, edges, other, why)
                        written += volume * (modes[node] != _READ)
                        replaces = modes[k] != _READ or (modes[node] == _READ and same and not near)
                        drops = replaces and _covers(low, high, k, node)
                    if not drops:
                        previous = node
                    elif previous < 0:
                        head[s] = later
                    else:
                        following[previous] = later
                    node = later
                unwritten[k] = modes[k] == _READ and written < touched[k] and not given[s]
                following[k] = head[s]
                head[s] = k
        first[i + 1] = edges
    return first, earlier[:edges].copy(), cause[:edges].copy(), unwritten


@compiled
def _add(
    earlier: Ints, cause: Bytes, start: int, edges: int, other: int, why: int
) -> tuple[Ints, Bytes, int]:
    """Appends an edge of the current instruction unless it already has one to `other`; waiting
    for the end of it takes the place of `ORDER`.
    """
    for e in range(start, edges):
        if earlier[e] == other:
            if cause[e] == ORDER:
                cause[e] = why
            return earlier, cause, edges
    if edges == len(earlier):
        earlier = np.concatenate((earlier, np.empty_like(earlier)))
        cause = np.concatenate((cause, np.empty_like(cause)))
    earlier[edges] = other
    cause[edges] = why
    return earlier, cause, edges + 1
