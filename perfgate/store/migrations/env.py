"""Alembic's entry: runs the migrations in the transaction that `engine.py` opened."""

from __future__ import annotations

from alembic import context

from perfgate.store.schema import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
)
context.run_migrations()
