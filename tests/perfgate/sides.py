"""Short ways to write down the two sides of a gate."""

from __future__ import annotations

import dataclasses

import numpy as np

from perfgate.model import (
    CaseResult,
    CaseStatus,
    Direction,
    Environment,
    Metric,
    MetricKind,
    Revision,
    Run,
    Sample,
    Summary,
)

LATENCY = Metric("latency_us", "us", Direction.LOWER, MetricKind.EXACT)
BYTES = Metric("hbm_bytes", "bytes", Direction.LOWER, MetricKind.EXACT)
RATE = Metric("latency_rate", "1/s", Direction.HIGHER, MetricKind.EXACT)
TIME = Metric("time", "s", Direction.LOWER, MetricKind.SAMPLED)

MACHINE = Environment(machine="m1", cpu="fast", cores=2, os="linux", python="3.11")
STARTED = "2026-06-15T12:00:00+00:00"


def exact(case_id: str, value: float, metric: Metric = LATENCY) -> CaseResult:
    return CaseResult(case_id, samples=(Sample(metric, (value,)),))


def sampled(case_id: str, *values: float, metric: Metric = TIME) -> CaseResult:
    return CaseResult(case_id, samples=(Sample(metric, values),))


def noisy(
    case_id: str, seed: int, factor: float = 1.0, n: int = 20, noise: float = 0.02
) -> CaseResult:
    """Log-normal times around `factor`, the same for the same seed."""
    values = factor * np.random.default_rng(seed).lognormal(0, noise, n)
    return sampled(case_id, *values.tolist())


def told(case_id: str, summary: Summary) -> CaseResult:
    return CaseResult(case_id, samples=(Sample(TIME, summary=summary),))


def failed(
    case_id: str, status: CaseStatus = CaseStatus.FAILED, message: str = "boom"
) -> CaseResult:
    return CaseResult(case_id, status, message=message)


def joined(*results: CaseResult) -> CaseResult:
    """One case with the samples of several."""
    samples = tuple(sample for result in results for sample in result.samples)
    return dataclasses.replace(results[0], samples=samples)


def run(
    name: str, *results: CaseResult, session: str = "", environment: Environment = MACHINE
) -> Run:
    return Run(
        run_id=name,
        revision=Revision(name * 8),
        environment=environment,
        started_at=STARTED,
        finished_at=STARTED,
        session=session,
        results=results,
    )
