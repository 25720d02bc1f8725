"""Costs of single instructions, against published durations where there are some."""

from __future__ import annotations

import pytest

from accel.chip import CHIPS
from accel.program import Engine, Kind, Memory, Mode
from accel.sim.machine import costs_of, element_ps, engine_of, to_ps, transfer_of
from accel.sim.queues import Queue
from tests.accel.sim.streams import Stream

TRN1, TRN2 = CHIPS["trn1"], CHIPS["trn2"]


def near(published_ns: float, within: float):
    return pytest.approx(published_ns * 1000, rel=within)


def cost(stream: Stream, chip=TRN2):
    """Issue and latency of the stream's last instruction."""
    program = stream.build()
    costs = costs_of(program, chip)
    return costs.issue[program.form[-1]], costs.latency[program.form[-1]]


def test_cycles_round_to_the_nearest_picosecond():
    assert [to_ps(c, 2800) for c in (0, 1, 2, 7)] == [0, 357, 714, 2500]


def test_fp32_matmul_of_512_columns():
    """Published: two passes of 427 ns each, and 600 ns until the result of a pass is seen."""
    s = Stream("gen3")
    psum, a, b = s.tile((128, 512), memory=Memory.PSUM), s.tile((128, 128)), s.tile((128, 512))
    s.matmul(psum, a, b)

    issue, latency = cost(s)
    assert issue == near(2 * 427, 0.01)
    assert latency == near(427 + 600, 0.03)


def test_vector_engine_durations_of_512_columns():
    """Published: 420 ns for a copy out of PSUM, 680 ns for a sum with one operand in PSUM."""
    s = Stream("gen3")
    psum, a = s.tile((128, 512), memory=Memory.PSUM), s.tile((128, 512))
    s.copy(a, psum, engine=Engine.VECTOR)
    _, copy = cost(s)
    s.tensor(a, a, psum, "add")
    _, total = cost(s)

    assert copy == near(420, 0.02)
    assert total == near(680, 0.02)


def test_vector_engine_of_trn1_reads_two_sbuf_operands_in_turn():
    """Published: 14,987 ns for 8192 columns."""
    s = Stream("gen2")
    a = s.tile((128, 8192))
    s.tensor(a, a, a)

    assert cost(s, TRN1)[0] == near(14_987, 0.03)


def test_activation_of_4096_columns():
    """Published: 3.71 µs; the fixed part of the model is that of back-to-back instructions."""
    s = Stream("gen3")
    a = s.tile((4, 4096), "bfloat16")
    s.emit("activation", [("dst", Mode.WRITE, a, None), ("data", Mode.READ, a, None)], func="exp")

    assert cost(s)[0] == near(3710, 0.03)


def transfer(dst_shape, dtype="float32", columns=None, chip_to_hbm=False):
    s = Stream("gen3")
    tile = s.tile(dst_shape, dtype)
    wide = (dst_shape[0], columns or dst_shape[1])
    hbm = s.hbm(wide, dtype, Kind.OUTPUT if chip_to_hbm else Kind.INPUT)
    region = tuple((0, n) for n in dst_shape)
    s.dma(hbm, tile, region, None) if chip_to_hbm else s.dma(tile, hbm, None, region)
    return transfer_of(s.build().forms[0])


def test_a_piece_of_a_transfer_never_spans_partitions():
    found = transfer((128, 512), columns=512)

    assert (found.partitions, found.elements, found.element_bytes) == (128, 1, 2048)


def test_a_piece_of_a_transfer_is_contiguous_on_both_sides():
    s = Stream("gen3")
    tile, hbm = s.tile((128, 4, 64)), s.hbm((128, 4, 128), "float32")
    s.dma(tile, hbm, None, ((0, 128), (0, 4), (0, 64)))
    found = transfer_of(s.build().forms[0])

    assert (found.elements, found.element_bytes) == (4, 256)


@pytest.mark.parametrize(
    ("shape", "shares", "elements"), [((128, 512), 128, 512), ((1, 64), 64, 1), ((3, 100), 100, 3)]
)
def test_a_copy_between_hbm_tensors_is_cut_into_even_shares(shape, shares, elements):
    s = Stream("gen3")
    s.dma(s.hbm(shape, "float32", Kind.OUTPUT), s.hbm(shape, "float32"))
    found = transfer_of(s.build().forms[0])

    assert (found.partitions, found.elements * found.element_bytes) == (shares, 4 * elements)


def test_transfers_to_hbm_wait_in_the_store_queue():
    assert transfer((128, 64)).queue is Queue.DMA_LOAD
    assert transfer((128, 64), chip_to_hbm=True).queue is Queue.DMA_STORE


def test_four_rows_of_8_kib_on_one_dma_engine():
    """Published: 1416 ns of data for [4, 4096] bf16, all on one engine."""
    found = transfer((4, 4096), "bfloat16")

    assert found.partitions * element_ps(found.element_bytes, TRN2) == near(1416, 0.12)


def test_two_kib_on_each_dma_engine():
    """Published: 97 ns."""
    assert element_ps(2048, TRN2) == near(97, 0.10)


def test_tiny_pieces_take_their_minimum_time():
    """Published on trn1: 7 ns for 4 bytes."""
    assert element_ps(4, TRN1) == 7000


def test_static_descriptors_need_no_generation():
    s = Stream("gen3")
    tile, hbm = s.tile((128, 64)), s.hbm((128, 64), "float32")
    s.dma(tile, hbm)
    dynamic, _ = cost(s)
    s.dma(tile, hbm, dge_mode="none")
    static, _ = cost(s)

    assert (dynamic, static) == (600_000, 0)


def test_an_open_engine_is_the_first_that_can_reach_the_operands():
    s = Stream("gen3")
    a, psum = s.tile((128, 64)), s.tile((128, 64), memory=Memory.PSUM)
    s.copy(a, psum)
    s.copy(a, a, engine=Engine.GPSIMD)
    forms = s.build().forms

    assert engine_of(forms[0], TRN2) is Engine.VECTOR
    assert engine_of(forms[1], TRN2) is Engine.GPSIMD
