"""Who waits for whom: conflicts are ordered, and what the hardware orders itself is not."""

from __future__ import annotations

from collections import deque

import numpy as np
from hypothesis import given, settings

from accel.chip import CHIPS
from accel.program import Engine, Kind, Memory, Mode, Program
from accel.sim.geometry import boxes_of, stores_of
from accel.sim.hazards import CAUSES, hazards_of
from accel.sim.machine import costs_of
from accel.sim.memory import place
from accel.sim.queues import FIRST_DMA_QUEUE
from tests.accel.sim.strategies import programs
from tests.accel.sim.streams import Stream

TRN2 = CHIPS["trn2"]


def found(program: Program):
    """The hazards of a program without placement, and the queue of each instruction."""
    stores = stores_of(program)
    queue = costs_of(program, TRN2).queue[program.form].astype(np.int16)
    nothing = (np.zeros(len(stores.kind) + 1, np.int64), np.zeros(0, np.int64))
    return hazards_of(program, stores, boxes_of(program, stores), queue, nothing), queue


def edges(program: Program) -> set[tuple[int, int, str]]:
    """(instruction, earlier one it waits for, why)."""
    hazards, _ = found(program)
    return {
        (i, int(hazards.earlier[e]), CAUSES[hazards.cause[e]])
        for i in range(len(program))
        for e in range(hazards.first[i], hazards.first[i + 1])
    }


def test_reading_a_result_waits_for_it_and_overwriting_waits_for_its_readers():
    s = Stream("gen3")
    a, b = s.tile((128, 64)), s.tile((128, 64))
    s.copy(a, b, engine=Engine.VECTOR)
    s.copy(b, a, engine=Engine.SCALAR)
    s.copy(a, b, engine=Engine.VECTOR)

    assert edges(s.build()) == {(1, 0, "raw"), (2, 1, "raw")}


def test_an_engine_does_not_wait_for_itself_unless_it_reads_its_result():
    s = Stream("gen3")
    a, b, c = (s.tile((128, 64)) for _ in range(3))
    s.copy(a, b, engine=Engine.VECTOR)
    s.copy(b, c, engine=Engine.VECTOR)
    s.copy(b, c, engine=Engine.VECTOR)
    s.copy(c, b, engine=Engine.VECTOR)

    assert edges(s.build()) == {(3, 2, "raw")}


def test_transfers_of_one_queue_wait_for_each_other():
    s = Stream("gen3")
    tile, source = s.tile((128, 64)), s.hbm((128, 64), "float32")
    s.dma(tile, source)
    s.dma(tile, source)

    assert edges(s.build()) == {(1, 0, "waw")}


def test_disjoint_columns_do_not_conflict():
    s = Stream("gen3")
    tile, other = s.tile((128, 4, 64)), s.tile((128, 4, 32))
    left, right = ((0, 128), (0, 4), (0, 32)), ((0, 128), (0, 4), (32, 32))
    s.copy(tile, other, left, engine=Engine.VECTOR)
    s.copy(tile, other, right, engine=Engine.SCALAR)

    assert edges(s.build()) == set()


def test_a_chain_of_accumulations_has_no_edges_and_its_reader_waits_for_the_last():
    s = Stream("gen3")
    psum, a, b = s.tile((128, 128), memory=Memory.PSUM), s.tile((128, 128)), s.tile((128, 128))
    for _ in range(3):
        s.matmul(psum, a, b)
    s.copy(a, psum, engine=Engine.VECTOR)

    assert edges(s.build()) == {(3, 2, "raw")}


def test_stores_wait_for_each_other_where_they_write_the_same_bytes():
    s = Stream("gen3")
    out, tile = s.hbm((128, 128), "float32", Kind.OUTPUT), s.tile((128, 64))
    left, right, middle = (((0, 128), (start, 64)) for start in (0, 64, 32))
    s.fill(tile)
    s.dma(out, tile, left)
    s.dma(out, tile, right)
    apart = edges(s.build())
    s.dma(out, tile, middle)
    together = edges(s.build())

    assert apart == {(1, 0, "raw"), (2, 0, "raw")}
    assert together - apart == {(3, 0, "raw"), (3, 1, "waw"), (3, 2, "waw")}


def test_what_an_index_chooses_may_be_anywhere_in_its_tensor():
    s = Stream("gen3")
    table, index = s.hbm((64, 8), "float32", Kind.SCRATCH), s.tile((4, 1), "int32")
    values, rows = s.tile((32, 8)), s.tile((4, 8))
    s.fill(values)
    s.fill(index)
    s.dma(table, values, ((32, 32), (0, 8)))
    operands = [
        ("dst", Mode.WRITE, rows, None),
        ("src", Mode.READ, table, ((0, 4), (0, 8))),
        ("src_index", Mode.READ, index, None),
    ]
    s.emit("dma_copy", operands, src_index="vector:32")

    assert (3, 2, "raw") in edges(s.build())


def test_reading_what_was_never_written_is_found_even_in_part():
    s = Stream("gen3")
    a, b = s.tile((128, 64)), s.tile((128, 64))
    s.emit("memset", [("dst", Mode.WRITE, a, ((0, 128), (0, 32)))], engine=Engine.VECTOR, value=0.0)
    s.copy(b, a, ((0, 128), (0, 32)), ((0, 128), (0, 32)), Engine.VECTOR)
    s.copy(b, a, engine=Engine.VECTOR)

    hazards, _ = found(s.build())

    assert hazards.unwritten.tolist() == [4]


def conflicting(program: Program):
    """Every pair (later, earlier) that must not be reordered, from boxes alone."""
    boxes = boxes_of(program, stores_of(program))
    count = len(program.storage)
    for k in range(count):
        for j in range(k):
            if program.storage[j] != program.storage[k] or boxes.mode[j] == boxes.mode[k] == 0:
                continue
            if boxes.mode[j] == boxes.mode[k] == 2:
                continue
            apart = (boxes.high[j] < boxes.low[k]) | (boxes.high[k] < boxes.low[j])
            i, other = boxes.instruction[k], boxes.instruction[j]
            if i != other and not apart.any():
                yield int(i), int(other)


@settings(max_examples=25, deadline=None)
@given(programs(max_size=16))
def test_every_conflict_is_ordered(program):
    hazards, queue = found(program)
    before = [set(hazards.earlier[hazards.first[i] : hazards.first[i + 1]].tolist())
              for i in range(len(program))]  # fmt: skip
    last: dict[int, int] = {}
    for i, q in enumerate(queue.tolist()):
        if q < FIRST_DMA_QUEUE and q in last:
            before[i].add(last[q])
        last[q] = i

    for later, earlier in conflicting(program):
        reached, todo = set(), deque([later])
        while todo:
            for node in before[todo.popleft()] - reached:
                reached.add(node)
                todo.append(node)
        written_by_output = earlier in reached or _only_written(program, later, earlier)
        assert written_by_output, (later, earlier)


def _only_written(program: Program, later: int, earlier: int) -> bool:
    """Two stores to an output that nobody reads keep their order by their queue."""
    forms = [program.forms[program.form[i]] for i in (later, earlier)]
    return all(f.op == "dma_copy" and f.accesses[0].layout.memory is Memory.HBM for f in forms)


def test_a_tile_that_takes_over_bytes_waits_for_their_last_users():
    s = Stream("gen3")
    size = TRN2.sbuf_usable_bytes // 4
    source = s.hbm((128, size), "float32")
    for _ in range(2):
        tile, out = s.tile((128, size)), s.tile((128, 128), memory=Memory.PSUM)
        s.dma(tile, source)
        s.matmul(out, tile, tile, ((0, 128), (0, 128)), ((0, 128), (0, 128)))
    program = s.build()

    placed = place(program, TRN2)
    queue = costs_of(placed.program, TRN2).queue[placed.program.form].astype(np.int16)
    hazards = hazards_of(
        placed.program, placed.stores, placed.boxes, queue, (placed.taken_first, placed.taken)
    )

    second = slice(hazards.first[2], hazards.first[3])
    assert hazards.earlier[second].tolist() == [1, 0]
    assert {CAUSES[c] for c in hazards.cause[second]} == {"space"}
