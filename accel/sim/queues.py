"""Queues: the in-order servers of one core, by number.

An instruction waits in exactly one queue: that of the engine it runs on, or one of the queues
that DMA transfers are triggered from. Core c's queues are numbered from c × QUEUES_PER_CORE.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from accel.program import Engine
from accel.sim.compiled import compiled


class Queue(IntEnum):
    """One core's queues. Loads, stores, moves between tiles on the chip and the two directions of
    spills are triggered separately, so none blocks another (profiles show spills on queues of their
    own, `q…SpillReload…`).
    Collectives are driven by sequencers of their own (SDK collectives.rst, CC-cores).
    """

    TENSOR = 0
    VECTOR = 1
    SCALAR = 2
    GPSIMD = 3
    SYNC = 4
    DMA_LOAD = 5
    DMA_STORE = 6
    DMA_MOVE = 7
    SPILL_RELOAD = 8
    SPILL_SAVE = 9
    COLLECTIVE = 10


QUEUES_PER_CORE = len(Queue)
FIRST_DMA_QUEUE = int(Queue.DMA_LOAD)

ENGINE_QUEUE: dict[Engine, Queue] = {
    Engine.TENSOR: Queue.TENSOR,
    Engine.VECTOR: Queue.VECTOR,
    Engine.SCALAR: Queue.SCALAR,
    Engine.GPSIMD: Queue.GPSIMD,
    Engine.SYNC: Queue.SYNC,
}


def in_order_queues(cores: int) -> npt.NDArray[np.bool_]:
    """For each queue whether what it starts also ends in order: engines do, DMA queues do not."""
    return np.tile(np.arange(QUEUES_PER_CORE) < FIRST_DMA_QUEUE, cores)


def queue_label(queue: int) -> str:
    """`vector`, or `core 1 vector` beyond the first core."""
    core, local = divmod(queue, QUEUES_PER_CORE)
    name = Queue(local).name.lower()
    return f"core {core} {name}" if core else name


@compiled
def by_queue(
    queue: npt.NDArray[np.int16], queues: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Instructions by queue, each queue's in program order, and where in that each queue begins."""
    first = np.zeros(queues + 1, np.int64)
    for q in queue:
        first[q + 1] += 1
    first = first.cumsum()
    order, at = np.empty(len(queue), np.int64), first[:-1].copy()
    for i in range(len(queue)):
        order[at[queue[i]]] = i
        at[queue[i]] += 1
    return order, first
