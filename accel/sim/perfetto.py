"""perfetto: a trace as Chrome trace events, which the Perfetto viewer opens.

One process a core, one thread an engine. An instruction is a complete event with its kernel line
and what it waited for, drawn while it holds its engine; a transfer is drawn while its data moves.
Events of one thread must not overlap, but transfers do: each takes the first free lane of its
queue. Times are microseconds, as that format wants them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from accel.errors import UserError
from accel.program import AttributeValue
from accel.sim.geometry import Ints
from accel.sim.machine import PS_PER_US
from accel.sim.queues import FIRST_DMA_QUEUE, QUEUES_PER_CORE, Queue
from accel.sim.schedule import WAITS
from accel.sim.trace import Trace

Event = dict[str, object]

_LANES = 100  # thread numbers a queue has for its lanes


def trace_events(trace: Trace) -> Iterator[Event]:
    """The events of a trace: names of processes and threads first, then the instructions."""
    lanes = dma_lanes(trace)
    for core in range(trace.program.cores):
        label = f"{trace.program.name} on {trace.chip}, core {core}"
        yield _named("process_name", core, 0, label)
        for queue in Queue:
            mine = lanes[trace.queue == core * QUEUES_PER_CORE + queue]
            for lane in range(int(mine.max(initial=0)) + 1):
                suffix = f" {lane}" if lane else ""
                thread = queue * _LANES + lane
                yield _named("thread_name", core, thread, queue.name.lower() + suffix)
    for index in range(len(trace.program)):
        yield _instruction(trace, index, int(lanes[index]))


def dma_lanes(trace: Trace) -> Ints:
    """For each instruction the lane of its queue in which it overlaps no other."""
    lanes = np.zeros(len(trace.queue), np.int64)
    free: dict[int, list[int]] = {}
    for index in np.argsort(trace.times.moving, kind="stable").tolist():
        queue = int(trace.queue[index])
        if queue % QUEUES_PER_CORE < FIRST_DMA_QUEUE:
            continue
        begin, end = int(trace.times.moving[index]), int(trace.times.moved[index])
        ends = free.setdefault(queue, [])
        lane = next((n for n, busy in enumerate(ends) if busy <= begin), len(ends))
        lane = min(lane, _LANES - 1)
        ends[lane : lane + 1] = [end]
        lanes[index] = lane
    return lanes


def write_perfetto(trace: Trace, path: Path) -> None:
    """Writes the events to a JSON file."""
    events = ",\n".join(json.dumps(event, separators=(",", ":")) for event in trace_events(trace))
    try:
        path.write_text(f'{{"displayTimeUnit":"ns","traceEvents":[\n{events}\n]}}\n')
    except OSError as error:
        raise UserError(
            f"{path}: trace not written: {error.strerror}", "choose a writable file"
        ) from error


def _named(kind: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _instruction(trace: Trace, index: int, lane: int) -> Event:
    times, program = trace.times, trace.program
    form = program.forms[program.form[index]]
    core, queue = divmod(int(trace.queue[index]), QUEUES_PER_CORE)
    begin, end = int(times.start[index]), int(times.issued[index])
    if queue >= FIRST_DMA_QUEUE:
        begin, end = int(times.moving[index]), int(times.moved[index])
    args: dict[str, AttributeValue] = {
        "index": index,
        "source": program.place(index),
        "start_us": int(times.start[index]) / PS_PER_US,
        "end_us": int(times.end[index]) / PS_PER_US,
        "waited_for": int(times.waited_for[index]),
        "because_of": WAITS[times.cause[index]],
        "data_behind": int(times.behind[index]),
    }
    for access, storage, offset in program.operands(index):
        shape = "×".join(map(str, access.layout.shape))
        args[access.role] = f"{program.storages[storage].name}+{offset} {shape}"
    args.update(form.attributes)
    return {
        "ph": "X",
        "name": form.op,
        "cat": Queue(queue).name.lower(),
        "pid": core,
        "tid": queue * _LANES + lane,
        "ts": begin / PS_PER_US,
        "dur": (end - begin) / PS_PER_US,
        "args": args,
    }
