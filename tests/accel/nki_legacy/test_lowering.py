"""Instructions that the older compiler adds, counted, and what they compute."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from accel.nki.legacy import language as nl
from accel.program import Engine
from tests.accel.nki_legacy.running import counts, numbers, run, traced

X = numbers(64, 96)
Y = numbers(96, 200, seed=1)


def product(x, y):
    out = nl.ndarray((x.shape[0], y.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.matmul(nl.load(x), nl.load(y)))
    return out


def test_matmul_transposes_its_left_operand_and_copies_it_to_sbuf():
    evaluation = run(product, X, Y)

    assert np.allclose(evaluation.result, X @ Y, atol=1e-4)
    assert counts(evaluation.program) == {
        "dma_copy": 3,
        "nc_transpose": 1,
        "nc_matmul": 1,
        "tensor_copy": 2,
    }


def test_matmul_takes_a_transposed_left_operand_as_it_is():
    def kernel(x, y):
        out = nl.ndarray((x.shape[1], y.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.matmul(nl.load(x), nl.load(y), transpose_x=True))
        return out

    x = numbers(96, 64)
    evaluation = run(kernel, x, Y)

    assert np.allclose(evaluation.result, x.T @ Y, atol=1e-4)
    assert counts(evaluation.program) == {"dma_copy": 3, "nc_matmul": 1, "tensor_copy": 1}


def test_matmul_brings_mixed_operands_to_float32():
    y = Y.astype(ml_dtypes.bfloat16)
    evaluation = run(product, X, y)

    assert np.allclose(evaluation.result, X @ y.astype(np.float32), atol=1e-4)
    assert counts(evaluation.program)["tensor_copy"] == 3


@pytest.mark.parametrize(
    ("columns", "dtype", "matmuls", "copies"),
    [
        (96, np.float32, 1, 0),
        (512, np.float32, 1, 0),
        (513, np.float32, 2, 2),
        (1024, np.float32, 2, 2),
        (64, np.int32, 1, 1),
    ],
)
def test_a_row_is_repeated_over_partitions_512_columns_at_a_time(columns, dtype, matmuls, copies):
    def kernel(x):
        out = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.shared_hbm)
        row = nl.load(x)
        nl.store(out, nl.multiply(row.broadcast_to((128, columns)), 2.0))
        return out

    row = (100 * numbers(1, columns)).astype(dtype)
    evaluation = run(kernel, row)
    issued = counts(evaluation.program)

    assert np.array_equal(evaluation.result, np.repeat(2.0 * row, 128, axis=0))
    assert issued["nc_matmul"] == matmuls
    assert issued.get("tensor_copy", 0) == copies


def test_wide_rows_are_gathered_by_the_scalar_engine_and_ones_are_made_once():
    def kernel(x):
        out = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.shared_hbm)
        row = nl.load(x)
        nl.store(out, row.broadcast_to((128, 1024)) + row.broadcast_to((128, 1024)))
        return out

    program = traced(kernel, numbers(1, 1024))
    copies = [form for form in program.forms if form.op == "tensor_copy"]

    assert counts(program)["memset"] == 1
    assert [form.engine for form in copies] == [Engine.SCALAR]


def test_a_row_meets_a_tile_without_being_asked_to():
    def kernel(x, row):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x) * nl.load(row))
        return out

    row = numbers(1, 96, seed=3)
    evaluation = run(kernel, X, row)

    assert np.array_equal(evaluation.result, X * row)
    assert counts(evaluation.program)["nc_matmul"] == 1


def test_two_psum_operands_are_not_read_by_one_instruction():
    def kernel(x, y):
        out = nl.ndarray((64, 200), dtype=nl.float32, buffer=nl.shared_hbm)
        left, right = nl.load(x), nl.load(y)
        first = nl.matmul(left, right, transpose_x=True)
        second = nl.matmul(left, right, transpose_x=True)
        nl.store(out, first * second)
        return out

    x = numbers(96, 64)
    evaluation = run(kernel, x, Y)

    assert np.allclose(evaluation.result, (x.T @ Y) ** 2, atol=1e-2)
    assert counts(evaluation.program)["tensor_copy"] == 1


def test_transpose_of_a_tile_with_several_free_axes_collapses_them():
    def kernel(x):
        out = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.transpose(nl.load(x)))
        return out

    x = numbers(128, 4, 8)
    assert np.array_equal(run(kernel, x).result, x.reshape(128, 32).T)
