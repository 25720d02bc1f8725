"""comparison: the results of a kernel beside those of its reference, element by element."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.dtypes import dtype_name
from accel.errors import UserError

Array = npt.NDArray[np.generic]

# Relative error that storing and computing in a dtype explains: a few units in the last place.
RELATIVE: dict[str, float] = {
    "float32": 1e-4,
    "tfloat32": 1e-3,
    "float16": 4e-3,
    "bfloat16": 2e-2,
    "float8_e4m3": 0.15,
    "float8_e4m3fn": 0.15,
    "float8_e5m2": 0.3,
}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """|got − expected| may be absolute + relative × |expected|. None: relative as the dtype has it,
    absolute as much of the root mean square of what is expected.
    """

    relative: float | None = None
    absolute: float | None = None

    def limits(self, expected: npt.NDArray[np.float64], dtype: str) -> npt.NDArray[np.float64]:
        """The largest error of each element."""
        relative = RELATIVE.get(dtype, 0.0) if self.relative is None else self.relative
        finite = np.where(np.isfinite(expected), expected, 0.0)
        absolute = self.absolute
        if absolute is None:
            absolute = relative * float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
        return absolute + relative * np.abs(finite)


@dataclass(frozen=True, slots=True)
class Difference:
    """One result beside what is expected. `apart`: which elements differ by more than allowed;
    `worst`: the index of the one furthest out, where an error is counted in tolerances.
    """

    shape: tuple[int, ...]
    dtype: str
    apart: npt.NDArray[np.bool_]
    worst: tuple[int, ...]
    got: float
    expected: float
    allowed: float
    largest_error: float

    @property
    def agrees(self) -> bool:
        """Whether no element differs by more than allowed."""
        return not self.apart.any()

    @property
    def box(self) -> tuple[tuple[int, int], ...]:
        """First and last index of elements apart, an axis."""
        where = np.nonzero(self.apart)
        return tuple((int(n.min()), int(n.max())) for n in where)


def compare(result: Array, expected: Array, tolerance: Tolerance) -> Difference:
    """UserError where the shapes differ by more than axes of extent 1."""
    shape = tuple(n for n in result.shape if n != 1)
    if shape != tuple(n for n in expected.shape if n != 1):
        raise UserError(
            f"the kernel returns {result.shape}, the reference {expected.shape}",
            "reshape what the reference returns",
        )
    dtype = dtype_name(result.dtype)
    with np.errstate(all="ignore"):
        got = result.astype(np.float64)
        wanted = expected.reshape(result.shape).astype(np.float64)
        errors = np.abs(got - wanted)
        same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
        limits = tolerance.limits(wanted, dtype)
        errors = np.where(same, 0.0, np.where(np.isnan(errors), np.inf, errors))
        excess = np.where(errors == 0, 0.0, errors / limits)
    flat = int(np.argmax(excess)) if excess.size else 0
    worst = tuple(int(n) for n in np.unravel_index(flat, result.shape))
    return Difference(
        shape=result.shape,
        dtype=dtype,
        apart=errors > limits,
        worst=worst,
        got=float(got[worst]),
        expected=float(wanted[worst]),
        allowed=float(limits[worst]),
        largest_error=float(errors.max()),
    )
