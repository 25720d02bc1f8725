"""A suite folder written by the test, imported under a name of its own and forgotten afterwards."""

from __future__ import annotations

import itertools
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perfgate.suite.benchmark import Case
from perfgate.suite.discover import discover

HEADER = """\
import os, signal, subprocess, sys
import perfgate
from perfgate import Measurement, Metric, MetricKind, ProfileNode, Rounds
CYCLES = Metric("cycles", "1", kind=MetricKind.EXACT)
"""

_numbers = itertools.count()

MakeSuite = Callable[..., Path]


@pytest.fixture
def make_suite(tmp_path: Path) -> Iterator[MakeSuite]:
    """Write `name="source"` as files of a new suite; every file starts with `HEADER`."""
    path_before, modules_before = list(sys.path), set(sys.modules)

    def make(**sources: str) -> Path:
        folder = tmp_path / f"suite{next(_numbers)}"
        folder.mkdir()
        for name, source in sources.items():
            (folder / f"{name}.py").write_text(HEADER + textwrap.dedent(source), encoding="utf-8")
        return folder

    yield make
    sys.path[:] = path_before
    for name in set(sys.modules) - modules_before:
        if name.startswith("suite"):
            del sys.modules[name]


@pytest.fixture
def make_cases(make_suite: MakeSuite) -> Callable[[str], tuple[Case, ...]]:
    """The cases of a suite of one file, `b.py`."""
    return lambda source: discover(make_suite(b=source))
