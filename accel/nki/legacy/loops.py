"""Loops, and `loop_reduce`: a value of every iteration of some loops, reduced to one.

Kernels are recorded unrolled, so each call returns the reduction of the iterations so far and the
last one that of all. Which earlier call a call continues is told by the loops: a call continues the
one of an earlier turn of the loops it names where all others stood the same. Calls in loops of
Python's own `range` go by their number: the n-th call of a turn continues the n-th of the one
before, and if that is the loop that is named, it starts anew where the index is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accel.errors import KernelError
from accel.nki.legacy.index import Mask
from accel.nki.legacy.session import Round, active_session, session
from accel.nki.legacy.tile import DType, Tile, binary, copied, kind_of


class Loop:
    """What the loops of the language return: a range that is told when a turn begins."""

    __slots__ = ("_positions", "_unrolled")

    def __init__(self, positions: range, unrolled: bool) -> None:
        self._positions, self._unrolled = positions, unrolled

    def __iter__(self) -> Iterator[int]:
        active = active_session()
        if active is None:
            return iter(self._positions)
        return active.bodies.turns(self._positions, self._unrolled)

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, turn: int) -> int:
        return self._positions[turn]


def affine_range(
    start: int, stop: int | None = None, step: int = 1, *, directives: object = None
) -> Loop:
    """A loop; kernels are recorded unrolled, in order."""
    return Loop(_positions(start, stop, step), unrolled=False)


def static_range(
    start: int, stop: int | None = None, step: int = 1, *, directives: object = None
) -> Loop:
    """A loop that the older compiler unrolls too."""
    return Loop(_positions(start, stop, step), unrolled=True)


def _positions(start: int, stop: int | None, step: int) -> range:
    return range(start) if stop is None else range(start, stop, step)


def loop_reduce(
    x: Tile,
    op: object,
    loop_indices: Sequence[int],
    *,
    dtype: DType | None = None,
    mask: Mask | bool | None = None,
    **_: object,
) -> Tile:
    """op over the iterations of the loops with these indices, as far as they have run."""
    active = session()
    kind = kind_of(dtype, x.kind)
    indices = tuple(int(index) for index in loop_indices)
    around = active.bodies.around(loop_indices)
    now = active.rounds.setdefault((active.recorder.source(), around), Round())
    if indices != now.indices:
        now.indices, now.calls = indices, 0
    number, now.calls = now.calls, now.calls + 1
    if around is None and not any(indices):
        del now.results[number:]
    if number < len(now.results):
        so_far = Tile(None, now.results.pop(number))
        total = binary(op, so_far, x, dtype=kind, mask=mask)
    elif around is None and any(indices):
        raise KernelError(
            f"loop_reduce: first called with loop indices {indices}", "start those loops at 0"
        )
    else:
        total = copied(x, kind, mask)
    pending = total.open_result(active)
    assert pending is not None  # it was issued just now
    now.results.insert(number, pending)
    return total
