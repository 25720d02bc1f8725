"""Time: bounds that no schedule can beat, and effects that single numbers of the machine have."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.chip import CHIPS
from accel.errors import UserError
from accel.program import Engine, Kind, Memory, Mode, Program
from accel.sim import ABLATIONS, simulate
from accel.sim.hazards import hazards_of
from accel.sim.machine import costs_of
from accel.sim.memory import unplaced
from accel.sim.queues import FIRST_DMA_QUEUE, QUEUES_PER_CORE
from accel.sim.schedule import WAITS, schedule
from tests.accel.sim.strategies import programs
from tests.accel.sim.streams import Stream, hoisted_matmul, tiled_matmul

TRN1, TRN2 = CHIPS["trn1"], CHIPS["trn2"]


@settings(max_examples=25, deadline=None)
@given(programs())
def test_makespan_is_at_least_every_queues_busy_time_and_the_roofline(program):
    result = simulate(program, TRN2)

    times, queue = result.trace.times, result.trace.queue
    busy = np.bincount(queue, times.issued - times.start)
    assert result.trace.makespan_ps >= busy.max()
    assert result.trace.makespan_ps * TRN2.dma_engines >= times.work.sum()
    assert result.metrics.latency_us >= result.metrics.roofline_us


@settings(max_examples=25, deadline=None)
@given(programs())
def test_nothing_starts_before_its_queue_is_free_or_what_it_waits_for_has_ended(program):
    trace = simulate(program, TRN2).trace

    times = trace.times
    for q in np.unique(trace.queue):
        mine = trace.queue == q
        assert (times.start[mine][1:] >= times.issued[mine][:-1]).all()
    for i in np.flatnonzero(times.waited_for >= 0):
        other, why = times.waited_for[i], WAITS[times.cause[i]]
        released = {"queue": times.issued, "port": times.issued}.get(why, times.end)[other]
        if why not in ("queue", "port") and trace.queue[other] % QUEUES_PER_CORE < FIRST_DMA_QUEUE:
            released += TRN2.semaphore_ps
        assert released <= times.end[i]
        assert released == times.start[i]


@settings(max_examples=25, deadline=None)
@given(programs(transfers=False), st.data())
def test_a_cheaper_instruction_never_makes_the_whole_slower(program, data):
    """In-order queues without arbitration: time is a maximum of sums. Not so with the tensor
    engine's limit, which a matmul that takes less of a window can bring back.
    """
    chip = dataclasses.replace(TRN2, tensor_limit_window_ps=0)
    placed, costs = unplaced(program), costs_of(program, chip)
    queue = costs.queue[program.form].astype(np.int16)
    hazards = hazards_of(
        program, placed.stores, placed.boxes, queue, (placed.taken_first, placed.taken)
    )
    form = data.draw(st.integers(0, len(program.forms) - 1))
    issue, latency = costs.issue.copy(), costs.latency.copy()
    issue[form] = data.draw(st.integers(0, int(issue[form])))
    latency[form] = data.draw(st.integers(0, int(latency[form])))
    cheaper = dataclasses.replace(costs, issue=issue, latency=latency)
    zeros = np.zeros(len(program), np.int64)

    before = schedule(program, queue, costs, zeros, hazards, chip).end.max()
    after = schedule(program, queue, cheaper, zeros, hazards, chip).end.max()

    assert after <= before


@settings(max_examples=20, deadline=None)
@given(programs())
def test_the_same_program_and_chip_give_the_same_trace(program):
    assert simulate(program, TRN2).trace == simulate(program, TRN2).trace


_DIGEST = """
import sys
from accel.chip import CHIPS
from tests.accel.sim.test_schedule import trace_digest
print(trace_digest())
"""


def trace_digest() -> str:
    """A digest of traces with spills, PSUM chains and DMA arbitration."""
    small = dataclasses.replace(TRN2, sbuf_partition_bytes=24 * 1024)
    digest = hashlib.sha256()
    for chip in (TRN1, TRN2, small):
        result = simulate(hoisted_matmul(chip.nc_version, "bfloat16", 256, 512, 1024), chip)
        for array in (result.trace.times.start, result.trace.times.end, result.placed.address):
            digest.update(array.astype("<i8").tobytes())
    return digest.hexdigest()


def test_the_trace_is_the_same_with_the_compiler_off():
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", _DIGEST]
    plain = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    assert plain.stdout.strip() == trace_digest()


def test_ties_are_broken_by_program_order():
    s = Stream("gen2")
    out = s.hbm((128, 512), "float32", Kind.OUTPUT)
    full, source = s.tile((128, 512)), s.hbm((128, 512), "float32")
    s.fill(full)
    s.dma(out, full)
    for _ in range(3):
        s.dma(s.tile((128, 512)), source)

    times = simulate(s.build(), TRN1).trace.times

    assert (np.diff(times.moved[2:]) > 0).all()


def test_transfers_queue_at_the_dma_engines_of_their_partitions():
    """Two transfers of eight partitions each move together on different engines, else in turn."""
    s = Stream("gen2")
    source = s.hbm((128, 512), "float32")
    tiles = [s.tile((8, 512), start_partition=p) for p in (0, 8, 8)]
    for tile in tiles:
        s.dma(tile, source, None, ((0, 8), (0, 512)))

    times = simulate(s.build(), TRN1).trace.times

    assert times.moving[0] == times.moving[1] == 0
    assert times.moving[2] == times.moved[1]
    assert times.behind.tolist() == [-1, -1, 1]


def test_the_activation_table_is_loaded_when_the_function_changes():
    s = Stream("gen3")
    a, b = s.tile((128, 128)), s.tile((128, 128))
    s.fill(a)
    for function in ("exp", "exp", "copy", "exp", "tanh"):
        from_to = [("dst", Mode.WRITE, b, None), ("data", Mode.READ, a, None)]
        s.emit("activation", from_to, engine=Engine.SCALAR, func=function)

    times = simulate(s.build(), TRN2).trace.times

    taken = (times.issued - times.start)[1:]
    plain = int(taken[1])
    assert (taken - plain).tolist() == [1_280_000, 0, 0, 0, 1_280_000]


def matmul_starts(rows: list[int]) -> list[int]:
    """When bf16 matmuls of 512 columns start that contract so many rows each, in 512 ÷ 2.4 ns."""
    s = Stream("gen3")
    weights, moving = s.tile((128, 128), "bfloat16"), s.tile((128, 512), "bfloat16")
    s.fill(weights)
    s.fill(moving)
    psum = s.tile((128, 512), memory=Memory.PSUM)
    for count in rows:
        s.matmul(psum, weights, moving, ((0, count), (0, 128)), ((0, count), (0, 512)))
    chip = dataclasses.replace(TRN2, tensor_mhz=512)  # a matmul takes 1 us at full rate
    start = simulate(s.build(), chip, ablate=frozenset({"semaphore"})).trace.times.start[2:]
    return np.round(np.diff(start) / 1e6, 2).tolist()


def test_the_tensor_engine_is_at_half_rate_until_it_was_used_for_a_window():
    taken = matmul_starts([128] * 12)

    assert taken[:2] == [2.0, 2.0]
    assert taken[4:] == [1.0] * 7


def test_half_the_rows_do_not_lift_the_limit_and_keep_it_lifted():
    cold, warm = matmul_starts([64] * 12), matmul_starts([128] * 8 + [64] * 12)

    assert cold == [2.0] * 11
    assert warm[-12:] == [1.0] * 12


def test_an_idle_tensor_engine_is_limited_again():
    s = Stream("gen3")
    weights, moving = s.tile((128, 128), "bfloat16"), s.tile((128, 512), "bfloat16")
    psum = s.tile((128, 512), memory=Memory.PSUM)
    s.fill(weights)
    s.fill(moving)
    for _ in range(64):
        s.matmul(psum, weights, moving, ((0, 128), (0, 128)), None)
    wide = s.tile((128, 16384))
    s.copy(wide, psum, ((0, 128), (0, 512)), None, Engine.VECTOR)  # waits for the matmuls
    s.copy(wide, wide, None, None, Engine.VECTOR)
    s.copy(moving, psum, None, None, Engine.VECTOR)
    s.matmul(psum, weights, moving, ((0, 128), (0, 128)), None)

    times = simulate(s.build(), TRN2).trace.times

    taken = times.issued - times.start
    assert taken[-1] == 2 * taken[65]


def independent_chains() -> Program:
    """Copies on one engine: a chain of four, then four that depend on nothing."""
    s = Stream("gen3")
    first = s.tile((128, 128))
    s.fill(first)
    for _ in range(4):
        second = s.tile((128, 128))
        s.copy(second, first)
        first = second
    for _ in range(4):
        source = s.tile((128, 128))
        s.fill(source)
        s.copy(s.tile((128, 128)), source)
    return s.build()


def test_interleaving_starts_what_is_ready_and_never_breaks_an_order():
    program = independent_chains()

    in_order, ahead = simulate(program, TRN2), simulate(program, TRN2, "interleave")

    assert ahead.metrics.latency_ps < in_order.metrics.latency_ps
    starts = ahead.trace.times.start
    assert (np.diff(starts[:5]) > 0).all()  # the chain
    assert (starts[6::2] > starts[5::2]).all()  # each copy after what fills its source


def test_cores_of_one_stack_share_its_bandwidth():
    def loads(cores: int):
        s = Stream("gen3", cores)
        for core in range(cores):
            s.core = core
            source = s.hbm((128, 65536), "float32")
            for part in range(8):
                s.dma(s.tile((128, 4096)), source, None, ((0, 128), (4096 * part, 4096)))
        return s.build()

    times = [simulate(loads(cores), TRN2).metrics for cores in (1, 2, 4)]

    data = 8 * 128 * 4096 * 4
    assert times[0].latency_us > data / (16 * 27_200)
    assert times[1].latency_us > 2 * data / TRN2.hbm_stack_bytes_per_us
    assert times[1].latency_us == pytest.approx(times[2].latency_us)  # two stacks for four cores
    assert times[1].latency_us > 1.15 * times[0].latency_us
    assert times[1].mbu_estimated_percent == pytest.approx(times[2].mbu_estimated_percent)
    assert all(each.latency_us >= each.roofline_us for each in times)
    alone = simulate(loads(2), TRN2, ablate=frozenset({"hbm_share"})).metrics
    assert alone.latency_us == pytest.approx(times[0].latency_us)


@pytest.mark.parametrize("effect", ABLATIONS)
def test_leaving_an_effect_out_never_makes_a_tiled_matmul_slower(effect):
    program = tiled_matmul("gen3", "float32", 256, 512, 1024)

    whole = simulate(program, TRN2).metrics.latency_ps
    without = simulate(program, TRN2, ablate=frozenset({effect})).metrics.latency_ps

    assert without <= whole
    unused = {"capacity", "activation_table", "tensor_limit", "hbm_share", "shared_ports"}
    assert (without < whole) == (effect not in unused)


def test_an_unknown_ablation_is_named():
    with pytest.raises(UserError, match="unknown ablation 'gravity'"):
        simulate(Stream("gen3").build(), TRN2, ablate=frozenset({"gravity"}))


def test_an_empty_program_takes_no_time():
    result = simulate(Stream("gen3").build(), TRN2)

    assert result.metrics.latency_ps == 0
    assert result.metrics.bound_by == "dependencies"


def test_cores_run_side_by_side():
    def program(cores: int):
        s = Stream("gen3", cores)
        for core in range(cores):
            s.core = core
            tile, source = s.tile((128, 512)), s.hbm((128, 512), "float32")
            s.dma(tile, source)
            psum = s.tile((128, 512), memory=Memory.PSUM)
            s.matmul(psum, tile, tile, ((0, 128), (0, 128)), None)
        return s.build()

    one, two = (simulate(program(cores), TRN2) for cores in (1, 2))

    assert one.metrics.latency_ps == two.metrics.latency_ps
    assert one.metrics.tensor_engine_active_percent == two.metrics.tensor_engine_active_percent
    assert set(two.trace.queue // QUEUES_PER_CORE) == {0, 1}


def _tiles_of_the_array(positions: list[tuple[int, int]], size: tuple[int, int]) -> Program:
    """One matmul a position, 512 columns each; the array is at full rate."""
    s = Stream("gen3")
    rows, columns = size
    stationary = s.tile((rows, columns), "bfloat16")
    moving = s.tile((rows, 512), "bfloat16")
    s.fill(stationary)
    s.fill(moving)
    for position in positions:
        target = s.tile((columns, 512), memory=Memory.PSUM)
        s.matmul(target, stationary, moving, tile_position=position, tile_size=size)
    return s.build()


@pytest.mark.parametrize(
    ("size", "positions", "apart"),
    [
        ((128, 32), [(0, 0), (0, 32), (0, 64), (0, 96)], [64, 64, 64]),
        ((32, 128), [(0, 0), (32, 0), (64, 0), (96, 0)], [64, 64, 64]),
        ((64, 64), [(0, 0), (64, 64), (0, 64), (64, 0)], [64, 64, 64]),
        ((128, 32), [(0, 0), (0, 0), (0, 32), (0, 0)], [512, 64, 448]),
        ((64, 128), [(0, 0), (64, 0), (0, 0)], [64, 448]),
        ((128, 128), [(0, 0), (0, 0)], [512]),
    ],
)
def test_matmuls_on_different_tiles_of_the_array_run_at_the_same_time(size, positions, apart):
    chip = dataclasses.replace(TRN2, tensor_limit_window_ps=0)

    trace = simulate(_tiles_of_the_array(positions, size), chip).trace

    starts = trace.times.start[-len(positions) :]
    cycles = np.rint(np.diff(starts) * chip.tensor_mhz / 1e6).astype(int)
    assert cycles.tolist() == apart


def test_a_matmul_that_waits_for_its_tile_names_the_one_that_has_it():
    positions = [(0, 0), (0, 32), (0, 0)]

    trace = simulate(_tiles_of_the_array(positions, (128, 32)), TRN2).trace

    first, last = len(trace.queue) - 3, len(trace.queue) - 1
    assert trace.times.waited_for[last] == first
    assert WAITS[trace.times.cause[last]] == "queue"
    assert trace.times.start[last] == trace.times.issued[first]


def test_the_vector_engine_starts_before_the_result_of_the_last_instruction_is_there():
    s = Stream("gen3")
    tiles = [s.tile((128, 512)) for _ in range(3)]
    for tile in tiles:
        s.fill(tile, 1.0)

    times = simulate(s.build(), TRN2).trace.times

    assert np.diff(times.start).tolist() == [round(572e6 / 960)] * 2
    assert (times.end - times.start).tolist() == [round(656e6 / 960)] * 3


def _side_by_side(memory: Memory, first: Engine, second: Engine, target: str) -> Program:
    """Two engines that could work at the same time, each on a tile of its own in `memory`."""
    s = Stream(target)
    for engine in (first, second):
        tile, out = s.tile((128, 512), memory=memory), s.tile((128, 512))
        s.copy(out, tile, engine=engine)
    return s.build()


@pytest.mark.parametrize(
    ("memory", "first", "second", "apart"),
    [
        (Memory.SBUF, Engine.VECTOR, Engine.GPSIMD, True),
        (Memory.SBUF, Engine.VECTOR, Engine.SCALAR, False),
        (Memory.PSUM, Engine.VECTOR, Engine.SCALAR, True),
        (Memory.SBUF, Engine.SCALAR, Engine.GPSIMD, False),
    ],
)
def test_engines_of_trn1_take_turns_at_a_port_they_share(memory, first, second, apart):
    trace = simulate(_side_by_side(memory, first, second, "gen2"), TRN1).trace
    times = trace.times

    if not apart:
        assert times.start.tolist() == [0, 0]
        return
    assert times.start.tolist() == [0, times.issued[0]]
    assert (WAITS[times.cause[1]], times.waited_for[1]) == ("port", 0)
    for chip in (TRN2, dataclasses.replace(TRN1, shared_ports=0)):
        program = _side_by_side(memory, first, second, chip.nc_version)
        assert simulate(program, chip).trace.times.start.tolist() == [0, 0]
