"""The worker process: has the suite loaded, starts a process for each case, watches over them.

In: a `Job` on standard input, then `Answer`s. Out: `Event`s on standard output. It is
single-threaded and does not run benchmarks itself, so that forking is safe and nothing a benchmark
does can stop it. End of input means that the parent is gone or has had enough: every case is
killed, and the worker ends.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import selectors
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from perfgate.codec import decode, encode
from perfgate.errors import UserError
from perfgate.model import CaseResult, CaseStatus
from perfgate.suite.benchmark import Case
from perfgate.suite.child import BEGIN, RUN, USE_STORED, Link, load_cases, report
from perfgate.suite.execute import describe, failed, pooled
from perfgate.suite.launch import Running, fork_case, spawn_case
from perfgate.suite.process import describe_exit, die_with, kill_group, outlive_parent
from perfgate.suite.wire import Answer, EventKind, Job, LineReader, Order, to_line, write_all

ABORT_GRACE_S = 0.5


@dataclass(frozen=True, slots=True)
class Loaded:
    """The suite as this process knows it; `failures` says per file why it could not be loaded."""

    cases: dict[str, Case] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def main(arguments: Sequence[str]) -> int:
    """Entry of the worker; its one argument is the process id of the parent."""
    parent_pid = int(arguments[0])
    die_with(parent_pid)
    commands_fd, events_fd = _take_standard_streams()
    commands = LineReader(commands_fd)
    line = _first_line(commands)
    if line is None:
        return 1
    job = decode(Job, json.loads(line))
    faulthandler.enable(2)
    with _time_limit(job.load_timeout_s):
        loaded = _load(job)
    # A full collection in a fork would touch, and so copy, all that was loaded: 70 ms with numba.
    gc.collect()
    gc.freeze()
    # From here on the end of input tells us, and we get to kill whole process groups.
    outlive_parent()
    if os.getppid() == parent_pid:
        _Supervisor(job, loaded, commands, events_fd).run()
    return 0


def _take_standard_streams() -> tuple[int, int]:
    """Move the pipes out of the way of code that reads standard input or prints."""
    commands_fd, events_fd = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return commands_fd, events_fd


def _first_line(commands: LineReader) -> bytes | None:
    lines: list[bytes] = []
    while not lines and not commands.ended:
        lines = commands.read()
    os.set_blocking(commands.fd, False)
    return lines[0] if lines else None


def _load(job: Job) -> Loaded:
    """Import the files of the exact cases, once each."""
    loaded = Loaded()
    files = {order.file: order for order in job.orders if not order.sampled}
    for file, order in files.items():
        try:
            loaded.cases.update(load_cases(order))
        except (Exception, SystemExit) as error:
            loaded.failures[file] = f"could not load the suite: {describe(error)}"
    return loaded


@contextlib.contextmanager
def _time_limit(limit_s: float) -> Iterator[None]:
    """End this process by SIGALRM when the block takes too long, with its stack on stderr.

    faulthandler has a time limit too, but keeps it in a thread, and this process is going to fork.
    """
    faulthandler.register(signal.SIGALRM, file=2, chain=True)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.unregister(signal.SIGALRM)


class _Supervisor:
    """The loop over pipes, exits and deadlines. Exact cases side by side, sampled ones alone."""

    def __init__(self, job: Job, loaded: Loaded, commands: LineReader, events_fd: int) -> None:
        self.job = job
        self.loaded = loaded
        self.commands = commands
        self.events_fd = events_fd
        self.waiting = deque(sorted(job.orders, key=lambda order: order.sampled))
        self.running: dict[str, Running] = {}
        self.selector = selectors.DefaultSelector()
        self.began_s = time.monotonic()
        self.hung_up = False

    def run(self) -> None:
        self._watch(self.commands.fd, self._hear)
        self._warn_about_threads()
        while not self.hung_up:
            self._launch()
            for key, _ in self.selector.select(self._patience_s()):
                key.data()
            self._expire()
        for running in self.running.values():
            kill_group(running.pid)

    # What is said to the parent and heard from it.

    def _emit(self, kind: EventKind, case_id: str = "", **fields: object) -> None:
        try:
            write_all(self.events_fd, to_line({"kind": kind, "case_id": case_id, **fields}))
        except BrokenPipeError:
            self.hung_up = True

    def _warn_about_threads(self) -> None:
        threads = len(os.listdir("/proc/self/task")) - 1
        if threads:
            text = (
                f"the suite started {threads} threads on import: exact cases may hang when forked"
            )
            self._emit(EventKind.WARNING, text=text)

    def _hear(self) -> None:
        for line in self.commands.read():
            answer = decode(Answer, json.loads(line))
            if answer.case_id in self.running:
                self._answer(self.running[answer.case_id], answer.run)
        self.hung_up = self.hung_up or self.commands.ended

    def _answer(self, running: Running, run: bool) -> None:
        self._tell(running, RUN if run else USE_STORED)
        if not run:
            self._let_go(running)

    def _tell(self, running: Running, word: bytes) -> None:
        # It may have died meanwhile, which is noticed elsewhere.
        with contextlib.suppress(BrokenPipeError):
            os.write(running.answer_fd, word)

    # Starting cases.

    def _launch(self) -> None:
        while self.waiting and not self.hung_up and self._has_room(self.waiting[0]):
            order = self.waiting.popleft()
            refusal = self._refusal(order)
            if refusal is None:
                self._start(order)
            else:
                self._emit(EventKind.FINISHED, order.case_id, result=encode(refusal))

    def _has_room(self, order: Order) -> bool:
        return len(self.running) < (1 if order.sampled else self.job.jobs)

    def _refusal(self, order: Order) -> CaseResult | None:
        """The result of a case that cannot be started."""
        if self.job.budget_s is not None and time.monotonic() - self.began_s > self.job.budget_s:
            return failed(order.case_id, "the time budget of the run was spent", CaseStatus.NOT_RUN)
        if order.sampled or order.case_id in self.loaded.cases:
            return None
        absent = f"{order.file} has no such case any more"
        return failed(order.case_id, self.loaded.failures.get(order.file, absent))

    def _start(self, order: Order) -> None:
        if order.sampled:
            self._begin(spawn_case(order, self.job.memory_bytes))
            return
        case = self.loaded.cases[order.case_id]

        def body(link: Link) -> None:
            report(case, link, verify=self.job.verify)

        self._begin(fork_case(order, self.job.memory_bytes, body, self._leave))

    def _start_next(self, before: Running, found: tuple[CaseResult, ...]) -> None:
        """Another process of a sampled case, within the time that is left to the case."""
        running = spawn_case(before.order, self.job.memory_bytes)
        running.earlier = found
        running.started_s, running.deadline_s = before.started_s, before.deadline_s
        self._begin(running)

    def _begin(self, running: Running) -> None:
        order = running.order
        self.running[order.case_id] = running
        self._watch(running.result.fd, lambda: self._read_result(running))
        self._watch(running.output_fd, lambda: self._read_output(running))
        self._watch(running.pid_fd, lambda: self._end(running))
        self._emit(EventKind.STARTED, order.case_id, pid=running.pid)
        self._tell(running, BEGIN)

    def _leave(self) -> None:
        """In a forked child: close the worker's pipes, so that their ends mean what they should."""
        others = [fd for running in self.running.values() for fd in running.descriptors()]
        for fd in (*others, self.commands.fd, self.events_fd):
            os.close(fd)
        self.selector.close()

    # Watching cases. One select may report several things about a case that the first of them ends.

    def _watch(self, fd: int, react: Callable[[], None]) -> None:
        self.selector.register(fd, selectors.EVENT_READ, react)

    def _unwatch(self, fd: int) -> None:
        """Also for a pipe that came to its end earlier, and is not watched any more."""
        with contextlib.suppress(KeyError):
            self.selector.unregister(fd)

    def _is_live(self, running: Running) -> bool:
        return self.running.get(running.order.case_id) is running

    def _read_result(self, running: Running) -> None:
        if not self._is_live(running):
            return
        for line in running.result.read():
            self._take(running, line)
        if running.result.ended and self._is_live(running):
            self._unwatch(running.result.fd)

    def _read_output(self, running: Running) -> None:
        if self._is_live(running) and not running.read_output():
            self._unwatch(running.output_fd)

    def _take(self, running: Running, line: bytes) -> None:
        """A complete line from a case: a question about its digest, or its result."""
        try:
            data = json.loads(line)
        except (ValueError, RecursionError) as error:
            data = encode(failed(running.order.case_id, f"the result is not readable: {error}"))
        if "case_id" not in data:
            self._emit(EventKind.DIGEST, running.order.case_id, text=data["digest"])
        elif not running.timed_out:
            self._let_go(running)
            self._take_result(running, data)

    def _take_result(self, running: Running, data: dict[str, object]) -> None:
        """One process has ended well or not: the case has another, or is over."""
        if not running.order.sampled or data.get("status", CaseStatus.OK) != CaseStatus.OK:
            self._finish(running, data)
            return
        try:
            found = (*running.earlier, decode(CaseResult, data))
        except UserError as error:
            self._finish(running, encode(failed(running.order.case_id, f"bad result: {error}")))
            return
        if len(found) < running.order.processes and not self.hung_up:
            self._start_next(running, found)
        else:
            self._finish(running, encode(pooled(found)))

    def _end(self, running: Running) -> None:
        """The process is over, or has to be: a result on its way still counts, else it failed."""
        self._read_result(running)
        if not self._is_live(running):
            return
        exit_code = self._let_go(running)
        case_id, duration_s = running.order.case_id, time.monotonic() - running.started_s
        if running.timed_out:
            message = f"no result after {running.order.timeout_s:g} s"
            self._finish(
                running, encode(failed(case_id, message, CaseStatus.TIMED_OUT, duration_s))
            )
        else:
            message = f"{describe_exit(exit_code)} before it had a result"
            self._finish(running, encode(failed(case_id, message, duration_s=duration_s)))

    def _let_go(self, running: Running) -> int:
        """Forget the case, once nothing of it is left; gives its exit code."""
        for fd in (running.result.fd, running.output_fd, running.pid_fd):
            self._unwatch(fd)
        del self.running[running.order.case_id]
        return running.reap()

    def _finish(self, running: Running, data: dict[str, object]) -> None:
        """Report a result; one that failed gets what the case printed."""
        text = running.output.decode("utf-8", "replace").strip()
        if text and "status" in data:
            shown = failed("", f"{data.get('message', '')}\noutput:\n{text}")
            data = {**data, "message": shown.message}
        self._emit(EventKind.FINISHED, running.order.case_id, result=data)

    def _patience_s(self) -> float | None:
        """Seconds until the next deadline."""
        if not self.running:
            return None
        first_s = min(running.deadline_s for running in self.running.values())
        return max(0.0, first_s - time.monotonic())

    def _expire(self) -> None:
        """Abort what is over time, which prints its stack; kill what does not end even so."""
        now_s = time.monotonic()
        for running in [r for r in self.running.values() if r.deadline_s <= now_s]:
            if running.timed_out:
                self._end(running)
            else:
                running.timed_out = True
                running.deadline_s = now_s + ABORT_GRACE_S
                os.kill(running.pid, signal.SIGABRT)
