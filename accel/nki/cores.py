"""Cores: the programs of a grid side by side, each on a core of its own, switching where they meet.

Comes in: the number of cores (of all ranks) and what each runs. Goes out: what each returned. One
core runs at a time, in core order, until it ends or waits for others (`meet`), so that a recording
is the same every time. Cores that wait for each other and agree on what for go on together; a wait
that can never end is a `KernelError` that shows who waits for whom, and where.
"""

from __future__ import annotations

import contextvars
import itertools
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from accel.errors import KernelError


@dataclass(frozen=True, slots=True)
class Wait:
    """A core's wish to meet `partners`, which must come with a wish of the same `kind` and `key`.

    `said` is the key as a message shows it, `place` the kernel's line, `brought` what the others
    need of this core.
    """

    kind: str
    partners: tuple[int, ...]
    key: object
    said: str
    place: str
    brought: object

    def __str__(self) -> str:
        return f"{self.kind} {self.said} ({self.place})"


Finish = Callable[[Mapping[int, object]], None]


class _Stopped(BaseException):
    """Unwinds the kernel on a core that nobody will wake again."""


@dataclass(slots=True)
class _Core:
    """One core: the thread that its program runs in, and what became of it."""

    gate: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    thread: threading.Thread | None = None
    wait: Wait | None = None
    ended: bool = False
    result: object = None
    error: BaseException | None = None


class Cores:
    """`enter(core)` is called whenever a core starts or goes on. Cores are numbered over all ranks:
    those of rank r are `a_rank` cores from r × a_rank on.
    """

    def __init__(self, count: int, enter: Callable[[int], None], a_rank: int | None = None) -> None:
        self._cores = [_Core() for _ in range(count)]
        self._enter = enter
        self._a_rank = a_rank or count
        self._ready = deque(range(count))
        self._paused = threading.Semaphore(0)
        self._running = 0
        self._stopping = False

    def run(self, program: Callable[[int], object]) -> list[object]:
        """Runs `program(core)` on every core; the results in core order."""
        if len(self._cores) == 1:
            self._enter(0)
            return [program(0)]
        try:
            while self._ready:
                self._resume(self._ready.popleft(), program)
        finally:
            self._stop()
        if any(not core.ended for core in self._cores):
            raise self._stuck(range(len(self._cores)))
        return [core.result for core in self._cores]

    def meet(self, wait: Wait, finish: Finish, in_turn: bool = False) -> None:
        """Holds the running core until all it waits for, and all they wait for, are here.

        The last of them to come calls `finish` with what each brought, in core order, and goes on
        first, or with `in_turn` in core order.
        """
        me = self._running
        self._cores[me].wait = wait
        group = self._group(me)
        if any(self._cores[core].wait is None for core in group):
            self._pause(me)
            return
        waits = self._waits(group)
        if len({(w.kind, w.key) for w in waits.values()}) > 1:
            raise self._stuck(group)
        for core in group:
            self._cores[core].wait = None
        finish({core: w.brought for core, w in waits.items()})
        if in_turn and len(group) > 1:
            self._ready.extend(group)
            self._pause(me)
        else:
            self._ready.extend(core for core in group if core != me)

    def turn(self) -> None:
        """Lets the other cores go on first, if any can."""
        if self._ready and len(self._cores) > 1:
            self._ready.append(self._running)
            self._pause(self._running)

    def _group(self, core: int) -> list[int]:
        """The core, those it waits for, those they wait for, and so on, in order."""
        found, todo = {core}, [core]
        while todo:
            wait = self._cores[todo.pop()].wait
            new = set(() if wait is None else wait.partners) - found
            found |= new
            todo.extend(new)
        return sorted(found)

    def _waits(self, group: Sequence[int]) -> dict[int, Wait]:
        return {core: wait for core in group if (wait := self._cores[core].wait) is not None}

    def _resume(self, number: int, program: Callable[[int], object]) -> None:
        """Lets a core run until it waits or ends; what it raised is raised here."""
        core, self._running = self._cores[number], number
        self._enter(number)
        if core.thread is None:
            context = contextvars.copy_context()
            core.thread = threading.Thread(
                target=context.run,
                args=(self._carry, core, program, number),
                name=self.name(number),
            )
            core.thread.start()
        else:
            core.gate.release()
        self._paused.acquire()
        if core.error is not None:
            raise core.error

    def _carry(self, core: _Core, program: Callable[[int], object], number: int) -> None:
        try:
            core.result = program(number)
            core.ended = True
        except _Stopped:
            pass
        except BaseException as error:  # it is raised again where the cores are run from
            core.error = error
        finally:
            self._paused.release()

    def _pause(self, number: int) -> None:
        self._paused.release()
        self._cores[number].gate.acquire()
        if self._stopping:
            raise _Stopped

    def _stop(self) -> None:
        """Ends the threads of cores that still wait."""
        self._stopping = True
        for core in self._cores:
            if core.thread is not None:
                core.gate.release()
                core.thread.join()

    def _stuck(self, group: Sequence[int]) -> KernelError:
        """The error that shows the cycle, or the core that will never come."""
        waits = self._waits(group)
        told = [
            f"{self.name(core)} waits for {self._named(core, wait)} in {wait}"
            for core, wait in waits.items()
        ]
        awaited = set(itertools.chain.from_iterable(wait.partners for wait in waits.values()))
        gone = [core for core in sorted(awaited) if self._cores[core].ended]
        told += [f"{self.name(core)} has ended" for core in gone]
        return KernelError(
            f"deadlock: {'; '.join(told)}",
            "every core comes to the same barriers and exchanges in the same order",
        )

    def name(self, core: int) -> str:
        """`core 1`, or `rank 1` or `rank 1 core 0` where there are several ranks."""
        rank, local = divmod(core, self._a_rank)
        if len(self._cores) == self._a_rank:
            return f"core {local}"
        return f"rank {rank}" if self._a_rank == 1 else f"rank {rank} core {local}"

    def _named(self, me: int, wait: Wait) -> str:
        return " and ".join(self.name(core) for core in dict.fromkeys(wait.partners) if core != me)
