"""`neuronxcc.nki.language`: tensors, loads and stores, and operators called as functions.

An operator such as `nl.add` is also what an instruction takes as `op=`. Which instruction a
function becomes is in `tile.binary` and here; what takes several is in `lowering` or `composites`.
Names of the language that are missing here raise AttributeError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import numpy.typing as npt

from accel.dtypes import itemsize, numpy_dtype
from accel.errors import KernelError
from accel.isa import FUNCTIONS, OPERATORS
from accel.nki.enums import MemoryRegion, Token, operation_name
from accel.nki.instructions import elementwise as new
from accel.nki.instructions.moves import dma_compute, dma_copy, dma_transpose
from accel.nki.language import tile_size
from accel.nki.legacy import composites, isa, lowering
from accel.nki.legacy.buffers import (
    ParDim,
    empty_like,
    filled,
    full,
    ndarray,
    ones,
    shared_constant,
    shared_identity_matrix,
    zeros,
    zeros_like,
)
from accel.nki.legacy.grid import nc, spmd_dim
from accel.nki.legacy.index import Mask, arange, mgrid
from accel.nki.legacy.instructions import draws
from accel.nki.legacy.isa import fp32
from accel.nki.legacy.loops import affine_range, loop_reduce, static_range
from accel.nki.legacy.session import session
from accel.nki.legacy.tile import (
    Box,
    DType,
    Operated,
    Tile,
    binary,
    box_of,
    copied,
    emit,
    issue,
    kind_of,
    unmasked,
)
from accel.nki.legacy.views import clipped, fits, fitted
from accel.nki.tensor import Tensor
from accel.program import Memory

__all__ = [
    "affine_range",
    "arange",
    "empty_like",
    "fp32",
    "full",
    "loop_reduce",
    "mgrid",
    "nc",
    "ndarray",
    "num_programs",
    "ones",
    "program_id",
    "program_ndim",
    "shared_constant",
    "shared_identity_matrix",
    "spmd_dim",
    "static_range",
    "tile_size",
    "zeros",
    "zeros_like",
]

bool_ = np.bool_
int8, int16, int32 = np.int8, np.int16, np.int32
uint8, uint16, uint32 = np.uint8, np.uint16, np.uint32
float16, float32, tfloat32 = np.float16, np.float32, "tfloat32"
bfloat16 = np.dtype(ml_dtypes.bfloat16)
float8_e4m3, float8_e5m2 = np.dtype(ml_dtypes.float8_e4m3), np.dtype(ml_dtypes.float8_e5m2)

sbuf, psum = MemoryRegion.sbuf, MemoryRegion.psum
hbm, private_hbm, shared_hbm = MemoryRegion.hbm, MemoryRegion.private_hbm, MemoryRegion.shared_hbm

par_dim = ParDim

_WORD_BYTES = 4


sequential_range = affine_range


def program_id(axis: int = 0) -> int:
    """This program's position in the grid."""
    position = session().recorder.program_id
    return position[axis] if axis < len(position) else 0


def num_programs(axes: int | Sequence[int] | None = None) -> int:
    """The number of programs along the axes, by default all."""
    grid = session().recorder.grid
    chosen = range(len(grid)) if axes is None else (axes,) if isinstance(axes, int) else axes
    return math.prod(grid[axis] for axis in chosen if axis < len(grid))


def program_ndim() -> int:
    """Number of grid axes."""
    return len(session().recorder.grid)


def ds(start: int, size: int) -> slice:
    """`start:start + size`."""
    return slice(start, start + size)


def load(
    src: Tile, *, mask: Mask | bool | None = None, dtype: DType | None = None, **_: object
) -> Tile:
    """The HBM view as an SBUF tile; axis 0 becomes the partition axis."""
    box = None if mask is None else box_of(mask, src.shape)
    source = _tensor_in_hbm(src.within(box), "load: src")
    shape = source.geometry.shape
    if len(shape) == 1:
        shape = (*shape, 1)
        source = fitted(source, shape)
        box = None if box is None else (*box, (0, 1))
    kind = source.geometry.dtype if dtype is None else kind_of(dtype, "")
    if source.chosen is not None:
        return _gathered(source, kind, box)
    return issue(dma_copy, shape, kind, box=box, src=source)


def _gathered(source: Tensor, kind: str, box: Box | None) -> Tile:
    """Rows that a tile picks, into a tile of their own."""
    target = session().allocate(source.shape, kind, Memory.SBUF)
    if box is None:
        emit(dma_copy, dst=target, src=source)
    elif all(count for _, count in box):
        emit(dma_copy, dst=clipped(target, box), src=clipped(source, box))
    return Tile(target)


def load_transpose2d(src: Tile, *, dtype: DType | None = None, **options: object) -> Tile:
    """The transpose of a two-dimensional HBM view as an SBUF tile.

    DMA engines transpose elements of two bytes; for those of four the older compiler uses the
    tensor engine, as its instruction counts show.
    """
    unmasked("load_transpose2d", options, src.shape)
    source = _tensor_in_hbm(src.tensor, "load_transpose2d: src")
    if source.ndim != 2:
        raise KernelError(f"load_transpose2d: src has {source.ndim} axes, needs 2")
    if itemsize(source.dtype) == _WORD_BYTES and source.shape[1] <= lowering.ROWS:
        tile = Tile(lowering.loaded_transposed(session(), source))
    else:
        tile = issue(dma_transpose, source.shape[::-1], source.dtype, src=source)
    return tile if kind_of(dtype, tile.kind) == tile.kind else copied(tile, dtype)


def store(dst: Tile, value: Operated, *, mask: Mask | bool | None = None, **_: object) -> None:
    """Writes a tile to an HBM view of the same extents; a PSUM tile by way of SBUF."""
    box = box_of(mask, dst.shape)
    target = _tensor_in_hbm(dst.within(box), "store: dst")
    if not isinstance(value, Tile):
        value = filled(target.shape, value, target.dtype)
    source = _sent(value, target, box is not None)
    if box is not None:
        if any(count == 0 for _, count in box):
            return
        target, source = clipped(target, box), clipped(source, box)
    emit(dma_copy, dst=target, src=source)


def _sent(value: Tile, target: Tensor, exact: bool) -> Tensor:
    """The tile to store, in SBUF, with the extents of the target."""
    source = value.tensor
    if source.memory is Memory.PSUM:
        source = lowering.moved(session(), source, target.dtype)
    if exact and source.shape != target.shape:
        return fitted(source, target.shape)
    if not exact and not fits(source, (source.shape[0], *target.shape[1:])):
        raise KernelError(f"store: value is {source.shape}, dst {target.name} is {target.shape}")
    return source


def _tensor_in_hbm(tensor: Tensor, what: str) -> Tensor:
    if tensor.geometry.memory is not Memory.HBM:
        raise KernelError(f"{what} is in {tensor.buffer}, must be in hbm", "use nl.copy on chip")
    return tensor


def matmul(x: Tile, y: Tile, *, transpose_x: bool = False, **options: object) -> Tile:
    """x @ y in PSUM, or x.T @ y where x comes transposed."""
    unmasked("matmul", options, (x.shape[0], *y.shape[1:]))
    stationary, moving = lowering.matmul_inputs(session(), x.tensor, y.tensor, transpose_x)
    return isa.nc_matmul(Tile(stationary), Tile(moving))


def transpose(
    x: Tile, *, dtype: DType | None = None, mask: Mask | bool | None = None, **_: object
) -> Tile:
    """x with partitions and free axis exchanged."""
    return isa.nc_transpose(x, dtype=dtype, mask=mask)


def broadcast_to(src: Tile, *, shape: Sequence[int], **_: object) -> Tile:
    """src repeated to `shape`."""
    return src.broadcast_to(shape)


def expand_dims(data: Tile, axis: int) -> Tile:
    """A view with an axis of extent 1 at `axis`."""
    return data.expand_dims(axis)


def static_cast(input_data: Tile | npt.NDArray[np.generic], dtype: DType) -> object:
    """A copy in another element type, of a tile or of an array outside a kernel."""
    if isinstance(input_data, Tile):
        return copied(input_data, dtype)
    return input_data.astype(numpy_dtype(kind_of(dtype, "")))


def finfo(dtype: DType) -> ml_dtypes.finfo:
    """Limits of a float type."""
    return ml_dtypes.finfo(numpy_dtype(kind_of(dtype, "")))  # type: ignore[no-untyped-call]


def negative(
    x: Tile, *, dtype: DType | None = None, mask: Mask | bool | None = None, **_: object
) -> Tile:
    """−x."""
    return binary("multiply", x, -1.0, dtype=dtype, mask=mask)


def where(
    condition: Tile,
    x: Operated,
    y: Operated,
    *,
    dtype: DType | None = None,
    mask: Mask | bool | None = None,
    **_: object,
) -> Tile:
    """x where condition is not 0, else y."""
    return composites.where(condition, x, y, dtype, mask)


def device_print(prefix: str, x: Tile, **_: object) -> None:
    """Prints the tile's values in evaluate mode; nothing in trace mode."""
    composites.device_print(prefix, x)


mean, var = composites.mean, composites.var
softmax, rms_norm = composites.softmax, composites.rms_norm
floor, ceil, trunc = composites.floor, composites.ceil, composites.trunc
cos, tan, fmod = composites.cos, composites.tan, composites.fmod
rand, random_seed, dropout = draws.rand, draws.random_seed, draws.dropout_at_rate
gather_flattened = composites.gather_flattened


def atomic_rmw(
    dst: Tile,
    value: Operated,
    op: object,
    *,
    mask: Mask | bool | None = None,
    **_: object,
) -> None:
    """dst = dst + value, where a tile of indices picks the rows of dst."""
    if operation_name(op) != "add":
        raise KernelError(f"atomic_rmw: op is {operation_name(op)}, only add is supported")
    box = box_of(mask, dst.shape)
    target = _tensor_in_hbm(dst.within(box), "atomic_rmw: dst")
    if not isinstance(value, Tile):
        value = filled(target.shape, value, target.dtype)
    source = _sent(value, target, box is not None)
    if box is not None:
        if any(count == 0 for _, count in box):
            return
        target, source = clipped(target, box), clipped(source, box)
    emit(dma_compute, dst=target, srcs=(source, target), reduce_op="add")


def _copy(
    src: Tile, *, mask: Mask | bool | None = None, dtype: DType | None = None, **_: object
) -> Tile:
    """A copy in SBUF."""
    return copied(src, dtype, mask)


def _binary(name: str) -> Callable[..., Tile]:
    def apply(
        x: Operated,
        y: Operated,
        dtype: DType | None = None,
        mask: Mask | bool | None = None,
        **_: object,
    ) -> Tile:
        return binary(name, x, y, dtype=_logical(dtype), mask=mask)

    apply.__doc__ = f"x {name} y, element by element."
    return apply


def _logical(dtype: DType | None) -> DType | None:
    """Comparisons are asked for Python's bool, which the machine stores in eight bits."""
    return "uint8" if dtype is bool else dtype


def _unary(name: str) -> Callable[..., Tile]:
    def apply(
        x: Tile, *, dtype: DType | None = None, mask: Mask | bool | None = None, **_: object
    ) -> Tile:
        if name in FUNCTIONS:
            return isa.activation(name, x, dtype=dtype, mask=mask)
        kind, box = kind_of(_logical(dtype), x.kind), box_of(mask, x.shape)
        return issue(new.tensor_scalar, x.shape, kind, box=box, data=x, op0=name, operand0=0.0)

    apply.__doc__ = f"{name} of x, element by element."
    return apply


def _reduction(op: str) -> Callable[..., Tile]:
    def apply(
        x: Tile,
        axis: int | Sequence[int],
        *,
        dtype: DType | None = None,
        mask: Mask | bool | None = None,
        keepdims: bool = False,
        **_: object,
    ) -> Tile:
        return isa.tensor_reduce(op, x, axis, dtype=_logical(dtype), mask=mask, keepdims=keepdims)

    apply.__doc__ = f"{op} over the free axes `axis`."
    return apply


_APART: dict[str, Callable[..., object]] = {"copy": _copy, "reciprocal": isa.reciprocal}
_ONE_INPUT = frozenset(FUNCTIONS) | {name for name, op in OPERATORS.items() if op.unary}


def _token(name: str) -> Token:
    apply = _APART.get(name) or (_unary(name) if name in _ONE_INPUT else _binary(name))
    return Token(name, apply)


# Every operator and activation function of the instruction table is a name of the language.
TOKENS = {name: _token(name) for name in sorted({*OPERATORS, *FUNCTIONS})} | {
    name: Token(op, _reduction(op))
    for name, op in (
        ("sum", "add"),
        ("prod", "multiply"),
        ("max", "maximum"),
        ("min", "minimum"),
        ("all", "logical_and"),
    )
}


def __getattr__(name: str) -> Token:
    if name in TOKENS:
        return TOKENS[name]
    raise AttributeError(f"neuronxcc.nki.language has no {name!r}")
