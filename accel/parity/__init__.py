"""parity: a kernel beside a reference function, and where their values part.

In the order things pass through it: `reference` (the function, and the values that it computes on
the way), `comparison` (the results of both, within a tolerance), `lockstep` (the kernel once more,
exact and unrounded side by side), `parting` (the instruction from which on they differ).
"""

from __future__ import annotations

from accel.parity.comparison import Difference, Tolerance, compare
from accel.parity.lockstep import Lockstep
from accel.parity.parting import Parting, parting
from accel.parity.reference import Intermediate, Reference, load_reference, watched_values

__all__ = [
    "Difference",
    "Intermediate",
    "Lockstep",
    "Parting",
    "Reference",
    "Tolerance",
    "compare",
    "load_reference",
    "parting",
    "watched_values",
]
