"""Grids whose programs are spread over cores."""

from __future__ import annotations

import numpy as np
import pytest

from accel.errors import KernelError
from accel.nki.legacy import language as nl
from accel.nki.legacy.jit import jit
from tests.accel.nki_legacy.running import numbers, run, traced

X = numbers(4, 128, 16)
PRODUCTS = ("tensor_tensor", "tensor_scalar")


def scaled(x):
    """Each program multiplies its block by a row that a matmul repeats over partitions."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    own = nl.program_id(0)
    row = nl.load(x[own, 0:1])
    nl.store(out[own], nl.load(x[own]) * row.broadcast_to((128, 16)))
    return out


@pytest.mark.parametrize(
    ("extent", "cores"),
    [
        (4, [0, 0, 0, 0]),
        (nl.nc(4), [0, 1, 2, 3]),
        (nl.spmd_dim(2, nl.nc(2)), [0, 1, 0, 1]),
        (nl.spmd_dim(nl.nc(2), 2), [0, 0, 1, 1]),
    ],
)
def test_an_extent_says_how_its_programs_are_spread(extent, cores):
    evaluation = run(scaled, X, grid=(extent,))

    program = evaluation.program
    instructions = zip(program.form, program.core, strict=True)
    products = [int(core) for form, core in instructions if program.forms[form].op in PRODUCTS]
    assert np.allclose(evaluation.result, X * X[:, :1], rtol=1e-5)
    assert products == cores
    assert program.cores == max(cores) + 1


def test_the_first_of_two_axes_keeps_its_programs_together():
    def kernel(x):
        out = nl.ndarray((2, 2, 128, 16), dtype=x.dtype, buffer=nl.shared_hbm)
        row, column = nl.program_id(0), nl.program_id(1)
        nl.store(out[row, column], nl.load(x[2 * row + column]))
        return out

    program = traced(kernel, X, grid=(nl.nc(2), 2))

    assert [int(core) for core in program.core] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_a_kernel_is_launched_with_such_a_grid():
    assert np.allclose(jit(scaled)[nl.spmd_dim(2, nl.nc(2))](X), X * X[:, :1], rtol=1e-5)


def test_two_spread_axes_are_refused():
    with pytest.raises(KernelError, match="spread over cores"):
        traced(scaled, X, grid=(nl.nc(2), nl.nc(2)))
    with pytest.raises(KernelError, match="spread over cores"):
        nl.spmd_dim(nl.nc(2), nl.nc(2))
