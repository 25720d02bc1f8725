"""Tables as lines of text, the same on a terminal and in a pipe, but for the width.

In: a `Table` and the width there is, None for any. Out: lines of `Cell`s, padded so that columns
stand under each other. A table that is too wide first loses its `spare` columns one by one; if that
is not enough, what names a row moves to a line of its own. Only a column that says so is ever cut.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

GAP = 2


@dataclass(frozen=True, slots=True)
class Table:
    """Columns named in `headers`; those in `right` are aligned right.

    The first `keys` columns name a row. `spare` are columns to leave out where there is no room,
    the first to go first; `cut` is a last column whose texts may be shortened. `styled` has words
    with a colour. Under a `title`, rows are indented.
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    styled: int | None = None
    title: str = ""
    keys: int = 0
    spare: tuple[int, ...] = ()
    cut: int | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A padded piece of a line, and its role: `title`, `header`, `word` or nothing."""

    text: str
    role: str = ""


Line = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Laid:
    """A table as lines, and the headers of the columns that had no room."""

    lines: tuple[Line, ...]
    left_out: tuple[str, ...] = ()


def lay(table: Table, width: int | None = None) -> Laid:
    """The table in at most `width` characters, where that is possible."""
    clean = _one_lined(table)
    title = [(Cell(line, "title"),) for line in _title_lines(clean, width)]
    for count in range(len(clean.spare) + 1):
        fewer, gone = _without(clean, clean.spare[:count])
        if width is None or _width(fewer) <= width:
            return Laid((*title, *_lines(fewer, False)), gone)
    for count in range(len(clean.spare) + 1):
        fewer, gone = _without(clean, clean.spare[:count])
        if _stacked_width(fewer) <= (width or 0):
            break
    stacked = fewer.keys > 0
    return Laid((*title, *_lines(_shortened(fewer, width or 0), stacked)), gone)


def one_line(text: str) -> str:
    """Text for one cell: control characters, which could move the cursor, become spaces."""
    return "".join(" " if ord(char) < 32 or 127 <= ord(char) < 160 else char for char in text)


def _one_lined(table: Table) -> Table:
    return dataclasses.replace(
        table,
        title=one_line(table.title),
        headers=tuple(map(one_line, table.headers)),
        rows=tuple(tuple(map(one_line, row)) for row in table.rows),
    )


def _title_lines(table: Table, width: int | None) -> list[str]:
    if width is None or len(table.title) <= width:
        return [table.title] if table.title else []
    return textwrap.wrap(
        table.title, width, subsequent_indent=" " * 2 * GAP, break_on_hyphens=False
    )


def _without(table: Table, columns: Sequence[int]) -> tuple[Table, tuple[str, ...]]:
    """The table without some columns, none of which names a row, and their headers."""
    kept = [i for i in range(len(table.headers)) if i not in columns]

    def pick(row: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(row[i] for i in kept)

    def place(column: int | None) -> int | None:
        return kept.index(column) if column in kept else None

    smaller = dataclasses.replace(
        table,
        headers=pick(table.headers),
        rows=tuple(map(pick, table.rows)),
        right=frozenset(kept.index(i) for i in table.right if i in kept),
        styled=place(table.styled),
        cut=place(table.cut),
        spare=(),
    )
    return smaller, tuple(table.headers[i] for i in sorted(columns))


def _widths(table: Table) -> list[int]:
    return [max(map(len, column)) for column in zip(table.headers, *table.rows, strict=True)]


def _width(table: Table) -> int:
    widths = _widths(table)
    return sum(widths) + GAP * (len(widths) - 1) + _indent(table)


def _stacked_width(table: Table) -> int:
    widths = _widths(table)[table.keys :]
    return sum(widths) + GAP * len(widths) + _indent(table)


def _indent(table: Table) -> int:
    return GAP if table.title else 0


def _shortened(table: Table, width: int) -> Table:
    """The table with its `cut` column as narrow as the width asks, if it has one."""
    over = _width(table) - width
    if table.cut is None or over <= 0:
        return table
    room = max(len(table.headers[table.cut]), _widths(table)[table.cut] - over)

    def shorten(row: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(
            text[: room - 1] + "…" if i == table.cut and len(text) > room else text
            for i, text in enumerate(row)
        )

    return dataclasses.replace(table, rows=tuple(map(shorten, table.rows)))


def _lines(table: Table, stacked: bool) -> Iterator[Line]:
    """Header and rows; in a stacked table the keys of a row stand on the line before it."""
    first = table.keys if stacked else 0
    indent = " " * (_indent(table) + (GAP if stacked else 0))
    widths = _widths(table)
    yield _line(table, table.headers, widths, (first, indent, "header"))
    for row in table.rows:
        if stacked and any(row[:first]):
            yield (Cell(" " * _indent(table) + _keys(table, row)),)
        yield _line(table, row, widths, (first, indent, ""))


def _keys(table: Table, row: tuple[str, ...]) -> str:
    if table.keys == 1 and not table.title:
        return row[0]
    told = zip(table.headers, row[: table.keys], strict=False)
    return " ".join(f"{name}={value}" for name, value in told if value)


def _line(
    table: Table, row: tuple[str, ...], widths: Sequence[int], style: tuple[int, str, str]
) -> Line:
    first, indent, role = style
    cells = [Cell(indent)] if indent else []
    last = max((i for i, text in enumerate(row) if text), default=-1)
    for column in range(first, last + 1):
        text = row[column]
        space = " " * (widths[column] - len(text))
        padded = space + text if column in table.right else text + space
        if column == last:
            padded = padded.rstrip()
        gap = "" if column == last else " " * GAP
        shown = role or ("word" if column == table.styled else "")
        cells.append(Cell(padded + gap, shown))
    return tuple(cells)
