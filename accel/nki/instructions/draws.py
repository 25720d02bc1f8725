"""Calls that draw random numbers, and set or read the state they are drawn from."""

from __future__ import annotations

from accel.nki.enums import engine
from accel.nki.objects import NkiInstruction
from accel.nki.operands import READ, WRITE, Scalar, given, record, scalar
from accel.nki.recorder import Operand
from accel.nki.tensor import Tensor


def rng(dst: Tensor, engine: engine = engine.vector, name: str | None = None) -> NkiInstruction:
    """dst = random bits, the lowest that its integer dtype takes."""
    return record("rng", (("dst", WRITE, dst),), (), engine)


def rand2(dst: Tensor, min: Scalar, max: Scalar, name: str | None = None) -> NkiInstruction:
    """dst = random numbers, uniform from min to max; numbers or one value a partition."""
    operands: list[Operand] = [("dst", WRITE, dst)]
    low = scalar(operands, "min", min)
    high = scalar(operands, "max", max)
    return record("rand2", operands, given(max=high, min=low))


def dropout(dst: Tensor, data: Tensor, prob: Scalar, name: str | None = None) -> NkiInstruction:
    """dst = data with elements replaced by 0 with probability `prob`."""
    operands: list[Operand] = [("dst", WRITE, dst), ("data", READ, data)]
    return record("dropout", operands, given(prob=scalar(operands, "prob", prob)))


def set_rng_seed(src_seeds: Tensor, name: str | None = None) -> NkiInstruction:
    """Seeds the vector engine from a tile of one 32-bit number."""
    return record("set_rng_seed", (("src_seeds", READ, src_seeds),))


def rand_set_state(
    src_seeds: Tensor, engine: engine = engine.gpsimd, name: str | None = None
) -> NkiInstruction:
    """The engine's random states = src_seeds: 6 words a lane of GpSimd, 24 of the vector engine."""
    return record("rand_set_state", (("src_seeds", READ, src_seeds),), (), engine)


def rand_get_state(
    dst: Tensor, engine: engine = engine.gpsimd, name: str | None = None
) -> NkiInstruction:
    """dst = the engine's random states, to be set again later."""
    return record("rand_get_state", (("dst", WRITE, dst),), (), engine)
