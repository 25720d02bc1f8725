"""Searches and pipelines of newer machines against numpy written another way."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.chip import CHIPS
from accel.errors import KernelError
from accel.isa import check, row
from accel.program import Engine
from tests.accel.programs import form, layout, run

RNG = np.random.default_rng(2)
A = RNG.standard_normal((128, 24), np.float32)
TRN2, TRN3 = CHIPS["trn2"], CHIPS["trn3"]
ONE = layout((128, 1))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0, -2.0]), min_size=1, max_size=12), st.integers(0, 99))
def test_nonzero_with_count_lists_positions_padding_and_count(values, offset):
    lane = np.array(values, np.float32)
    source = np.tile(lane, (32, 1))
    attributes = {"index_offset": offset, "padding_val": -7}

    found = run(
        "nonzero_with_count", attributes, dst=layout((32, len(lane) + 1), "int32"), src=source
    )[0]["dst"]

    positions = [i + offset for i, value in enumerate(values) if value]
    wanted = positions + [-7] * (len(values) - len(positions)) + [len(positions)]
    assert found[0].tolist() == found[16].tolist() == wanted


def test_nonzero_with_count_touches_one_partition_of_sixteen():
    source = layout((32, 4))
    _, values = run("nonzero_with_count", dst=layout((32, 5), "int32"), src=source)

    (finding,) = values.uninitialised
    assert (finding.operand, finding.count) == ("src", 2 * 4)
    copied = form("tensor_copy", dst=layout((32, 5), "int32"), src=layout((32, 5), "int32"))
    values.execute(copied, [(0, 0), (0, 0)], "kernel.py:2")
    assert values.uninitialised[1].count == 30 * 5


@pytest.mark.parametrize("n", [42, 48])
def test_topk_is_of_the_list_that_sixteen_partitions_hold(n):
    numbers = RNG.permutation(96).astype(ml_dtypes.bfloat16).reshape(32, 3)
    outputs = {"val_dst": layout((32, 8), "bfloat16"), "idx_dst": layout((32, 8), "uint32")}

    found = run("topk", {"n": n}, **outputs, src=numbers)[0]

    for lane in (0, 5, 31):
        first = lane // 16 * 16
        listed = [float(numbers[first + i % 16, i // 16]) for i in range(n)]
        best = sorted(range(n), key=lambda i: listed[i])[-8:]
        assert found["idx_dst"][lane].tolist() == best
        assert found["val_dst"][lane].astype(float).tolist() == [listed[i] for i in best]


def test_topk_costs_what_is_published():
    outputs = {"val_dst": layout((16, 8), "bfloat16"), "idx_dst": layout((16, 8), "uint32")}
    listed = form("topk", Engine.ANY, {"n": 100}, **outputs, src=layout((16, 7), "bfloat16"))

    assert row("topk").cost(listed, TRN2, Engine.GPSIMD).issue == 4 * 100 + 8
    short = form("topk", Engine.ANY, {"n": 100}, **outputs, src=layout((16, 6), "bfloat16"))
    with pytest.raises(KernelError, match="src holds 96 elements a group, n is 100"):
        check(short, TRN2)


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ({"op0": "multiply", "imm0": 2.0, "op1": "add", "imm1": 0.5}, A * 2 + 0.5),
        ({"op0": "multiply", "imm0": 2.0, "op1": "subtract", "imm1": 0.5}, A * 2 - 0.5),
        ({"op0": "subtract", "imm0": 2.0, "reverse0": True}, 2 - A),
        ({"op0": "bypass", "op1": "bypass"}, A),
    ],
)
def test_activate2_computes_before_its_function(attributes, wanted):
    given_all = {"func": "tanh", "imm0": 0.0, "imm1": 0.0} | attributes
    result = run("activate2", given_all, dst=layout((128, 24)), data=A)[0]["dst"]

    np.testing.assert_allclose(result, np.tanh(wanted), rtol=1e-5, atol=1e-6)


def test_activate2_has_a_slope_for_prelu():
    slope = np.linspace(0, 1, 128, dtype=np.float32)[:, None]
    attributes = {"func": "prelu", "op0": "bypass", "op1": "bypass"}

    result = run("activate2", attributes, dst=layout((128, 24)), data=A, relu_param=slope)[0]["dst"]

    np.testing.assert_allclose(result, np.where(A >= 0, A, A * slope), rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "fold"),
    [
        ("add", lambda a: a.sum(1)),
        ("maximum", lambda a: a.max(1)),
        ("minimum", lambda a: a.min(1)),
        ("abs_max", lambda a: a[range(128), abs(a).argmax(1)]),
        ("abs_min", lambda a: a[range(128), abs(a).argmin(1)]),
    ],
)
def test_activate2_reduces_with_more_than_sums(op, fold):
    attributes = {"func": "copy", "op0": "bypass", "op1": "bypass", "reduce_op": op}
    attributes |= {"reduce_cmd": "reset_reduce"}

    result = run("activate2", attributes, dst=layout((128, 24)), reduce_res=ONE, data=A)[0]

    np.testing.assert_allclose(result["reduce_res"][:, 0], fold(A), rtol=2e-5, atol=1e-5)


def test_activate2_has_six_front_stages_and_needs_trn3():
    attributes = {"func": "copy", "op0": "add", "imm0": 1.0, "op1": "multiply", "imm1": 1.0}
    wrong = form("activate2", Engine.ANY, attributes, dst=(128, 24), data=(128, 24))

    with pytest.raises(KernelError, match="op0, op1 are add-multiply, must be one of"):
        check(wrong, TRN3)
    with pytest.raises(KernelError, match="not available on trn2"):
        check(wrong, TRN2)


def test_exponential_subtracts_the_maximum_and_sums():
    highest = A.max(axis=1, keepdims=True)
    attributes = {"reduce_cmd": "reset_reduce"}
    operands = {"dst": layout((128, 24)), "reduce_res": ONE, "src": A, "max_value": highest}

    result = run("exponential", attributes, **operands)[0]

    wanted = np.vectorize(math.exp)(A.astype(np.float64) - highest)
    np.testing.assert_allclose(result["dst"], wanted, rtol=1e-5)
    np.testing.assert_allclose(result["reduce_res"][:, 0], wanted.sum(1), rtol=1e-5)


def test_exponential_continues_from_a_value():
    attributes = {"reduce_cmd": "load_reduce", "reduce_init": 10.0}
    result = run("exponential", attributes, dst=layout((128, 24)), reduce_res=ONE, src=A)[0]

    np.testing.assert_allclose(result["reduce_res"][:, 0], np.exp(A).sum(1) + 10, rtol=1e-5)
    idle = form("exponential", Engine.ANY, {"reduce_init": 1.0}, dst=(128, 24), src=(128, 24))
    with pytest.raises(KernelError, match="reduce_init is given, which needs reduce_cmd load_red"):
        check(idle, TRN3)


def test_exponential_is_four_times_as_fast_as_the_scalar_engine():
    tile = {"dst": layout((128, 4096)), "src": layout((128, 4096))}
    fast = row("exponential").cost(form("exponential", **tile), TRN3, Engine.VECTOR)

    assert fast.issue - TRN3.vector_overhead_cycles == 4096 // 4


def test_local_gather_takes_an_index_an_element():
    picks = RNG.integers(0, 24, (128, 2)).astype(np.uint16)
    attributes = {"num_valid_indices": 20}
    short = form(
        "local_gather", Engine.ANY, attributes,
        dst=layout((128, 16)), src_buffer=layout((128, 24)), index=layout((128, 2), "uint16"),
    )  # fmt: skip

    taken = run("local_gather", attributes, dst=layout((128, 20)), src_buffer=A, index=picks)

    order = picks[16:32].T.reshape(-1)[:20]
    assert (taken[0]["dst"][17] == A[17, order]).all()
    with pytest.raises(KernelError, match="dst has 16 elements a partition, must have 20"):
        check(short, TRN2)


def test_a_shuffle_may_read_fewer_partitions_than_it_writes():
    spread = run("nc_stream_shuffle", {"mask": (0,) * 32}, dst=layout((32, 24)), src=A[:1])

    assert (spread[0]["dst"] == A[0]).all()
    far = form(
        "nc_stream_shuffle", Engine.ANY, {"mask": (1,) * 32}, dst=layout((8, 4)), src=layout((1, 4))
    )
    with pytest.raises(KernelError, match="mask has 1, must be below 1 or 255"):
        check(far, TRN2)
