"""From cases to a `Run` in the store: open, add each result as it comes, close.

A run that is interrupted, however roughly, stays open with everything that had finished; `resume`
runs the rest and closes it. Only the same revision and the same environment may resume a run, since
a run is about one of each.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from perfgate.errors import UserError
from perfgate.model import CaseResult, CaseStatus, Environment, MetricKind, Revision, Run
from perfgate.suite.benchmark import Case
from perfgate.suite.runner import RunOptions, run_cases

if TYPE_CHECKING:
    # Every process of a case would pay for this import.
    from perfgate.store import Store

SOURCE = "perfgate"


class Clock(Protocol):
    """The time of day, in UTC."""

    def now(self) -> datetime: ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class Progress(Protocol):
    """What somebody watching a run wants to hear, in the thread that runs it."""

    def total(self, count: int) -> None:
        """How many cases will be run; comes first, and once."""

    def started(self, case: Case) -> None:
        """A process for the case was started."""

    def finished(self, result: CaseResult) -> None:
        """The result is in the store."""


class NoProgress:
    """Nobody is watching."""

    def total(self, count: int) -> None: ...

    def started(self, case: Case) -> None: ...

    def finished(self, result: CaseResult) -> None: ...


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """`limits` of the run, its `session` (see `Run`), and whether stored results may be used."""

    limits: RunOptions = field(default=RunOptions())
    session: str = ""
    use_cache: bool = True
    clock: Clock = field(default_factory=SystemClock)


DEFAULTS = RecordOptions()
SILENT = NoProgress()


def record_run(
    store: Store,
    cases: Sequence[Case],
    revision: Revision,
    environment: Environment,
    options: RecordOptions = DEFAULTS,
    progress: Progress = SILENT,
) -> Run:
    """Run the cases and give the closed run. Interrupted, the run stays open in the store."""
    if not cases:
        raise UserError("no case to run", "name a suite that has some: perfgate run FOLDER")
    now = options.clock.now()
    run = Run(
        run_id=new_run_id(now),
        revision=revision,
        environment=environment,
        started_at=_iso(now),
        session=options.session,
        source=SOURCE,
    )
    store.open_run(run)
    return _complete(store, run.run_id, cases, options, progress)


def resume(
    store: Store,
    run_id: str,
    cases: Sequence[Case],
    options: RecordOptions = DEFAULTS,
    progress: Progress = SILENT,
) -> Run:
    """Run those cases that the open run (of `find_open`) has no result of, and close it."""
    run = store.run(run_id)
    if run.finished_at:
        raise UserError(f"run {run.run_id}: finished already", "start a new one: perfgate run")
    done = {r.case_id for r in run.results if r.status is not CaseStatus.NOT_RUN}
    missing = [case for case in cases if case.case_id not in done]
    return _complete(store, run.run_id, missing, options, progress)


def find_open(store: Store, revision: Revision, environment: Environment) -> Run:
    """The newest run that was interrupted here: same commit, same changes, same environment."""
    candidates = [
        run
        for run in store.runs(include_open=True)
        if not run.finished_at and run.source == SOURCE and _is_same_tree(run.revision, revision)
    ]
    if not candidates:
        raise UserError(
            f"no interrupted run of this working tree ({_shown(revision)})",
            "start a new one: perfgate run, without --resume",
        )
    run = candidates[0]
    if run.environment.fingerprint() != environment.fingerprint():
        raise UserError(
            f"run {run.run_id}: was measured in another environment "
            f"({run.environment.fingerprint()}, this is {environment.fingerprint()})",
            "start a new one: perfgate run, without --resume",
        )
    return store.run(run.run_id)


def new_run_id(now: datetime) -> str:
    """Unique, and later ids sort after earlier ones: `20261201T031656123-9f3a1c`."""
    return f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03d}-{os.urandom(3).hex()}"


def _complete(
    store: Store,
    run_id: str,
    cases: Sequence[Case],
    options: RecordOptions,
    progress: Progress,
) -> Run:
    doubts: list[str] = []

    def keep(result: CaseResult) -> None:
        store.add_result(run_id, result)
        doubts.extend(_doubts(result))
        progress.finished(result)

    def stored(case_id: str, digest: str) -> CaseResult | None:
        return store.cached(case_id, digest) if options.use_cache else None

    progress.total(len(cases))
    warnings = run_cases(cases, options.limits, keep, progress.started, stored)
    store.close_run(run_id, _iso(options.clock.now()), (*warnings, *doubts))
    return store.run(run_id)


def _doubts(result: CaseResult) -> Iterator[str]:
    for sample in result.samples:
        if sample.metric.kind is MetricKind.EXACT and len(sample.values) > 1:
            first, second, *_ = sample.values
            yield (
                f"{result.case_id}: exact metric {sample.metric.name} was {first:.6g} and then "
                f"{second:.6g}: the benchmark is not deterministic"
            )


def _is_same_tree(one: Revision, other: Revision) -> bool:
    return (one.commit, one.dirty) == (other.commit, other.dirty)


def _shown(revision: Revision) -> str:
    commit = revision.commit[:12] or "no commit"
    return f"{commit}, with changes {revision.dirty[:8]}" if revision.dirty else commit


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
