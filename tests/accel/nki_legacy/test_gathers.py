"""HBM tensors with an axis that a tile of indices picks at run time."""

from __future__ import annotations

import numpy as np
import pytest

from accel.errors import KernelError
from accel.nki.legacy import language as nl
from tests.accel.nki_legacy.running import numbers, result, traced

TABLE = numbers(2, 300, 64)
ROWS = np.random.default_rng(1).permutation(300)[:128].astype(np.int32).reshape(128, 1)


@pytest.mark.parametrize("columns", [slice(0, 32), nl.arange(32)[None, :]])
def test_a_load_gathers_the_rows_that_a_tile_names(columns):
    def kernel(table, rows):
        out = nl.ndarray((128, 32), dtype=table.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(table[1, nl.load(rows), columns]))
        return out

    assert np.array_equal(result(kernel, TABLE, ROWS), TABLE[1, ROWS[:, 0], :32])


def test_a_mask_leaves_out_the_indices_that_are_not_rows():
    bad = ROWS.copy()
    bad[100:] = 10_000

    def kernel(table, rows):
        out = nl.ndarray((100, 64), dtype=table.dtype, buffer=nl.shared_hbm)
        i, j = nl.arange(128)[:, None], nl.arange(64)[None, :]
        gathered = nl.load(table[0, nl.load(rows), j], mask=i < 100)
        nl.store(out, gathered[0:100])
        return out

    assert np.array_equal(result(kernel, TABLE, bad), TABLE[0, bad[:100, 0]])


def test_a_store_scatters_and_an_atomic_add_adds():
    def kernel(x, rows):
        out = nl.ndarray((300, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        zeros = nl.zeros((100, 64), dtype=x.dtype)
        for block in nl.affine_range(3):
            nl.store(out[100 * block : 100 * block + 100], zeros)
        index, tile = nl.load(rows), nl.load(x)
        nl.store(out[index, nl.arange(64)[None, :]], tile)
        nl.atomic_rmw(out[index, nl.arange(64)[None, :]], tile, op=np.add)
        return out

    x = numbers(128, 64)
    wanted = np.zeros((300, 64), np.float32)
    wanted[ROWS[:, 0]] = 2 * x
    assert np.array_equal(result(kernel, x, ROWS), wanted)


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (lambda rows: (rows, rows, slice(0, 8)), "is indexed with a tile"),
        (lambda rows: (0, rows.broadcast_to((128, 2)), slice(0, 8)), r"a tile of \(128, 2\)"),
    ],
)
def test_what_one_tile_cannot_pick_is_refused(key, problem):
    def kernel(table, rows):
        nl.load(table[key(nl.load(rows))])

    with pytest.raises(KernelError, match=problem):
        traced(kernel, TABLE, ROWS)
