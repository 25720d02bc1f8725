"""Cycles against the published cost tables and measured instruction times."""

import pytest

from accel.chip import CHIPS
from accel.isa import ISA, Cost
from accel.program import Engine, Layout, Memory
from tests.accel.programs import form, layout, psum

TRN1, TRN2, TRN3 = CHIPS["trn1"], CHIPS["trn2"], CHIPS["trn3"]


def cycles(chip, engine, op, attributes=None, **operands):
    built = form(op, attributes=attributes, **operands)
    return ISA[op].cost(built, chip, engine).issue


def vector(chip, op, attributes=None, **operands):
    """Cycles of work without the fixed overhead."""
    total = cycles(chip, Engine.VECTOR, op, attributes, **operands)
    return total - chip.vector_overhead_cycles


def sbuf(n, dtype="float32"):
    return layout((128, n), dtype)


def two(op, chip, left, right, out):
    return vector(chip, "tensor_tensor", {"op": op}, dst=out, data1=left, data2=right)


@pytest.mark.parametrize(
    ("source", "target", "trn1", "trn2"),
    [
        (sbuf(512), sbuf(512), 512, 256),
        (psum((128, 512)), sbuf(512), 512, 256),
        (sbuf(512, "bfloat16"), sbuf(512, "bfloat16"), 512, 128),
        (psum((128, 512), "bfloat16"), sbuf(512, "bfloat16"), 512, 256),
        (sbuf(512, "bfloat16"), sbuf(512), 512, 256),
    ],
)
def test_a_copy_moves_as_many_elements_a_cycle_as_the_data_path_is_wide(source, target, trn1, trn2):
    assert vector(TRN1, "tensor_copy", dst=target, src=source) == trn1
    assert vector(TRN2, "tensor_copy", dst=target, src=source) == trn2


def test_a_strided_16_bit_copy_loses_the_fast_mode():
    every_other = Layout(Memory.SBUF, "bfloat16", 128, ((4, 512),))

    assert vector(TRN2, "tensor_copy", dst=sbuf(512, "bfloat16"), src=every_other) == 256


def test_two_tiles_share_the_sbuf_port_and_a_psum_tile_has_its_own():
    half = sbuf(512, "bfloat16")

    assert two("add", TRN1, sbuf(512), sbuf(512), sbuf(512)) == 1024
    assert two("add", TRN1, psum((128, 512)), sbuf(512), sbuf(512)) == 512
    assert two("add", TRN1, half, half, half) == 512
    assert two("maximum", TRN1, half, half, half) == 1024
    assert two("add", TRN2, sbuf(512), sbuf(512), sbuf(512)) == 512
    assert two("add", TRN2, psum((128, 512)), sbuf(512), sbuf(512)) == 512
    assert two("add", TRN2, half, half, half) == 256


def test_scalar_tensor_tensor_is_fast_for_bfloat16_subtract_multiply_on_trn1():
    half = sbuf(512, "bfloat16")
    fast = {"op0": "subtract", "operand0": 1.0, "op1": "multiply"}
    slow = fast | {"op0": "add"}

    def work(attributes, tile):
        operands = {"dst": tile, "data": tile, "operand1": tile}
        return vector(TRN1, "scalar_tensor_tensor", attributes, **operands)

    assert work(fast, half) == 512
    assert work(slow, half) == 1024
    assert work(fast, sbuf(512)) == 1024


def test_reductions_scans_and_reciprocals_take_their_published_multiples():
    column, half = sbuf(1), sbuf(512, "bfloat16")
    axes = {"op": "add", "axis": (1,)}
    scan = {"op0": "multiply", "op1": "add", "initial": 0.0}

    assert vector(TRN1, "tensor_reduce", axes, dst=column, data=sbuf(512)) == 512
    assert vector(TRN1, "tensor_reduce", axes, dst=sbuf(1, "bfloat16"), data=half) == 256
    assert vector(TRN1, "tensor_reduce", axes, dst=column, data=half) == 512
    assert vector(TRN2, "tensor_reduce", axes, dst=column, data=half) == 512
    tiles = {"dst": sbuf(512), "data0": sbuf(512), "data1": sbuf(512)}
    assert vector(TRN2, "tensor_tensor_scan", scan, **tiles) == 1024
    assert vector(TRN2, "reciprocal", dst=sbuf(512), data=sbuf(512)) == 4096
    assert vector(TRN1, "bn_aggr", dst=sbuf(2), data=sbuf(24)) == 104
    assert vector(TRN1, "memset", {"value": 0.0}, dst=half) == 256
    assert vector(TRN1, "memset", {"value": 1.0}, dst=half) == 512


def matmul(chip, dtype, n=512, **attributes):
    operands = {
        "dst": psum((128, n)),
        "stationary": layout((128, 128), dtype),
        "moving": layout((128, n), dtype),
    }
    return ISA["nc_matmul"].cost(form("nc_matmul", attributes=attributes, **operands), chip, "")


def test_matmul_takes_a_cycle_a_column_and_pass():
    assert matmul(TRN1, "bfloat16") == Cost(512, 912)
    assert matmul(TRN1, "float32") == Cost(2048, 2448)
    assert matmul(TRN2, "tfloat32") == Cost(512, 912)
    assert matmul(TRN2, "float32", is_moving_onezero=True) == Cost(1024, 1424)
    assert matmul(TRN2, "float32", n=128, is_transpose=True) == Cost(256, 656)
    assert matmul(TRN1, "float32", n=128, is_transpose=True) == Cost(512, 912)
    assert matmul(TRN2, "bfloat16", n=1) == Cost(64, 464)


def test_transpose_streams_as_many_columns_as_the_tile_has_partitions():
    def cost(chip, dtype, engine):
        tile = layout((128, 32), dtype)
        built = form("nc_transpose", dst=psum((32, 128), dtype), data=tile)
        return ISA["nc_transpose"].cost(built, chip, engine).issue

    assert cost(TRN2, "bfloat16", Engine.TENSOR) == 128
    assert cost(TRN2, "float32", Engine.TENSOR) == 256
    assert cost(TRN1, "float32", Engine.TENSOR) == 512


# Durations in nanoseconds read off published trn2 profiles.
MEASURED = [
    (420, Engine.VECTOR, "tensor_copy", {}, {"dst": sbuf(512), "src": psum((128, 512))}),
    (
        680,
        Engine.VECTOR,
        "tensor_tensor",
        {"op": "add"},
        {"dst": sbuf(512), "data1": sbuf(512), "data2": psum((128, 512))},
    ),
    (
        17200,
        Engine.VECTOR,
        "tensor_scalar_reduce",
        {"op0": "abs", "reduce_op": "maximum"},
        {
            "dst": sbuf(16384, "bfloat16"),
            "data": sbuf(16384, "bfloat16"),
            "reduce_res": sbuf(1),
        },
    ),
    (
        8800,
        Engine.VECTOR,
        "tensor_scalar",
        {"op0": "multiply", "operand0": 2.0},
        {"dst": sbuf(16384, "float8_e4m3"), "data": sbuf(16384, "bfloat16")},
    ),
]


@pytest.mark.parametrize(("nanoseconds", "engine", "op", "attributes", "operands"), MEASURED)
def test_trn2_vector_instructions_last_within_3_percent_of_measurements(
    nanoseconds, engine, op, attributes, operands
):
    built = form(op, attributes=attributes, **operands)
    ours = ISA[op].cost(built, TRN2, engine).latency * 1000 / TRN2.vector_mhz

    assert ours == pytest.approx(nanoseconds, rel=0.03)


def test_scalar_and_gpsimd_take_one_element_a_cycle_plus_a_fixed_overhead():
    tile, column = sbuf(512), sbuf(1)
    exp = {"func": "exp"}
    plain = cycles(TRN2, Engine.SCALAR, "activation", exp, dst=tile, data=tile)
    summed = cycles(
        TRN2, Engine.SCALAR, "activation_reduce", exp, dst=tile, data=tile, reduce_res=column
    )

    assert plain == 512 + TRN2.scalar_overhead_cycles
    assert summed == plain + TRN2.scalar_reduce_cycles
    assert cycles(TRN2, Engine.GPSIMD, "iota", {"pattern": (1, 512)}, dst=tile) == 512 + 150
    assert cycles(TRN1, Engine.GPSIMD, "tensor_copy", dst=tile, src=tile) == 512 + 150


def test_trn3_scalar_engine_copies_two_16_bit_elements_a_cycle():
    half = sbuf(512, "bfloat16")

    def work(chip):
        total = cycles(chip, Engine.SCALAR, "tensor_copy", dst=half, src=half)
        return total - chip.scalar_overhead_cycles

    assert (work(TRN2), work(TRN3)) == (512, 256)


def test_flops_count_multiplies_and_adds_but_not_transposes():
    def flops(**attributes):
        operands = {"dst": psum((64, 256)), "stationary": (128, 64), "moving": (128, 256)}
        return ISA["nc_matmul"].flops(form("nc_matmul", attributes=attributes, **operands))

    assert flops() == 2 * 128 * 64 * 256
    assert flops(is_transpose=True) == 0


def test_every_cost_is_whole_positive_and_no_shorter_than_the_issue_interval():
    for chip in (TRN1, TRN2, TRN3):
        one = cycles(chip, Engine.VECTOR, "tensor_copy", dst=sbuf(1), src=sbuf(1))
        assert isinstance(one, int)
        assert one >= chip.min_issue_cycles
