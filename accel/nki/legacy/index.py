"""Index expressions of the older language: `arange`, `mgrid`, arithmetic on them, and masks.

A kernel writes `x[128 * k + i.p, i.x]` with index arrays. Every such array is affine in the axes of
one grid, so it is kept as base + step per axis and never as an array: adding two costs a tuple, and
indexing a tensor with one needs no element. A `Mask` is a conjunction of affine conditions
`expression >= 0`; where each condition concerns one axis it is a box, and instructions are clipped
to it. Anything not affine is a `KernelError`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from accel.errors import KernelError

Axis = tuple[int, int]
"""(step, size) of one grid axis; (0, 1) where the expression does not use the axis."""

UNUSED: Axis = (0, 1)
_WHOLE = slice(None)


def _aligned(a: tuple[Axis, ...], b: tuple[Axis, ...]) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """Both with as many axes as the longer, filled up on the left as numpy broadcasts."""
    length = max(len(a), len(b))
    return (UNUSED,) * (length - len(a)) + a, (UNUSED,) * (length - len(b)) + b


def _joint_size(left: int, right: int) -> int:
    if left != right and 1 not in (left, right):
        raise KernelError(f"index expressions of sizes {left} and {right} do not broadcast")
    return max(left, right)


class Index:
    """base + Σ step × i over the axes of a grid. Compares into a `Mask`."""

    __array_ufunc__ = None  # numpy integers hand their arithmetic over to this class
    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("_column", "_row", "axes", "base")

    _column: Index
    _row: Index

    def __init__(self, base: int, axes: tuple[Axis, ...]) -> None:
        self.base = base
        self.axes = axes

    def __repr__(self) -> str:
        terms = "".join(f" + {step}*i{n}" for n, (step, _) in enumerate(self.axes) if step)
        return f"{self.base}{terms}"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the index array this stands for."""
        return tuple(size for _, size in self.axes)

    @property
    def lowest(self) -> int:
        """The smallest value in the grid."""
        return self.base + sum(min(0, step * (size - 1)) for step, size in self.axes)

    @property
    def highest(self) -> int:
        """The largest value in the grid."""
        return self.base + sum(max(0, step * (size - 1)) for step, size in self.axes)

    def __add__(self, other: Index | int) -> Index:
        if type(other) is int:
            return Index(self.base + other, self.axes)
        if not isinstance(other, Index):
            return Index(self.base + int(other), self.axes)
        if self.axes == other.axes:
            axes = tuple((2 * step, size) for step, size in self.axes)
            return Index(self.base + other.base, axes)
        axes = tuple(
            (step + step_, _joint_size(size, size_))
            for (step, size), (step_, size_) in zip(*_aligned(self.axes, other.axes), strict=True)
        )
        return Index(self.base + other.base, axes)

    __radd__ = __add__

    def __mul__(self, factor: int) -> Index:
        if isinstance(factor, Index):
            raise KernelError("index expression is not affine: a product of two indices")
        return Index(
            self.base * int(factor), tuple((step * int(factor), size) for step, size in self.axes)
        )

    __rmul__ = __mul__

    def __neg__(self) -> Index:
        return self * -1

    def __sub__(self, other: Index | int) -> Index:
        return self + -other

    def __rsub__(self, other: int) -> Index:
        return -self + other

    def __floordiv__(self, divisor: int) -> Index:
        if self.base % divisor or any(step % divisor for step, _ in self.axes):
            raise KernelError(
                f"index expression {self} // {divisor} is not affine",
                "give the quotient an axis of its own",
            )
        return Index(self.base // divisor, tuple((s // divisor, size) for s, size in self.axes))

    def __mod__(self, divisor: int) -> Index:
        if self.lowest // divisor == self.highest // divisor:
            return self - self.lowest // divisor * divisor
        raise KernelError(
            f"index expression ({self}) % {divisor} is not affine",
            "give the remainder an axis of its own",
        )

    def __getitem__(self, key: object) -> Index:
        """Only new axes and whole axes; `nl.arange(128)[:, None]` is made once."""
        if type(key) is tuple and len(key) == 2 and len(self.axes) == 1:
            first, second = key
            if second is None and first == _WHOLE:
                return self._as_column()
            if first is None and second == _WHOLE:
                return self._as_row()
        axes: list[Axis] = []
        own = iter(self.axes)
        for part in key if isinstance(key, tuple) else (key,):
            if part is None:
                axes.append(UNUSED)
            elif part == _WHOLE:
                axes.append(next(own))
            else:
                raise KernelError(f"index expression indexed with {part!r}", "use None or : alone")
        return Index(self.base, (*axes, *own))

    def _as_column(self) -> Index:
        try:
            return self._column
        except AttributeError:
            self._column = Index(self.base, (self.axes[0], UNUSED))
            return self._column

    def _as_row(self) -> Index:
        try:
            return self._row
        except AttributeError:
            self._row = Index(self.base, (UNUSED, self.axes[0]))
            return self._row

    def __ge__(self, other: Index | int) -> Mask:
        return Mask((self - other,))

    def __gt__(self, other: Index | int) -> Mask:
        return Mask((self - other - 1,))

    def __le__(self, other: Index | int) -> Mask:
        return Mask((-self + other,))

    def __lt__(self, other: Index | int) -> Mask:
        return Mask((-self + other - 1,))

    def __eq__(self, other: Index | int) -> Mask:  # type: ignore[override]
        return (self >= other) & (self <= other)

    def __ne__(self, other: object) -> bool:
        raise KernelError("mask with != is not a conjunction of affine conditions")


@dataclass(frozen=True, slots=True)
class Mask:
    """All `conditions` hold, each `index >= 0`."""

    __array_ufunc__ = None  # numpy truth values hand their arithmetic over to this class

    conditions: tuple[Index, ...]

    def __and__(self, other: Mask | bool) -> Mask:
        return Mask(self.conditions + mask_of(other).conditions)

    __rand__ = __and__

    def __or__(self, other: Mask) -> Mask:
        raise KernelError("mask with | is not a conjunction", "split it, or use nl.where")

    def __bool__(self) -> bool:
        raise KernelError(
            "a comparison of index expressions has no single truth value",
            "pass it as mask=, and join several with &",
        )


_NEVER = Mask((Index(-1, ()),))


def mask_of(given: object) -> Mask:
    """A `mask=` argument as a mask; conditions on numbers alone are Python's true and false."""
    if isinstance(given, Mask):
        return given
    if isinstance(given, (bool, np.bool_)):
        return Mask(()) if given else _NEVER
    raise KernelError(f"mask is {type(given).__name__}, needs a comparison of index expressions")


Window = tuple[int, int]
"""First element and count along one axis."""


def _window(base: int, step: int, size: int) -> Window:
    """The i in [0, size) with base + step × i >= 0, for step ≠ 0."""
    if step > 0:
        first = min(max(0, -(base // step)), size)
        return first, size - first
    return 0, min(max(0, base // -step + 1), size)


def _meet(a: Window, b: Window) -> Window:
    first = max(a[0], b[0])
    return first, max(0, min(a[0] + a[1], b[0] + b[1]) - first)


def windows(mask: Mask, shape: tuple[int, ...]) -> tuple[Window, ...]:
    """The box of a tile of `shape` in which the mask holds; a count may be 0.

    A condition that couples two axes is not a box: KernelError, unless it holds everywhere.
    """
    box = [(0, size) for size in shape]
    for condition in mask.conditions:
        used = [n for n, (step, size) in enumerate(condition.axes) if step and size > 1]
        if condition.lowest >= 0:
            continue
        if condition.highest < 0:
            return tuple((0, 0) for _ in shape)
        if len(used) > 1:
            raise KernelError(
                f"mask ({condition}) >= 0 couples axes {used}",
                "nisa.affine_select and nl.where take such a condition",
            )
        axis = used[0]
        at = axis + len(shape) - len(condition.axes)
        box[at] = _meet(box[at], _window(condition.base, *condition.axes[axis]))
    return tuple(box)


@functools.cache
def arange(start: int, stop: int | None = None, step: int = 1) -> Index:
    """`arange(stop)` or `arange(start, stop[, step])`, to be given axes by `[:, None]`."""
    first, last = (0, start) if stop is None else (start, stop)
    return Index(int(first), ((step, max(0, -(-(int(last) - int(first)) // step))),))


_AXIS_NAMES = ("p", "x", "y", "z", "w")


class Grid:
    """What `mgrid[...]` returns: one index an axis, also as `.p` (the partition axis) and, for the
    free axes in order, `.x`, `.y`, `.z`, `.w`.
    """

    __slots__ = ("indices", "p", "w", "x", "y", "z")

    def __init__(self, indices: tuple[Index, ...]) -> None:
        self.indices = indices
        for name, index in zip(_AXIS_NAMES, indices, strict=False):
            setattr(self, name, index)

    def __getattr__(self, name: str) -> Index:
        if name not in _AXIS_NAMES:
            raise AttributeError(f"mgrid has no {name!r}")
        axis = _AXIS_NAMES.index(name)
        raise KernelError(f"mgrid has {len(self.indices)} axes, axis {axis} was asked for")

    def __iter__(self) -> Iterator[Index]:
        return iter(self.indices)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, axis: int) -> Index:
        return self.indices[axis]


class MeshGrid:
    """`nl.mgrid`: indexed with one slice an axis."""

    __slots__ = ()

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Grid:
        parts = key if isinstance(key, tuple) else (key,)
        return _grid(tuple([(part.start or 0, part.stop, part.step or 1) for part in parts]))


@functools.cache
def _grid(bounds: tuple[tuple[int, int, int], ...]) -> Grid:
    """The grid with these starts, stops and steps."""
    lines = [arange(*bound) for bound in bounds]
    sizes = [line.axes[0][1] for line in lines]
    indices = []
    for own, line in enumerate(lines):
        step = line.axes[0][0]
        axes = tuple((step if axis == own else 0, size) for axis, size in enumerate(sizes))
        indices.append(Index(line.base, axes))
    return Grid(tuple(indices))


mgrid = MeshGrid()
