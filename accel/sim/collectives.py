"""Collectives: how long the ranks of a group take together, by the algorithm that fits the size.

Inside an instance the algorithm follows the bytes of the larger side of one rank (SDK
intranode-collective-comm.rst, algorithm summary): a mesh, where all exchange with all, below 1 MiB;
recursive doubling and halving up to 56 MiB; a ring in both directions above. Each step costs a hop;
the bytes a rank sends cross its share of the links. A reduction with its own gathering (all-reduce)
is a reduce-scatter and an all-gather. Not calibrated: published figures name no hardware.
"""

from __future__ import annotations

import math

from accel.chip import Chip
from accel.dtypes import itemsize
from accel.isa.collective import group
from accel.program import Form

_MESH_BYTES = 2**20
_DOUBLING_BYTES = 56 * 2**20
_MESH_STEPS = 2
_PS_PER_US = 1_000_000


def collective_ps(form: Form, chip: Chip) -> int:
    """Time from the last rank's arrival to the end, in ps."""
    ranks = len(group(form))
    if form.op.startswith("collective_permute"):
        moved, steps = _bytes(form, "dst"), 1
    else:
        size = max(_bytes(form, "dst"), _bytes(form, "src"))
        rounds = 2 if form.op == "all_reduce" else 1
        moved, steps = rounds * size * (ranks - 1) // ranks, rounds * _steps(size, ranks)
    wire = -(-moved * _PS_PER_US // chip.link_bytes_per_us)
    if form.attribute("coalesced"):
        return wire
    return chip.collective_fixed_ps + steps * chip.collective_hop_ps + wire


def _steps(size: int, ranks: int) -> int:
    if size < _MESH_BYTES:
        return _MESH_STEPS
    if size <= _DOUBLING_BYTES:
        return max(1, math.ceil(math.log2(ranks)))
    return max(1, ranks // 2)


def _bytes(form: Form, role: str) -> int:
    access = form.access(role)
    return 0 if access is None else math.prod(access.layout.shape) * itemsize(access.layout.dtype)
