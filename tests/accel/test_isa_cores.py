"""Rows of barriers, exchanges and registers: meaning, checks and cost."""

import numpy as np
import pytest

from accel import isa
from accel.chip import CHIPS
from accel.errors import KernelError
from accel.program import Access, Engine, Form, Layout, Memory, Mode

TRN1, TRN2 = CHIPS["trn1"], CHIPS["trn2"]


def access(role: str, memory: Memory, dtype: str = "int32", columns: int = 1) -> Access:
    mode = Mode.WRITE if role == "dst" else Mode.READ
    lanes = 0 if memory is Memory.HBM else 1
    return Access(role, mode, Layout(memory, dtype, lanes, ((4, columns),)))


def meaning(form: Form, **arrays: np.ndarray) -> np.ndarray:
    isa.check(form, TRN2)
    isa.row(form.op).meaning(form, arrays)
    return arrays["dst"]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (np.array([[200]], np.uint8), 200),
        (np.array([[-3]], np.int16), -3),
        (np.array([[2**32 - 1]], np.uint32), -1),
        (np.array([[1.0]], np.float32), 0x3F800000),
    ],
)
def test_register_load_takes_the_bits(source: np.ndarray, wanted: int) -> None:
    sides = (access("dst", Memory.REGISTER), access("src", Memory.SBUF, source.dtype.name))
    form = Form("register_load", Engine.ANY, sides)

    assert meaning(form, dst=np.zeros((1, 1), np.int32), src=source) == wanted


def test_register_store_gives_the_bits() -> None:
    sides = (access("dst", Memory.SBUF, "uint32"), access("src", Memory.REGISTER))
    form = Form("register_store", Engine.ANY, sides)
    written = meaning(form, dst=np.zeros((1, 1), np.uint32), src=np.array([[-1]], np.int32))

    assert written == 2**32 - 1


def test_register_move_takes_a_constant_or_a_register() -> None:
    dst, src = access("dst", Memory.REGISTER), access("src", Memory.REGISTER)
    constant = Form("register_move", Engine.ANY, (dst,), (("value", -5),))
    moved = Form("register_move", Engine.ANY, (dst, src))

    assert meaning(constant, dst=np.zeros((1, 1), np.int32)) == -5
    assert meaning(moved, dst=np.zeros((1, 1), np.int32), src=np.full((1, 1), 9, np.int32)) == 9


def test_a_barrier_writes_nothing() -> None:
    form = Form("core_barrier", Engine.ANY, (access("dst", Memory.HBM),), (("cores", (0, 1)),))

    assert meaning(form, dst=np.array([7], np.int32)) == 7


def test_an_exchange_copies_what_the_other_core_sends() -> None:
    sides = (access("dst", Memory.SBUF, columns=3), access("src", Memory.SBUF, columns=3))
    form = Form("dma_sendrecv", Engine.ANY, sides, (("pipe_id", 0),))
    sent = np.arange(3, dtype=np.int32).reshape(1, 3)

    np.testing.assert_array_equal(meaning(form, dst=np.zeros((1, 3), np.int32), src=sent), sent)


def test_an_exchange_needs_tiles_of_one_shape_and_dtype() -> None:
    sides = (access("dst", Memory.SBUF, columns=3), access("src", Memory.SBUF, columns=4))

    with pytest.raises(KernelError, match="both must be the same"):
        isa.check(Form("dma_sendrecv", Engine.ANY, sides), TRN2)


@pytest.mark.parametrize("op", ["core_barrier", "dma_sendrecv"])
def test_the_first_generation_of_cores_stands_alone(op: str) -> None:
    sides = (access("dst", Memory.SBUF), access("src", Memory.SBUF))
    form = Form(op, Engine.ANY, sides[: len(isa.row(op).roles)])

    with pytest.raises(KernelError, match="not available on trn1"):
        isa.check(form, TRN1)


@pytest.mark.parametrize("op", ["core_barrier", "register_load", "register_store", "register_move"])
def test_a_step_of_a_sequencer_takes_one_issue_interval(op: str) -> None:
    cost = isa.row(op).cost(Form(op, Engine.SYNC, ()), TRN2, Engine.SYNC)

    assert cost.issue == cost.latency == TRN2.min_issue_cycles
