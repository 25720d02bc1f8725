"""Value semantics: an assigned result is written in place, and a variable keeps its value."""

from __future__ import annotations

import numpy as np
import pytest

from accel.errors import KernelError
from accel.nki.legacy import isa as nisa
from accel.nki.legacy import language as nl
from accel.program import Memory
from tests.accel.nki_legacy.running import counts, numbers, result, run, traced

X = numbers(128, 64)
Y = numbers(128, 64, seed=1)


def hbm_like(x):
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)


def test_an_assigned_result_is_written_where_it_is_assigned():
    def kernel(x):
        out = hbm_like(x)
        tile = nl.ndarray(x.shape, dtype=x.dtype)
        tile[...] = nl.load(x)
        tile[:, 0:32] = nisa.activation(nl.exp, tile[:, 32:64])
        nl.store(out, tile)
        return out

    evaluation = run(kernel, X)

    expected = np.concatenate([np.exp(X[:, 32:]), X[:, 32:]], axis=1)
    assert np.array_equal(evaluation.result, expected)
    assert counts(evaluation.program) == {"dma_copy": 2, "activation": 1}
    assert len(evaluation.program.storages) == 3


def test_a_result_is_cast_once_by_the_instruction_that_makes_it():
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=nl.bfloat16)
        tile[...] = nl.exp(nl.load(x))
        nl.store(out, tile)
        return out

    evaluation = run(kernel, X)

    assert np.array_equal(evaluation.result, np.exp(X).astype(nl.bfloat16))
    assert counts(evaluation.program) == {"dma_copy": 2, "activation": 1}


def test_a_variable_keeps_its_value_when_its_destination_is_overwritten():
    def kernel(x, y):
        out = hbm_like(x)
        buffer = nl.ndarray(x.shape, dtype=x.dtype)
        first = nl.load(x)
        buffer[...] = first
        buffer[...] = nl.load(y)
        nl.store(out, first * buffer)
        return out

    evaluation = run(kernel, X, Y)

    assert np.array_equal(evaluation.result, X * Y)
    assert counts(evaluation.program)["tensor_copy"] == 1


def test_a_variable_that_is_not_overwritten_costs_no_copy():
    def kernel(x):
        out = hbm_like(x)
        buffer = nl.ndarray((128, 128), dtype=x.dtype)
        for half in nl.affine_range(2):
            tile = nl.load(x)
            buffer[:, nl.ds(64 * half, 64)] = tile
        nl.store(out, tile + buffer[:, 0:64])
        return out

    evaluation = run(kernel, X)

    assert np.array_equal(evaluation.result, X + X)
    assert counts(evaluation.program) == {"dma_copy": 3, "tensor_tensor": 1}


def test_a_result_used_before_it_is_assigned_is_copied():
    def kernel(x):
        out = hbm_like(x)
        buffer = nl.ndarray(x.shape, dtype=x.dtype)
        tile = nl.load(x)
        double = tile * 2.0
        buffer[...] = tile
        nl.store(out, buffer + double)
        return out

    evaluation = run(kernel, X)

    assert np.array_equal(evaluation.result, X + X * 2)
    assert counts(evaluation.program)["tensor_copy"] == 1


def test_in_place_arithmetic_does_not_reach_through_an_assignment():
    def kernel(x):
        out = hbm_like(x)
        buffer = nl.ndarray(x.shape, dtype=x.dtype)
        tile = nl.load(x)
        buffer[...] = tile
        tile += 1.0
        nl.store(out, tile * buffer)
        return out

    assert np.array_equal(result(kernel, X), (X + 1) * X)


def test_adding_in_place_on_chip_is_one_instruction():
    def kernel(x):
        out = hbm_like(x)
        total = nl.zeros(x.shape, dtype=x.dtype)
        for _ in nl.affine_range(3):
            total[0:128, 0:64] += nl.load(x)
        nl.store(out, total)
        return out

    evaluation = run(kernel, X)

    assert np.allclose(evaluation.result, 3 * X)
    assert counts(evaluation.program) == {"memset": 1, "dma_copy": 4, "tensor_tensor": 3}


def accumulated(x, y):
    out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.zeros((64, 64), dtype=nl.float32, buffer=nl.psum)
    left, right = nl.load(x), nl.load(y)
    for _ in nl.affine_range(3):
        total[...] += nisa.nc_matmul(left, right)
    nl.store(out, total)
    return out


def test_adding_a_matmul_to_psum_is_a_flag_and_zeros_cost_nothing():
    evaluation = run(accumulated, X, Y)

    assert np.allclose(evaluation.result, 3 * (X.T @ Y), atol=1e-4)
    assert counts(evaluation.program) == {"dma_copy": 3, "nc_matmul": 3, "tensor_copy": 1}


def test_zeros_in_psum_are_set_where_a_matmul_does_not_cover_them():
    def kernel(x, y):
        out = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.shared_hbm)
        total = nl.zeros((64, 128), dtype=nl.float32, buffer=nl.psum)
        total[:, 0:64] += nisa.nc_matmul(nl.load(x), nl.load(y))
        nl.store(out, total)
        return out

    evaluation = run(kernel, X, Y)

    assert np.allclose(evaluation.result[:, :64], X.T @ Y, atol=1e-4)
    assert not evaluation.result[:, 64:].any()
    assert counts(evaluation.program)["memset"] == 1
    assert evaluation.uninitialised == ()


def test_assigning_a_matmul_overwrites():
    def kernel(x, y):
        out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        product = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
        left, right = nl.load(x), nl.load(y)
        for _ in nl.affine_range(2):
            product[...] = nisa.nc_matmul(left, right)
        nl.store(out, product)
        return out

    assert np.allclose(result(kernel, X, Y), X.T @ Y, atol=1e-4)


def test_a_matmul_assigned_to_sbuf_goes_through_psum():
    def kernel(x, y):
        out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        product = nl.ndarray((64, 64), dtype=nl.float32)
        product[...] = nisa.nc_matmul(nl.load(x), nl.load(y))
        nl.store(out, product)
        return out

    program = traced(kernel, X, Y)
    memories = [program.operands(i)[0][0].layout.memory for i in range(len(program))]

    assert counts(program) == {"dma_copy": 3, "nc_matmul": 1, "tensor_copy": 1}
    assert memories == [Memory.SBUF, Memory.SBUF, Memory.PSUM, Memory.SBUF, Memory.HBM]


def test_a_matmul_result_cannot_be_used_after_it_was_accumulated():
    def kernel(x, y):
        total = nl.zeros((64, 64), dtype=nl.float32, buffer=nl.psum)
        product = nisa.nc_matmul(nl.load(x), nl.load(y))
        total += product
        return nl.exp(product)

    with pytest.raises(KernelError, match="used after it was accumulated"):
        traced(kernel, X, Y)


def test_a_column_is_repeated_and_a_number_fills():
    def kernel(x):
        out = hbm_like(x)
        tile = nl.ndarray(x.shape, dtype=x.dtype)
        tile[...] = nl.load(x)[:, 3]
        tile[:, 0:2] = 7.0
        nl.store(out, tile)
        return out

    expected = np.repeat(X[:, 3:4], 64, axis=1)
    expected[:, :2] = 7
    assert np.array_equal(result(kernel, X), expected)


def test_a_result_nobody_uses_is_still_an_instruction():
    def kernel(x):
        out = hbm_like(x)
        tile = nl.load(x)
        nl.store(out, tile)
        nl.exp(tile)
        return out

    assert counts(traced(kernel, X)) == {"dma_copy": 2, "activation": 1}


def test_an_instruction_seen_with_one_tile_twice_reads_both_tiles_later():
    def kernel(x, y):
        out = hbm_like(x)
        a, b = nl.load(x), nl.load(y)
        square = nisa.tensor_tensor(a, a, nl.multiply)
        product = nisa.tensor_tensor(a, b, nl.multiply)
        nl.store(out, nisa.tensor_tensor(square, product, nl.subtract))
        return out

    assert np.allclose(result(kernel, X, Y), X * X - X * Y, atol=1e-6)


def test_a_view_assigned_by_the_key_it_was_taken_with_goes_to_the_other_tile():
    def kernel(x, y):
        out = hbm_like(x)
        a, b = nl.load(x), nl.load(y)
        left = (slice(None), slice(0, 32))
        b[left] = a[left]
        nl.store(out, b)
        return out

    values = result(kernel, X, Y)

    assert np.array_equal(values, np.concatenate([X[:, :32], Y[:, 32:]], axis=1))


def test_a_number_may_come_as_an_array_without_axes():
    def kernel(x):
        out = hbm_like(x)
        nl.store(out, nisa.tensor_scalar(nl.load(x), nl.multiply, np.array(2.0)))
        return out

    assert np.array_equal(result(kernel, X), 2 * X)
