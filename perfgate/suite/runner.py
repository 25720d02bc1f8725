"""Running cases, seen from the caller: orders go to a worker process, results come to a callback.

The caller's process never forks and never runs a benchmark. Whatever happens to the worker, every
case ends in exactly one result, except after Ctrl-C: then what had finished is delivered,
everything that runs is killed, and `KeyboardInterrupt` is raised.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import FrameType, TracebackType

from perfgate.model import CaseResult
from perfgate.suite.benchmark import Case
from perfgate.suite.execute import failed
from perfgate.suite.process import describe_exit, kill_group, start_interpreter
from perfgate.suite.sampling import count_processes
from perfgate.suite.wire import (
    Answer,
    Event,
    EventKind,
    Job,
    LineReader,
    Order,
    event_of,
    to_line,
    write_all,
)

FAREWELL_S = 2.0
STDERR_LIMIT = 4_000


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Limits of a run. Times are wall-clock seconds, `jobs` defaults to the cores we may use.

    `timeout_s` holds for a case whose benchmark has none, `load_timeout_s` for importing the suite
    and its `warm_up()`. No case starts after `budget_s`; what is left is `not-run`. `memory_bytes`
    limits the private memory of each case. `verify` calls every exact case twice.
    """

    jobs: int | None = None
    timeout_s: float = 300.0
    load_timeout_s: float = 300.0
    memory_bytes: int | None = None
    budget_s: float | None = None
    verify: bool = False


Lookup = Callable[[str, str], CaseResult | None]


def run_cases(
    cases: Sequence[Case],
    options: RunOptions,
    on_result: Callable[[CaseResult], None],
    on_start: Callable[[Case], None] = lambda case: None,
    lookup: Lookup = lambda case_id, digest: None,
) -> tuple[str, ...]:
    """Run every case, each in a process of its own, and return warnings about the run.

    Exact cases run first and in parallel, then the sampled ones, one at a time and each in several
    processes, one after another, under one time limit. `lookup` is asked
    with a case's id and digest, and what it returns is delivered as `cached` instead of running the
    case. The callbacks run in this thread; what they raise ends the run.
    """
    session = _Session(cases, options, on_result, on_start, lookup)
    session.run()
    return tuple(dict.fromkeys(session.warnings))


class _Session:
    """What is still to do, and who is told what.

    `batch` is what the present worker was asked for, `in_flight` maps a case to its process group,
    and `suspects` were running side by side when a worker died.
    """

    def __init__(
        self,
        cases: Sequence[Case],
        options: RunOptions,
        on_result: Callable[[CaseResult], None],
        on_start: Callable[[Case], None],
        lookup: Lookup,
    ) -> None:
        self.remaining = {case.case_id: case for case in cases}
        self.options = options
        self.on_result = on_result
        self.on_start = on_start
        self.lookup = lookup
        self.batch: set[str] = set()
        self.in_flight: dict[str, int] = {}
        self.suspects: set[str] = set()
        self.warnings: list[str] = []
        self.began_s = time.monotonic()

    def run(self) -> None:
        with _Interrupts() as interrupts:
            while self.remaining:
                with _Worker(self._job()) as worker:
                    self._follow(worker, interrupts)

    def _job(self) -> Job:
        options = self.options
        budget_s = options.budget_s
        if budget_s is not None:
            budget_s = max(0.0, budget_s - (time.monotonic() - self.began_s))
        jobs = 1 if self.suspects else options.jobs or len(os.sched_getaffinity(0))
        self.batch = set(self.suspects or self.remaining)
        self.in_flight.clear()
        cases = [case for case_id, case in self.remaining.items() if case_id in self.batch]
        return Job(
            orders=tuple(_order(case, options.timeout_s) for case in cases),
            jobs=jobs,
            load_timeout_s=options.load_timeout_s,
            memory_bytes=options.memory_bytes,
            budget_s=budget_s,
            verify=options.verify,
        )

    def _follow(self, worker: _Worker, interrupts: _Interrupts) -> None:
        """Handle what one worker reports, until its batch is done or the worker is gone."""
        count = len(self.batch)
        try:
            for event in worker.events(interrupts.fd):
                self._handle(event, worker)
                if not self.batch:
                    return
        except KeyboardInterrupt:
            worker.hang_up()
            for event in worker.events(None, FAREWELL_S):
                if event.kind is EventKind.FINISHED:
                    self._handle(event, worker)
            raise
        self._bury(worker, made_progress=len(self.batch) < count)

    def _handle(self, event: Event, worker: _Worker) -> None:
        case = self.remaining.get(event.case_id)
        if event.kind is EventKind.WARNING:
            self.warnings.append(event.text)
        elif case is None:
            return
        elif event.kind is EventKind.STARTED:
            if event.case_id not in self.in_flight:
                self.on_start(case)
            # A sampled case has several processes, one after another.
            self.in_flight[event.case_id] = event.pid
        elif event.kind is EventKind.DIGEST:
            stored = self.lookup(event.case_id, event.text)
            worker.send(Answer(event.case_id, run=stored is None))
            if stored is not None:
                self._deliver(case, replace(stored, digest=event.text, cached=True, duration_s=0.0))
        elif event.result is not None:
            self._deliver(case, event.result)

    def _deliver(self, case: Case, result: CaseResult) -> None:
        self.in_flight.pop(case.case_id, None)
        self.suspects.discard(case.case_id)
        self.batch.discard(case.case_id)
        del self.remaining[case.case_id]
        self.on_result(replace(result, case_id=case.case_id, tags=case.benchmark.tags))

    def _bury(self, worker: _Worker, made_progress: bool) -> None:
        """The worker died by itself: what it was running failed, or everything it could not load.

        Where several cases were running, they are suspects, and a new worker runs them one by one.
        So every second worker that dies takes a case along, and another can do the rest.
        """
        exit_code, said = worker.end()
        for pid in self.in_flight.values():
            kill_group(pid)
        if len(self.in_flight) > 1:
            self.suspects = set(self.in_flight)
            return
        victims = [self.remaining[case_id] for case_id in self.in_flight]
        doing = "while this case ran"
        if not victims and not made_progress:
            asked = [self.remaining[case_id] for case_id in self.batch]
            exact = [case for case in asked if not case.benchmark.sampled]
            victims, doing = exact or asked, "while it loaded the suite"
        message = f"the worker process {describe_exit(exit_code)} {doing}"
        if exit_code == -signal.SIGALRM:
            message = f"the suite took more than {self.options.load_timeout_s:g} s to load"
        for case in victims:
            self._deliver(case, failed(case.case_id, f"{message}\n{said}".rstrip()))


def _order(case: Case, timeout_s: float) -> Order:
    benchmark = case.benchmark
    limit_s = timeout_s if benchmark.timeout_s is None else benchmark.timeout_s
    processes = count_processes(benchmark.rounds) if benchmark.sampled else 0
    return Order(
        case_id=case.case_id,
        suite=str(case.suite),
        file=str(case.file),
        processes=processes,
        timeout_s=limit_s,
        folders=tuple(map(str, case.folders)),
    )


class _Worker:
    """The worker process and our ends of its pipes. Leaving the context ends it for sure."""

    def __init__(self, job: Job) -> None:
        # A file, since a pipe would have to be read all the time; it holds what imports print.
        self._said = os.fdopen(os.memfd_create("worker-stderr"), "w+b")
        self._process = start_interpreter("worker", [str(os.getpid())], self._said)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._commands = self._process.stdin
        self._events = self._process.stdout
        self._lines = LineReader(self._events.fileno())
        self.send(job)

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()
        self._events.close()
        self._said.close()

    def send(self, message: Job | Answer) -> None:
        # A worker that is gone is noticed by the end of its events.
        with contextlib.suppress(BrokenPipeError):
            write_all(self._commands.fileno(), to_line(message))

    def events(self, interrupt_fd: int | None, limit_s: float | None = None) -> Iterator[Event]:
        """Events until the worker is gone or `limit_s` is over; the interrupt raises."""
        end_s = None if limit_s is None else time.monotonic() + limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._lines.fd, selectors.EVENT_READ)
            if interrupt_fd is not None:
                selector.register(interrupt_fd, selectors.EVENT_READ)
            while not self._lines.ended:
                ready = selector.select(None if end_s is None else end_s - time.monotonic())
                if not ready:
                    return
                if any(key.fd == interrupt_fd for key, _ in ready):
                    raise KeyboardInterrupt
                yield from map(event_of, self._lines.read())

    def hang_up(self) -> None:
        """Tell the worker to kill what it runs, and to end."""
        self._commands.close()

    def end(self) -> tuple[int, str]:
        """Hang up, wait a moment, kill; gives the exit code and the last it wrote to stderr."""
        self.hang_up()
        try:
            exit_code = self._process.wait(FAREWELL_S)
        except subprocess.TimeoutExpired:
            kill_group(self._process.pid)
            exit_code = self._process.wait()
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, size - STDERR_LIMIT))
        return exit_code, self._said.read().decode("utf-8", "replace").strip()


class _Interrupts:
    """Ctrl-C as a readable descriptor, so that it never cuts the delivery of a result in two.

    A second Ctrl-C raises at once. Off the main thread, or where somebody else handles the signal,
    there is nothing to do and `fd` is None.
    """

    def __init__(self) -> None:
        self.fd: int | None = None
        self._write_fd = -1
        self._noted = False

    def __enter__(self) -> _Interrupts:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self.fd, self._write_fd = os.pipe()
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.fd is None:
            return
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(self.fd)
        os.close(self._write_fd)
        if self._noted and kind is None:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._noted:
            raise KeyboardInterrupt
        self._noted = True
        os.write(self._write_fd, b"!")
