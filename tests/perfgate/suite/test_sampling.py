"""Rounds, under a clock that moves only when told."""

from __future__ import annotations

import gc

from perfgate.suite.benchmark import Rounds
from perfgate.suite.sampling import collect_rounds, count_processes, share, time_rounds


class FakeClock:
    """Every call of `work` takes `seconds`, and nothing else takes any time."""

    def __init__(self, seconds: float) -> None:
        self.now = 0.0
        self.seconds = seconds
        self.calls = 0

    def __call__(self) -> float:
        return self.now

    def work(self) -> int:
        self.now += self.seconds
        self.calls += 1
        return self.calls


def test_the_processes_share_the_rounds_and_the_budget():
    whole = Rounds(min_rounds=6, max_rounds=100, budget_s=2.0, processes=4)

    assert count_processes(whole) == 4
    assert share(whole) == Rounds(2, 25, budget_s=0.5, processes=1)


def test_there_are_no_more_processes_than_rounds():
    whole = Rounds(min_rounds=1, max_rounds=3, budget_s=3.0, processes=5)

    assert count_processes(whole) == 3
    assert share(whole) == Rounds(1, 1, budget_s=1.0, processes=1)


def test_a_round_is_the_time_of_one_call():
    clock = FakeClock(0.5)

    values = time_rounds(clock.work, Rounds(max_rounds=3, min_rounds=3), clock)

    assert values == (0.5, 0.5, 0.5)


def test_short_calls_are_repeated_until_a_round_is_long_enough():
    clock = FakeClock(2.0**-20)

    values = time_rounds(clock.work, Rounds(1, 1, min_round_s=0.01, warm_up=0), clock)
    before = clock.calls
    time_rounds(clock.work, Rounds(2, 2, min_round_s=0.01, warm_up=0), clock)

    assert values == (2.0**-20,)
    # Both calibrate alike; the second has one round more, and that is what a round takes.
    assert (clock.calls - before - before) * clock.seconds >= 0.01


def test_a_clock_too_coarse_to_see_a_call_does_not_stop_calibration():
    clock = FakeClock(1.0)
    coarse = lambda: float(int(clock.now / 1000)) * 1000  # noqa: E731

    values = time_rounds(clock.work, Rounds(1, 1, min_round_s=500.0), coarse)

    assert values[0] > 0


def test_rounds_go_on_until_the_budget_is_spent():
    clock = FakeClock(0.25)

    assert len(time_rounds(clock.work, Rounds(1, 100, budget_s=2.0), clock)) == 8


def test_a_slow_benchmark_gets_its_least_number_of_rounds():
    clock = FakeClock(60.0)

    assert len(time_rounds(clock.work, Rounds(min_rounds=5, budget_s=1.0), clock)) == 5


def test_a_quick_benchmark_stops_at_its_greatest_number_of_rounds():
    clock = FakeClock(0.0)

    assert len(collect_rounds(clock.work, Rounds(max_rounds=7), clock)) == 7


def test_warm_up_calls_are_not_recorded():
    clock = FakeClock(0.1)

    assert collect_rounds(clock.work, Rounds(2, 2, warm_up=3), clock) == (4, 5)


def test_the_garbage_collector_is_off_during_a_round_and_on_afterwards():
    clock = FakeClock(1.0)

    assert collect_rounds(gc.isenabled, Rounds(2, 2, warm_up=0), clock) == (False, False)
    assert gc.isenabled()


def test_the_garbage_collector_comes_back_after_a_failure():
    def fail() -> None:
        raise ValueError

    try:
        collect_rounds(fail, Rounds(warm_up=0), FakeClock(1.0))
    except ValueError:
        assert gc.isenabled()
