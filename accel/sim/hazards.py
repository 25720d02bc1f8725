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
_DIMENSIONS = 4
_MARKS = 62  # queues that have a bit
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
        boxes.corners,
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
def _overlap(corners: Ints, a: int, b: int) -> int:
    """Volume two boxes share; 0 if they do not touch."""
    volume = 1
    for d in range(_DIMENSIONS):
        last = min(corners[a, 1, d], corners[b, 1, d])
        width = last - max(corners[a, 0, d], corners[b, 0, d]) + 1
        if width <= 0:
            return 0
        volume *= width
    return volume


@compiled
def _covers(corners: Ints, outer: int, inner: int) -> bool:
    for d in range(_DIMENSIONS):
        if corners[inner, 0, d] < corners[outer, 0, d]:
            return False
        if corners[inner, 1, d] > corners[outer, 1, d]:
            return False
    return True


@compiled
def _unlink(head: Ints, s: int, following: Ints, previous: int, node: int) -> None:
    """Takes a node out of the chain of storage s; `previous` is the one before it, −1 for none."""
    if previous < 0:
        head[s] = following[node]
    else:
        following[previous] = following[node]


@compiled
def _same_box(corners: Ints, a: int, b: int) -> bool:
    for d in range(_DIMENSIONS - 1, -1, -1):
        if corners[a, 0, d] != corners[b, 0, d] or corners[a, 1, d] != corners[b, 1, d]:
            return False
    return True


@compiled
def _find(
    first_operand: Ints,
    storage: Ints,
    modes: Bytes,
    corners: Ints,
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
    """Walks the program once. Per storage two chains of accesses that a later one may have to wait
    for, reads and writes; an access drops out when a later one is sure to be waited for instead.
    """
    operands, count = len(storage), len(first_operand) - 1
    heads = np.full((2, len(given)), -1, np.int64)
    following = np.full(operands, -1, np.int64)
    # By storage and queue: the place in it of the first instruction that touches the storage.
    touched_at = np.full((len(given), queues_per_core), -1, np.int64)
    # By storage and queue: the last instruction that touched the storage.
    latest = np.full((len(given), len(in_order)), -1, np.int64)
    # By storage: whether something touched it that may end after what started later.
    unordered = np.zeros(len(given), np.bool_)
    # By write: a bit for each queue that has waited for it.
    known = np.zeros(operands, np.int64)
    unwritten = np.zeros(operands, np.bool_)
    first = np.zeros(count + 1, np.int64)
    earlier = np.empty(operands + 16, np.int64)
    cause = np.empty(operands + 16, np.int8)
    edges = 0
    last = np.full(len(in_order), -1, np.int64)
    for i in range(count):
        mine, at, start = queue[i], position[i], edges
        local, ordered = mine % queues_per_core, in_order[mine]
        mark = 1 << mine if ordered and ahead == 1 and mine < _MARKS else 0
        if stateful[i]:
            other, last[mine] = last[mine], i
            if other >= 0 and at - position[other] < ahead:
                if edges == len(earlier):
                    earlier, cause = _longer(earlier, cause)
                edges = _add(earlier, cause, start, edges, other, ORDER)
        # Reads before writes: an instruction does not read what it writes itself.
        for writing in range(2):
            for k in range(first_operand[i], first_operand[i + 1]):
                s = storage[k]
                if (modes[k] != _READ) != (writing == 1) or not tracked_storage[s]:
                    continue
                if touched_at[s, local] < 0:
                    touched_at[s, local] = at
                if at - touched_at[s, local] < ahead:
                    # A tile that is read before anything is written has what was there before.
                    for t in range(taken_first[s], taken_first[s + 1]):
                        for q in range(len(in_order)):
                            # What an in-order queue did last with the tile ended last.
                            other = latest[taken[t], q]
                            if other < 0 or not in_order[q] or ahead > 1:
                                continue
                            if q == mine and writing == 1:
                                continue
                            if edges == len(earlier):
                                earlier, cause = _longer(earlier, cause)
                            edges = _add(earlier, cause, start, edges, other, SPACE)
                        for chain in range(2 if ahead > 1 or unordered[taken[t]] else 0):
                            node = heads[chain, taken[t]]
                            while node >= 0:
                                other, node = instruction[node], following[node]
                                if ahead == 1 and in_order[queue[other]]:
                                    continue
                                same = ordered and queue[other] == mine
                                near = at - position[other] < ahead
                                if not same or near or writing == 0:
                                    why = ORDER if same and writing == 1 else SPACE
                                    if edges == len(earlier):
                                        earlier, cause = _longer(earlier, cause)
                                    edges = _add(earlier, cause, start, edges, other, why)
                written, previous, node = 0, -1, heads[1, s]
                while node >= 0:
                    other, later = instruction[node], following[node]
                    volume = _overlap(corners, k, node) if other != i else 0
                    drops = False
                    if volume > 0:
                        written += volume
                        same = ordered and queue[other] == mine
                        if writing == 0:
                            # An in-order queue need not wait again for what it waited for.
                            why = -1 if known[node] & mark else RAW
                            known[node] |= mark
                        elif not same:
                            why = RAW if modes[k] == _ACCUMULATE else WAW
                        else:
                            why = ORDER if at - position[other] < ahead else -1
                        if why >= 0:
                            if edges == len(earlier):
                                earlier, cause = _longer(earlier, cause)
                            edges = _add(earlier, cause, start, edges, other, why)
                        drops = writing == 1 and _covers(corners, k, node)
                    if drops:
                        _unlink(heads[1], s, following, previous, node)
                    else:
                        previous = node
                    node = later
                previous, node = -1, heads[0, s]
                if writing == 0:
                    # The same read again: the later one is waited for instead.
                    while node >= 0 and ordered:
                        other = instruction[node]
                        far = queue[other] == mine and at - position[other] >= ahead
                        if far and _same_box(corners, k, node):
                            _unlink(heads[0], s, following, previous, node)
                            break
                        previous, node = node, following[node]
                    unwritten[k] = written < touched[k] and not given[s]
                else:
                    while node >= 0:
                        other, later = instruction[node], following[node]
                        drops = False
                        if other != i and _overlap(corners, k, node) > 0:
                            same = ordered and queue[other] == mine
                            near = at - position[other] < ahead
                            if not same or near:
                                why = ORDER if same else WAR
                                if edges == len(earlier):
                                    earlier, cause = _longer(earlier, cause)
                                edges = _add(earlier, cause, start, edges, other, why)
                            drops = _covers(corners, k, node)
                        if drops:
                            _unlink(heads[0], s, following, previous, node)
                        else:
                            previous = node
                        node = later
                following[k] = heads[writing, s]
                heads[writing, s] = k
                latest[s, mine] = i
                unordered[s] = unordered[s] or not ordered
        first[i + 1] = edges
    return first, earlier[:edges].copy(), cause[:edges].copy(), unwritten


@compiled
def _add(earlier: Ints, cause: Bytes, start: int, edges: int, other: int, why: int) -> int:
    """Appends an edge of the current instruction unless it already has one to `other`; waiting
    for the end of it takes the place of `ORDER`. Returns how many edges there are.
    """
    for e in range(start, edges):
        if earlier[e] == other:
            if cause[e] == ORDER:
                cause[e] = why
            return edges
    earlier[edges] = other
    cause[edges] = why
    return edges + 1


@compiled
def _longer(earlier: Ints, cause: Bytes) -> tuple[Ints, Bytes]:
    """The edges with room for as many again."""
    return (
        np.concatenate((earlier, np.empty_like(earlier))),
        np.concatenate((cause, np.empty_like(cause))),
    )
