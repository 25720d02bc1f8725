"""Random language calls: both modes agree, errors are the language's own, values are numpy's."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.chip import CHIPS, Chip
from accel.errors import KernelError
from accel.nki.jit import TensorSpec, evaluate, jit, trace
from accel.sim.evaluate import evaluate as evaluate_program
from tests.accel.fuzz.kernel import SKIPPED, Session, fuzzed
from tests.accel.fuzz.reference import Failure, Reference
from tests.accel.fuzz.script import Script, scripts, without

MANY = int(os.environ.get("ACCEL_FUZZ_SCRIPTS", "3000"))  # a chip
FIRST = int(os.environ.get("ACCEL_FUZZ_FIRST", "0"))  # seed
Fails = Callable[[Script, Chip], str]


def same(got: np.ndarray, wanted: np.ndarray) -> bool:
    """Equal values; one NaN is as good as another."""
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return False
    if got.dtype.kind in "iub":
        return bool((got == wanted).all())
    return np.array_equal(got.astype(np.float32), wanted.astype(np.float32), equal_nan=True)


def check(script: Script, chip: Chip) -> list[str | None]:
    """Runs a script every way there is and compares; returns what became of its steps."""
    arrays, grid = script.arrays(), (script.cores,)
    live, shapes = Session(script), Session(script)
    result = evaluate(fuzzed, {"session": live, "inputs": arrays}, chip, grid)
    specs = [TensorSpec(shape, dtype) for shape, dtype in script.inputs]
    program = trace(fuzzed, {"session": shapes, "inputs": specs}, chip, grid)

    assert live.order == shapes.order
    assert program == result.program
    for got, wanted in zip(result.result, expected(script, live, shapes), strict=True):
        assert same(got, wanted)
    inputs = {f"inputs_{n}": array for n, array in enumerate(arrays)}
    if live.outcomes != shapes.outcomes:
        with pytest.raises(KernelError):
            evaluate_program(program, inputs)
    else:
        again = evaluate_program(program, inputs)
        assert again.uninitialised == result.uninitialised
        for got, wanted in zip(result.result, again.outputs.values(), strict=True):
            assert got.tobytes() == wanted.tobytes()
    return [outcome for core in live.outcomes for outcome in core]


def expected(script: Script, live: Session, shapes: Session) -> list[np.ndarray]:
    """The outputs by numpy alone, from the steps that were accepted. A step that only failed with
    values must have no result.
    """
    first = Reference(script)
    cores = [first, *(Reference(script, first) for _ in range(1, script.cores))]
    for core, index in live.order:
        step, with_values = script.steps[index], live.outcomes[core][index]
        if with_values != shapes.outcomes[core][index]:
            with pytest.raises(Failure):
                cores[core].run(step)
        elif with_values is None:
            cores[core].run(step)
    return first.result()


def fails(script: Script, chip: Chip) -> str:
    """What goes wrong, empty if nothing does."""
    try:
        check(script, chip)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def smallest(script: Script, chip: Chip, fails: Fails = fails) -> Script:
    """The script with every step taken out that the failure does not need."""
    size = max(1, len(script.steps) // 2)
    while size:
        start = 0
        while start < len(script.steps):
            shorter = without(script, start, size)
            if fails(shorter, chip):
                script = shorter
            else:
                start += size
        size //= 2
    return script


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(CHIPS)))
def test_every_way_of_running_a_script_agrees(r, chip):
    check(scripts(r), CHIPS[chip])


def test_partitions_of_a_gather_are_checked():
    @jit
    def kernel():
        data, index = nl.zeros((2, 6), nl.float32), nl.zeros((1, 3), nl.uint32)
        nisa.nc_n_gather(dst=nl.ndarray((1, 3), nl.float32), data=data, indices=index)

    with pytest.raises(KernelError, match="data"):
        trace(kernel, {}, CHIPS["trn2"])


def test_tiles_with_other_numbers_of_axes_are_refused_by_name():
    @jit
    def kernel():
        nl.add(nl.zeros((4, 2, 3), nl.float32), nl.zeros((4, 6), nl.float32))

    with pytest.raises(KernelError, match=r"\(4, 2, 3\).*\(4, 6\)"):
        trace(kernel, {}, CHIPS["trn2"])


@pytest.mark.slow
@pytest.mark.parametrize("chip", sorted(CHIPS))
def test_many_scripts(chip):
    accepted = refused = 0
    for seed in range(FIRST, FIRST + MANY):
        script = scripts(random.Random(f"{chip} {seed}"))
        try:
            outcomes = check(script, CHIPS[chip])
        except Exception as error:
            pytest.fail(f"{error!r}\n{smallest(script, CHIPS[chip])}")
        accepted += outcomes.count(None)
        refused += len(outcomes) - outcomes.count(None) - outcomes.count(SKIPPED)
    assert accepted > refused > accepted // 50
