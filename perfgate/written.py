"""Which files of a working tree perfgate wrote itself, so that they do not count as a change of it.

A table for a pull request, a report or a store may lie in the tree that is measured. Their paths
are kept in `.perfgate/written` at the top of the tree, with a digest of the content, so a file that
somebody edits afterwards is a change again. A store changes all the time, so of it only the path is
kept, and it counts only while it is a database.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path

STORE = "store"

_RECORD = Path(".perfgate", "written")
_BESIDE_A_STORE = ("-wal", "-shm", "-journal")
_SQLITE = b"SQLite format 3\0"


def note(root: Path, path: str, *, store: bool = False) -> None:
    """Keep that the file at `path`, relative to `root`, is perfgate's as it is now, or a store.

    Where this cannot be kept the file will count as a change, which is told when it matters.
    """
    known = _read(root)
    with contextlib.suppress(OSError):
        mark = STORE if store else _digest(root / path)
        if known.get(path) == mark:
            return
        record = root / _RECORD
        record.parent.mkdir(exist_ok=True)
        new = record.with_name(f"{record.name}.new")
        new.write_text(json.dumps(known | {path: mark}, indent=0), encoding="utf-8")
        new.replace(record)


def without_own(root: Path, paths: set[str]) -> set[str]:
    """The paths that perfgate did not write, or that were changed since."""
    known = _read(root) if paths else {}
    return {path for path in paths if not _is_own(root, path, known)} if known else paths


def _is_own(root: Path, path: str, known: dict[str, str]) -> bool:
    for ending in _BESIDE_A_STORE:
        if path.endswith(ending) and known.get(path.removesuffix(ending)) == STORE:
            return True
    mark = known.get(path)
    if mark is None:
        return False
    try:
        return _is_database(root / path) if mark == STORE else _digest(root / path) == mark
    except OSError:
        return False


def _read(root: Path) -> dict[str, str]:
    """The record; one that cannot be read exempts nothing."""
    try:
        known = json.loads((root / _RECORD).read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(known, dict):
        return {}
    return {str(path): mark for path, mark in known.items() if isinstance(mark, str)}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) in (_SQLITE, b"")
