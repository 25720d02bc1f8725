"""compiled: the decorator of the simulator's inner loops.

A decorated function is plain Python over numpy arrays and integers: numba compiles it and keeps
the machine code beside the source, and with `NUMBA_DISABLE_JIT=1` the same source runs undecorated.
Both give the same integers, which a test compares bit for bit. The kept code is only renewed when
its own file changes, so a decorated function takes what other modules define as an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """The function as machine code; without a writable cache it is compiled anew each process."""
    try:
        return cast(Function, numba.njit(cache=True)(function))
    except RuntimeError:
        return cast(Function, numba.njit(function))
