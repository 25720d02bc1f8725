"""The simulator: what a program computes, and how long it takes.

In the order things pass through it: `lowering` (what an older compiler would have rewritten),
`geometry` (storages and operands as arrays), `placement` and `memory` (addresses, spills),
`machine` (costs), `hazards` (who waits for whom), `schedule` (when), `trace`, `metrics` and
`perfetto` (what came of it). `simulation` runs them all; `rules`, `queues`, `compiled` and
`version` serve them. `evaluate` stands beside them: values without time.
"""

from __future__ import annotations

from accel.sim.lowering import PROFILE_OF_FORM, PROFILES
from accel.sim.metrics import Metrics
from accel.sim.perfetto import write_perfetto
from accel.sim.simulation import ABLATIONS, Simulation, simulate
from accel.sim.trace import Trace, critical_path
from accel.sim.version import MODEL_VERSION, case_digest

__all__ = [
    "ABLATIONS",
    "MODEL_VERSION",
    "PROFILES",
    "PROFILE_OF_FORM",
    "Metrics",
    "Simulation",
    "Trace",
    "case_digest",
    "critical_path",
    "simulate",
    "write_perfetto",
]
