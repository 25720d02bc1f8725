"""Masks that are Python's truth values, of operands, of matmuls, and where none is possible."""

from __future__ import annotations

import numpy as np
import pytest

from accel.errors import KernelError
from accel.nki.legacy import isa as nisa
from accel.nki.legacy import language as nl
from tests.accel.nki_legacy.running import counts, numbers, result, run, traced

X = numbers(128, 64)
Y = numbers(128, 512, seed=1)


def stored(tile):
    out = nl.ndarray(tile.shape, dtype=np.float32, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@pytest.mark.parametrize("truth", [bool, np.bool_])
def test_a_truth_value_is_a_mask_of_everything_or_nothing(truth):
    def kernel(x):
        tile = nl.ndarray((128, 64), dtype=x.dtype)
        tile[...] = nl.add(nl.load(x), 1.0, mask=truth(1))
        tile[...] = nl.add(tile, 1.0, mask=truth(0))
        return stored(tile)

    assert np.array_equal(result(kernel, X), X + 1)


def test_truth_values_join_comparisons_of_index_expressions():
    def kernel(x):
        i, j = nl.mgrid[0:128, 0:64]
        tile = nl.zeros((128, 64), dtype=x.dtype)
        source = nl.load(x)
        tile[...] = nl.copy(source, mask=True & (j < 8))
        tile[...] = nl.copy(source, mask=(i < 8) & np.bool_(False))
        return stored(tile)

    wanted = np.zeros_like(X)
    wanted[:, :8] = X[:, :8]
    assert np.array_equal(result(kernel, X), wanted)


def test_slices_past_the_end_are_legal_where_a_mask_clips_them():
    def kernel(x):
        tile = nl.zeros((128, 64), dtype=x.dtype)
        rows = nl.arange(128)[:, None]
        nisa.dma_copy(dst=tile, src=x[64:192, 0:64], mask=rows + 64 < 128)
        return stored(tile)

    wanted = np.concatenate([X[64:], np.zeros_like(X[:64])])
    assert np.array_equal(result(kernel, X), wanted)


def test_a_slice_past_the_end_without_a_mask_is_an_error():
    with pytest.raises(KernelError, match="index 64 to 191 of an axis of extent 128"):
        traced(lambda x: stored(nl.load(x[64:192, 0:64])), X)


def test_a_destination_past_the_end_is_legal_where_the_value_is_masked():
    def kernel(x):
        tile = nl.ndarray((128, 64), dtype=x.dtype)
        i, j = nl.mgrid[0:128, 0:48]
        for half in nl.affine_range(2):
            part = nl.ndarray((128, 48), dtype=x.dtype)
            inside = 48 * half + j < 64
            part[i, j] = nl.load(x[i, 48 * half + j], mask=inside)
            tile[i, 48 * half + j] = nl.multiply(part, 2.0, mask=inside)
        return stored(tile)

    assert np.array_equal(result(kernel, X), 2 * X)


def matmul_of_columns(masked):
    def kernel(x, y):
        left, right = nl.load(x), nl.load(y)
        sums = nl.zeros((64, 512), dtype=np.float32, buffer=nl.psum)
        for _ in nl.affine_range(2):
            sums += masked(left, right, nl.arange(512)[None, :] < 300)
        out = nl.ndarray((64, 512), dtype=np.float32, buffer=nl.shared_hbm)
        nl.store(out, sums)
        return out

    return kernel


@pytest.mark.parametrize(
    "masked",
    [
        lambda left, right, inside: nisa.nc_matmul(left, right, mask=inside),
        lambda left, right, inside: nisa.nc_matmul(left, right[inside]),
    ],
)
def test_a_matmul_computes_the_columns_that_its_mask_leaves(masked):
    evaluation = run(matmul_of_columns(masked), X, Y)

    wanted = np.zeros((64, 512))
    wanted[:, :300] = 2 * X.T @ Y[:, :300]
    assert np.allclose(evaluation.result, wanted, atol=1e-3)
    assert not evaluation.uninitialised


def test_a_matmul_that_is_masked_out_leaves_the_sum():
    def kernel(x, y):
        left, right = nl.load(x), nl.load(y)
        sums = nl.zeros((64, 512), dtype=np.float32, buffer=nl.psum)
        for turn in nl.affine_range(3):
            sums += nisa.nc_matmul(left, right, mask=turn > 1)
        return stored(nl.copy(sums))

    evaluation = run(kernel, X, Y)

    assert np.allclose(evaluation.result, X.T @ Y, atol=1e-3)
    assert counts(evaluation.program)["nc_matmul"] == 1


def test_a_mask_that_may_be_of_either_operand_of_a_matmul_is_refused():
    def kernel(x):
        tile = nl.load(x)
        return nisa.nc_matmul(tile, tile, mask=nl.arange(64)[None, :] < 8)

    with pytest.raises(KernelError, match="not of the columns of moving alone"):
        traced(kernel, X)


def test_a_masked_transpose_moves_what_the_mask_leaves():
    def kernel(x):
        i, j = nl.mgrid[0:128, 0:64]
        turned = nl.zeros((64, 128), dtype=x.dtype, buffer=nl.psum)
        turned[...] = nisa.nc_transpose(nl.load(x), mask=(i < 32) & (j < 64))
        nothing = nisa.nc_transpose(nl.load(x), mask=False)
        return stored(nl.copy(turned[:, 0:32])), nothing.shape

    values, shape = result(kernel, X)

    assert np.array_equal(values, X[:32].T)
    assert shape == (64, 128)


@pytest.mark.parametrize(
    "call",
    [
        lambda tile, mask: nl.load_transpose2d(tile, mask=mask),
        lambda tile, mask: nisa.tensor_partition_reduce(np.add, nl.load(tile), mask=mask),
        lambda tile, mask: nl.matmul(nl.load(tile), nl.load(tile), transpose_x=True, mask=mask),
    ],
)
def test_a_call_without_a_masked_form_refuses_a_mask_that_leaves_something_out(call):
    with pytest.raises(KernelError, match="mask is not supported here"):
        traced(lambda x: call(x, nl.arange(64)[None, :] < 8), X)
