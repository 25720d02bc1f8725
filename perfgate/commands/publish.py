"""`perfgate report`: the page of everything in the store, also made after each `perfgate run`."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path

from perfgate.baseline import find_baseline, find_session
from perfgate.commands.workspace import REPORT_FOLDER, here, opened, write_file
from perfgate.config import Config
from perfgate.errors import UserError
from perfgate.figures import plural
from perfgate.gate import compare_runs
from perfgate.model import Run
from perfgate.report import json
from perfgate.report.html import Site, render
from perfgate.report.view import natural, view_gate
from perfgate.store import Store

# Results on the page that every `perfgate run` writes: about a second's work, and a page of 3 MB.
QUICK_RESULTS = 20_000
FEWEST_RUNS = 30


@dataclass(frozen=True, slots=True)
class Request:
    """What `perfgate report` was asked; None means the default that its help states."""

    folder: Path | None = None
    base: str | None = None
    newest: int | None = None
    store: str | None = None
    as_json: bool = False


def write_report(request: Request) -> None:
    """Write the page and say where it is."""
    config = here()
    with opened(config, request.store) as store:
        site = read_site(config, store, request.base, request.newest)
    path = save_site(site, config, request.folder)
    if request.as_json:
        sys.stdout.write(json.report_json(str(path), len(site.runs), len(site.histories)))
    else:
        size = f"{plural(len(site.histories), 'case')}, {plural(len(site.runs), 'run')}"
        print(f"report: {path} ({size})")


def save_site(site: Site, config: Config, folder: Path | None = None) -> Path:
    """Write `index.html` into the folder, which is `.perfgate/report` if not given."""
    path = (folder or config.root / REPORT_FOLDER) / "index.html"
    write_file(path, render(site))
    return path


def quick_length(cases: int) -> int:
    """How many runs a page of that many cases can show without anybody waiting for it."""
    return max(FEWEST_RUNS, QUICK_RESULTS // max(cases, 1))


def read_site(
    config: Config, store: Store, base_rev: str | None = None, newest: int | None = None
) -> Site:
    """What the page shows: closed runs, their cases, and the newest run against its base.

    `newest` leaves out all but that many of the newest runs.
    """
    every = store.runs()
    runs = every[:newest]
    histories = store.histories(newest=newest)
    site = Site(
        title=config.root.name,
        runs=runs,
        histories={case_id: histories[case_id] for case_id in sorted(histories, key=natural)},
        older_runs=len(every) - len(runs),
    )
    if not runs:
        return site
    head = store.run(runs[0].run_id)
    base, why = _base_of(config, store, head, base_rev)
    if base is None:
        return site
    others = find_session(store, base, head)
    gate = view_gate(compare_runs(base, head, config.policy, others=others), why)
    title = "Newest run against " + (base_rev or "the run before")
    return dataclasses.replace(site, gate=gate, comparison_title=title)


def _base_of(
    config: Config, store: Store, head: Run, base_rev: str | None
) -> tuple[Run | None, str]:
    """The baseline by revision and why, else the newest clean run of another commit."""
    if base_rev is None:
        _, *older = store.runs()
        before = next((run for run in older if _is_earlier_state(run, head)), None)
        return before and store.run(before.run_id), ""
    baseline = find_baseline(store, config.root, base_rev, head)
    if baseline.run is None:
        hint = "without --base the newest run is compared with the run before"
        raise UserError(f"base {base_rev}: {baseline.reason}", hint)
    return baseline.run, baseline.reason


def _is_earlier_state(run: Run, head: Run) -> bool:
    is_clean_commit = not run.revision.dirty and run.revision.commit != head.revision.commit
    return is_clean_commit and run.source == head.source
