"""Calls that compute element by element: activation functions, ALU operations, scans."""

from __future__ import annotations

from accel.nki import isa as new
from accel.nki.enums import engine, reduce_cmd
from accel.nki.legacy.index import Mask
from accel.nki.legacy.tile import (
    DType,
    Operated,
    Tile,
    binary,
    box_of,
    column,
    issue,
    kind_of,
)
from accel.nki.tiles import promoted


def activation(
    op: object,
    data: Tile,
    *,
    bias: Tile | None = None,
    scale: Operated = 1.0,
    reduce_op: object = None,
    reduce_res: Tile | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    mask: Mask | bool | None = None,
    dtype: DType | None = None,
    **_: object,
) -> Tile:
    """op(data × scale + bias), with the running reduction that `reduce_cmd` asks for."""
    return issue(
        new.activation,
        data.shape,
        kind_of(dtype, data.kind),
        box=box_of(mask, data.shape),
        op=op,
        data=data,
        bias=column(bias),
        scale=column(scale),
        reduce_op=reduce_op,
        reduce_res=column(reduce_res),
        reduce_cmd=reduce_cmd,
    )


def activation_reduce(
    op: object,
    data: Tile,
    *,
    reduce_op: object,
    reduce_res: Tile,
    bias: Tile | None = None,
    scale: Operated = 1.0,
    mask: Mask | bool | None = None,
    dtype: DType | None = None,
    **_: object,
) -> Tile:
    """`activation` that leaves the reduction of its result over the free axes in reduce_res."""
    return issue(
        new.activation_reduce,
        data.shape,
        kind_of(dtype, data.kind),
        box=box_of(mask, data.shape),
        op=op,
        data=data,
        reduce_op=reduce_op,
        reduce_res=column(reduce_res),
        bias=column(bias),
        scale=column(scale),
    )


def reciprocal(
    data: Tile, *, dtype: DType | None = None, mask: Mask | bool | None = None, **_: object
) -> Tile:
    """1 ÷ data on the vector engine."""
    kind, box = kind_of(dtype, data.kind), box_of(mask, data.shape)
    return issue(new.reciprocal, data.shape, kind, box=box, data=data)


def scalar_tensor_tensor(
    *,
    data: Tile,
    op0: object,
    operand0: Operated,
    op1: object,
    operand1: Tile,
    reverse0: bool = False,
    reverse1: bool = False,
    dtype: DType | None = None,
    mask: Mask | bool | None = None,
    **_: object,
) -> Tile:
    """(data op0 operand0) op1 operand1, operand1 being a tile like data."""
    return issue(
        new.scalar_tensor_tensor,
        data.shape,
        kind_of(dtype, data.kind),
        box=box_of(mask, data.shape),
        data=data,
        op0=op0,
        operand0=column(operand0),
        op1=op1,
        operand1=operand1,
        reverse0=reverse0,
        reverse1=reverse1,
    )


def tensor_scalar(
    data: Tile,
    op0: object,
    operand0: Operated,
    reverse0: bool = False,
    op1: object = None,
    operand1: Operated | None = None,
    reverse1: bool = False,
    *,
    dtype: DType | None = None,
    mask: Mask | bool | None = None,
    engine: engine = engine.unknown,
    **_: object,
) -> Tile:
    """(data op0 operand0) op1 operand1; operands are numbers or one value a partition."""
    return issue(
        new.tensor_scalar,
        data.shape,
        kind_of(dtype, data.kind),
        box=box_of(mask, data.shape),
        data=data,
        op0=op0,
        operand0=column(operand0),
        reverse0=reverse0,
        op1=op1,
        operand1=column(operand1),
        reverse1=reverse1,
        engine=engine,
    )


def tensor_tensor(
    data1: Tile,
    data2: Tile,
    op: object,
    *,
    dtype: DType | None = None,
    mask: Mask | bool | None = None,
    engine: engine = engine.unknown,
    **_: object,
) -> Tile:
    """data1 op data2."""
    if data1.shape != data2.shape:
        return binary(op, data1, data2, dtype=dtype, mask=mask, engine=engine)
    return issue(
        new.tensor_tensor,
        data1.shape,
        kind_of(dtype, promoted(data1.kind, data2.kind)),
        box=box_of(mask, data1.shape),
        data1=data1,
        data2=data2,
        op=op,
        engine=engine,
    )


def tensor_tensor_scan(
    data0: Tile,
    data1: Tile,
    initial: Operated,
    op0: object,
    op1: object,
    reverse0: bool = False,
    reverse1: bool = False,
    *,
    dtype: DType | None = None,
    mask: Mask | bool | None = None,
    **_: object,
) -> Tile:
    """result[:, i] = (data0[:, i] op0 result[:, i − 1]) op1 data1[:, i], from `initial` on."""
    return issue(
        new.tensor_tensor_scan,
        data0.shape,
        kind_of(dtype, promoted(data0.kind, data1.kind)),
        box=box_of(mask, data0.shape),
        data0=data0,
        data1=data1,
        initial=column(initial),
        op0=op0,
        op1=op1,
        reverse0=reverse0,
        reverse1=reverse1,
    )
