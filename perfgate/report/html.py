"""The report as one HTML file that works from `file://` and loads nothing else.

In: a `Site` (runs, the history of every case, perhaps a comparison). Out: the page's text. Every
number and word comes from `view` and `figures`, every picture from `chart`; the template only
places them, and escapes all of it. What hovering over a chart shows is a table of runs that is in
the page once, so long histories stay small.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from jinja2 import Environment as Templates
from jinja2 import FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from perfgate.figures import format_value, plural
from perfgate.model import Direction, Environment, Metric, MetricKind, Run, Word
from perfgate.report.chart import Dot, spark_chart, trend_chart
from perfgate.report.grouping import grouped
from perfgate.report.text import change_before
from perfgate.report.view import (
    GateView,
    Series,
    VerdictRow,
    commit_label,
    environment_label,
    environments,
    minute,
    point_dates,
    run_label,
    view_history,
)
from perfgate.store import HistoryPoint

RUNS_LISTED = 100

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Site:
    """What the page shows. `runs` are headers of closed runs, newest first; `older_runs` more are
    left out. Each history is oldest first. `comparison_title` says which comparison `gate` is."""

    title: str
    runs: tuple[Run, ...]
    histories: Mapping[str, Sequence[HistoryPoint]]
    gate: GateView | None = None
    comparison_title: str = ""
    older_runs: int = 0


@dataclass(frozen=True, slots=True)
class TrendPanel:
    """One metric of one case: the newest value, and the chart with the texts hovering shows."""

    metric: str
    latest: str
    change: str
    note: str
    chart: Markup
    spark: Markup
    run_places: str
    texts: str


@dataclass(frozen=True, slots=True)
class CasePanel:
    """One case. `anchor` is the same in every report, so links to it keep working. `last_run` is
    the commit it was last measured at, where the newest run does not have it."""

    case_id: str
    anchor: str
    status: str
    last_run: str
    word: str
    message: str
    tags: tuple[str, ...]
    trends: tuple[TrendPanel, ...]


@dataclass(frozen=True, slots=True)
class Entry(Generic[Item]):
    """A case under its benchmark's heading, and where its section is, if it has one."""

    label: str
    anchor: str
    item: Item


@dataclass(frozen=True, slots=True)
class Block(Generic[Item]):
    """The cases of one benchmark, with what they share. Alone, cases of none have no heading."""

    heading: str
    shared: str
    entries: tuple[Entry[Item], ...]


@dataclass(frozen=True, slots=True)
class RunPanel:
    """One row of the list of runs."""

    run_id: str
    commit: str
    date: str
    branch: str
    author: str
    subject: str
    environment: str
    source: str


@dataclass(frozen=True, slots=True)
class _Index:
    """What every case is looked up in: a run's place in the page's run table, an environment's
    place in the legend, the verdicts, and the newest run of each source."""

    places: Mapping[str, int]
    groups: Mapping[str, int]
    words: Mapping[str, Word]
    newest: frozenset[str]


def render(site: Site) -> str:
    """The whole page."""
    legend = environments(reversed(site.runs))
    index = _Index(
        places={run.run_id: place for place, run in enumerate(site.runs)},
        groups={label: place for place, label in enumerate(legend)},
        words=_words(site.gate),
        newest=frozenset({run.source: run.run_id for run in reversed(site.runs)}.values()),
    )
    cases = tuple(_case_panel(*item, index) for item in site.histories.items())
    return _template().render(
        site=site,
        cases=cases,
        blocks=_blocks(cases, lambda case: case.case_id, site),
        **_verdict_blocks(site),
        has_dirty=any(run.revision.dirty for run in site.runs),
        metrics=_metric_names(cases),
        runs=tuple(map(_run_panel, site.runs[:RUNS_LISTED])),
        runs_left_out=max(0, len(site.runs) - RUNS_LISTED) + site.older_runs,
        legend=legend,
        facts=_facts(site.runs[0].environment) if site.runs else (),
        newest=run_label(site.runs[0]) if site.runs else "",
        size=f"{plural(len(cases), 'case')}, {_runs_shown(site)}",
        run_table=_json_data([_hover_lines(run) for run in site.runs]),
    )


def _runs_shown(site: Site) -> str:
    if not site.older_runs:
        return plural(len(site.runs), "run")
    return f"the newest {len(site.runs)} of {plural(len(site.runs) + site.older_runs, 'run')}"


def _template() -> Template:
    folder = Path(__file__).parent / "templates"
    templates = Templates(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template("index.html.j2")


def _verdict_blocks(site: Site) -> dict[str, tuple[Block[VerdictRow], ...]]:
    """The three tables of the comparison."""
    gate = site.gate
    tables = {
        "attention": gate.attention if gate else (),
        "notable": gate.notable if gate else (),
        "quiet": gate.quiet if gate else (),
    }
    return {name: _blocks(rows, lambda row: row.case_id, site) for name, rows in tables.items()}


def _blocks(
    items: Iterable[Item], case_id_of: Callable[[Item], str], site: Site
) -> tuple[Block[Item], ...]:
    blocks = []
    groups = grouped(items, case_id_of)
    for group in groups:
        shared = " ".join(group.shared)
        entries = []
        for member in group.members:
            case_id = case_id_of(member.item)
            anchor = _anchor(case_id) if case_id in site.histories else ""
            label = group.label(member) or shared or group.benchmark
            entries.append(Entry(label, anchor, member.item))
        # What a case shares with no other is its label.
        told = shared if len(entries) > 1 else ""
        heading = group.benchmark or ("other cases" if len(groups) > 1 else "")
        blocks.append(Block(heading, told, tuple(entries)))
    return tuple(blocks)


def _anchor(case_id: str) -> str:
    return f"case-{hashlib.sha256(case_id.encode()).hexdigest()[:12]}"


def _words(gate: GateView | None) -> dict[str, Word]:
    if gate is None:
        return {}
    return {row.case_id: row.word for row in (*gate.attention, *gate.notable, *gate.quiet)}


def _metric_names(cases: Sequence[CasePanel]) -> tuple[str, ...]:
    """Those that most cases have first, so that the selector starts with a full table."""
    counts = Counter(trend.metric for case in cases for trend in case.trends)
    return tuple(name for name, _ in counts.most_common())


def _case_panel(case_id: str, history: Sequence[HistoryPoint], index: _Index) -> CasePanel:
    run, newest = history[-1].run, history[-1].result
    word = index.words.get(case_id)
    return CasePanel(
        case_id=case_id,
        anchor=_anchor(case_id),
        status=newest.status.value,
        last_run="" if run.run_id in index.newest else commit_label(run),
        word=word.value if word else "",
        message=newest.message,
        tags=newest.tags,
        trends=tuple(_trend_panel(case_id, series, index) for series in view_history(history)),
    )


def _trend_panel(case_id: str, series: Series, index: _Index) -> TrendPanel:
    metric, points = series.metric, series.points
    texts = [format_value(point.value, metric.unit) for point in points]
    title = f"{metric.name} of {case_id}: {plural(len(points), 'run')}, newest {texts[-1]}"
    is_zero = all(point.low == point.high == 0 for point in points)
    dots = [] if is_zero else _dots(series, index)
    chart = trend_chart(title, dots, metric.unit, metric.reference)
    zeros = f"; {texts[-1]} in {_all_runs(len(points))}" if is_zero else ""
    return TrendPanel(
        metric=metric.name,
        latest=texts[-1],
        change=change_before(points, len(points) - 1),
        note=_note(metric) + zeros,
        chart=Markup(chart),
        spark=Markup(spark_chart([point.value for point in points])),
        run_places=" ".join(str(index.places.get(point.run.run_id, -1)) for point in points),
        texts="|".join(texts),
    )


def _all_runs(count: int) -> str:
    return "its one run" if count == 1 else f"all {plural(count, 'run')}"


def _note(metric: Metric) -> str:
    """`exact, lower is better, published 51.80 us (a page)`."""
    parts = [metric.kind.value]
    if metric.direction is not Direction.NONE:
        parts.append(f"{metric.direction} is better")
    if metric.reference is not None:
        source = f" ({metric.reference_source})" if metric.reference_source else ""
        parts.append(f"published {format_value(metric.reference, metric.unit)}{source}")
    return ", ".join(parts)


def _dots(series: Series, index: _Index) -> list[Dot]:
    """An exact metric has one line, since the environment cannot change it; a sampled one has a
    line per environment."""
    exact = series.metric.kind is MetricKind.EXACT
    runs = [point.run for point in series.points]
    dates = point_dates(runs)
    days = {(commit_label(run), date[:10]) for run, date in zip(runs, dates, strict=True)}
    # The day alone is enough where it tells all runs apart.
    length = 10 if len(days) == len(runs) else None
    return [
        Dot(
            value=point.value,
            low=point.low,
            high=point.high,
            commit=commit_label(point.run, 7),
            date=date[:length],
            group=0 if exact else index.groups.get(environment_label(point.run.environment), 0),
            hollow=bool(point.run.revision.dirty),
        )
        for point, date in zip(series.points, dates, strict=True)
    ]


def _run_panel(run: Run) -> RunPanel:
    return RunPanel(
        run_id=run.run_id,
        commit=commit_label(run),
        date=minute(run.started_at),
        branch=run.revision.branch,
        author=run.revision.author,
        subject=run.revision.subject,
        environment=environment_label(run.environment),
        source=run.source,
    )


def _hover_lines(run: Run) -> list[str]:
    date = minute(run.revision.committed_at or run.started_at)
    measured = f"run {run.run_id}, started {minute(run.started_at)}"
    lines = (f"{commit_label(run)}  {date}", run.revision.author, run.revision.subject, measured)
    return [line for line in lines if line]


def _facts(environment: Environment) -> tuple[tuple[str, str], ...]:
    named = (
        ("cpu", environment.cpu),
        ("cores", str(environment.cores or "")),
        ("memory", format_value(environment.memory_bytes or None, "bytes")),
        ("os", environment.os),
        ("python", environment.python),
        ("runner", environment.runner),
        ("machine", environment.machine),
    )
    return tuple((name, value) for name, value in (*named, *environment.facts) if value)


def _json_data(value: object) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
