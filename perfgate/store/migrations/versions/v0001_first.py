"""The first tables: runs, cases, metrics, results, samples and attachments."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "runs",
        sa.Column("key", sa.Integer, primary_key=True),
        sa.Column("run_id", sa.String, nullable=False, unique=True),
        sa.Column("started_us", sa.BigInteger, nullable=False, index=True),
        sa.Column("started_at", sa.String, nullable=False),
        sa.Column("finished_at", sa.String, nullable=False),
        sa.Column("session", sa.String, nullable=False),
        sa.Column("source", sa.String, nullable=False),
        sa.Column("schema_version", sa.Integer, nullable=False),
        sa.Column("commit", sa.String, nullable=False, index=True),
        sa.Column("dirty", sa.String, nullable=False),
        sa.Column("branch", sa.String, nullable=False),
        sa.Column("author", sa.String, nullable=False),
        sa.Column("subject", sa.String, nullable=False),
        sa.Column("committed_at", sa.String, nullable=False),
        sa.Column("environment", sa.JSON, nullable=True),
        sa.Column("warnings", sa.JSON, nullable=True),
    )
    op.create_table(
        "cases",
        sa.Column("key", sa.Integer, primary_key=True),
        sa.Column("case_id", sa.String, nullable=False, unique=True),
    )
    op.create_table(
        "metrics",
        sa.Column("key", sa.Integer, primary_key=True),
        sa.Column("name", sa.String, nullable=False, index=True),
        sa.Column("declaration", sa.JSON, nullable=True),
    )
    op.create_table(
        "results",
        sa.Column("key", sa.Integer, primary_key=True),
        sa.Column(
            "run_key", sa.Integer, sa.ForeignKey("runs.key", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("case_key", sa.Integer, sa.ForeignKey("cases.key"), nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("message", sa.String, nullable=False),
        sa.Column("tags", sa.JSON, nullable=True),
        sa.Column("duration_s", sa.Double, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("cached", sa.Boolean, nullable=False),
        sa.UniqueConstraint("case_key", "run_key"),
    )
    op.create_index("ix_results_run_key", "results", ["run_key"])
    op.create_table(
        "samples",
        sa.Column(
            "result_key",
            sa.Integer,
            sa.ForeignKey("results.key", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("metric_key", sa.Integer, sa.ForeignKey("metrics.key"), nullable=False),
        sa.Column("values", sa.JSON, nullable=True),
        sa.Column("summary", sa.JSON, nullable=True),
        sa.Column("one_process", sa.Boolean, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "attachments",
        sa.Column(
            "result_key",
            sa.Integer,
            sa.ForeignKey("results.key", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("profile", sa.LargeBinary, nullable=True),
        sa.Column("timeline", sa.LargeBinary, nullable=True),
    )


def downgrade() -> None:
    """Drop all tables."""
    for table in ("attachments", "samples", "results", "metrics", "cases", "runs"):
        op.drop_table(table)
