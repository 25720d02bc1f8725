"""Calls on microscaled (MX) numbers: quantising to them, and matmul of them. From trn3 on."""

from __future__ import annotations

from collections.abc import Sequence

from accel.nki.objects import NkiInstruction
from accel.nki.operands import ACCUMULATE, READ, WRITE, given, integers, record
from accel.nki.recorder import Attributes
from accel.nki.tensor import Tensor


def quantize_mx(
    dst: Tensor, src: Tensor, dst_scale: Tensor, name: str | None = None
) -> NkiInstruction:
    """dst, dst_scale = src as 8-bit floats and a power of two for every 8 partitions × 4."""
    return _quantize(dst, src, dst_scale, ())


def quantize_mx_ocp(
    dst: Tensor, src: Tensor, dst_scale: Tensor, name: str | None = None
) -> NkiInstruction:
    """`quantize_mx` before NKI 0.5: the power of two that the OCP text computes, half as large."""
    return _quantize(dst, src, dst_scale, (("scale_rule", "ocp"),))


def _quantize(
    dst: Tensor, src: Tensor, dst_scale: Tensor, attributes: Attributes
) -> NkiInstruction:
    operands = (("dst", WRITE, dst), ("dst_scale", WRITE, dst_scale), ("src", READ, src))
    return record("quantize_mx", operands, attributes)


def nc_matmul_mx(
    dst: Tensor,
    stationary: Tensor,
    moving: Tensor,
    stationary_scale: Tensor,
    moving_scale: Tensor,
    tile_position: Sequence[int] | None = None,
    tile_size: Sequence[int] | None = None,
    accumulate: bool | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """dst[M, N] (+)= stationary.T @ moving over partitions and the four of each packed element."""
    operands = (
        ("dst", ACCUMULATE, dst),
        ("stationary", READ, stationary),
        ("moving", READ, moving),
        ("stationary_scale", READ, stationary_scale),
        ("moving_scale", READ, moving_scale),
    )
    attributes = given(
        accumulate="auto" if accumulate is None else "true" if accumulate else "false",
        tile_position=integers(tile_position, "tile_position") if tile_position else None,
        tile_size=integers(tile_size, "tile_size") if tile_size else None,
    )
    return record("nc_matmul_mx", operands, attributes)
