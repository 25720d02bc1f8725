"""Views as terminal text: aligned columns, or `rich` tables where the output is a terminal.

Each `*_blocks` function words one command's output as a list of paragraphs and tables; `plain` and
`show` print such a list. `plain` never cuts a name and never looks at the terminal, so that its
output can be compared with golden files and read by `grep`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfgate.model import CaseStatus, Run, Word
from perfgate.report.figures import (
    format_change,
    format_duration,
    format_value,
    plural,
    sparkline,
)
from perfgate.report.view import (
    GateView,
    Point,
    RunRow,
    RunView,
    Series,
    VerdictRow,
    commit_label,
    minute,
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


@dataclass(frozen=True, slots=True)
class Table:
    """Columns named in `headers`; those in `right` are aligned right. `styled` has word styles."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    styled: int | None = None


Block = str | Table


def run_blocks(view: RunView) -> list[Block]:
    """`perfgate run`: one row per case, the metrics most cases have, then failures in full."""
    counted = Counter(name for row in view.rows for name, _ in row.values)
    shown = [name for name in view.metrics if name in dict(counted.most_common(SHOWN_METRICS))]
    rows = tuple(_run_row(row, shown) for row in view.rows)
    right = frozenset(range(2, 3 + len(shown)))
    blocks: list[Block] = []
    if rows:
        blocks.append(Table(("case", "status", *shown, "took"), rows, right, styled=1))
    blocks += [_failure(row) for row in view.rows if row.message]
    hidden = len(view.metrics) - len(shown)
    more = f" ({plural(hidden, 'more metric')} in the report)" if hidden else ""
    return [*blocks, view.headline + more, *_warnings(view.warnings)]


def _run_row(row: RunRow, shown: Sequence[str]) -> tuple[str, ...]:
    values = dict(row.values)
    took = "cached" if row.cached else format_duration(row.duration_s)
    return (row.case_id, row.status.value, *(values.get(name, "-") for name in shown), took)


def _failure(row: RunRow) -> str:
    lines = row.message.strip().splitlines()
    if len(lines) > SHOWN_MESSAGE_LINES:
        lines = [*lines[:SHOWN_MESSAGE_LINES], "… (the report has all of it)"]
    return "\n".join([one_line(f"{row.case_id} {row.status}:"), *(f"    {line}" for line in lines)])


def gate_blocks(view: GateView) -> list[Block]:
    """`perfgate gate` and `compare`: attention, then other changes; unchanged cases are counted."""
    sides = (("base", view.base), ("", view.why_base), ("head", view.head))
    blocks: list[Block] = ["\n".join(f"{side:4}  {said}" for side, said in sides if said)]
    rows = [row for verdict in (*view.attention, *view.notable) for row in _verdict_rows(verdict)]
    if rows:
        headers = ("case", "verdict", "metric", "base", "head", "change", "interval")
        blocks.append(Table(headers, tuple(rows), frozenset({3, 4, 5}), styled=1))
    if reasons := _reasons((*view.attention, *view.notable)):
        blocks.append("\n".join(reasons))
    return [*blocks, *_warnings(view.warnings), view.headline]


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


def _verdict_rows(verdict: VerdictRow) -> list[tuple[str, ...]]:
    if not verdict.lines:
        return [(verdict.case_id, verdict.word.value, "", "", "", "", "")]
    rows: list[tuple[str, ...]] = []
    for index, line in enumerate(verdict.lines):
        word = verdict.word.value if index == 0 else ""
        metric = line.metric if line.gates else f"{line.metric} (no gate)"
        case_id = verdict.case_id if index == 0 else ""
        rows.append((case_id, word, metric, line.base, line.head, line.change, line.interval))
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
        rows = tuple(_history_row(one, index) for index in range(first, len(values)))
        headers = ("commit", "date", "value", "change", "author", "subject")
        blocks.append(Table(headers, rows, frozenset({2, 3})))
    return blocks


def _history_row(series: Series, index: int) -> tuple[str, ...]:
    point = series.points[index]
    revision = point.run.revision
    return (
        commit_label(point.run),
        minute(revision.committed_at or point.run.started_at),
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
    return [Table(("run", "commit", "branch", "started", "state", "source", "session"), rows)]


def _warnings(warnings: Iterable[str]) -> list[Block]:
    lines = [one_line(f"warning: {warning}") for warning in warnings]
    return ["\n".join(lines)] if lines else []


def plain(blocks: Iterable[Block]) -> str:
    """The blocks separated by empty lines, ending with a newline."""
    texts = [_safe(block) if isinstance(block, str) else _aligned(block) for block in blocks]
    return "\n\n".join(texts) + "\n"


def _aligned(table: Table) -> str:
    grid = [tuple(map(one_line, row)) for row in (table.headers, *table.rows)]
    widths = [max(len(row[column]) for row in grid) for column in range(len(table.headers))]
    return "\n".join(_padded(row, widths, table.right) for row in grid)


def _padded(row: tuple[str, ...], widths: Sequence[int], right: frozenset[int]) -> str:
    cells = (
        text.rjust(width) if column in right else text.ljust(width)
        for column, (text, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join(cells).rstrip()


def _safe(paragraph: str) -> str:
    return "\n".join(map(one_line, paragraph.splitlines()))


def one_line(text: str) -> str:
    """Text for one cell: control characters, which could move the cursor, become spaces."""
    return "".join(" " if ord(char) < 32 or 127 <= ord(char) < 160 else char for char in text)


def show(blocks: Sequence[Block]) -> None:
    """Print to stdout: coloured tables on a terminal, `plain` text anywhere else."""
    if not sys.stdout.isatty():
        sys.stdout.write(plain(blocks))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for block in blocks:
        if isinstance(block, str):
            console.print(Text(_safe(block)))
        else:
            console.print(_rich_table(block))


def _rich_table(table: Table) -> object:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=box.SIMPLE_HEAD)
    for column, header in enumerate(table.headers):
        side = "right" if column in table.right else "left"
        shown.add_column(header, justify=side, overflow="fold")  # type: ignore[arg-type]
    for row in table.rows:
        shown.add_row(*(Text(one_line(text), _style(table, i, text)) for i, text in enumerate(row)))
    return shown


def _style(table: Table, column: int, text: str) -> str:
    return STYLES.get(text, "") if column == table.styled else ""


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
