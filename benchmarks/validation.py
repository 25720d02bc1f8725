"""How far predicted timings are from published ones, so that the gate sees a model get worse.

A case a publication: the rows of `accel validate` whose ids begin with these letters.
"""

from __future__ import annotations

from accel.validation import accuracy, validate
from accel.validation.points import ALL
from perfgate import Direction, Metric, MetricKind, benchmark

# Of the publications of whole kernels one kernel each: all of them take most of a minute, and
# docs/validation.md, which a test compares, has them.
PUBLICATIONS = ["kopt_v5", "matmul_trn1_fully", "mamba_v3_2048", "perf", "ov", "rmsq"]


@benchmark(
    metrics=(
        Metric("median_error_percent", "percent", Direction.LOWER, MetricKind.EXACT),
        Metric("worst_error_percent", "percent", Direction.LOWER, MetricKind.EXACT),
    ),
    params={"publication": PUBLICATIONS},
    tags=("validation",),
)
def published_timings(publication: str) -> dict[str, float]:
    [errors] = [group for group in accuracy(validate(prefix=publication)) if group.group == ALL]
    return {
        "median_error_percent": 100 * errors.median,
        "worst_error_percent": 100 * errors.worst,
    }
