"""Views by index expressions against numpy's indexing, without recording anything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.errors import KernelError
from accel.nki.geometry import geometry_of, row_major
from accel.nki.jit import tensor_values
from accel.nki.legacy.index import arange, mgrid, windows
from accel.nki.legacy.tile import region
from accel.nki.legacy.views import check_loose, clipped, fits, fitted, overlap, repeated
from accel.nki.tensor import Allocation, Tensor
from accel.program import Memory, Storage


def tensor_of(array, memory=Memory.HBM) -> Tensor:
    storage = Storage("t", memory, "int32", array.shape)
    width = 0 if memory is Memory.HBM else storage.partition_bytes
    strides = row_major(array.shape, 4)
    return Tensor(
        Allocation(0, storage), 0, geometry_of(memory, "int32", array.shape, strides, width)
    )


ARRAY = np.arange(4 * 6 * 11, dtype=np.int32).reshape(4, 6, 11)
STEP, FIRST = st.integers(0, 2), st.integers(0, 2)


@given(FIRST, STEP, STEP, st.sampled_from(["grid", "integer", "slice", "ellipsis"]))
def test_a_view_by_expressions_is_what_numpy_gathers(first, step, other, kind):
    i, j = arange(3)[:, None], arange(4)[None, :]
    n, m = np.arange(3)[:, None], np.arange(4)[None, :]
    keys, expected = {
        "grid": ((i, first + j, step * i + other * j), (n, first + m, step * n + other * m)),
        "integer": ((first, i, first + step * j), (first, n, first + step * m)),
        "slice": ((slice(first, 4), i, step * j), (slice(first, 4), n, step * m)),
        "ellipsis": ((i, ..., step * j), (n, slice(None), step * m)),
    }[kind]
    view, loose = region(tensor_of(ARRAY), keys)

    assert np.array_equal(tensor_values(ARRAY, view), ARRAY[expected])
    assert loose == ()


@given(st.integers(0, 12), st.integers(1, 3))
def test_a_mask_makes_an_access_beyond_the_axis_legal_exactly_where_it_clips(first, step):
    index = first + step * arange(8)
    view, loose = region(tensor_of(ARRAY), (0, 0, index))
    box = windows(index < 11, (8,))
    values = first + step * np.arange(8)

    check_loose(loose, box)
    inside = tensor_values(ARRAY, clipped(view, box)) if box[0][1] else np.array([], np.int32)
    assert inside.tolist() == [v for v in values if v < 11]
    if values.max() >= 11:
        with pytest.raises(KernelError, match="axis of extent 11"):
            check_loose(loose, None)


def test_an_on_chip_view_always_has_a_partition_axis():
    tile = tensor_of(ARRAY, Memory.SBUF)
    rows, _ = region(tile, (2, mgrid[0:3, 0:5].p, mgrid[0:3, 0:5].x))
    column, _ = region(tile, (arange(4), 0, 7))

    assert rows.shape == (1, 3, 5)
    assert column.shape == (4, 1)


def test_axes_of_extent_one_come_and_go():
    tile = tensor_of(ARRAY, Memory.SBUF)[:, 2:3, :]

    assert fitted(tile, (4, 11)).shape == (4, 11)
    assert np.array_equal(tensor_values(ARRAY, fitted(tile, (4, 11, 1)))[..., 0], ARRAY[:, 2])
    assert not fits(tile, (4, 11, 2))
    with pytest.raises(KernelError, match=r"shape of t is \(4, 1, 11\), needs \(4, 12\)"):
        fitted(tile, (4, 12))


def test_a_repeated_view_has_no_new_elements():
    tile = tensor_of(ARRAY, Memory.SBUF)[:, :, 3:4]
    view = repeated(tile, (4, 6, 11))

    assert np.array_equal(tensor_values(ARRAY, view), np.repeat(ARRAY[:, :, 3:4], 11, axis=2))


def test_column_blocks_of_a_tile_do_not_overlap():
    tile = tensor_of(ARRAY.reshape(4, 66), Memory.SBUF)

    assert not overlap(tile[:, 0:20], tile[:, 20:40])
    assert not overlap(tile[0:2, :], tile[2:4, :])
    assert overlap(tile[1:3, 10:30], tile[2:4, 29:40])
