"""Instances: machines of several chips, as they are rented, and how their chips are linked.

Numbers are those of the SDK's pages `<family>-arch.rst`. A rank is a logical core: on a machine of
`chips` chips there are `ranks(chip, lnc)` of them, numbered chip by chip.
"""

from __future__ import annotations

from dataclasses import dataclass

from accel.chip import CHIPS, Chip


@dataclass(frozen=True, slots=True)
class Instance:
    """`chips` chips of kind `chip`. `topology`: how they are linked. `link_gbytes`: what one chip's
    links carry, in GB/s. `network_gbits`: the instance's network adapters, in Gbit/s, 0 where
    collectives cannot leave it.
    """

    name: str
    chip: str
    chips: int
    topology: str
    link_gbytes: int
    network_gbits: int
    source: str

    def ranks(self, chip: Chip, lnc: int = 1) -> int:
        """Ranks on the whole instance, `lnc` cores each."""
        return self.chips * chip.cores // lnc

    def network_bytes_per_us(self, chip: Chip, lnc: int = 1) -> int:
        """One rank's share of the network."""
        return self.network_gbits * 125 // self.ranks(chip, lnc)


INSTANCES: dict[str, Instance] = {
    instance.name: instance
    for instance in (
        Instance("inf1.xlarge", "inf1", 1, "one chip", 0, 0, "inf1-arch.rst"),
        Instance("inf1.2xlarge", "inf1", 1, "one chip", 0, 0, "inf1-arch.rst"),
        Instance("inf1.6xlarge", "inf1", 4, "ring", 34, 0, "inf1-arch.rst"),
        Instance("inf1.24xlarge", "inf1", 16, "ring", 34, 0, "inf1-arch.rst"),
        Instance("inf2.xlarge", "inf2", 1, "one chip", 0, 0, "inf2-arch.rst"),
        Instance("inf2.8xlarge", "inf2", 1, "one chip", 0, 0, "inf2-arch.rst"),
        Instance("inf2.24xlarge", "inf2", 6, "ring", 192, 0, "inf2-arch.rst"),
        Instance("inf2.48xlarge", "inf2", 12, "ring", 192, 0, "inf2-arch.rst"),
        Instance("trn1.2xlarge", "trn1", 1, "one chip", 0, 0, "trn1-arch.rst"),
        Instance("trn1.32xlarge", "trn1", 16, "4 × 4 torus", 384, 800, "trn1-arch.rst"),
        Instance("trn1n.32xlarge", "trn1", 16, "4 × 4 torus", 768, 1600, "trn1-arch.rst"),
        Instance("trn2.48xlarge", "trn2", 16, "4 × 4 torus", 1024, 3200, "trn2-arch.rst"),
        Instance("trn2u.48xlarge", "trn2", 64, "4 × 4 × 4 torus", 1280, 3200, "trn2-arch.rst"),
        Instance("trn3-gen1", "trn3", 64, "switched", 2199, 12800, "trn3-arch.rst"),
        Instance("trn3-gen2", "trn3", 144, "switched", 2199, 28800, "trn3-arch.rst"),
    )
}

# Where a program runs that says nothing else: the largest one of its chip without racks.
_DEFAULT = {
    "inf1": "inf1.24xlarge",
    "inf2": "inf2.48xlarge",
    "trn1": "trn1.32xlarge",
    "trn2": "trn2.48xlarge",
    "trn3": "trn3-gen1",
}


def instance_of(chip: Chip) -> Instance:
    """The instance that a chip's programs run on; a chip from a file runs where its like do."""
    if chip.name in _DEFAULT:
        return INSTANCES[_DEFAULT[chip.name]]
    like = next(name for name, other in CHIPS.items() if other.generation == chip.generation)
    return INSTANCES[_DEFAULT[like]]
