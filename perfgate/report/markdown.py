"""A comparison as GitHub-flavoured Markdown, for a pull-request comment or a job summary.

In: a `GateView`. Out: at most `MAX_CHARACTERS`, because GitHub refuses a longer comment whole; rows
are dropped from the least important section first, and the text says how many. Names, reasons and
labels are foreign text: none can open a tag, end a cell, mention a person or link an issue.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from perfgate.figures import plural
from perfgate.model import Word
from perfgate.report.view import GateView, VerdictRow

MAX_CHARACTERS = 60_000
_RESERVED_FOR_NOTES = 300
_LONGEST_TEXT = 300
_MOST_WARNINGS = 10

_SIGNS = {
    Word.REGRESSED: "🔴",
    Word.FAILED: "🔴",
    Word.TIMED_OUT: "🔴",
    Word.IMPROVED: "🟢",
    Word.UNCHANGED: "⚪",
    Word.NEW: "🔵",
    Word.WAIVED: "🟣",
    Word.NOT_COMPARED: "⚪",
}
_UNDECIDED_SIGN = "🟡"
_SPECIAL = re.compile(r"[&<>|`*_\[\]()~\\!{}$@]")
_LINKS = re.compile(r"://|www\.")
_MENTIONS = re.compile(r"[@#]|GH-")
_HEADER = (
    "| verdict | case | metric | base | head | change | interval |\n|:--|:--|:--|--:|--:|--:|:--|\n"
)


def gate_markdown(view: GateView, more: str = "") -> str:
    """The whole comment. `more` says where to find the rest, such as the name of an artifact."""
    title = f"### perfgate: {escape(view.headline)}\n\n"
    why = f" ({escape(view.why_base)})" if view.why_base else ""
    sides = f"base {code(view.base)}{why}<br>head {code(view.head)}\n\n"
    warnings = "".join(f"> ⚠️ {escape(warning)}\n>\n" for warning in view.warnings[:_MOST_WARNINGS])
    foot = f"\n{escape(more)}\n" if more else ""
    budget = MAX_CHARACTERS - sum(map(len, (title, sides, warnings, foot))) - _RESERVED_FOR_NOTES
    sections = (
        ("", view.attention),
        ("Other changes", view.notable),
        (f"Unchanged ({len(view.quiet)})", view.quiet),
    )
    parts = []
    for heading, rows in sections:
        part = _section(heading, rows, budget)
        budget -= len(part)
        parts.append(part)
    return title + sides + warnings + ("\n" if warnings else "") + "".join(parts) + foot


def _section(heading: str, rows: Sequence[VerdictRow], budget: int) -> str:
    """One table, folded where it has a heading; a note where there is no room for a table."""
    before = f"<details><summary>{heading}</summary>\n\n" if heading else ""
    after = "\n</details>\n\n" if heading else "\n"
    room = budget - len(before) - len(_HEADER) - len(_left_out(len(rows))) - len(after)
    if not rows:
        return ""
    kept: list[str] = []
    for row in rows:
        text = "".join(_row(row))
        room -= len(text)
        if room < 0:
            break
        kept.append(text)
    note = _left_out(len(rows) - len(kept))
    if not kept:
        return note
    return before + _HEADER + "".join(kept) + note + after


def _left_out(count: int) -> str:
    return f"\n… and {plural(count, 'more case')} that did not fit here.\n\n" if count else ""


def _row(row: VerdictRow) -> list[str]:
    first = f"{_SIGNS.get(row.word, _UNDECIDED_SIGN)} {escape(row.word.value)}"
    reason = f"<br>{escape(row.reason)}" if row.reason and row.word is not Word.UNCHANGED else ""
    name = code(row.case_id) + reason
    if not row.lines:
        return [_cells(first, name, "", "", "", "", "")]
    rows = []
    for index, line in enumerate(row.lines):
        metric = code(line.metric) + ("" if line.gates else " (no gate)")
        lead = (first, name) if index == 0 else ("", "")
        numbers = (line.base, line.head, line.change, line.interval)
        rows.append(_cells(*lead, metric, *map(escape, numbers)))
    return rows


def _cells(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |\n"


def escape(text: str) -> str:
    """Foreign text that reads as itself: entities for markup, a zero-width space inside links."""
    return _escaped(_MENTIONS.sub(_broken, _short(text)))


def code(text: str) -> str:
    """A name in code type, where mentions and issue numbers are not linked, so it copies whole."""
    return f"<code>{_escaped(_short(text))}</code>" if text else ""


def _short(text: str) -> str:
    """On one line, and not so long that one cell could fill the comment."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST_TEXT else flat[: _LONGEST_TEXT - 1] + "…"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"&#{ord(match.group())};", _LINKS.sub(_broken, text))


def _broken(match: re.Match[str]) -> str:
    return f"{match.group()[0]}\u200b{match.group()[1:]}"
