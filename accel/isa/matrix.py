"""Rows of the tensor engine: matmul and transpose.

    nc_matmul      dst[M, N] (+)= stationary[K, M].T @ moving[K, N]        K, M ≤ 128, N ≤ 512
    nc_transpose   dst[F, P]   =  data[P, F].T

Products and sums are float32 and exact to rounding; the machine's several passes over float32
operands cost time here, and accuracy only where that is asked for (`device_meaning`). With
`accumulate` "auto", elements not written since their allocation are overwritten and the others
added to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from accel.chip import Chip
from accel.dtypes import FP32, itemsize
from accel.isa import costs, rules
from accel.isa.check import merged
from accel.isa.row import ON_CHIP, SBUF, Array, Role, Row, on, reads, writes
from accel.isa.values import Float32, copy, flat, load, store
from accel.program import Access, Engine, Form, Memory, Mode

_INPUTS = frozenset(
    {
        "float32",
        "tfloat32",
        "bfloat16",
        "float16",
        "float8_e4m3",
        "float8_e5m2",
        "float8_e4m3fn",
    }
)
_FP8 = frozenset({"float8_e4m3", "float8_e5m2", "float8_e4m3fn"})
_SIDE = 128
_VECTOR_SIDE = 32
_HIGH_BITS, _LOW_BITS = 8, 6


def _nc_matmul(form: Form, arrays: Mapping[str, Array]) -> None:
    _accumulate(form, arrays, _exact)


def _nc_matmul_on_device(form: Form, arrays: Mapping[str, Array]) -> None:
    """Float32 operands in the tensor engine's passes; others are exact there too."""
    pair = (form.access("stationary"), form.access("moving"))
    in_passes = all(access is not None and access.layout.dtype in FP32 for access in pair)
    _accumulate(form, arrays, _in_passes if in_passes else _exact)


def _exact(left: Float32, right: Float32) -> Float32:
    # BLAS on strided operands is many times slower than copying them first.
    result: Float32 = np.ascontiguousarray(left).T @ np.ascontiguousarray(right)
    return result


def _in_passes(left: Float32, right: Float32) -> Float32:
    """Each operand is a high part of 8 significant bits (bfloat16) and a low part; the product of
    the two low parts is left out. What the machine does is not published. 6 bits in the low part
    are assumed: that gives 1.4e-5 relative to the exact product in the L2 norm, where 1.46e-5 was
    measured on trn2; the 8 bits of a second bfloat16 would give 0.44e-5.
    """
    high, other_high = _rounded(left, _HIGH_BITS), _rounded(right, _HIGH_BITS)
    result = _exact(high, other_high)
    # The first product alone carries infinities: times the zero of a low part they would be NaN.
    high, other_high = (np.where(np.isfinite(part), part, 0) for part in (high, other_high))
    low, other_low = _low_part(left, high), _low_part(right, other_high)
    result += _exact(high, other_low)
    result += _exact(low, other_high)
    return result


def _low_part(values: Float32, high: Float32) -> Float32:
    return _rounded(np.where(np.isfinite(values), values - high, 0), _LOW_BITS)


def _rounded(values: Float32, significant: int) -> Float32:
    """The nearest numbers of so many significant bits."""
    fraction, exponent = np.frexp(values)
    rounded: Float32 = np.ldexp(np.rint(np.ldexp(fraction, significant)), exponent - significant)
    return rounded


def _accumulate(
    form: Form,
    arrays: Mapping[str, Array],
    multiply: Callable[[Float32, Float32], Float32],
) -> None:
    accumulated(form, arrays, _product(form, arrays["stationary"], arrays["moving"], multiply))


def accumulated(form: Form, arrays: Mapping[str, Array], values: Array) -> None:
    """A product into dst, over what is there or added to it, as `accumulate` says."""
    target = arrays["dst"]
    product = values.reshape(target.shape)
    accumulate = form.attribute("accumulate", "auto")
    written = arrays.get("dst.written")
    if accumulate == "false" or written is None or (accumulate == "auto" and not written.any()):
        store(target, product)
    elif accumulate == "true" or written.all():
        store(target, target.astype(np.float32) + product.astype(np.float32, copy=False))
    else:
        store(
            target,
            np.where(
                written, target.astype(np.float32) + product.astype(np.float32, copy=False), product
            ),
        )


def _product(
    form: Form,
    stationary: Array,
    moving: Array,
    multiply: Callable[[Float32, Float32], Float32],
) -> Array:
    if form.attribute("is_transpose") and _is_identity(flat(moving)):
        return flat(stationary).T
    left, right = load(stationary), load(moving)
    if form.attribute("perf_mode", "") == "double_row":
        left, right = _rows_doubled(left), _rows_doubled(right)
    return multiply(left, right)


def _rows_doubled(values: Float32) -> Float32:
    """[K, 2 × F] to [2 × K, F]: the first free axis continues the contraction."""
    return values.reshape(2 * len(values), -1)


def _is_identity(values: Array) -> bool:
    square = values.shape[0] == values.shape[1]
    return square and bool((values.astype(np.float32) == np.eye(len(values))).all())


def _nc_transpose(form: Form, arrays: Mapping[str, Array]) -> None:
    copy(arrays["dst"], np.ascontiguousarray(flat(arrays["data"]).T))


def _matmul_flops(form: Form) -> int:
    if form.attribute("is_transpose"):
        return 0
    stationary, moving = form.access("stationary"), form.access("moving")
    if stationary is None or moving is None:
        return 0
    # K × (rows packed) is elements ÷ columns, so double_row is counted once.
    packed = 2 if form.attribute("perf_mode", "") == "double_row" else 1
    columns = moving.layout.elements // packed
    return 2 * stationary.layout.partitions * stationary.layout.elements * columns


def _matmul_shapes(form: Form, chip: Chip) -> str | None:
    target, stationary, moving = (form.access(r) for r in ("dst", "stationary", "moving"))
    if target is None or stationary is None or moving is None:
        return None
    packed = 2 if form.attribute("perf_mode", "") == "double_row" else 1
    rows, columns = stationary.layout.elements // packed, moving.layout.elements // packed
    if stationary.layout.partitions != moving.layout.partitions:
        return (
            f"contraction differs: stationary K={stationary.layout.partitions}, "
            f"moving K={moving.layout.partitions}"
        )
    if rows > chip.stationary_max:
        return f"stationary has {rows} columns, the limit is {chip.stationary_max}"
    limit = moving_limit(chip, target)
    if columns > limit:
        return f"moving has {columns} columns, the limit is {limit}"
    if (target.layout.partitions, target.layout.elements) != (rows, columns):
        shape = (target.layout.partitions, target.layout.elements)
        return f"dst is {shape[0]}×{shape[1]}, must be {rows}×{columns}"
    return None


def moving_limit(chip: Chip, target: Access) -> int:
    """NeuronCore-v4 may fill all of PSUM with one matmul."""
    if chip.generation < 4:
        return chip.moving_max
    return chip.psum_banks * chip.psum_bank_bytes // itemsize(target.layout.dtype)


def _one_bank(form: Form, chip: Chip) -> str | None:
    """The result of one instruction lies in one PSUM bank."""
    target = form.access("dst")
    if target is None or target.layout.memory is not Memory.PSUM or chip.generation >= 4:
        return None
    layout = target.layout
    reach = itemsize(layout.dtype) + sum(step * (n - 1) for step, n in merged(layout.pattern))
    if reach <= chip.psum_bank_bytes:
        return None
    return f"dst spans {reach} bytes a partition, a psum bank has {chip.psum_bank_bytes}"


def _matmul_dtypes(form: Form, chip: Chip) -> str | None:
    target, stationary, moving = (form.access(r) for r in ("dst", "stationary", "moving"))
    if target is None or stationary is None or moving is None:
        return None
    names = {stationary.layout.dtype, moving.layout.dtype}
    if len(names & FP32) > 0 and not names <= FP32:
        return (
            f"stationary is {stationary.layout.dtype}, moving is {moving.layout.dtype}: "
            "float32 pairs only with float32"
        )
    if form.attribute("is_transpose") and chip.generation >= 3:
        return None
    legal = {"float32", "bfloat16"} if chip.generation >= 4 else {"float32"}
    if target.layout.dtype not in legal:
        return f"dst is {target.layout.dtype}, must be {' or '.join(sorted(legal))}"
    return None


def _double_row(form: Form, chip: Chip) -> str | None:
    if form.attribute("perf_mode", "none") != "double_row":
        return None
    if chip.generation < 3:
        return f"perf_mode double_row needs gen3 or newer, {chip.name} is {chip.nc_version}"
    for role in ("stationary", "moving"):
        access = form.access(role)
        if access is None:
            continue
        if access.layout.dtype not in _FP8:
            return f"{role} is {access.layout.dtype}, perf_mode double_row needs an 8-bit float"
        if len(access.layout.shape) < 3 or access.layout.shape[1] != 2:
            return f"{role} is {access.layout.shape}, double_row needs (K, 2, columns)"
    return None


def matmul_tiling(form: Form, chip: Chip) -> str | None:
    """Rules of tile_position and tile_size."""
    position, size = form.attribute("tile_position", ()), form.attribute("tile_size", ())
    if position == () and size == ():
        return None
    if not isinstance(position, tuple) or not isinstance(size, tuple):
        return f"tile_position {position!r} and tile_size {size!r} must be pairs"
    if len(position) != 2 or len(size) != 2:
        return f"tile_position {position} and tile_size {size} must both be pairs"
    smallest = 64 if chip.generation <= 2 else 32
    for axis, start, extent in zip(("row", "column"), position, size, strict=True):
        if extent not in {smallest, 64, _SIDE}:
            return f"tile_size {axis} is {extent}, must be {smallest}, 64 or {_SIDE}"
        if start % extent or start + extent > _SIDE:
            return f"tile_position {axis} is {start}, must be a multiple of {extent} below {_SIDE}"
    return _fits_tile(form, size)


def _fits_tile(form: Form, size: tuple[int, ...]) -> str | None:
    stationary = form.access("stationary")
    if stationary is None:
        return None
    for what, got, limit in (
        ("partitions", stationary.layout.partitions, size[0]),
        ("columns", stationary.layout.elements, size[1]),
    ):
        if got > limit:
            return f"stationary has {got} {what}, tile_size allows {limit}"
    return None


def _transpose_shapes(form: Form, chip: Chip) -> str | None:
    target, data = form.access("dst"), form.access("data")
    if target is None or data is None:
        return None
    partitions, free = data.layout.partitions, data.layout.elements
    if (target.layout.partitions, target.layout.elements) != (free, partitions):
        got = (target.layout.partitions, target.layout.elements)
        return f"dst is {got[0]}×{got[1]}, must be {free}×{partitions}"
    side = _VECTOR_SIDE if form.engine is Engine.VECTOR else _SIDE
    if max(partitions, free) > side:
        return f"data is {partitions}×{free}, the limit is {side}×{side}"
    return None


def _transpose_suits(form: Form, engine: Engine) -> bool:
    target, data = form.access("dst"), form.access("data")
    if target is None or data is None:
        return False
    if engine is Engine.VECTOR:
        return max(data.layout.partitions, data.layout.elements) <= _VECTOR_SIDE
    return target.layout.memory is Memory.PSUM and data.layout.memory is Memory.SBUF


def _transpose_memories(form: Form, chip: Chip) -> str | None:
    if form.engine is not Engine.TENSOR or _transpose_suits(form, Engine.TENSOR):
        return None
    return "the tensor engine transposes from sbuf to psum only"


ROWS = (
    Row(
        name="nc_matmul",
        summary="dst (+)= stationary.T @ moving, accumulated in PSUM",
        engines=on(Engine.TENSOR),
        roles=(
            Role("dst", Mode.ACCUMULATE, (Memory.PSUM,)),
            reads("stationary", SBUF),
            reads("moving", SBUF),
        ),
        attributes=(
            "accumulate",
            "is_transpose",
            "is_stationary_onezero",
            "is_moving_onezero",
            "perf_mode",
            "tile_position",
            "tile_size",
        ),
        rules=(
            rules.dtype_among("stationary", _INPUTS),
            rules.dtype_among("moving", _INPUTS),
            rules.among("accumulate", frozenset({"auto", "true", "false"}), "auto"),
            rules.among("perf_mode", frozenset({"none", "double_row"}), "none"),
            _matmul_shapes,
            _matmul_dtypes,
            _one_bank,
            _double_row,
            matmul_tiling,
        ),
        meaning=_nc_matmul,
        device_meaning=_nc_matmul_on_device,
        cost=costs.matmul_cost,
        source="v2.26 cost table: N cycles, 4N for float32; 400 more until the result is there",
        flops=_matmul_flops,
        lanes=("dst", "stationary", "moving"),
    ),
    Row(
        name="nc_transpose",
        fills=True,
        summary="dst = data.T, partitions against free elements",
        engines=on(Engine.TENSOR, Engine.VECTOR),
        roles=(writes("dst", ON_CHIP), reads("data", ON_CHIP)),
        rules=(_transpose_shapes, _transpose_memories, _one_bank),
        meaning=_nc_transpose,
        cost=costs.transpose_cost,
        source="v2.26 cost table: tensor engine P cycles, vector engine max(64, N)",
        suits=_transpose_suits,
    ),
)
