"""Collectives: how long the ranks of a group take together, by the algorithm that fits the size.

Inside an instance the algorithm follows the bytes of the larger side of one rank (SDK
intranode-collective-comm.rst, algorithm summary): a mesh, where all exchange with all, below 1 MiB;
recursive doubling and halving up to 56 MiB; above, a ring that goes both ways and passes every
second rank by (KangaRing), or a plain ring for an odd number of ranks. Each step costs a hop. The
bytes a rank sends go over its channels, a DMA engine each: all of them where every rank feeds its
neighbours, two where the ranks meet each other one by one. Between instances, ranks of the same
place exchange over the network what is left after their instances have reduced it. An all-reduce
is a reduce-scatter and an all-gather.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from accel.chip import Chip
from accel.dtypes import itemsize
from accel.errors import KernelError
from accel.instances import Instance, instance_of
from accel.isa.collective import group
from accel.program import Form

_MESH_STEPS = 2
_PAIR_CHANNELS = 2  # SDK nki.collectives: a permute has 2, 4 where the group is the whole instance
_WHOLE_CHANNELS = 4
_PS_PER_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Algorithm:
    """How a reduce-scatter or an all-gather inside an instance goes: steps, and channels in use."""

    name: str
    steps: int
    channels: int


def algorithm_of(size: int, ranks: int, chip: Chip) -> Algorithm:
    """What the runtime chooses for `size` bytes, of all ranks together, over `ranks` ranks."""
    if size < chip.collective_mesh_bytes:
        return Algorithm("mesh", _MESH_STEPS, min(_PAIR_CHANNELS, chip.collective_channels))
    if size <= chip.collective_doubling_bytes and ranks & (ranks - 1) == 0:
        return Algorithm("doubling", ranks.bit_length() - 1, chip.collective_channels)
    if ranks % 2 == 0:
        return Algorithm("kangaring", ranks // 2, chip.collective_channels)
    return Algorithm("ring", ranks - 1, chip.collective_channels)


def collective_ps(form: Form, chip: Chip, lnc: int = 1) -> int:
    """Time from the last rank's arrival to the end, in ps. A rank is `lnc` cores.

    One that goes out together with others (`coalesced`) pays for its bytes only.
    """
    members, instance = group(form), instance_of(chip)
    local = instance.ranks(chip, lnc)
    where = _Where(len(members), len({rank // local for rank in members}), instance, chip, lnc)
    if form.op.startswith("collective_permute"):
        hops, wire = _permute_ps(_bytes(form, "dst"), where)
    else:
        hops, wire = _gather_ps(max(_bytes(form, "dst"), _bytes(form, "src")), where)
        if form.op == "all_reduce":
            hops, wire = 2 * hops, 2 * wire
    return wire if form.attribute("coalesced") else chip.collective_fixed_ps + hops + wire


@dataclass(frozen=True, slots=True)
class _Where:
    """A group: `ranks` of `lnc` cores each, spread evenly over `nodes` instances."""

    ranks: int
    nodes: int
    instance: Instance
    chip: Chip
    lnc: int

    def inside_ps(self, size: int, channels: int) -> int:
        """Time for bytes that a rank sends to others of its instance."""
        rate = channels * self.chip.collective_channel_bytes_per_us
        if self.ranks // self.nodes > self.chip.cores // self.lnc:
            rate = min(rate, self.lnc * self.chip.link_bytes_per_us)
        return -(-size * _PS_PER_US // rate)

    def network_ps(self, size: int) -> int:
        """Time for bytes that a rank sends to another instance."""
        rate = self.instance.network_bytes_per_us(self.chip, self.lnc)
        if not rate:
            raise KernelError(
                f"a collective of {self.ranks} ranks does not fit on {self.instance.name}",
                f"it has {self.instance.ranks(self.chip, self.lnc)} ranks and no network",
            )
        return -(-size * _PS_PER_US // rate)


def _permute_ps(size: int, where: _Where) -> tuple[int, int]:
    """Hops and bytes of what goes to one other rank; the slowest way is over the network."""
    if where.nodes > 1:
        return where.chip.network_hop_ps, where.network_ps(size)
    whole = where.ranks == where.instance.ranks(where.chip, where.lnc)
    channels = min(where.chip.collective_channels, _WHOLE_CHANNELS if whole else _PAIR_CHANNELS)
    return where.chip.collective_hop_ps, where.inside_ps(size, channels)


def _gather_ps(size: int, where: _Where) -> tuple[int, int]:
    """Hops and bytes of an all-gather to, or a reduce-scatter of, `size` bytes."""
    inside, chip = where.ranks // where.nodes, where.chip
    hops = wire = 0
    if inside > 1:
        how = algorithm_of(size, inside, chip)
        hops = how.steps * chip.collective_hop_ps
        wire = where.inside_ps(size * (inside - 1) // inside, how.channels)
    if where.nodes > 1:
        hops += (where.nodes - 1) * chip.network_hop_ps
        wire += where.network_ps(size * (where.nodes - 1) // where.nodes // inside)
    return hops, wire


def _bytes(form: Form, role: str) -> int:
    access = form.access(role)
    return 0 if access is None else math.prod(access.layout.shape) * itemsize(access.layout.dtype)
