"""Tensor: a typed, strided view of one storage; the only value a kernel computes with.

Comes in: a storage and a geometry. Goes out: (storage number, byte offset, interned layout), which
is what an instruction of a `Program` holds. A view never copies.

Indexing follows the language: on-chip views keep the partition axis and never have fewer than two
axes; an integer on an HBM axis removes it. Indices beyond an extent are errors, not clipped. What
the machine cannot address (a partition step, a pattern that leaves the tile) is refused when the
view is used, not when it is made, because kernels make views they never use.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import SupportsIndex, cast

from accel.dtypes import dtype_name, itemsize
from accel.errors import KernelError
from accel.isa.indirect import LANES, SCALAR, VECTOR, Index
from accel.nki.geometry import Geometry, Shape, geometry_of, reshaped_axes, row_major
from accel.program import Layout, Memory, Storage

Key = int | range | slice | EllipsisType | None


class Allocation:
    """One storage, its number and its size in bytes; shared by all its views."""

    __slots__ = ("end", "number", "placed", "storage")

    def __init__(self, number: int, storage: Storage, end: int | None = None) -> None:
        self.number, self.storage = number, storage
        self.placed = bool(storage.start_partition) or storage.address is not None
        self.end = storage.total_bytes if end is None else end


class ReleasedAllocation(Allocation):
    """A storage whose values are given up with the last view of it, so that an evaluated kernel
    holds what the kernel holds and no more.
    """

    __slots__ = ("_release",)

    def __init__(self, number: int, storage: Storage, release: Callable[[int], None]) -> None:
        super().__init__(number, storage)
        self._release = release

    def __del__(self) -> None:
        self._release(self.number)


@dataclass(frozen=True, slots=True)
class Indirect:
    """Where a view finds its place at run time: a tile of indices, and what one of them means."""

    tile: Tensor
    meaning: Index


class Tensor:
    """A view. `byte_offset` is from the start of the storage (on-chip: partition × partition_bytes
    + byte in the partition). `shape` counts elements, partitions first on-chip.
    """

    __slots__ = ("allocation", "byte_offset", "chosen", "geometry")

    def __init__(
        self,
        allocation: Allocation,
        byte_offset: int,
        geometry: Geometry,
        chosen: Indirect | None = None,
    ) -> None:
        self.allocation = allocation
        self.byte_offset = byte_offset
        self.geometry = geometry
        self.chosen = chosen

    def __class_getitem__(cls, shape: object) -> type[Tensor]:
        return cls  # `Tensor[128, 512]` as a type annotation

    @property
    def storage(self) -> int:
        """The storage's number in the program."""
        return self.allocation.number

    @property
    def layout(self) -> Layout:
        """The interned layout; KernelError where the machine cannot address the view."""
        return self.geometry.layout

    @property
    def shape(self) -> Shape:
        """Counts of the axes, the partition axis first on-chip."""
        return self.geometry.shape

    @property
    def dtype(self) -> str:
        """The language's name of the element type."""
        return self.geometry.dtype

    @property
    def memory(self) -> Memory:
        """Where the storage lives."""
        return self.geometry.memory

    @property
    def buffer(self) -> str:
        """The language's name of the memory; HBM is `shared_hbm` where all cores see it."""
        if self.geometry.memory is not Memory.HBM:
            return self.geometry.memory.value
        return "shared_hbm" if self.allocation.storage.core < 0 else "private_hbm"

    @property
    def name(self) -> str:
        """The storage's name."""
        return self.allocation.storage.name

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.geometry.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.geometry.shape)

    @property
    def strides(self) -> Shape:
        """Steps of the axes in elements."""
        return tuple(step // self.geometry.itemsize for step in self.geometry.strides)

    @property
    def offset(self) -> int:
        """Elements from the start of the storage."""
        return self.byte_offset // self.geometry.itemsize

    @property
    def start_partition(self) -> int:
        """The first partition of an on-chip view, counted from the storage's first."""
        step = self.geometry.partition_bytes
        return self.byte_offset // step if step else 0

    def __repr__(self) -> str:
        return f"{self.name}[{'x'.join(map(str, self.shape))} {self.dtype} {self.buffer}]"

    def __len__(self) -> int:
        return self.shape[0]

    def get_pattern(self) -> list[list[int]]:
        """`[[step, count], ...]` in elements, outermost axis first."""
        return [[step, count] for step, count in zip(self.strides, self.shape, strict=True)]

    def is_contiguous(self) -> bool:
        """Whether the elements lie densely in row-major order (in each partition, on-chip)."""
        first = 1 if self.geometry.on_chip else 0
        dense = row_major(self.shape[first:], self.geometry.itemsize)
        axes = zip(self.shape[first:], self.geometry.strides[first:], dense, strict=True)
        return all(count == 1 or step == wanted for count, step, wanted in axes)

    def is_indirect(self) -> bool:
        """Whether the view finds its place at run time, from an index tile."""
        return self.chosen is not None

    def __getitem__(self, key: Key | tuple[Key, ...]) -> Tensor:
        """A view by integers, slices, `...` and None; the loop is the fast path of plain views."""
        keys = key if isinstance(key, tuple) else (key,)
        geometry = self.geometry
        shape, offset = geometry.shape, self.byte_offset
        if len(keys) != len(shape) or self.chosen is not None:
            return self._indexed(keys)
        counts: list[int] = []
        for item, extent, step in zip(keys, shape, geometry.strides, strict=True):
            if type(item) is slice and item.step is None:
                start, stop = item.start, item.stop
                if start is None:
                    start = 0
                if stop is None:
                    stop = extent
                # An int by type: 256.0 compares and adds like one, and is a mistake in the kernel.
                if (
                    type(start) is not int
                    or type(stop) is not int
                    or not 0 <= start < stop <= extent
                ):
                    return self._indexed(keys)
                offset += start * step
                counts.append(stop - start)
            elif type(item) is int and 0 <= item < extent and not geometry.on_chip:
                offset += item * step
                counts.append(0)  # an axis that goes
            else:
                return self._indexed(keys)
        if (new := tuple(counts)) != shape:
            geometry = _kept(geometry, new)
        return self.__class__(self.allocation, offset, geometry)

    def __setitem__(self, key: object, value: object) -> None:
        raise KernelError(
            f"assignment into {self.name}: an instruction writes its dst operand",
            "pass the view as dst=, for example nisa.tensor_copy(dst=view, src=value)",
        )

    def __iter__(self) -> object:
        raise KernelError(f"{self.name} cannot be iterated", "loop over a range and slice")

    def _indexed(self, keys: tuple[Key, ...]) -> Tensor:
        offset = self.byte_offset
        axes: list[tuple[int, int]] = []
        axis, empty = 0, False
        for item in self._expanded(keys):
            if item is None:
                axes.append((1, 0))
                continue
            extent, step = self.shape[axis], self.geometry.strides[axis]
            start, count, factor = _resolve(item, extent, axis, self)
            if axis in self._taken() and (count, factor) != (extent, 1):
                raise KernelError(
                    f"{self.name}: axis {axis} is chosen by an index, it cannot be sliced",
                    "slice first, then select",
                )
            offset += start * step
            empty = empty or not count
            if factor or (axis == 0 and self.geometry.on_chip):
                axes.append((count, step * (factor or 1)))
            axis += 1
        while len(axes) < (2 if self.geometry.on_chip else 1):
            axes.append((1, self.geometry.itemsize))
        if empty:
            return cast("Tensor", EmptyView(self, tuple(count for count, _ in axes)))
        return self._viewed(axes, offset)

    def _expanded(self, keys: tuple[Key, ...]) -> tuple[Key, ...]:
        given = sum(1 for key in keys if key is not None and key is not Ellipsis)
        if given > self.ndim:
            raise KernelError(f"{self.name} has {self.ndim} axes, got {given} indices")
        fill = (slice(None),) * (self.ndim - given)
        where = next((i for i, key in enumerate(keys) if key is Ellipsis), len(keys))
        return (*keys[:where], *fill, *keys[where + 1 :])

    def _viewed(
        self,
        axes: Sequence[tuple[int, int]],
        offset: int | None = None,
        chosen: Indirect | None = None,
    ) -> Tensor:
        """The view with these (count, byte step) axes."""
        old = self.geometry
        shape, strides = tuple(a[0] for a in axes), tuple(a[1] for a in axes)
        geometry = geometry_of(old.memory, old.dtype, shape, strides, old.partition_bytes)
        where = self.byte_offset if offset is None else offset
        return self.__class__(self.allocation, where, geometry, chosen or self.chosen)

    def _axes(self) -> list[tuple[int, int]]:
        return list(zip(self.shape, self.geometry.strides, strict=True))

    def _axis(self, dim: int, what: str, *, free: bool = True) -> int:
        axis = dim + self.ndim if dim < 0 else dim
        if not 0 <= axis < self.ndim:
            raise KernelError(f"{what}: {self.name} has {self.ndim} axes, got axis {dim}")
        if free and axis == 0 and self.geometry.on_chip:
            raise KernelError(f"{what}: axis 0 of {self.name} is the partition axis, needs a free")
        if free and axis in self._taken():
            raise KernelError(f"{what}: axis {axis} of {self.name} is chosen by an index")
        return axis

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> Tensor:
        """`start:end:step` of one axis."""
        axis = self._axis(dim, "slice", free=False)
        keys: list[Key] = [slice(None)] * self.ndim
        keys[axis] = slice(start, end, step)
        return self[tuple(keys)]

    def select(self, dim: int, index: int | Tensor) -> Tensor:
        """One position of an axis; the axis goes (the partition axis stays with extent 1).

        A tile of one integer selects at run time.
        """
        if isinstance(index, Tensor):
            axis = self._axis(dim, "select")
            axes = self._axes()
            step = axes.pop(axis)[1]
            while len(axes) < (2 if self.geometry.on_chip else 1):
                axes.append((1, self.geometry.itemsize))
            return self._viewed(axes, chosen=self._index(index, Index(SCALAR, step)))
        axis = self._axis(dim, "select", free=False)
        keys: list[Key] = [slice(None)] * self.ndim
        keys[axis] = index
        return self[tuple(keys)]

    def vector_select(self, dim: int, vector_offset: Tensor) -> Tensor:
        """Axis 0 of an HBM tensor by a tile with one index a partition: gather or scatter."""
        if dim != 0 or self.geometry.on_chip:
            raise KernelError(
                f"vector_select: axis {dim} of {self.name} in {self.buffer}",
                "only axis 0 of an HBM tensor is selected by a vector",
            )
        (_, step), *rest = self._axes()
        index = self._index(vector_offset, Index(VECTOR, step))
        return self._viewed([(vector_offset.shape[0], step), *rest], chosen=index)

    def indirect(self, index: Tensor, num_elem: int | None = None) -> Tensor:
        """Elements of each partition chosen by a tile of offsets, the same for all partitions of a
        group: offset i of a group lies at [i mod 16, i div 16] of it (32 on the tensor engine). A
        last group of fewer partitions holds no more offsets than those.
        """
        if not self.geometry.on_chip:
            raise KernelError(f"indirect: {self.name} is in {self.buffer}, must be on-chip")
        if index.shape[0] != self.shape[0]:
            raise KernelError(
                f"indirect: index has {index.shape[0]} partitions, {self.name} {self.shape[0]}"
            )
        extent = math.prod(self.shape[1:])
        free = reshaped_axes(self._axes()[1:], (extent,))
        if free is None:
            raise KernelError(
                f"indirect: the free axes of {self.name} are not one dense axis",
                "index a tile whose free elements lie at one step",
            )
        count = index.size if num_elem is None else operator.index(num_elem)
        step = free[0][1] or self.geometry.itemsize
        taken = self._index(index, Index(LANES, step, extent))
        return self._viewed([self._axes()[0], (count, step)], chosen=taken)

    def _index(self, tile: Tensor, meaning: Index) -> Indirect:
        if self.chosen is not None:
            raise KernelError(
                f"{self.name} is already an indirect view", "a view takes one index only"
            )
        return Indirect(tile, meaning)

    def _taken(self) -> tuple[int, ...]:
        """The axes that an index chooses the positions of."""
        if self.chosen is None or self.chosen.meaning.kind == SCALAR:
            return ()
        return (0,) if self.chosen.meaning.kind == VECTOR else (1,)

    def permute(self, dims: Sequence[int]) -> Tensor:
        """The axes in another order; on-chip the partition axis stays first."""
        order = tuple(dims)
        if sorted(order) != list(range(self.ndim)):
            raise KernelError(f"permute: needs an order of {self.ndim} axes, got {order}")
        if (self.geometry.on_chip or self._taken()) and order[0] != 0:
            raise KernelError(f"permute: the partition axis of {self.name} stays first: {order}")
        axes = self._axes()
        return self._viewed([axes[dim] for dim in order])

    def broadcast(self, dim: int, size: int) -> Tensor:
        """An axis of extent 1 repeated `size` times with step 0."""
        axis, axes = self._axis(dim, "broadcast"), self._axes()
        if axes[axis][0] != 1:
            raise KernelError(f"broadcast: axis {dim} of {self.name} is {axes[axis][0]}, needs 1")
        axes[axis] = (size, 0)
        return self._viewed(axes)

    def broadcast_to(self, shape: Sequence[int]) -> Tensor:
        """Every axis of extent 1 repeated to `shape`; axes are added in front on HBM."""
        axes = [(1, 0)] * (len(shape) - self.ndim) + self._axes()
        if len(axes) != len(shape):
            raise KernelError(f"broadcast_to: {self.shape} has more axes than {tuple(shape)}")
        result = []
        for axis, ((count, step), wanted) in enumerate(zip(axes, shape, strict=True)):
            if count not in (1, wanted) or (axis == 0 and self.geometry.on_chip and count < wanted):
                raise KernelError(f"broadcast_to: {self.shape} does not repeat to {tuple(shape)}")
            result.append((wanted, step if count == wanted else 0))
        return self._viewed(result)

    def expand_dim(self, dim: int) -> Tensor:
        """A new axis of extent 1 at `dim`."""
        axes = self._axes()
        if not (1 if self.geometry.on_chip else 0) <= dim <= self.ndim:
            raise KernelError(f"expand_dim: {self.name} has {self.ndim} axes, got position {dim}")
        axes.insert(dim, (1, 0))
        return self._viewed(axes)

    def squeeze_dim(self, dim: int) -> Tensor:
        """Without the axis `dim`, which has extent 1."""
        axis, axes = self._axis(dim, "squeeze_dim"), self._axes()
        if axes[axis][0] != 1:
            raise KernelError(f"squeeze_dim: axis {dim} of {self.name} is {axes[axis][0]}, needs 1")
        del axes[axis]
        return self._viewed(axes)

    def reshape_dim(self, dim: int, shape: Sequence[int]) -> Tensor:
        """One axis split into several; one of `shape` may be −1."""
        axis = self._axis(dim, "reshape_dim", free=len(shape) != 1)
        axes = self._axes()
        count, step = axes[axis]
        parts = _with_inferred(tuple(shape), count, self)
        return self._viewed(
            axes[:axis] + list(zip(parts, row_major(parts, step), strict=True)) + axes[axis + 1 :]
        )

    def flatten_dims(self, start_dim: int, end_dim: int) -> Tensor:
        """Axes `start_dim` to `end_dim` inclusive as one; they must lie densely."""
        first, last = self._axis(start_dim, "flatten_dims"), self._axis(end_dim, "flatten_dims")
        counts = self.shape[first : last + 1]
        return self.reshape((*self.shape[:first], math.prod(counts), *self.shape[last + 1 :]))

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        """Another shape of the same elements without a copy; on-chip the partition axis stays."""
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        new = _with_inferred(tuple(wanted), self.size, self)  # type: ignore[arg-type]
        keep = 1 if self.geometry.on_chip or self._taken() else 0
        if new[:keep] != self.shape[:keep]:
            raise KernelError(
                f"reshape: partition axis of {self.name} is {self.shape[0]}, got {new[0]}",
                "a reshape keeps the partition axis; move data between partitions with a copy",
            )
        axes = reshaped_axes(self._axes()[keep:], new[keep:])
        if axes is None:
            raise KernelError(
                f"reshape: {self.name} of shape {self.shape} is not dense enough for {new}",
                "copy it to a dense tile first",
            )
        return self._viewed(self._axes()[:keep] + axes)

    def view(self, dtype: object) -> Tensor:
        """The same bytes as another dtype; the last axis grows or shrinks."""
        if self.chosen is not None:
            raise KernelError(f"view: {self.name} is an indirect view", "take the view first")
        old, name = self.geometry, element_name(dtype)
        size = itemsize(name)
        if size == old.itemsize:
            shape, strides = old.shape, old.strides
        else:
            total = self.shape[-1] * old.itemsize
            if old.strides[-1] != old.itemsize or total % size or self.byte_offset % size:
                raise KernelError(
                    f"view: last axis of {self.name} is {self.shape[-1]} of {old.dtype}, "
                    f"not a whole number of {name}"
                )
            shape = (*old.shape[:-1], total // size)
            strides = (*old.strides[:-1], size)
        geometry = geometry_of(old.memory, name, shape, strides, old.partition_bytes)
        return self.__class__(self.allocation, self.byte_offset, geometry, self.chosen)

    reinterpret_cast = view

    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int | None = None,
        scalar_offset: Tensor | SupportsIndex | None = None,
        vector_offset: Tensor | None = None,
        indirect_dim: int = 0,
        dtype: object = None,
    ) -> Tensor:
        """The storage seen through `[[step, count], ...]` in elements, whatever this view shows,
        from `offset` elements after this view's first on (API reference of NKI 0.6).

        A `scalar_offset` moves the pattern by steps of axis `indirect_dim` of this view, by a tile
        of one integer or a register; a `vector_offset` replaces the pattern's first axis.
        """
        name = self.dtype if dtype is None else element_name(dtype)
        if scalar_offset is not None and vector_offset is not None:
            raise KernelError(f"ap: {self.name} gets scalar_offset and vector_offset, needs one")
        size = itemsize(name)
        steps = tuple(operator.index(step) * size for step, _ in pattern)
        counts = tuple(operator.index(count) for _, count in pattern)
        geometry = geometry_of(self.memory, name, counts, steps, self.geometry.partition_bytes)
        start = self.byte_offset + (0 if offset is None else operator.index(offset) * size)
        if scalar_offset is None and vector_offset is None:
            return self.__class__(self.allocation, start, geometry)
        step = self.geometry.strides[self._axis(indirect_dim, "ap", free=False)]
        if step == 0:
            raise KernelError(f"ap: axis {indirect_dim} of {self.name} is broadcast, has no steps")
        if vector_offset is not None:
            indirect = self._index(vector_offset, Index(VECTOR, step))
        elif isinstance(scalar_offset, Tensor):
            indirect = self._index(scalar_offset, Index(SCALAR, step))
        else:
            moved = start + _position(scalar_offset) * step
            return self.__class__(self.allocation, moved, geometry)
        return self.__class__(self.allocation, start, geometry, indirect)

    def rearrange(
        self,
        src_pattern: Sequence[str | Sequence[str]],
        dst_pattern: Sequence[str | Sequence[str]],
        fixed_sizes: dict[str, int] | None = None,
    ) -> Tensor:
        """Split, reorder and merge axes by name: groups on the left split, on the right merge."""
        sizes = dict(fixed_sizes or {})
        split, names = self, list[str]()
        for group in src_pattern:
            parts = (group,) if isinstance(group, str) else tuple(group)
            if len(parts) > 1:
                split = split.reshape_dim(len(names), [sizes.get(part, -1) for part in parts])
            names.extend(parts)
        flat = [
            name
            for group in dst_pattern
            for name in ((group,) if isinstance(group, str) else group)
        ]
        if sorted(flat) != sorted(names):
            raise KernelError(f"rearrange: axes {names} on the left, {flat} on the right")
        result = split.permute([names.index(name) for name in flat])
        for axis, group in enumerate(dst_pattern):
            if not isinstance(group, str) and len(group) > 1:
                result = result.flatten_dims(axis, axis + len(group) - 1)
        return result


class EmptyView:
    """A view without elements. Kernels make them for a core that has nothing to do; an error tells
    when one is used for more than its shape.
    """

    __slots__ = ("_tensor", "shape")

    def __init__(self, tensor: Tensor, shape: Shape) -> None:
        self._tensor, self.shape = tensor, shape

    def __getattr__(self, name: str) -> object:
        """Dtype, buffer and memory are those of the tensor; for anything else there is nothing."""
        if name in ("dtype", "buffer", "memory", "ndim", "name"):
            return len(self.shape) if name == "ndim" else getattr(self._tensor, name)
        if name.startswith("__"):
            raise AttributeError(name)
        raise KernelError(f"{name} of an empty view {self.shape} of {self._tensor.name}")

    def __getitem__(self, key: object) -> EmptyView:
        return self

    def __repr__(self) -> str:
        return f"empty view {self.shape} of {self._tensor.name}"


def check_bounds(tensor: Tensor) -> None:
    """KernelError if the view leaves its storage or a partition (only `ap` makes such views)."""
    if tensor.chosen is not None:
        return  # where it lands is known only with the index values
    geometry, total = tensor.geometry, tensor.allocation.end
    first, end = tensor.byte_offset + geometry.low, tensor.byte_offset + geometry.reach
    where = "storage"
    if geometry.on_chip and first >= 0 and end <= total:
        where, total = "a partition", geometry.partition_bytes
        start = tensor.byte_offset % total
        first, end = start + geometry.free_low, start + geometry.free_reach
    if first < 0 or end > total:
        raise KernelError(
            f"{tensor.name}: access from byte {first} to byte {end} of {where}, which has {total}",
            "check step, count and offset of the access pattern",
        )


@functools.cache
def _kept(geometry: Geometry, counts: Shape) -> Geometry:
    """The geometry with other counts, without the axes that have none."""
    axes = zip(counts, geometry.strides, strict=True)
    left = [(count, step) for count, step in axes if count] or [(1, geometry.itemsize)]
    shape, strides = tuple(n for n, _ in left), tuple(step for _, step in left)
    width = geometry.partition_bytes
    return geometry_of(geometry.memory, geometry.dtype, shape, strides, width)


def _position(register: SupportsIndex | None) -> int:
    try:
        return operator.index(register)  # type: ignore[arg-type]
    except TypeError:
        raise KernelError(
            f"ap: scalar_offset is {type(register).__name__}, needs a tile of one integer",
            "an offset is a tile in SBUF or a register",
        ) from None


def element_name(dtype: object) -> str:
    """The name of a dtype that a kernel passed; KernelError for anything else."""
    try:
        return dtype_name(dtype)
    except (KeyError, TypeError, ValueError):
        raise KernelError(f"unknown dtype {dtype!r}", "use a dtype of nki.language") from None


def _resolve(item: Key, extent: int, axis: int, tensor: Tensor) -> tuple[int, int, int]:
    """(start, count, step factor) of an index of one axis; factor 0: the axis goes."""
    if isinstance(item, range):
        item = slice(item.start, item.stop, item.step)
    if isinstance(item, slice):
        step = 1 if item.step is None else _integer(item.step, axis, tensor)
        start = _from_end(0 if item.start is None else item.start, axis, tensor)
        stop = _from_end(extent if item.stop is None else item.stop, axis, tensor)
        if step < 1 or not 0 <= start <= stop <= extent:
            raise KernelError(
                f"index {start}:{stop}:{step} of axis {axis} of {tensor.name}: "
                f"the axis has {extent}",
                "a slice has a step of 1 or more and ends inside the axis",
            )
        return start, -((start - stop) // step), step
    position = _from_end(item, axis, tensor)
    if not 0 <= position < extent:
        raise KernelError(f"index {position} of axis {axis} of {tensor.name}: it has {extent}")
    return position, 1, 0


def _from_end(position: object, axis: int, tensor: Tensor) -> int:
    value = _integer(position, axis, tensor)
    return value + tensor.shape[axis] if value < 0 else value


def _integer(value: object, axis: int, tensor: Tensor) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise KernelError(
            f"index of axis {axis} of {tensor.name} is {type(value).__name__} {value}, "
            "needs int or slice",
            "divide with // rather than /" if isinstance(value, float) else "",
        ) from None


def _with_inferred(shape: Shape, total: int, tensor: Tensor) -> Shape:
    if shape.count(-1) == 1:
        known = -math.prod(shape)
        if known and total % known == 0:
            shape = tuple(total // known if count == -1 else count for count in shape)
    if math.prod(shape) != total or min(shape, default=1) < 1:
        raise KernelError(f"reshape of {tensor.name}: {total} elements do not fill {shape}")
    return shape
