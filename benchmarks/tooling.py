"""What the stack itself costs on this machine: seconds to trace, simulate and evaluate a kernel.

Sampled, so these never gate on their own; they are shown, and compared where base and head were
measured in one job.
"""

from __future__ import annotations

import time

import numpy as np

from accel.chip import chip_named
from accel.dtypes import numpy_dtype
from accel.kernels import KERNELS
from accel.nki.jit import TensorSpec, evaluate, trace
from accel.sim import simulate
from perfgate import Metric, Rounds, benchmark

SIZE = 2048
ROUNDS = Rounds(min_rounds=5, max_rounds=20, budget_s=3.0)


@benchmark(
    sampled=True,
    metrics=(Metric("trace_s", "s"), Metric("simulate_s", "s")),
    params={"kernel": ["matmul"], "size": [SIZE]},
    rounds=ROUNDS,
    tags=("host",),
)
def trace_and_simulate(kernel: str, size: int) -> dict[str, float]:
    square = TensorSpec((size, size), "bfloat16")
    begun = time.perf_counter()
    program = trace(KERNELS[kernel].kernel, {"lhs_t": square, "rhs": square}, chip_named("trn2"))
    traced = time.perf_counter()
    simulate(program, chip_named("trn2"))
    return {"trace_s": traced - begun, "simulate_s": time.perf_counter() - traced}


@benchmark(
    sampled=True,
    metrics=(Metric("evaluate_s", "s"),),
    params={"kernel": ["softmax"], "rows": [512], "columns": [2048]},
    rounds=ROUNDS,
    tags=("host",),
)
def evaluate_values(kernel: str, rows: int, columns: int) -> dict[str, float]:
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(numpy_dtype("bfloat16"))
    begun = time.perf_counter()
    evaluate(KERNELS[kernel].kernel, {"x": x}, chip_named("trn2"))
    return {"evaluate_s": time.perf_counter() - begun}
