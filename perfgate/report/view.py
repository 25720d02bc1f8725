"""Records → frozen rows that are already sorted, rounded and worded. No markup.

In: a `Run`, a `GateResult` or the history of a case. Out: views that every form (text, Markdown,
HTML) prints as they are, so a number and its wording are the same everywhere. What needs a person
comes first; a metric that changed is shown even where it does not gate.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfgate.effect import centre
from perfgate.figures import format_change, format_interval, format_sides, format_value, plural
from perfgate.model import (
    CaseResult,
    CaseStatus,
    Comparison,
    Decision,
    Environment,
    GateResult,
    Metric,
    MetricKind,
    Run,
    Sample,
    Verdict,
    Word,
)
from perfgate.store import HistoryPoint

WORD_ORDER = (
    Word.REGRESSED,
    Word.FAILED,
    Word.TIMED_OUT,
    Word.MISSING,
    Word.RENAMED,
    Word.NOT_RUN,
    Word.NO_BASELINE,
    Word.INCONCLUSIVE,
    Word.NOT_COMPARED,
    Word.WAIVED,
    Word.IMPROVED,
    Word.NEW,
    Word.UNCHANGED,
)
ATTENTION = frozenset(WORD_ORDER[: WORD_ORDER.index(Word.NOT_COMPARED)])

_DECISION_ORDER = (
    Decision.REGRESSED,
    Decision.INCONCLUSIVE,
    Decision.IMPROVED,
    Decision.NOT_COMPARED,
    Decision.UNCHANGED,
)


@dataclass(frozen=True, slots=True)
class Line:
    """One metric of one case, base against head, as text."""

    metric: str
    base: str
    head: str
    change: str
    interval: str
    decision: str
    gates: bool
    reason: str


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One case of a comparison. `lines` are the metrics worth showing, the deciding one first."""

    case_id: str
    word: Word
    reason: str
    lines: tuple[Line, ...]
    changed: bool


@dataclass(frozen=True, slots=True)
class GateView:
    """A comparison of two runs: attention first, then what else changed, then the rest."""

    headline: str
    base: str
    why_base: str
    head: str
    counts: tuple[tuple[Word, int], ...]
    attention: tuple[VerdictRow, ...]
    notable: tuple[VerdictRow, ...]
    quiet: tuple[VerdictRow, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunRow:
    """One case of one run; `values` are (metric, text) in the order the case declares them."""

    case_id: str
    status: CaseStatus
    values: tuple[tuple[str, str], ...]
    duration_s: float
    cached: bool
    message: str


@dataclass(frozen=True, slots=True)
class RunView:
    """One run: its cases by id, failed ones first."""

    label: str
    headline: str
    metrics: tuple[str, ...]
    rows: tuple[RunRow, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a series, in the metric's unit; `low`..`high` is where most values lie."""

    run: Run
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Series:
    """The history of one metric of one case, oldest first."""

    metric: Metric
    points: tuple[Point, ...]


def run_label(run: Run | None) -> str:
    """`3f2a91c+dirty main, 2026-12-01 03:17, run 01J…`: enough to find the run again."""
    if run is None:
        return "no run"
    branch = f" {run.revision.branch}" if run.revision.branch else ""
    return f"{commit_label(run)}{branch}, {minute(run.started_at)}, run {run.run_id}"


def commit_label(run: Run, length: int = 10) -> str:
    """The short commit, marked where the tree had uncommitted changes."""
    if not run.revision.commit:
        return "no commit"
    return run.revision.commit[:length] + ("+dirty" if run.revision.dirty else "")


def minute(iso_time: str) -> str:
    """`2026-12-01T03:17:26Z` → `2026-12-01 03:17`."""
    return iso_time[:16].replace("T", " ")


def point_dates(runs: Sequence[Run]) -> tuple[str, ...]:
    """When each was committed, or, where that would not tell them apart, when each was started:
    several runs are of one commit, or one is of changes that are not committed."""
    labels = set(map(commit_label, runs))
    if len(labels) < len(runs) or any(run.revision.dirty for run in runs):
        return tuple(minute(run.started_at) for run in runs)
    return tuple(minute(run.revision.committed_at or run.started_at) for run in runs)


def environment_label(environment: Environment) -> str:
    """What tells environments apart in a legend; `unknown environment` where nothing is known."""
    cores = plural(environment.cores, "core") if environment.cores else ""
    parts = (environment.cpu, cores, environment.runner)
    return ", ".join(part for part in parts if part) or environment.machine or "unknown environment"


def _spread(sample: Sample) -> tuple[float, float]:
    """Where the middle half of the values lies, or the summary's interval, else its centre."""
    if sample.summary is not None:
        low, high, middle = sample.summary.low, sample.summary.high, sample.summary.centre
        return (middle if low is None else low), (middle if high is None else high)
    if len(sample.values) == 1:
        return sample.values[0], sample.values[0]
    low, _, high = statistics.quantiles(sample.values, n=4, method="inclusive")
    return low, high


def view_run(run: Run) -> RunView:
    """The table of one run."""
    rows = sorted(
        map(_run_row, run.results), key=lambda row: (row.status == "ok", natural(row.case_id))
    )
    statuses = Counter(row.status for row in rows)
    counted = ", ".join(f"{statuses[status]} {status}" for status in CaseStatus if statuses[status])
    return RunView(
        label=run_label(run),
        headline=f"{plural(len(rows), 'case')}: {counted}" if rows else "no cases",
        metrics=tuple(dict.fromkeys(name for row in rows for name, _ in row.values)),
        rows=tuple(rows),
        warnings=run.warnings,
    )


def _run_row(result: CaseResult) -> RunRow:
    values = tuple((s.metric.name, format_value(centre(s), s.metric.unit)) for s in result.samples)
    return RunRow(
        result.case_id, result.status, values, result.duration_s, result.cached, result.message
    )


def view_gate(result: GateResult, why_base: str = "") -> GateView:
    """The verdicts of one comparison in the order a person should read them.

    `why_base` says why this run is the baseline, or why there is none.
    """
    rows = sorted(map(_verdict_row, result.verdicts), key=_row_order)
    counts = Counter(row.word for row in rows)
    return GateView(
        headline=headline(counts),
        base=run_label(result.base),
        why_base=why_base,
        head=run_label(result.head),
        counts=tuple((word, counts[word]) for word in WORD_ORDER if counts[word]),
        attention=tuple(row for row in rows if row.word in ATTENTION),
        notable=tuple(row for row in rows if row.word not in ATTENTION and not _is_quiet(row)),
        quiet=tuple(row for row in rows if _is_quiet(row)),
        warnings=result.warnings,
    )


def headline(counts: Counter[Word]) -> str:
    """`1 regressed, 3 unchanged`; says so where there is nothing."""
    parts = [f"{counts[word]} {word}" for word in WORD_ORDER if counts[word]]
    return ", ".join(parts) or "no cases were compared"


def _is_quiet(row: VerdictRow) -> bool:
    return row.word is Word.UNCHANGED and not row.changed


def _row_order(row: VerdictRow) -> tuple[int, bool, list[str]]:
    return WORD_ORDER.index(row.word), not row.changed, natural(row.case_id)


def natural(case_id: str) -> list[str]:
    """Sort key that puts `m=64` before `m=512`: numbers compare by their length first."""
    parts = re.split(r"(\d+)", case_id)
    return [f"{len(part):04}{part}" if part.isdigit() else part for part in parts]


def _verdict_row(verdict: Verdict) -> VerdictRow:
    ordered = sorted(verdict.comparisons, key=_evidence)
    shown = [c for i, c in enumerate(ordered) if i == 0 or _is_news(c)]
    return VerdictRow(
        case_id=verdict.case_id,
        word=verdict.word,
        reason=verdict.reason or (ordered[0].reason if ordered else ""),
        lines=tuple(map(_line, shown)),
        changed=any(map(_is_news, ordered)),
    )


def _is_news(comparison: Comparison) -> bool:
    """Whether a metric has to be shown: it moved, or it should have decided and could not."""
    if comparison.decision in (Decision.REGRESSED, Decision.IMPROVED):
        return True
    if comparison.metric.kind is MetricKind.EXACT:
        return comparison.base != comparison.head
    return comparison.gates and comparison.decision is Decision.INCONCLUSIVE


def _evidence(comparison: Comparison) -> tuple[bool, int, float]:
    """Sort key: gating first, then the worst decision, then the largest relative change."""
    size = abs(comparison.ratio - 1) if comparison.ratio is not None else 0.0
    return not comparison.gates, _DECISION_ORDER.index(comparison.decision), -size


def _line(comparison: Comparison) -> Line:
    base, head = format_sides(comparison.base, comparison.head, comparison.metric.unit)
    return Line(
        metric=comparison.metric.name,
        base=base,
        head=head,
        change=format_change(comparison.ratio),
        interval=format_interval(comparison.low, comparison.high),
        decision=comparison.decision.value,
        gates=comparison.gates,
        reason=comparison.reason,
    )


def view_history(history: Sequence[HistoryPoint]) -> tuple[Series, ...]:
    """One series per metric, in the order the newest result declares them."""
    newest_first = (s.metric for point in reversed(history) for s in point.result.samples)
    metrics: dict[str, Metric] = {}
    for metric in newest_first:
        metrics.setdefault(metric.name, metric)
    points: dict[str, list[Point]] = {name: [] for name in metrics}
    for item in history:
        for sample in item.result.samples:
            points[sample.metric.name].append(_point(item.run, sample))
    return tuple(Series(metric, tuple(points[name])) for name, metric in metrics.items())


def _point(run: Run, sample: Sample) -> Point:
    return Point(run, centre(sample), *_spread(sample))


def environments(runs: Iterable[Run]) -> tuple[str, ...]:
    """The labels of the environments seen, in order of first appearance."""
    return tuple(dict.fromkeys(environment_label(run.environment) for run in runs))
