"""Profiles: every figure is one of the trace, and the what-ifs are simulations."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.chip import CHIPS
from accel.program import Engine, Kind, Memory
from accel.sim import simulate
from accel.sim.profile import SLICES, Profile, profile_of, read_again
from tests.accel.sim.strategies import programs
from tests.accel.sim.streams import Stream, hoisted_matmul, tiled_matmul

TRN2 = CHIPS["trn2"]


def profiled(program, chip=TRN2, compiler="none") -> Profile:
    return profile_of(simulate(program, chip, compiler), program, chip, compiler)


@settings(max_examples=20, deadline=None)
@given(programs(), st.sampled_from(["none", "interleave"]))
def test_the_figures_add_up(program, compiler):
    simulation = simulate(program, TRN2, compiler)
    profile = profile_of(simulation, program, TRN2, compiler)
    times, latency = simulation.trace.times, simulation.metrics.latency_us

    assert sum(part.us for part in profile.critical) == pytest.approx(latency)
    assert all(part.us >= 0 for part in profile.critical)
    queues = [lane for lane in profile.lanes if lane.name != "dma engines"]
    held = (times.issued - times.start).sum() / 1e6
    assert sum(lane.busy_us for lane in queues) == pytest.approx(held)
    assert sum(lane.instructions for lane in queues) == len(simulation.trace.program)
    for lane in profile.lanes:
        assert min(lane.slices) >= 0
        assert max(lane.slices) <= 1.001
        assert np.mean(lane.slices) <= lane.busy + 1e-3
    for lane in queues:
        assert np.mean(lane.slices) == pytest.approx(lane.busy, abs=1e-3)
    stalls = sum(us for _, _, us in simulation.metrics.stalls_us)
    assert sum(stall.us for stall in profile.stalls) == pytest.approx(stalls)
    for memory in profile.occupancy:
        assert max(memory.slices) <= memory.peak <= memory.capacity


def test_a_what_if_is_the_simulation_of_that_machine():
    program = tiled_matmul("gen3", "bfloat16", 256, 512, 1024)
    twice = dataclasses.replace(TRN2, vector_mhz=2 * TRN2.vector_mhz)

    profile = profiled(program)

    found = {change.name: change for change in profile.what_ifs}
    faster = found["the vector engine were twice as fast"]
    assert faster.latency_us == simulate(program, twice).metrics.latency_us
    assert faster.faster == pytest.approx(profile.latency_us / faster.latency_us)
    free = simulate(program, TRN2, ablate=frozenset({"hazards"})).metrics.latency_us
    assert found["nothing waited for data"].latency_us == free
    assert found["transfers took no time"].latency_us < profile.latency_us
    assert list(profile.what_ifs) == sorted(profile.what_ifs, key=lambda c: (-c.faster, c.name))


def test_inputs_that_are_read_again_and_again_are_found():
    tiled = profiled(tiled_matmul("gen3", "bfloat16", 256, 512, 1024))
    hoisted = profiled(hoisted_matmul("gen3", "bfloat16", 256, 512, 1024))

    assert sum(r.read for r in hoisted.readings) < sum(r.read for r in tiled.readings)
    assert [r.times for r in tiled.readings] == sorted(r.times for r in tiled.readings)[::-1]
    assert all(reading.times >= 1.5 for reading in read_again(tiled))


def test_memory_is_full_while_tiles_live():
    s = Stream("gen3")
    source = s.hbm((128, 1024), "float32")
    out = s.hbm((128, 1024), "float32", Kind.OUTPUT)
    first, second = s.tile((128, 1024)), s.tile((128, 1024))
    s.dma(first, source)
    s.copy(second, first, engine=Engine.VECTOR)
    s.dma(out, second)

    sbuf, psum = profiled(s.build()).occupancy

    assert (sbuf.memory, psum.memory) == ("sbuf", "psum")
    assert sbuf.peak == 2 * 128 * 1024 * 4
    assert sbuf.capacity == 128 * TRN2.sbuf_usable_bytes
    assert (psum.peak, psum.slices) == (0, (0,) * SLICES)


def test_stalls_name_what_was_waited_for():
    s = Stream("gen3")
    tile, source = s.tile((128, 1024)), s.hbm((128, 1024), "float32")
    s.dma(tile, source, line=7)
    s.copy(s.tile((128, 1024)), tile, engine=Engine.VECTOR, line=8)

    profile = profiled(s.build())

    (stall,) = profile.stalls
    assert (stall.queue, stall.cause, stall.op) == ("vector", "raw", "dma_copy")
    assert stall.line.startswith("stream.py:7")
    assert [part.line.split(" ")[0] for part in profile.critical] == ["stream.py:7", "stream.py:8"]


def test_matmuls_have_a_place_under_the_roofs():
    program = hoisted_matmul("gen3", "bfloat16", 256, 512, 1024)

    roof = profiled(program).roofline

    assert roof.compute_roof == pytest.approx(2 * 128 * 128 * 2.4e9 / 1e12)
    assert 0 < roof.tflops < roof.compute_roof
    assert roof.memory_roof == pytest.approx(roof.intensity * 16 * 27_200 / 1e6)


def test_a_profile_is_plain_json():
    s = Stream("gen3")
    psum = s.tile((128, 8), memory=Memory.PSUM)
    s.fill(psum)

    record = json.loads(json.dumps(profiled(s.build()).as_dict(), allow_nan=False))

    assert record["lanes"][0]["name"] == "vector"
    assert record["roofline"]["intensity"] == -1
