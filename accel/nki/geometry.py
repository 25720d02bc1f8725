"""Geometry: everything about a view but which storage and byte it starts at.

Comes in: memory, dtype, shape and byte strides. Goes out: one interned object a distinct view
shape, so that the recorder recognises a repeated instruction by identity; and its `Layout`, which
is where views that the machine cannot address are refused.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from accel.dtypes import itemsize, numpy_dtype
from accel.errors import KernelError
from accel.program import Layout, Memory

Shape = tuple[int, ...]


class Geometry:
    """The static part of a view. Strides are bytes; `partition_bytes` is 0 for HBM. `reach` is the
    byte past the last element, from the view's offset; `free_reach` the same in one partition.
    `low` and `free_low` are the first byte, below 0 where a step is negative.

    Made by `geometry_of` only: equal geometries are one object, compared and hashed by identity.
    """

    __slots__ = (
        "_layout",
        "dtype",
        "free_low",
        "free_reach",
        "itemsize",
        "low",
        "memory",
        "partition_bytes",
        "reach",
        "shape",
        "strides",
    )

    def __init__(
        self, memory: Memory, dtype: str, shape: Shape, strides: Shape, partition_bytes: int
    ) -> None:
        self.memory, self.dtype, self.shape, self.strides = memory, dtype, shape, strides
        self.itemsize = itemsize(dtype)
        self.partition_bytes = partition_bytes
        spans = [(count - 1) * step for count, step in zip(shape, strides, strict=True)]
        self.reach = sum(span for span in spans if span > 0) + self.itemsize
        self.free_reach = sum(span for span in spans[1:] if span > 0) + self.itemsize
        self.low = sum(span for span in spans if span < 0)
        self.free_low = sum(span for span in spans[1:] if span < 0)
        self._layout: Layout | None = None

    @property
    def on_chip(self) -> bool:
        """Whether axis 0 is the partition axis."""
        return self.memory is not Memory.HBM

    @property
    def layout(self) -> Layout:
        """The operand's layout; KernelError where the machine cannot address the view."""
        if self._layout is None:
            self._layout = self._make_layout()
        return self._layout

    def _make_layout(self) -> Layout:
        axes = tuple(zip(self.strides, self.shape, strict=True))
        if not self.on_chip:
            return _interned_layout(Layout(self.memory, self.dtype, 0, axes))
        (step, partitions), *free = axes
        if partitions > 1 and step != self.partition_bytes:
            raise KernelError(
                f"partition step is {step} bytes, needs {self.partition_bytes} "
                f"(consecutive partitions)",
                "an on-chip operand takes consecutive partitions: copy, or move the stride to a "
                "free axis",
            )
        return _interned_layout(Layout(self.memory, self.dtype, partitions, tuple(free)))


@functools.cache
def geometry_of(
    memory: Memory, dtype: str, shape: Shape, strides: Shape, partition_bytes: int
) -> Geometry:
    """The one geometry with these values."""
    return Geometry(memory, dtype, shape, strides, partition_bytes)


@functools.cache
def _interned_layout(layout: Layout) -> Layout:
    return layout


@functools.cache
def row_major(shape: Shape, size: int) -> Shape:
    """Byte strides of a dense array whose elements have `size` bytes."""
    strides, step = [], size
    for count in reversed(shape):
        strides.append(step)
        step *= count
    return tuple(reversed(strides))


@functools.cache
def dense_geometry(memory: Memory, dtype: str, shape: Shape) -> Geometry:
    """The geometry of a whole new storage."""
    strides = row_major(shape, itemsize(dtype))
    width = 0 if memory is Memory.HBM else math.prod(shape[1:]) * itemsize(dtype)
    return geometry_of(memory, dtype, shape, strides, width)


def viewed_values(
    storage: npt.NDArray[np.generic], geometry: Geometry, byte_offset: int
) -> npt.NDArray[np.generic]:
    """A copy of a view's elements, from the array behind its storage."""
    raw = np.ascontiguousarray(storage).reshape(-1).view(np.uint8)
    dtype = numpy_dtype(geometry.dtype)
    return np.ndarray(geometry.shape, dtype, raw.data, byte_offset, geometry.strides).copy()


def reshaped_axes(axes: Sequence[tuple[int, int]], new: Shape) -> list[tuple[int, int]] | None:
    """(count, step) axes of the same elements in shape `new`, or None if that takes a copy."""
    merged: list[tuple[int, int]] = []
    for count, step in axes:
        if count == 1:
            continue
        if merged and merged[-1][1] == count * step:
            merged[-1] = (merged[-1][0] * count, step)
        else:
            merged.append((count, step))
    result: list[tuple[int, int]] = []
    for count in reversed(new):
        if count == 1:
            result.append((1, result[-1][0] * result[-1][1] if result else 0))
            continue
        if not merged or merged[-1][0] % count:
            return None
        rest, step = merged.pop()
        result.append((count, step))
        if rest != count:
            merged.append((rest // count, step * count))
    return result[::-1]
