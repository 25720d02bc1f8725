"""Calls that compute element by element: ALU operations, activation functions, scans."""

from __future__ import annotations

from accel.nki.enums import engine, operation_name, reduce_cmd
from accel.nki.objects import NkiInstruction
from accel.nki.operands import (
    READ,
    WRITE,
    Scalar,
    command,
    flag,
    given,
    record,
    scalar,
    works_on_bits,
)
from accel.nki.recorder import Attributes, Operand
from accel.nki.tensor import Tensor


def tensor_tensor(
    dst: Tensor,
    data1: Tensor,
    data2: Tensor,
    op: object,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """dst = data1 op data2."""
    operands = (("dst", WRITE, dst), ("data1", READ, data1), ("data2", READ, data2))
    return record("tensor_tensor", operands, (("op", operation_name(op)),), engine)


def tensor_scalar(
    dst: Tensor,
    data: Tensor,
    op0: object,
    operand0: Scalar,
    reverse0: bool = False,
    op1: object = None,
    operand1: Scalar | None = None,
    reverse1: bool = False,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """dst = (data op0 operand0) op1 operand1; operands are numbers or one value a partition."""
    operands: list[Operand] = [("dst", WRITE, dst), ("data", READ, data)]
    first = operation_name(op0)
    second = None if op1 is None else operation_name(op1)
    bits = works_on_bits(first) or works_on_bits(second or "")
    value0 = scalar(operands, "operand0", operand0, bits)
    value1 = scalar(operands, "operand1", operand1, bits)
    attributes = given(
        op0=first,
        op1=second,
        operand0=value0,
        operand1=value1,
        reverse0=flag(reverse0),
        reverse1=flag(reverse1),
    )
    return record("tensor_scalar", operands, attributes, engine)


def scalar_tensor_tensor(
    dst: Tensor,
    data: Tensor,
    op0: object,
    operand0: Scalar,
    op1: object,
    operand1: Tensor,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """dst = (data op0 operand0) op1 operand1, operand1 being a tile like data."""
    operands: list[Operand] = [("dst", WRITE, dst), ("data", READ, data)]
    value0 = scalar(operands, "operand0", operand0)
    operands.append(("operand1", READ, operand1))
    attributes = given(
        op0=operation_name(op0),
        op1=operation_name(op1),
        operand0=value0,
        reverse0=flag(reverse0),
        reverse1=flag(reverse1),
    )
    return record("scalar_tensor_tensor", operands, attributes)


def tensor_tensor_scan(
    dst: Tensor,
    data0: Tensor,
    data1: Tensor,
    initial: Scalar,
    op0: object,
    op1: object,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """dst[:, i] = (data0[:, i] op0 dst[:, i − 1]) op1 data1[:, i], starting from `initial`."""
    operands: list[Operand] = [("dst", WRITE, dst), ("data0", READ, data0), ("data1", READ, data1)]
    start = scalar(operands, "initial", initial)
    attributes = given(
        initial=start,
        op0=operation_name(op0),
        op1=operation_name(op1),
        reverse0=flag(reverse0),
        reverse1=flag(reverse1),
    )
    return record("tensor_tensor_scan", operands, attributes)


def activation(
    dst: Tensor,
    op: object,
    data: Tensor,
    bias: Scalar | None = None,
    scale: Scalar = 1.0,
    reduce_op: object = None,
    reduce_res: Tensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    name: str | None = None,
) -> NkiInstruction:
    """dst = op(data × scale + bias); the accumulator registers follow `reduce_cmd`."""
    operands, attributes = _activated(dst, op, data, bias, scale)
    if reduce_res is not None:
        operands.append(("reduce_res", WRITE, reduce_res))
    extra = given(
        reduce_cmd=command(reduce_cmd, "idle"),
        reduce_op=None if reduce_op is None else operation_name(reduce_op),
    )
    return record("activation", operands, tuple(sorted(attributes + extra)))


def activation_reduce(
    dst: Tensor,
    op: object,
    data: Tensor,
    reduce_op: object,
    reduce_res: Tensor,
    bias: Scalar | None = None,
    scale: Scalar = 1.0,
    name: str | None = None,
) -> NkiInstruction:
    """`activation` that also leaves the sum over the free axes in reduce_res."""
    operands, attributes = _activated(dst, op, data, bias, scale)
    operands.append(("reduce_res", WRITE, reduce_res))
    extra = (("reduce_op", operation_name(reduce_op)),)
    return record("activation_reduce", operands, tuple(sorted(attributes + extra)))


def _activated(
    dst: Tensor, op: object, data: Tensor, bias: Scalar | None, scale: Scalar
) -> tuple[list[Operand], Attributes]:
    operands: list[Operand] = [("dst", WRITE, dst), ("data", READ, data)]
    bias_value = scalar(operands, "bias", bias)
    scale_value = scalar(operands, "scale", scale)
    attributes = given(
        bias=bias_value or None,
        func=operation_name(op),
        scale=None if scale_value == 1.0 else scale_value,
    )
    return operands, attributes


def reciprocal(dst: Tensor, data: Tensor, name: str | None = None) -> NkiInstruction:
    """dst = 1 ÷ data on the vector engine."""
    return record("reciprocal", (("dst", WRITE, dst), ("data", READ, data)))
