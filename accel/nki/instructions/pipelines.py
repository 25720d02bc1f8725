"""Calls of NeuronCore-v4's activation pipelines: `activate2` and `exponential`."""

from __future__ import annotations

from accel.nki.enums import operation_name, reduce_cmd
from accel.nki.objects import NkiInstruction
from accel.nki.operands import READ, WRITE, Scalar, command, flag, given, record, scalar
from accel.nki.recorder import Operand
from accel.nki.tensor import Tensor


def activate2(
    dst: Tensor,
    op: object,
    data: Tensor,
    imm0: Scalar,
    imm1: Scalar,
    op0: object,
    op1: object,
    relu_param: Scalar = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: object = None,
    reduce_res: Tensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    name: str | None = None,
) -> NkiInstruction:
    """dst = op((data op0 imm0) op1 imm1); the accumulator registers follow `reduce_cmd`."""
    operands: list[Operand] = [("dst", WRITE, dst)]
    if reduce_res is not None:
        operands.append(("reduce_res", WRITE, reduce_res))
    operands.append(("data", READ, data))
    first = scalar(operands, "imm0", imm0)
    second = scalar(operands, "imm1", imm1)
    slope = scalar(operands, "relu_param", relu_param)
    attributes = given(
        func=operation_name(op),
        imm0=first,
        imm1=second,
        op0=operation_name("bypass" if op0 is None else op0),
        op1=operation_name("bypass" if op1 is None else op1),
        reduce_cmd=command(reduce_cmd, "idle"),
        reduce_op=None if reduce_op is None else operation_name(reduce_op),
        relu_param=slope or None,
        reverse0=flag(reverse0),
        reverse1=flag(reverse1),
    )
    return record("activate2", operands, attributes)


def exponential(
    dst: Tensor,
    src: Tensor,
    max_value: Scalar = 0.0,
    reduce_res: Tensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_init: Scalar = 0.0,
    name: str | None = None,
) -> NkiInstruction:
    """dst = exp(src − max_value) on the vector engine; reduce_res = the running sum."""
    operands: list[Operand] = [("dst", WRITE, dst)]
    if reduce_res is not None:
        operands.append(("reduce_res", WRITE, reduce_res))
    operands.append(("src", READ, src))
    largest = scalar(operands, "max_value", max_value)
    start = scalar(operands, "reduce_init", reduce_init)
    attributes = given(
        max_value=largest or None,
        reduce_cmd=command(reduce_cmd, "idle"),
        reduce_init=start or None,
    )
    return record("exponential", operands, attributes)
