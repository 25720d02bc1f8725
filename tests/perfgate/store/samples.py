"""Small runs for the store tests."""

from __future__ import annotations

from perfgate.model import (
    CaseResult,
    Direction,
    Environment,
    Metric,
    MetricKind,
    ProfileNode,
    Revision,
    Run,
    Sample,
    Span,
    Summary,
)

LATENCY = Metric(
    "latency_us", "us", kind=MetricKind.EXACT, reference=51.8, reference_source="a page"
)
HOST_TIME = Metric("time_s", "s")
RATE = Metric("rate", "1/s", Direction.HIGHER)


def exact(case_id: str, value: float = 1.5, digest: str = "") -> CaseResult:
    """A result with one exact metric."""
    return CaseResult(case_id, samples=(Sample(LATENCY, (value,)),), digest=digest)


def full(case_id: str) -> CaseResult:
    """A result that uses every field."""
    engine = ProfileNode("pe", 7, (("instructions", 3),), (("dtype", "bf16"), ("ok", True)))
    return CaseResult(
        case_id,
        samples=(
            Sample(LATENCY, (0.1 + 0.2,)),
            Sample(HOST_TIME, (0.25, 1e-300, 3.0), one_process=True, taken=70_000),
            Sample(RATE, summary=Summary(10, 2.0, "median", spread=0.5, low=1.5, high=2.5)),
        ),
        profile=ProfileNode("case", 7, children=(engine,)),
        timeline=(Span("pe", "matmul", 0, 7),),
        message="über\nlines",
        tags=("slow", "trn2"),
        duration_s=1.25,
        digest="d1",
        cached=True,
    )


def opened(run_id: str = "r1", commit: str = "c1", minute: int = 0, **fields: str) -> Run:
    """A run that has just begun, `minute` minutes past twelve."""
    return Run(
        run_id,
        Revision(commit, "", "main", "Ada", "a subject", "2025-01-01T11:00:00+00:00"),
        Environment("m1", "a cpu", 8, 2**36, "Linux", "3.11.9", "", (("load", "0.10"),)),
        f"2025-01-01T12:{minute:02}:00+00:00",
        **fields,
    )


def closed(run_id: str = "r1", *results: CaseResult, commit: str = "c1", minute: int = 0) -> Run:
    """A finished run."""
    start = opened(run_id, commit, minute)
    return Run(
        start.run_id,
        start.revision,
        start.environment,
        start.started_at,
        finished_at=f"2025-01-01T12:{minute:02}:30+00:00",
        session="job 7",
        results=results,
        warnings=("a warning",),
    )
