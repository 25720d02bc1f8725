"""What `--json` prints: the records themselves through `codec`, with a little around them.

Every document names its `kind` and `schema_version`. Runs inside a comparison are headers, because
the comparisons already hold the numbers; profiles and timelines are left out everywhere, since one
of them can be larger than all samples of a run.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence

from perfgate.codec import encode
from perfgate.model import SCHEMA_VERSION, CaseResult, GateResult, Run
from perfgate.store import HistoryPoint


def _document(kind: str, content: Mapping[str, object]) -> str:
    whole = {"kind": kind, "schema_version": SCHEMA_VERSION, **content}
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def run_json(run: Run) -> str:
    """One run with its samples; `run` decodes as a `Run`."""
    slim = dataclasses.replace(run, results=tuple(map(_slim, run.results)))
    return _document("run", {"run": encode(slim)})


def gate_json(result: GateResult, exit_code: int, why_base: str = "") -> str:
    """One comparison; `gate` decodes as a `GateResult`, `exit_code` is the process's own.

    `why_base` says why this run is the baseline, or why there is none.
    """
    base = None if result.base is None else _header(result.base)
    slim = dataclasses.replace(result, base=base, head=_header(result.head))
    content = {"exit_code": exit_code, "why_base": why_base, "gate": encode(slim)}
    return _document("gate", content)


def history_json(case_id: str, history: Sequence[HistoryPoint]) -> str:
    """One case over all runs, oldest first."""
    points = [{"run": encode(point.run), "result": encode(point.result)} for point in history]
    return _document("history", {"case_id": case_id, "points": points})


def runs_json(runs: Sequence[Run]) -> str:
    """Run headers, newest first."""
    return _document("runs", {"runs": [encode(_header(run)) for run in runs]})


def import_json(runs: Sequence[Run]) -> str:
    """What an import stored: run headers and how many cases each has."""
    rows = [{"run": encode(_header(run)), "cases": len(run.results)} for run in runs]
    return _document("import", {"runs": rows})


def report_json(path: str, runs: int, cases: int) -> str:
    """Where the report is and how much it shows."""
    return _document("report", {"path": path, "runs": runs, "cases": cases})


def _header(run: Run) -> Run:
    return dataclasses.replace(run, results=())


def _slim(result: CaseResult) -> CaseResult:
    return dataclasses.replace(result, profile=None, timeline=())
