"""Opens a database as a store: finds it, checks it, brings its tables up to date.

Everything that holds for SQLite only is here. Nothing is written before the checks have passed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, OperationalError

from perfgate.errors import UserError
from perfgate.store.schema import REVISIONS, RunRow

# How long a writer waits for another process to finish its transaction.
BUSY_TIMEOUT_S = 30.0

_WRITES = "perfgate_writes"

# Fragment of the database's message → what to do about it.
_HINTS = (
    ("locked", "another process is writing to it: try again when that has finished"),
    ("readonly", "make the file and its folder writable, or name another store with --store"),
    ("full", "free some disk space"),
    ("not a database", "name another file with --store"),
    ("malformed", "the file is damaged: restore a copy or import the runs again"),
    ("unable to open", "check that the file and its folder can be read and written"),
)


def open_engine(url: str, *, create: bool, read_only: bool) -> Engine:
    """An engine over a store of the current version. See `perfgate.store.connect`."""
    address = _address(url)
    if address.get_backend_name() == "sqlite":
        engine = _sqlite_engine(address, create=create, read_only=read_only)
    else:
        engine = _server_engine(address)
    try:
        with explained(engine):
            _prepare(engine, create=create, read_only=read_only)
    except BaseException:
        engine.dispose()
        raise
    return engine


def store_file(url: str) -> Path | None:
    """The file of an SQLite store, None for a store on a server."""
    address = _address(url)
    return _path(address) if address.get_backend_name() == "sqlite" else None


def writer(engine: Engine) -> Engine:
    """The same engine, whose transactions take the write lock at their beginning."""
    return engine.execution_options(**{_WRITES: True})


@contextmanager
def explained(engine: Engine) -> Iterator[None]:
    """Turn an error of the database, such as a full disk, into a `UserError` that names it."""
    try:
        yield
    except DatabaseError as error:
        # Its other subclasses would be mistakes of ours, which need their traceback.
        if type(error) not in (DatabaseError, OperationalError):
            raise
        reason = str(error.orig).strip().partition("\n")[0]
        hint = next((hint for part, hint in _HINTS if part in reason), "see what the database says")
        raise UserError(f"store {_label(engine.url)}: {reason}", hint) from error
    except UnicodeEncodeError as error:
        shown = ascii(error.object[:40])
        raise UserError(
            f"store {_label(engine.url)}: text {shown} is not valid Unicode",
            "mend the file it is from",
        ) from error


def _address(url: str) -> URL:
    if "://" not in url:
        return URL.create("sqlite", database=url)
    try:
        address = make_url(url)
        address.get_dialect()
    except (ArgumentError, NoSuchModuleError):
        kind = url.partition("://")[0]
        raise UserError(
            f"store {kind}://…: not a database address", "give a path or sqlite:///path"
        ) from None
    return address


def _label(address: URL) -> str:
    if address.get_backend_name() == "sqlite":
        return str(address.database)
    return address.render_as_string(hide_password=True)


def _server_engine(address: URL) -> Engine:
    try:
        return create_engine(address)
    except ImportError as error:
        raise UserError(
            f"store {_label(address)}: needs the Python module {error.name}",
            "install the driver of that database",
        ) from None


def _sqlite_engine(address: URL, *, create: bool, read_only: bool) -> Engine:
    path = _path(address)
    try:
        _check_place(path, create=create, read_only=read_only)
        if create and not read_only:
            path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"store {path}: {reason}", "name another place with --store") from error
    engine = create_engine(address, creator=_opener(path, create=create, read_only=read_only))

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that reads first and then writes fails at once where another writer came
        # between; one that takes the lock first waits for it.
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _path(address: URL) -> Path:
    name = address.database or ""
    if not name.strip() or name == ":memory:":
        raise UserError(f"store {name or 'sqlite://'}: names no file", "give a path to a file")
    if address.query:
        given = ", ".join(address.query)
        raise UserError(
            f"store {name}: an SQLite store has no options, got {given}",
            "leave out everything from the question mark on",
        )
    return Path(name)


def _check_place(path: Path, *, create: bool, read_only: bool) -> None:
    """What can be known without opening the file: closing it would drop the locks of SQLite."""
    if path.is_dir():
        raise UserError(f"store {path}: is a folder", "name a file, such as history.db, inside it")
    if path.exists() and not path.is_file():
        raise UserError(f"store {path}: is not a regular file", "name another file with --store")
    if not path.exists() and (read_only or not create):
        raise UserError(
            f"store {path}: no such file", "make one with `perfgate run` or `pytest --perfgate`"
        )
    if read_only:
        return
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    for place in (folder, path):
        if place.exists() and not _may(place, os.W_OK):
            raise UserError(
                f"store {path}: {place} is not writable",
                "make it writable, or name another store with --store",
            )
    if not folder.is_dir():
        raise UserError(f"store {path}: {folder} is not a folder", "name another path with --store")


def _may(place: Path, access: int) -> bool:
    return os.access(place, access, effective_ids=os.access in os.supports_effective_ids)


def _opener(path: Path, *, create: bool, read_only: bool) -> Callable[[], sqlite3.Connection]:
    mode = "ro" if read_only else "rwc" if create else "rw"
    if read_only and _must_be_still(path):
        mode = "ro&immutable=1"
    uri = f"{path.absolute().as_uri()}?mode={mode}"

    def connect() -> sqlite3.Connection:
        # Transactions begin where the engine says, not where the driver guesses.
        connection = sqlite3.connect(
            uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    return connect


def _must_be_still(path: Path) -> bool:
    """Whether a reader cannot make the file that it would share with a writer."""
    return not _may(path.absolute().parent, os.W_OK) and not Path(f"{path}-wal").exists()


def _prepare(engine: Engine, *, create: bool, read_only: bool) -> None:
    label = _label(engine.url)
    with engine.connect() as connection:
        version = _version(connection, label)
    if version == REVISIONS[-1]:
        return
    if version and version not in REVISIONS:
        raise UserError(
            f"store {label}: has version {version}, newer than {REVISIONS[-1]} of this perfgate",
            "upgrade perfgate with `pip install --upgrade perfgate`",
        )
    if not version and (read_only or not create):
        raise UserError(
            f"store {label}: holds no runs",
            "make a store with `perfgate run` or `pytest --perfgate`",
        )
    if read_only:
        raise UserError(
            f"store {label}: has version {version}, older than {REVISIONS[-1]}",
            "bring it up to date by running any perfgate command that may write to it",
        )
    _migrate(engine)


def _version(connection: Connection, label: str) -> str:
    """The version of the tables, or "" where there are none."""
    tables = inspect(connection).get_table_names()
    if not tables:
        return ""
    if "alembic_version" not in tables or RunRow.__tablename__ not in tables:
        raise UserError(f"store {label}: a database of another program", "name another file")
    return str(connection.scalar(text("SELECT version_num FROM alembic_version")) or "?")


def _migrate(engine: Engine) -> None:
    # Needed once in the life of a store, and slow to load.
    from alembic import command
    from alembic.config import Config

    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            raw = connection.connection.driver_connection
            assert isinstance(raw, sqlite3.Connection)
            raw.execute("PRAGMA journal_mode=WAL")
    config = Config()
    config.set_main_option(
        "script_location", str(Path(__file__).parent / "migrations").replace("%", "%%")
    )
    with writer(engine).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
