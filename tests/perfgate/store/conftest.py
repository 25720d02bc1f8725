"""An empty store to copy, which is much quicker than making one: that waits for the disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from perfgate.store import Store, connect


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "history.db"
    connect(str(path)).close()
    return path


@pytest.fixture
def new_store(empty_store: Path) -> Callable[[Path], Store]:
    """Open an empty store at a path."""

    def make(path: Path) -> Store:
        shutil.copyfile(empty_store, path)
        return connect(str(path))

    return make
