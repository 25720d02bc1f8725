"""Where a command works: the configuration of the current folder, its store, its output files."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from perfgate.config import Config, load_config
from perfgate.errors import UserError
from perfgate.store import Store, connect, store_file
from perfgate.vcs import note_written

REPORT_FOLDER = Path(".perfgate", "report")


def here() -> Config:
    """The configuration that holds in the current folder."""
    return load_config(Path.cwd())


@contextlib.contextmanager
def opened(config: Config, url: str | None, *, write: bool = False) -> Iterator[Store]:
    """The store at `url`, or the configured one. Only a writing command makes a missing store."""
    place = config.store if url is None else url
    store = connect(place, create=write, read_only=not write)
    if file := store_file(place):
        note_written(file, store=True)
    try:
        yield store
    finally:
        store.close()


def write_file(path: Path, text: str) -> None:
    """Replace a file in one step, so that a reader never sees half of it."""
    if path.is_dir():
        raise UserError(f"{path}: is a folder", "name a file inside it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            file.write(text)
        _move(Path(file.name), path)
        note_written(path)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written: {(error.strerror or str(error)).lower()}",
            "name a folder that can be written to",
        ) from error


def _move(written: Path, path: Path) -> None:
    """Give the file the permissions a new file has, and its name."""
    try:
        mask = os.umask(0)
        os.umask(mask)
        written.chmod(0o666 & ~mask)
        written.replace(path)
    except OSError:
        written.unlink(missing_ok=True)
        raise
