"""Compiler profiles: what each rule drops, moves or marks, and what it must leave alone."""

from __future__ import annotations

import numpy as np
import pytest

from accel.chip import CHIPS
from accel.errors import UserError
from accel.program import Engine, Memory, Mode, Program
from accel.sim import simulate
from accel.sim.lowering import LOOKAHEAD, PROFILES, RULES, lower
from tests.accel.sim.streams import Stream, mamba, tiled_matmul

TRN1, TRN2 = CHIPS["trn1"], CHIPS["trn2"]


def ops(program: Program) -> list[str]:
    return [program.forms[f].op for f in program.form]


def repeated_product(change: bool = False) -> Program:
    """Three times a product of the same tiles into a new tile, and a reader of each."""
    s = Stream("gen3")
    a, b, out = s.tile((128, 64)), s.tile((128, 64)), s.tile((128, 64))
    s.fill(a, line=1)
    s.fill(b, line=2)
    for _ in range(3):
        product = s.tile((128, 64))
        s.tensor(product, a, b, line=3)
        s.tensor(out, product, b, "add", line=4)
        if change:
            s.fill(a, 1.0, line=5)
    return s.build()


def test_a_repeated_computation_is_done_once_and_its_readers_get_the_first_result():
    program = repeated_product()

    lowered = lower(program, TRN2, "hoist")

    assert ops(lowered) == ["memset", "memset", "tensor_tensor"] + 3 * ["tensor_tensor"]
    sums = [lowered.operands(i)[1][1] for i in range(3, 6)]
    assert len(set(sums)) == 1


def test_a_computation_whose_operand_changed_is_done_again():
    program = repeated_product(change=True)

    assert lower(program, TRN2, "hoist") == program


def test_a_result_with_a_second_writer_is_never_shared():
    s = Stream("gen3")
    for _ in range(2):
        tile = s.tile((128, 64))
        s.fill(tile, line=1)
        s.tensor(tile, tile, tile, "add", line=2)
    program = s.build()

    assert lower(program, TRN2, "hoist") == program


def load_rows(rows: list[int]) -> Program:
    s = Stream("gen3")
    source, out = s.hbm((1024, 64), "float32"), s.tile((128, 64))
    for row in rows:
        tile = s.tile((128, 64))
        s.dma(tile, source, None, ((row * 128, 128), (0, 64)), line=1)
        s.copy(out, tile, engine=Engine.VECTOR, line=2)
    return s.build()


@pytest.mark.parametrize(("rows", "loads"), [([0, 0, 0], 1), ([0, 1, 0, 1], 4), ([0, 0, 1, 1], 2)])
def test_a_load_is_only_dropped_if_the_lines_previous_one_was_the_same(rows, loads):
    lowered = lower(load_rows(rows), TRN2, "hoist")

    assert ops(lowered).count("dma_copy") == loads


def test_copies_out_of_psum_go_to_the_engine_with_less_work():
    s = Stream("gen3")
    psum = s.tile((128, 512), memory=Memory.PSUM)
    for _ in range(10):
        s.copy(s.tile((128, 512)), psum)

    lowered = lower(s.build(), TRN2, "balance")

    engines = [lowered.forms[f].engine for f in lowered.form]
    assert set(engines) == {Engine.VECTOR, Engine.SCALAR}
    before, after = (simulate(p, TRN2).metrics.latency_ps for p in (s.build(), lowered))
    # 329 ns on the vector engine and 660 on the scalar engine: 7 of 10 copies go to the first.
    assert after == pytest.approx(0.7 * before, rel=0.05)


def test_copies_whose_engine_was_asked_for_stay():
    s = Stream("gen3")
    psum = s.tile((128, 512), memory=Memory.PSUM)
    for _ in range(4):
        s.copy(s.tile((128, 512)), psum, engine=Engine.VECTOR)

    assert lower(s.build(), TRN2, "balance") == s.build()


def test_merged_tiles_share_the_fixed_cost_of_512_columns():
    s = Stream("gen3")
    tile = s.tile((128, 128))
    s.fill(tile)
    for _ in range(64):
        s.tensor(s.tile((128, 128)), tile, tile)

    plain = simulate(s.build(), TRN2).metrics.latency_ps
    merged = simulate(s.build(), TRN2, "merge").metrics.latency_ps

    # 128 cycles of work and 60 fixed ones become 128 and 60 ÷ 4.
    assert merged / plain == pytest.approx((128 + 15) / (128 + 60), rel=0.03)


def test_small_pieces_of_a_transfer_are_joined():
    s = Stream("gen2")
    source, tile = s.hbm((128, 64, 128), "float32"), s.tile((128, 64, 64))
    s.dma(tile, source, None, ((0, 128), (0, 64), (0, 64)))

    plain = simulate(s.build(), TRN1).trace.times.work.sum()
    joined = simulate(s.build(), TRN1, "coalesce").trace.times.work.sum()

    assert joined / plain == pytest.approx(6.4 / 14.7, rel=0.01)


def test_the_default_profile_changes_nothing():
    program = mamba(2, 512, 256)

    assert lower(program, TRN1) is program


def test_profiles_are_made_of_rules_and_unknown_ones_are_named():
    assert {rule for rules in PROFILES.values() for rule in rules} == {*RULES, *LOOKAHEAD}
    with pytest.raises(UserError, match="unknown compiler profile 'gcc'"):
        lower(load_rows([0]), TRN2, "hoist+gcc")


def test_the_profile_halves_nothing_in_a_matmul_without_repeats():
    program = tiled_matmul("gen2", "bfloat16", 256, 256, 1024)

    lowered = lower(program, TRN1, "neuronxcc")

    assert ops(lowered) == ops(program)
    assert np.array_equal(lowered.storage, program.storage)
    written = [a.mode for a in lowered.forms[0].accesses]
    assert Mode.WRITE in written
