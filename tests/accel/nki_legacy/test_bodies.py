"""What a kernel counts in Python for itself inside loops, which the older compiler reads once."""

from __future__ import annotations

import numpy as np
import pytest

from accel.nki.legacy import compiler
from accel.nki.legacy import language as nl
from tests.accel.nki_legacy.running import numbers, run

X = numbers(4, 128, 32)
BYTES = 128


def addresses(loops) -> list[int]:
    """Where the tiles lie that a kernel allocates in `loops`, one below the other by its count."""

    def kernel(x):
        at = [0]

        def tile():
            place = compiler.sbuf.mod_alloc(base_addr=at[0])
            at[0] += BYTES
            return nl.ndarray((nl.par_dim(128), 32), dtype=x.dtype, buffer=place)

        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        loops(x, out, tile)
        return out

    evaluation = run(kernel, X)
    assert np.array_equal(evaluation.result, X)
    placed = [s.address for s in evaluation.program.storages if s.address is not None]
    return [address // BYTES for address in placed]


def moved(x, out, tile, block):
    buffer = tile()
    buffer[...] = nl.load(x[block])
    nl.store(out[block], buffer)


def flat(kind):
    def loops(x, out, tile):
        for block in kind(4):
            moved(x, out, tile, block)

    return loops


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (nl.affine_range, [0, 0, 0, 0]),
        (nl.sequential_range, [0, 0, 0, 0]),
        (nl.static_range, [0, 1, 2, 3]),
        (range, [0, 1, 2, 3]),
    ],
)
def test_an_allocation_in_a_loop_that_is_read_once_has_one_place(kind, expected):
    assert addresses(flat(kind)) == expected


def test_loops_in_one_turn_keep_the_places_of_the_first():
    def loops(x, out, tile):
        for outer in nl.affine_range(2):
            for inner in nl.static_range(2):
                moved(x, out, tile, 2 * outer + inner)

    assert addresses(loops) == [0, 1, 0, 1]


def test_two_loops_are_told_apart():
    def loops(x, out, tile):
        for block in nl.affine_range(2):
            moved(x, out, tile, block)
        for block in nl.affine_range(2, 4):
            moved(x, out, tile, block)

    assert addresses(loops) == [0, 0, 2, 2]
