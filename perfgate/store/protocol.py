"""What a store promises, whatever keeps the rows; `tests/perfgate/store` checks every store.

A run is written either whole (`add_run`) or case by case: `open_run`, one `add_result` per finished
case, `close_run`. Each call is one transaction, so what was added before a crash stays. Comparisons
and history see closed runs only. "Newest" always means the latest `started_at`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from perfgate.errors import UserError
from perfgate.model import CaseResult, MetricKind, Run

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One case in one closed run. `run` has no results; `result` has no profile or timeline."""

    run: Run
    result: CaseResult


class Store(Protocol):
    """Runs and their results. A run returned without its results is called a header.

    Every method raises `UserError` where the store cannot be read or written.
    """

    def open_run(self, run: Run) -> None:
        """Begin `run`, which has no results yet and is not finished; its id must be unused."""

    def add_result(self, run_id: str, result: CaseResult) -> None:
        """Keep one finished case of an open run, replacing an earlier result of the same case."""

    def close_run(self, run_id: str, finished_at: str, warnings: Sequence[str] = ()) -> None:
        """Finish an open run; `warnings` are added to those it was opened with."""

    def add_run(self, run: Run) -> None:
        """Keep a whole finished run. Adding the same run again changes nothing.

        A different run under the same id, or a case that appears twice, is a `UserError`.
        """

    def run(self, run_id: str) -> Run:
        """One run, open or closed, with its results in the order they were added.

        A unique beginning of an id stands for the id.
        """

    def runs(self, *, include_open: bool = False, limit: int | None = None) -> tuple[Run, ...]:
        """Headers, newest first; at most `limit` of them."""

    def runs_at(self, commit: str) -> tuple[Run, ...]:
        """Headers of the closed runs at one commit, newest first."""

    def history(self, case_id: str) -> tuple[HistoryPoint, ...]:
        """One case over all closed runs, oldest first."""

    def histories(
        self, case_ids: Collection[str] | None = None, *, newest: int | None = None
    ) -> Mapping[str, tuple[HistoryPoint, ...]]:
        """The history of many cases, or of all, by case id and sorted by it.

        `newest` leaves out all but that many of the newest closed runs. A case without history is
        not there.
        """

    def case_ids(self) -> tuple[str, ...]:
        """Every case of a closed run, sorted."""

    def cached(self, case_id: str, digest: str) -> CaseResult | None:
        """The newest result, in any run, that still holds for inputs with this digest.

        That is an `ok` result of the case with this non-empty digest, at least one sample and none
        that is sampled rather than exact.
        """

    def close(self) -> None:
        """Let go of the database. The store is not used afterwards."""


def header(run: Run) -> Run:
    """The run without its results."""
    return dataclasses.replace(run, results=())


def without_attachments(result: CaseResult) -> CaseResult:
    """The result without its profile and timeline."""
    return dataclasses.replace(result, profile=None, timeline=())


def reusable(result: CaseResult) -> bool:
    """Whether every number of the result is exact, so that the same inputs give it again."""
    return bool(result.samples) and all(
        s.metric.kind is MetricKind.EXACT and len(s.values) <= 1 for s in result.samples
    )


def microseconds(time: str) -> int:
    """An ISO 8601 time as microseconds since 1970, the order of runs; no offset means UTC.

    No time at all sorts before every time. Raises `UserError` for any other text.
    """
    if not time:
        return -(2**62)
    try:
        parsed = datetime.fromisoformat(time)
    except ValueError:
        raise UserError(
            f"time of a run: expected ISO 8601, got {time!r}", "write 2025-01-31T12:00:00+00:00"
        ) from None
    moment = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def check_opening(run: Run) -> None:
    """Refuse a run that cannot be opened: one with results, or one that is finished."""
    if run.results or run.finished_at:
        raise ValueError(f"run {run.run_id}: opened with results or as finished")
    microseconds(run.started_at)


def check_whole(run: Run) -> None:
    """Refuse a run that cannot be added whole: an unfinished one, or a case given twice."""
    if not run.finished_at:
        raise UserError(f"run {run.run_id}: not finished", "finish it with `perfgate run --resume`")
    microseconds(run.started_at)
    seen: set[str] = set()
    for result in run.results:
        if result.case_id in seen:
            raise UserError(
                f"run {run.run_id}: case {result.case_id} appears twice",
                "give each case its own id",
            )
        seen.add(result.case_id)


def unknown_run(run_id: str) -> UserError:
    """No run has this id or an id that begins so."""
    return UserError(f"run {run_id}: not in the store", "see the ids with `perfgate runs`")


def ambiguous_run(run_id: str, found: Sequence[str]) -> UserError:
    """Several ids begin with `run_id`."""
    shown = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
    return UserError(f"run {run_id}: matches {shown}", "give more of the run id")


def taken_run(run_id: str) -> UserError:
    """Another run has this id."""
    return UserError(f"run {run_id}: already in the store", "give the new run another id")


def closed_run(run_id: str) -> UserError:
    """The run was finished before, so nothing can be added to it."""
    return UserError(f"run {run_id}: already closed", "start a new one with `perfgate run`")
