"""What the instruction table accepts, and that a refusal names operand, value and limit."""

import pytest

from accel.chip import CHIPS
from accel.errors import KernelError
from accel.isa import ISA, check, engines, legal_start, row
from accel.program import Access, Engine, Form, Layout, Memory, Mode
from tests.accel.programs import form, hbm, layout, psum

TRN1, TRN2, TRN3 = CHIPS["trn1"], CHIPS["trn2"], CHIPS["trn3"]
TILE = (128, 64)
PACKED = "float8_e4m3fn_x4"


def matmul(k=128, m=128, n=512, dtype="float32", out="float32", **attributes):
    return form(
        "nc_matmul",
        attributes=attributes,
        dst=psum((m, n), out),
        stationary=layout((k, m), dtype),
        moving=layout((k, n), dtype),
    )


@pytest.mark.parametrize("entry", ISA.values(), ids=ISA)
def test_every_row_says_where_its_cost_comes_from_and_runs_on_the_newest_chip(entry):
    assert entry.summary
    assert entry.source
    assert entry.engines[TRN3.generation]
    assert len({role.name for role in entry.roles}) == len(entry.roles)


LEGAL = [
    form("dma_copy", dst=TILE, src=hbm(TILE)),
    form("dma_copy", dst=hbm((64, 128)), src=TILE),
    form("tensor_copy", dst=TILE, src=psum(TILE)),
    form("tensor_tensor", attributes={"op": "add"}, dst=TILE, data1=TILE, data2=psum(TILE)),
    form(
        "tensor_scalar",
        attributes={"op0": "multiply", "operand0": 2.0, "op1": "add"},
        dst=TILE,
        data=TILE,
        operand1=(128, 1),
    ),
    form("tensor_reduce", attributes={"op": "add", "axis": (1,)}, dst=(128, 1), data=TILE),
    form("activation", attributes={"func": "exp"}, dst=TILE, data=TILE, bias=(128, 1)),
    form("iota", attributes={"pattern": (1, 64)}, dst=TILE),
    form("nc_transpose", dst=psum((64, 128)), data=TILE),
    matmul(),
]


@pytest.mark.parametrize("legal", LEGAL, ids=lambda f: f.op)
@pytest.mark.parametrize("chip", [TRN1, TRN2, TRN3], ids=lambda c: c.name)
def test_ordinary_instructions_are_legal_on_every_chip(legal, chip):
    check(legal, chip)


REFUSED = [
    (matmul(n=1024), "moving has 1024 columns, the limit is 512"),
    (
        form("nc_matmul", dst=psum((128, 64)), stationary=(128, 256), moving=(128, 64)),
        "stationary has 256 columns, the limit is 128",
    ),
    (matmul(dtype="int32"), "stationary is int32, must be one of bfloat16"),
    (matmul(out="bfloat16"), "dst is bfloat16, must be float32"),
    (matmul(accumulate="maybe"), "accumulate is 'maybe', must be one of auto, false, true"),
    (matmul(tile_position=(32, 0), tile_size=(64, 128)), "tile_position row is 32"),
    (
        form("nc_matmul", dst=psum((128, 64)), stationary=(128, 128), moving=(64, 64)),
        "contraction differs: stationary K=128, moving K=64",
    ),
    (
        form("nc_matmul", dst=psum((128, 32)), stationary=(128, 128), moving=(128, 64)),
        "dst is 128×32, must be 128×64",
    ),
    (
        form("nc_matmul", dst=layout((128, 64)), stationary=(128, 128), moving=(128, 64)),
        "dst is in sbuf, must be in psum",
    ),
    (
        form(
            "nc_matmul",
            dst=psum((128, 64)),
            stationary=layout((128, 128), "bfloat16"),
            moving=layout((128, 64), "float32"),
        ),
        "stationary is bfloat16, moving is float32: float32 pairs only with float32",
    ),
    (form("tensor_copy", dst=(256, 4), src=(256, 4)), "dst has 256 partitions, the limit is 128"),
    (form("tensor_copy", dst=(128, 4), src=(128, 8)), "dst is 128 partitions of 4 elements"),
    (form("tensor_copy", Engine.TENSOR, dst=TILE, src=TILE), "engine tensor cannot run it on trn2"),
    (
        form("tensor_copy", Engine.GPSIMD, dst=TILE, src=psum(TILE)),
        "src is in psum, which gpsimd cannot access",
    ),
    (
        form(
            "tensor_tensor", attributes={"op": "add"}, dst=TILE, data1=psum(TILE), data2=psum(TILE)
        ),
        "data1 and data2 are both in psum",
    ),
    (
        form("tensor_tensor", attributes={"op": "plus"}, dst=TILE, data1=TILE, data2=TILE),
        "op is 'plus', known operators: add",
    ),
    (
        form("tensor_tensor", attributes={"op": "bitwise_and"}, dst=TILE, data1=TILE, data2=TILE),
        "dst is float32, bitwise_and needs integers",
    ),
    (
        form("tensor_tensor", attributes={"op": "power"}, dst=psum(TILE), data1=TILE, data2=TILE),
        "no engine of trn2 can run it",
    ),
    (
        form("tensor_reduce", attributes={"op": "add", "axis": (0,)}, dst=(1, 64), data=TILE),
        "axis is (0,), must be the last of the 2 axes and not 0",
    ),
    (
        form("tensor_reduce", attributes={"op": "power", "axis": (1,)}, dst=(128, 1), data=TILE),
        "op is 'power', which cannot reduce",
    ),
    (
        form("dma_transpose", dst=layout((8, 16)), src=hbm((8, 16))),
        "dst is (8, 16), must be (16, 8)",
    ),
    (
        form("activation", attributes={"func": "exp"}, dst=TILE, data=layout(TILE, PACKED)),
        f"data is {PACKED}, which is only filled, or copied to the same dtype",
    ),
    (
        form("dma_copy", dst=TILE, src=hbm(TILE, PACKED)),
        f"src is {PACKED}, which is only filled, or copied to the same dtype",
    ),
    (
        form(
            "select",
            dst=TILE,
            predicate=layout(TILE, "uint8"),
            on_true=TILE,
            on_false=(1, 64),
        ),
        "on_false is 1 partitions of 64 elements, must match dst",
    ),
    (
        form("sequence_bounds", dst=(1, 64), segment_ids=(1, 64)),
        "dst is 1×64, must be 1×128",
    ),
    (
        form("activation", attributes={"func": "exp2"}, dst=TILE, data=TILE),
        "func is 'exp2', must be one of abs",
    ),
    (
        form("activation", attributes={"func": "exp"}, dst=TILE, data=TILE, bias=(64, 1)),
        "bias is 64 partitions of 1 elements, must be 128 partitions of 1",
    ),
    (
        form(
            "tensor_scalar",
            attributes={"op0": "bitwise_and", "operand0": 1, "op1": "add", "operand1": 1},
            dst=layout(TILE, "int32"),
            data=layout(TILE, "int32"),
        ),
        "op0 and op1 are arithmetic and bits operators, must be one kind",
    ),
    (
        form(
            "tensor_scalar",
            attributes={"op0": "add", "operand0": 1.0},
            dst=TILE,
            data=TILE,
            operand0=(128, 1),
        ),
        "operand0 is given as a number and as an operand",
    ),
    (
        form("tensor_scalar", attributes={"op0": "add"}, dst=TILE, data=TILE),
        "operand0 is missing",
    ),
    (
        form("iota", attributes={"pattern": (1, 32)}, dst=TILE),
        "pattern has 32 elements, dst has 64",
    ),
    (
        form("memset", attributes={"valeu": 1.0}, dst=TILE),
        "unknown attribute 'valeu', known: value",
    ),
    (form("tensor_copy", dst=TILE), "operand src is missing"),
    (
        form("dma_copy", dst=TILE, src=hbm((128, 32))),
        "dst has 8192 elements (128, 64), src has 4096",
    ),
    (form("dma_copy", dst=psum(TILE), src=hbm(TILE)), "dst is in psum, must be in hbm or sbuf"),
    (form("bn_stats", dst=(128, 6), data=(128, 600)), "data has 600 elements a partition"),
    (
        form("nc_transpose", Engine.VECTOR, dst=(64, 64), data=(64, 64)),
        "data is 64×64, the limit is 32×32",
    ),
    (form("nc_transpose", dst=(64, 64), data=(64, 64)), "no engine of trn2 can run it"),
]


@pytest.mark.parametrize(("refused", "problem"), REFUSED, ids=lambda v: getattr(v, "op", None))
def test_a_refusal_names_operand_value_and_limit(refused, problem):
    with pytest.raises(KernelError) as caught:
        check(refused, TRN2, "kernel.py:7")
    assert problem in caught.value.message
    assert caught.value.message.startswith(f"{refused.op}: ")
    assert caught.value.message.endswith("(kernel.py:7)")
    assert caught.value.hint.startswith(f"{refused.op}(") or refused.op not in ISA


def test_rules_differ_by_generation():
    wide = matmul(n=1024, dtype="bfloat16")
    number_bias = form("activation", attributes={"func": "exp", "bias": 1.0}, dst=TILE, data=TILE)
    bounds = {"bound0": (128, 1), "bound1": (128, 1)}
    compare = {"comp_op0": "greater_equal", "comp_op1": "less"}
    ranged = form("range_select", attributes=compare, dst=TILE, on_true=TILE, **bounds)

    check(wide, TRN3)
    check(number_bias, TRN2)
    check(ranged, TRN2)
    for refused, problem in ((number_bias, "bias is the number 1.0"), (ranged, "not available")):
        with pytest.raises(KernelError, match=problem):
            check(refused, TRN1)


def test_double_row_needs_8_bit_floats_and_two_rows():
    def double(dtype, shape):
        return form(
            "nc_matmul",
            attributes={"perf_mode": "double_row"},
            dst=psum((64, 32)),
            stationary=layout((*shape, 64), dtype),
            moving=layout((*shape, 32), dtype),
        )

    check(double("float8_e4m3", (128, 2)), TRN2)
    with pytest.raises(KernelError, match="needs an 8-bit float"):
        check(double("bfloat16", (128, 2)), TRN2)
    with pytest.raises(KernelError, match="needs gen3 or newer"):
        check(double("float8_e4m3", (128, 2)), TRN1)


def test_a_matmul_result_that_spans_two_banks_is_refused():
    spread = Layout(Memory.PSUM, "float32", 128, ((2048, 2), (4, 32)))
    form_ = form("nc_matmul", dst=spread, stationary=(128, 128), moving=(128, 64))

    with pytest.raises(KernelError, match="dst spans 2176 bytes a partition, a psum bank has 2048"):
        check(form_, TRN2)


def test_more_than_four_free_dimensions_are_refused_unless_they_merge():
    apart = tuple((4 * 3**i, 2) for i in reversed(range(5)))
    scattered = Layout(Memory.SBUF, "float32", 128, apart)

    with pytest.raises(KernelError, match="src needs 5 free dimensions, the limit is 4"):
        check(form("tensor_copy", dst=(128, 32), src=scattered), TRN2)
    check(form("tensor_copy", dst=(128, 2, 2, 2, 2, 2), src=(128, 32)), TRN2)


def test_a_form_with_the_wrong_mode_or_an_unknown_operand_is_refused():
    tile = layout(TILE)
    written = Form("memset", Engine.ANY, (Access("dst", Mode.READ, tile),), (("value", 0.0),))
    extra = Form(
        "memset", Engine.ANY, (Access("dst", Mode.WRITE, tile), Access("mask", Mode.READ, tile))
    )

    for refused, problem in ((written, "dst is touched as"), (extra, "unknown operand 'mask'")):
        with pytest.raises(KernelError, match=problem):
            check(refused, TRN2)


@pytest.mark.parametrize(
    ("start", "count", "legal"),
    [
        (0, 128, True),
        (32, 32, True),
        (64, 64, True),
        (96, 32, True),
        (16, 8, False),
        (32, 64, False),
        (32, 65, False),
        (64, 65, False),
        (128, 1, False),
    ],
)
def test_where_partitions_may_start(start, count, legal):
    assert legal_start(start, count) is legal


@pytest.mark.parametrize(
    ("open_choice", "first"),
    [
        (form("tensor_copy", dst=TILE, src=psum(TILE)), Engine.VECTOR),
        (form("nc_transpose", dst=psum((32, 32)), data=(32, 32)), Engine.TENSOR),
        (form("nc_transpose", dst=(32, 32), data=(32, 32)), Engine.VECTOR),
        (
            form("tensor_tensor", attributes={"op": "power"}, dst=TILE, data1=TILE, data2=TILE),
            "gpsimd",
        ),
        (
            form(
                "tensor_tensor",
                attributes={"op": "add"},
                dst=layout(TILE, "int32"),
                data1=layout(TILE, "int32"),
                data2=layout(TILE, "int32"),
            ),
            Engine.GPSIMD,
        ),
        (form("tensor_copy", Engine.GPSIMD, dst=TILE, src=TILE), Engine.GPSIMD),
        (form("tensor_scalar", attributes={"op0": "rsqrt"}, dst=TILE, data=TILE), Engine.GPSIMD),
        (
            form("tensor_scalar", attributes={"op0": "rsqrt"}, dst=TILE, data=psum(TILE)),
            Engine.VECTOR,
        ),
    ],
)
def test_the_engine_of_an_open_choice_depends_on_the_operands(open_choice, first):
    assert engines(open_choice, TRN2)[0] == first


def test_an_unknown_instruction_lists_the_known_ones():
    with pytest.raises(KernelError, match="unknown instruction 'nc_matmull'") as caught:
        row("nc_matmull")
    assert "nc_matmul" in caught.value.hint
