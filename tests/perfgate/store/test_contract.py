"""What every store does, checked on each of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from perfgate.errors import UserError
from perfgate.model import CaseResult, CaseStatus, MetricKind, Run, Sample
from perfgate.store import MemoryStore, Store
from tests.perfgate.records import runs
from tests.perfgate.store.samples import HOST_TIME, LATENCY, closed, exact, full, opened


@pytest.fixture(params=["memory", "sqlite"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, new_store: Callable[[Path], Store]
) -> Iterator[Store]:
    made = MemoryStore() if request.param == "memory" else new_store(tmp_path / "history.db")
    yield made
    made.close()


def test_a_whole_run_comes_back_as_it_was(store: Store) -> None:
    run = closed("r1", full("b"), full("a"), CaseResult("c", CaseStatus.FAILED, message="boom"))
    store.add_run(run)

    assert store.run("r1") == run


def test_a_run_built_case_by_case_equals_one_added_whole(store: Store) -> None:
    whole = closed("r1", full("b"), exact("a"))
    store.open_run(dataclasses.replace(whole, results=(), finished_at="", warnings=()))
    for result in whole.results:
        store.add_result("r1", result)
    store.close_run("r1", whole.finished_at, whole.warnings)

    assert store.run("r1") == whole


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(run=runs(finished=True))
def test_any_run_comes_back_as_it_was(store: Store, run: Run) -> None:
    if run.run_id in {known.run_id for known in store.runs()}:
        return
    store.add_run(run)

    assert store.run(run.run_id) == run


def test_an_open_run_is_seen_only_where_asked_for(store: Store) -> None:
    store.add_run(closed("old", exact("a")))
    store.open_run(opened("new", minute=5))
    store.add_result("new", exact("only in the open run"))

    assert [run.run_id for run in store.runs()] == ["old"]
    assert [run.run_id for run in store.runs(include_open=True)] == ["new", "old"]
    assert [run.run_id for run in store.runs_at("c1")] == ["old"]
    assert store.case_ids() == ("a",)
    assert store.history("only in the open run") == ()
    assert store.run("new").results == (exact("only in the open run"),)


def test_a_second_result_of_a_case_replaces_the_first(store: Store) -> None:
    store.open_run(opened())
    for result in (full("a"), exact("b"), exact("a", 9.0)):
        store.add_result("r1", result)

    assert store.run("r1").results == (exact("b"), exact("a", 9.0))


def test_closing_adds_warnings_to_those_of_opening(store: Store) -> None:
    store.open_run(dataclasses.replace(opened(), warnings=("first",)))
    store.close_run("r1", "2025-01-01T13:00:00+00:00", ["second"])

    assert store.run("r1").warnings == ("first", "second")


def test_headers_come_newest_first_without_results(store: Store) -> None:
    for name, minute in (("mid", 2), ("new", 3), ("old", 1)):
        store.add_run(closed(name, exact("a"), minute=minute))

    assert [run.run_id for run in store.runs()] == ["new", "mid", "old"]
    assert [run.run_id for run in store.runs(limit=2)] == ["new", "mid"]
    assert {run.results for run in store.runs()} == {()}


def test_times_are_ordered_as_times_not_as_text(store: Store) -> None:
    times = {"b": "2025-01-01T12:00:00+02:00", "c": "2025-01-01T11:00:00Z", "a": ""}
    for name, time in times.items():
        store.add_run(dataclasses.replace(closed(name), started_at=time))

    assert [run.run_id for run in store.runs()] == ["c", "b", "a"]
    assert store.run("b").started_at == times["b"]


def test_runs_at_a_commit(store: Store) -> None:
    store.add_run(closed("r1", commit="c1", minute=1))
    store.add_run(closed("r2", commit="c2", minute=2))
    store.add_run(closed("r3", commit="c1", minute=3))

    assert [run.run_id for run in store.runs_at("c1")] == ["r3", "r1"]
    assert store.runs_at("c9") == ()


def test_history_is_oldest_first_and_light(store: Store) -> None:
    store.add_run(closed("new", full("a"), exact("b"), minute=2))
    store.add_run(closed("old", exact("a", 4.0), minute=1))
    store.add_run(closed("without", exact("b"), minute=3))

    points = store.history("a")

    assert [point.run.run_id for point in points] == ["old", "new"]
    assert points[0].result == exact("a", 4.0)
    assert points[1].result == dataclasses.replace(full("a"), profile=None, timeline=())
    assert points[1].run == dataclasses.replace(closed("new", minute=2), results=())


def test_case_ids_are_sorted_and_said_once(store: Store) -> None:
    store.add_run(closed("r1", exact("b"), exact("a"), minute=1))
    store.add_run(closed("r2", exact("b"), exact("B"), minute=2))

    assert store.case_ids() == ("B", "a", "b")


def test_the_same_run_twice_is_kept_once(store: Store) -> None:
    run = closed("r1", full("a"))
    store.add_run(run)
    store.add_run(run)

    assert len(store.runs()) == 1
    assert store.run("r1") == run


def test_another_run_under_a_known_id_is_refused(store: Store) -> None:
    store.add_run(closed("r1", exact("a", 1.0)))

    with pytest.raises(UserError, match="run r1: already in the store"):
        store.add_run(closed("r1", exact("a", 2.0)))
    with pytest.raises(UserError, match="run r1: already in the store"):
        store.open_run(opened("r1"))
    assert store.run("r1") == closed("r1", exact("a", 1.0))


def test_a_refused_run_leaves_nothing_behind(store: Store) -> None:
    with pytest.raises(UserError, match="case a appears twice"):
        store.add_run(closed("r1", exact("a"), exact("a")))
    with pytest.raises(UserError, match="not finished"):
        store.add_run(opened("r2"))
    with pytest.raises(UserError, match="expected ISO 8601, got 'yesterday'"):
        store.add_run(dataclasses.replace(closed("r3"), started_at="yesterday"))

    assert store.runs(include_open=True) == ()


def test_opening_takes_a_run_that_has_just_begun(store: Store) -> None:
    with pytest.raises(ValueError, match="with results or as finished"):
        store.open_run(closed("r1"))


def test_a_closed_run_takes_no_more(store: Store) -> None:
    store.add_run(closed("r1"))

    with pytest.raises(UserError, match="run r1: already closed"):
        store.add_result("r1", exact("a"))
    with pytest.raises(UserError, match="run r1: already closed"):
        store.close_run("r1", "2025-01-01T13:00:00+00:00")


def test_a_unique_beginning_names_a_run(store: Store) -> None:
    for name in ("2025-a", "2025-b", "2025-b2"):
        store.add_run(closed(name))

    assert store.run("2025-a").run_id == "2025-a"
    assert store.run("2025-b").run_id == "2025-b"
    with pytest.raises(UserError, match="run 2025: matches 2025-a, 2025-b, 2025-b2"):
        store.run("2025")


@pytest.mark.parametrize("name", ["", "x", "R", "%", "_1"])
def test_an_unknown_run_is_named(store: Store, name: str) -> None:
    store.add_run(closed("r1"))

    with pytest.raises(UserError, match=f"run {name}: not in the store") as caught:
        store.run(name)
    assert "perfgate runs" in caught.value.hint


def test_writing_to_an_unknown_run_is_refused(store: Store) -> None:
    store.add_run(closed("r12"))

    with pytest.raises(UserError, match="run r1: not in the store"):
        store.add_result("r1", exact("a"))
    with pytest.raises(UserError, match="run r1: not in the store"):
        store.close_run("r1", "2025-01-01T13:00:00+00:00")


def test_the_newest_exact_result_answers_for_the_same_inputs(store: Store) -> None:
    store.add_run(closed("new", exact("a", 2.0, digest="d"), minute=3))
    store.add_run(closed("old", exact("a", 1.0, digest="d"), minute=1))
    assert store.cached("a", "d") == exact("a", 2.0, digest="d")

    newest = dataclasses.replace(full("a"), digest="d", samples=full("a").samples[:1])
    store.open_run(opened("open", minute=4))
    store.add_result("open", newest)

    assert store.cached("a", "d") == newest
    assert store.cached("a", "e") is None
    assert store.cached("b", "d") is None


def test_what_could_differ_next_time_is_never_reused(store: Store) -> None:
    noisy = Sample(HOST_TIME, (1.0,))
    sure = Sample(dataclasses.replace(LATENCY, kind=MetricKind.EXACT), (1.0,))
    results = (
        CaseResult("mixed", samples=(sure, noisy), digest="d"),
        CaseResult("failed", CaseStatus.FAILED, samples=(sure,), digest="d"),
        CaseResult("empty", digest="d"),
        CaseResult("no digest", samples=(sure,)),
    )
    store.add_run(closed("r1", *results))

    assert [store.cached(r.case_id, r.digest) for r in results] == [None] * 4


def test_a_noisy_result_does_not_hide_an_older_exact_one(store: Store) -> None:
    store.add_run(closed("old", exact("a", digest="d"), minute=1))
    noisy = CaseResult("a", samples=(Sample(HOST_TIME, (1.0,)),), digest="d")
    store.add_run(closed("new", noisy, minute=2))

    assert store.cached("a", "d") == exact("a", digest="d")


def test_the_same_metric_may_be_declared_differently_later(store: Store) -> None:
    other = dataclasses.replace(LATENCY, reference=1.0)
    store.add_run(closed("r1", exact("a"), minute=1))
    store.add_run(closed("r2", CaseResult("a", samples=(Sample(other, (2.0,)),)), minute=2))

    assert [p.result.samples[0].metric for p in store.history("a")] == [LATENCY, other]


def test_histories_are_the_history_of_each_case(store: Store) -> None:
    store.add_run(closed("new", full("b"), exact("a"), exact("c"), minute=2))
    store.add_run(closed("old", exact("a", 4.0), CaseResult("c", CaseStatus.FAILED), minute=1))
    store.open_run(opened("open", minute=3))
    store.add_result("open", exact("a", 5.0))

    every = store.histories()

    assert every == {case_id: store.history(case_id) for case_id in ("a", "b", "c")}
    assert list(every) == ["a", "b", "c"]
    assert [point.run.run_id for point in every["a"]] == ["old", "new"]
    assert every["b"][0].result == dataclasses.replace(full("b"), profile=None, timeline=())


def test_histories_of_some_cases_or_of_the_newest_runs(store: Store) -> None:
    for name, minute in (("old", 1), ("new", 3), ("mid", 2)):
        store.add_run(closed(name, exact("a"), exact(f"only {name}"), minute=minute))
    many = [f"absent {number}" for number in range(1100)]

    chosen = store.histories([*many, "only old", "a"])

    assert {case_id: len(points) for case_id, points in chosen.items()} == {"a": 3, "only old": 1}
    assert store.histories([]) == {}
    recent = store.histories(newest=2)
    assert [point.run.run_id for point in recent["a"]] == ["mid", "new"]
    assert sorted(recent) == ["a", "only mid", "only new"]
    assert store.histories(["only old"], newest=2) == {}
