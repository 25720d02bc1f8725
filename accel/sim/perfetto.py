"""perfetto: a trace as Chrome trace events, which the Perfetto viewer opens.

One process a core, one thread an engine. An instruction is a complete event with its kernel line
and what it waited for, drawn while it holds its engine; a transfer is drawn while its data moves.
Events of one thread must not overlap, but transfers do, and matmuls on different tiles of the
array: each takes the first free lane of its queue. Times are microseconds, as that format wants.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from accel.errors import UserError
from accel.program import Access
from accel.sim.geometry import Ints, Shorts
from accel.sim.machine import PS_PER_US
from accel.sim.queues import FIRST_DMA_QUEUE, QUEUES_PER_CORE, Queue
from accel.sim.schedule import WAITS
from accel.sim.trace import Trace

_LANES = 100  # thread numbers a queue has for its lanes


def event_lines(trace: Trace) -> Iterator[str]:
    """The events of a trace as JSON: names of processes and threads first, then the instructions.

    A trace has up to a million of them, so what instructions have in common is written once.
    """
    begin, end = drawn(trace)
    lanes = lanes_of(trace.queue, begin, end)
    for core in range(trace.program.cores):
        label = f"{trace.program.name} on {trace.chip}, core {core}"
        yield _named("process_name", core, 0, label)
        for queue in Queue:
            mine = lanes[trace.queue == core * QUEUES_PER_CORE + queue]
            for lane in range(int(mine.max(initial=0)) + 1):
                suffix = f" {lane}" if lane else ""
                thread = queue * _LANES + lane
                yield _named("thread_name", core, thread, queue.name.lower() + suffix)
    yield from _instructions(trace, lanes, begin, end)


def drawn(trace: Trace) -> tuple[Ints, Ints]:
    """Begin and end of each instruction's bar, in ps."""
    times, moves = trace.times, trace.queue % QUEUES_PER_CORE >= FIRST_DMA_QUEUE
    return np.where(moves, times.moving, times.start), np.where(moves, times.moved, times.issued)


def lanes_of(queue: Shorts, begin: Ints, end: Ints) -> Ints:
    """For each instruction the lane of its queue in which it overlaps no other."""
    lanes = np.zeros(len(queue), np.int64)
    for number in np.unique(queue):
        mine = np.flatnonzero(queue == number)
        mine = mine[np.argsort(begin[mine], kind="stable")]
        if not (begin[mine][1:] < np.maximum.accumulate(end[mine])[:-1]).any():
            continue
        ends: list[int] = []
        for index in mine.tolist():
            since = begin[index]
            lane = next((n for n, busy in enumerate(ends) if busy <= since), len(ends))
            lane = min(lane, _LANES - 1)
            ends[lane : lane + 1] = [int(end[index])]
            lanes[index] = lane
    return lanes


def write_perfetto(trace: Trace, path: Path) -> None:
    """Writes the events to a JSON file."""
    events = ",\n".join(event_lines(trace))
    try:
        path.write_text(f'{{"displayTimeUnit":"ns","traceEvents":[\n{events}\n]}}\n')
    except OSError as error:
        raise UserError(
            f"{path}: trace not written: {error.strerror}", "choose a writable file"
        ) from error


def _named(kind: str, process: int, thread: int, name: str) -> str:
    event = {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}
    return json.dumps(event, separators=(",", ":"))


def _instructions(trace: Trace, lanes: Ints, begin: Ints, end: Ints) -> Iterator[str]:
    """One complete event an instruction, in program order."""
    times, program = trace.times, trace.program
    names = [json.dumps(storage.name)[1:-1] for storage in program.storages]
    places = [json.dumps(str(source)) for source in program.sources]
    roles = [[_operand(access) for access in form.accesses] for form in program.forms]
    heads = [f'{{"ph":"X","name":{json.dumps(form.op)}' for form in program.forms]
    tails = [
        "".join(f",{json.dumps(name)}:{json.dumps(value)}" for name, value in form.attributes)
        for form in program.forms
    ]
    queues = [queue.name.lower() for queue in Queue]
    first, storage = program.first_operand.tolist(), program.storage.tolist()
    offset = program.offset.tolist()
    columns = (
        program.form.tolist(),
        program.source.tolist(),
        trace.queue.tolist(),
        lanes.tolist(),
        (begin / PS_PER_US).tolist(),
        ((end - begin) / PS_PER_US).tolist(),
        (times.start / PS_PER_US).tolist(),
        (times.end / PS_PER_US).tolist(),
        times.waited_for.tolist(),
        times.cause.tolist(),
        times.behind.tolist(),
    )
    for index, row in enumerate(zip(*columns, strict=True)):
        form, source, queue, lane, since, lasts, start, ends, waited, cause, behind = row
        core, local = divmod(queue, QUEUES_PER_CORE)
        at = first[index]
        operands = "".join(
            [
                f"{role}{names[storage[at + n]]}+{offset[at + n]}{shape}"
                for n, (role, shape) in enumerate(roles[form])
            ]
        )
        yield (
            f'{heads[form]},"cat":"{queues[local]}","pid":{core},"tid":{local * _LANES + lane},'
            f'"ts":{since},"dur":{lasts},"args":{{"index":{index},"source":{places[source]},'
            f'"start_us":{start},"end_us":{ends},"waited_for":{waited},'
            f'"because_of":"{WAITS[cause]}","data_behind":{behind}{operands}{tails[form]}}}}}'
        )


def _operand(access: Access) -> tuple[str, str]:
    """What stands before and after the name and the offset of an operand's storage."""
    shape = "×".join(map(str, access.layout.shape))
    return f',{json.dumps(access.role)}:"', f' {json.dumps(shape)[1:-1]}"'
