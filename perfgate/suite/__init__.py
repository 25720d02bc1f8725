"""Finding benchmarks, running each case in a process of its own, and recording what comes out.

Files in the order data passes through: `benchmark.py` (the decorator and `Case`), `discover.py`
(folder to cases), `record.py` (cases to a stored `Run`), `runner.py` (the caller's side of a run),
`worker.py` (the process that watches over the cases) with `launch.py` and `process.py` (starting
and ending them) and `wire.py` (what they say to each other), `child.py` (a case's process),
`execute.py` (calls the function), `sampling.py` (rounds) and `origin.py` (was that our code?).
"""

from __future__ import annotations

from perfgate.suite.benchmark import Benchmark, Case, Measurement, Rounds, benchmark
from perfgate.suite.discover import discover
from perfgate.suite.record import (
    Clock,
    NoProgress,
    Progress,
    RecordOptions,
    find_open,
    record_run,
    resume,
)
from perfgate.suite.runner import RunOptions, run_cases

__all__ = [
    "Benchmark",
    "Case",
    "Clock",
    "Measurement",
    "NoProgress",
    "Progress",
    "RecordOptions",
    "Rounds",
    "RunOptions",
    "benchmark",
    "discover",
    "find_open",
    "record_run",
    "resume",
    "run_cases",
]
