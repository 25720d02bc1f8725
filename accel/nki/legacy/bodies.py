"""Bodies: the loops of a kernel that are running, told apart by where they stand.

The older compiler reads the body of a loop once, here it runs every turn. Two things need to know:

- what a kernel counts in Python for itself, such as the byte where its next tile goes, must not go
  on counting: a request for an allocator gets what the same request of the first turn got;
- `loop_reduce` continues the call of the turns before with all other loops at the same position.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeVar

Answer = TypeVar("Answer")
Line = tuple[str, int]
Path = tuple[object, ...]


class Turn(int):
    """A loop variable that knows the run of its loop."""

    run: int


class _Running:
    """One loop: where it is (`path`), which run of it, and what its turn met on each line."""

    __slots__ = ("met", "path", "position", "run", "unrolled")

    def __init__(self, path: Path, run: int, unrolled: bool) -> None:
        self.path, self.run, self.unrolled = path, run, unrolled
        self.position = 0
        self.met: Counter[Line] = Counter()

    def below(self, line: Line) -> Path:
        """Where something is that this turn comes to on a line of the kernel."""
        self.met[line] += 1
        turn = (self.position,) if self.unrolled else ()
        return (*self.path, *turn, line, self.met[line])


class Bodies:
    """The running loops of one kernel, outermost first."""

    __slots__ = ("_answers", "_loops", "_runs")

    def __init__(self) -> None:
        self._loops = [_Running((), 0, unrolled=True)]
        self._answers: dict[Path, object] = {}
        self._runs = 0

    def turns(self, positions: range, unrolled: bool) -> Iterator[Turn]:
        """The positions of a loop. `unrolled`: the older compiler unrolls it too."""
        caller = sys._getframe(1)
        path = self._loops[-1].below((caller.f_code.co_filename, caller.f_lineno))
        self._runs += 1
        loop = _Running(path, self._runs, unrolled)
        self._loops.append(loop)
        try:
            for position in positions:
                loop.position = position
                loop.met.clear()
                turn = Turn(position)
                turn.run = loop.run
                yield turn
        finally:
            self._loops.remove(loop)

    def first(self, answer: Answer) -> Answer:
        """The answer that the same request, by a call of the caller, got in the first turn."""
        caller = sys._getframe(3)
        path = self._loops[-1].below((caller.f_code.co_filename, caller.f_lineno))
        return self._answers.setdefault(path, answer)  # type: ignore[return-value]

    def around(self, named: Sequence[int]) -> Path | None:
        """What stays the same while the loops with these variables run: the run of the outermost of
        them (those inside start again with its every turn), and where the other loops stand. None
        if a variable is not of a running loop.
        """
        runs = [index.run for index in named if isinstance(index, Turn)]
        running = {loop.run for loop in self._loops[1:]}
        if not runs or len(runs) < len(named) or not running.issuperset(runs):
            return None
        others = [(at.path, at.position) for at in self._loops[1:] if at.run not in runs]
        return (min(runs), *others)
