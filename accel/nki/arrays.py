"""Arrays of other libraries, torch above all, as numpy arrays and back.

Nothing here imports those libraries: whoever passes their arrays has them imported already.
"""

from __future__ import annotations

import sys
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from accel.dtypes import dtype_name, itemsize, numpy_dtype

Array = npt.NDArray[np.generic]


@runtime_checkable
class _ArrayLike(Protocol):
    @property
    def shape(self) -> object: ...

    def __array__(self) -> Array: ...


def as_array(value: object) -> Array | None:
    """The value as a numpy array, or None if it is not an array of any library."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, (np.generic, str)) or not isinstance(value, _ArrayLike):
        return None
    if not is_torch(value):
        return np.asarray(value)
    name = str(getattr(value, "dtype", "")).removeprefix("torch.")
    plain = _call(_call(_call(value, "detach"), "cpu"), "contiguous")
    try:
        return np.asarray(plain)
    except TypeError:  # a dtype that numpy does not know: its bytes are taken as they are
        dtype = numpy_dtype(dtype_name(name))
        width = {1: "int8", 2: "int16"}[itemsize(dtype_name(name))]
        return np.asarray(_call(plain, "view", _torch(width))).view(dtype)


def is_torch(value: object) -> bool:
    """Whether a value is a torch tensor."""
    kind = getattr(sys.modules.get("torch"), "Tensor", None)
    return kind is not None and isinstance(value, kind)


def as_torch(array: Array) -> object:
    """A torch tensor with the array's values."""
    make = getattr(sys.modules["torch"], "from_numpy")  # noqa: B009  # an optional library
    name, dense = dtype_name(array.dtype), np.ascontiguousarray(array)
    try:
        return make(dense)
    except TypeError:
        width = {1: np.int8, 2: np.int16, 4: np.int32}[array.dtype.itemsize]
        return _call(make(dense.view(width)), "view", _torch(name))


def _torch(name: str) -> object:
    return getattr(sys.modules["torch"], name)


def _call(value: object, method: str, *arguments: object) -> object:
    return getattr(value, method)(*arguments)
