"""What is read off a trace: active time, stalls, the critical path, metrics, the viewer's file."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.chip import CHIPS
from accel.errors import UserError
from accel.program import Engine, Kind, Memory
from accel.sim import critical_path, simulate, write_perfetto
from accel.sim.perfetto import event_lines
from accel.sim.schedule import WAITS
from accel.sim.trace import union_ps
from tests.accel.sim.strategies import programs
from tests.accel.sim.streams import Stream, blocked_matmul, tiled_matmul

TRN1, TRN2 = CHIPS["trn1"], CHIPS["trn2"]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=12))
def test_union_counts_covered_time_once(intervals):
    begin = np.array([b for b, _ in intervals], np.int64)
    end = np.array([b + n for b, n in intervals], np.int64)

    covered = {t for b, n in intervals for t in range(b, b + n)}
    assert union_ps(begin, end) == len(covered)


def test_bytes_and_transfers_of_the_blocked_matmul():
    """Published for this kernel on trn1: 640 MiB read, 64 MiB written, in 1,792 transfers."""
    program = blocked_matmul("gen2", "bfloat16", 4096, 8192, 8192)

    metrics = simulate(program, TRN1).metrics

    assert metrics.hbm_read_bytes == 640 * 2**20
    assert metrics.hbm_write_bytes == 64 * 2**20
    assert metrics.dma_transfer_count == 1792
    assert metrics.spill_save_bytes == metrics.spill_reload_bytes == 0


def test_flops_and_utilisation_of_a_matmul():
    metrics = simulate(tiled_matmul("gen3", "float32", 128, 512, 512), TRN2).metrics

    assert metrics.model_flops == metrics.hardware_flops == 2 * 128 * 512 * 512
    rate = metrics.model_flops / metrics.latency_us
    assert metrics.mfu_estimated_percent == pytest.approx(100 * rate / (2 * 128 * 128 * 2400))
    assert metrics.mm_arithmetic_intensity == metrics.model_flops / (
        metrics.hbm_read_bytes + metrics.hbm_write_bytes
    )


def test_what_bounds_a_kernel_is_named():
    s = Stream("gen3")
    psum, a, b = s.tile((128, 512), memory=Memory.PSUM), s.tile((128, 128)), s.tile((128, 512))
    s.fill(a)
    s.fill(b)
    for _ in range(64):
        s.matmul(psum, a, b)

    assert simulate(s.build(), TRN2).metrics.bound_by == "tensor"
    tiled = tiled_matmul("gen3", "float32", 512, 1024, 1024)
    assert simulate(tiled, TRN2).metrics.bound_by == "dma_issue"


@settings(max_examples=20, deadline=None)
@given(programs())
def test_stalls_and_busy_time_fill_each_queue_up_to_its_last_instruction(program):
    result = simulate(program, TRN2)

    times, queue = result.trace.times, result.trace.queue
    stalls = sum(time for *_, time in result.metrics.stalls_us) * 1e6
    last = sum(times.issued[queue == q].max() for q in np.unique(queue))
    assert stalls + (times.issued - times.start).sum() == pytest.approx(last)


@settings(max_examples=20, deadline=None)
@given(programs())
def test_critical_path_leads_without_gaps_to_the_end(program):
    trace = simulate(program, TRN2).trace

    path = critical_path(trace).instructions
    assert (np.diff(path) != 0).all()
    assert trace.times.end[path[-1]] == trace.makespan_ps
    assert trace.times.start[path[0]] == 0


def test_never_written_reads_are_reported_with_their_line():
    s = Stream("gen3")
    a, b = s.tile((128, 64), name="a"), s.tile((128, 64), name="b")
    for _ in range(2):
        s.copy(a, b, engine=Engine.VECTOR, line=5)

    unwritten = simulate(s.build(), TRN2).unwritten

    assert unwritten == ("stream.py:5: b: reads a region that was never written (2 instructions)",)


def events_of(program, chip=TRN2):
    return [json.loads(line) for line in event_lines(simulate(program, chip).trace)]


def test_events_carry_engine_time_and_kernel_line():
    s = Stream("gen3")
    tile, source = s.tile((128, 64), name="t"), s.hbm((128, 64), "float32", name="x")
    s.dma(tile, source, line=3, dge_mode="none")
    s.copy(tile, tile, engine=Engine.VECTOR, line=4)

    load, copy = (e for e in events_of(s.build()) if e["ph"] == "X")

    assert (load["name"], load["cat"], load["ts"]) == ("dma_copy", "dma_load", 0.0)
    assert (copy["name"], copy["cat"]) == ("tensor_copy", "vector")
    assert copy["args"]["source"] == "stream.py:4"
    assert copy["args"]["because_of"] == "raw"
    assert copy["args"]["waited_for"] == 0
    assert copy["args"]["dst"] == "t+0 128×64"
    assert copy["ts"] == pytest.approx(load["ts"] + load["dur"] + TRN2.dma_latency_ps / 1e6)


@settings(max_examples=15, deadline=None)
@given(programs())
def test_events_of_one_thread_never_overlap(program):
    events = [e for e in events_of(program) if e["ph"] == "X"]

    for thread in {e["tid"] for e in events}:
        spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["tid"] == thread)
        assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(spans))


def test_matmuls_on_tiles_of_the_array_are_drawn_side_by_side():
    s = Stream("gen3")
    weights, moving = s.tile((128, 32), "bfloat16"), s.tile((128, 512), "bfloat16")
    for column in (0, 32):
        target = s.tile((32, 512), memory=Memory.PSUM)
        s.matmul(target, weights, moving, tile_position=(0, column), tile_size=(128, 32))

    events = [e for e in events_of(s.build()) if e["ph"] == "X"]

    assert [e["tid"] % 100 for e in events] == [0, 1]


def test_every_thread_with_events_has_a_name():
    events = events_of(tiled_matmul("gen2", "bfloat16", 128, 256, 512), TRN1)

    named = {e["tid"] for e in events if e["name"] == "thread_name"}
    assert {e["tid"] for e in events if e["ph"] == "X"} <= named


def test_the_file_is_json_that_a_viewer_reads(tmp_path):
    trace = simulate(tiled_matmul("gen3", "float32", 128, 256, 512), TRN2).trace

    write_perfetto(trace, tmp_path / "trace.json")

    loaded = json.loads((tmp_path / "trace.json").read_text())
    assert len([e for e in loaded["traceEvents"] if e["ph"] == "X"]) == len(trace.program)


def test_an_unwritable_path_is_an_error_with_its_name(tmp_path):
    trace = simulate(Stream("gen3").build(), TRN2).trace

    with pytest.raises(UserError, match=r"missing/trace.json: trace not written"):
        write_perfetto(trace, tmp_path / "missing" / "trace.json")


def test_metrics_print_as_plain_numbers():
    s = Stream("gen3")
    s.dma(s.hbm((128, 64), "float32", Kind.OUTPUT), s.tile((128, 64)))

    values = simulate(s.build(), TRN2).metrics.as_dict()

    assert json.loads(json.dumps(values)) == values
    assert values["hbm_write_bytes"] == 128 * 256


def test_a_critical_path_follows_what_each_step_waited_for():
    """A store that only waited for its queue does not have the load's data on its path."""
    s = Stream("gen3")
    source, target = s.hbm((128, 512), "float32"), s.hbm((128, 512), "float32", Kind.OUTPUT)
    tiles = [s.tile((128, 512)) for _ in range(3)]
    for tile in tiles:
        s.fill(tile)
    for tile in tiles:
        s.dma(target, tile)
    s.dma(s.tile((128, 512)), source)

    trace = simulate(s.build(), TRN2).trace
    path = critical_path(trace)

    assert path.released[0] == 0
    assert (np.diff(path.released) >= 0).all()
    for n, at in enumerate(path.instructions[1:].tolist(), 1):
        before = int(path.instructions[n - 1])
        wanted = trace.times.behind if path.by_data[n] else trace.times.waited_for
        assert wanted[at] == before
        placed = WAITS[trace.times.cause[at]] in ("queue", "order", "port")
        assert not (path.by_data[n - 1] and placed and not path.by_data[n])
