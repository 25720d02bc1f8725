"""Two sides are compared by their samples only if they were measured in turns."""

from __future__ import annotations

import dataclasses

import pytest

from perfgate.gate import compare_runs, exit_code
from perfgate.model import CaseResult, CaseStatus, GateResult, Run, Sample, Word
from perfgate.policy import Policy
from perfgate.session import take_sides
from tests.perfgate.sides import LATENCY, MACHINE, TIME, exact, failed, run, sampled

BASE, HEAD = "b", "h"


def turn(side: str, minute: int, *results: CaseResult, session: str = "job") -> Run:
    """A run of a side, `minute` minutes past twelve."""
    made = run(side, *results, session=session)
    time = f"2026-06-15T12:{minute:02}:00+00:00"
    return dataclasses.replace(made, run_id=f"{side}{minute}", started_at=time)


def turns(order: str, head_factor: float = 1.0) -> list[Run]:
    """Runs in the order of letters; every run has rounds of its own, around its own middle."""
    made = []
    for minute, side in enumerate(order):
        middle = (1 + 0.01 * minute) * (head_factor if side == HEAD else 1.0)
        rounds = Sample(TIME, tuple(middle + d for d in (-0.3, 0.0, 0.7)), one_process=True)
        made.append(turn(side, minute, CaseResult("a", samples=(rounds,))))
    return made


def newest(runs: list[Run], side: str) -> Run:
    return next(run for run in reversed(runs) if run.run_id.startswith(side))


def gate(runs: list[Run]) -> GateResult:
    return compare_runs(newest(runs, BASE), newest(runs, HEAD), Policy(), others=runs)


def word(result: GateResult) -> Word:
    return result.verdicts[0].word


def test_each_run_in_turns_gives_the_median_of_its_values() -> None:
    runs = turns("bhbh")

    sides = take_sides(newest(runs, BASE), newest(runs, HEAD), reversed(runs))

    assert sides.apart == ""
    assert sides.base.results[0].samples == (Sample(TIME, (1.0, 1.02)),)
    assert sides.head.results[0].samples == (Sample(TIME, (1.01, 1.03)),)
    assert (sides.base.run_id, sides.head.run_id) == ("b2", "h3")


@pytest.mark.parametrize(
    ("factor", "expected", "code"), [(1.5, Word.REGRESSED, 1), (0.5, Word.IMPROVED, 0)]
)
def test_a_change_measured_in_turns_is_decided(factor: float, expected: Word, code: int) -> None:
    result = gate(turns("bhhbbhbhhb", factor))

    assert (word(result), exit_code(result)) == (expected, code)
    (comparison,) = result.verdicts[0].comparisons
    assert (comparison.base_n, comparison.head_n) == (5, 5)


def test_two_runs_a_side_are_turns_but_not_enough_to_decide() -> None:
    result = gate(turns("bhbh", 1.5))

    assert word(result) is Word.INCONCLUSIVE
    assert "about 4 values per side would decide, 2 and 2 measured" in result.verdicts[0].reason


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ("bbbhhh", "session job has 3 of the base and 3 of the head, all of one side first"),
        ("hhhbbb", "all of one side first"),
        ("bhb", "session job has 2 of the base and 1 of the head, and turns need two of each"),
        ("bh", "turns need two of each at least"),
    ],
)
def test_no_turns_are_no_comparison_and_the_reason_says_how(order: str, told: str) -> None:
    result = gate(turns(order, 1.5))

    assert (word(result), exit_code(result)) == (Word.NOT_COMPARED, 3)
    assert told in result.verdicts[0].reason
    assert "in turns" in result.verdicts[0].reason
    assert "`perfgate run --session NAME`" in result.verdicts[0].reason


def test_how_to_take_turns_is_told_in_the_words_of_the_tool() -> None:
    runs = [dataclasses.replace(run, source="pytest-benchmark") for run in turns("bh")]

    assert "`pytest --perfgate --perfgate-session NAME`" in gate(runs).verdicts[0].reason


def test_other_sessions_machines_tools_changes_and_open_runs_are_no_turns() -> None:
    runs = turns("bhbh")
    strangers = [
        dataclasses.replace(runs[0], run_id="1", session="other"),
        dataclasses.replace(runs[0], run_id="2", source="pytest-benchmark"),
        dataclasses.replace(runs[0], run_id="3", finished_at=""),
        dataclasses.replace(
            runs[0], run_id="4", environment=dataclasses.replace(MACHINE, cpu="slow")
        ),
        dataclasses.replace(
            runs[0], run_id="5", revision=dataclasses.replace(runs[0].revision, dirty="0123")
        ),
    ]

    assert gate(runs + strangers).verdicts == gate(runs).verdicts


def test_one_commit_against_itself_has_no_sides() -> None:
    runs = turns("bbbb")

    sides = take_sides(runs[2], runs[3], runs)

    assert "one commit" in sides.apart


def test_a_failure_in_any_run_is_not_hidden_by_the_others() -> None:
    runs = [
        turn(side, minute, failed("a") if minute == 1 else sampled("a", 1.0))
        for minute, side in enumerate("bhbhbh")
    ]

    assert word(gate(runs)) is Word.FAILED


def test_a_case_that_only_some_runs_have_counts_with_those() -> None:
    runs = [
        turn(side, minute, sampled("a", 1.0), *([sampled("z", 1.0)] if minute < 4 else []))
        for minute, side in enumerate("bhbhbh")
    ]

    counts = {v.case_id: v.comparisons[0].base_n for v in gate(runs).verdicts}
    assert counts == {"a": 3, "z": 2}


def test_an_exact_metric_that_differs_between_runs_of_a_side_is_told() -> None:
    runs = [
        turn(side, minute, exact("a", 100.0 + (minute == 3)))
        for minute, side in enumerate("bhbhbh")
    ]

    result = gate(runs)

    assert word(result) is Word.INCONCLUSIVE
    assert "an exact metric has 2 values in the head" in result.verdicts[0].reason


def test_an_exact_metric_does_not_need_turns() -> None:
    result = gate([turn("b", 0, exact("a", 1.0)), turn("h", 1, exact("a", 1.0))])

    assert (word(result), exit_code(result)) == (Word.UNCHANGED, 0)
    assert result.verdicts[0].comparisons[0].metric == LATENCY


def test_the_statuses_of_runs_that_did_not_reach_a_case_count_too() -> None:
    late = failed("a", CaseStatus.NOT_RUN)
    runs = [
        turn(side, minute, late if minute == 5 else sampled("a", 1.0))
        for minute, side in enumerate("bhbhbh")
    ]

    assert word(gate(runs)) is Word.NOT_RUN
