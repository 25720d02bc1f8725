"""`loop_reduce`: which earlier call a call continues, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest

from accel.errors import KernelError
from accel.nki.legacy import language as nl
from tests.accel.nki_legacy.running import counts, numbers, run, traced

X = numbers(4, 128, 32)


def test_the_last_call_is_the_sum_over_the_loop():
    def kernel(x):
        out = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.shared_hbm)
        total = nl.ndarray((128, 32), dtype=x.dtype)
        for i in nl.affine_range(4):
            total[...] = nl.loop_reduce(nl.load(x[i]), np.add, loop_indices=[i])
        nl.store(out, total)
        return out

    evaluation = run(kernel, X)

    assert np.allclose(evaluation.result, X.sum(0), rtol=1e-5)
    assert counts(evaluation.program) == {"dma_copy": 5, "tensor_copy": 1, "tensor_tensor": 3}


@pytest.mark.parametrize("outer", [1, 3])
def test_loops_between_and_around_keep_reductions_apart(outer):
    def kernel(x):
        out = nl.ndarray((outer, 2, 128, 16), dtype=x.dtype, buffer=nl.shared_hbm)
        for n in nl.affine_range(outer):
            best = nl.ndarray((2, nl.par_dim(128), 16), dtype=x.dtype)
            for i in nl.affine_range(4):
                for half in nl.affine_range(2):
                    part = nl.load(x[i, :, 16 * half : 16 * half + 16]) + float(n)
                    best[half] = nl.loop_reduce(part, np.maximum, loop_indices=[i])
            for half in nl.affine_range(2):
                nl.store(out[n, half], best[half])
        return out

    values = run(kernel, X).result

    wanted = X.max(0).reshape(128, 2, 16).transpose(1, 0, 2)
    assert np.allclose(values, wanted + np.arange(outer).reshape(-1, 1, 1, 1))


def test_a_destination_changed_after_the_loop_takes_no_copy():
    def kernel(x):
        out = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.shared_hbm)
        total = nl.ndarray((128, 32), dtype=x.dtype)
        for i in nl.affine_range(2):
            total[...] = nl.loop_reduce(nl.load(x[i]), np.add, loop_indices=[i])
        total[...] *= 2.0
        nl.store(out, total)
        return out

    evaluation = run(kernel, X)

    assert np.allclose(evaluation.result, 2 * X[:2].sum(0), rtol=1e-5)
    assert counts(evaluation.program)["tensor_copy"] == 1


def test_a_loop_may_start_anywhere():
    def kernel(x):
        out = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.shared_hbm)
        total = nl.ndarray((128, 32), dtype=x.dtype)
        for i in nl.affine_range(1, 4):
            total[...] = nl.loop_reduce(nl.load(x[i]), np.add, loop_indices=[i])
        nl.store(out, total)
        return out

    assert np.allclose(run(kernel, X).result, X[1:].sum(0), rtol=1e-5)


def test_an_index_of_pythons_range_that_does_not_start_at_0_is_an_error():
    def kernel(x):
        for i in range(1, 4):
            nl.loop_reduce(nl.load(x[i]), np.add, loop_indices=[i])

    with pytest.raises(KernelError, match=r"first called with loop indices \(1,\)"):
        traced(kernel, X)


def test_calls_that_are_left_out_in_later_turns_do_not_shift_the_others():
    """As under a causal mask, where a later turn of `i` has less to add."""

    def kernel(x):
        out = nl.ndarray((4, 128, 32), dtype=x.dtype, buffer=nl.shared_hbm)
        total = nl.ndarray((4, nl.par_dim(128), 32), dtype=x.dtype)
        for i in nl.affine_range(4):
            for j in nl.affine_range(4):
                if j >= i:
                    part = nl.load(x[i]) * float(j + 1)
                    total[j] = nl.loop_reduce(part, np.add, loop_indices=(i,))
        for j in nl.affine_range(4):
            nl.store(out[j], total[j])
        return out

    wanted = [(j + 1) * X[: j + 1].sum(0) for j in range(4)]
    assert np.allclose(run(kernel, X).result, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("swapped", [False, True])
def test_two_loops_are_reduced_with_others_between_and_inside(swapped):
    x = numbers(2, 2, 2, 2, 128, 8)

    def kernel(x):
        out = nl.ndarray((2, 2, 128, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        best = nl.ndarray((2, 2, nl.par_dim(128), 8), dtype=x.dtype)
        for i in nl.affine_range(2):
            for between in nl.affine_range(2):
                for j in nl.affine_range(2):
                    for inside in nl.static_range(2):
                        tile = nl.load(x[i, between, j, inside])
                        named = [j, i] if swapped else [i, j]
                        best[between, inside] = nl.loop_reduce(tile, np.max, loop_indices=named)
        for between in nl.affine_range(2):
            for inside in nl.affine_range(2):
                nl.store(out[between, inside], best[between, inside])
        return out

    assert np.array_equal(run(kernel, x).result, x.max(axis=(0, 2)))
