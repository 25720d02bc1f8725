"""The process of one case: load, limit, run, report, and leave without any exit hooks.

An exact case is forked from a worker that has the suite loaded; a sampled case starts as a fresh
interpreter in `main`. Both end in `report`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perfgate.codec import decode, encode
from perfgate.model import CaseResult
from perfgate.suite.benchmark import Case
from perfgate.suite.discover import load_file, load_module
from perfgate.suite.execute import describe, failed, run_case
from perfgate.suite.process import prepare_case_process
from perfgate.suite.wire import Order, to_line, write_all

BEGIN = b"b"
USE_STORED = b"s"
RUN = b"r"


@dataclass(frozen=True, slots=True)
class Link:
    """The child's ends of its pipes: results go out, the answer to a digest comes in."""

    result_fd: int
    answer_fd: int


@dataclass(frozen=True, slots=True)
class FreshCase:
    """What a fresh interpreter needs to know to run one case."""

    order: Order
    result_fd: int
    answer_fd: int
    parent_pid: int
    memory_bytes: int | None = None


def main(arguments: Sequence[str]) -> int:
    """Entry of a fresh interpreter; its one argument is a `FreshCase`."""
    fresh = decode(FreshCase, json.loads(arguments[0]))
    prepare_case_process(fresh.parent_pid, fresh.memory_bytes)
    link = Link(fresh.result_fd, fresh.answer_fd)
    wait_to_begin(link)
    order = fresh.order
    try:
        case = load_cases(order)[order.case_id]
    except BaseException as error:
        _send(failed(order.case_id, f"could not load the suite: {describe(error)}"), link)
    else:
        report(case, link)
    os._exit(0)


def wait_to_begin(link: Link) -> None:
    """Let no code of the benchmark run before the worker has told its parent of this process.

    Else a case that kills the worker might do so before anybody knew that it was running.
    """
    if os.read(link.answer_fd, 1) != BEGIN:
        os._exit(1)


def fresh_arguments(fresh: FreshCase) -> list[str]:
    """The arguments of `main`."""
    return [json.dumps(encode(fresh))]


def load_cases(order: Order) -> dict[str, Case]:
    """The cases of an order's file by id, after the module's `warm_up()` where it has one."""
    suite, file, folders = Path(order.suite), Path(order.file), tuple(map(Path, order.folders))
    cases = load_file(suite, file, folders)
    warm_up = getattr(load_module(suite, file, folders), "warm_up", None)
    if callable(warm_up):
        warm_up()
    return {case.case_id: case for case in cases}


def report(case: Case, link: Link, *, verify: bool = False) -> None:
    """Run the case and send what came of it."""
    pid = os.getpid()
    result = run_case(case, lambda digest: _is_stored(digest, link), verify=verify)
    # A benchmark may fork and let its child return from the function: that child reports nothing.
    if result is not None and os.getpid() == pid:
        _send(result, link)


def _is_stored(digest: str, link: Link) -> bool:
    write_all(link.result_fd, to_line({"digest": digest}))
    answer = os.read(link.answer_fd, 1)
    if not answer:
        os._exit(1)
    return answer == USE_STORED


def _send(result: CaseResult, link: Link) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    try:
        line = to_line(result)
    except (TypeError, ValueError, RecursionError) as error:
        line = to_line(failed(result.case_id, f"the result has no JSON form: {error}"))
    write_all(link.result_fd, line)
