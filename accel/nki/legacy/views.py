"""View algebra of the older language on top of `Tensor`: index expressions, clipping, fitting.

Everything here returns a new view of the same storage and emits nothing.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from accel.errors import KernelError
from accel.isa.indirect import VECTOR
from accel.isa.indirect import Index as Meaning
from accel.nki.geometry import Geometry, geometry_of
from accel.nki.legacy.index import UNUSED, Axis, Index, Mask, Window
from accel.nki.tensor import Indirect, Tensor

Shape = tuple[int, ...]
Loose = tuple[tuple[Index, int], ...]
"""Index expressions that leave their axis, with its extent: legal only where a mask clips them."""


@runtime_checkable
class Placed(Protocol):
    """A value that lies in a tile, as an index is that is known at run time only."""

    @property
    def tensor(self) -> Tensor:
        """Where it lies."""


def viewed(tensor: Tensor, shape: Shape, strides: Shape, offset: int) -> Tensor:
    """The view of the same storage with these counts and byte steps."""
    old = tensor.geometry
    geometry = geometry_of(old.memory, old.dtype, shape, strides, old.partition_bytes)
    return Tensor(tensor.allocation, offset, geometry)


Reach = tuple[int, int, int, int, int]


class _Plan:
    """How keys of one signature view one geometry: everything but where the view starts.

    `reaches`: for each key that moves the view its number, byte step, extent of the axis, and the
    bases for which an index expression stays on the axis (first, and the one after the last).
    Slices are wholly in `offset`.
    """

    __slots__ = ("geometry", "offset", "reaches")

    def __init__(self, geometry: Geometry, offset: int, reaches: tuple[Reach, ...]) -> None:
        self.geometry, self.offset, self.reaches = geometry, offset, reaches


_PLANS: dict[tuple[object, ...], _Plan] = {}


def region(tensor: Tensor, key: object) -> tuple[Tensor, Loose]:
    """The view that `tensor[key]` is, with the index expressions that only a mask makes legal.

    All expressions of a key share one grid, whose axes appear where the first of them stands. An
    on-chip view whose first axis is not the partition axis gets one of extent 1.
    """
    if key is Ellipsis:
        return tensor, _NOT_LOOSE
    keys = key if type(key) is tuple else (key,)
    geometry = tensor.geometry
    if len(keys) == 2 and type(keys[0]) is Index and type(keys[1]) is Index:
        plan = _PLANS.get((geometry, keys[0].axes, keys[1].axes))
        if plan is not None:
            return _gathered(tensor, keys, plan)
    signature: list[object] = [geometry]
    expressions, complete = False, len(keys) == len(geometry.shape)
    for part in keys:
        kind = type(part)
        if kind is Index:
            expressions = True
            signature.append(part.axes)
        elif kind is slice:
            signature.append((part.start, part.stop, part.step))
        elif kind is int or isinstance(part, int):
            signature.append(None)
        elif isinstance(part, Placed):
            return _chosen(tensor, keys, part)
        else:
            signature.append(None)  # no integer changes the shape of the view
            complete = complete and part is not Ellipsis
    if not expressions:
        return _sliced(tensor, keys)
    if not complete:
        return region(tensor, _with_every_axis(keys, tensor.ndim))
    plan = _PLANS.get(tuple(signature))
    if plan is None:
        plan = _PLANS[tuple(signature)] = _plan(geometry, keys)
    return _gathered(tensor, keys, plan)


def _sliced(tensor: Tensor, keys: tuple[Any, ...]) -> tuple[Tensor, Loose]:
    """A view without index expressions; slices past the end of their axis become some."""
    try:
        return tensor[keys], _NOT_LOOSE
    except KernelError:
        spread = _as_expressions(keys, tensor.shape)
        if spread is None:
            raise
        return region(tensor, spread)


def _as_expressions(keys: tuple[Any, ...], shape: Shape) -> tuple[Any, ...] | None:
    """The keys with each slice as an index expression on a grid axis of its own; None where no
    slice with a start and a stop goes past the end of its axis.
    """
    if len(keys) != len(shape) or not any(map(_goes_past, keys, shape)):
        return None
    slices = [at for at, part in enumerate(keys) if type(part) is slice]
    result = list(keys)
    for own, at in enumerate(slices):
        first, last, step = keys[at].start or 0, keys[at].stop, keys[at].step or 1
        count = len(range(first, shape[at] if last is None else last, step))
        axes = [UNUSED] * len(slices)
        axes[own] = (step, count)
        result[at] = Index(first, tuple(axes))
    return tuple(result)


def _goes_past(part: object, extent: int) -> bool:
    if type(part) is not slice or part.stop is None:
        return False
    first, step = part.start or 0, part.step or 1
    return first >= 0 and step > 0 and part.stop > max(first, extent)


def _chosen(tensor: Tensor, keys: tuple[Any, ...], picked: Placed) -> tuple[Tensor, Loose]:
    """The view of an HBM tensor with one axis picked at run time, by one index a partition."""
    if sum(isinstance(part, Placed) for part in keys) > 1 or tensor.geometry.on_chip:
        raise KernelError(
            f"{tensor.name} is indexed with a tile",
            "one axis of an hbm tensor can be picked by a tile",
        )
    keys = _with_every_axis(keys, tensor.ndim)
    at, tile = next(n for n, part in enumerate(keys) if isinstance(part, Placed)), picked.tensor
    if free_size(tile.shape) != 1:
        raise KernelError(
            f"{tensor.name} is indexed with a tile of {tile.shape}", "give one index a partition"
        )
    depth = max((len(part.axes) for part in keys if type(part) is Index), default=1)
    lanes = Index(0, ((0, tile.shape[0]), *(UNUSED,) * (depth - 1)))
    view, loose = region(tensor, (*keys[:at], lanes, *keys[at + 1 :]))
    if view.geometry.strides[0] != 0 or view.shape[0] != tile.shape[0]:
        raise KernelError(
            f"{tensor.name}: the partition axis is picked by a tile and by another index",
            "put the tile where the partition axis is indexed",
        )
    step = tensor.geometry.strides[at]
    strides = (step, *view.geometry.strides[1:])
    placed = viewed(tensor, view.shape, strides, view.byte_offset)
    placed.chosen = Indirect(fitted(tile, (tile.shape[0], 1)), Meaning(VECTOR, step))
    return placed, loose


def _gathered(tensor: Tensor, keys: tuple[Any, ...], plan: _Plan) -> tuple[Tensor, Loose]:
    offset, loose = tensor.byte_offset + plan.offset, _NOT_LOOSE
    for at, step, extent, below, above in plan.reaches:
        key = keys[at]
        if type(key) is Index:
            base = key.base
            if base < below or base >= above:
                loose = (*loose, (key, extent))
        elif isinstance(key, int) and 0 <= key < extent:
            base = key
        else:
            base = _position(key, extent, tensor)
        offset += base * step
    return Tensor(tensor.allocation, offset, plan.geometry), loose


_NOT_LOOSE: Loose = ()


def _with_every_axis(keys: tuple[object, ...], ndim: int) -> tuple[object, ...]:
    at = next((n for n, part in enumerate(keys) if part is Ellipsis), len(keys))
    given = [part for part in keys if part is not Ellipsis]
    if len(given) > ndim:
        raise KernelError(f"{len(given)} indices of a tensor of {ndim} axes")
    fill = (slice(None),) * (ndim - len(given))
    return (*keys[:at], *fill, *keys[at + 1 :])


def _plan(geometry: Geometry, keys: Sequence[object]) -> _Plan:
    depth = max(len(key.axes) for key in keys if type(key) is Index)
    counts, steps = [1] * depth, [0] * depth
    before: list[tuple[int, int]] = []
    after: list[tuple[int, int]] = []
    around, offset = before, 0
    reaches: list[Reach] = []
    for at, (key, step, extent) in enumerate(
        zip(keys, geometry.strides, geometry.shape, strict=True)
    ):
        if isinstance(key, slice):
            start, stop, stride = key.indices(extent)
            offset += start * step
            around.append((len(range(start, stop, stride)), step * stride))
        elif type(key) is Index:
            around = after
            _add_axes(counts, steps, key.axes, step)
            below, above = key.base - key.lowest, extent + key.base - key.highest
            reaches.append((at, step, extent, below, above))
        else:
            reaches.append((at, step, extent, 0, extent))
    axes = [*before, *zip(counts, steps, strict=True), *after]
    width = geometry.partition_bytes
    if width and axes[0][1] != width and (axes[0][0] > 1 or len(axes) < 2):
        axes.insert(0, (1, width))
    if width and len(axes) < 2:
        axes.append((1, geometry.itemsize))
    shape, strides = tuple(count for count, _ in axes), tuple(step for _, step in axes)
    view = geometry_of(geometry.memory, geometry.dtype, shape, strides, width)
    return _Plan(view, offset, tuple(reaches))


def _add_axes(counts: list[int], steps: list[int], axes: tuple[Axis, ...], step: int) -> None:
    first = len(counts) - len(axes)
    for at, (own_step, size) in enumerate(axes, first):
        if size > 1:
            if counts[at] not in (1, size):
                raise KernelError(f"index expressions of sizes {counts[at]} and {size} in one view")
            counts[at] = size
            steps[at] += own_step * step


def _position(key: object, extent: int, tensor: Tensor) -> int:
    try:
        position = operator.index(key)  # type: ignore[arg-type]
    except TypeError:
        raise KernelError(
            f"index of {tensor.name} is {type(key).__name__}, needs int, slice or expression"
        ) from None
    if not -extent <= position < extent:
        raise KernelError(f"index {position} of {tensor.name}: the axis has {extent}")
    return position % extent


_ANY = 1 << 62


def limits(mask: Mask) -> Loose:
    """The conditions of a mask as expressions that are legal from 0 on."""
    return tuple((condition, _ANY) for condition in mask.conditions if condition.lowest < 0)


def check_loose(loose: Loose, box: Sequence[Window] | None) -> None:
    """KernelError if an index expression leaves its axis inside the box (None: everywhere)."""
    if box is not None and any(count == 0 for _, count in box):
        return
    for index, extent in loose:
        if box is not None:
            index = _clipped_index(index, box)
        if index.lowest < 0 or index.highest >= extent:
            raise KernelError(
                f"index {index.lowest} to {index.highest} of an axis of extent {extent}",
                "clip the access with mask=",
            )


def _clipped_index(index: Index, box: Sequence[Window]) -> Index:
    padded = (UNUSED,) * (len(box) - len(index.axes)) + index.axes
    base = index.base
    axes = []
    for (step, size), (first, count) in zip(padded, box, strict=True):
        base += step * first if size > 1 else 0
        axes.append((step, count if size > 1 else 1))
    return Index(base, tuple(axes))


def clipped(tensor: Tensor, box: Sequence[Window]) -> Tensor:
    """The part of the view inside the box; axes of extent 1 stay."""
    offset, counts = tensor.byte_offset, []
    axes = zip(box, tensor.shape, tensor.geometry.strides, strict=True)
    for (first, count), extent, step in axes:
        counts.append(count if extent > 1 else 1)
        offset += first * step if extent > 1 else 0
    view = viewed(tensor, tuple(counts), tensor.geometry.strides, offset)
    if tensor.chosen is not None and tensor.shape[0] > 1:
        index, lanes = tensor.chosen, (box[0], (0, 1))
        view.byte_offset -= box[0][0] * tensor.geometry.strides[0]
        view.chosen = Indirect(clipped(index.tile, lanes), index.meaning)
    return view


def fitted(tensor: Tensor, shape: Shape) -> Tensor:
    """The same elements as `shape`: axes of extent 1 come and go, nothing else.

    KernelError where the extents differ.
    """
    if tensor.shape == shape:
        return tensor
    if not fits(tensor, shape):
        raise KernelError(f"shape of {tensor.name} is {tensor.shape}, needs {shape}")
    fixed = 1 if tensor.geometry.on_chip else 0
    axes = zip(tensor.shape[fixed:], tensor.geometry.strides[fixed:], strict=True)
    steps = iter([step for count, step in axes if count != 1])
    strides = tensor.geometry.strides[:fixed] + tuple(
        tensor.geometry.itemsize if count == 1 else next(steps) for count in shape[fixed:]
    )
    return viewed(tensor, shape, strides, tensor.byte_offset)


def fits(tensor: Tensor, shape: Shape) -> bool:
    """Whether `fitted` succeeds."""
    if tensor.shape == shape:
        return True
    fixed = 1 if tensor.geometry.on_chip else 0
    return tensor.shape[:fixed] == shape[:fixed] and [
        count for count in tensor.shape[fixed:] if count != 1
    ] == [count for count in shape[fixed:] if count != 1]


def repeated(tensor: Tensor, shape: Shape) -> Tensor:
    """The view with its axes of extent 1 repeated to `shape` (partitions must agree)."""
    if tensor.shape == shape:
        return tensor
    if len(tensor.shape) != len(shape):
        tensor = fitted(tensor, (*tensor.shape[:1], *(1,) * (len(shape) - 1)))
    strides = []
    axes = zip(tensor.shape, tensor.geometry.strides, shape, strict=True)
    for axis, (count, step, wanted) in enumerate(axes):
        if count not in (1, wanted) or (axis == 0 and count != wanted):
            raise KernelError(f"shape of {tensor.name} is {tensor.shape}, needs {shape}")
        strides.append(step if count == wanted else 0)
    return viewed(tensor, shape, tuple(strides), tensor.byte_offset)


def permuted(tensor: Tensor, order: Sequence[int]) -> Tensor:
    """The axes in another order."""
    shape = tuple(tensor.shape[axis] for axis in order)
    strides = tuple(tensor.geometry.strides[axis] for axis in order)
    return viewed(tensor, shape, strides, tensor.byte_offset)


def same_region(a: Tensor, b: Tensor) -> bool:
    """Whether both show the same elements of one storage in the same order."""
    return (
        a.storage == b.storage
        and a.byte_offset == b.byte_offset
        and (a.geometry is b.geometry or _squeezed(a) == _squeezed(b))
    )


def _squeezed(tensor: Tensor) -> list[tuple[int, int]]:
    axes = zip(tensor.shape, tensor.geometry.strides, strict=True)
    return [(count, step) for count, step in axes if count > 1]


def overlap(a: Tensor, b: Tensor) -> bool:
    """Whether the boxes (partitions × bytes) of two on-chip views of one storage meet."""
    width = a.geometry.partition_bytes
    a_start, a_byte = divmod(a.byte_offset, width)
    b_start, b_byte = divmod(b.byte_offset, width)
    return (
        a_start < b_start + b.shape[0]
        and b_start < a_start + a.shape[0]
        and a_byte < b_byte + b.geometry.free_reach
        and b_byte < a_byte + a.geometry.free_reach
    )


def free_size(shape: Shape) -> int:
    """Elements a partition."""
    return math.prod(shape[1:])


def whole(tensor: Tensor) -> bool:
    """Whether the view shows every element of its storage."""
    storage = tensor.allocation.storage
    return tensor.byte_offset == 0 and math.prod(tensor.shape) == math.prod(storage.shape)
