"""Functions on tiles: `nl.load`, `nl.store`, and operators called as functions.

Each allocates its result in SBUF and records one instruction, which is chosen by the shapes: tile
with tile is `tensor_tensor`; with a number or one value a partition, `tensor_scalar`; a function of
one tile is `activation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from accel.dtypes import FLOATS, itemsize
from accel.errors import KernelError
from accel.isa import FUNCTIONS
from accel.nki.instructions.elementwise import activation, tensor_scalar, tensor_tensor
from accel.nki.instructions.matrix import nc_transpose
from accel.nki.instructions.moves import dma_copy, dma_transpose, memset, tensor_copy
from accel.nki.instructions.reductions import tensor_reduce
from accel.nki.operands import Scalar
from accel.nki.recorder import current
from accel.nki.tensor import Tensor, element_name
from accel.program import Memory

COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")


def new_tile(shape: Sequence[int], dtype: str, memory: Memory = Memory.SBUF) -> Tensor:
    """An uninitialised on-chip tile."""
    return current().allocate(shape, dtype, memory)


def load(src: Tensor, dtype: object = None) -> Tensor:
    """The HBM view as an SBUF tile; axis 0 becomes the partition axis."""
    if src.memory is not Memory.HBM:
        raise KernelError(f"load: src {src.name} is in {src.buffer}, must be in hbm")
    source = src if src.ndim > 1 else src.expand_dim(0)
    tile = new_tile(source.shape, chosen_dtype(dtype, source.dtype))
    dma_copy(tile, source)
    return tile


def store(dst: Tensor, value: Tensor) -> None:
    """Writes a tile to an HBM view of the same shape."""
    if dst.memory is not Memory.HBM:
        raise KernelError(f"store: dst {dst.name} is in {dst.buffer}, must be in hbm")
    dma_copy(dst if dst.ndim > 1 else dst.expand_dim(0), value)


def load_transpose2d(src: Tensor, dtype: object = None) -> Tensor:
    """The transpose of a two-dimensional HBM view as an SBUF tile."""
    if src.ndim != 2:
        raise KernelError(f"load_transpose2d: src has {src.ndim} axes, needs 2")
    tile = new_tile(src.shape[::-1], chosen_dtype(dtype, src.dtype))
    dma_transpose(tile, src)
    return tile


def full(shape: Sequence[int], value: float, dtype: str) -> Tensor:
    """An SBUF tile filled with a number."""
    tile = new_tile(shape, dtype)
    memset(tile, value)
    return tile


def binary(name: str) -> Callable[..., Tensor]:
    """The operator as a function of two tiles or a tile and a number."""

    def apply(x: Scalar, y: Scalar, dtype: object = None) -> Tensor:
        left, right, reverse = (x, y, False) if isinstance(x, Tensor) else (y, x, True)
        if not isinstance(left, Tensor):
            raise KernelError(f"nl.{name}: needs a tile, got two numbers")
        if isinstance(right, Tensor):
            return _two_tiles(name, left, right, dtype)
        dst = new_tile(left.shape, _result(name, dtype, left.dtype))
        tensor_scalar(dst, left, op0=name, operand0=right, reverse0=reverse)
        return dst

    apply.__doc__ = f"x {name} y, element by element."
    return apply


def _two_tiles(name: str, x: Tensor, y: Tensor, dtype: object) -> Tensor:
    result = _result(name, dtype, promoted(x.dtype, y.dtype))
    if x.shape == y.shape:
        dst = new_tile(x.shape, result)
        tensor_tensor(dst, x, y, op=name)
        return dst
    for data, vector, reverse in ((x, y, False), (y, x, True)):
        if vector.shape == (data.shape[0],) + (1,) * (data.ndim - 1):
            dst = new_tile(data.shape, result)
            column = vector if vector.ndim == 2 else vector.reshape((data.shape[0], 1))
            tensor_scalar(dst, data, op0=name, operand0=column, reverse0=reverse)
            return dst
    if x.ndim != y.ndim:
        raise KernelError(
            f"nl.{name}: x is {x.shape}, y is {y.shape}",
            "tiles have as many axes as each other: reshape one, or add axes with expand_dims",
        )
    shape = tuple(max(a, b) for a, b in zip(x.shape, y.shape, strict=True))
    return _two_tiles(name, x.broadcast_to(shape), y.broadcast_to(shape), dtype)


def unary(name: str) -> Callable[..., Tensor]:
    """The operator as a function of one tile."""

    def apply(x: Tensor, dtype: object = None) -> Tensor:
        dst = new_tile(x.shape, chosen_dtype(dtype, x.dtype))
        if name in FUNCTIONS:
            activation(dst, op=name, data=x)
        else:
            tensor_scalar(dst, x, op0=name, operand0=0)
        return dst

    apply.__doc__ = f"{name} of x, element by element."
    return apply


def reduction(op: str) -> Callable[..., Tensor]:
    """The operator over trailing free axes."""

    def apply(
        x: Tensor, axis: int | Sequence[int], dtype: object = None, keepdims: bool = False
    ) -> Tensor:
        dst = new_tile(reduced_shape(x, axis, keepdims), chosen_dtype(dtype, x.dtype))
        tensor_reduce(dst, op=op, data=x, axis=axis, keepdims=keepdims)
        return dst

    apply.__doc__ = f"{op} over the trailing free axes `axis`."
    return apply


def reduced_shape(x: Tensor, axis: int | Sequence[int], keepdims: bool) -> list[int]:
    """The shape that is left; never fewer than two axes."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    gone = {n + x.ndim if n < 0 else n for n in axes}
    kept = [1 if n in gone else count for n, count in enumerate(x.shape)]
    dropped = [count for n, count in enumerate(x.shape) if n not in gone]
    return kept if keepdims or len(dropped) < 2 else dropped


def negative(x: Tensor, dtype: object = None) -> Tensor:
    """−x, element by element."""
    dst = new_tile(x.shape, chosen_dtype(dtype, x.dtype))
    tensor_scalar(dst, x, op0="multiply", operand0=-1.0)
    return dst


def copy(x: Tensor, dtype: object = None) -> Tensor:
    """A tile with the values of x."""
    dst = new_tile(x.shape, chosen_dtype(dtype, x.dtype))
    tensor_copy(dst, x)
    return dst


def transpose(x: Tensor, dtype: object = None) -> Tensor:
    """The transpose of a two-dimensional tile of up to 128×128, by way of PSUM."""
    through = new_tile(x.shape[::-1], x.dtype, Memory.PSUM)
    nc_transpose(through, x)
    return copy(through, dtype)


def promoted(first: str, second: str) -> str:
    """The dtype that holds both: floats before integers, then the wider one."""
    return max((first, second), key=lambda name: (name in FLOATS, itemsize(name), name == first))


def chosen_dtype(dtype: object, default: str) -> str:
    """The dtype asked for, by its name, or the default."""
    return default if dtype is None else element_name(dtype)


def _result(name: str, dtype: object, default: str) -> str:
    return chosen_dtype(dtype, "uint8" if name in COMPARISONS else default)
