"""`perfgate history` and `perfgate runs`: what the store holds, to read in a terminal."""

from __future__ import annotations

import dataclasses
import sys
from difflib import get_close_matches

from perfgate.commands.workspace import here, opened
from perfgate.errors import UserError
from perfgate.figures import plural
from perfgate.report import json, text
from perfgate.report.view import view_history
from perfgate.store import HistoryPoint


def show_history(
    name: str, metric: str | None, limit: int, store_url: str | None, as_json: bool
) -> None:
    """Print the history of the one case that `name` stands for."""
    with opened(here(), store_url) as store:
        case_id = find_case(name, store.case_ids())
        history = store.history(case_id)
    if metric is not None:
        history = _only_metric(case_id, history, metric)
    if as_json:
        sys.stdout.write(json.history_json(case_id, history))
    else:
        text.show(text.history_blocks(case_id, view_history(history), limit))


def find_case(name: str, case_ids: tuple[str, ...]) -> str:
    """The case with that id, or the only one whose id contains every word of `name`."""
    found = [case_id for case_id in case_ids if all(word in case_id for word in name.split())]
    if name in case_ids or len(found) == 1:
        return name if name in case_ids else found[0]
    if found:
        shown = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
        raise UserError(
            f"case {name!r}: matches {plural(len(found), 'case')}: {shown}", "give more of the id"
        )
    close = get_close_matches(name, case_ids, n=1, cutoff=0.3)
    hint = f"did you mean {close[0]}?" if close else "`perfgate run` measures cases"
    raise UserError(f"case {name!r}: not in any closed run", hint)


def _only_metric(
    case_id: str, history: tuple[HistoryPoint, ...], metric: str
) -> tuple[HistoryPoint, ...]:
    known = sorted({s.metric.name for point in history for s in point.result.samples})
    if metric not in known:
        raise UserError(
            f"metric {metric!r}: {case_id} has no such metric",
            f"it has {', '.join(known)}" if known else "the case was never measured successfully",
        )
    return tuple(
        HistoryPoint(
            point.run,
            dataclasses.replace(
                point.result,
                samples=tuple(s for s in point.result.samples if s.metric.name == metric),
            ),
        )
        for point in history
    )


def list_runs(limit: int, store_url: str | None, as_json: bool) -> None:
    """Print the newest runs, open ones too."""
    with opened(here(), store_url) as store:
        runs = store.runs(include_open=True, limit=limit)
    if as_json:
        sys.stdout.write(json.runs_json(runs))
    else:
        text.show(text.runs_blocks(runs))
