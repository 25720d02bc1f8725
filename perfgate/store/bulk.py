"""The history of many cases at once: a handful of statements, columns instead of rows as objects.

What repeats is decoded once: run headers, metrics and tags. The values of many samples are decoded
together, for which JSON columns are read as text.
"""

from __future__ import annotations

import contextlib
import gc
import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from sqlalchemy import ColumnElement, Text, cast, select, true
from sqlalchemy.orm import Session

from perfgate import codec
from perfgate.model import CaseResult, CaseStatus, Run, Sample, Summary
from perfgate.store.protocol import HistoryPoint
from perfgate.store.rows import metric_record, run_header
from perfgate.store.schema import CaseRow, MetricRow, ResultRow, RunRow, SampleRow

# Names looked up in one statement; databases limit the parameters of a statement.
LOOKUP_SIZE = 500
# Rows whose JSON is decoded together: enough to make the call cheap, little enough to hold twice.
_CHUNK_ROWS = 10_000

_STATUSES = {status.value: status for status in CaseStatus}
_RESULT_COLUMNS = (
    ResultRow.key,
    ResultRow.run_key,
    ResultRow.case_key,
    ResultRow.status,
    ResultRow.message,
    cast(ResultRow.tags, Text),
    ResultRow.duration_s,
    ResultRow.digest,
    ResultRow.cached,
)
_SAMPLE_COLUMNS = (
    SampleRow.result_key,
    SampleRow.metric_key,
    cast(SampleRow.values, Text),
    cast(SampleRow.summary, Text),
    SampleRow.one_process,
    SampleRow.taken,
)

Samples = dict[int, list[Sample]]


def read_histories(
    session: Session, case_ids: Collection[str] | None, newest: int | None
) -> dict[str, tuple[HistoryPoint, ...]]:
    """See `Store.histories`."""
    headers = _closed_runs(session, newest)
    found: dict[str, tuple[HistoryPoint, ...]] = {}
    with _no_garbage_collection():
        for chosen in _conditions(case_ids, newest, headers):
            found |= _histories(session, headers, chosen)
    return dict(sorted(found.items()))


def slices(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Names in as many lists as statements are needed to look them up."""
    return (names[at : at + LOOKUP_SIZE] for at in range(0, len(names), LOOKUP_SIZE))


def _closed_runs(session: Session, newest: int | None) -> dict[int, Run]:
    """Headers by key, oldest first."""
    query = (
        select(RunRow)
        .where(RunRow.finished_at != "")
        .order_by(RunRow.started_us.desc(), RunRow.run_id.desc())
        .limit(newest)
    )
    rows = session.scalars(query).all()
    return {row.key: run_header(row) for row in reversed(rows)}


def _conditions(
    case_ids: Collection[str] | None, newest: int | None, headers: dict[int, Run]
) -> Iterator[ColumnElement[bool]]:
    """What to ask of results, one condition a statement; open runs are left out later."""
    recent = true() if newest is None else ResultRow.run_key.in_(sorted(headers))
    if case_ids is None:
        yield recent
        return
    for names in slices(sorted(set(case_ids))):
        keys = select(CaseRow.key).where(CaseRow.case_id.in_(names))
        yield ResultRow.case_key.in_(keys) & recent


def _histories(
    session: Session, headers: dict[int, Run], chosen: ColumnElement[bool]
) -> dict[str, tuple[HistoryPoint, ...]]:
    samples = _samples(session, chosen)
    results: defaultdict[int, dict[int, CaseResult]] = defaultdict(dict)
    for run_key, case_key, result in _results(session, samples, chosen):
        results[run_key][case_key] = result
    points: defaultdict[str, list[HistoryPoint]] = defaultdict(list)
    for run_key, header in headers.items():
        for result in results[run_key].values():
            points[result.case_id].append(HistoryPoint(header, result))
    return {case_id: tuple(listed) for case_id, listed in points.items()}


def _results(
    session: Session, samples: Samples, chosen: ColumnElement[bool]
) -> Iterator[tuple[int, int, CaseResult]]:
    """Run key, case key and result without attachments."""
    names = {row.key: row.case_id for row in session.scalars(select(CaseRow))}
    tags: dict[str, tuple[str, ...]] = {}
    rows = session.execute(select(*_RESULT_COLUMNS).where(chosen))
    for key, run_key, case_key, status, message, words, took, digest, cached in rows:
        if words not in tags:
            tags[words] = codec.decode(tuple[str, ...], json.loads(words), "tags")
        yield (
            run_key,
            case_key,
            CaseResult(
                names[case_key],
                _STATUSES[status],
                tuple(samples.get(key, ())),
                message=message,
                tags=tags[words],
                duration_s=took,
                digest=digest,
                cached=cached,
            ),
        )


def _samples(session: Session, chosen: ColumnElement[bool]) -> Samples:
    """The samples of each result, in their order."""
    metrics = {row.key: metric_record(row) for row in session.scalars(select(MetricRow))}
    query = select(*_SAMPLE_COLUMNS).order_by(SampleRow.result_key, SampleRow.position)
    if chosen is not true():
        query = query.where(SampleRow.result_key.in_(select(ResultRow.key).where(chosen)))
    samples: Samples = defaultdict(list)
    for rows in session.execute(query).partitions(_CHUNK_ROWS):
        numbers = json.loads(f"[{','.join(values for _, _, values, *_ in rows)}]")
        for (key, metric_key, _, summary, shared, taken), values in zip(rows, numbers, strict=True):
            sample = Sample(metrics[metric_key], tuple(values), _summary(summary), shared, taken)
            samples[key].append(sample)
    return samples


def _summary(text: str | None) -> Summary | None:
    return None if text is None else codec.decode(Summary, json.loads(text), "summary")


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Half the time would go into looking for garbage among rows that are all kept."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
