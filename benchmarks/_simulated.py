"""A library kernel on a chip as a perfgate measurement: metrics, profile tree, digest.

The one place that knows both packages: accel's simulation goes in, perfgate's generic records come
out.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

import perfgate
from accel.chip import chip_named
from accel.kernels import KERNELS
from accel.nki.jit import TensorSpec, trace
from accel.program import Program
from accel.sim import Simulation, case_digest, simulate
from accel.sim.queues import queue_label

METRICS = (
    perfgate.Metric("latency_us", "us", perfgate.Direction.LOWER, perfgate.MetricKind.EXACT),
    perfgate.Metric("hbm_bytes", "bytes", perfgate.Direction.LOWER, perfgate.MetricKind.EXACT),
    perfgate.Metric("mfu_percent", "percent", perfgate.Direction.HIGHER, perfgate.MetricKind.EXACT),
    perfgate.Metric("spill_bytes", "bytes", perfgate.Direction.LOWER, perfgate.MetricKind.EXACT),
)

Arguments = Mapping[str, TensorSpec | float | bool]


@functools.lru_cache(maxsize=4)
def _traced(kernel: str, chip: str, arguments: tuple[tuple[str, object], ...]) -> Program:
    return trace(KERNELS[kernel].kernel, dict(arguments), chip_named(chip))


def traced(kernel: str, chip: str, arguments: Arguments) -> Program:
    """The kernel's program for these shapes; kept, since digest and measurement both need it."""
    return _traced(kernel, chip, tuple(arguments.items()))


def digest(kernel: str, chip: str, arguments: Arguments) -> str:
    """Program + chip + timing-model version."""
    return case_digest(traced(kernel, chip, arguments), chip_named(chip))


def measure(kernel: str, chip: str, arguments: Arguments) -> perfgate.Measurement:
    """The kernel's predicted metrics, with the cost of each source line and engine."""
    simulation = simulate(traced(kernel, chip, arguments), chip_named(chip))
    metrics = simulation.metrics
    return perfgate.Measurement(
        metrics={
            "latency_us": metrics.latency_us,
            "hbm_bytes": metrics.hbm_read_bytes + metrics.hbm_write_bytes,
            "mfu_percent": metrics.mfu_estimated_percent,
            "spill_bytes": metrics.spill_save_bytes + metrics.spill_reload_bytes,
        },
        profile=profile_of(kernel, simulation),
    )


def profile_of(name: str, simulation: Simulation) -> perfgate.ProfileNode:
    """case → operation at a source line → engine, with busy time and instruction counts."""
    program, times = simulation.trace.program, simulation.trace.times
    busy = np.asarray(times.end - times.start)
    keys = np.stack([program.source, program.form, simulation.trace.queue])
    rows, group = np.unique(keys, axis=1, return_inverse=True)
    total = np.bincount(group, weights=busy, minlength=rows.shape[1])
    count = np.bincount(group, minlength=rows.shape[1])
    ops: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
    for i in range(rows.shape[1]):
        source, form, queue = (int(v) for v in rows[:, i])
        engines = ops.setdefault((program.forms[form].op, str(program.sources[source])), {})
        time, instructions = engines.get(queue_label(queue), (0, 0))
        engines[queue_label(queue)] = (time + int(total[i]), instructions + int(count[i]))
    return perfgate.ProfileNode(
        name, simulation.metrics.latency_ps, children=tuple(_op(*item) for item in ops.items())
    )


def _op(key: tuple[str, str], engines: dict[str, tuple[int, int]]) -> perfgate.ProfileNode:
    leaves = tuple(
        perfgate.ProfileNode(engine, time, (("instructions", count),))
        for engine, (time, count) in engines.items()
    )
    op, source = key
    return perfgate.ProfileNode(
        op, sum(leaf.time_ps for leaf in leaves), attributes=(("source", source),), children=leaves
    )
