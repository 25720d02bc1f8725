"""Index expressions against numpy: an `Index` stands for an array, a `Mask` for a boolean one."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.errors import KernelError
from accel.nki.legacy.index import Index, Mask, arange, mgrid, windows

SMALL = st.integers(-5, 5)
SIZES = st.tuples(st.integers(1, 6), st.integers(1, 6))


def array(index: Index) -> np.ndarray:
    grids = np.indices(index.shape)
    steps = [step for step, _ in index.axes]
    return index.base + sum(step * grid for step, grid in zip(steps, grids, strict=True))


@given(SIZES, SMALL, SMALL, SMALL)
def test_arithmetic_is_that_of_arrays(sizes, base, a, b):
    rows, columns = sizes
    index = base + a * arange(rows)[:, None] - arange(columns)[None, :] * b

    expected = base + a * np.arange(rows)[:, None] - np.arange(columns)[None, :] * b
    assert np.array_equal(array(index), expected)
    assert index.lowest == expected.min()
    assert index.highest == expected.max()


def test_mgrid_gives_one_index_an_axis_by_position_and_by_letter():
    grid = mgrid[0:3, 2:8:2]
    rows, columns = grid

    assert len(grid) == 2
    assert np.array_equal(array(rows), np.mgrid[0:3, 2:8:2][0])
    assert np.array_equal(array(grid.x), np.mgrid[0:3, 2:8:2][1])
    assert grid.p is rows
    assert grid[1] is columns


def test_numpy_numbers_on_the_left_leave_an_index():
    index = np.int64(4) * arange(3) + np.int32(1)

    assert isinstance(index, Index)
    assert array(index).tolist() == [1, 5, 9]


def test_quotients_and_remainders_stay_affine_or_are_refused():
    assert array(arange(4) * 8 // 4).tolist() == [0, 2, 4, 6]
    assert array((arange(4) + 8) % 8).tolist() == [0, 1, 2, 3]
    with pytest.raises(KernelError, match="not affine"):
        arange(4) // 2
    with pytest.raises(KernelError, match="not affine"):
        (arange(4) + 6) % 8
    with pytest.raises(KernelError, match="not affine"):
        arange(4) * arange(4)


COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq)


@given(SIZES, SMALL, st.integers(-3, 3), st.sampled_from(COMPARISONS))
def test_a_mask_on_one_axis_is_the_box_where_it_holds(sizes, limit, step, compare):
    index = step * arange(sizes[1])[None, :] + 1
    (row, rows), (column, columns) = windows(compare(index, limit), sizes)

    box = np.zeros(sizes, bool)
    box[row : row + rows, column : column + columns] = True
    assert np.array_equal(box, np.broadcast_to(compare(array(index), limit), sizes))


def test_masks_on_both_axes_meet():
    grid = mgrid[0:128, 0:512]

    box = windows((grid.p + 64 < 128) & (grid.x >= 500), (128, 512))
    assert box == ((0, 64), (500, 12))


def test_a_mask_that_couples_axes_is_refused_unless_it_always_holds():
    grid = mgrid[0:4, 0:4]

    assert windows(grid.p + grid.x < 7, (4, 4)) == ((0, 4), (0, 4))
    with pytest.raises(KernelError, match="couples axes"):
        windows(grid.p < grid.x, (4, 4))


def test_a_mask_is_no_truth_value():
    with pytest.raises(KernelError, match="truth value"):
        bool(arange(4) < 2)
    with pytest.raises(KernelError, match="conjunction"):
        (arange(4) < 2) | (arange(4) > 3)
    assert isinstance(arange(4) < 2, Mask)
