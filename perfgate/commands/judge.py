"""`perfgate gate` and `perfgate compare`: two stored runs, the verdicts, and the exit code."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from perfgate.baseline import find_baseline, find_candidate, find_session
from perfgate.commands.workspace import here, opened, write_file
from perfgate.gate import compare_runs, exit_code
from perfgate.model import GateResult, Word
from perfgate.report import json, markdown, text
from perfgate.report.view import GateView, view_gate

_MEANING = {
    0: "pass",
    1: "a case regressed",
    3: "something could not be decided",
}


@dataclass(frozen=True, slots=True)
class Request:
    """What `perfgate gate` was asked; None means the default that its help states."""

    base: str
    head: str | None = None
    pinned: str | None = None
    markdown: Path | None = None
    store: str | None = None
    as_json: bool = False


def gate_runs(request: Request) -> int:
    """Judge the candidate against its baseline and return the gate's exit code."""
    config = here()
    pinned_name = request.pinned or config.pinned
    with opened(config, request.store) as store:
        head = find_candidate(store, config.root, request.head)
        baseline = find_baseline(store, config.root, request.base, head)
        pinned = find_candidate(store, config.root, pinned_name) if pinned_name else None
        others = find_session(store, baseline.run, head)
    result = compare_runs(baseline.run, head, config.policy, pinned, others)
    code = exit_code(result)
    view = _summarised(view_gate(result, baseline.reason), result)
    if request.markdown is not None:
        write_file(request.markdown, markdown.gate_markdown(view))
    if request.as_json:
        sys.stdout.write(json.gate_json(result, code, baseline.reason))
    else:
        text.show([*text.gate_blocks(view), f"exit code {code}: {_MEANING[code]}"])
    return code


def _summarised(view: GateView, result: GateResult) -> GateView:
    """Without a baseline no row says more than another: the headline counts them."""
    if result.base is not None:
        return view
    told = tuple(row for row in view.attention if row.lines or row.word is not Word.NO_BASELINE)
    return replace(view, attention=told)


def show_comparison(base: str, head: str, store_url: str | None, as_json: bool) -> None:
    """Show how two runs differ, each given as a run id or a revision."""
    config = here()
    with opened(config, store_url) as store:
        before = find_candidate(store, config.root, base)
        after = find_candidate(store, config.root, head)
        others = find_session(store, before, after)
    result = compare_runs(before, after, config.policy, others=others)
    if as_json:
        sys.stdout.write(json.gate_json(result, 0))
    else:
        text.show(text.gate_blocks(view_gate(result)))
