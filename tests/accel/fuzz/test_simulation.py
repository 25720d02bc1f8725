"""Random programs through the simulator: none is too fast, out of order, or loses a value."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.chip import CHIPS, Chip
from accel.errors import UserError
from accel.nki.jit import TensorSpec, trace
from accel.program import Memory, Program, Storage
from accel.sim import Simulation, critical_path, simulate
from accel.sim.evaluate import evaluate
from accel.sim.queues import FIRST_DMA_QUEUE, QUEUES_PER_CORE
from accel.sim.schedule import WAITS
from tests.accel.fuzz.kernel import Session, fuzzed
from tests.accel.fuzz.physical import disordered, outside, overlapping, values_in_time
from tests.accel.fuzz.script import Script, scripts
from tests.accel.fuzz.test_language import same, smallest

ROOM = (1, 1, 1.3, 1.7, 2.5, 4, 20)  # SBUF in times of what the hungriest instruction needs
BANKS = (1, 2, 8)
LENGTH = 40  # calls a script
MANY = 1000


def chip_for(r: random.Random, script: Script) -> Chip:
    """A chip of some generation, most with so little memory that the script's tiles spill."""
    chip = CHIPS[r.choice(sorted(CHIPS))]
    room, banks = r.choice(ROOM), r.choice(BANKS)
    program = recorded(script, chip)
    needs = [_needed(program, index) for index in range(len(program))]
    needs += [(s.address or 0) + s.partition_bytes for s in program.storages if _on_sbuf(s)]
    size = (int(max(needs, default=0) * room) + 63) // 64 * 64
    psum = [s.partition_bytes for s in program.storages if s.memory is Memory.PSUM]
    return dataclasses.replace(
        chip,
        psum_bank_bytes=r.choice((chip.psum_bank_bytes, max(psum, default=4))),
        sbuf_partition_bytes=min(chip.sbuf_partition_bytes, chip.sbuf_reserved_bytes + size),
        psum_banks=banks,
    )


def _needed(program: Program, index: int) -> int:
    """SBUF bytes a partition of an instruction's tiles."""
    numbers = {number for _, number, _ in program.operands(index)}
    tiles = [program.storages[n] for n in numbers if _on_sbuf(program.storages[n])]
    return sum((tile.partition_bytes + 3) // 4 * 4 for tile in tiles)


def _on_sbuf(storage: Storage) -> bool:
    return storage.memory is Memory.SBUF


def recorded(script: Script, chip: Chip) -> Program:
    """The program of a script, recorded for the preset that the chip is a smaller version of."""
    specs = [TensorSpec(shape, dtype) for shape, dtype in script.inputs]
    return trace(
        fuzzed, {"session": Session(script), "inputs": specs}, CHIPS[chip.name], (script.cores,)
    )


def check(script: Script, chip: Chip, policy: str = "none") -> Simulation | None:
    """Simulates a script's program and checks all that must hold; None if there is no room."""
    program = recorded(script, chip)
    try:
        simulation = simulate(program, chip, policy)
    except UserError:
        return None
    check_times(simulation, chip)
    assert simulate(program, chip, policy).trace == simulation.trace
    assert not list(disordered(simulation))
    assert not list(overlapping(simulation.program))
    assert not list(outside(simulation, chip))
    check_values(script, program, simulation, chip)
    return simulation


def check_times(simulation: Simulation, chip: Chip) -> None:
    """Bounds that no schedule can beat, and a chain of waits as long as the whole."""
    times, trace_ = simulation.trace.times, simulation.trace
    busy = np.bincount(trace_.queue, times.issued - times.start, minlength=1)
    assert (times.start >= 0).all()
    engines = trace_.queue % QUEUES_PER_CORE < FIRST_DMA_QUEUE
    assert (times.end >= times.issued)[engines].all()
    assert trace_.makespan_ps >= busy.max()
    servers = chip.dma_engines * trace_.program.cores
    assert trace_.makespan_ps * servers >= times.work.sum()
    assert simulation.metrics.latency_us >= simulation.metrics.roofline_us
    found = critical_path(trace_)
    path = found.instructions.tolist()
    if not path:
        return
    assert found.released[0] == times.start[path[0]] == 0
    assert times.end[path[-1]] == trace_.makespan_ps
    assert (np.diff(found.released) >= 0).all()
    for n, (before, after) in enumerate(itertools.pairwise(path)):
        why = WAITS[times.cause[after]]
        if found.by_data[n + 1]:
            assert times.moving[before] <= times.moved[after]
            assert times.moved[after] - times.moved[before] <= times.work[after]
        else:
            placed = why in ("queue", "order", "port")
            ready = times.issued if placed else times.end
            signalled = not placed and engines[before]
            assert ready[before] + signalled * chip.semaphore_ps == times.start[after]


def check_values(script: Script, program: Program, simulation: Simulation, chip: Chip) -> None:
    """Placed, spilled and reordered programs compute what the program says."""
    arrays = {f"inputs_{n}": array for n, array in enumerate(script.arrays())}
    try:
        wanted = evaluate(program, arrays).outputs
    except UserError:
        return
    spilled = evaluate(simulation.program, arrays).outputs
    physical = values_in_time(simulation, arrays, chip)
    for name, array in wanted.items():
        assert same(spilled[name], array), f"{name} after placement"
        assert same(physical[name], array), f"{name} on physical addresses"


def fails(script: Script, chip: Chip) -> str:
    """What goes wrong, empty if nothing does."""
    try:
        check(script, chip)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.sampled_from(["none", "interleave"]))
def test_schedules_keep_order_bounds_and_values(r, policy):
    script = scripts(r, LENGTH)

    check(script, chip_for(r, script), policy)


def digest() -> str:
    """Traces and addresses of a fixed sample of scripts."""
    result = hashlib.sha256()
    for seed in range(6):
        r = random.Random(seed)
        script = scripts(r, LENGTH)
        chip = chip_for(r, script)
        try:
            simulation = simulate(recorded(script, chip), chip)
        except UserError as error:
            result.update(error.message.encode())
            continue
        times = simulation.trace.times
        for array in (times.start, times.end, times.waited_for, simulation.placed.address):
            result.update(array.astype("<i8").tobytes())
    return result.hexdigest()


_DIGEST = "from tests.accel.fuzz.test_simulation import digest; print(digest())"


def test_the_compiler_changes_nothing():
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", _DIGEST]
    plain = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    assert plain.stdout.strip() == digest()


@pytest.mark.slow
def test_many_programs():
    counts = {"simulated": 0, "no room": 0, "spilled": 0}
    for seed in range(MANY):
        r = random.Random(seed)
        script = scripts(r, LENGTH)
        chip = chip_for(r, script)
        try:
            simulation = check(script, chip)
        except Exception as error:
            pytest.fail(f"{chip.name}: {error!r}\n{smallest(script, chip, fails)}")
        counts["no room" if simulation is None else "simulated"] += 1
        counts["spilled"] += simulation is not None and len(simulation.placed.spills) > 0
    assert counts["simulated"] > 3 * counts["no room"]
    assert counts["spilled"] > counts["simulated"] // 10
