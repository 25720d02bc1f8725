"""`perfgate run`: a suite is measured, kept, shown as a table, and the report is made again."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from perfgate.commands.progress import Watched, watching
from perfgate.commands.publish import quick_length, read_site, save_site
from perfgate.commands.workspace import here, opened
from perfgate.config import Config, source_folders
from perfgate.environment import read_environment
from perfgate.figures import plural
from perfgate.model import CaseStatus, Run
from perfgate.report import json, text
from perfgate.report.view import run_label, view_run
from perfgate.store import Store
from perfgate.suite import Case, RecordOptions, RunOptions, discover, find_open, record_run, resume
from perfgate.vcs import read_revision

PASSED, UNDECIDED, STOPPED = 0, 3, 130


@dataclass(frozen=True, slots=True)
class Request:
    """What `perfgate run` was asked; None means the default that its help states."""

    suite: Path | None = None
    pattern: str | None = None
    jobs: int | None = None
    timeout_s: float | None = None
    use_cache: bool = True
    verify: bool = False
    resume: bool = False
    session: str = ""
    store: str | None = None
    report: bool = True
    as_json: bool = False


def measure(request: Request) -> int:
    """Run the cases and return 3 if any of them failed, else 0; 130 if Ctrl-C stopped it."""
    config = here()
    suite = request.suite or config.suite
    cases = discover(suite, request.pattern, source_folders(config), config.root)
    with opened(config, request.store, write=True) as store:
        with watching() as watched:
            try:
                run = _recorded(config, store, cases, request, watched)
            except KeyboardInterrupt:
                watched.stop()
                return _stopped(request, watched)
        _print(run, request.as_json)
        if request.report:
            _report(config, store)
    return PASSED if all(r.status is CaseStatus.OK for r in run.results) else UNDECIDED


def _recorded(
    config: Config, store: Store, cases: tuple[Case, ...], request: Request, watched: Watched
) -> Run:
    revision, environment = read_revision(config.root), read_environment()
    limits = RunOptions(jobs=request.jobs, verify=request.verify)
    if request.timeout_s is not None:
        limits = replace(limits, timeout_s=request.timeout_s)
    # A stored number was not measured twice.
    use_cache = request.use_cache and not request.verify
    options = RecordOptions(limits, request.session, use_cache)
    if not request.resume:
        return record_run(store, cases, revision, environment, options, watched)
    interrupted = find_open(store, revision, environment)
    return resume(store, interrupted.run_id, cases, options, watched)


def _print(run: Run, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.run_json(run))
        return
    text.show(text.run_blocks(view_run(run)))
    print(f"kept as {run_label(run)}")


def _report(config: Config, store: Store) -> None:
    """The line goes to stderr, so that stdout stays a table, or JSON."""
    site = read_site(config, store, newest=quick_length(len(store.case_ids())))
    path = save_site(site, config)
    more = f" (the newest {plural(len(site.runs), 'run')})" if site.older_runs else ""
    print(f"report: {path}{more}", file=sys.stderr)


def _stopped(request: Request, watched: Watched) -> int:
    kept = f"stopped: {watched.done} of {plural(watched.count, 'case')} finished and kept"
    print(f"error: {kept}", file=sys.stderr)
    words = ["perfgate", "run", "--resume"]
    words += [str(request.suite)] if request.suite else []
    words += ["-k", request.pattern] if request.pattern else []
    words += ["--store", request.store] if request.store else []
    print(f"hint: `{shlex.join(words)}` measures the rest", file=sys.stderr)
    return STOPPED
