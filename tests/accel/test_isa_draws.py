"""Random numbers: reproducible, uniform, one state an engine and lane that can be kept."""

import numpy as np
import pytest

from accel.chip import CHIPS
from accel.errors import KernelError
from accel.isa import check, row
from accel.isa.random import drawn, seeded, unit
from accel.program import Engine
from accel.sim.evaluate import Values
from tests.accel.programs import form, layout, run

TRN1, TRN2, TRN3 = (CHIPS[name] for name in ("trn1", "trn2", "trn3"))
A = np.random.default_rng(5).standard_normal((128, 64), np.float32)


def xorwow(state, count):
    """Marsaglia's generator, one word at a time."""
    x, y, z, w, v, d = (int(n) for n in state)
    for _ in range(count):
        t = (x ^ (x >> 2)) & 0xFFFFFFFF
        x, y, z, w = y, z, w, v
        v = (v ^ (v << 4) ^ t ^ (t << 1)) & 0xFFFFFFFF
        d = (d + 362437) & 0xFFFFFFFF
        yield (d + v) & 0xFFFFFFFF


def sequence(*steps):
    """The results of several instructions on one machine; a step is (op, attributes, operands)."""
    values, results, number = Values(), [], 0
    for op, engine, attributes, operands in steps:
        layouts = {}
        first = number
        for name, value in operands.items():
            given = value if isinstance(value, np.ndarray) else None
            layouts[name] = layout(value.shape, str(value.dtype)) if given is not None else value
            from accel.program import Storage

            each = layouts[name]
            values.allocate(number, Storage(name, each.memory, each.dtype, each.shape), given)
            number += 1
        values.execute(
            form(op, engine, attributes, **layouts), [(n, 0) for n in range(first, number)]
        )
        results.append(values.array(first).copy())
    return results


def draw(columns=64, engine=Engine.VECTOR):
    return ("rng", engine, None, {"dst": layout((128, columns), "uint32")})


def test_the_words_are_those_of_xorwow():
    states = seeded(9, 4)
    before = states.copy()

    words = drawn(states, 4, 10)

    for lane in range(4):
        each = [list(xorwow(before[lane, g], 3)) for g in range(4)]
        wanted = [each[i % 4][i // 4] for i in range(10)]
        assert words[lane].tolist() == wanted


def test_a_seed_starts_the_same_sequence_again():
    seed = ("set_rng_seed", Engine.VECTOR, None, {"src_seeds": np.array([[42]], np.uint32)})
    other = ("set_rng_seed", Engine.VECTOR, None, {"src_seeds": np.array([[43]], np.uint32)})

    _, first, second, _, again, _, different = sequence(
        seed, draw(), draw(), seed, draw(), other, draw()
    )

    assert (first == again).all()
    assert (first != second).any()
    assert (first != different).any()


def test_a_state_that_was_kept_continues_where_it_was():
    kept = {"dst": layout((128, 24), "uint32")}
    _, state, second = sequence(draw(7), ("rand_get_state", Engine.VECTOR, None, kept), draw(16))
    restore = ("rand_set_state", Engine.VECTOR, None, {"src_seeds": state})

    assert (sequence(restore, draw(16))[1] == second).all()


def test_engines_have_states_of_their_own():
    _, alone = sequence(draw(), draw())
    _, _, after = sequence(draw(), draw(8, Engine.GPSIMD), draw())

    assert (alone == after).all()


def test_random_numbers_are_uniform_and_differ_by_lane():
    numbers = unit(drawn(seeded(0, 128), 4, 4096))
    counts = np.histogram(numbers, 16, (0, 1))[0] / numbers.size

    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert abs(counts - 1 / 16).max() < 2e-3
    assert len({row.tobytes() for row in numbers}) == 128


def test_rng_keeps_the_lowest_bits():
    (wide,) = sequence(draw())
    (narrow,) = sequence(("rng", Engine.VECTOR, None, {"dst": layout((128, 64), "uint8")}))

    assert (narrow == (wide & 0xFF)).all()


def test_rand2_fills_the_range_it_is_given():
    low = np.arange(128, dtype=np.float32)[:, None]
    drawn_tile = run("rand2", {"max": 200.0}, dst=layout((128, 256)), min=low)[0]["dst"]

    assert (drawn_tile >= low).all()
    assert (drawn_tile < 200).all()
    assert abs(drawn_tile[0].mean() - 100) < 12


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_dropout_drops_a_share_and_keeps_the_rest(probability):
    data = np.abs(A) + 1
    kept = run("dropout", {"prob": probability}, dst=layout((128, 64)), data=data)[0]["dst"]

    assert ((kept == 0) | (kept == data)).all()
    assert abs((kept == 0).mean() - probability) < 0.02


@pytest.mark.parametrize(
    ("op", "engine", "operands", "chip", "told"),
    [
        ("rng", Engine.GPSIMD, {"dst": layout((4, 4), "int32")}, TRN1, "gpsimd cannot run it"),
        ("rng", Engine.VECTOR, {"dst": layout((4, 4))}, TRN2, "dst is float32, must be one of"),
        ("rand2", Engine.ANY, {"dst": layout((4, 4))}, TRN2, "not available on trn2"),
        (
            "rand_set_state",
            Engine.GPSIMD,
            {"src_seeds": layout((4, 24), "uint32")},
            TRN3,
            "24 elements a partition, the state of gpsimd has 6",
        ),
        (
            "set_rng_seed",
            Engine.ANY,
            {"src_seeds": layout((2, 1), "uint32")},
            TRN2,
            "src_seeds is 2×1, must be 1×1",
        ),
        (
            "dropout",
            Engine.ANY,
            {
                "dst": layout((4, 4), "int32"),
                "data": layout((4, 4), "int32"),
                "prob": layout((4, 1), "bfloat16"),
            },
            TRN2,
            "prob is bfloat16, must be float32 for data of int32",
        ),
    ],
)
def test_what_a_draw_may_not_do(op, engine, operands, chip, told):
    with pytest.raises(KernelError, match=told):
        check(form(op, engine, None, **operands), chip)


def test_trn3_draws_four_numbers_a_cycle():
    tile = form("rng", Engine.VECTOR, None, dst=layout((128, 2048), "uint32"))
    slow, fast = (row("rng").cost(tile, chip, Engine.VECTOR).issue for chip in (TRN2, TRN3))

    assert slow - TRN2.vector_overhead_cycles == 4 * (fast - TRN3.vector_overhead_cycles)
