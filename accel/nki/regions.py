"""Regions: the memories as names that a kernel may use without importing them.

Kernels of NKI 0.2 wrote `sbuf.view(dtype=..., shape=...)`, with `sbuf`, `psum` and `hbm` known to
the compiler alone.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence

from accel.nki.enums import MemoryRegion
from accel.nki.language import ndarray
from accel.nki.tensor import Tensor


class Region:
    """A memory to declare tensors in."""

    def __init__(self, buffer: str) -> None:
        self.buffer = buffer

    def view(self, dtype: object, shape: Sequence[int], name: str = "") -> Tensor:
        """An uninitialised tensor of this memory."""
        return ndarray(tuple(shape), dtype, self.buffer, name)


_REGIONS = {
    "sbuf": Region(MemoryRegion.sbuf),
    "psum": Region(MemoryRegion.psum),
    "hbm": Region(MemoryRegion.hbm),
}


@contextlib.contextmanager
def provided(function: Callable[..., object]) -> Iterator[None]:
    """The names, for the body, in the module of the kernel where it has no such names itself."""
    names: dict[str, object] = getattr(inspect.unwrap(function), "__globals__", {})
    missing = {name: region for name, region in _REGIONS.items() if name not in names}
    names.update(missing)
    try:
        yield
    finally:
        for name in missing:
            del names[name]
