"""`nki.language` functions that several instructions make together: rounding, trigonometry,
moments, softmax, norms, matmul, random tiles.

Each allocates its result in SBUF (matmul: PSUM) and computes in float32 on the way. Which
instructions the vendor's functions expand to is not published; values are numpy's, the
instructions are the fewest known here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from accel.dtypes import FLOATS
from accel.errors import KernelError
from accel.nki.enums import reduce_cmd
from accel.nki.instructions.draws import dropout as draw_dropout
from accel.nki.instructions.draws import rng, set_rng_seed
from accel.nki.instructions.elementwise import (
    activation,
    reciprocal,
    tensor_scalar,
    tensor_tensor,
)
from accel.nki.instructions.matrix import nc_matmul, nc_transpose
from accel.nki.instructions.moves import nc_stream_shuffle, tensor_copy
from accel.nki.instructions.patterns import select_reduce
from accel.nki.instructions.reductions import nc_n_gather, tensor_reduce
from accel.nki.operands import Scalar
from accel.nki.tensor import Tensor
from accel.nki.tiles import chosen_dtype, copy, new_tile, promoted, reduced_shape
from accel.program import Memory

Axes = int | Sequence[int]
_QUADRANT = 32
_TURN = 2 * math.pi


def _like(x: Tensor, dtype: object = "float32") -> Tensor:
    return new_tile(x.shape, chosen_dtype(dtype, x.dtype))


def floor(x: Tensor, dtype: object = None) -> Tensor:
    """The largest integer not above x: x − (x mod 1)."""
    part, result = _like(x), _like(x, dtype)
    tensor_scalar(part, x, op0="mod", operand0=1.0)
    tensor_tensor(result, x, part, op="subtract")
    return result


def ceil(x: Tensor, dtype: object = None) -> Tensor:
    """The smallest integer not below x: (−x mod 1) + x."""
    part, result = _like(x), _like(x, dtype)
    tensor_scalar(part, x, op0="multiply", operand0=-1.0, op1="mod", operand1=1.0)
    tensor_tensor(result, x, part, op="add")
    return result


def trunc(x: Tensor, dtype: object = None) -> Tensor:
    """x without its fraction: x − fmod(x, 1)."""
    result = _like(x, dtype)
    tensor_tensor(result, x, fmod(x, 1.0, "float32"), op="subtract")
    return result


def fmod(x: Scalar, y: Scalar, dtype: object = None) -> Tensor:
    """Remainder of x ÷ y with the sign of x: |x| mod |y|, signed."""
    like = x if isinstance(x, Tensor) else y
    if not isinstance(like, Tensor):
        raise KernelError("nl.fmod: needs a tile, got two numbers")
    left, right = _magnitude(x, like), _magnitude(y, like)
    rest, result = _like(like), _like(like, dtype)
    tensor_tensor(rest, left, right, op="mod")
    if isinstance(x, Tensor):
        sign = _like(like)
        activation(sign, op="sign", data=x)
        tensor_tensor(result, rest, sign, op="multiply")
    else:
        tensor_scalar(result, rest, op0="multiply", operand0=math.copysign(1.0, x))
    return result


def _magnitude(value: Scalar, like: Tensor) -> Tensor:
    result = _like(like)
    if isinstance(value, Tensor):
        tensor_scalar(result, value.broadcast_to(like.shape), op0="abs", operand0=0.0)
    else:
        tensor_scalar(result, like, op0="multiply", operand0=0.0, op1="add", operand1=abs(value))
    return result


def cos(x: Tensor, dtype: object = None) -> Tensor:
    """Cosine: the sine of x + π/2, brought into the range that the machine's sine has."""
    result = _like(x, dtype)
    activation(result, op="sin", data=_reduced_angle(x, math.pi / 2))
    return result


def tan(x: Tensor, dtype: object = None) -> Tensor:
    """Tangent: sine ÷ cosine, brought into the range that the machine's sine has."""
    sine, inverse, result = _like(x), _like(x), _like(x, dtype)
    activation(sine, op="sin", data=_reduced_angle(x, 0.0))
    reciprocal(inverse, cos(x, "float32"))
    tensor_tensor(result, sine, inverse, op="multiply")
    return result


def _reduced_angle(x: Tensor, shift: float) -> Tensor:
    """((x + shift + π) mod 2π) − π, inside the range by rounding too."""
    angle, limited = _like(x), _like(x)
    tensor_scalar(angle, x, op0="add", operand0=shift + math.pi, op1="mod", operand1=_TURN)
    tensor_scalar(limited, angle, op0="subtract", operand0=math.pi, op1="minimum", operand1=_PI)
    return limited


_PI = 3.1415925  # the largest float32 below π


def mean(x: Tensor, axis: Axes, dtype: object = None, keepdims: bool = False) -> Tensor:
    """The sum over trailing free axes ÷ their extent."""
    total = _summed(x, axis, keepdims)
    result = new_tile(total.shape, chosen_dtype(dtype, x.dtype))
    tensor_scalar(result, total, op0="multiply", operand0=1 / _extent(x, axis))
    return result


def var(x: Tensor, axis: Axes, dtype: object = None, keepdims: bool = False) -> Tensor:
    """The mean over trailing free axes of the squared distance from their mean.

    The reduced axes stay with extent 1, as in the published function, whatever `keepdims` says.
    """
    centre = mean(x, axis, "float32", keepdims=True)
    distance, square = _like(x), _like(x)
    tensor_tensor(distance, x, centre.broadcast_to(x.shape), op="subtract")
    activation(square, op="square", data=distance)
    return mean(square, axis, chosen_dtype(dtype, x.dtype), keepdims=True)


def _summed(x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    total = new_tile(reduced_shape(x, axis, keepdims), "float32")
    tensor_reduce(total, op="add", data=x, axis=axis, keepdims=keepdims)
    return total


def _extent(x: Tensor, axis: Axes) -> int:
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return math.prod(x.shape[n] for n in axes)


def all_of(x: Tensor, axis: Axes, dtype: object = None) -> Tensor:
    """1 where no element along the trailing free axes is 0, else 0."""
    result = new_tile(reduced_shape(x, axis, False), chosen_dtype(dtype, x.dtype))
    tensor_reduce(result, op="logical_and", data=x, axis=axis)
    return result


def softmax(x: Tensor, axis: Axes = -1, dtype: object = None) -> Tensor:
    """exp(x − max) ÷ its sum over trailing free axes."""
    highest = new_tile(reduced_shape(x, axis, True), "float32")
    tensor_reduce(highest, op="maximum", data=x, axis=axis, keepdims=True)
    lowered, powers, result = _like(x), _like(x), _like(x, dtype)
    tensor_tensor(lowered, x, highest.broadcast_to(x.shape), op="subtract")
    activation(powers, op="exp", data=lowered)
    inverse = new_tile(highest.shape, "float32")
    reciprocal(inverse, _summed(powers, axis, True))
    tensor_tensor(result, powers, inverse.broadcast_to(x.shape), op="multiply")
    return result


def rms_norm(
    x: Tensor,
    w: Tensor,
    axis: Axes,
    n: int,
    epsilon: float = 1e-6,
    dtype: object = None,
    compute_dtype: object = None,
) -> Tensor:
    """x ÷ sqrt(Σ x² ÷ n + epsilon) × w over trailing free axes."""
    square = new_tile(x.shape, chosen_dtype(compute_dtype, "float32"))
    activation(square, op="square", data=x)
    total = _summed(square, axis, True)
    offset, root, inverse = (new_tile(total.shape, "float32") for _ in range(3))
    tensor_scalar(offset, total, op0="multiply", operand0=1 / n, op1="add", operand1=epsilon)
    activation(root, op="sqrt", data=offset)
    reciprocal(inverse, root)
    scaled, result = _like(x), _like(x, dtype)
    tensor_tensor(scaled, x, inverse.broadcast_to(x.shape), op="multiply")
    tensor_tensor(result, scaled, broadcast_to(w, x.shape), op="multiply")
    return result


def where(condition: Tensor, x: Scalar, y: Scalar, dtype: object = None) -> Tensor:
    """x where condition is not 0, else y."""
    chosen, other, reverse = (x, y, False) if isinstance(x, Tensor) else (y, x, True)
    if not isinstance(chosen, Tensor):
        raise KernelError("nl.where: needs a tile, got two numbers")
    default = promoted(chosen.dtype, other.dtype) if isinstance(other, Tensor) else chosen.dtype
    result = new_tile(condition.shape, chosen_dtype(dtype, default))
    predicate = condition
    if condition.dtype in FLOATS:
        predicate = new_tile(condition.shape, "uint8")
        tensor_scalar(predicate, condition, op0="not_equal", operand0=0.0)
    select_reduce(
        result,
        predicate,
        broadcast_to(chosen, condition.shape),
        broadcast_to(other, condition.shape) if isinstance(other, Tensor) else other,
        reduce_cmd=reduce_cmd.idle,
        reverse_pred=reverse,
    )
    return result


def dropout(x: Tensor, rate: Scalar, dtype: object = None) -> Tensor:
    """x with elements replaced by 0 with probability `rate`."""
    result = new_tile(x.shape, x.dtype)
    draw_dropout(result, x, rate)
    return result if chosen_dtype(dtype, x.dtype) == x.dtype else copy(result, dtype)


def random_seed(seed: Tensor) -> None:
    """What `rand` and `dropout` draw from here on follows from a tile of one 32-bit number."""
    set_rng_seed(seed)


def random_tile(shape: Sequence[int], dtype: str, memory: Memory) -> Tensor:
    """Random numbers, uniform from 0 to below 1: 24 random bits × 2⁻²⁴."""
    words, bits = new_tile(shape, "uint32"), new_tile(shape, "uint32")
    rng(words)
    tensor_scalar(bits, words, op0="right_shift", operand0=8)
    result = new_tile(shape, dtype, memory)
    tensor_scalar(result, bits, op0="multiply", operand0=2.0**-24)
    return result


def matmul(x: Tensor, y: Tensor, transpose_x: bool = False) -> Tensor:
    """x @ y in PSUM, or x.T @ y where x comes transposed. x is transposed on the way if not."""
    if transpose_x:
        stationary = x
    else:
        through = new_tile(x.shape[::-1], x.dtype, Memory.PSUM)
        nc_transpose(through, x)
        stationary = copy(through)
    result = new_tile((stationary.shape[1], y.shape[1]), "float32", Memory.PSUM)
    nc_matmul(result, stationary, y)
    return result


def gather_flattened(data: Tensor, indices: Tensor, axis: int = 0, dtype: object = None) -> Tensor:
    """data[indices] inside each partition, its free axes as one."""
    if axis:
        raise KernelError(f"gather_flattened: axis is {axis}, only 0 is supported")
    whole = indices
    if indices.dtype != "uint32":
        whole = copy(indices, "uint32")
    result = new_tile(indices.shape, data.dtype)
    nc_n_gather(result, data, whole)
    return result if chosen_dtype(dtype, data.dtype) == data.dtype else copy(result, dtype)


def broadcast_to(x: Tensor, shape: Sequence[int], dtype: object = None) -> Tensor:
    """The tile repeated to a shape: a view along free axes, copies along the partitions."""
    wanted = tuple(shape)
    across = x.geometry.on_chip and x.shape[0] == 1 < wanted[0]
    source = _across_partitions(x, wanted[0]) if across and len(wanted) == x.ndim else x
    view = source.broadcast_to(wanted)
    return view if chosen_dtype(dtype, x.dtype) == x.dtype else copy(view, dtype)


def _across_partitions(x: Tensor, count: int) -> Tensor:
    """Partition 0 in each of `count` partitions, 32 at a time."""
    result = new_tile((count, *x.shape[1:]), x.dtype)
    source = x
    if x.memory is not Memory.SBUF:
        source = new_tile(x.shape, x.dtype)
        tensor_copy(source, x)
    for first in range(0, count, _QUADRANT):
        part = result[first : min(first + _QUADRANT, count)]
        nc_stream_shuffle(part, source, [0] * _QUADRANT)
    return result
