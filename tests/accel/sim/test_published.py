"""Whole kernels against published latencies (ms), within what the model promises: 25 %."""

from __future__ import annotations

import pytest

from accel.chip import CHIPS, chip_from_file
from accel.kernels import KERNELS
from accel.nki.jit import TensorSpec, trace
from accel.sim import simulate
from tests.accel.sim import streams

M, K, N = 4096, 8192, 8192

FAST = [
    (0.17293, "trn1", "neuronxcc", lambda: streams.mamba(1, 512, 256)),
    (2.34, "trn1", "neuronxcc", lambda: streams.mamba(1, 512, 4096)),
    (1.61, "trn1", "neuronxcc", lambda: streams.mamba(2, 512, 4096)),
    (1.60, "trn1", "neuronxcc", lambda: streams.mamba(3, 512, 4096)),
]
SLOW = [
    (39.894938, "trn2", "none", lambda: streams.tiled_matmul("gen3", "float32", M, K, N)),
    (28.197982, "trn2", "none", lambda: streams.hoisted_matmul("gen3", "float32", M, K, N)),
    (28.414015, "trn2", "none", lambda: streams.blocked_free_matmul("gen3", "float32", M, K, N)),
    (28.301971, "trn2", "none", lambda: streams.blocked_matmul("gen3", "float32", M, K, N)),
    (51.80, "trn1", "neuronxcc", lambda: streams.tiled_matmul("gen2", "bfloat16", M, K, N)),
    (42.96, "trn1", "neuronxcc", lambda: streams.hoisted_matmul("gen2", "bfloat16", M, K, N)),
    (22.07, "trn1", "neuronxcc", lambda: streams.blocked_free_matmul("gen2", "bfloat16", M, K, N)),
    (6.97, "trn1", "neuronxcc", lambda: streams.blocked_matmul("gen2", "bfloat16", M, K, N)),
    (6.6, "trn1", "neuronxcc", lambda: streams.mamba(3, 2048, 4096)),
    (13.3, "trn1", "neuronxcc", lambda: streams.mamba(3, 4096, 4096)),
    (27.8, "trn1", "neuronxcc", lambda: streams.mamba(3, 8192, 4096)),
]


@pytest.mark.parametrize(("published_ms", "chip", "profile", "program"), FAST)
def test_small_kernels(published_ms, chip, profile, program):
    predicted_ms = simulate(program(), CHIPS[chip], profile).metrics.latency_us / 1000

    assert predicted_ms == pytest.approx(published_ms, rel=0.25)


@pytest.mark.slow
@pytest.mark.parametrize(("published_ms", "chip", "profile", "program"), SLOW)
def test_large_kernels(published_ms, chip, profile, program):
    predicted_ms = simulate(program(), CHIPS[chip], profile).metrics.latency_us / 1000

    assert predicted_ms == pytest.approx(published_ms, rel=0.25)


ONE_ARRAY = """
base = "trn2"
[numbers]
tensor_mhz = 1000
tensor_limit_window_ps = 0
dge_issue_ps = 0
semaphore_ps = 0
dma_latency_ps = 100_000
dma_element_overhead_ps = 0
dma_engine_step_ps = 0
dma_bytes_per_us = 76_800
hbm_bytes_per_us = 1_228_800
hbm_stack_bytes_per_us = 1_228_800
"""


@pytest.mark.parametrize(("side", "cycles"), [(1024, 67_288), (4096, 4_199_682)])
def test_products_on_one_array_take_the_cycles_of_a_cycle_level_simulator(tmp_path, side, cycles):
    """ONNXim with Ramulator, one 128 × 128 array; ours with a memory that is not the limit."""
    path = tmp_path / "array.toml"
    path.write_text(ONE_ARRAY)
    chip, square = chip_from_file(path), TensorSpec((side, side), "bfloat16")

    program = trace(KERNELS["matmul"].kernel, {"lhs_t": square, "rhs": square}, chip)
    latency_ps = simulate(program, chip).trace.makespan_ps

    assert latency_ps / 1000 == pytest.approx(cycles, rel=0.01)
