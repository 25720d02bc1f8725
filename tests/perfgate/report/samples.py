"""Small runs and comparisons for the report tests, with every verdict word and hostile names."""

from __future__ import annotations

from perfgate.model import (
    CaseResult,
    CaseStatus,
    Comparison,
    Decision,
    Direction,
    Environment,
    GateResult,
    Metric,
    MetricKind,
    Revision,
    Run,
    Sample,
    Summary,
    Verdict,
    Word,
)
from perfgate.store import HistoryPoint

LATENCY = Metric("latency_us", "us", kind=MetricKind.EXACT)
BYTES = Metric("hbm_bytes", "bytes", kind=MetricKind.EXACT)
TIME = Metric("time_s", "s")
HOSTILE = "x<script>alert(1)</script>|`@octocat`\n#1"

LAPTOP = Environment("m1", "a cpu", 2, 2**34, "Linux 6.1", "3.11.9", "", (("numpy", "2.1"),))
SERVER = Environment("m2", "another cpu", 64, 2**38, "Linux 6.1", "3.11.9")


def run(number: int, results: tuple[CaseResult, ...] = (), **fields: object) -> Run:
    """The run of day `number` of January 2026, at commit `cNNN…`."""
    day = f"2026-01-{number:02}"
    revision = Revision(
        f"c{number:02}" + "0" * 37,
        "",
        "main",
        "Ada",
        f"sim: step {number}",
        f"{day}T08:00:00+00:00",
    )
    values: dict[str, object] = {
        "run_id": f"r{number:02}",
        "revision": revision,
        "environment": LAPTOP,
        "started_at": f"{day}T09:30:00+00:00",
        "finished_at": f"{day}T09:31:00+00:00",
        "results": results,
    }
    return Run(**(values | fields))  # type: ignore[arg-type]


def exact(case_id: str, latency_us: float, hbm_bytes: float = 1536) -> CaseResult:
    """A case with two exact metrics."""
    samples = (Sample(LATENCY, (latency_us,)), Sample(BYTES, (hbm_bytes,)))
    return CaseResult(case_id, samples=samples, duration_s=0.25)


def suite_run() -> Run:
    """One case of each status, a cached one and a sampled one."""
    return run(
        9,
        (
            exact("kernels.matmul[chip=trn2,m=512]", 51.803),
            CaseResult("kernels.softmax", samples=(Sample(LATENCY, (7.0,)),), cached=True),
            CaseResult("host.trace", samples=(Sample(TIME, (0.011, 0.012, 0.010)),), duration_s=71),
            CaseResult(
                "kernels.broken",
                CaseStatus.FAILED,
                message="ValueError: no\n" + "\n".join(f"  line {n}" for n in range(12)),
                duration_s=0.1,
            ),
            CaseResult("kernels.stuck", CaseStatus.TIMED_OUT, message="longer than 5 s"),
        ),
        warnings=("numpy was imported with 2 threads",),
    )


def comparison(
    case_id: str,
    ratio: float,
    decision: Decision,
    metric: Metric = LATENCY,
    gates: bool = True,
    reason: str = "",
) -> Comparison:
    """100 units at base, `ratio` times as much at head."""
    sampled = metric.kind is MetricKind.SAMPLED
    return Comparison(
        case_id,
        metric,
        100.0,
        100.0 * ratio,
        ratio,
        ratio - 0.01 if sampled else ratio,
        ratio + 0.01 if sampled else ratio,
        0.001 if sampled else None,
        decision,
        gates,
        "rank-sum" if sampled else "exact",
        reason,
    )


def verdict(case_id: str, word: Word, *comparisons: Comparison, reason: str = "") -> Verdict:
    return Verdict(case_id, word, comparisons, reason)


def gate_result() -> GateResult:
    """Every kind of row: worse, better, hostile, undecided, quiet, and changed without a gate."""
    matmul, norm, host = "kernels.matmul[chip=trn2]", "kernels.norm", "host.trace"
    return GateResult(
        base=run(1),
        head=run(2),
        verdicts=(
            verdict(norm, Word.UNCHANGED, comparison(norm, 1.0, Decision.UNCHANGED)),
            verdict(
                "kernels.pool",
                Word.UNCHANGED,
                comparison("kernels.pool", 1.0, Decision.UNCHANGED),
                comparison("kernels.pool", 1.00002, Decision.UNCHANGED, BYTES, gates=False),
            ),
            verdict(
                "kernels.fast", Word.IMPROVED, comparison("kernels.fast", 0.9, Decision.IMPROVED)
            ),
            verdict(
                matmul,
                Word.REGRESSED,
                comparison(matmul, 1.5, Decision.REGRESSED, BYTES, gates=False),
                comparison(matmul, 1.02, Decision.REGRESSED),
                reason="latency_us is 2.00 % higher, more than 0.5 %",
            ),
            verdict(HOSTILE, Word.MISSING, reason="measured at base, see @octocat and #1"),
            verdict(
                host,
                Word.INCONCLUSIVE,
                comparison(host, 1.03, Decision.INCONCLUSIVE, TIME),
                reason="about 40 samples are needed",
            ),
        ),
        warnings=("the baseline is 2 commits behind the merge base",),
    )


def history(values: tuple[float, ...], case_id: str = "kernels.matmul") -> list[HistoryPoint]:
    """One exact and one sampled metric over as many days; every third day on another machine."""
    points = []
    for number, value in enumerate(values, start=1):
        time_s = Sample(
            TIME, summary=Summary(5, value / 1e3, low=value / 1.1e3, high=value / 0.9e3)
        )
        result = CaseResult(case_id, samples=(Sample(LATENCY, (value,)), time_s))
        environment = LAPTOP if number % 3 else SERVER
        points.append(HistoryPoint(run(number, environment=environment), result))
    return points


def rate(value: float) -> Sample:
    """A metric of which more is better."""
    return Sample(Metric("rate", "1/s", Direction.HIGHER), (value,))
