"""WideValues: evaluation with float32 beside every float of fewer bits (`NKI_PRECISE_FP=0`).

The bytes of a storage stay what they are, rounded to the storage dtype, so reinterpreting views
and gathers go on working. Beside them lies a float32 for each element of bfloat16, float16 or fp8;
an instruction sees those instead, as long as they still round to the bytes: where something else
wrote the bytes since, the bytes count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from accel.dtypes import FLOATS, numpy_dtype
from accel.isa.row import Array
from accel.program import Mode, Storage
from accel.sim.evaluate import Plan, Values
from accel.sim.numerics import EXACT, Numerics

_SCALES = frozenset({"float8_e8m0fnu"})  # powers of two: nothing is lost in them
_NARROW = frozenset(
    numpy_dtype(name) for name in FLOATS - _SCALES if numpy_dtype(name).itemsize < 4
)
_BITS = {1: np.uint8, 2: np.uint16}


class WideValues(Values):
    """`Values` whose results are rounded to float32 only."""

    def __init__(self, numerics: Numerics = EXACT) -> None:
        super().__init__(numerics)
        self._wide: dict[tuple[int, np.dtype[np.generic]], npt.NDArray[np.float32]] = {}

    def allocate(self, number: int, storage: Storage, array: Array | None = None) -> None:
        """As for `Values`."""
        self._forget(number)
        super().allocate(number, storage, array)

    def release(self, number: int) -> None:
        """As for `Values`."""
        self._forget(number)
        super().release(number)

    def _forget(self, number: int) -> None:
        for key in [key for key in self._wide if key[0] == number]:
            del self._wide[key]

    def read(
        self, number: int, dtype: str, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> Array:
        """As for `Values`, in float32 where the dtype has fewer bits."""
        view = self._view(number, dtype, shape, strides, offset)
        wide = self._beside(number, view, offset)
        return view.copy() if wide is None else wide.copy()

    def _compute(
        self, plan: Plan, operands: Sequence[tuple[int, int]], arrays: dict[str, Array]
    ) -> None:
        replaced = []
        for access, (number, _) in zip(plan.form.accesses, operands, strict=True):
            stored = arrays.get(access.role)
            wide = None if stored is None else self._operand(number, stored)
            if stored is None or wide is None:
                continue
            arrays[access.role] = wide
            if access.mode is not Mode.READ:
                replaced.append((stored, wide))
        super()._compute(plan, operands, arrays)
        with np.errstate(all="ignore"):
            for stored, wide in replaced:
                stored[...] = wide

    def _operand(self, number: int, stored: Array) -> npt.NDArray[np.float32] | None:
        """What lies beside an operand; None for one that is no view of its storage."""
        data = self._buffer(number).data
        if not np.may_share_memory(stored, data):
            return None
        offset = stored.__array_interface__["data"][0] - data.__array_interface__["data"][0]
        return self._beside(number, stored, offset)

    def _beside(self, number: int, stored: Array, offset: int) -> npt.NDArray[np.float32] | None:
        """The float32 view that goes with a view from `offset` on, renewed where bytes changed."""
        size = stored.dtype.itemsize
        if stored.dtype not in _NARROW or any(n % size for n in (offset, *stored.strides)):
            return None
        data = self._wide.get((number, stored.dtype))
        if data is None:
            data = np.full(len(self._buffer(number).data) // size, np.nan, np.float32)
            self._wide[number, stored.dtype] = data
        steps = tuple(4 // size * step for step in stored.strides)
        wide: npt.NDArray[np.float32] = np.ndarray(
            stored.shape, np.float32, data, 4 // size * offset, steps
        )
        with np.errstate(all="ignore"):
            bits = _BITS[size]
            stale = wide.astype(stored.dtype).view(bits) != np.ascontiguousarray(stored).view(bits)
            np.copyto(wide, stored.astype(np.float32), where=stale)
        return wide


def values_for(numerics: Numerics) -> Values:
    """The values that follow these choices."""
    return Values(numerics) if numerics.precise else WideValues(numerics)
