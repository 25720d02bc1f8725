"""Views as terminal text: what each command prints, as paragraphs and tables.

Each `*_blocks` function words one command's output; `plain` and `show` print it. Cases stand under
a heading a benchmark, which says what they share, so a row has only what differs. `plain` never
cuts a name and never looks at the terminal, so that its output can be compared with golden files
and read by `grep`; `show` fits tables to the width of the terminal, and says what it left out.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from perfgate.figures import (
    format_change,
    format_duration,
    format_value,
    plural,
    sparkline,
)
from perfgate.model import CaseStatus, Run, Word
from perfgate.report.grouping import Group, grouped
from perfgate.report.layout import Laid, Table, lay, one_line
from perfgate.report.view import (
    GateView,
    Point,
    RunRow,
    RunView,
    Series,
    VerdictRow,
    commit_label,
    minute,
    point_dates,
)

SHOWN_METRICS = 4
SHOWN_MESSAGE_LINES = 8

STYLES = {
    Word.REGRESSED.value: "bold red",
    Word.FAILED.value: "bold red",
    Word.TIMED_OUT.value: "bold red",
    Word.MISSING.value: "bold yellow",
    Word.RENAMED.value: "bold yellow",
    Word.NOT_RUN.value: "bold yellow",
    Word.NO_BASELINE.value: "yellow",
    Word.INCONCLUSIVE.value: "yellow",
    Word.NOT_COMPARED.value: "dim",
    Word.WAIVED.value: "magenta",
    Word.IMPROVED.value: "green",
    Word.NEW.value: "cyan",
    CaseStatus.OK.value: "green",
}


_ROLES = {"title": "bold", "header": "dim"}

Block = str | Table


def run_blocks(view: RunView) -> list[Block]:
    """`perfgate run`: a table a benchmark, with the metrics most cases have, then failures."""
    groups = grouped(view.rows, lambda row: row.case_id)
    shown = [_shown_metrics(group) for group in groups]
    blocks: list[Block] = [_run_table(*item) for item in zip(groups, shown, strict=True)]
    blocks += [_failure(row) for row in view.rows if row.message]
    hidden = len(set(view.metrics).difference(*shown))
    more = f" ({plural(hidden, 'more metric')} in the report)" if hidden else ""
    return [*blocks, view.headline + more, *_warnings(view.warnings)]


def _shown_metrics(group: Group[RunRow]) -> tuple[str, ...]:
    """The metrics most cases of the group have, in the order of their declaration."""
    counted = Counter(name for member in group.members for name, _ in member.item.values)
    common = {name for name, _ in counted.most_common(SHOWN_METRICS)}
    return tuple(name for name in counted if name in common)


def _run_table(group: Group[RunRow], metrics: Sequence[str]) -> Table:
    """One row a case. The status has a column only where it is news."""
    is_ok = all(member.item.status is CaseStatus.OK for member in group.members)
    keys, before = len(group.names), len(group.names) + (not is_ok)
    rows = []
    for member in group.members:
        row, values = member.item, dict(member.item.values)
        status = () if is_ok else (row.status.value,)
        took = "cached" if row.cached else format_duration(row.duration_s)
        rows.append((*member.values, *status, *(values.get(m, "-") for m in metrics), took))
    return Table(
        headers=(*group.names, *(() if is_ok else ("status",)), *metrics, "took"),
        rows=tuple(rows),
        right=_numeric(group) | frozenset(range(before, before + len(metrics) + 1)),
        styled=None if is_ok else keys,
        title=_title(group),
        keys=keys,
        spare=_spare_metrics(rows, range(before, before + len(metrics))),
    )


def _spare_metrics(rows: Sequence[tuple[str, ...]], columns: range) -> tuple[int, ...]:
    """All but the first metric, the last first, but before them those that never differ."""
    differs = {i: len({row[i] for row in rows}) > 1 for i in columns}
    return tuple(sorted(columns[1:], key=lambda i: (differs[i], -i)))


def _title(group: Group[RunRow] | Group[VerdictRow]) -> str:
    return "  ".join(filter(None, (group.benchmark, " ".join(group.shared))))


def _numeric(group: Group[RunRow] | Group[VerdictRow]) -> frozenset[int]:
    """Which parameters are numbers in every case that has them."""
    columns = zip(*(member.values for member in group.members), strict=True)
    return frozenset(i for i, column in enumerate(columns) if all(map(_is_number, column)))


def _is_number(text: str) -> bool:
    return text == "" or text.lstrip("-").replace(".", "", 1).isdigit()


def _failure(row: RunRow) -> str:
    lines = row.message.strip().splitlines()
    if len(lines) > SHOWN_MESSAGE_LINES:
        lines = [*lines[:SHOWN_MESSAGE_LINES], "… (the report has all of it)"]
    return "\n".join([one_line(f"{row.case_id} {row.status}:"), *(f"    {line}" for line in lines)])


def gate_blocks(view: GateView) -> list[Block]:
    """`perfgate gate` and `compare`: attention, then other changes; unchanged cases are counted."""
    sides = (("base", view.base), ("", view.why_base), ("head", view.head))
    blocks: list[Block] = ["\n".join(f"{side:4}  {said}" for side, said in sides if said)]
    shown = (*view.attention, *view.notable)
    blocks += map(_gate_table, grouped(shown, lambda row: row.case_id))
    if reasons := _reasons(shown):
        blocks.append("\n".join(reasons))
    return [*blocks, *_warnings(view.warnings), view.headline]


def _gate_table(group: Group[VerdictRow]) -> Table:
    """One row a metric. Columns that would be empty all the way down are not there."""
    keys = len(group.names)
    headers = (*group.names, "verdict", "metric", "base", "head", "change", "interval")
    rows = [row for member in group.members for row in _verdict_rows(member.item, member.values)]
    used = [i for i in range(len(headers)) if i <= keys or any(row[i] for row in rows)]
    right = _numeric(group) | {keys + 2, keys + 3, keys + 4}
    return Table(
        headers=tuple(headers[i] for i in used),
        rows=tuple(tuple(row[i] for i in used) for row in rows),
        right=frozenset(place for place, i in enumerate(used) if i in right),
        styled=keys,
        title=_title(group),
        keys=keys,
        spare=tuple(place for place, i in enumerate(used) if headers[i] == "interval"),
    )


def _reasons(rows: Iterable[VerdictRow]) -> list[str]:
    """Why each word; a reason that several cases share is said once."""
    cases: dict[tuple[Word, str], list[str]] = {}
    for row in rows:
        if row.reason and row.word is not Word.UNCHANGED:
            cases.setdefault((row.word, row.reason), []).append(row.case_id)
    return [
        one_line(f"{word}: {ids[0] if len(ids) == 1 else plural(len(ids), 'case')}: {reason}")
        for (word, reason), ids in cases.items()
    ]


def _verdict_rows(verdict: VerdictRow, keys: tuple[str, ...]) -> list[tuple[str, ...]]:
    """A row a metric, of which the first has what the case is called and its word."""
    if not verdict.lines:
        return [(*keys, verdict.word.value, "", "", "", "", "")]
    rows: list[tuple[str, ...]] = []
    for line in verdict.lines:
        lead = ("",) * (len(keys) + 1) if rows else (*keys, verdict.word.value)
        metric = line.metric if line.gates else f"{line.metric} (no gate)"
        rows.append((*lead, metric, line.base, line.head, line.change, line.interval))
    return rows


def history_blocks(case_id: str, series: Iterable[Series], limit: int) -> list[Block]:
    """`perfgate history`: per metric a sparkline and the newest `limit` runs, oldest first."""
    blocks: list[Block] = [case_id]
    for one in series:
        unit = one.metric.unit
        values = [point.value for point in one.points]
        title = f"{one.metric.name} ({one.metric.kind}, {one.metric.direction} is better)"
        if one.metric.direction == "none":
            title = f"{one.metric.name} ({one.metric.kind})"
        span = f"{format_value(min(values), unit)} … {format_value(max(values), unit)}"
        blocks.append(f"{title}\n{sparkline(values)}  {span}, {plural(len(values), 'run')}")
        first = max(0, len(values) - limit)
        dates = point_dates([point.run for point in one.points])
        rows = tuple(_history_row(one, i, dates[i]) for i in range(first, len(values)))
        headers = ("commit", "date", "value", "change", "author", "subject")
        blocks.append(Table(headers, rows, frozenset({2, 3}), spare=(4,), cut=5))
    return blocks


def _history_row(series: Series, index: int, date: str) -> tuple[str, ...]:
    point = series.points[index]
    revision = point.run.revision
    return (
        commit_label(point.run),
        date,
        format_value(point.value, series.metric.unit),
        change_before(series.points, index),
        revision.author,
        revision.subject[:60],
    )


def change_before(points: Sequence[Point], index: int) -> str:
    """The change of one point against the one before it, empty for the first."""
    if index == 0 or points[index - 1].value == 0:
        return ""
    return format_change(points[index].value / points[index - 1].value)


def runs_blocks(runs: Sequence[Run]) -> list[Block]:
    """`perfgate runs`: one row per run, newest first."""
    if not runs:
        return ["no runs yet: `perfgate run` makes the first one"]
    rows = tuple(
        (
            run.run_id,
            commit_label(run),
            run.revision.branch,
            minute(run.started_at),
            "closed" if run.finished_at else "open",
            run.source,
            run.session,
        )
        for run in runs
    )
    headers = ("run", "commit", "branch", "started", "state", "source", "session")
    return [Table(headers, rows, spare=(5, 6, 2, 4))]


def _warnings(warnings: Iterable[str]) -> list[Block]:
    lines = [one_line(f"warning: {warning}") for warning in warnings]
    return ["\n".join(lines)] if lines else []


def plain(blocks: Iterable[Block]) -> str:
    """The blocks separated by empty lines, ending with a newline."""
    texts = [_safe(block) if isinstance(block, str) else _text(lay(block)) for block in blocks]
    return "\n\n".join(texts) + "\n"


def _text(laid: Laid) -> str:
    return "\n".join("".join(cell.text for cell in line) for line in laid.lines)


def _safe(paragraph: str) -> str:
    return "\n".join(map(one_line, paragraph.splitlines()))


def show(blocks: Sequence[Block]) -> None:
    """Print to stdout: in colour and as wide as a terminal is, `plain` text anywhere else."""
    if not sys.stdout.isatty():
        sys.stdout.write(plain(blocks))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    left_out: dict[str, None] = {}
    for number, block in enumerate(blocks):
        console.print("\n" if number else "", end="")
        if isinstance(block, str):
            console.print(Text(_safe(block)))
            continue
        laid = lay(block, console.width)
        left_out |= dict.fromkeys(laid.left_out)
        for line in laid.lines:
            pieces = [(cell.text, _style(cell.text, cell.role)) for cell in line]
            console.print(Text.assemble(*pieces), soft_wrap=True)
    if left_out:
        told = f"no room for {', '.join(left_out)}: a wider terminal or `| less -S` shows them"
        console.print(Text(f"\n{told}", "dim"))


def _style(text: str, role: str) -> str:
    return STYLES.get(text.strip(), "") if role == "word" else _ROLES.get(role, "")


__all__ = [
    "SHOWN_METRICS",
    "Block",
    "Table",
    "change_before",
    "gate_blocks",
    "history_blocks",
    "one_line",
    "plain",
    "run_blocks",
    "runs_blocks",
    "show",
]
