"""ALU operators: the table that every instruction with an `op` attribute reads.

Names are the kernel language's tokens. Arithmetic operators take and give float32; comparisons and
logic give 1.0 or 0.0. Bit operators take and give integers of the operands' own dtype. A unary
operator ignores its second input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.number]
Binary = Callable[[Numbers, Numbers], Numbers]
Reduction = Callable[[Numbers, tuple[int, ...]], Numbers]


@dataclass(frozen=True, slots=True)
class Operator:
    """`apply(a, b)` element by element; `reduce(a, axes)` where it is legal as a reduction.

    `identity` is what an accumulator register starts from.
    """

    name: str
    kind: Literal["arithmetic", "bits"]
    apply: Binary
    unary: bool = False
    reduce: Reduction | None = None
    identity: float = 0.0


def _folded(ufunc: np.ufunc) -> Reduction:
    def reduce(values: Numbers, axes: tuple[int, ...]) -> Numbers:
        result = values
        for axis in sorted(axes, reverse=True):
            result = ufunc.reduce(result, axis=axis)
        return result

    return reduce


def _truth(ufunc: np.ufunc) -> Binary:
    return lambda a, b: ufunc(a, b).astype(np.float32)


def _truth_folded(ufunc: np.ufunc) -> Reduction:
    fold = _folded(ufunc)
    return lambda values, axes: fold(values, axes).astype(np.float32)


def _one(function: Callable[[Numbers], Numbers]) -> Binary:
    return lambda a, b: function(a)


def _inverse_root(a: Numbers) -> Numbers:
    return np.float32(1) / np.sqrt(a)


def _power(a: Numbers, b: Numbers) -> Numbers:
    """In float64, rounded once: float32 powers of numpy depend on where the operands lie."""
    return np.power(a.astype(np.float64), b).astype(np.float32)


def _arithmetic(name: str, apply: Binary) -> Operator:
    return Operator(name, "arithmetic", apply)


def _unary(name: str, function: Callable[[Numbers], Numbers]) -> Operator:
    return Operator(name, "arithmetic", _one(function), unary=True)


def _reducible(name: str, ufunc: np.ufunc, identity: float) -> Operator:
    return Operator(name, "arithmetic", ufunc, reduce=_folded(ufunc), identity=identity)


def _logical(name: str, ufunc: np.ufunc, identity: float) -> Operator:
    fold = _truth_folded(ufunc)
    return Operator(name, "arithmetic", _truth(ufunc), reduce=fold, identity=identity)


def _bits(name: str, ufunc: np.ufunc, reducible: bool = True) -> Operator:
    return Operator(name, "bits", ufunc, reduce=_folded(ufunc) if reducible else None)


def _by_magnitude(nearer: np.ufunc) -> Binary:
    """The first number where its magnitude wins, the second where it wins or they are equal."""
    return lambda a, b: np.where(nearer(np.abs(a), np.abs(b)), a, b)


def _magnitude_folded(choose: Callable[..., npt.NDArray[np.intp]]) -> Reduction:
    def reduce(values: Numbers, axes: tuple[int, ...]) -> Numbers:
        result = values
        for axis in sorted(axes, reverse=True):
            turned = np.flip(result, axis)  # so that the last of equal magnitudes is found
            place = choose(np.abs(turned), axis=axis, keepdims=True)
            result = np.take_along_axis(turned, place, axis).squeeze(axis)
        return result

    return reduce


_TABLE = (
    _reducible("add", np.add, 0.0),
    _reducible("subtract", np.subtract, 0.0),
    _reducible("multiply", np.multiply, 1.0),
    _reducible("maximum", np.maximum, -np.inf),
    _reducible("minimum", np.minimum, np.inf),
    _arithmetic("divide", np.divide),
    _arithmetic("mod", np.mod),
    _arithmetic("power", _power),
    Operator(
        "abs_max",
        "arithmetic",
        _by_magnitude(np.greater),
        reduce=_magnitude_folded(np.argmax),
    ),
    Operator(
        "abs_min",
        "arithmetic",
        _by_magnitude(np.less),
        reduce=_magnitude_folded(np.argmin),
        identity=np.inf,
    ),
    _arithmetic("equal", _truth(np.equal)),
    _arithmetic("not_equal", _truth(np.not_equal)),
    _arithmetic("greater", _truth(np.greater)),
    _arithmetic("greater_equal", _truth(np.greater_equal)),
    _arithmetic("less", _truth(np.less)),
    _arithmetic("less_equal", _truth(np.less_equal)),
    _logical("logical_and", np.logical_and, 1.0),
    _logical("logical_or", np.logical_or, 0.0),
    _logical("logical_xor", np.logical_xor, 0.0),
    Operator("logical_not", "arithmetic", lambda a, b: (a == 0).astype(np.float32), unary=True),
    _unary("bypass", lambda a: a),
    _unary("abs", np.abs),
    _unary("square", np.square),
    _unary("relu", lambda a: np.maximum(a, np.float32(0))),
    _unary("sqrt", np.sqrt),
    _unary("rsqrt", _inverse_root),
    _unary("reciprocal", lambda a: np.float32(1) / a),
    _bits("bitwise_and", np.bitwise_and),
    _bits("bitwise_or", np.bitwise_or),
    _bits("bitwise_xor", np.bitwise_xor),
    _bits("left_shift", np.left_shift, reducible=False),
    _bits("right_shift", np.right_shift, reducible=False),
    Operator("invert", "bits", _one(np.invert), unary=True),
)

OPERATORS: dict[str, Operator] = {operator.name: operator for operator in _TABLE}
COMPARISONS = frozenset({"equal", "not_equal", "greater", "greater_equal", "less", "less_equal"})
