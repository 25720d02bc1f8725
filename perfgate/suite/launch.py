"""From an `Order` to a `Running` process and its pipes: forked if exact, fresh if sampled."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from perfgate.model import CaseResult
from perfgate.suite.child import FreshCase, Link, fresh_arguments, wait_to_begin
from perfgate.suite.process import kill_group, prepare_case_process, start_interpreter
from perfgate.suite.wire import READ_BYTES, LineReader, Order

OUTPUT_LIMIT = 4_000


@dataclass(slots=True)
class Running:
    """One case's process, which leads a process group, and our ends of its pipes.

    `earlier` is what the processes before it found, where a sampled case has several.
    """

    order: Order
    pid: int
    pid_fd: int
    result: LineReader
    output_fd: int
    answer_fd: int
    started_s: float
    deadline_s: float
    popen: subprocess.Popen[bytes] | None = None
    earlier: tuple[CaseResult, ...] = ()
    output: bytearray = field(default_factory=bytearray)
    timed_out: bool = False

    def descriptors(self) -> tuple[int, ...]:
        """Everything to close when the case is over."""
        return self.pid_fd, self.result.fd, self.output_fd, self.answer_fd

    def read_output(self) -> bool:
        """Take what the case printed, keeping the end of it; False when nobody can print more."""
        try:
            chunk = os.read(self.output_fd, READ_BYTES)
        except BlockingIOError:
            return True
        self.output = (self.output + chunk)[-OUTPUT_LIMIT:]
        return bool(chunk)

    def reap(self) -> int:
        """Kill what is left of the group, close the pipes, and give the exit code."""
        kill_group(self.pid)
        if self.popen is not None:
            exit_code = self.popen.wait()
        else:
            exit_code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.read_output()
        for fd in self.descriptors():
            os.close(fd)
        return exit_code


@dataclass(frozen=True, slots=True)
class _Pipes:
    """Ours: `result_r`, `output_r`, `answer_w`. The case's: `link` and `output_w`."""

    result_r: int
    output_r: int
    answer_w: int
    link: Link
    output_w: int

    def close_ours(self) -> None:
        for fd in (self.result_r, self.output_r, self.answer_w):
            os.close(fd)

    def close_theirs(self) -> None:
        for fd in (self.link.result_fd, self.link.answer_fd, self.output_w):
            os.close(fd)


def fork_case(
    order: Order,
    memory_bytes: int | None,
    body: Callable[[Link], None],
    leave_worker: Callable[[], None],
) -> Running:
    """Run `body` in a fork of this process, where `leave_worker` closes what is the worker's."""
    pipes = _pipes()
    started_s = time.monotonic()
    parent_pid = os.getpid()
    # What is in a buffer now would be printed by both processes.
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _be_the_case(pipes, parent_pid, memory_bytes, body, leave_worker)
    # The child does the same; whoever comes second changes nothing.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpgid(pid, pid)
    return _running(order, pid, pipes, started_s)


def spawn_case(order: Order, memory_bytes: int | None) -> Running:
    """Run the case in a fresh interpreter."""
    pipes = _pipes()
    started_s = time.monotonic()
    link = pipes.link
    fresh = FreshCase(order, link.result_fd, link.answer_fd, os.getpid(), memory_bytes)
    popen = start_interpreter(
        "child", fresh_arguments(fresh), pipes.output_w, (link.result_fd, link.answer_fd)
    )
    running = _running(order, popen.pid, pipes, started_s)
    running.popen = popen
    return running


def _pipes() -> _Pipes:
    (result_r, result_w), (output_r, output_w), (answer_r, answer_w) = (os.pipe() for _ in range(3))
    os.set_blocking(result_r, False)
    os.set_blocking(output_r, False)
    return _Pipes(result_r, output_r, answer_w, Link(result_w, answer_r), output_w)


def _running(order: Order, pid: int, pipes: _Pipes, started_s: float) -> Running:
    pipes.close_theirs()
    return Running(
        order=order,
        pid=pid,
        pid_fd=os.pidfd_open(pid),
        result=LineReader(pipes.result_r),
        output_fd=pipes.output_r,
        answer_fd=pipes.answer_w,
        started_s=started_s,
        deadline_s=started_s + order.timeout_s,
    )


def _be_the_case(
    pipes: _Pipes,
    parent_pid: int,
    memory_bytes: int | None,
    body: Callable[[Link], None],
    leave_worker: Callable[[], None],
) -> None:
    """The whole life of a forked child. Exit hooks belong to the worker, so none runs here."""
    try:
        os.setpgid(0, 0)
        os.dup2(pipes.output_w, 1)
        os.dup2(pipes.output_w, 2)
        os.close(pipes.output_w)
        pipes.close_ours()
        leave_worker()
        prepare_case_process(parent_pid, memory_bytes)
        wait_to_begin(pipes.link)
        body(pipes.link)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(70)
    os._exit(0)
