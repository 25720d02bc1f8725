"""Every library kernel equals its numpy reference, at ragged sizes, on every chip and dtype."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.chip import chip_named
from accel.dtypes import numpy_dtype
from accel.kernels import KERNELS
from accel.kernels.matmul import OPERAND_BYTES, matmul_plan
from accel.kernels.tiling import spans
from accel.nki.jit import TensorSpec, evaluate, trace
from accel.sim import simulate

# Relative to the largest result: one rounding of the result dtype, plus accumulation order.
TOLERANCE = {"float32": 2e-6, "bfloat16": 2**-7}

SIZES = [
    ("matmul", {"lhs_t": (130, 197), "rhs": (130, 600)}, {}),
    ("matmul", {"lhs_t": (63, 1), "rhs": (63, 40)}, {}),
    ("softmax", {"x": (197, 300)}, {}),
    ("softmax", {"x": (3, 20002)}, {}),
    ("layernorm", {"x": (197, 768), "gamma": (768,), "beta": (768,)}, {}),
    ("layernorm", {"x": (5, 1281), "gamma": (1281,), "beta": (1281,)}, {"eps": 0.1}),
    ("rmsnorm", {"x": (130, 700), "gamma": (700,)}, {}),
    ("rmsnorm", {"x": (1, 4096), "gamma": (4096,)}, {"eps": 0.1}),
    ("flash_attention", {"q": (2, 64, 197), "k": (1, 64, 197), "v": (1, 197, 64)}, {}),
    ("flash_attention", {"q": (1, 40, 300), "k": (1, 40, 300), "v": (1, 300, 40)}, {"scale": 0.3}),
    (
        "flash_attention",
        {"q": (4, 64, 197), "k": (2, 64, 197), "v": (2, 197, 64)},
        {"causal": True},
    ),
    (
        "flash_attention",
        {"q": (1, 64, 140), "k": (1, 64, 2500), "v": (1, 2500, 64)},
        {"causal": True},
    ),
    ("flash_attention", {"q": (2, 128, 1), "k": (2, 128, 2500), "v": (2, 2500, 128)}, {}),
]


def inputs(shapes: dict[str, tuple[int, ...]], dtype: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {k: rng.standard_normal(s).astype(numpy_dtype(dtype)) for k, s in shapes.items()}


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("name", "shapes", "options"), SIZES)
def test_kernel_equals_its_reference(name, shapes, options, dtype, chip) -> None:
    arrays = inputs(shapes, dtype)

    evaluation = evaluate(KERNELS[name].kernel, {**arrays, **options}, chip_named(chip))

    expected = KERNELS[name].reference(**arrays, **options)
    error = np.abs(np.asarray(evaluation.result, np.float32) - expected).max()
    assert error <= TOLERANCE[dtype] * np.abs(expected).max()
    assert evaluation.uninitialised == ()


def test_matmul_over_several_blocks_of_k_equals_its_reference() -> None:
    arrays = inputs({"lhs_t": (9000, 70), "rhs": (9000, 1100)}, "float32")
    assert matmul_plan(70, 1100, 9000, "float32").block_k < 9000

    result = evaluate(KERNELS["matmul"].kernel, arrays, chip_named("trn2")).result

    expected = KERNELS["matmul"].reference(**arrays)
    assert np.abs(result - expected).max() <= 2e-5 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"lhs_t": (64, 8), "rhs": (65, 8)}, "contraction extents differ: lhs_t K=64, rhs K=65"),
    ],
)
def test_wrong_shapes_name_the_extents(shapes, message) -> None:
    with pytest.raises(Exception, match=message):
        evaluate(KERNELS["matmul"].kernel, inputs(shapes, "float32"), chip_named("trn2"))


@given(
    m=st.integers(1, 20_000), n=st.integers(1, 20_000), k=st.integers(1, 20_000),
    dtype=st.sampled_from(["float32", "bfloat16"]),
)  # fmt: skip
def test_matmul_plan_fits_and_never_leaves_a_block_empty(m, n, k, dtype) -> None:
    plan = matmul_plan(m, n, k, dtype)

    bytes_per_column = plan.block_k // 128 * numpy_dtype(dtype).itemsize
    assert (plan.block_m + plan.block_n) * bytes_per_column <= OPERAND_BYTES
    assert min(plan.block_m, plan.block_n, plan.block_k) >= 1


@given(extent=st.integers(1, 5000), size=st.integers(1, 700))
def test_spans_cover_the_extent_once(extent, size) -> None:
    covered = [i for span in spans(extent, size) for i in range(span.start, span.stop)]

    assert covered == list(range(extent))


@settings(max_examples=8, deadline=None)
@given(m=st.integers(1, 400), n=st.integers(1, 1200), k=st.integers(1, 400))
def test_matmul_moves_at_least_its_operands_and_never_beats_the_peak(m, n, k) -> None:
    chip = chip_named("trn2")
    arguments = {"lhs_t": TensorSpec((k, m), "bfloat16"), "rhs": TensorSpec((k, n), "bfloat16")}

    metrics = simulate(trace(KERNELS["matmul"].kernel, arguments, chip), chip).metrics

    assert metrics.hbm_read_bytes >= 2 * (k * m + k * n)
    assert metrics.hbm_write_bytes == 2 * m * n
    assert metrics.latency_us >= 2 * m * n * k / chip.peak_flops_per_us("bfloat16")
