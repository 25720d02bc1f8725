"""The tables, one class each. A change here needs a migration; a test compares the two.

Case ids and metrics repeat in every run, so each is kept once and referred to by key. Profiles and
timelines are large and rarely read, so they lie apart from the samples that history reads.
"""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Double, ForeignKey, Index, LargeBinary, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

# Every version of the schema, oldest first: the revision ids of `migrations/versions`.
REVISIONS = ("0001", "0002")

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]

_Json = JSON(none_as_null=True)


class Base(DeclarativeBase):
    """The tables of a store. JSON columns hold the records' own JSON form (`codec.py`)."""


class RunRow(Base):
    """A run without its results. `started_us` is `started_at` as a number that sorts."""

    __tablename__ = "runs"

    key: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(unique=True)
    started_us: Mapped[int] = mapped_column(BigInteger, index=True)
    started_at: Mapped[str]
    finished_at: Mapped[str]
    session: Mapped[str]
    source: Mapped[str]
    schema_version: Mapped[int]
    commit: Mapped[str] = mapped_column(index=True)
    dirty: Mapped[str]
    branch: Mapped[str]
    author: Mapped[str]
    subject: Mapped[str]
    committed_at: Mapped[str]
    environment: Mapped[JsonValue] = mapped_column(_Json)
    warnings: Mapped[JsonValue] = mapped_column(_Json)


class CaseRow(Base):
    """A case id."""

    __tablename__ = "cases"

    key: Mapped[int] = mapped_column(primary_key=True)
    case_id: Mapped[str] = mapped_column(unique=True)


class MetricRow(Base):
    """A metric as it was declared; a changed declaration is another row."""

    __tablename__ = "metrics"

    key: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(index=True)
    declaration: Mapped[JsonValue] = mapped_column(_Json)


class ResultRow(Base):
    """One finished case of a run; results of a run are ordered by key."""

    __tablename__ = "results"
    __table_args__ = (
        UniqueConstraint("case_key", "run_key"),
        Index("ix_results_run_key", "run_key"),
    )

    key: Mapped[int] = mapped_column(primary_key=True)
    run_key: Mapped[int] = mapped_column(ForeignKey("runs.key", ondelete="CASCADE"))
    case_key: Mapped[int] = mapped_column(ForeignKey("cases.key"))
    status: Mapped[str]
    message: Mapped[str]
    tags: Mapped[JsonValue] = mapped_column(_Json)
    duration_s: Mapped[float] = mapped_column(Double)
    digest: Mapped[str]
    cached: Mapped[bool]


class SampleRow(Base):
    """One metric of a result: its raw values, or a summary."""

    __tablename__ = "samples"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012 - read by SQLAlchemy

    result_key: Mapped[int] = mapped_column(
        ForeignKey("results.key", ondelete="CASCADE"), primary_key=True
    )
    position: Mapped[int] = mapped_column(primary_key=True)
    metric_key: Mapped[int] = mapped_column(ForeignKey("metrics.key"))
    values: Mapped[JsonValue] = mapped_column(_Json)
    summary: Mapped[JsonValue] = mapped_column(_Json)
    one_process: Mapped[bool]
    taken: Mapped[int] = mapped_column(server_default="0")


class AttachmentRow(Base):
    """The profile and timeline of a result as compressed JSON, where it has one of them."""

    __tablename__ = "attachments"

    result_key: Mapped[int] = mapped_column(
        ForeignKey("results.key", ondelete="CASCADE"), primary_key=True
    )
    profile: Mapped[bytes | None] = mapped_column(LargeBinary)
    timeline: Mapped[bytes | None] = mapped_column(LargeBinary)
