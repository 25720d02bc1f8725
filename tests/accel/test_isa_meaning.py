"""What instructions compute, against numpy written another way."""

import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.errors import KernelError
from accel.isa import FUNCTIONS, ISA, OPERATORS
from accel.program import Engine
from tests.accel.programs import hbm, layout, psum, run

RNG = np.random.default_rng(0)
A = RNG.standard_normal((128, 24), np.float32)
B = RNG.standard_normal((128, 24), np.float32)
COLUMN = RNG.standard_normal((128, 1), np.float32)
TILE = layout((128, 24))
ONE = layout((128, 1))


def dst(op, attributes=None, **operands):
    """The result of an instruction whose `dst` is like A unless given."""
    given_dst = operands.pop("dst", TILE)
    return run(op, attributes, dst=given_dst, **operands)[0]["dst"]


def same(got, wanted):
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=2e-6, atol=1e-6)


def test_copies_are_exact_between_equal_dtypes_and_round_otherwise():
    large = np.array([[2**24 + 1, -(2**31)]], np.int32)

    assert (dst("tensor_copy", dst=layout((1, 2), "int32"), src=large) == large).all()
    rounded = dst("tensor_copy", dst=layout((128, 24), "bfloat16"), src=A)
    assert (rounded == A.astype(ml_dtypes.bfloat16)).all()
    assert (dst("dma_copy", dst=hbm((128, 24)), src=A) == A).all()


def test_floats_round_to_nearest_even_and_saturate_in_integers():
    values = np.array([[0.5, 1.5, 2.5, -0.6, 300.0, -300.0, np.nan, np.inf]], np.float32)

    small = dst("tensor_copy", dst=layout((1, 8), "int8"), src=values)
    assert small.tolist() == [[0, 2, 2, -1, 127, -128, 0, 127]]
    unsigned = dst("tensor_copy", dst=layout((1, 8), "uint8"), src=values)
    assert unsigned.tolist() == [[0, 2, 2, 0, 255, 0, 0, 255]]
    word = dst("tensor_copy", dst=layout((1, 1), "int32"), src=np.array([[3e9]], np.float32))
    assert word.tolist() == [[2**31 - 1]]


def test_a_dma_transfer_reshapes_and_transposes():
    flat = dst("dma_copy", dst=layout((64, 48)), src=A)
    turned = dst("dma_transpose", dst=layout((24, 128)), src=A)
    cube = RNG.standard_normal((4, 3, 8), np.float32)

    assert (flat == A.reshape(64, 48)).all()
    assert (turned == A.T).all()
    assert (dst("dma_transpose", dst=layout((8, 3, 4)), src=cube) == cube.transpose(2, 1, 0)).all()


def test_memset_and_selects():
    mask = (A > 0).astype(np.uint8)
    kept = run("tensor_copy_predicated", dst=A, src=B, predicate=mask)[0]["dst"]
    number = {"value": 7.0, "reverse_pred": True}
    filled = run("tensor_copy_predicated", number, dst=A, predicate=mask)[0]["dst"]

    assert (dst("memset", {"value": 2.5}) == 2.5).all()
    assert (kept == np.where(A > 0, B, A)).all()
    assert (filled == np.where(A > 0, A, np.float32(7))).all()
    chosen = dst("select", {"on_false": -1.0}, predicate=mask, on_true=B)
    assert (chosen == np.where(A > 0, B, np.float32(-1))).all()


def test_select_can_reduce_to_row_maxima():
    mask = (A > 0).astype(np.uint8)
    attributes = {"reduce_cmd": "reset_reduce", "on_false": -9.0}
    results, _ = run(
        "select", attributes, dst=TILE, predicate=mask, on_true=B, reduce_res=layout((128, 1))
    )

    assert (results["reduce_res"] == results["dst"].max(axis=1, keepdims=True)).all()


def test_stream_shuffle_moves_partitions_inside_each_32_and_keeps_on_255():
    mask = tuple((p + 1) % 32 if p else 255 for p in range(32))
    result = run("nc_stream_shuffle", {"mask": mask}, dst=A, src=B)[0]["dst"]

    wanted = np.concatenate([np.roll(B[q : q + 32], -1, axis=0) for q in range(0, 128, 32)])
    wanted[::32] = A[::32]
    assert (result == wanted).all()


def matmul(stationary, moving, out=None, **attributes):
    target = psum((stationary.shape[1], moving.shape[1])) if out is None else out
    return run("nc_matmul", attributes, dst=target, stationary=stationary, moving=moving)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 128), st.integers(1, 128), st.integers(1, 512))
def test_matmul_is_the_transposed_product(k, m, n):
    left, right = RNG.standard_normal((k, m), np.float32), RNG.standard_normal((k, n), np.float32)

    got = matmul(left, right)[0]["dst"]
    exact = left.T.astype(np.float64) @ right.astype(np.float64)
    np.testing.assert_allclose(got, exact, atol=1e-6 * k + 1e-6)


def test_matmul_of_narrow_operands_is_accumulated_in_float32():
    left, right = A[:, :8].astype(ml_dtypes.bfloat16), B.astype(ml_dtypes.bfloat16)

    same(matmul(left, right)[0]["dst"], left.astype(np.float64).T @ right.astype(np.float64))


@pytest.mark.parametrize(
    ("accumulate", "wanted"), [("auto", 2), ("true", 2), ("false", 1)], ids=str
)
def test_matmul_adds_to_what_was_written_as_accumulate_says(accumulate, wanted):
    left, right = A[:, :8], B
    once = matmul(left, right)[0]["dst"]
    np.testing.assert_allclose(once, left.astype(np.float64).T @ right, rtol=1e-4, atol=1e-5)

    again = matmul(left, right, out=once.copy(), accumulate=accumulate)[0]["dst"]
    np.testing.assert_array_equal(again, wanted * once)


def test_a_transposing_matmul_keeps_nan_and_infinity():
    data = A[:32, :24].copy()
    data[3, 4], data[5, 6] = np.nan, np.inf

    turned = matmul(data, np.eye(32, dtype=np.float32), is_transpose=True)[0]["dst"]
    np.testing.assert_array_equal(turned, data.T)
    plain = run("nc_transpose", dst=psum((24, 32)), data=data)[0]["dst"]
    np.testing.assert_array_equal(plain, data.T)


def test_a_transposing_matmul_by_anything_but_an_identity_is_a_product():
    narrow = np.eye(32, 16, dtype=np.float32)
    scaled = 2 * np.eye(32, dtype=np.float32)

    for moving in (narrow, scaled):
        got = matmul(A[:32], moving, is_transpose=True)[0]["dst"]
        np.testing.assert_array_equal(got, A[:32].T @ moving)


def test_double_row_contracts_over_partitions_and_the_first_free_axis():
    left = RNG.standard_normal((16, 2, 8), np.float32)
    right = RNG.standard_normal((16, 2, 24), np.float32)
    target = psum((8, 24))
    got = run("nc_matmul", {"perf_mode": "double_row"}, dst=target, stationary=left, moving=right)[
        0
    ]["dst"]

    same(got, np.einsum("krm,krn->mn", left.astype(np.float64), right))


BINARY = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "maximum": lambda a, b: np.where(a > b, a, b),
    "minimum": lambda a, b: np.where(a < b, a, b),
    "abs_max": lambda a, b: np.where(abs(a) > abs(b), a, b),
    "abs_min": lambda a, b: np.where(abs(a) < abs(b), a, b),
    "equal": lambda a, b: (a == b) * 1.0,
    "not_equal": lambda a, b: (a != b) * 1.0,
    "greater": lambda a, b: (a > b) * 1.0,
    "greater_equal": lambda a, b: (a >= b) * 1.0,
    "less": lambda a, b: (a < b) * 1.0,
    "less_equal": lambda a, b: (a <= b) * 1.0,
    "logical_and": lambda a, b: ((a != 0) & (b != 0)) * 1.0,
    "logical_or": lambda a, b: ((a != 0) | (b != 0)) * 1.0,
    "logical_xor": lambda a, b: ((a != 0) ^ (b != 0)) * 1.0,
    "mod": lambda a, b: a - np.floor(a / b) * b,
}


@pytest.mark.parametrize("name", BINARY)
def test_binary_operators(name):
    same(dst("tensor_tensor", {"op": name}, data1=A, data2=B), BINARY[name](A, B))


UNARY = {
    "abs": abs,
    "square": lambda a: a * a,
    "relu": lambda a: a * (a > 0),
    "sqrt": lambda a: abs(a) ** 0.5,
    "rsqrt": lambda a: abs(a) ** -0.5,
    "reciprocal": lambda a: 1 / a,
    "logical_not": lambda a: (a == 0) * 1.0,
    "bypass": lambda a: a,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary_operators_need_no_operand(name):
    data = abs(A) if name.endswith("sqrt") else A

    same(dst("tensor_scalar", {"op0": name}, data=data), UNARY[name](data.astype(np.float64)))


BITS = {
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "left_shift": lambda a, b: (a << b) & 0xFFFFFFFF,
    "right_shift": lambda a, b: a >> b,
    "invert": lambda a, b: ~a & 0xFFFFFFFF,
}


@pytest.mark.parametrize("name", BITS)
def test_bit_operators_work_on_patterns(name):
    words = RNG.integers(0, 2**32, (4, 8), np.uint32)
    shifts = RNG.integers(0, 31, (4, 8), np.uint32)
    target = layout((4, 8), "uint32")
    got = dst("tensor_tensor", {"op": name}, dst=target, data1=words, data2=shifts)

    assert (got == BITS[name](words.astype(np.int64), shifts.astype(np.int64))).all()


def test_a_right_shift_of_a_signed_word_is_logical():
    word = np.array([[-8]], np.int32)
    attributes = {"op0": "right_shift", "operand0": 1}

    got = dst("tensor_scalar", attributes, dst=layout((1, 1), "int32"), data=word)
    assert got.tolist() == [[(2**32 - 8) >> 1]]


def test_every_operator_is_tested():
    assert set(BINARY) | set(UNARY) | set(BITS) | {"power"} == set(OPERATORS)
    power = dst("tensor_tensor", {"op": "power"}, data1=abs(A), data2=B)
    same(power, np.exp(B * np.log(abs(A).astype(np.float64))))


def test_32_bit_integer_arithmetic_is_exact_on_gpsimd_and_rounded_on_vector():
    large = np.array([[2**24 + 1]], np.int32)
    target = layout((1, 1), "int32")
    operands = {"dst": target, "data1": large, "data2": np.array([[2]], np.int32)}

    exact = run("tensor_tensor", {"op": "add"}, **operands)[0]["dst"]
    rounded = run("tensor_tensor", {"op": "add"}, Engine.VECTOR, **operands)[0]["dst"]
    assert exact.tolist() == [[2**24 + 3]]
    assert rounded.tolist() == [[2**24 + 2]]


def test_tensor_scalar_takes_numbers_and_columns_and_reverses():
    attributes = {"op0": "subtract", "operand0": 2.0, "reverse0": True, "op1": "multiply"}

    same(dst("tensor_scalar", attributes, data=A, operand1=COLUMN), (2 - A) * COLUMN)


def test_scalar_tensor_tensor_applies_the_scalar_first():
    attributes = {"op0": "multiply", "op1": "subtract", "reverse1": True}
    got = dst("scalar_tensor_tensor", attributes, data=A, operand0=COLUMN, operand1=B)

    same(got, B - A * COLUMN)


SIGMOID = 1 / (1 + np.exp(-A.astype(np.float64)))
ERF = np.vectorize(math.erf)(A.astype(np.float64))
X = A.astype(np.float64)
ACTIVATIONS = {
    "copy": X,
    "square": X**2,
    "sigmoid": SIGMOID,
    "relu": np.maximum(X, 0),
    "gelu": X * np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)))(X),
    "gelu_apprx_tanh": 0.5 * X * (1 + np.tanh(0.7978845608 * (X + 0.044715 * X**3))),
    "gelu_apprx_sigmoid": X / (1 + np.exp(-1.702 * X)),
    "silu": X * SIGMOID,
    "tanh": np.tanh(X),
    "softplus": np.log(1 + np.exp(X)),
    "mish": X * np.tanh(np.log(1 + np.exp(X))),
    "erf": ERF,
    "exp": np.exp(X),
    "sign": (X > 0) * 2.0 - 1,
    "abs": np.abs(X),
    "reciprocal": 1 / X,
}
_SLOPES = {
    "gelu_dx": "gelu",
    "gelu_apprx_sigmoid_dx": "gelu_apprx_sigmoid",
    "silu_dx": "silu",
    "erf_dx": "erf",
}
_POSITIVE = {"log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: x**-0.5}
_BOUNDED = {"sin": np.sin, "arctan": np.arctan}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_functions(name):
    same(dst("activation", {"func": name}, data=A), ACTIVATIONS[name])


@pytest.mark.parametrize("name", _SLOPES)
def test_derivatives_are_the_slopes_of_their_functions(name):
    step = np.float32(2**-8)
    up, down = (dst("activation", {"func": _SLOPES[name]}, data=A + s) for s in (step, -step))

    got = dst("activation", {"func": name}, data=A)
    np.testing.assert_allclose(got, (up - down) / (2 * step), atol=2e-4)


@pytest.mark.parametrize("name", _POSITIVE)
def test_functions_of_positive_numbers(name):
    same(dst("activation", {"func": name}, data=abs(A)), _POSITIVE[name](abs(X)))


@pytest.mark.parametrize("name", _BOUNDED)
def test_functions_without_range_reduction_are_nan_outside_their_range(name):
    got = dst("activation", {"func": name}, dst=layout((1, 2)), data=np.float32([[1.5, 9.0]]))

    assert got[0, 0] == pytest.approx(_BOUNDED[name](1.5))
    assert np.isnan(got[0, 1])


def test_every_activation_function_is_tested():
    assert set(ACTIVATIONS) | set(_SLOPES) | set(_POSITIVE) | set(_BOUNDED) == set(FUNCTIONS)


def test_activation_scales_adds_the_bias_and_sums():
    attributes = {"func": "exp", "scale": 0.5, "reduce_op": "add"}
    results, _ = run("activation_reduce", attributes, dst=TILE, data=A, bias=COLUMN, reduce_res=ONE)

    wanted = np.exp(0.5 * X + COLUMN)
    same(results["dst"], wanted)
    np.testing.assert_allclose(results["reduce_res"], wanted.sum(axis=1, keepdims=True), rtol=1e-5)


def test_reciprocal():
    same(dst("reciprocal", data=A), 1 / X)


REDUCTIONS = {
    "add": lambda a: a.sum(axis=(1, 2)),
    "maximum": lambda a: a.max(axis=(1, 2)),
    "minimum": lambda a: a.min(axis=(1, 2)),
    "multiply": lambda a: a.prod(axis=(1, 2)),
    "abs_max": lambda a: np.array([max(row.ravel(), key=abs) for row in a]),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_tensor_reduce_over_all_free_axes(name):
    cube = A.reshape(128, 4, 6)
    attributes = {"op": name, "axis": (1, 2)}

    got = dst("tensor_reduce", attributes, dst=ONE, data=cube)
    same(got[:, 0], REDUCTIONS[name](cube.astype(np.float64)))


def test_tensor_reduce_over_the_last_axis_negated():
    attributes = {"op": "add", "axis": (2,), "negate": True}
    got = dst("tensor_reduce", attributes, dst=layout((128, 4)), data=A.reshape(128, 4, 6))

    np.testing.assert_allclose(got, -A.reshape(128, 4, 6).sum(axis=2), rtol=1e-5, atol=1e-6)


def test_tensor_scalar_reduce_gives_both_results():
    attributes = {"op0": "multiply", "reduce_op": "maximum"}
    results, _ = run(
        "tensor_scalar_reduce", attributes, dst=TILE, reduce_res=ONE, data=A, operand0=COLUMN
    )

    same(results["dst"], A * COLUMN)
    assert (results["reduce_res"] == results["dst"].max(axis=1, keepdims=True)).all()


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 24), st.booleans())
def test_a_multiply_add_scan_is_the_recurrence(n, from_column):
    first, second = A[:, :n].copy(), B[:, :n].copy()
    attributes = {"op0": "multiply", "op1": "add"} | ({} if from_column else {"initial": 2.0})
    operands = {"initial": COLUMN} if from_column else {}
    got = dst(
        "tensor_tensor_scan",
        attributes,
        dst=layout((128, n)),
        data0=first,
        data1=second,
        **operands,
    )

    state = COLUMN[:, 0].copy() if from_column else np.full(128, 2, np.float32)
    for i in range(n):
        state = first[:, i] * state + second[:, i]
        np.testing.assert_array_equal(got[:, i], state)


def test_a_cumulative_sum_of_scaled_elements():
    attributes = {"op0": "multiply", "operand0": 2.0, "op1": "add"}
    got = dst("tensor_scalar_cumulative", attributes, src=A)

    np.testing.assert_allclose(got, np.cumsum(2 * X, axis=1), atol=2e-5)


def test_a_reduction_over_partitions():
    row = layout((1, 24))

    for name, wanted in (("add", X.sum(axis=0)), ("maximum", X.max(axis=0))):
        got = dst("tensor_partition_reduce", {"op": name}, dst=row, data=A)
        np.testing.assert_allclose(got[0], wanted, rtol=1e-5, atol=1e-5)
    average = dst("tensor_partition_reduce", {"op": "average"}, dst=row, data=A)
    np.testing.assert_allclose(average[0], X.mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("n", [1, 7, 24])
def test_statistics_aggregate_to_mean_and_variance(n):
    parts = [dst("bn_stats", dst=layout((128, 6)), data=part) for part in (A[:, :n], B)]
    got = dst("bn_aggr", dst=layout((128, 2)), data=np.concatenate(parts, axis=1))

    whole = np.concatenate([A[:, :n], B], axis=1).astype(np.float64)
    np.testing.assert_allclose(got[:, 0], whole.mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(got[:, 1], whole.var(axis=1), rtol=1e-5)


def test_iota_counts_by_pattern_partition_and_offset():
    attributes = {"pattern": (100, 4, 1, 6), "offset": 7, "channel_multiplier": -1000}
    got = dst("iota", attributes, dst=layout((128, 24), "int32"))

    p, i, j = np.meshgrid(np.arange(128), np.arange(4), np.arange(6), indexing="ij")
    assert (got.reshape(128, 4, 6) == 7 - 1000 * p + 100 * i + j).all()


def test_affine_select_makes_a_causal_mask():
    attributes = {
        "pattern": (-1, 24),
        "channel_multiplier": 1,
        "cmp": "greater_equal",
        "on_false": -1e9,
    }
    got = dst("affine_select", attributes, on_true=A)

    lower = np.arange(128)[:, None] >= np.arange(24)[None, :]
    assert (got == np.where(lower, A, np.float32(-1e9))).all()


def test_range_select_keeps_what_lies_between_the_bounds():
    low, high = np.full((128, 1), 3, np.float32), np.full((128, 1), 9, np.float32)
    attributes = {"comp_op0": "greater_equal", "comp_op1": "less", "range_start": 1.0}
    results, _ = run(
        "range_select",
        attributes,
        dst=TILE,
        reduce_res=ONE,
        on_true=A,
        bound0=low,
        bound1=high,
    )

    assert (results["dst"][:, 2:8] == A[:, 2:8]).all()
    assert (results["dst"][:, 8:] == np.finfo(np.float32).min).all()
    assert (results["reduce_res"][:, 0] == A[:, 2:8].max(axis=1)).all()


def test_sequence_bounds_and_padding():
    ids = np.array([[1, 1, 2, 2, 2, 0, 0]], np.int32)
    got = dst("sequence_bounds", dst=layout((1, 2, 7), "int32"), segment_ids=ids)

    assert got[0].tolist() == [[0, 0, 2, 2, 2, 7, 7], [2, 2, 5, 5, 5, -1, -1]]


def test_max8_and_index_search_agree_with_a_sort():
    top = dst("max8", dst=layout((128, 8)), src=A)
    places = dst("nc_find_index8", dst=layout((128, 8), "uint32"), data=A, vals=top)

    assert (top == -np.sort(-A, axis=1)[:, :8]).all()
    assert (np.take_along_axis(A, places.astype(np.int64), axis=1) == top).all()


def test_searches_pair_duplicates_and_mark_misses():
    data = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    vals = np.array([[3, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    index = layout((1, 8), "uint16")
    replaced, _ = run(
        "nc_match_replace8",
        {"imm": -1.0},
        dst=layout((1, 11)),
        dst_idx=index,
        data=data,
        vals=vals,
    )
    found = dst("nc_find_index8", dst=index, data=data, vals=vals + np.float32([[90] + [0] * 7]))

    assert replaced["dst_idx"].tolist() == [[2, 10, 9, 8, 7, 6, 5, 4]]
    assert replaced["dst"].tolist() == [[1, 2, -1, 4] + [-1] * 7]
    assert found.tolist() == [[0xFFFF, 4, 5, 6, 7, 8, 9, 10]]


def test_gathers_inside_a_partition_and_inside_sixteen():
    picks = RNG.integers(0, 24, (128, 5), np.uint32)
    inside = dst("nc_n_gather", dst=layout((128, 5)), data=A, indices=picks)
    index = RNG.integers(0, 11, (128, 2)).astype(np.uint16)
    target = layout((128, 32, 2))
    groups = dst("local_gather", {"num_elem_per_idx": 2}, dst=target, src_buffer=A, index=index)

    assert (inside == np.take_along_axis(A, picks.astype(np.int64), axis=1)).all()
    for p in (0, 17, 127):
        starts = index[p // 16 * 16 : p // 16 * 16 + 16].T.reshape(-1).astype(np.int64)
        assert (groups[p] == np.stack([A[p, starts], A[p, starts + 1]], axis=1)).all()


def test_an_indirect_transfer_gathers_and_scatters_rows():
    index = np.array([[3], [0], [2], [3]], np.uint32)
    table, rows = RNG.standard_normal((8, 5), np.float32), layout((4, 5))
    gather = {"src_index": "vector:20"}
    got = run("dma_copy", gather, dst=rows, src=table, src_index=index)[0]["dst"]
    places = np.array([[1], [4], [0], [6]], np.uint32)
    scatter = {"dst_index": "vector:20"}
    written = run("dma_copy", scatter, dst=table, src=got, dst_index=places)[0]["dst"]

    assert (got == table[[3, 0, 2, 3]]).all()
    assert (written[[1, 4, 0, 6]] == got).all()
    assert (written[[2, 3, 5, 7]] == table[[2, 3, 5, 7]]).all()


def test_an_index_outside_the_table_is_an_error_or_skipped():
    index, table = np.array([[1], [9]], np.uint32), A[:8, :5].copy()
    operands = {"dst": np.zeros((2, 5), np.float32), "src": table, "src_index": index}

    with pytest.raises(KernelError, match=r"index 9 is outside the 8 rows of src \(kernel.py:1\)"):
        run("dma_copy", {"src_index": "vector:20"}, **operands)
    skip = {"src_index": "vector:20", "oob_mode": "skip"}
    got = run("dma_copy", skip, **operands)[0]["dst"]
    assert (got == np.stack([table[1], np.zeros(5)])).all()


def test_every_instruction_has_a_meaning_test():
    files = Path(__file__).parent.rglob("test_*.py")
    text = "".join(file.read_text(encoding="utf-8") for file in files)

    assert [name for name in ISA if f'"{name}"' not in text] == []


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_an_activation_takes_no_negative_zero(function):
    """Its bias of 0 is added first: -0 + 0 is 0, which a later reciprocal tells from -0."""
    zeros = np.array([[-0.0, 0.0]], np.float32)

    got = run("activation", {"func": function}, dst=np.zeros((1, 2), np.float32), data=zeros)
    result = got[0]["dst"]

    np.testing.assert_array_equal(np.signbit(result[:, 0]), np.signbit(result[:, 1]))
    np.testing.assert_array_equal(result[:, 0], result[:, 1])
