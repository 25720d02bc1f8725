"""The records that carry a measurement from a benchmark to a verdict.

Flow: a suite runs cases and yields `CaseResult`s (each holding `Sample`s of `Metric`s); a `Run` is
all of them at one commit in one `Environment`; two runs give `Comparison`s, which a `Policy` turns
into `Verdict`s. Everything here is frozen, holds facts only, and has one JSON form (`codec.py`);
`SCHEMA_VERSION` is raised when that form changes. Nothing in this module knows where numbers come
from: profiles and timelines are generic trees and spans with free-form attributes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

SCHEMA_VERSION = 1

AttributeValue = str | int | float | bool


class Direction(StrEnum):
    """Which way a metric is better. `NONE` is shown but never gates."""

    LOWER = "lower"
    HIGHER = "higher"
    NONE = "none"


class MetricKind(StrEnum):
    """`EXACT`: the same inputs give the same number, any spread is a bug. `SAMPLED`: noisy."""

    EXACT = "exact"
    SAMPLED = "sampled"


class CaseStatus(StrEnum):
    """How one case of a run ended."""

    OK = "ok"
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    NOT_RUN = "not-run"


class Word(StrEnum):
    """The verdict words. `docs/glossary.md` defines each; `gate.py` decides among them."""

    UNCHANGED = "unchanged"
    IMPROVED = "improved"
    REGRESSED = "regressed"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARED = "not-compared"
    NEW = "new"
    RENAMED = "renamed?"
    MISSING = "missing"
    NO_BASELINE = "no-baseline"
    NOT_RUN = "not-run"
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    WAIVED = "waived"


@dataclass(frozen=True, slots=True)
class Metric:
    """What a number means. `unit` is a symbol such as `us`, `s`, `bytes`, `percent` or `1`.

    `reference` is a published value of the same metric, with the place it was published.
    """

    name: str
    unit: str
    direction: Direction = Direction.LOWER
    kind: MetricKind = MetricKind.SAMPLED
    reference: float | None = None
    reference_source: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """What many tools print instead of raw values.

    `spread` is a standard deviation and `low`..`high` a confidence interval of the centre, both in
    the metric's unit; each is None where the source does not say.
    """

    n: int
    centre: float
    centre_kind: Literal["mean", "median", "min"] = "mean"
    spread: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One metric of one case: raw `values`, or a `summary` where the source has no values.

    Exactly one of the two is present. An exact metric has one value; several different ones are a
    benchmark that is not deterministic, and the gate says so. `one_process` says that the
    measurements are rounds of one process, which share its luck and are not independent. `taken`
    says how many there were where only some of their order statistics are kept as values.
    """

    metric: Metric
    values: tuple[float, ...] = ()
    summary: Summary | None = None
    one_process: bool = False
    taken: int = 0

    def __post_init__(self) -> None:
        if bool(self.values) == (self.summary is not None):
            raise ValueError(
                f"{self.metric.name}: a sample needs values or a summary, and not both"
            )
        if not all(map(math.isfinite, self.values)):
            raise ValueError(f"{self.metric.name}: values must be finite, got {self.values!r}")


@dataclass(frozen=True, slots=True)
class ProfileNode:
    """A cost tree: case → op → engine, or whatever the producer has.

    `time_ps` is the busy time in integer picoseconds; `counts` are additive integers such as
    `instructions` or `hbm_bytes`; `attributes` are free-form, with the reserved names of
    `RESERVED_ATTRIBUTES`, which explanation and report know.
    """

    name: str
    time_ps: int = 0
    counts: tuple[tuple[str, int], ...] = ()
    attributes: tuple[tuple[str, AttributeValue], ...] = ()
    children: tuple[ProfileNode, ...] = ()


RESERVED_ATTRIBUTES = ("fusion_group", "tile_plan", "spill_bytes", "dtype", "source", "pass")


@dataclass(frozen=True, slots=True)
class Span:
    """One bar of a timeline: integer picoseconds from the start of the case."""

    track: str
    name: str
    start_ps: int
    end_ps: int


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One finished case. `case_id` is the canonical form made by `caseid.format_case_id`.

    `digest` identifies the inputs of exact metrics (empty: not cacheable); `cached` says the
    samples were copied from an earlier run with the same digest. `message` is the failure text.
    """

    case_id: str
    status: CaseStatus = CaseStatus.OK
    samples: tuple[Sample, ...] = ()
    profile: ProfileNode | None = None
    timeline: tuple[Span, ...] = ()
    message: str = ""
    tags: tuple[str, ...] = ()
    duration_s: float = 0.0
    digest: str = ""
    cached: bool = False

    def sample(self, metric_name: str) -> Sample | None:
        """The sample of one metric, or None where this case does not have it."""
        return next((s for s in self.samples if s.metric.name == metric_name), None)


@dataclass(frozen=True, slots=True)
class Environment:
    """What makes two sampled numbers comparable. Facts only; `environment.py` reads them.

    `fingerprint()` is what must be equal; versions of the measured software are not part of it.
    """

    machine: str = ""
    cpu: str = ""
    cores: int = 0
    memory_bytes: int = 0
    os: str = ""
    python: str = ""
    runner: str = ""
    facts: tuple[tuple[str, str], ...] = ()

    def fingerprint(self) -> str:
        """The fields two runs must share for their sampled metrics to be comparable."""
        parts = (self.machine, self.cpu, str(self.cores), self.os, self.python, self.runner)
        return "|".join(parts)


@dataclass(frozen=True, slots=True)
class Revision:
    """A commit as read from git, or an imported label where there is no repository.

    `dirty` is empty for a clean tree, else a digest of the uncommitted change.
    """

    commit: str
    dirty: str = ""
    branch: str = ""
    author: str = ""
    subject: str = ""
    committed_at: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One suite execution at one revision in one environment.

    `session` names the job in which runs were measured together. Only where its runs of two
    commits took turns (`session.py`) do their sampled metrics gate by default. Times are ISO 8601
    in UTC. `finished_at` is empty while the run is open.
    """

    run_id: str
    revision: Revision
    environment: Environment
    started_at: str
    finished_at: str = ""
    session: str = ""
    source: str = "perfgate"
    results: tuple[CaseResult, ...] = ()
    warnings: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION

    def result(self, case_id: str) -> CaseResult | None:
        """The result of one case, or None where this run does not have it."""
        return next((r for r in self.results if r.case_id == case_id), None)


class Decision(StrEnum):
    """What the numbers of one metric say, whether or not the policy lets it gate.

    Of an exact metric: which side is better, however small the change. Of a sampled one: whether
    there is a change of the policy's smallest effect or more, since noise alone gives a side.
    """

    UNCHANGED = "unchanged"
    IMPROVED = "improved"
    REGRESSED = "regressed"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARED = "not-compared"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of one case, base against head.

    `base` and `head` are the centres: the value of an exact metric, the median of raw values, or
    what the source gives. `ratio` is head ÷ base: of those two for exact metrics and summaries, the
    Hodges–Lehmann estimate (the median of all pairwise ratios) for raw samples; None where base is
    0 or a side is absent. `low`..`high` is its confidence interval, equal to `ratio` for exact
    metrics. `p_value` is that of the test alone, before the adjustment for the number of tests
    that the decision uses; None for exact metrics. `method` names the test. `gates` says the
    policy lets this metric decide; `reason` is one sentence a person can act on.
    """

    case_id: str
    metric: Metric
    base: float | None
    head: float | None
    ratio: float | None
    low: float | None
    high: float | None
    p_value: float | None
    decision: Decision
    gates: bool
    method: str
    reason: str
    base_n: int = 0
    head_n: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The word on one case, the comparisons behind it, and why."""

    case_id: str
    word: Word
    comparisons: tuple[Comparison, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GateResult:
    """All verdicts of base against head. `exit_code` follows from them (`gate.exit_code`)."""

    base: Run | None
    head: Run
    verdicts: tuple[Verdict, ...]
    warnings: tuple[str, ...] = field(default=())
