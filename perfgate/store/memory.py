"""A store in memory: the fake for tests, held to the same contract as the database."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence

from perfgate.model import CaseResult, CaseStatus, Run
from perfgate.store.protocol import (
    HistoryPoint,
    ambiguous_run,
    check_opening,
    check_whole,
    closed_run,
    header,
    microseconds,
    reusable,
    taken_run,
    unknown_run,
    without_attachments,
)


class MemoryStore:
    """Runs in a dictionary, gone when the process ends."""

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._runs: dict[str, Run] = {}
        for run in runs:
            self.add_run(run)

    def open_run(self, run: Run) -> None:
        """See `Store.open_run`."""
        check_opening(run)
        if run.run_id in self._runs:
            raise taken_run(run.run_id)
        self._runs[run.run_id] = run

    def add_result(self, run_id: str, result: CaseResult) -> None:
        """See `Store.add_result`."""
        run = self._open(run_id)
        others = tuple(r for r in run.results if r.case_id != result.case_id)
        self._runs[run_id] = dataclasses.replace(run, results=(*others, result))

    def close_run(self, run_id: str, finished_at: str, warnings: Sequence[str] = ()) -> None:
        """See `Store.close_run`."""
        run = self._open(run_id)
        self._runs[run_id] = dataclasses.replace(
            run, finished_at=finished_at, warnings=(*run.warnings, *warnings)
        )

    def add_run(self, run: Run) -> None:
        """See `Store.add_run`."""
        check_whole(run)
        if self._runs.get(run.run_id, run) != run:
            raise taken_run(run.run_id)
        self._runs[run.run_id] = run

    def run(self, run_id: str) -> Run:
        """See `Store.run`."""
        if run_id in self._runs:
            return self._runs[run_id]
        found = sorted(known for known in self._runs if run_id and known.startswith(run_id))
        if not found:
            raise unknown_run(run_id)
        if len(found) > 1:
            raise ambiguous_run(run_id, found)
        return self._runs[found[0]]

    def runs(self, *, include_open: bool = False, limit: int | None = None) -> tuple[Run, ...]:
        """See `Store.runs`."""
        kept = [header(run) for run in self._newest() if include_open or run.finished_at]
        return tuple(kept[:limit])

    def runs_at(self, commit: str) -> tuple[Run, ...]:
        """See `Store.runs_at`."""
        return tuple(run for run in self.runs() if run.revision.commit == commit)

    def history(self, case_id: str) -> tuple[HistoryPoint, ...]:
        """See `Store.history`."""
        closed = [run for run in reversed(self._newest()) if run.finished_at]
        found = ((run, run.result(case_id)) for run in closed)
        return tuple(
            HistoryPoint(header(run), without_attachments(result))
            for run, result in found
            if result
        )

    def histories(
        self, case_ids: Collection[str] | None = None, *, newest: int | None = None
    ) -> dict[str, tuple[HistoryPoint, ...]]:
        """See `Store.histories`."""
        wanted = self.case_ids() if case_ids is None else sorted(set(case_ids))
        kept = {run.run_id for run in self.runs(limit=newest)}
        points = ((case_id, self.history(case_id)) for case_id in wanted)
        return {
            case_id: chosen
            for case_id, history in points
            if (chosen := tuple(point for point in history if point.run.run_id in kept))
        }

    def case_ids(self) -> tuple[str, ...]:
        """See `Store.case_ids`."""
        closed = (run for run in self._runs.values() if run.finished_at)
        return tuple(sorted({result.case_id for run in closed for result in run.results}))

    def cached(self, case_id: str, digest: str) -> CaseResult | None:
        """See `Store.cached`."""
        if not digest:
            return None
        results = (run.result(case_id) for run in self._newest())
        return next(
            (
                result
                for result in results
                if result
                and result.status is CaseStatus.OK
                and result.digest == digest
                and reusable(result)
            ),
            None,
        )

    def close(self) -> None:
        """See `Store.close`."""

    def _newest(self) -> list[Run]:
        return sorted(
            self._runs.values(),
            key=lambda run: (microseconds(run.started_at), run.run_id),
            reverse=True,
        )

    def _open(self, run_id: str) -> Run:
        run = self._runs.get(run_id)
        if run is None:
            raise unknown_run(run_id)
        if run.finished_at:
            raise closed_run(run_id)
        return run
