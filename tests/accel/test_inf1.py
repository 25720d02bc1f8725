"""inf1: NeuronCore-v1 has three engines, and the rates that are published of it."""

from __future__ import annotations

import numpy as np
import pytest

from accel.chip import CHIPS
from accel.errors import KernelError
from accel.kernels import KERNELS
from accel.nki import isa as nisa
from accel.nki import language as nl
from accel.nki.jit import TensorSpec, evaluate, jit, trace
from accel.sim import simulate

INF1 = CHIPS["inf1"]


def test_its_peak_is_the_published_one():
    assert INF1.peak_flops_per_us("bfloat16") / 1e6 == pytest.approx(16, rel=0.005)
    assert INF1.cores * INF1.hbm_bytes_per_us == pytest.approx(50 * 2**30 / 1e6, rel=0.001)


def test_large_matmuls_come_near_the_peak_and_are_right():
    kernel = KERNELS["matmul"].kernel
    square = TensorSpec((2048, 2048), "bfloat16")
    metrics = simulate(trace(kernel, {"lhs_t": square, "rhs": square}, INF1), INF1).metrics
    assert 75 < metrics.mfu_estimated_percent <= 100

    rng = np.random.default_rng(3)
    lhs_t, rhs = (rng.standard_normal((256, 256)).astype(np.float32) for _ in range(2))
    result = evaluate(kernel, {"lhs_t": lhs_t, "rhs": rhs}, INF1).result
    np.testing.assert_allclose(result, lhs_t.T @ rhs, rtol=1e-4, atol=1e-4)


def test_it_has_no_gpsimd():
    @jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_copy(dst=tile, src=tile, engine=nisa.gpsimd_engine)
        nisa.dma_copy(dst=out, src=tile)
        return out

    spec = {"x": TensorSpec((128, 64), "float32")}
    assert len(trace(kernel, spec, CHIPS["trn1"])) == 3
    with pytest.raises(KernelError, match="gpsimd"):
        trace(kernel, spec, INF1)


def test_the_language_has_no_name_for_its_generation():
    @jit
    def kernel(x):
        nisa.get_nc_version()
        return x

    with pytest.raises(KernelError, match="no name for inf1"):
        trace(kernel, {"x": TensorSpec((128, 64), "float32")}, INF1)
