"""Whole kernels against published latencies (ms), within what the model promises: 25 %."""

from __future__ import annotations

import pytest

from accel.chip import CHIPS
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
