"""Runs in a store: opened, filled, closed, interrupted and resumed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from perfgate.errors import UserError
from perfgate.model import CaseResult, CaseStatus, Environment, Revision, Run
from perfgate.store import MemoryStore
from perfgate.suite.record import (
    RecordOptions,
    find_open,
    new_run_id,
    record_run,
    resume,
)
from perfgate.suite.runner import RunOptions

REVISION = Revision("c0ffee" * 6, dirty="d1")
MACHINE = Environment(cpu="a")
SUITE = """
@perfgate.benchmark(metrics=[CYCLES], params={'n': [1, 2, 3]}, digest=lambda n: 'same')
def one(n):
    return {'cycles': n}
"""


class FakeClock:
    """A minute passes between any two looks."""

    def __init__(self) -> None:
        self.time = datetime(2026, 12, 1, 3, 16, 56, 123_000, UTC)

    def now(self) -> datetime:
        self.time += timedelta(minutes=1)
        return self.time


class Watcher:
    """Writes down what it hears; `stop_after` results it interrupts."""

    def __init__(self, stop_after: int = 99) -> None:
        self.heard: list[str] = []
        self.stop_after = stop_after

    def total(self, count: int) -> None:
        self.heard.append(f"total {count}")

    def started(self, case) -> None:
        self.heard.append(f"started {case.case_id}")

    def finished(self, result: CaseResult) -> None:
        self.heard.append(f"finished {result.case_id}")
        self.stop_after -= 1
        if not self.stop_after:
            raise KeyboardInterrupt


@pytest.fixture
def options() -> RecordOptions:
    return RecordOptions(session="job 7", clock=FakeClock())


def interrupted(store, cases, options) -> Run:
    with pytest.raises(KeyboardInterrupt):
        record_run(store, cases, REVISION, MACHINE, options, Watcher(stop_after=1))
    return find_open(store, REVISION, MACHINE)


def test_a_run_is_recorded_and_closed(make_cases, options):
    store, watcher = MemoryStore(), Watcher()

    run = record_run(store, make_cases(SUITE), REVISION, MACHINE, options, watcher)

    assert run == store.run(run.run_id)
    assert (run.revision, run.environment, run.session) == (REVISION, MACHINE, "job 7")
    assert (run.started_at, run.finished_at) == (
        "2026-12-01T03:17:56.123+00:00",
        "2026-12-01T03:18:56.123+00:00",
    )
    assert sorted(r.samples[0].values[0] for r in run.results) == [1.0, 2.0, 3.0]
    assert watcher.heard[0] == "total 3"
    assert sorted(watcher.heard[1:]) == sorted(
        f"{word} b.one[n={n}]" for word in ("started", "finished") for n in (1, 2, 3)
    )


def test_the_second_run_is_answered_from_the_first(make_cases, options):
    store, cases = MemoryStore(), make_cases(SUITE)
    first = record_run(store, cases, REVISION, MACHINE, options)
    second = record_run(store, cases, REVISION, MACHINE, options)
    third = record_run(store, cases, REVISION, MACHINE, replace(options, use_cache=False))

    assert [r.cached for r in first.results] == [False] * 3
    assert [r.cached for r in second.results] == [True] * 3
    assert [r.cached for r in third.results] == [False] * 3
    assert {r.case_id: r.samples for r in second.results} == {
        r.case_id: r.samples for r in first.results
    }


def test_a_number_that_changes_is_told_and_never_reused(make_cases, options):
    store = MemoryStore()
    cases = make_cases(
        "import itertools\ncount = itertools.count(1)\n"
        "@perfgate.benchmark(metrics=[CYCLES], digest=lambda: 'inputs')\n"
        "def one():\n    return {'cycles': next(count)}\n"
    )
    checked = replace(options, limits=RunOptions(verify=True))

    first = record_run(store, cases, REVISION, MACHINE, checked)
    second = record_run(store, cases, REVISION, MACHINE, options)

    assert first.warnings == (
        "b.one: exact metric cycles was 1 and then 2: the benchmark is not deterministic",
    )
    assert (second.results[0].cached, second.warnings) == (False, ())


def test_an_interrupted_run_stays_open_with_what_finished(make_cases, options):
    store = MemoryStore()

    run = interrupted(store, make_cases(SUITE), options)

    assert run.finished_at == ""
    assert len(run.results) >= 1
    assert store.runs() == ()


def test_resuming_runs_what_is_missing_and_closes(make_cases, options):
    store, cases, watcher = MemoryStore(), make_cases(SUITE), Watcher()
    run = interrupted(store, cases, options)

    whole = resume(store, run.run_id, cases, options, watcher)

    assert whole.finished_at
    assert sorted(r.case_id for r in whole.results) == sorted(case.case_id for case in cases)
    assert watcher.heard[0] == f"total {3 - len(run.results)}"
    assert whole.results[: len(run.results)] == run.results


def test_a_finished_run_cannot_be_resumed():
    store = MemoryStore()
    store.open_run(open_run("r"))
    store.close_run("r", "2026-12-01T04:00:00+00:00")

    with pytest.raises(UserError, match="finished already"):
        resume(store, "r", ())


def open_run(run_id: str, minute: int = 0, source: str = "perfgate") -> Run:
    return Run(run_id, REVISION, MACHINE, f"2026-12-01T03:{minute:02}:00+00:00", source=source)


def test_the_newest_open_run_of_this_tree_is_found():
    store = MemoryStore()
    store.open_run(open_run("new", 9))
    store.open_run(open_run("old", 3))
    store.open_run(open_run("imported", 12, source="pytest"))

    assert find_open(store, REVISION, MACHINE).run_id == "new"


def test_a_case_that_the_budget_left_out_is_run_when_resuming(make_cases):
    store, cases = MemoryStore(), make_cases(SUITE)
    store.open_run(open_run("r"))
    for case in cases:
        store.add_result("r", CaseResult(case.case_id, CaseStatus.NOT_RUN))

    run = resume(store, "r", cases)

    assert [r.status for r in run.results] == [CaseStatus.OK] * 3


@pytest.mark.parametrize("revision", [Revision("other"), replace(REVISION, dirty="d2")])
def test_another_tree_has_nothing_to_resume(revision):
    store = MemoryStore()
    store.open_run(open_run("r"))

    with pytest.raises(UserError, match="no interrupted run of this working tree"):
        find_open(store, revision, MACHINE)


def test_another_environment_cannot_resume():
    store = MemoryStore()
    store.open_run(open_run("r"))

    with pytest.raises(UserError, match="another environment"):
        find_open(store, REVISION, replace(MACHINE, cpu="b"))


def test_no_case_opens_no_run(options):
    store = MemoryStore()

    with pytest.raises(UserError, match="no case to run"):
        record_run(store, (), REVISION, MACHINE, options)

    assert store.runs(include_open=True) == ()


def test_warnings_of_the_suite_are_kept(make_cases, options):
    cases = make_cases(
        "import threading\n"
        "def warm_up(): threading.Thread(target=signal.pause, daemon=True).start()\n" + SUITE
    )

    run = record_run(MemoryStore(), cases, REVISION, MACHINE, options)

    assert len(run.warnings) == 1


def test_a_failed_case_is_a_result_like_any_other(make_cases, options):
    cases = make_cases(SUITE.replace("return", "if n == 2: raise ValueError\n    return"))

    run = record_run(MemoryStore(), cases, REVISION, MACHINE, options)

    assert run.result("b.one[n=2]").status is CaseStatus.FAILED
    assert run.result("b.one[n=3]").status is CaseStatus.OK
    assert run.finished_at


def test_run_ids_are_unique_and_sort_by_time():
    clock = FakeClock()
    ids = [new_run_id(clock.now()) for _ in range(50)]

    assert ids == sorted(set(ids))
    assert ids[0].startswith("20261201T031756123-")
