"""Microscaled numbers: what is stored, what it means, and the product of two such tiles."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.chip import CHIPS
from accel.errors import KernelError
from accel.isa import check
from accel.isa.mx import scale_rows, unpacked
from accel.program import Engine
from tests.accel.programs import form, layout, psum, run

RNG = np.random.default_rng(3)
TRN3 = CHIPS["trn3"]
E4M3, E5M2, FP4 = "float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"


def quantised(values, dtype=E4M3, scale="uint8"):
    """(packed, scales) of a bfloat16 tile."""
    lanes, columns = values.shape[0], values.shape[1] // 4
    written = run(
        "quantize_mx",
        dst=layout((lanes, columns), dtype),
        dst_scale=layout((lanes, columns), scale),
        src=values.astype(ml_dtypes.bfloat16),
    )[0]
    return written["dst"], written["dst_scale"]


def restored(packed, scales, dtype):
    """The numbers, written out element by element."""
    numbers = unpacked(packed, dtype)
    result = np.empty(numbers.shape, np.float64)
    for lane in range(len(numbers)):
        row = scales[lane // 32 * 32 + lane % 32 // 8].view(np.uint8).astype(np.float64)
        result[lane] = numbers[lane] * 2.0 ** (row - 127)[:, None]
    return result.reshape(len(numbers), -1)


@pytest.mark.parametrize(("dtype", "error"), [(E4M3, 2**-4), (E5M2, 2**-3)])
def test_quantising_keeps_numbers_within_half_a_step(dtype, error):
    values = RNG.standard_normal((64, 32)).astype(ml_dtypes.bfloat16).astype(np.float64)
    largest = abs(values).reshape(8, 8, 8, 4).max(axis=(1, 3)).repeat(8, 0).repeat(4, 1)

    packed, scales = quantised(values, dtype)

    difference = abs(restored(packed, scales, dtype) - values)
    assert (difference <= np.maximum(abs(values) * error, largest * 2.0**-14)).all()


@settings(max_examples=30, deadline=None)
@given(st.floats(2.0**-100, 2.0**100), st.sampled_from([(E4M3, 8), (E5M2, 15)]))
def test_a_scale_is_the_power_of_two_that_leaves_a_bit_of_range(largest, kind):
    dtype, exponent = kind
    tile = np.zeros((32, 4))
    tile[3, 1] = -largest
    top = float(np.float32(abs(tile).max().astype(ml_dtypes.bfloat16)))

    _, scales = quantised(tile, dtype)

    assert scales[0, 0] == np.floor(np.log2(top)) - (exponent - 1) + 127
    assert scales[1, 0] == 0


def test_scales_go_to_the_first_four_partitions_of_each_quadrant():
    assert scale_rows(128).tolist() == [q * 32 + i for q in range(4) for i in range(4)]
    assert scale_rows(32).tolist() == [0, 1, 2, 3]
    with pytest.raises(KernelError, match="dst_scale has 99 partitions, must have 100 or more"):
        check(
            form(
                "quantize_mx",
                dst=layout((128, 8), E4M3),
                dst_scale=layout((99, 8), "uint8"),
                src=layout((128, 32), "bfloat16"),
            ),
            TRN3,
        )


def test_four_bit_numbers_unpack_from_the_lowest_digit():
    word = np.array([[0x0123 | 0x8000]], np.uint16)

    assert unpacked(word, FP4).tolist() == [[[1.5, 1.0, 0.5, -0.0]]]


@pytest.mark.parametrize("dtype", [E4M3, FP4])
@pytest.mark.parametrize("scale", ["uint8", "float8_e8m0fnu"])
def test_a_product_is_that_of_the_restored_numbers(dtype, scale):
    def operand(columns):
        size = {E4M3: np.uint32, FP4: np.uint16}[dtype]
        numbers = RNG.integers(0, 2**16, (64, columns)).astype(size)
        scales = RNG.integers(120, 130, (64, columns)).astype(np.uint8)
        return numbers, scales

    (left, left_scale), (right, right_scale) = operand(8), operand(16)
    written, _ = run_product(left, right, left_scale, right_scale, dtype, scale)

    wide = [
        restored(tile, scales, dtype).reshape(64, -1, 4).transpose(0, 2, 1).reshape(256, -1)
        for tile, scales in ((left, left_scale), (right, right_scale))
    ]
    np.testing.assert_allclose(written["dst"], wide[0].T @ wide[1], rtol=1e-5, atol=1e-4)


def run_product(left, right, left_scale, right_scale, dtype, scale):
    """nc_matmul_mx of arrays that hold the bits of packed numbers and of scales."""
    from accel.program import Kind, Storage
    from accel.sim.evaluate import Values

    kinds = {"stationary": dtype, "moving": dtype, "stationary_scale": scale, "moving_scale": scale}
    arrays = dict(zip(kinds, (left, right, left_scale, right_scale), strict=True))
    layouts = {"dst": psum((left.shape[1], right.shape[1]))}
    layouts |= {name: layout(arrays[name].shape, kinds[name]) for name in kinds}
    values, built = Values(), form("nc_matmul_mx", **layouts)
    check(built, TRN3)
    for number, (name, each) in enumerate(layouts.items()):
        given = arrays.get(name)
        if given is not None and scale != "uint8" and name.endswith("_scale"):
            given = given.view(ml_dtypes.float8_e8m0fnu)
        storage = Storage(name, each.memory, each.dtype, each.shape, Kind.SCRATCH)
        values.allocate(number, storage, given)
    values.execute(built, [(number, 0) for number in range(len(layouts))], "kernel.py:1")
    return {"dst": values.array(0)}, values


def test_only_the_partitions_that_hold_scales_need_be_written():
    source = RNG.standard_normal((128, 16)).astype(ml_dtypes.bfloat16)
    operands = {
        "dst": layout((128, 4), E4M3),
        "dst_scale": layout((128, 4), "uint8"),
        "src": source,
    }

    _, values = run("quantize_mx", **operands)

    copied = form("tensor_copy", dst=layout((128, 4), "uint8"), src=layout((128, 4), "uint8"))
    values.execute(copied, [(0, 0), (1, 0)], "kernel.py:2")
    (finding,) = values.uninitialised
    assert (finding.count, finding.first) == (112 * 4, (4, 0))


def test_mx_needs_trn3_and_even_rows():
    layouts = {
        "dst": psum((7, 16)),
        "stationary": layout((64, 7), E4M3),
        "moving": layout((64, 16), E4M3),
        "stationary_scale": layout((64, 7), "uint8"),
        "moving_scale": layout((64, 16), "uint8"),
    }
    product = form("nc_matmul_mx", **layouts)

    with pytest.raises(KernelError, match="not available on trn2"):
        check(product, CHIPS["trn2"])
    with pytest.raises(KernelError, match="stationary has 7 columns, must be even"):
        check(product, TRN3)
    layouts |= {"dst": psum((8, 16)), "stationary": layout((64, 8), E4M3)}
    with pytest.raises(KernelError, match="stationary_scale has 7 elements a partition, must"):
        check(form("nc_matmul_mx", **layouts), TRN3)


def test_the_product_takes_the_time_of_a_bfloat16_one():
    packed, halves = layout((128, 512), E4M3), layout((128, 512), "bfloat16")
    scales = {"stationary_scale": layout((128, 128), "uint8"), "moving_scale": layout((128, 512))}
    product = form(
        "nc_matmul_mx",
        dst=psum((128, 512)),
        stationary=layout((128, 128), E4M3),
        moving=packed,
        **scales,
    )
    plain = form(
        "nc_matmul",
        dst=psum((128, 512)),
        stationary=layout((128, 128), "bfloat16"),
        moving=halves,
    )
    from accel.isa import row

    costs = [row(each.op).cost(each, TRN3, Engine.TENSOR) for each in (product, plain)]
    assert costs[0] == costs[1]
    assert row("nc_matmul_mx").flops(product) == 4 * row("nc_matmul").flops(plain)
