"""perfgate decides whether a change made software slower, by how much, and how sure that is.

This module holds the names a benchmark author needs, loaded on first use so that `perfgate --help`
stays quick:

    import perfgate
    from perfgate import Metric, MetricKind

    CYCLES = Metric("cycles", "1", kind=MetricKind.EXACT)

    @perfgate.benchmark(params={"n": [64, 128]}, metrics=[CYCLES])
    def walk(n):
        return {"cycles": 3 * n}

Files, in the order data passes through: `suite/` runs benchmarks, `store/` keeps their runs,
`vcs.py` and `written.py` look at the working tree, `baseline.py` finds the run to compare with,
`session.py` sees whether runs took turns, `effect.py`, `stats.py` (sampled metrics only),
`policy.py`, `comparison.py`, `verdict.py` and `gate.py` give verdicts,
`report/` shows them, `cli.py` binds it all. `model.py` holds the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfgate.model import Direction, Metric, MetricKind, ProfileNode, Span
    from perfgate.suite.benchmark import Measurement, Rounds, benchmark

__version__ = "0.1.0"

__all__ = [
    "Direction",
    "Measurement",
    "Metric",
    "MetricKind",
    "ProfileNode",
    "Rounds",
    "Span",
    "benchmark",
]

_HOMES = {
    "Direction": "perfgate.model",
    "Measurement": "perfgate.suite.benchmark",
    "Metric": "perfgate.model",
    "MetricKind": "perfgate.model",
    "ProfileNode": "perfgate.model",
    "Rounds": "perfgate.suite.benchmark",
    "Span": "perfgate.model",
    "benchmark": "perfgate.suite.benchmark",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'perfgate' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
