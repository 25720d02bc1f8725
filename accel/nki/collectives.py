"""`nki.collectives`: names a kernel finds there. One rank is recorded at a time, so whatever needs
the other ranks is a clear error rather than a wrong number.
"""

from __future__ import annotations

from collections.abc import Callable

from accel.errors import KernelError
from accel.nki.objects import NKIObject


class ReplicaGroup(NKIObject):
    """Ranks that take part in a collective: a list of groups of ranks."""

    def __init__(self, replica_groups: object = (), **fields: object) -> None:
        super().__init__(replica_groups=replica_groups, **fields)


NAMES = (
    "all_gather",
    "all_gather_v",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
)


def _unsupported(name: str) -> Callable[..., object]:
    def call(*operands: object, **options: object) -> object:
        raise KernelError(
            f"nki.collectives.{name}: a kernel runs on one rank here, collectives need several",
            "run a variant of the kernel without a replica group",
        )

    call.__name__ = name
    call.__doc__ = f"`{name}` between ranks: not available."
    return call


def __getattr__(name: str) -> object:
    if name in NAMES:
        return _unsupported(name)
    raise AttributeError(f"nki.collectives has no {name!r}")
