"""How engines read and write numbers: everything is float32 inside, storage dtypes outside.

Engines cast on the way in and out at no cost. Floats round to nearest even, and what does not fit
becomes infinity as the format defines; integers round to nearest even and saturate; booleans are
"not zero". 32-bit integers pass through float32 too, unless an instruction says it computes in
integers (`as_integers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from accel.errors import KernelError
from accel.isa.row import Array
from accel.program import Form

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]


def number(form: Form, name: str, default: float = 0.0) -> float:
    """A numeric attribute; KernelError for another kind of value."""
    value = form.attribute(name, default)
    if isinstance(value, str | tuple):
        raise KernelError(f"{form.op}: {name} is {value!r}, must be a number")
    return float(value)


def whole(form: Form, name: str, default: int = 0) -> int:
    """An integer attribute; KernelError for another kind of value."""
    value = form.attribute(name, default)
    if not isinstance(value, int):
        raise KernelError(f"{form.op}: {name} is {value!r}, must be an integer")
    return int(value)


def load(array: Array) -> Float32:
    """Operand as `[partitions, elements]` float32."""
    return flat(array).astype(np.float32, copy=False)


def accumulators(arrays: Mapping[str, Array], lanes: int) -> Float32:
    """The first `lanes` accumulator registers of the engine, to read and write."""
    registers = arrays["registers"]
    assert registers.dtype == np.float32
    return registers.view(np.float32)[:lanes]


def as_integers(array: Array) -> Int64:
    """Operand as `[partitions, elements]` int64, exact for every integer dtype."""
    return flat(array).astype(np.int64, copy=False)


def as_bits(array: Array) -> Int64:
    """Operand as `[partitions, elements]` unsigned bit patterns, held in int64."""
    tile = flat(array)
    if tile.dtype.kind == "i":
        tile = tile.view(np.dtype(f"u{tile.dtype.itemsize}"))
    return tile.astype(np.int64)


def flat(array: Array) -> Array:
    """Operand as `[partitions, elements]`, in its storage dtype."""
    return array.reshape(array.shape[0], -1)


def store(target: Array, values: npt.NDArray[np.generic]) -> None:
    """Writes `values` (same number of elements) to an operand, rounded to its storage dtype."""
    shaped = values.reshape(target.shape)
    if target.dtype == np.bool_:
        target[...] = shaped != 0
    elif target.dtype.kind in "iu" and shaped.dtype.kind == "f":
        target[...] = _saturated(shaped, target.dtype)
    else:
        target[...] = shaped


def compute(target: Array, function: Callable[..., Array], *inputs: Array) -> Array:
    """Stores `function(*inputs)` as `store` does; returns it as it was before rounding.

    A ufunc of float32 operands whose target is float32 writes there itself.
    """
    if (
        isinstance(function, np.ufunc)
        and target.dtype == np.float32
        and (target.ndim == 2 or target.flags.c_contiguous)
        and all(array.dtype == np.float32 for array in inputs)
    ):
        place = flat(target)
        if np.broadcast_shapes(*(array.shape for array in inputs)) == place.shape:
            result: Array = function(*inputs, out=place)
            return result
    values = function(*inputs)
    store(target, values)
    return values


def copy(target: Array, source: Array) -> None:
    """Bit-exact where the dtypes are equal, through float32 otherwise."""
    if target.dtype == source.dtype:
        target[...] = source.reshape(target.shape)
    else:
        store(target, source.astype(np.float32))


def integer_bounds(dtype: np.dtype[np.generic]) -> tuple[int, int]:
    """The least and the largest number of an integer dtype."""
    bits = 8 * dtype.itemsize
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype.kind == "i" else (0, 2**bits - 1)


def _saturated(values: npt.NDArray[np.generic], dtype: np.dtype[np.generic]) -> Array:
    low, high = integer_bounds(dtype)
    doubles = values.astype(np.float64)
    whole_numbers = np.rint(np.where(np.isnan(doubles), 0.0, doubles))
    return np.clip(whole_numbers, low, high).astype(dtype)
