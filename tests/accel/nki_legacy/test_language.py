"""Functions of the older language against numpy, each with the instructions it becomes."""

from __future__ import annotations

import numpy as np
import pytest

from accel.errors import KernelError
from accel.nki.legacy import language as nl
from tests.accel.nki_legacy.running import counts, numbers, result, run

X = numbers(128, 32)
Y = numbers(128, 32, seed=1)
COLUMN = numbers(128, 1, seed=2)


def apply(function, *tensors, shape=None, dtype=np.float32):
    """Runs `function` on loaded tiles and stores what it returns."""

    def kernel(*arrays):
        tile = function(*[nl.load(array) for array in arrays])
        out = nl.ndarray(shape or tensors[0].shape, dtype=dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    def named(x, y=None, z=None):
        return kernel(*[array for array in (x, y, z) if array is not None])

    evaluation = run(named, *tensors)
    instructions = counts(evaluation.program)
    del instructions["dma_copy"]
    return evaluation.result, instructions


@pytest.mark.parametrize(
    ("function", "expected", "instructions"),
    [
        (lambda x, y: x + y, X + Y, {"tensor_tensor": 1}),
        (lambda x, y: nl.subtract(x, y), X - Y, {"tensor_tensor": 1}),
        (lambda x, y: nl.maximum(x, y), np.maximum(X, Y), {"tensor_tensor": 1}),
        (lambda x, y: 2.0 - x, 2 - X, {"tensor_scalar": 1}),
        (lambda x, y: x / 4.0, X / 4, {"tensor_scalar": 1}),
        (lambda x, y: np.float32(3) * x, 3 * X, {"tensor_scalar": 1}),
        (lambda x, y: -x, -X, {"tensor_scalar": 1}),
        (lambda x, y: nl.exp(x), np.exp(X), {"activation": 1}),
        (lambda x, y: nl.square(x), X * X, {"activation": 1}),
        (lambda x, y: nl.copy(x), X, {"tensor_copy": 1}),
        (lambda x, y: nl.reciprocal(x), 1 / X, {"reciprocal": 1}),
        (lambda x, y: nl.negative(x), -X, {"tensor_scalar": 1}),
    ],
)
def test_an_operator_is_one_instruction(function, expected, instructions):
    values, issued = apply(function, X, Y)

    assert np.allclose(values, expected, rtol=1e-6)
    assert issued == instructions


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, c: nl.subtract(x, c), X - COLUMN),
        (lambda x, c: nl.subtract(c, x), COLUMN - X),
        (lambda x, c: c / x, COLUMN / X),
    ],
)
def test_one_value_a_partition_is_a_scalar_operand(function, expected):
    values, issued = apply(function, X, COLUMN)

    assert np.allclose(values, expected, rtol=1e-6)
    assert issued == {"tensor_scalar": 1}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: nl.max(x, axis=1), X.max(1)),
        (lambda x: nl.sum(x, axis=[1], keepdims=True), X.sum(1)),
        (lambda x: nl.min(x, axis=-1), X.min(1)),
        (lambda x: nl.mean(x, axis=1), X.mean(1)),
        (lambda x: nl.var(x, axis=1), X.var(1)),
    ],
)
def test_reductions_leave_one_value_a_partition(function, expected):
    values, _ = apply(function, X, shape=(128, 1))

    assert np.allclose(values[:, 0], expected, rtol=1e-4, atol=1e-6)


def test_a_reduction_takes_any_free_axes_as_one_instruction():
    cube = numbers(128, 4, 3, 8, 2)
    values, issued = apply(lambda x: nl.sum(x, axis=[2, 4]), cube, shape=(128, 4, 8))

    assert np.allclose(values, cube.sum(axis=(2, 4)), rtol=1e-5, atol=1e-5)
    assert issued == {"tensor_reduce": 1}


def test_softmax_and_rms_norm_mean_what_they_say():
    softmax, _ = apply(lambda x: nl.softmax(x, axis=1), X)
    power = np.exp(X - X.max(1, keepdims=True))
    normed, _ = apply(lambda x: nl.rms_norm(x, nl.ones((128, 32), nl.float32), 1, 32), X)

    assert np.allclose(softmax, power / power.sum(1, keepdims=True), rtol=1e-5)
    assert np.allclose(normed, X / np.sqrt((X * X).mean(1, keepdims=True) + 1e-6), rtol=1e-5)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, y: nl.where(x > y, x, y), np.maximum(X, Y)),
        (lambda x, y: nl.where(x > 0.0, x, 0.0), np.maximum(X, 0)),
        (lambda x, y: nl.where(nl.less(x, 0.0), 0.0, x), np.maximum(X, 0)),
    ],
)
def test_where_chooses_element_by_element(function, expected):
    values, issued = apply(function, X, Y)

    assert np.array_equal(values, expected)
    assert issued["select"] == 1


def test_index_expressions_read_and_write_strided_patterns():
    def kernel(x):
        out = nl.ndarray((128, 32), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        swapped = nl.ndarray((128, 32), dtype=nl.float32)
        rows = nl.arange(128)[:, None, None]
        i, j = nl.arange(4)[None, :, None], nl.arange(8)[None, None, :]
        swapped[rows, 4 * j + i] = nl.copy(tile[rows, 8 * i + j])
        nl.store(out, swapped)
        return out

    evaluation = run(kernel, X)

    expected = X.reshape(128, 4, 8).transpose(0, 2, 1).reshape(128, 32)
    assert np.array_equal(evaluation.result, expected)
    assert counts(evaluation.program) == {"dma_copy": 2, "tensor_copy": 1}


def test_slices_and_expressions_mix_in_one_view():
    def kernel(x):
        out = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nl.store(out, nl.copy(tile[0:64, 4 * nl.arange(8)]))
        return out

    assert np.array_equal(result(kernel, X), X[:64, ::4])


def masked_rows(x):
    rows = x.shape[0]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    grid = nl.mgrid[0:128, 0:32]
    for block in nl.affine_range(-(-rows // 128)):
        inside = 128 * block + grid.p < rows
        tile = nl.load(x[128 * block + grid.p, grid.x], mask=inside)
        largest = nl.max(tile, axis=1, mask=inside)
        shifted = nl.subtract(tile, largest, mask=inside)
        nl.store(out[128 * block + grid.p, grid.x], nl.exp(shifted, mask=inside), mask=inside)
    return out


@pytest.mark.parametrize("rows", [128, 200, 256, 257])
def test_a_mask_clips_every_instruction_to_the_tensor(rows):
    x = numbers(rows, 32)
    evaluation = run(masked_rows, x)

    assert np.allclose(evaluation.result, np.exp(x - x.max(1, keepdims=True)), rtol=1e-6)
    assert evaluation.uninitialised == ()


def test_a_mask_that_holds_nowhere_issues_nothing():
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        grid = nl.mgrid[0:128, 0:32]
        nl.store(out, tile)
        nl.store(out[grid.p, grid.x], 2.0 * tile, mask=grid.p >= 128)
        tile[...] = nl.exp(tile, mask=grid.p < 0)
        return out

    evaluation = run(kernel, X)

    assert np.array_equal(evaluation.result, X)
    assert counts(evaluation.program) == {"dma_copy": 2, "tensor_scalar": 1}


def test_an_access_beyond_the_tensor_needs_a_mask():
    def kernel(x):
        return nl.load(x[nl.arange(128)[:, None] + 100, nl.arange(32)[None, :]])

    with pytest.raises(KernelError, match=r"100 to 227 of an axis of extent 128.*language\.py"):
        run(kernel, X)


def test_programs_of_a_grid_share_their_output():
    def kernel(x, y):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        rows = 64 * nl.program_id(0) + nl.arange(64)[:, None]
        columns = 8 * nl.program_id(1) + nl.arange(8)[None, :]
        nl.store(out[rows, columns], nl.load(x[rows, columns]) + nl.load(y[rows, columns]))
        assert nl.num_programs() == 8
        return out

    evaluation = run(kernel, X, Y, grid=(2, 4))

    assert np.array_equal(evaluation.result, X + Y)
    assert counts(evaluation.program)["tensor_tensor"] == 8


def test_constants_are_loaded_like_inputs():
    def kernel(x):
        out = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
        eye = nl.load(nl.shared_identity_matrix(128, dtype=nl.float32))
        three = nl.load(nl.shared_constant(np.full((128, 128), 3, np.int8), dtype=nl.float32))
        nl.store(out, eye * three)
        return out

    assert np.array_equal(result(kernel, X), 3 * np.identity(128))


def test_a_name_the_language_does_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no 'all_reduce'"):
        nl.all_reduce  # noqa: B018


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (nl.floor, np.floor),
        (nl.ceil, np.ceil),
        (nl.trunc, np.trunc),
        (nl.cos, np.cos),
        (nl.tan, np.tan),
    ],
)
def test_functions_without_an_instruction_of_their_own_agree_with_numpy(function, expected):
    angles = np.clip(X, -1.4, 1.4)

    assert np.allclose(apply(function, angles)[0], expected(angles), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("function", [nl.floor, nl.ceil, nl.trunc])
def test_rounding_keeps_whole_numbers(function):
    whole = np.tile(np.float32([-2, 0, 3]), (128, 1))

    assert np.array_equal(apply(function, whole)[0], whole)


def test_gather_flattened_takes_positions_of_all_free_axes():
    data = numbers(128, 4, 8)
    indices = np.random.default_rng(1).integers(0, 32, (128, 2, 3)).astype(np.uint32)

    values, issued = apply(nl.gather_flattened, data, indices, shape=(128, 2, 3))

    flat = np.take_along_axis(data.reshape(128, -1), indices.reshape(128, -1).astype(int), 1)
    assert np.array_equal(values, flat.reshape(128, 2, 3))
    assert issued == {"nc_n_gather": 1}
