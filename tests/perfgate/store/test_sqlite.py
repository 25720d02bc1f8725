"""What only a store in a file can get wrong: places, versions, crashes, other processes."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from perfgate.errors import UserError
from perfgate.store import connect, engine
from perfgate.store.schema import REVISIONS, Base
from tests.perfgate.store.samples import closed, exact, full, opened

NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that any user reaches; the one pytest makes is closed to others."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may write anywhere, so as root become somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def make_store(path: Path) -> None:
    store = connect(str(path))
    store.add_run(closed("r1", full("a")))
    store.close()


def listing(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_a_path_and_a_url_name_the_same_store(path: Path) -> None:
    make_store(path)

    assert connect(f"sqlite:///{path}").run("r1") == closed("r1", full("a"))


def test_the_folder_is_made_with_the_store(tmp_path: Path) -> None:
    make_store(tmp_path / "deep" / "er" / "50% done?.db")

    assert (tmp_path / "deep" / "er" / "50% done?.db").is_file()


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    make_store(path)

    assert connect(str(path)).case_ids() == ("a",)


def test_a_closed_store_is_one_file(path: Path) -> None:
    make_store(path)

    assert [p.name for p in path.parent.iterdir()] == ["history.db"]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_missing_file_is_not_made_unasked(path: Path, read_only: bool) -> None:
    with pytest.raises(UserError, match=r"history\.db: no such file") as caught:
        connect(str(path), create=False, read_only=read_only)

    assert "perfgate run" in caught.value.hint
    assert listing(path.parent) == {}


@pytest.mark.parametrize("content", [b"hello", b"x" * 5000, b"SQLite format 3\0" + b"x" * 5000])
def test_a_file_that_is_no_database_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)

    with pytest.raises(UserError, match=r"history\.db: file is not a database") as caught:
        connect(str(path))
    assert caught.value.hint == "name another file with --store"
    assert listing(path.parent) == {"history.db": content}


def test_the_database_of_another_program_is_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE alembic_version (version_num TEXT)")
    other.close()
    before = listing(path.parent)

    with pytest.raises(UserError, match=r"history\.db: a database of another program"):
        connect(str(path))
    assert listing(path.parent) == before


def test_a_store_from_a_newer_version_is_left_alone(path: Path) -> None:
    make_store(path)
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    raw.close()
    before = listing(path.parent)

    with pytest.raises(UserError, match="has version 9999, newer than 0002") as caught:
        connect(str(path))
    assert "upgrade" in caught.value.hint
    assert listing(path.parent) == before


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nosuch://host/db", "store nosuch://…: not a database address"),
        ("://", "store ://…: not a database address"),
        ("sqlite://", "store sqlite://: names no file"),
        ("/", "store /: is a folder"),
        ("/dev/null/history.db", "store /dev/null/history.db: /dev/null is not a folder"),
        ("/dev/null", "store /dev/null: is not a regular file"),
        ("/proc/perfgate/history.db", "store /proc/perfgate/history.db: no such file or directory"),
        ("x" * 300, f"store {'x' * 300}: file name too long"),
        (" ", "store  : names no file"),
        ("sqlite:///x.db?mode=ro", "store x.db: an SQLite store has no options, got mode"),
    ],
)
def test_an_address_that_cannot_be_a_store_is_named(url: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        connect(url)

    assert caught.value.message.startswith(message)
    assert caught.value.hint


def test_a_password_stays_out_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_driver(_: object) -> None:
        raise ImportError("no driver", name="psycopg2")

    monkeypatch.setattr(engine, "create_engine", without_driver)

    with pytest.raises(UserError) as caught:
        connect("postgresql://ada:secret@host/db")
    assert caught.value.message == (
        "store postgresql://ada:***@host/db: needs the Python module psycopg2"
    )
    assert "driver" in caught.value.hint


def test_no_space_for_the_folder_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", full_disk)

    with pytest.raises(UserError, match="no space left on device") as caught:
        connect(str(tmp_path / "new" / "history.db"))
    assert "--store" in caught.value.hint


@pytest.mark.parametrize("existing", [False, True])
def test_a_read_only_folder_is_reported_before_anything_is_written(
    shared_folder: Path, existing: bool
) -> None:
    if existing:
        make_store(shared_folder / "history.db")
        (shared_folder / "history.db").chmod(0o666)
    shared_folder.chmod(0o555)
    before = listing(shared_folder)

    with unprivileged(), pytest.raises(UserError, match="is not writable") as caught:
        connect(str(shared_folder / "history.db"))
    assert "--store" in caught.value.hint
    assert listing(shared_folder) == before


def test_a_read_only_file_is_reported_before_anything_is_written(shared_folder: Path) -> None:
    make_store(shared_folder / "history.db")
    (shared_folder / "history.db").chmod(0o444)
    before = listing(shared_folder)

    with unprivileged(), pytest.raises(UserError, match=r"history\.db is not writable"):
        connect(str(shared_folder / "history.db"))
    assert listing(shared_folder) == before


def test_a_store_can_be_read_where_nothing_can_be_written(shared_folder: Path) -> None:
    make_store(shared_folder / "history.db")
    (shared_folder / "history.db").chmod(0o444)
    shared_folder.chmod(0o555)

    with unprivileged():
        store = connect(str(shared_folder / "history.db"), read_only=True)
        assert store.run("r1") == closed("r1", full("a"))
        store.close()


def test_an_unreadable_file_is_reported(shared_folder: Path) -> None:
    make_store(shared_folder / "history.db")
    (shared_folder / "history.db").chmod(0)

    with unprivileged(), pytest.raises(UserError, match="unable to open database file"):
        connect(str(shared_folder / "history.db"), read_only=True)


def test_a_store_opened_for_reading_refuses_to_write(path: Path) -> None:
    make_store(path)
    store = connect(str(path), read_only=True)

    with pytest.raises(UserError, match="attempt to write a readonly database") as caught:
        store.add_run(closed("r2"))
    assert "--store" in caught.value.hint
    assert [run.run_id for run in store.runs()] == ["r1"]


def test_a_reader_sees_what_a_writer_has_added_meanwhile(path: Path) -> None:
    make_store(path)
    reader = connect(str(path), read_only=True)
    writer = connect(str(path))
    writer.add_run(closed("r2"))

    assert len(reader.runs()) == 2


def test_a_reader_in_the_middle_of_reading_does_not_hold_up_a_writer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_store(path)
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_S", 0.01)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM runs").fetchall()

    connect(str(path)).add_run(closed("r2"))
    assert len(reader.execute("SELECT * FROM runs").fetchall()) == 1
    reader.close()


def test_a_replaced_result_leaves_no_samples_behind(path: Path) -> None:
    store = connect(str(path))
    store.open_run(opened())
    for result in (full("a"), full("a"), exact("a")):
        store.add_result("r1", result)
    store.close()

    raw = sqlite3.connect(path)
    assert raw.execute("SELECT count(*) FROM samples").fetchall() == [(1,)]
    assert raw.execute("SELECT count(*) FROM attachments").fetchall() == [(0,)]
    assert raw.execute("PRAGMA foreign_key_check").fetchall() == []
    raw.close()


def test_a_store_held_by_another_process_is_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_store(path)
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_S", 0.01)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(UserError, match="database is locked") as caught:
        connect(str(path)).open_run(opened("r2"))
    assert "another process" in caught.value.hint
    other.close()


def test_a_full_disk_is_reported_and_loses_nothing(path: Path) -> None:
    make_store(path)
    store = connect(str(path))
    store.open_run(opened("r2"))
    with store._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=1")
    noise = "".join(chr(33 + os.urandom(1)[0] % 90) for _ in range(100_000))

    with pytest.raises(UserError, match="database or disk is full") as caught:
        store.add_result("r2", exact(noise))
    assert caught.value.hint == "free some disk space"
    assert connect(str(path)).run("r1") == closed("r1", full("a"))


def test_several_writers_take_turns(path: Path) -> None:
    make_store(path)

    def write(name: str) -> None:
        store = connect(str(path))
        store.open_run(opened(name))
        for case in range(5):
            store.add_result(name, exact(f"case {case}"))
        store.close()

    writers = [threading.Thread(target=write, args=(f"w{i}",)) for i in range(4)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()

    assert [len(connect(str(path)).run(f"w{i}").results) for i in range(4)] == [5] * 4


def test_text_that_no_database_takes_is_replaced(path: Path) -> None:
    store = connect(str(path))
    odd = exact("a")
    object.__setattr__(odd, "message", "bad \udc80 byte\0")
    store.add_run(closed("r1", odd))

    assert store.run("r1").results[0].message == "bad ? byte\0"
    with pytest.raises(UserError, match=r"text 'bad \\udc80 case' is not valid Unicode"):
        store.add_run(closed("r2", exact("bad \udc80 case")))
    assert [run.run_id for run in store.runs()] == ["r1"]


def test_a_failing_migration_leaves_no_tables(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Operations, "create_index", fail)
    with pytest.raises(KeyboardInterrupt):
        connect(str(path))
    with sqlite3.connect(path) as raw:
        assert raw.execute("SELECT name FROM sqlite_master").fetchall() == []
    raw.close()

    monkeypatch.undo()
    make_store(path)
    assert connect(str(path)).case_ids() == ("a",)


def test_the_migrations_make_the_declared_tables(path: Path) -> None:
    make_store(path)
    opened_engine = engine.open_engine(str(path), create=False, read_only=True)

    with opened_engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_a_store_of_an_older_version_keeps_its_samples(path: Path) -> None:
    make_store(path)
    with sqlite3.connect(path) as raw:
        raw.execute("ALTER TABLE samples DROP COLUMN taken")
        raw.execute("UPDATE alembic_version SET version_num = '0001'")
    raw.close()

    with pytest.raises(UserError, match="has version 0001, older than 0002"):
        connect(str(path), read_only=True)
    kept = connect(str(path)).history("a")[0].result.samples
    assert [s.values for s in kept] == [s.values for s in full("a").samples]
    assert {s.taken for s in kept} == {0}
    assert connect(str(path), read_only=True).history("a")


def test_every_migration_is_known_by_its_number() -> None:
    migrations = ScriptDirectory(str(Path(engine.__file__).parent / "migrations"))
    newest_first = [script.revision for script in migrations.walk_revisions()]

    assert tuple(reversed(newest_first)) == REVISIONS


def test_the_tables_can_be_made_in_postgresql() -> None:
    statements = [
        str(CreateTable(table).compile(dialect=postgresql.dialect()))
        for table in Base.metadata.sorted_tables
    ]

    assert len(statements) == 6
    assert "environment JSON" in "".join(statements)


def test_a_large_profile_does_not_slow_history_down_by_being_read(path: Path) -> None:
    make_store(path)
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE attachments SET profile = x'00'")
    raw.close()

    assert connect(str(path)).history("a")[0].result.samples == full("a").samples


@pytest.mark.parametrize(
    "killed_after", [0, 5, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, 2, 9))]
)
def test_a_killed_writer_loses_no_finished_case(path: Path, killed_after: int) -> None:
    make_store(path)
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        store = connect(str(path))
        store.open_run(opened("killed", minute=1))
        for case in range(10_000):
            store.add_result("killed", exact(f"case {case}"))
            os.write(tell, b".")
        os._exit(1)
    os.close(tell)
    finished = len(b"".join(os.read(told, 1) for _ in range(killed_after)))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(told, 4096):
        finished += len(more)
    os.close(told)

    with sqlite3.connect(path) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    raw.close()
    store = connect(str(path))
    known = store.runs(include_open=True, limit=1)[0].run_id == "killed"
    kept = len(store.run("killed").results) if known else 0
    assert finished <= kept <= finished + 1
    assert [run.run_id for run in store.runs()] == ["r1"]
    assert stat.S_ISREG(path.stat().st_mode)
