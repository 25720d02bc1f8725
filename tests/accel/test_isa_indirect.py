"""Operands whose place is found at run time: by one index, a vector of them, or lanes of them."""

import numpy as np
import pytest

from accel.chip import CHIPS
from accel.errors import KernelError
from accel.isa import check
from accel.program import Builder, Engine
from accel.sim.machine import costs_of
from tests.accel.programs import form, hbm, layout, run

RNG = np.random.default_rng(11)
A = RNG.standard_normal((64, 24), np.float32)
TRN2, TRN3 = CHIPS["trn2"], CHIPS["trn3"]


def test_a_transfer_may_gather_and_scatter_at_once():
    picks, places = (RNG.permutation(8)[:4, None].astype(np.int32) for _ in range(2))
    table, target = A[:8].copy(), np.zeros((8, 24), np.float32)
    attributes = {"src_index": "vector:96", "dst_index": "vector:96"}

    written = run("dma_copy", attributes, dst=target, src=table, src_index=picks, dst_index=places)[
        0
    ]["dst"]

    assert (written[places[:, 0]] == table[picks[:, 0]]).all()
    assert (np.delete(written, places[:, 0], 0) == 0).all()


def test_a_transpose_gathers_its_rows_first():
    picks = RNG.integers(0, 64, (16, 2)).astype(np.uint32)
    tile = A.astype(np.float16)

    turned = run(
        "dma_transpose", {"src_index": "vector:48"},
        dst=layout((24, 32), "float16"), src=tile[:32], src_index=picks % 32,
    )[0]["dst"]  # fmt: skip

    assert (turned == tile[(picks % 32).T.reshape(-1)].T).all()


def chosen(index, group, lane, count):
    first = lane // group * group
    return [index[first + i % group, i // group] for i in range(count)]


@pytest.mark.parametrize("engine", [Engine.VECTOR, Engine.SCALAR])
def test_lanes_are_gathered_by_groups_of_sixteen(engine):
    index = RNG.integers(0, 24, (64, 2)).astype(np.uint16)

    copied = run(
        "tensor_copy", {"src_index": "lanes:4:20"}, engine,
        dst=layout((64, 20)), src=A[:, :20].copy(), src_index=index % 20,
    )[0]["dst"]  # fmt: skip

    for lane in range(64):
        assert (copied[lane] == A[lane, chosen(index % 20, 16, lane, 20)]).all()


def test_lanes_are_scattered():
    index = np.tile(np.arange(16, dtype=np.uint16)[:, None] + 4, (4, 1))
    written = run(
        "activation", {"func": "square", "dst_index": "lanes:4:16"},
        dst=layout((64, 16)), data=A[:, :16].copy(), dst_index=index % 16,
    )[0]["dst"]  # fmt: skip

    order = (np.arange(16) + 4) % 16
    assert (written[:, order] == np.square(A[:, :16])).all()


def test_reading_lanes_that_nobody_wrote_is_noticed():
    index = np.zeros((16, 1), np.uint16)
    operands = {"dst": layout((16, 4)), "src": layout((16, 4)), "src_index": index}

    _, values = run("tensor_copy", {"src_index": "lanes:4:4"}, **operands)

    assert values.uninitialised[0].count == 64


def test_lanes_outside_the_tile_are_errors():
    operands = {"dst": layout((16, 4)), "src": A[:16, :4].copy()}
    far = np.full((16, 1), 4, np.uint16)

    with pytest.raises(KernelError, match="index 4 of src is outside the 4 elements"):
        run("tensor_copy", {"src_index": "lanes:4:4"}, src_index=far, **operands)


@pytest.mark.parametrize(
    ("chip", "op", "attributes", "operands", "told"),
    [
        (
            TRN2,
            "tensor_copy",
            {"src_index": "lanes:4:24"},
            {"dst": layout((16, 24)), "src": layout((16, 24)), "src_index": (16, 2)},
            "which needs gen4, not gen3",
        ),
        (
            TRN3,
            "reciprocal",
            {"data_index": "lanes:4:24"},
            {"dst": layout((16, 24)), "data": layout((16, 24)), "data_index": (16, 2)},
            "data is a view by indirect\\(\\), which no operand of it may be",
        ),
        (
            TRN2,
            "dma_copy",
            {"src_index": "vector:96", "dge_mode": "hwdge"},
            {"dst": layout((16, 24)), "src": hbm((16, 24)), "src_index": (16, 1)},
            "dge_mode is hwdge, a vector of indices of src needs swdge",
        ),
        (
            TRN2,
            "dma_copy",
            {"src_index": "vector:96"},
            {"dst": layout((16, 24)), "src": layout((16, 24)), "src_index": (16, 1)},
            "src is in sbuf, a vector of indices needs it in hbm",
        ),
        (
            TRN2,
            "tensor_copy",
            {"src_index": "scalar:96"},
            {"dst": layout((16, 24)), "src": layout((16, 24)), "src_index": (16, 1)},
            "src_index has 16 elements, must have 1",
        ),
    ],
)
def test_what_an_index_may_not_do(chip, op, attributes, operands, told):
    layouts = {
        name: layout(value, "int32") if isinstance(value, tuple) else value
        for name, value in operands.items()
    }

    with pytest.raises(KernelError, match=told):
        check(form(op, Engine.ANY, attributes, **layouts), chip)


def test_a_sum_by_dma_adds_what_it_gathers():
    picks = np.array([[3], [0], [3], [9]], np.int32)
    table, tile = A[:8].copy(), A[8:12].copy()
    attributes = {"op": "add", "src0_index": "vector:96", "oob_mode": "skip"}

    total = run("dma_compute", attributes, dst=tile.copy(), src0=table, src1=tile, src0_index=picks)

    wanted = tile.copy()
    wanted[:3] += table[[3, 0, 3]]
    np.testing.assert_allclose(total[0]["dst"], wanted, rtol=1e-6)


def test_a_sum_by_dma_adds_to_what_it_scatters_to():
    places = np.array([[3], [0], [5], [1]], np.int32)
    table, tile = A[:8].copy(), A[8:12].copy()
    index = {"dst_index": places, "src0_index": places}
    attributes = {"op": "add", "dst_index": "vector:96", "src0_index": "vector:96"}

    total = run("dma_compute", attributes, dst=table.copy(), src0=table, src1=tile, **index)

    wanted = table.copy()
    wanted[[3, 0, 5, 1]] += tile
    np.testing.assert_allclose(total[0]["dst"], wanted, rtol=1e-6)


def test_a_sum_by_dma_moves_every_source_at_half_the_rate_before_trn3():
    copied = form("dma_copy", dst=layout((128, 512)), src=hbm((128, 512)))
    summed = form(
        "dma_compute", Engine.ANY, {"op": "add"},
        dst=layout((128, 512)), src0=hbm((128, 512)), src1=hbm((128, 512)),
    )  # fmt: skip

    for chip, slower in ((TRN2, 4), (TRN3, 2)):
        builder = Builder("sums", chip.nc_version, 1)
        for each in (copied, summed):
            builder.intern_form(each)
        costs = costs_of(builder.build(), chip)
        assert costs.dma_work[1] == slower * costs.dma_work[0]
        assert costs.read_bytes[1] == 2 * costs.read_bytes[0]
