"""Tile: the value a kernel of the older form computes with.

A tile is a view of a storage, or the result of an instruction whose destination is still open (see
`session`). Operators on tiles are instructions; `tile[key]` is a view, `tile[key] = value` an
assignment, `tile += value` an instruction that writes in place (on PSUM, a matmul that adds).
`issue` is how every call of the language makes its result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from accel.dtypes import FLOATS, dtype_name, itemsize, numpy_dtype
from accel.errors import KernelError
from accel.isa.operators import COMPARISONS
from accel.nki.enums import engine, operation_name
from accel.nki.geometry import geometry_of, row_major
from accel.nki.instructions.elementwise import tensor_scalar, tensor_tensor
from accel.nki.instructions.moves import memset, tensor_copy
from accel.nki.legacy import lowering
from accel.nki.legacy.index import Mask, Window, mask_of, windows
from accel.nki.legacy.session import Pending, Session, session
from accel.nki.legacy.views import (
    Loose,
    check_loose,
    clipped,
    fits,
    fitted,
    free_size,
    limits,
    region,
    repeated,
    same_region,
)
from accel.nki.recorder import Operand
from accel.nki.tensor import Allocation, Tensor
from accel.nki.tiles import promoted
from accel.program import Memory, Storage

Shape = tuple[int, ...]
Box = Sequence[Window]
Number = int | float
DType = str | type | np.dtype[np.generic]


class Tile:
    """A view, or an open result. `dtype` is numpy's; `kind` is the language's name of it."""

    __array_ufunc__ = None  # numpy numbers on the left hand their arithmetic over
    __slots__ = ("__weakref__", "_loose", "_pending", "_shared", "_tensor", "limit", "origin")

    def __init__(
        self, tensor: Tensor | None = None, pending: Pending | None = None, loose: Loose = ()
    ) -> None:
        self._tensor, self._pending, self._loose = tensor, pending, loose
        self._shared = False
        self.limit: Mask | None = None  # of `tile[mask]`: what an instruction may use of it
        self.origin: tuple[Tensor, object] | None = None  # the tensor and key it is a view by

    @property
    def tensor(self) -> Tensor:
        """Where the tile lies; an open result gets a tile of its own."""
        if self._loose:
            check_loose(self._loose, None)
        place = self._tensor
        return self._place() if place is None else place

    def within(self, box: Box | None) -> Tensor:
        """Like `tensor`, for an instruction that a mask clips to `box`."""
        if self._loose:
            check_loose(self._loose, box)
        place = self._tensor
        return self._place() if place is None else place

    def _place(self) -> Tensor:
        if self._tensor is None:
            assert self._pending is not None
            self._tensor = session().settle(self._pending)
        return self._tensor

    def holds(self, key: object, value: Tile) -> bool:
        """Whether value is `self[key]` by that very key: `self[key] += x` ends in assigning it."""
        origin = value.origin
        return (
            origin is not None
            and origin[0] is self._tensor
            and origin[1] is key
            and not value._loose
            and not self._shared
        )

    def moved(self, tensor: Tensor) -> None:
        """The value now lies in `tensor`."""
        self._tensor, self._shared, self.origin = tensor, False, None

    def open_result(self, active: Session) -> Pending | None:
        """The instruction that makes this tile, while its destination is open."""
        return self._pending if self._pending is active.pending else None

    @property
    def shape(self) -> Shape:
        """Extents, the partition axis first on-chip."""
        place, pending = self._tensor, self._pending
        if place is None and pending is not None:
            return pending.shape
        return self._place().geometry.shape

    @property
    def kind(self) -> str:
        """The language's name of the element type."""
        place, pending = self._tensor, self._pending
        if place is None and pending is not None:
            return pending.dtype
        return self._place().geometry.dtype

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The element type."""
        return numpy_dtype(self.kind)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return itemsize(self.kind)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def buffer(self) -> str:
        """`sbuf`, `psum` or `hbm`."""
        return self._place().buffer

    def __repr__(self) -> str:
        return f"Tile[{'x'.join(map(str, self.shape))} {self.kind}]"

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: object) -> Tile:
        if type(key) is Mask:
            return self._limited(key)
        place = self._tensor
        if place is None or self._loose:
            place = self.tensor
        view, loose = region(place, key)
        tile = Tile(view, None, loose)
        tile.origin = (place, key)
        return tile

    def _limited(self, mask: Mask) -> Tile:
        """The view as an operand of an instruction that happens where the mask holds."""
        part = Tile(self._place(), None, self._loose + limits(mask))
        part.limit = mask
        return part

    def __setitem__(self, key: object, value: Tile | Number) -> None:
        if type(value) is Tile and value.origin is not None and self.holds(key, value):
            return
        if self._shared:
            self.moved(session().copied(self._place()))
        target, loose = region(self.tensor, key)
        if loose:
            made = value.open_result(session()) if isinstance(value, Tile) else None
            check_loose(loose, None if made is None else made.box)
        assign(target, value)

    def reshape(self, shape: int | Sequence[int], *more: int) -> Tile:
        """The same elements in another shape; on-chip the partition axis stays."""
        return Tile(self.tensor.reshape(shape, *more))

    def broadcast_to(self, shape: Sequence[int]) -> Tile:
        """Repeated to `shape`: a view along free axes, instructions over partitions."""
        return Tile(broadcast(self.tensor, tuple(int(n) for n in shape)))

    def expand_dims(self, axis: int) -> Tile:
        """A view with an axis of extent 1 at `axis`."""
        return Tile(self.tensor.expand_dim(axis + self.ndim + 1 if axis < 0 else axis))

    def astype(self, dtype: DType) -> Tile:
        """A copy in another element type."""
        return copied(self, dtype)

    def view(self, dtype: DType) -> Tile:
        """The same bytes as another element type."""
        return Tile(self.tensor.view(dtype))

    def assert_shape(self, shape: Sequence[int]) -> Tile:
        """The tile itself; KernelError if its shape is another."""
        if self.shape != tuple(shape):
            raise KernelError(f"shape is {self.shape}, asserted to be {tuple(shape)}")
        return self

    def __add__(self, other: Operated) -> Tile:
        return binary("add", self, other)

    def __radd__(self, other: Number) -> Tile:
        return binary("add", other, self)

    def __sub__(self, other: Operated) -> Tile:
        return binary("subtract", self, other)

    def __rsub__(self, other: Number) -> Tile:
        return binary("subtract", other, self)

    def __mul__(self, other: Operated) -> Tile:
        return binary("multiply", self, other)

    def __rmul__(self, other: Number) -> Tile:
        return binary("multiply", other, self)

    def __truediv__(self, other: Operated) -> Tile:
        return binary("divide", self, other)

    def __rtruediv__(self, other: Number) -> Tile:
        return binary("divide", other, self)

    def __pow__(self, other: Operated) -> Tile:
        return binary("power", self, other)

    def __and__(self, other: Operated) -> Tile:
        return binary("bitwise_and", self, other)

    def __or__(self, other: Operated) -> Tile:
        return binary("bitwise_or", self, other)

    def __xor__(self, other: Operated) -> Tile:
        return binary("bitwise_xor", self, other)

    def __lshift__(self, other: Operated) -> Tile:
        return binary("left_shift", self, other)

    def __rshift__(self, other: Operated) -> Tile:
        return binary("right_shift", self, other)

    def __neg__(self) -> Tile:
        return binary("multiply", self, -1.0)

    def __lt__(self, other: Operated) -> Tile:
        return binary("less", self, other)

    def __le__(self, other: Operated) -> Tile:
        return binary("less_equal", self, other)

    def __gt__(self, other: Operated) -> Tile:
        return binary("greater", self, other)

    def __ge__(self, other: Operated) -> Tile:
        return binary("greater_equal", self, other)

    def __iadd__(self, other: Operated) -> Tile:
        active = session()
        pending = other._pending if isinstance(other, Tile) else None
        target = self._tensor
        if pending is None or pending is not active.pending or pending.op != "nc_matmul":
            return self._in_place("add", other)
        if target is None or target.geometry.memory is not Memory.PSUM:
            return self._in_place("add", other)
        if target.geometry.shape != pending.shape:
            target = fitted(target, pending.shape)
        active.accumulate(pending, target)
        return self

    def __isub__(self, other: Operated) -> Tile:
        return self._in_place("subtract", other)

    def __imul__(self, other: Operated) -> Tile:
        return self._in_place("multiply", other)

    def __itruediv__(self, other: Operated) -> Tile:
        return self._in_place("divide", other)

    def _in_place(self, op: str, other: Operated) -> Tile:
        result = binary(op, self, other, dtype=self.kind)
        if self._shared:
            return result
        assign(self.tensor, result)
        return self


Operated = Tile | Number


def kind_of(dtype: DType | None, default: str) -> str:
    """The language's name of a dtype argument."""
    if dtype is None:
        return default
    try:
        return dtype_name(dtype)
    except (KeyError, TypeError, ValueError):
        raise KernelError(f"unknown dtype {dtype!r}", "use a dtype of nki.language") from None


@functools.cache
def _open_tensor(shape: Shape, dtype: str, memory: Memory) -> Tensor:
    """Stands for a destination that is not decided."""
    width = row_major(shape, itemsize(dtype))[0]
    geometry = geometry_of(memory, dtype, shape, row_major(shape, itemsize(dtype)), width)
    return Tensor(Allocation(-1, Storage("open", memory, dtype, shape)), 0, geometry)


def issue(
    call: Callable[..., object],
    shape: Shape,
    dtype: str,
    *,
    memory: Memory = Memory.SBUF,
    box: Box | None = None,
    **arguments: object,
) -> Tile:
    """The result of one instruction: `call` of the newer form with the destination left open."""
    active = session()
    signature = [call, shape, dtype, memory, *arguments]
    for name, value in arguments.items():
        if type(value) is Tile:
            place = value._tensor
            if place is None or value._loose:
                place = value.within(box)
            value = arguments[name] = place
        signature.append(value.geometry if type(value) is Tensor else value)
    seen: object = tuple(signature)
    try:
        template = active.templates.get(seen)
    except TypeError:  # an array of one number among the arguments
        seen = template = None
    if template is None:
        template = active.template(call, _open_tensor(shape, dtype, memory), arguments)
    if seen is not None:
        active.templates[seen] = template
    pending = active.defer(template, arguments, shape, dtype, memory)
    if box is not None:
        clip(pending, box)
    return Tile(None, pending)


def emit(call: Callable[..., object], **arguments: object) -> None:
    """One instruction of the newer form whose destination is known."""
    active = session()
    for name, value in arguments.items():
        if isinstance(value, Tile):
            arguments[name] = value.tensor
    active.emit(*active.captured(call, **arguments))


def box_of(mask: object, shape: Shape) -> Box | None:
    """Where an instruction on tiles of `shape` happens; None: everywhere."""
    if mask is None:
        return None
    box = windows(mask_of(mask), shape)
    return None if all(window == (0, n) for window, n in zip(box, shape, strict=True)) else box


def unmasked(what: str, options: Mapping[str, object], shape: Shape) -> None:
    """KernelError for a mask= that leaves out something, for calls that have no masked form."""
    if box_of(options.get("mask"), shape) is not None:
        raise KernelError(f"{what}: mask is not supported here", "slice the operands instead")


def clip(pending: Pending, box: Box) -> None:
    """Limits an elementwise instruction to the box of its result."""
    pending.box = box
    pending.empty = any(count == 0 for _, count in box)
    pending.inputs = tuple(_clipped_operand(operand, box) for operand in pending.inputs)


def _clipped_operand(operand: Operand, box: Box) -> Operand:
    role, mode, tensor = operand
    if tensor.ndim == len(box):
        return role, mode, clipped(tensor, box)
    if free_size(tensor.shape) != 1:
        raise KernelError(f"mask: {role} has {tensor.ndim} axes, the mask {len(box)}")
    return role, mode, clipped(tensor, (box[0], *((0, 1),) * (tensor.ndim - 1)))


def assign(target: Tensor, value: Operated) -> None:
    """`target = value`: the instruction that makes the value writes it there if it still can."""
    if not target.geometry.on_chip:
        raise KernelError(f"assignment to {target.name} in hbm", "use nl.store")
    if not isinstance(value, Tile):
        emit(memset, dst=target, value=value)
        return
    active = session()
    pending = value.open_result(active)
    if pending is not None and _can_write(pending, target):
        if target.geometry.shape != pending.shape:
            target = fitted(target, pending.shape)
        active.assign(pending, target)
        active.assigned(value)
        value._shared = True
        return
    source = value.tensor
    if source is not target and not same_region(source, target):
        emit(tensor_copy, dst=target, src=broadcast(source, target.shape))


def _can_write(pending: Pending, target: Tensor) -> bool:
    if pending.memory is Memory.PSUM and target.geometry.memory is not Memory.PSUM:
        return False  # the tensor engine writes PSUM only
    return target.geometry.shape == pending.shape or fits(target, pending.shape)


def broadcast(tensor: Tensor, shape: Shape) -> Tensor:
    """Repeated to `shape`; over partitions that takes instructions."""
    if tensor.shape == shape:
        return tensor
    if not tensor.geometry.on_chip:
        return tensor.broadcast_to(shape)
    if fits(tensor, shape):
        return fitted(tensor, shape)
    if tensor.shape[0] == 1 and shape[0] > 1:
        tensor = lowering.across_partitions(session(), tensor, shape[0])
    return repeated(tensor, shape)


def column(value: Operated | None) -> Tensor | Number | None:
    """A tile of one value a partition as (partitions, 1); numbers stay."""
    if not isinstance(value, Tile):
        return value
    return fitted(value.tensor, (value.shape[0], 1))


def copied(src: Tile, dtype: DType | None = None, mask: Mask | bool | None = None) -> Tile:
    """A copy in SBUF."""
    return issue(
        tensor_copy, src.shape, kind_of(dtype, src.kind), box=box_of(mask, src.shape), src=src
    )


def binary(
    op: object,
    x: Operated,
    y: Operated,
    *,
    dtype: DType | None = None,
    mask: Mask | bool | None = None,
    engine: engine = engine.unknown,
) -> Tile:
    """x op y: `tensor_scalar` with a number or one value a partition, else `tensor_tensor`."""
    name = operation_name(op)
    if isinstance(x, Tile) and isinstance(y, Tile):
        return _two_tiles(name, x, y, dtype, mask, engine)
    data, number, reverse = (x, y, False) if isinstance(x, Tile) else (y, x, True)
    if not isinstance(data, Tile):
        raise KernelError(f"{name}: needs a tile, got two numbers")
    return _with_scalar(name, data, number, reverse, _result(name, dtype, data.kind), mask, engine)


def _result(op: str, dtype: DType | None, default: str) -> str:
    """A quotient of integers is a float, as `/` is in Python."""
    if op == "divide" and default not in FLOATS:
        default = "float32"
    return kind_of(dtype, "uint8" if op in COMPARISONS else default)


def _with_scalar(
    op: str,
    data: Tile,
    operand: Operated,
    reverse: bool,
    kind: str,
    mask: Mask | bool | None,
    engine: engine,
) -> Tile:
    return issue(
        tensor_scalar,
        data.shape,
        kind,
        box=box_of(mask, data.shape),
        data=data,
        op0=op,
        operand0=operand,
        reverse0=reverse,
        engine=engine,
    )


def _two_tiles(
    op: str, x: Tile, y: Tile, dtype: DType | None, mask: Mask | bool | None, engine: engine
) -> Tile:
    kind = _result(op, dtype, promoted(x.kind, y.kind))
    partitions = max(x.shape[0], y.shape[0])
    x, y = _over_partitions(x, partitions), _over_partitions(y, partitions)
    for data, vector, reverse in ((x, y, False), (y, x, True)):
        if free_size(vector.shape) == 1 and free_size(data.shape) > 1:
            column = Tile(fitted(vector.tensor, (partitions, 1)))
            return _with_scalar(op, data, column, reverse, kind, mask, engine)
    shape = joint_shape(op, x.shape, y.shape)
    a, b = lowering.one_in_sbuf(session(), x.tensor, y.tensor)
    return issue(
        tensor_tensor,
        shape,
        kind,
        box=box_of(mask, shape),
        data1=broadcast(a, shape),
        data2=broadcast(b, shape),
        op=op,
        engine=engine,
    )


def _over_partitions(tile: Tile, partitions: int) -> Tile:
    if tile.shape[0] == partitions:
        return tile
    return tile.broadcast_to((partitions, *tile.shape[1:]))


def joint_shape(op: str, *shapes: Shape) -> Shape:
    """The shape that all broadcast to; KernelError if there is none."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(map(str, shapes))
        raise KernelError(f"{op}: shapes {listed} do not broadcast") from None
