"""Rows of microscaled numbers (OCP MX): quantising to them, and matmul of them.

    quantize_mx    src [P, 4F] → dst [P, F] of four 8-bit floats each, dst_scale
    nc_matmul_mx   dst [M, N] (+)= Σ over partitions and the four of stationary × moving

8 partitions × 4 packed elements share one power of two, stored as exponent + 127 in a byte. The
scales of a quadrant of 32 partitions lie in its first four; what is between is not touched.

The scale leaves a spare bit: 2^(⌊log2 amax⌋ − largest exponent + 1), as published with NKI 0.6.
With `scale_rule` "ocp" it does not, as the OCP text and the vendor's own references until then.
"""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np

from accel.chip import Chip
from accel.dtypes import numpy_dtype
from accel.isa import costs
from accel.isa.matrix import accumulated, matmul_tiling, moving_limit
from accel.isa.row import SBUF, Array, Cost, Role, Row, on, reads, writes
from accel.isa.rules import among, dtype_among
from accel.isa.values import Float32, Int64, flat, load
from accel.program import Engine, Form, Memory, Mode

_PACKED = frozenset({"float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"})
_EIGHT_BIT = frozenset({"float8_e4m3fn_x4", "float8_e5m2_x4"})
_SCALES = frozenset({"float8_e8m0fnu", "uint8"})
_HALVES = frozenset({"float16", "bfloat16"})
_ELEMENT = {
    "float8_e4m3fn_x4": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2_x4": np.dtype(ml_dtypes.float8_e5m2),
}
_LARGEST_EXPONENT = {"float8_e4m3fn_x4": 8, "float8_e5m2_x4": 15}
_LARGEST = {"float8_e4m3fn_x4": 448.0, "float8_e5m2_x4": 57344.0}
_BIAS = 127
_NOT_A_NUMBER = 255
_QUADRANT, _GROUP, _PACK = 32, 8, 4
_QUADRANT_SCALES = (_QUADRANT, _QUADRANT // _GROUP)
_FP4 = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)


def scale_rows(partitions: int) -> Int64:
    """Where in its tile the scale of each group of 8 partitions lies."""
    groups = np.arange(partitions // _GROUP)
    each = _QUADRANT // _GROUP
    return groups // each * _QUADRANT + groups % each


def unpacked(tile: Array, dtype: str) -> Float32:
    """Packed [..., F] as float32 [..., F, 4]; the first of four lies in the lowest bits."""
    dense = np.ascontiguousarray(tile)
    if dtype in _ELEMENT:
        numbers = dense.view(_ELEMENT[dtype]).astype(np.float32)
    else:
        words = dense.view(np.uint16)[..., None]
        numbers = _FP4[words >> (4 * np.arange(_PACK, dtype=np.uint16)) & 15]
    result: Float32 = numbers.reshape(*dense.shape, _PACK)
    return result


def packed(numbers: Array, dtype: str) -> Array:
    """Numbers [..., 4 F] rounded to the element type and packed, [..., F]."""
    storage = numpy_dtype(dtype)
    if dtype in _ELEMENT:
        return np.ascontiguousarray(numbers.astype(_ELEMENT[dtype])).view(storage)
    digits = numbers.astype(ml_dtypes.float4_e2m1fn).view(np.uint8).astype(np.uint16) & 15
    fours = digits.reshape(*digits.shape[:-1], -1, _PACK)
    words = np.bitwise_or.reduce(fours << (4 * np.arange(_PACK, dtype=np.uint16)), axis=-1)
    result: Array = words.astype(np.uint16).view(storage)
    return result


def _scaled(form: Form, arrays: Mapping[str, Array], role: str) -> Float32:
    access = form.access(role)
    assert access is not None
    numbers = unpacked(flat(arrays[role]), access.layout.dtype)
    scales = flat(arrays[role + "_scale"]).view(np.uint8)[scale_rows(len(numbers))]
    powers = np.ldexp(np.float32(1), scales.astype(np.int32) - _BIAS).astype(np.float32)
    powers[scales == _NOT_A_NUMBER] = np.nan
    return numbers * powers.repeat(_GROUP, axis=0)[:, :, None]


def _nc_matmul_mx(form: Form, arrays: Mapping[str, Array]) -> None:
    left, right = (_scaled(form, arrays, role) for role in ("stationary", "moving"))
    rows, columns = left.shape[1], right.shape[1]
    flat_left = left.transpose(0, 2, 1).reshape(-1, rows)
    flat_right = right.transpose(0, 2, 1).reshape(-1, columns)
    accumulated(form, arrays, np.ascontiguousarray(flat_left).T @ flat_right)


def _quantize_mx(form: Form, arrays: Mapping[str, Array]) -> None:
    target = form.access("dst")
    assert target is not None
    dtype = target.layout.dtype
    values = load(arrays["src"])
    lanes, count = len(values), values.shape[1] // _PACK
    grouped = np.abs(values).reshape(lanes // _GROUP, _GROUP, count, _PACK)
    largest = grouped.max(axis=(1, 3))
    # frexp gives amax = m × 2^e with ½ ≤ m < 1, so ⌊log2 amax⌋ is e − 1.
    spare = 0 if form.attribute("scale_rule", "") == "ocp" else 1
    exponents = np.frexp(largest)[1] - 1 - (_LARGEST_EXPONENT[dtype] - spare)
    exponents = np.where(largest == 0, -_BIAS, exponents).clip(-_BIAS, _BIAS)
    scale = np.ldexp(np.float32(1), exponents).astype(np.float32)
    divided = values.reshape(lanes, count, _PACK) / scale.repeat(_GROUP, axis=0)[:, :, None]
    divided = divided.clip(-_LARGEST[dtype], _LARGEST[dtype])
    arrays["dst"][...] = packed(divided.reshape(lanes, -1), dtype).reshape(arrays["dst"].shape)
    stored = np.where(np.isfinite(largest), exponents + _BIAS, _NOT_A_NUMBER).astype(np.uint8)
    tile = arrays["dst_scale"]
    tile[scale_rows(lanes)] = stored.reshape(-1, *tile.shape[1:]).view(tile.dtype)


def _scale_fits(form: Form, scale: str, data: str, pack: int) -> str | None:
    tile, scaled = form.access(scale), form.access(data)
    if tile is None or scaled is None:
        return None
    partitions = scaled.layout.partitions
    if partitions % _QUADRANT or partitions > 128:
        return f"{data} has {partitions} partitions, must have 32, 64, 96 or 128"
    needed = int(scale_rows(partitions)[-1]) + 1
    if tile.layout.partitions < needed:
        return f"{scale} has {tile.layout.partitions} partitions, must have {needed} or more"
    columns = scaled.layout.elements // pack
    if tile.layout.elements != columns:
        return f"{scale} has {tile.layout.elements} elements a partition, must have {columns}"
    return None


def _quantized_shapes(form: Form, chip: Chip) -> str | None:
    source, target = form.access("src"), form.access("dst")
    if source is None or target is None:
        return None
    got = (target.layout.partitions, target.layout.elements)
    wanted = (source.layout.partitions, source.layout.elements // _PACK)
    if source.layout.elements % _PACK or got != wanted:
        return f"dst is {got[0]}×{got[1]}, src {wanted[0]}×{source.layout.elements}: 4 to 1 needed"
    return _scale_fits(form, "dst_scale", "src", _PACK)


def _product_shapes(form: Form, chip: Chip) -> str | None:
    target, stationary, moving = (form.access(r) for r in ("dst", "stationary", "moving"))
    if target is None or stationary is None or moving is None:
        return None
    sides = (stationary.layout, moving.layout)
    if sides[0].partitions != sides[1].partitions:
        return f"stationary has K={sides[0].partitions} partitions, moving K={sides[1].partitions}"
    rows, columns = sides[0].elements, sides[1].elements
    if rows > chip.stationary_max or rows % 2:
        return f"stationary has {rows} columns, must be even and up to {chip.stationary_max}"
    if columns > moving_limit(chip, target):
        return f"moving has {columns} columns, the limit is {moving_limit(chip, target)}"
    got = (target.layout.partitions, target.layout.elements)
    if got != (rows, columns):
        return f"dst is {got[0]}×{got[1]}, must be {rows}×{columns}"
    return _scale_fits(form, "stationary_scale", "stationary", 1) or _scale_fits(
        form, "moving_scale", "moving", 1
    )


def _row_tiles(form: Form, chip: Chip) -> str | None:
    position, size = form.attribute("tile_position", ()), form.attribute("tile_size", ())
    problem = matmul_tiling(form, chip)
    if problem is not None or not isinstance(size, tuple) or not isinstance(position, tuple):
        return problem
    if size and (size[1] != 128 or position[1]):
        return f"tile_size {size} at {position}: only rows are tiled, columns are 128 from 0"
    return None


def _flops(form: Form) -> int:
    stationary, moving = form.access("stationary"), form.access("moving")
    if stationary is None or moving is None:
        return 0
    contraction = _PACK * moving.layout.partitions
    return 2 * contraction * stationary.layout.elements * moving.layout.elements


def _four_a_cycle(form: Form, chip: Chip) -> int:
    return -(-costs.elements(form) // _PACK)


def _matmul_cost(form: Form, chip: Chip, engine: Engine) -> Cost:
    return costs.matmul_cost(form, chip, engine)


def _scales(name: str, mode: Mode = Mode.READ) -> Role:
    return Role(name, mode, SBUF, every=_QUADRANT_SCALES)


ROWS = (
    Row(
        name="quantize_mx",
        summary="dst = src in groups of 32 over a shared power of two, which goes to dst_scale",
        engines=on(Engine.VECTOR, since=4),
        roles=(writes("dst", SBUF), _scales("dst_scale", Mode.WRITE), reads("src", SBUF)),
        attributes=("scale_rule",),
        rules=(
            dtype_among("src", _HALVES),
            dtype_among("dst", _EIGHT_BIT),
            dtype_among("dst_scale", _SCALES),
            among("scale_rule", frozenset({"", "ocp"})),
            _quantized_shapes,
        ),
        meaning=_quantize_mx,
        cost=costs.engine_cost(_four_a_cycle),
        source="trainium3_arch.rst: four input elements a partition and cycle",
    ),
    Row(
        name="nc_matmul_mx",
        summary="dst (+)= stationary.T @ moving of packed MX numbers, dequantised on the way",
        engines=on(Engine.TENSOR, since=4),
        roles=(
            Role("dst", Mode.ACCUMULATE, (Memory.PSUM,)),
            reads("stationary", SBUF),
            reads("moving", SBUF),
            _scales("stationary_scale"),
            _scales("moving_scale"),
        ),
        attributes=("accumulate", "tile_position", "tile_size"),
        rules=(
            dtype_among("stationary", _PACKED),
            dtype_among("moving", _PACKED),
            dtype_among("stationary_scale", _SCALES),
            dtype_among("moving_scale", _SCALES),
            dtype_among("dst", frozenset({"float32", "bfloat16"})),
            _product_shapes,
            _row_tiles,
        ),
        meaning=_nc_matmul_mx,
        cost=_matmul_cost,
        source="trainium3_arch.rst: four times the contraction in the time of a bfloat16 matmul",
        flops=_flops,
        lanes=("dst", "stationary", "moving", "stationary_scale", "moving_scale"),
    ),
)
