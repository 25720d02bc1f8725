"""The numeric choices: float32 beside narrower floats, and float32 products in passes."""

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.chip import CHIPS
from accel.errors import UserError
from accel.nki.jit import evaluate, jit
from accel.sim.numerics import Numerics, numerics_of
from accel.sim.wide import values_for

Array = npt.NDArray[np.generic]
WIDE, DEVICE = Numerics(precise=False), Numerics(fp32_matmul="device")


@jit
def rounded_sum(x, y):
    """x + y through bfloat16 tiles, doubled in place."""
    out = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    left = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    right = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=x)
    nisa.dma_copy(dst=right, src=y)
    nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
    nisa.tensor_scalar(dst=left, data=left, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=left)
    return out


@jit
def bits_cleared(x):
    """x as bfloat16 with its lowest 4 bits overwritten through an integer view."""
    out = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    bits = tile.view(nl.uint16)
    nisa.tensor_scalar(dst=bits, data=bits, op0=nl.bitwise_and, operand0=0xFFF0)
    nisa.dma_copy(dst=out, src=tile)
    return out


@jit
def product(left_t, right):
    """left_t.T @ right."""
    out = nl.ndarray((left_t.shape[1], right.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    stationary = nl.ndarray(left_t.shape, dtype=left_t.dtype, buffer=nl.sbuf)
    moving = nl.ndarray(right.shape, dtype=right.dtype, buffer=nl.sbuf)
    psum = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.psum)
    result = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=stationary, src=left_t)
    nisa.dma_copy(dst=moving, src=right)
    nisa.nc_matmul(dst=psum, stationary=stationary, moving=moving)
    nisa.tensor_copy(dst=result, src=psum)
    nisa.dma_copy(dst=out, src=result)
    return out


def run(kernel, numerics: Numerics, **arguments: Array) -> Array:
    result = evaluate(kernel, arguments, CHIPS["trn2"], (), values_for(numerics)).result
    assert isinstance(result, np.ndarray)
    return result


def normal(seed: int, *shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def test_without_precise_storage_only_float32_rounding_is_left() -> None:
    x, y = normal(0, 128, 64), normal(1, 128, 64)
    exact, wide = run(rounded_sum, Numerics(), x=x, y=y), run(rounded_sum, WIDE, x=x, y=y)

    assert exact.dtype != np.float32
    assert wide.dtype == np.float32
    np.testing.assert_array_equal(wide, 2 * (x + y))
    assert np.abs(exact.astype(np.float32) - wide).max() > 1e-3


def test_bytes_written_through_another_dtype_count() -> None:
    x = normal(2, 128, 32)

    wide, exact = run(bits_cleared, WIDE, x=x), run(bits_cleared, Numerics(), x=x)

    bits = exact.view(np.uint16)
    assert not (bits & 0xF).any()
    changed = wide != x
    np.testing.assert_array_equal(wide[changed], exact.astype(np.float32)[changed])
    assert changed.mean() > 0.8


def test_float32_products_have_the_error_of_the_machine() -> None:
    left, right = normal(3, 128, 128), normal(4, 128, 256)
    true = left.astype(np.float64).T @ right.astype(np.float64)
    errors = [
        np.linalg.norm(run(product, numerics, left_t=left, right=right) - true)
        / np.linalg.norm(true)
        for numerics in (Numerics(), DEVICE)
    ]

    assert errors[0] < 1e-6
    assert 1.3e-5 < errors[1] < 1.6e-5  # 1.46e-5 was measured on trn2


def test_products_of_narrow_floats_are_the_same_on_the_device() -> None:
    left, right = (normal(n, 128, 64).astype(ml_dtypes.bfloat16) for n in (5, 6))

    np.testing.assert_array_equal(
        run(product, Numerics(), left_t=left, right=right),
        run(product, DEVICE, left_t=left, right=right),
    )


def test_infinities_and_zeros_stay_what_they_are_in_passes() -> None:
    left = np.zeros((128, 4), np.float32)
    left[0] = [np.inf, -np.inf, 0, 1e38]
    right = np.ones((128, 8), np.float32)

    result = run(product, DEVICE, left_t=left, right=right)

    np.testing.assert_allclose(result, np.repeat(left[:1].T, 8, axis=1), rtol=1e-4)


def test_the_environment_chooses() -> None:
    assert numerics_of({}) == Numerics()
    assert numerics_of({"NKI_PRECISE_FP": "0"}, "device") == Numerics(False, "device")
    with pytest.raises(UserError, match="NKI_PRECISE_FP is 'no'"):
        numerics_of({"NKI_PRECISE_FP": "no"})
    with pytest.raises(UserError, match="unknown float32 matmul 'fast'"):
        numerics_of({}, "fast")


def test_a_call_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = normal(0, 128, 8), normal(1, 128, 8)
    monkeypatch.setenv("NKI_PRECISE_FP", "0")

    np.testing.assert_array_equal(rounded_sum(x, y), 2 * (x + y))


def test_what_nothing_wrote_is_not_a_number_in_wide_evaluation(monkeypatch) -> None:
    @jit
    def kernel(x):
        out = nl.ndarray((64, 64), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        nisa.dma_copy(out[0:1], x)
        return out

    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    x = np.ones((1, 64), ml_dtypes.bfloat16)
    result = np.asarray(evaluate(kernel, {"x": x}, CHIPS["trn2"]).result, np.float32)

    assert (result[0] == 1).all()
    assert np.isnan(result[1:]).all()
