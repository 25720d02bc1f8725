"""Activation functions of the scalar engine: name to float32 meaning.

The machine approximates them by piecewise polynomials; here they are exact in float32. `sin` and
`arctan` are not range-reduced by the machine, so outside `valid` the result is NaN rather than a
number that the machine would not give.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from accel.isa.values import Float32

_ONE = np.float32(1)
_SQRT_HALF = np.float32(math.sqrt(0.5))
_TWO_OVER_SQRT_PI = np.float32(2 / math.sqrt(math.pi))
_INVERSE_SQRT_TWO_PI = np.float32(1 / math.sqrt(2 * math.pi))
_TANH_SCALE = np.float32(math.sqrt(2 / math.pi))
_SIGMOID_SCALE = np.float32(1.702)


@dataclass(frozen=True, slots=True)
class Function:
    """`apply` is valid for inputs of absolute value up to `valid`."""

    name: str
    apply: Callable[[Float32], Float32]
    valid: float = math.inf

    @property
    def whole(self) -> Callable[[Float32], Float32]:
        """The function for all inputs; NaN where the machine gives no valid result."""
        return self.apply if math.isinf(self.valid) else self

    def __call__(self, values: Float32) -> Float32:
        result = self.apply(values)
        if math.isinf(self.valid):
            return result
        return np.where(np.abs(values) <= np.float32(self.valid), result, np.float32(np.nan))


def _sigmoid(x: Float32) -> Float32:
    from scipy import special  # a third of the time to import us, and only values need it

    result: Float32 = special.expit(x)
    return result


def _erf(x: Float32) -> Float32:
    from scipy import special

    result: Float32 = special.erf(x)
    return result


def _inverse_root(x: Float32) -> Float32:
    return np.reciprocal(np.sqrt(x))


def _inverse(x: Float32) -> Float32:
    return np.reciprocal(x)


def _erf_dx(x: Float32) -> Float32:
    return _TWO_OVER_SQRT_PI * np.exp(-np.square(x))


def _softplus(x: Float32) -> Float32:
    result: Float32 = np.log1p(np.exp(-np.abs(x))) + np.maximum(x, np.float32(0))
    return result


def _mish(x: Float32) -> Float32:
    return x * np.tanh(_softplus(x))


def _gelu(x: Float32) -> Float32:
    return np.float32(0.5) * x * (1 + _erf(x * _SQRT_HALF))


def _gelu_dx(x: Float32) -> Float32:
    density = _INVERSE_SQRT_TWO_PI * np.exp(np.float32(-0.5) * np.square(x))
    return np.float32(0.5) * (1 + _erf(x * _SQRT_HALF)) + x * density


def _gelu_tanh(x: Float32) -> Float32:
    inner = _TANH_SCALE * (x + np.float32(0.044715) * x * x * x)
    result: Float32 = np.float32(0.5) * x * (1 + np.tanh(inner))
    return result


def _swish(x: Float32, scale: np.float32) -> Float32:
    return x * _sigmoid(scale * x)


def _swish_dx(x: Float32, scale: np.float32) -> Float32:
    gate = _sigmoid(scale * x)
    return gate * (1 + scale * x * (1 - gate))


_TABLE = (
    Function("copy", lambda x: x),
    Function("square", np.square),
    Function("sigmoid", _sigmoid),
    Function("relu", lambda x: np.maximum(x, np.float32(0))),
    Function("gelu", _gelu),
    Function("gelu_dx", _gelu_dx),
    Function("gelu_apprx_tanh", _gelu_tanh),
    Function("gelu_apprx_sigmoid", lambda x: _swish(x, _SIGMOID_SCALE)),
    Function("gelu_apprx_sigmoid_dx", lambda x: _swish_dx(x, _SIGMOID_SCALE)),
    Function("silu", lambda x: _swish(x, _ONE)),
    Function("silu_dx", lambda x: _swish_dx(x, _ONE)),
    Function("tanh", np.tanh),
    Function("softplus", _softplus),
    Function("mish", _mish),
    Function("erf", _erf),
    Function("erf_dx", _erf_dx),
    Function("exp", np.exp),
    Function("log", np.log),
    Function("sin", np.sin, valid=math.pi),
    Function("arctan", np.arctan, valid=math.pi / 2),
    Function("sqrt", np.sqrt),
    Function("rsqrt", _inverse_root),
    Function("reciprocal", _inverse),
    Function("sign", np.sign),
    Function("abs", np.abs),
)

# Functions of two inputs, the second one number or one value a partition.
PARAMETRIC: dict[str, Callable[[Float32, Float32 | np.float32], Float32]] = {
    "prelu": lambda x, slope: np.where(x >= 0, x, slope * x),
}

FUNCTIONS: dict[str, Function] = {function.name: function for function in _TABLE}
