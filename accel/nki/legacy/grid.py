"""Grids of the older form: which core runs a program.

`kernel[n, m]` leaves it to the compiler, which here means one core. An axis made with `nc` says how
its positions are spread over cores.
"""

from __future__ import annotations

from accel.errors import KernelError


class Extent(int):
    """A grid extent: position p of it runs on core p // `run` mod `cores`."""

    cores = 1
    run = 1


class nc(Extent):
    """A grid extent with each position on a core of its own."""

    def __init__(self, count: int) -> None:
        self.cores = int(count)


def spmd_dim(outer: int, inner: int) -> Extent:
    """An axis of outer × inner programs. With `nc` as the inner one programs that follow each other
    are on different cores; as the outer one each core has `inner` programs in a row.
    """
    extent = Extent(int(outer) * int(inner))
    if isinstance(outer, Extent) and outer.cores > 1:
        extent.cores, extent.run = outer.cores, outer.run * int(inner)
    if isinstance(inner, Extent) and inner.cores > 1:
        if extent.cores > 1:
            raise KernelError("spmd_dim: both extents are spread over cores", "make one an int")
        extent.cores, extent.run = inner.cores, inner.run
    return extent


def core_of(grid: tuple[int, ...], position: tuple[int, ...]) -> int:
    """The core that runs the program at a position of the grid."""
    spread = [axis for axis, extent in enumerate(grid) if getattr(extent, "cores", 1) > 1]
    if not spread:
        return 0
    if len(spread) > 1:
        raise KernelError(f"grid {grid}: axes {spread} are spread over cores, one can be")
    extent = grid[spread[0]]
    assert isinstance(extent, Extent)  # nothing else has cores
    return position[spread[0]] // extent.run % extent.cores
