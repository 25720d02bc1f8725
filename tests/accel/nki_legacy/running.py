"""Runs a kernel of the older form in both modes, for the tests of this folder."""

from __future__ import annotations

from collections import Counter

import numpy as np

from accel.chip import chip_named
from accel.nki.jit import Evaluation, evaluate, trace
from accel.nki.legacy.jit import jit
from accel.program import Program


def run(function, *arguments, chip="trn2", grid=()) -> Evaluation:
    """Evaluates; the program must be the one that tracing the same arguments gives."""
    kernel = jit(function)
    bound = kernel.bind(arguments, {})
    evaluation = evaluate(kernel, bound, chip_named(chip), grid)
    assert trace(kernel, bound, chip_named(chip), grid) == evaluation.program
    return evaluation


def result(function, *arguments, chip="trn2", grid=()):
    """What the kernel returns."""
    return run(function, *arguments, chip=chip, grid=grid).result


def traced(function, *arguments, chip="trn2", grid=()) -> Program:
    """The program alone."""
    kernel = jit(function)
    return trace(kernel, kernel.bind(arguments, {}), chip_named(chip), grid)


def counts(program: Program) -> dict[str, int]:
    """How many instructions of each kind."""
    return dict(Counter(program.forms[form].op for form in program.form))


def numbers(*shape: int, dtype=np.float32, seed: int = 0):
    """Reproducible values around 0."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
