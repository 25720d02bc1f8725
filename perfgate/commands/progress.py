"""Progress of a run on stderr: a bar on a terminal, else a line at every tenth of the cases."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from perfgate.model import CaseResult, CaseStatus
from perfgate.suite import Case

LINES = 10


class Watched:
    """Counts what a run reports, and shows it; it is the `Progress` of `perfgate.suite`."""

    def __init__(self, bar: Progress | None) -> None:
        self.count = 0
        self.done = 0
        self._bar = bar
        self._task = None if bar is None else bar.add_task("starting", total=None)

    def total(self, count: int) -> None:
        self.count = count
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, total=count)

    def started(self, case: Case) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=case.case_id)

    def finished(self, result: CaseResult) -> None:
        self.done += 1
        if result.status is not CaseStatus.OK:
            self._say(f"{result.status}: {result.case_id}")
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task)
        elif self._is_a_tenth():
            self._say(f"{self.done} of {self.count} cases")

    def stop(self) -> None:
        """Leave the terminal to whoever prints next."""
        if self._bar is not None:
            self._bar.stop()

    def _is_a_tenth(self) -> bool:
        before = (self.done - 1) * LINES // self.count
        return self.done * LINES // self.count > before

    def _say(self, line: str) -> None:
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def watching() -> Iterator[Watched]:
    """Show progress while the block runs."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Watched(None)
        return
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield Watched(bar)
