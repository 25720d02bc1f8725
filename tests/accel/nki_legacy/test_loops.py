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


def test_a_loop_that_does_not_start_at_0_is_an_error():
    def kernel(x):
        for i in nl.affine_range(1, 4):
            nl.loop_reduce(nl.load(x[i]), np.add, loop_indices=[i])

    with pytest.raises(KernelError, match=r"first called with loop indices \(1,\)"):
        traced(kernel, X)
