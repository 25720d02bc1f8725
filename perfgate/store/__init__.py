"""Where runs are kept.

`protocol.py` says what a store is, `memory.py` keeps one in memory for tests, `schema.py` holds the
tables, `migrations/` how they came to be, `engine.py` opens a database and `sql.py` is the store
over it, through `rows.py` and, for many cases at once, `bulk.py`. Only `connect` loads these: that
takes longer than `--help` may.
"""

from __future__ import annotations

from pathlib import Path

from perfgate.store.memory import MemoryStore
from perfgate.store.protocol import HistoryPoint, Store

__all__ = ["HistoryPoint", "MemoryStore", "Store", "connect", "store_file"]


def connect(url: str, *, create: bool = True, read_only: bool = False) -> Store:
    """Open the store at `url`: an SQLAlchemy URL, or the path of an SQLite file.

    A missing SQLite file is made, with its folder, if `create`; an older store is brought up to
    date unless `read_only`. Raises `UserError`, having written nothing, for a missing file without
    `create`, a file that is no store, a store from a newer version, a place that is not writable.
    """
    from perfgate.store.engine import open_engine
    from perfgate.store.sql import SqlStore

    return SqlStore(open_engine(url, create=create, read_only=read_only))


def store_file(url: str) -> Path | None:
    """The file of an SQLite store, None for a store on a server."""
    from perfgate.store import engine

    return engine.store_file(url)
