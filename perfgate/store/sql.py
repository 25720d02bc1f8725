"""The store over any database that SQLAlchemy knows. Each public method is one transaction."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import ColumnElement, Engine, delete, func, insert, select
from sqlalchemy.orm import Session

from perfgate import codec
from perfgate.model import CaseResult, CaseStatus, Metric, Run, Sample
from perfgate.store.bulk import read_histories, slices
from perfgate.store.engine import explained, writer
from perfgate.store.protocol import (
    HistoryPoint,
    ambiguous_run,
    check_opening,
    check_whole,
    closed_run,
    reusable,
    taken_run,
    unknown_run,
)
from perfgate.store.rows import (
    attachment_values,
    metric_record,
    result_record,
    result_values,
    run_header,
    run_row,
    sample_record,
    sample_values,
)
from perfgate.store.schema import AttachmentRow, CaseRow, MetricRow, ResultRow, RunRow, SampleRow

_NEWEST_FIRST = (RunRow.started_us.desc(), RunRow.run_id.desc())
_CLOSED = RunRow.finished_at != ""


class SqlStore:
    """A `Store` in a database that `engine.open_engine` has prepared."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._writer = writer(engine)

    def open_run(self, run: Run) -> None:
        """See `Store.open_run`."""
        check_opening(run)
        with self._write() as session:
            if _find_run(session, run.run_id):
                raise taken_run(run.run_id)
            session.add(run_row(run))

    def add_result(self, run_id: str, result: CaseResult) -> None:
        """See `Store.add_result`."""
        with self._write() as session:
            run = _open_run(session, run_id)
            same_case = select(CaseRow.key).where(CaseRow.case_id == result.case_id)
            session.execute(
                delete(ResultRow).where(
                    ResultRow.run_key == run.key, ResultRow.case_key.in_(same_case)
                )
            )
            _insert_results(session, run.key, (result,))

    def close_run(self, run_id: str, finished_at: str, warnings: Sequence[str] = ()) -> None:
        """See `Store.close_run`."""
        with self._write() as session:
            row = _open_run(session, run_id)
            row.finished_at = finished_at
            row.warnings = [*run_header(row).warnings, *warnings]

    def add_run(self, run: Run) -> None:
        """See `Store.add_run`."""
        check_whole(run)
        with self._write() as session:
            known = _find_run(session, run.run_id)
            if known and _whole(session, known) != run:
                raise taken_run(run.run_id)
            if known:
                return
            row = run_row(run)
            session.add(row)
            session.flush()
            _insert_results(session, row.key, run.results)

    def run(self, run_id: str) -> Run:
        """See `Store.run`."""
        with self._read() as session:
            row = _find_run(session, run_id) or _run_beginning(session, run_id)
            return _whole(session, row)

    def runs(self, *, include_open: bool = False, limit: int | None = None) -> tuple[Run, ...]:
        """See `Store.runs`."""
        query = select(RunRow).order_by(*_NEWEST_FIRST).limit(limit)
        with self._read() as session:
            rows = session.scalars(query if include_open else query.where(_CLOSED))
            return tuple(map(run_header, rows))

    def runs_at(self, commit: str) -> tuple[Run, ...]:
        """See `Store.runs_at`."""
        query = select(RunRow).where(_CLOSED, RunRow.commit == commit).order_by(*_NEWEST_FIRST)
        with self._read() as session:
            return tuple(map(run_header, session.scalars(query)))

    def history(self, case_id: str) -> tuple[HistoryPoint, ...]:
        """See `Store.history`."""
        return self.histories([case_id]).get(case_id, ())

    def histories(
        self, case_ids: Collection[str] | None = None, *, newest: int | None = None
    ) -> dict[str, tuple[HistoryPoint, ...]]:
        """See `Store.histories`."""
        with self._read() as session:
            return read_histories(session, case_ids, newest)

    def case_ids(self) -> tuple[str, ...]:
        """See `Store.case_ids`."""
        measured = (
            select(ResultRow.key)
            .join(RunRow, RunRow.key == ResultRow.run_key)
            .where(_CLOSED, ResultRow.case_key == CaseRow.key)
        )
        with self._read() as session:
            return tuple(sorted(session.scalars(select(CaseRow.case_id).where(measured.exists()))))

    def cached(self, case_id: str, digest: str) -> CaseResult | None:
        """See `Store.cached`."""
        if not digest:
            return None
        query = (
            select(ResultRow)
            .join(RunRow, RunRow.key == ResultRow.run_key)
            .join(CaseRow, CaseRow.key == ResultRow.case_key)
            .where(CaseRow.case_id == case_id, ResultRow.digest == digest)
            .where(ResultRow.status == CaseStatus.OK.value)
            .order_by(*_NEWEST_FIRST)
        )
        with self._read() as session:
            results = (_complete(session, row, case_id) for row in session.scalars(query))
            return next(filter(reusable, results), None)

    def close(self) -> None:
        """See `Store.close`."""
        self._engine.dispose()

    @contextmanager
    def _read(self) -> Iterator[Session]:
        with explained(self._engine), Session(self._engine) as session:
            yield session

    @contextmanager
    def _write(self) -> Iterator[Session]:
        with explained(self._engine), Session(self._writer) as session, session.begin():
            yield session


def _find_run(session: Session, run_id: str) -> RunRow | None:
    return session.scalar(select(RunRow).where(RunRow.run_id == run_id))


def _open_run(session: Session, run_id: str) -> RunRow:
    row = _find_run(session, run_id)
    if row is None:
        raise unknown_run(run_id)
    if row.finished_at:
        raise closed_run(run_id)
    return row


def _run_beginning(session: Session, prefix: str) -> RunRow:
    if not prefix:
        raise unknown_run(prefix)
    begins = func.substr(RunRow.run_id, 1, len(prefix)) == prefix
    found = session.scalars(select(RunRow).where(begins).order_by(RunRow.run_id)).all()
    if not found:
        raise unknown_run(prefix)
    if len(found) > 1:
        raise ambiguous_run(prefix, [row.run_id for row in found])
    return found[0]


def _whole(session: Session, run: RunRow) -> Run:
    """The run with all its results, in three statements however many there are."""
    ours = ResultRow.run_key == run.key
    samples = _samples(session, ours)
    attached = {
        row.result_key: row
        for row in session.scalars(
            select(AttachmentRow)
            .join(ResultRow, ResultRow.key == AttachmentRow.result_key)
            .where(ours)
        )
    }
    query = (
        select(ResultRow, CaseRow.case_id)
        .join(CaseRow, CaseRow.key == ResultRow.case_key)
        .where(ours)
        .order_by(ResultRow.key)
    )
    results = tuple(
        result_record(row, case_id, samples[row.key], attached.get(row.key))
        for row, case_id in session.execute(query)
    )
    return dataclasses.replace(run_header(run), results=results)


def _complete(session: Session, row: ResultRow, case_id: str) -> CaseResult:
    samples = _samples(session, ResultRow.key == row.key)
    return result_record(row, case_id, samples[row.key], session.get(AttachmentRow, row.key))


def _samples(session: Session, condition: ColumnElement[bool]) -> dict[int, list[Sample]]:
    """The samples of the results that meet `condition`, by result, in their order."""
    query = (
        select(SampleRow)
        .join(ResultRow, ResultRow.key == SampleRow.result_key)
        .where(condition)
        .order_by(SampleRow.result_key, SampleRow.position)
    )
    metrics = {row.key: metric_record(row) for row in session.scalars(select(MetricRow))}
    samples: dict[int, list[Sample]] = defaultdict(list)
    for row in session.scalars(query):
        samples[row.result_key].append(sample_record(row, metrics[row.metric_key]))
    return samples


def _insert_results(session: Session, run_key: int, results: Sequence[CaseResult]) -> None:
    if not results:
        return
    cases = _case_keys(session, [result.case_id for result in results])
    metrics = _metric_keys(session, {s.metric for result in results for s in result.samples})
    keys = session.scalars(
        insert(ResultRow).returning(ResultRow.key, sort_by_parameter_order=True),
        [result_values(run_key, cases[result.case_id], result) for result in results],
    ).all()
    keyed = list(zip(keys, results, strict=True))
    samples = [
        sample_values(key, position, metrics[sample.metric], sample)
        for key, result in keyed
        for position, sample in enumerate(result.samples)
    ]
    if samples:
        session.execute(insert(SampleRow), samples)
    attachments = [values for key, result in keyed if (values := attachment_values(key, result))]
    if attachments:
        session.execute(insert(AttachmentRow), attachments)


def _case_keys(session: Session, case_ids: Sequence[str]) -> dict[str, int]:
    """The key of each case; cases not seen before get one."""
    keys: dict[str, int] = {}
    for names in slices(case_ids):
        rows = session.scalars(select(CaseRow).where(CaseRow.case_id.in_(names)))
        keys |= {row.case_id: row.key for row in rows}
    absent = [case_id for case_id in case_ids if case_id not in keys]
    if absent:
        added = session.scalars(
            insert(CaseRow).returning(CaseRow), [{"case_id": case_id} for case_id in absent]
        )
        keys |= {row.case_id: row.key for row in added}
    return keys


def _metric_keys(session: Session, metrics: Iterable[Metric]) -> dict[Metric, int]:
    """The key of each metric; declarations not seen before get one."""
    wanted = set(metrics)
    keys: dict[Metric, int] = {}
    for names in slices(sorted({metric.name for metric in wanted})):
        for row in session.scalars(select(MetricRow).where(MetricRow.name.in_(names))):
            keys[metric_record(row)] = row.key
    rows = {m: MetricRow(name=m.name, declaration=codec.encode(m)) for m in wanted - keys.keys()}
    session.add_all(rows.values())
    session.flush()
    return keys | {metric: row.key for metric, row in rows.items()}
