"""How many measurements a sample had, where it keeps only some of its values."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Samples before this kept every value."""
    op.add_column("samples", sa.Column("taken", sa.Integer, nullable=False, server_default="0"))


def downgrade() -> None:
    """Forget the number."""
    op.drop_column("samples", "taken")
