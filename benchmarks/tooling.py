"""What the stack itself costs on this machine: seconds to trace, simulate and evaluate a kernel,
and evaluation beside the same tile operations in plain numpy.

Sampled, so these never gate on their own; they are shown, and compared where base and head were
measured in one job.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from accel.chip import chip_named
from accel.dtypes import numpy_dtype
from accel.kernels import KERNELS
from accel.nki.jit import TensorSpec, evaluate, trace
from accel.sim import simulate
from perfgate import Metric, Rounds, benchmark

SIZE = 2048
ROUNDS = Rounds(min_rounds=5, max_rounds=20, budget_s=3.0)
# A ratio of two things in one process differs less from process to process, whose start is most of
# what a case costs.
RATIO_ROUNDS = Rounds(min_rounds=5, max_rounds=20, budget_s=1.0, processes=2)


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


Array = npt.NDArray[np.generic]


def _matmul(lhs_t: Array, rhs: Array) -> Array:
    """As the kernel: tiles of 128 × 512, summed in float32 over steps of 128."""
    (k, m), n = lhs_t.shape, rhs.shape[1]
    out = np.empty((m, n), lhs_t.dtype)
    left = [lhs_t[step : step + 128].copy() for step in range(0, k, 128)]
    right = [rhs[step : step + 128].copy() for step in range(0, k, 128)]
    for row in range(0, m, 128):
        for column in range(0, n, 512):
            total = np.zeros((128, 512), np.float32)
            for a, b in zip(left, right, strict=True):
                stationary = np.ascontiguousarray(a[:, row : row + 128].astype(np.float32))
                total += stationary.T @ b[:, column : column + 512].astype(np.float32)
            out[row : row + 128, column : column + 512] = total.astype(out.dtype)
    return out


def _softmax(x: Array) -> Array:
    out = np.empty_like(x)
    for row in range(0, len(x), 128):
        tile = x[row : row + 128].copy()
        shift = -tile.astype(np.float32).max(axis=1, keepdims=True)
        powers = np.exp(tile.astype(np.float32) + shift)
        inverse = 1 / powers.sum(axis=1, keepdims=True)
        kept = powers.astype(x.dtype)
        out[row : row + 128] = (kept.astype(np.float32) * inverse).astype(x.dtype)
    return out


def _rmsnorm(x: Array, gamma: Array) -> Array:
    out = np.empty_like(x)
    weight = np.broadcast_to(gamma.astype(np.float32), (128, x.shape[1])).copy()
    for row in range(0, len(x), 128):
        tile = x[row : row + 128].copy()
        total = np.square(tile.astype(np.float32)).sum(axis=1, keepdims=True)
        inverse = 1 / np.sqrt(total / x.shape[1] + np.float32(1e-5))
        scaled = tile.astype(np.float32) * inverse * weight
        out[row : row + 128] = scaled.astype(x.dtype)
    return out


_PLAIN: dict[str, Callable[..., Array]] = {
    "matmul": _matmul,
    "softmax": _softmax,
    "rmsnorm": _rmsnorm,
}


@benchmark(
    sampled=True,
    metrics=(Metric("evaluate_over_numpy", "ratio"),),
    params={"kernel": ["matmul", "softmax", "rmsnorm"], "dtype": ["float32", "bfloat16"]},
    rounds=RATIO_ROUNDS,
    tags=("host",),
)
def evaluate_beside_numpy(kernel: str, dtype: str) -> dict[str, float]:
    rng = np.random.default_rng(0)
    shapes = {
        "matmul": {"lhs_t": (1024, 1024), "rhs": (1024, 1024)},
        "softmax": {"x": (1024, 2048)},
        "rmsnorm": {"x": (1024, 2048), "gamma": (2048,)},
    }
    arrays = {
        name: rng.standard_normal(shape).astype(numpy_dtype(dtype))
        for name, shape in shapes[kernel].items()
    }
    begun = time.perf_counter()
    evaluate(KERNELS[kernel].kernel, arrays, chip_named("trn2"))
    evaluated = time.perf_counter()
    _PLAIN[kernel](**arrays)
    return {"evaluate_over_numpy": (evaluated - begun) / (time.perf_counter() - evaluated)}
