"""Repeating a sampled benchmark: warm-up, calibration, rounds, with the clock passed in.

Comes in: a function without arguments and the `Rounds` of this process (`share`). Goes out: one
value a round, in the order taken. The garbage collector is off during a round and on between
rounds, so that a round never pays for the garbage of another.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from perfgate.suite.benchmark import Rounds

T = TypeVar("T")
Clock = Callable[[], float]


def count_processes(rounds: Rounds) -> int:
    """How many processes a case gets: no more than it has rounds."""
    return min(rounds.processes, rounds.max_rounds)


def share(rounds: Rounds) -> Rounds:
    """What each of the processes has to do, so that together they do what was asked."""
    processes = count_processes(rounds)
    fewest = -(-rounds.min_rounds // processes)
    return replace(
        rounds,
        processes=1,
        min_rounds=fewest,
        max_rounds=max(fewest, rounds.max_rounds // processes),
        budget_s=rounds.budget_s / processes,
    )


def time_rounds(
    function: Callable[[], object], rounds: Rounds, clock: Clock = time.perf_counter
) -> tuple[float, ...]:
    """Seconds for one call, one value a round."""
    _warm_up(function, rounds.warm_up)
    repeats = _calibrate(function, rounds.min_round_s, clock)
    seconds = _repeat(lambda: _time(function, repeats, clock), rounds, clock)
    return tuple(value / repeats for value in seconds)


def collect_rounds(
    function: Callable[[], T], rounds: Rounds, clock: Clock = time.perf_counter
) -> tuple[T, ...]:
    """What the function returned, one call a round."""
    _warm_up(function, rounds.warm_up)

    def one_round() -> T:
        with _no_garbage_collection():
            return function()

    return tuple(_repeat(one_round, rounds, clock))


def _warm_up(function: Callable[[], object], calls: int) -> None:
    for _ in range(calls):
        function()


def _calibrate(function: Callable[[], object], min_round_s: float, clock: Clock) -> int:
    """How many calls make a round last long enough for the clock and the loop not to matter."""
    repeats = 1
    while (seconds := _time(function, repeats, clock)) < min_round_s:
        # Short rounds say little about the speed, so the guess grows by ten at most.
        wanted = min_round_s / seconds * 1.1 if seconds > 0 else 10.0
        repeats *= max(2, min(10, round(wanted)))
    return repeats


def _repeat(one_round: Callable[[], T], rounds: Rounds, clock: Clock) -> list[T]:
    values: list[T] = []
    end = clock() + rounds.budget_s
    while len(values) < rounds.min_rounds or (len(values) < rounds.max_rounds and clock() < end):
        values.append(one_round())
    return values


def _time(function: Callable[[], object], repeats: int, clock: Clock) -> float:
    calls = range(repeats)
    with _no_garbage_collection():
        start = clock()
        for _ in calls:
            function()
        return clock() - start


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
