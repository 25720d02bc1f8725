"""Records as rows of the tables, and rows as records."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import TypeVar

from perfgate import codec
from perfgate.model import (
    CaseResult,
    CaseStatus,
    Environment,
    Metric,
    ProfileNode,
    Revision,
    Run,
    Sample,
    Span,
    Summary,
)
from perfgate.store.protocol import microseconds
from perfgate.store.schema import AttachmentRow, JsonValue, MetricRow, ResultRow, RunRow, SampleRow

T = TypeVar("T")

# What a bulk insert takes: column name → value.
Values = dict[str, object]


def run_row(run: Run) -> RunRow:
    """A row of `runs`; the results are stored apart."""
    return RunRow(
        run_id=run.run_id,
        started_us=microseconds(run.started_at),
        started_at=run.started_at,
        finished_at=run.finished_at,
        session=run.session,
        source=run.source,
        schema_version=run.schema_version,
        commit=run.revision.commit,
        dirty=run.revision.dirty,
        branch=run.revision.branch,
        author=run.revision.author,
        subject=run.revision.subject,
        committed_at=run.revision.committed_at,
        environment=codec.encode(run.environment),
        warnings=list(run.warnings),
    )


def run_header(row: RunRow) -> Run:
    """The run of a row, without results."""
    return Run(
        run_id=row.run_id,
        revision=Revision(
            row.commit, row.dirty, row.branch, row.author, row.subject, row.committed_at
        ),
        environment=codec.decode(Environment, row.environment),
        started_at=row.started_at,
        finished_at=row.finished_at,
        session=row.session,
        source=row.source,
        warnings=_texts(row.warnings),
        schema_version=row.schema_version,
    )


def result_values(run_key: int, case_key: int, result: CaseResult) -> Values:
    """A row of `results`."""
    return {
        "run_key": run_key,
        "case_key": case_key,
        "status": result.status.value,
        # Captured output may hold what no database stores as text.
        "message": result.message.encode("utf-8", "replace").decode("utf-8"),
        "tags": list(result.tags),
        "duration_s": result.duration_s,
        "digest": result.digest,
        "cached": result.cached,
    }


def result_record(
    row: ResultRow, case_id: str, samples: Sequence[Sample], attached: AttachmentRow | None = None
) -> CaseResult:
    """The result of a row and what was stored apart from it."""
    return CaseResult(
        case_id=case_id,
        status=CaseStatus(row.status),
        samples=tuple(samples),
        profile=_unpacked(ProfileNode, attached.profile) if attached else None,
        timeline=(_unpacked(tuple[Span, ...], attached.timeline) if attached else None) or (),
        message=row.message,
        tags=_texts(row.tags),
        duration_s=row.duration_s,
        digest=row.digest,
        cached=row.cached,
    )


def sample_values(result_key: int, position: int, metric_key: int, sample: Sample) -> Values:
    """A row of `samples`."""
    return {
        "result_key": result_key,
        "position": position,
        "metric_key": metric_key,
        "values": [float(value) for value in sample.values],
        "summary": codec.encode(sample.summary),
        "one_process": sample.one_process,
        "taken": sample.taken,
    }


def sample_record(row: SampleRow, metric: Metric) -> Sample:
    """The sample of a row."""
    summary = None if row.summary is None else codec.decode(Summary, row.summary)
    values = codec.decode(tuple[float, ...], row.values, "values")
    return Sample(metric, values, summary, row.one_process, row.taken)


def metric_record(row: MetricRow) -> Metric:
    """The metric of a row."""
    return codec.decode(Metric, row.declaration)


def attachment_values(result_key: int, result: CaseResult) -> Values | None:
    """A row of `attachments`, or None where there is nothing to attach."""
    if result.profile is None and not result.timeline:
        return None
    return {
        "result_key": result_key,
        "profile": result.profile and _packed(result.profile),
        "timeline": _packed(result.timeline) if result.timeline else None,
    }


def _packed(record: object) -> bytes:
    text = json.dumps(codec.encode(record), separators=(",", ":"))
    # The higher levels take three times as long for a twentieth less.
    return zlib.compress(text.encode(), level=1)


def _unpacked(kind: type[T], data: bytes | None) -> T | None:
    if data is None:
        return None
    return codec.decode(kind, json.loads(zlib.decompress(data)), kind.__name__)


def _texts(value: JsonValue) -> tuple[str, ...]:
    return codec.decode(tuple[str, ...], value, "texts")
