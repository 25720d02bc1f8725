"""Tensors that a kernel of the older form declares: `ndarray`, `zeros`, constants, allocators.

On-chip, the axis marked `par_dim` is the partition axis; the axes before it are *blocks*, each a
tile of its own that exists from its first use on. Without a mark the first axis is the partition
axis. Allocators (`compiler.sbuf.mod_alloc` and its kin) say where each block lies.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.dtypes import numpy_dtype
from accel.errors import KernelError
from accel.nki.enums import MemoryRegion
from accel.nki.instructions.moves import memset
from accel.nki.legacy.session import session
from accel.nki.legacy.tile import DType, Number, Operated, Shape, Tile, emit, kind_of
from accel.program import Kind, Memory

_LARGEST_IDENTITY = 8192


class ParDim(int):
    """An extent marked as the partition axis."""


Place = tuple[int, int]
"""Byte in the partition (PSUM: bank × bank bytes + byte), and first partition."""


@dataclass(frozen=True, slots=True)
class Allocator:
    """Where the blocks of a tensor lie: `place(block index, partitions, bytes a partition)`."""

    memory: Memory
    place: Callable[[Shape, int, int], Place]


Buffer = MemoryRegion | Allocator | str | None


@dataclass(frozen=True, slots=True)
class Declaration:
    """What the tiles of one declared on-chip tensor have in common."""

    shape: Shape
    dtype: str
    memory: Memory
    name: str
    allocator: Allocator | None
    fill: float | None

    def tile(self, block: Shape) -> Tile:
        """Allocates the tile of one block; `fill` is what it holds then."""
        active = session()
        address, partition = None, 0
        if self.allocator is not None:
            width = math.prod(self.shape[1:]) * numpy_dtype(self.dtype).itemsize
            address, partition = self.allocator.place(block, self.shape[0], width)
        tensor = active.recorder.allocate(
            self.shape,
            self.dtype,
            self.memory,
            name=f"{self.name}{list(block)}" if self.name and block else self.name,
            address=address,
            start_partition=partition,
        )
        if self.fill == 0 and self.memory is Memory.PSUM:
            active.zeros_on_touch(tensor)
        elif self.fill is not None:
            active.fill(tensor, self.fill)
        return Tile(tensor)


class Blocks:
    """A tensor with block axes in front of the partition axis; an index of each is a `Tile`."""

    __slots__ = ("_declaration", "_extents", "_prefix", "_tiles")

    def __init__(
        self,
        declaration: Declaration,
        extents: Shape,
        tiles: dict[Shape, Tile],
        prefix: Shape = (),
    ) -> None:
        self._declaration, self._extents = declaration, extents
        self._tiles, self._prefix = tiles, prefix

    @property
    def shape(self) -> Shape:
        """Block extents, then the tile's."""
        return self._extents[len(self._prefix) :] + self._declaration.shape

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The element type."""
        return numpy_dtype(self._declaration.dtype)

    @property
    def ndim(self) -> int:
        """Number of axes, blocks included."""
        return len(self.shape)

    def __getitem__(self, key: object) -> Blocks | Tile:
        tile, rest = self._found(key)
        if isinstance(tile, Tile):
            return tile[rest] if rest else tile
        return tile

    def __setitem__(self, key: object, value: Operated) -> None:
        tile, rest = self._found(key)
        if isinstance(tile, Blocks):
            raise KernelError(
                f"assignment to some of {len(self._extents)} block axes",
                "loop over the blocks and assign each",
            )
        tile[rest or ...] = value

    def _found(self, key: object) -> tuple[Blocks | Tile, tuple[object, ...]]:
        """The tile of a full block index (or the blocks of a partial one), and the other keys."""
        keys = key if isinstance(key, tuple) else (key,)
        open_axes = len(self._extents) - len(self._prefix)
        block, rest = self._prefix + keys[:open_axes], keys[open_axes:]
        try:
            return self._tiles[block], rest
        except (KeyError, TypeError):
            return self._made(tuple(map(_block_index, block))), rest

    def _made(self, block: Shape) -> Blocks | Tile:
        for index, extent in zip(block, self._extents, strict=False):
            if not 0 <= index < extent:
                raise KernelError(f"block index {block} of a tensor of {self._extents} blocks")
        if len(block) < len(self._extents):
            return Blocks(self._declaration, self._extents, self._tiles, block)
        tile = self._tiles[block] = self._declaration.tile(block)
        return tile


def _block_index(key: object) -> int:
    try:
        return operator.index(key)  # type: ignore[arg-type]
    except TypeError:
        raise KernelError(
            f"block axis indexed with {type(key).__name__}, needs an int",
            "the axes in front of par_dim are separate tiles: loop over them",
        ) from None


Declared = Tile | Blocks


def ndarray(
    shape: Sequence[int] | int,
    dtype: DType,
    *,
    buffer: Buffer = None,
    name: str = "",
    **_: object,
) -> Declared:
    """An uninitialised tensor; SBUF by default."""
    return _declared(shape, dtype, buffer, name, None)


def full(
    shape: Sequence[int] | int,
    fill_value: Number,
    dtype: DType,
    *,
    buffer: Buffer = None,
    name: str = "",
    **_: object,
) -> Declared:
    """An on-chip tensor filled with a number."""
    return _declared(shape, dtype, buffer, name, float(fill_value))


def zeros(
    shape: Sequence[int] | int, dtype: DType, *, buffer: Buffer = None, name: str = "", **_: object
) -> Declared:
    """An on-chip tensor of zeros. In PSUM it costs nothing where matmuls accumulate into it."""
    return _declared(shape, dtype, buffer, name, 0.0)


def ones(
    shape: Sequence[int] | int, dtype: DType, *, buffer: Buffer = None, name: str = "", **_: object
) -> Declared:
    """An on-chip tensor of ones."""
    return _declared(shape, dtype, buffer, name, 1.0)


def empty_like(
    a: Declared, dtype: DType | None = None, *, buffer: Buffer = None, name: str = "", **_: object
) -> Declared:
    """`ndarray` with the shape and dtype of `a`."""
    return _declared(a.shape, a.dtype if dtype is None else dtype, buffer, name, None)


def zeros_like(
    a: Declared, dtype: DType | None = None, *, buffer: Buffer = None, name: str = "", **_: object
) -> Declared:
    """`zeros` with the shape and dtype of `a`."""
    return _declared(a.shape, a.dtype if dtype is None else dtype, buffer, name, 0.0)


def _declared(
    shape: Sequence[int] | int, dtype: DType, buffer: Buffer, name: str, fill: float | None
) -> Declared:
    counts = tuple(shape) if isinstance(shape, (tuple, Sequence)) else (shape,)
    extents = _extents(counts)
    allocator = buffer if isinstance(buffer, Allocator) else None
    memory = allocator.memory if allocator else _memory(buffer)
    kind = kind_of(dtype, "float32")
    if memory is Memory.HBM:
        return _in_hbm(extents, kind, buffer is MemoryRegion.shared_hbm, name, fill)
    marked = [axis for axis, count in enumerate(counts) if type(count) is ParDim]
    if len(marked) > 1:
        raise KernelError(f"shape has {len(marked)} par_dim axes, needs one")
    split = marked[0] if marked else 0
    inner = extents[split:] if len(extents) > split + 1 else (*extents[split:], 1)
    declaration = Declaration(inner, kind, memory, name, allocator, fill)
    if split == 0:
        return declaration.tile(())
    return Blocks(declaration, extents[:split], {})


@functools.cache
def _extents(counts: tuple[int, ...]) -> Shape:
    extents = tuple(int(count) for count in counts)
    if not extents or min(extents) < 1:
        raise KernelError(f"shape {extents} has no elements", "every extent is at least 1")
    return extents


@functools.cache
def _memory(region: object) -> Memory:
    if region is None:
        return Memory.SBUF
    try:
        name = MemoryRegion(str(region))
    except ValueError:
        raise KernelError(f"unknown buffer {region!r}", "use nl.sbuf, nl.psum or nl.hbm") from None
    return {"sbuf": Memory.SBUF, "psum": Memory.PSUM}.get(name.value, Memory.HBM)


def _in_hbm(shape: Shape, kind: str, shared: bool, name: str, fill: float | None) -> Tile:
    if fill is not None:
        raise KernelError("a filled tensor in hbm", "fill an SBUF tile and nl.store it")
    recorder = session().recorder
    if shared:
        return Tile(recorder.allocate_shared(shape, kind, name))
    return Tile(recorder.allocate(shape, kind, Memory.HBM, name=name))


def shared_constant(constant: npt.ArrayLike, dtype: DType | None = None, **_: object) -> Tile:
    """Constant data in HBM, to be loaded."""
    array = np.asarray(constant)
    own = {"float64": np.dtype(np.float32), "int64": np.dtype(np.int32)}
    kind = kind_of(own.get(array.dtype.name, array.dtype) if dtype is None else dtype, "")
    values = np.ascontiguousarray(array.astype(numpy_dtype(kind)))
    tensor = session().recorder.allocate(
        values.shape, kind, Memory.HBM, kind=Kind.CONSTANT, core=-1, array=values
    )
    return Tile(tensor)


def shared_identity_matrix(n: int, dtype: DType = "uint8", **_: object) -> Tile:
    """The n×n identity in HBM, one a kernel and dtype."""
    if not 1 <= n <= _LARGEST_IDENTITY:
        raise KernelError(f"shared_identity_matrix: n is {n}, must be 1 to {_LARGEST_IDENTITY}")
    active = session()
    key = ("identity", n, kind_of(dtype, "uint8"))
    if key not in active.constants:
        active.constants[key] = shared_constant(np.identity(n), dtype).tensor
    return Tile(active.constants[key])


def filled(shape: Sequence[int], value: Number, dtype: DType) -> Tile:
    """An SBUF tile of one value, from one instruction."""
    tile = Declaration(tuple(shape), kind_of(dtype, ""), Memory.SBUF, "", None, None).tile(())
    emit(memset, dst=tile, value=value)
    return tile


def modulo(counts: Sequence[int], block: Shape, what: str) -> int:
    """Which of `counts` rotating buffers (row-major) a block uses; no counts: one buffer."""
    sizes = tuple(counts) if len(counts) == len(block) else (1,) * len(block)
    if counts and block and len(counts) != len(block):
        raise KernelError(f"{what} is {tuple(counts)}, the tensor has {len(block)} block axes")
    flat = 0
    for index, size in zip(block, sizes, strict=True):
        flat = flat * size + index % size
    return flat
