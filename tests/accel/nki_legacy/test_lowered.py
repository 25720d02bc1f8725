"""What no single instruction does: deep views, blocks, operands in PSUM, random numbers."""

from __future__ import annotations

import importlib

import numpy as np

from accel.nki.install import install, uninstall
from accel.nki.legacy import isa as nisa
from accel.nki.legacy import language as nl
from tests.accel.nki_legacy.running import counts, numbers, result, run


def test_a_view_deeper_than_an_access_pattern_takes_several_instructions():
    x = numbers(128, 4, 5, 6)

    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        source = nl.load(x)
        target = nl.zeros(x.shape, dtype=x.dtype)
        i, a, b, c, d, e, f = nl.mgrid[0:128, 0:2, 0:2, 0:2, 0:3, 0:4, 0:5]
        view = (i, a + d, b + e, c + f)
        target[view] = 2.0 * source[view]
        nl.store(out, target)
        return out

    evaluation = run(kernel, x)

    assert np.array_equal(evaluation.result, 2 * x)
    assert counts(evaluation.program)["tensor_scalar"] == 4


def test_the_vector_engine_transposes_in_blocks():
    x = numbers(128, 80)

    def kernel(x):
        out = nl.ndarray((80, 128), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nisa.nc_transpose(nl.load(x), engine=nisa.vector_engine))
        return out

    evaluation = run(kernel, x)

    assert np.array_equal(evaluation.result, x.T)
    assert counts(evaluation.program)["nc_transpose"] == 12


def test_matmul_operands_in_psum_are_brought_to_sbuf():
    x, y = numbers(64, 128), numbers(128, 32, seed=1)

    def kernel(x, y):
        out = nl.ndarray((64, 32), dtype=x.dtype, buffer=nl.shared_hbm)
        turned = nisa.nc_transpose(nl.load(x))
        nl.store(out, nl.copy(nisa.nc_matmul(turned, nl.load(y))))
        return out

    assert np.allclose(result(kernel, x, y), x @ y, atol=1e-4)


def test_double_row_matmuls_contract_two_rows_at_once():
    rng = np.random.default_rng(0)
    x, y = rng.integers(-4, 5, (128, 2, 64)), rng.integers(-4, 5, (128, 2, 96))

    def kernel(x, y):
        out = nl.ndarray((64, 96), dtype=np.float32, buffer=nl.shared_hbm)
        left, right = (nl.load(t, dtype=nl.float8_e4m3) for t in (x, y))
        nl.store(out, nl.copy(nisa.nc_matmul(left, right, perf_mode="double_row_gen3")))
        return out

    values = result(kernel, x.astype(np.float32), y.astype(np.float32))

    assert np.array_equal(values, np.einsum("krm,krn->mn", x, y))


def test_a_quotient_of_integers_is_a_float():
    x = np.arange(128, dtype=np.int32).reshape(128, 1)

    def kernel(x):
        out = nl.ndarray(x.shape, dtype=np.int32, buffer=nl.shared_hbm)
        nl.store(out, nl.floor(nl.load(x) / 7, dtype=nl.int32))
        return out

    assert np.array_equal(result(kernel, x), x // 7)


def test_random_numbers_follow_from_a_seed():
    seeds, x = np.array([3], np.int32), np.ones((128, 64), np.float32)

    def kernel(x, seeds):
        tensors = [nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(3)]
        for out in tensors[:2]:
            nl.random_seed(nl.load(seeds[0]))
            nl.store(out, nl.rand(x.shape))
        nl.store(tensors[2], nl.dropout(nl.load(x), 0.25))
        return tuple(tensors)

    first, again, dropped = result(kernel, x, seeds)

    assert np.array_equal(first, again)
    assert 0 <= first.min() < 0.01
    assert 0.99 < first.max() < 1
    assert 0.2 < np.mean(dropped == 0) < 0.3
    assert set(np.unique(dropped)) == {0.0, 1.0}


def test_the_remainder_has_the_sign_of_the_dividend():
    x = 3 * numbers(128, 16)

    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.fmod(nl.load(x), -0.75))
        return out

    assert np.allclose(result(kernel, x), np.fmod(x, -0.75), atol=1e-6)


def test_what_kernels_import_from_inside_the_compiler_is_there():
    install()
    try:
        internal = "neuronxcc.nki.compiler.backends.neuron"
        tensor = importlib.import_module(f"{internal}.tensor")
        indexing = importlib.import_module(f"{internal}.indexing")
        constants = importlib.import_module("neuronxcc.nki.language.constants")
    finally:
        uninstall()

    assert isinstance(nl.arange(4), indexing.TileIndex)
    assert tensor.local_tile.__name__ == "Tile"
    assert constants.sizeinbytes(nl.float8_e4m3) == 1
