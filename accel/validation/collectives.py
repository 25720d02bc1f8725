"""Published times of collectives beside ours.

They are of the SDK's page on nccom-test and its history, where no hardware is named: 32 and 64
ranks make whole trn1.32xlarge instances, and 16 ranks since 2026 are taken for trn2. What the
runtime of 2023 took for a collective beside its bytes was far longer, and it went round a ring
only; two rows, of 1 KiB, say how long. What is larger than 64 KiB says something about the bytes.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from accel.chip import CHIPS, Chip
from accel.program import Access, AttributeValue, Engine, Form, Layout, Memory, Mode
from accel.sim.collectives import collective_ps

LARGE_BYTES = 64 * 1024
CHOSEN_BY = frozenset(
    {
        ("all_reduce", 2, 2**10),
        ("all_gather", 32, 2**10),
        ("all_reduce", 2, 2**30),  # channels of trn1
        ("all_reduce", 16, 2**29),  # channels of trn2
    }
)


def older_runtime(chip: Chip) -> Chip:
    """The chip with the runtime of 2023: its hops and fixed part follow from its two rows of 1 KiB,
    58 us for two hops and 151 us for 16.
    """
    return dataclasses.replace(
        chip,
        collective_fixed_ps=44_700_000,
        collective_hop_ps=6_640_000,
        collective_mesh_bytes=0,
        collective_doubling_bytes=0,
    )


@dataclass(frozen=True, slots=True)
class Measured:
    """A published time. `size`: bytes of the larger side of a rank."""

    op: str
    ranks: int
    size: int
    microseconds: float
    year: int

    @property
    def chip(self) -> Chip:
        """The machine it is taken for, with the runtime of its year."""
        chip = CHIPS["trn2" if self.year >= 2026 else "trn1"]
        return older_runtime(chip) if self.year < 2025 else chip

    @property
    def predicted(self) -> float:
        """Our time in microseconds."""
        return collective_ps(form_of(self.op, self.ranks, self.size), self.chip) / 1e6

    @property
    def error(self) -> float:
        """How far the larger of the two exceeds the smaller."""
        return math.exp(abs(math.log(self.predicted / self.microseconds))) - 1

    @property
    def chosen_by(self) -> bool:
        """Whether a number of ours comes from it."""
        return (self.op, self.ranks, self.size) in CHOSEN_BY


_KIB, _MIB, _GIB = 2**10, 2**20, 2**30

MEASURED = (
    Measured("all_reduce", 2, _KIB, 58, 2023),
    Measured("all_reduce", 2, 64 * _KIB, 58, 2023),
    Measured("all_reduce", 2, _MIB, 68, 2023),
    Measured("all_reduce", 2, 16 * _MIB, 332, 2023),
    Measured("all_reduce", 2, 64 * _MIB, 1214, 2023),
    Measured("all_reduce", 2, _GIB, 18930, 2023),
    Measured("all_gather", 32, _KIB, 151, 2023),
    Measured("all_gather", 32, 512 * _KIB, 179, 2023),
    Measured("all_gather", 32, _KIB, 6.16, 2025),
    Measured("all_gather", 32, 64 * _KIB, 8.17, 2025),
    Measured("all_gather", 32, 512 * _KIB, 23.16, 2025),
    Measured("collective_permute", 8, 32 * _MIB, 894, 2025),
    Measured("all_reduce", 16, 8 * _KIB, 299.7, 2026),
    Measured("all_reduce", 16, 2 * _MIB, 686, 2026),
    Measured("all_reduce", 16, 512 * _MIB, 9690, 2026),
    Measured("all_reduce", 64, 8, 520, 2023),
    Measured("all_reduce", 64, 4 * _KIB, 916, 2023),
    Measured("all_reduce", 64, _MIB, 1328, 2023),
    Measured("all_reduce", 64, 64 * _MIB, 3963, 2023),
    Measured("all_reduce", 64, _GIB, 41806, 2023),
)


def form_of(op: str, ranks: int, size: int, coalesced: bool = False) -> Form:
    """A collective of the first `ranks` ranks; `size`: bytes of the larger side of a rank."""
    whole = Layout(Memory.HBM, "uint8", 0, ((1, size),))
    part = dataclasses.replace(whole, pattern=((1, max(1, size // ranks)),))
    source = part if op == "all_gather" else whole
    accesses = (Access("dst", Mode.WRITE, whole), Access("src", Mode.READ, source))
    attributes: tuple[tuple[str, AttributeValue], ...] = (
        ("coalesced", coalesced),
        ("rank", 0),
        ("ranks", tuple(range(ranks))),
    )
    return Form(op, Engine.ANY, accesses, attributes)
