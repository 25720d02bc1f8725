"""Instruction calls of the older form: results, operands written in place, engines."""

from __future__ import annotations

import numpy as np
import pytest

from accel.errors import KernelError
from accel.nki.legacy import isa as nisa
from accel.nki.legacy import language as nl
from accel.program import Engine
from tests.accel.nki_legacy.running import counts, numbers, result, run, traced

X = numbers(128, 64)


def returned(make, shape, dtype=np.float32):
    """A kernel that stores the tile `make(tile of x)` gives."""

    def kernel(x):
        out = nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)
        nl.store(out, make(nl.load(x)))
        return out

    return kernel


def test_activation_scales_shifts_and_reduces():
    def kernel(x, scale, bias):
        out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        sums = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        total = nl.ndarray((nl.par_dim(128), 4), dtype=nl.float32)
        tile = nisa.activation(
            op=nl.exp,
            data=nl.load(x),
            scale=nl.load(scale),
            bias=nl.load(bias),
            reduce_op=nl.add,
            reduce_res=total[:, 2],
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )
        nl.store(out, tile)
        nl.store(sums, total[:, 2])
        return out, sums

    scale, bias = numbers(128, 1, seed=1), numbers(128, 1, seed=2)
    values, sums = result(kernel, X, scale, bias)

    expected = np.exp(X * scale + bias)
    assert np.allclose(values, expected, rtol=1e-5)
    assert np.allclose(sums, expected.sum(1, keepdims=True), rtol=1e-5)


def test_a_scan_continues_from_a_column():
    def kernel(a, b):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        left, right = nl.load(a), nl.load(b)
        state = nl.zeros((128, 1), dtype=nl.float32)
        whole = nl.ndarray(a.shape, dtype=a.dtype)
        for half in nl.static_range(2):
            part = nl.ds(32 * half, 32)
            whole[:, part] = nisa.tensor_tensor_scan(
                left[:, part], right[:, part], initial=state, op0=np.multiply, op1=np.add
            )
            state[...] = whole[0:128, 32 * half + 31]
        nl.store(out, whole)
        return out

    b = numbers(128, 64, seed=1)
    state, expected = np.zeros(128, np.float32), np.empty_like(X)
    for column in range(64):
        state = expected[:, column] = X[:, column] * state + b[:, column]
    assert np.allclose(result(kernel, X, b), expected, rtol=1e-3, atol=1e-4)


def test_tensor_scalar_reduce_writes_both_results():
    def kernel(x):
        out = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        largest = nl.ndarray((128, 1), dtype=nl.float32)
        nisa.tensor_scalar_reduce(
            data=nl.load(x),
            op0=nl.multiply,
            operand0=2.0,
            reduce_op=nl.max,
            reduce_res=largest,
        )
        nl.store(out, largest)
        return out

    assert np.array_equal(result(kernel, X), 2 * X.max(1, keepdims=True))


def test_iota_and_affine_select_follow_index_expressions():
    rows, columns = nl.arange(64)[:, None], nl.arange(64)[None, :]

    def triangle(x):
        return nisa.affine_select(
            pred=rows >= columns, on_true_tile=x[0:64, :], on_false_value=-1.0
        )

    iota = result(returned(lambda x: nisa.iota(3 * rows - columns + 5, nl.float32), (64, 64)), X)
    selected = result(returned(triangle, (64, 64)), X)

    i, j = np.indices((64, 64))
    assert np.array_equal(iota, 3 * i - j + 5)
    assert np.array_equal(selected, np.where(i >= j, X[:64], np.float32(-1)))


def test_a_transpose_lies_in_psum_unless_the_vector_engine_makes_it():
    tensor = traced(returned(lambda x: nisa.nc_transpose(x), (64, 128)), X)
    vector = traced(
        returned(lambda x: nisa.nc_transpose(x[0:32, 0:16], engine=nisa.vector_engine), (16, 32)),
        X,
    )

    assert counts(tensor) == {"dma_copy": 2, "nc_transpose": 1, "tensor_copy": 1}
    assert counts(vector) == {"dma_copy": 2, "nc_transpose": 1}


def test_the_engine_asked_for_is_recorded():
    kernel = returned(lambda x: nisa.tensor_copy(x, engine=nisa.scalar_engine), X.shape)
    program = traced(kernel, X)

    engines = [program.forms[form].engine for form in program.form]
    assert engines == [Engine.ANY, Engine.SCALAR, Engine.ANY]


def test_batch_statistics_are_clipped_by_a_mask():
    def statistics(x):
        stats = nl.ndarray((128, 12), dtype=nl.float32)
        part, six = nl.arange(48)[None, :], nl.arange(6)[None, :]
        for half in nl.affine_range(2):
            stats[nl.arange(128)[:, None], 6 * half + six] = nisa.bn_stats(
                x[nl.arange(128)[:, None], 48 * half + part], mask=48 * half + part < 64
            )
        return nisa.bn_aggr(stats)

    values = result(returned(statistics, (128, 2)), X)

    assert np.allclose(values[:, 0], X.mean(1), atol=1e-6)
    assert np.allclose(values[:, 1], X.var(1), rtol=1e-5)


def test_an_operand_that_breaks_a_rule_names_the_line():
    kernel = returned(lambda x: nisa.nc_matmul(x, x[0:64, :]), (64, 64))

    with pytest.raises(KernelError, match=r"stationary K=128, moving K=64 \(test_isa\.py:\d+\)"):
        run(kernel, X)


def test_the_partition_axis_cannot_be_reduced():
    with pytest.raises(KernelError, match="reduction over axis 0"):
        run(returned(lambda x: nisa.tensor_reduce(nl.add, x, axis=0), (1, 64)), X)


def test_selects_and_predicated_copies_write_their_destination():
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile, negative = nl.load(x), nl.ndarray(x.shape, dtype=nl.uint8)
        negative[...] = nl.less(tile, 0.0)
        chosen = nl.ndarray(x.shape, dtype=x.dtype)
        nisa.select_reduce(dst=chosen, predicate=negative, on_true=tile, on_false=5.0)
        nisa.tensor_copy_predicated(dst=chosen, src=2.0 * tile, predicate=negative)
        nl.store(out, chosen)
        return out

    assert np.array_equal(result(kernel, X), np.where(X < 0, 2 * X, np.float32(5)))
