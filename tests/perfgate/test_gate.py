"""The words and exit codes of a gate: what fails, what may pass, and that silence never does."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate.codec import decode, encode
from perfgate.gate import compare_runs, exit_code
from perfgate.model import (
    CaseResult,
    CaseStatus,
    Comparison,
    Decision,
    Direction,
    Environment,
    GateResult,
    Metric,
    MetricKind,
    Run,
    Sample,
    Summary,
    Verdict,
    Word,
)
from perfgate.policy import Policy, Rule, Waiver
from tests.perfgate.sides import (
    BYTES,
    LATENCY,
    MACHINE,
    RATE,
    TIME,
    exact,
    failed,
    joined,
    noisy,
    run,
    sampled,
    told,
)

# Words and statistics are tested on single runs; turns have their own tests (test_session.py).
POLICY = Policy(sampled_gate="same-environment")


def gate(base: CaseResult | None, head: CaseResult | None, policy: Policy = POLICY) -> GateResult:
    """Two runs with at most one case each."""
    before = run("b", *([base] if base else []))
    return compare_runs(before, run("h", *([head] if head else [])), policy)


def only(result: GateResult) -> Verdict:
    (verdict,) = result.verdicts
    return verdict


def word(result: GateResult) -> Word:
    return only(result).word


def comparison(result: GateResult) -> Comparison:
    (found,) = only(result).comparisons
    return found


# --- exact ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "expected", "code"),
    [
        (100.0, Word.UNCHANGED, 0),
        (100.4, Word.UNCHANGED, 0),
        (100.5, Word.UNCHANGED, 0),
        (100.6, Word.REGRESSED, 1),
        (102.0, Word.REGRESSED, 1),
        (99.0, Word.IMPROVED, 0),
        (99.9, Word.UNCHANGED, 0),
    ],
)
def test_exact_latency_gates_at_half_a_percent(head: float, expected: Word, code: int) -> None:
    result = gate(exact("a", 100.0), exact("a", head))

    assert word(result) is expected
    assert exit_code(result) == code


def test_a_small_exact_change_is_shown_though_it_does_not_gate() -> None:
    result = gate(exact("a", 100.0), exact("a", 100.3))

    assert comparison(result).decision is Decision.REGRESSED
    assert "+0.30 % worse: 100.0 → 100.3 µs, within the 0.5 % limit" in only(result).reason


def test_a_higher_better_metric_regresses_downwards() -> None:
    assert word(gate(exact("a", 100.0, RATE), exact("a", 98.0, RATE))) is Word.REGRESSED
    assert word(gate(exact("a", 98.0, RATE), exact("a", 100.0, RATE))) is Word.IMPROVED


def test_a_regression_from_zero_counts() -> None:
    result = gate(exact("a", 0.0), exact("a", 1.0))

    assert word(result) is Word.REGRESSED
    assert comparison(result).ratio is None


def test_zero_against_zero_is_unchanged() -> None:
    assert word(gate(exact("a", 0.0), exact("a", 0.0))) is Word.UNCHANGED


def test_exact_metrics_that_no_rule_names_are_shown_only() -> None:
    base, head = (joined(exact("a", 1.0), exact("a", size, BYTES)) for size in (8.0, 16.0))

    result = gate(base, head)

    shown = only(result).comparisons[1]
    assert (shown.decision, shown.gates, shown.ratio) == (Decision.REGRESSED, False, 2.0)
    assert exit_code(result) == 0


def test_a_rule_lets_another_metric_gate() -> None:
    policy = Policy(rules=(Rule(metric="hbm_bytes", threshold=0.1),))

    assert word(gate(exact("a", 8.0, BYTES), exact("a", 8.8, BYTES), policy)) is Word.UNCHANGED
    assert word(gate(exact("a", 8.0, BYTES), exact("a", 8.9, BYTES), policy)) is Word.REGRESSED


def test_an_exact_metric_with_spread_is_a_bug_and_is_told_so() -> None:
    wobbly = CaseResult("a", samples=(Sample(LATENCY, (100.0, 101.0)),))

    result = gate(exact("a", 100.0), wobbly)

    assert word(result) is Word.INCONCLUSIVE
    assert "not deterministic" in only(result).reason
    assert exit_code(result) == 3


@pytest.mark.parametrize(
    "other",
    [
        Metric("latency_us", "ms", Direction.LOWER, MetricKind.EXACT),
        Metric("latency_us", "us", Direction.HIGHER, MetricKind.EXACT),
        Metric("latency_us", "us", Direction.LOWER, MetricKind.SAMPLED),
    ],
)
def test_a_metric_that_changed_its_meaning_is_not_compared_silently(other: Metric) -> None:
    result = gate(exact("a", 100.0), exact("a", 100.0, other))

    assert word(result) is Word.INCONCLUSIVE
    assert exit_code(result) == 3


def test_a_metric_without_a_better_side_only_shows_its_change() -> None:
    tiles = Metric("tiles", "1", Direction.NONE, MetricKind.EXACT)
    base, head = (joined(exact("a", 1.0), exact("a", n, tiles)) for n in (3.0, 4.0))

    result = gate(base, head)

    assert only(result).comparisons[1].decision is Decision.NOT_COMPARED
    assert "3 → 4" in only(result).comparisons[1].reason
    assert exit_code(result) == 0


# --- cases that are not on both sides -------------------------------------------------------------


def test_a_deleted_case_fails_the_gate() -> None:
    result = compare_runs(
        run("b", exact("a", 1.0), exact("c", 9.0)), run("h", exact("a", 1.0)), POLICY
    )

    assert [v.word for v in result.verdicts] == [Word.UNCHANGED, Word.MISSING]
    assert exit_code(result) == 3


def test_a_new_case_passes_beside_a_decided_one() -> None:
    result = compare_runs(
        run("b", exact("a", 1.0)), run("h", exact("a", 1.0), exact("c", 9.0)), POLICY
    )

    assert [v.word for v in result.verdicts] == [Word.UNCHANGED, Word.NEW]
    assert exit_code(result) == 0


def test_without_a_baseline_nothing_passes() -> None:
    result = compare_runs(None, run("h", exact("a", 1.0)), POLICY)

    assert word(result) is Word.NO_BASELINE
    assert exit_code(result) == 3
    assert "there is no baseline" in result.warnings[0]


def test_only_new_cases_decide_nothing() -> None:
    result = gate(None, exact("a", 1.0))

    assert word(result) is Word.NEW
    assert exit_code(result) == 3
    assert result.warnings


def test_empty_runs_do_not_pass() -> None:
    result = gate(None, None)

    assert result.verdicts == ()
    assert exit_code(result) == 3
    assert "no case was measured" in result.warnings[0]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (CaseStatus.FAILED, Word.FAILED),
        (CaseStatus.TIMED_OUT, Word.TIMED_OUT),
        (CaseStatus.NOT_RUN, Word.NOT_RUN),
    ],
)
def test_a_case_that_did_not_end_well_fails_the_gate(status: CaseStatus, expected: Word) -> None:
    result = gate(exact("a", 1.0), failed("a", status, "\n  first\nsecond"))

    assert word(result) is expected
    assert only(result).reason == "first"
    assert exit_code(result) == 3


def test_a_new_case_that_fails_is_failed() -> None:
    assert word(compare_runs(None, run("h", failed("a")), POLICY)) is Word.FAILED


def test_a_case_that_failed_in_the_base_has_no_baseline_and_is_named() -> None:
    base = run("b", failed("a"), exact("c", 1.0))

    result = compare_runs(base, run("h", exact("a", 1.0), exact("c", 1.0)), POLICY)

    assert [v.word for v in result.verdicts] == [Word.NO_BASELINE, Word.UNCHANGED]
    assert "failed in the base" in result.verdicts[0].reason
    assert exit_code(result) == 3
    assert result.warnings == ("not held to anything, because they failed in the base: a",)


def test_a_gating_metric_that_is_gone_is_missing() -> None:
    base = joined(exact("a", 1.0), exact("a", 2.0, BYTES))

    result = gate(base, exact("a", 2.0, BYTES))

    assert word(result) is Word.MISSING
    assert "latency_us is no longer measured" in only(result).reason


def test_an_unfinished_run_is_warned_about() -> None:
    head = dataclasses.replace(run("h", exact("a", 1.0)), finished_at="")

    result = compare_runs(run("b", exact("a", 1.0)), head, POLICY)

    assert "head run h is not finished" in result.warnings[0]


# --- renames --------------------------------------------------------------------------------------


def test_the_same_numbers_under_another_name_look_renamed() -> None:
    base = run("b", exact("k.old", 123.0), exact("z", 1.0))

    result = compare_runs(base, run("h", exact("k.new", 123.0), exact("z", 1.0)), POLICY)

    words = {v.case_id: v.word for v in result.verdicts}
    assert words == {"k.old": Word.RENAMED, "k.new": Word.NEW, "z": Word.UNCHANGED}
    assert exit_code(result) == 3


def test_an_added_parameter_looks_renamed_to_the_nearest_case() -> None:
    base = run("b", exact("k[m=1]", 1.0), exact("k[m=2]", 2.0))
    head = run("h", exact("k[d=x,m=2]", 5.0), exact("k[d=x,m=1]", 6.0))

    result = compare_runs(base, head, POLICY)

    reasons = {v.case_id: v.reason for v in result.verdicts}
    assert "k[d=x,m=1]" in reasons["k[m=1]"]
    assert "k[m=2]" in reasons["k[d=x,m=2]"]


def test_a_large_suite_that_was_renamed_is_matched_by_its_numbers() -> None:
    base = run("b", *(exact(f"k[m={i}]", 100.0 + i) for i in range(500)))
    head = run("h", *(exact(f"k[d=1,m={i}]", 100.0 + i) for i in range(500)))

    result = compare_runs(base, head, POLICY)

    reasons = {v.case_id: v.reason for v in result.verdicts if v.word is Word.RENAMED}
    assert len(reasons) == 500
    assert "k[d=1,m=77]" in reasons["k[m=77]"]


def test_zeros_in_common_are_no_likeness() -> None:
    result = compare_runs(run("b", exact("a", 0.0)), run("h", exact("c", 0.0)), POLICY)

    assert [v.word for v in result.verdicts] == [Word.MISSING, Word.NEW]


# --- sampled --------------------------------------------------------------------------------------


def test_a_clear_slowdown_measured_together_gates() -> None:
    result = gate(noisy("a", 1), noisy("a", 2, factor=1.2))

    assert word(result) is Word.REGRESSED
    assert exit_code(result) == 1
    assert comparison(result).ratio == pytest.approx(1.2, rel=0.02)


def test_a_clear_speedup_is_an_improvement() -> None:
    assert word(gate(noisy("a", 1), noisy("a", 2, factor=0.8))) is Word.IMPROVED


def test_a_tight_interval_around_one_is_unchanged() -> None:
    result = gate(noisy("a", 1, n=30), noisy("a", 2, n=30))

    assert word(result) is Word.UNCHANGED
    assert "inside ±5 %" in comparison(result).reason


def test_a_significant_but_small_slowdown_does_not_gate() -> None:
    result = gate(noisy("a", 1, noise=0.002), noisy("a", 2, 1.01, noise=0.002))

    assert comparison(result).p_value is not None
    assert comparison(result).p_value < 0.001
    assert word(result) is Word.UNCHANGED


def test_too_few_values_are_inconclusive_and_say_how_many_are_needed() -> None:
    result = gate(noisy("a", 1, n=3), noisy("a", 2, 1.5, n=3))

    assert word(result) is Word.INCONCLUSIVE
    assert "about 4 values per side would decide, 3 and 3 measured" in only(result).reason
    assert exit_code(result) == 3


def test_wide_noise_is_inconclusive_never_unchanged() -> None:
    result = gate(noisy("a", 1, n=6, noise=0.3), noisy("a", 2, n=6, noise=0.3))

    assert word(result) is Word.INCONCLUSIVE
    assert "values per side would decide" in only(result).reason


def test_p_values_are_adjusted_for_all_cases_of_the_gate() -> None:
    """Alone the case is a regression; among forty quiet ones its evidence is not enough."""
    slow = sampled("slow", *[1.06 + 0.02 * i for i in range(5)])
    calm = sampled("slow", *[1.00 + 0.015 * i for i in range(5)])
    alone = gate(calm, slow)
    quiet = [noisy(f"q{i}", i) for i in range(40)]

    many = compare_runs(run("b", calm, *quiet), run("h", slow, *quiet), POLICY)

    assert word(alone) is Word.REGRESSED
    assert next(v.word for v in many.verdicts if v.case_id == "slow") is Word.INCONCLUSIVE


def test_a_summary_without_spread_is_inconclusive() -> None:
    result = gate(told("a", Summary(10, 1.0)), told("a", Summary(10, 3.0)))

    assert word(result) is Word.INCONCLUSIVE
    assert "no spread" in only(result).reason


def test_times_that_were_all_zero_can_regress() -> None:
    result = gate(sampled("a", *[0.0] * 6), sampled("a", *[1.0] * 6))

    assert word(result) is Word.REGRESSED


@pytest.mark.parametrize(("base", "head"), [("", ""), ("j", ""), ("", "j"), ("j", "k"), ("j", "j")])
def test_values_not_measured_in_turns_are_not_compared(base: str, head: str) -> None:
    result = compare_runs(
        run("b", noisy("a", 1), session=base), run("h", noisy("a", 2, 2.0), session=head), Policy()
    )

    assert word(result) is Word.NOT_COMPARED
    assert not comparison(result).gates
    assert "in turns" in only(result).reason
    assert exit_code(result) == 3
    assert "nothing was decided" in result.warnings[0]


def test_uncompared_times_do_not_spoil_a_decided_exact_metric() -> None:
    base, head = (joined(exact("a", 1.0), noisy("a", seed)) for seed in (1, 2))

    result = compare_runs(run("b", base), run("h", head), Policy())

    assert word(result) is Word.UNCHANGED
    assert exit_code(result) == 0


def test_another_machine_is_not_compared_and_is_named() -> None:
    other = dataclasses.replace(MACHINE, cpu="slow")

    result = compare_runs(
        run("b", noisy("a", 1)), run("h", noisy("a", 2), environment=other), POLICY
    )

    assert "cpu 'fast' against 'slow'" in only(result).reason


def test_the_same_environment_is_enough_if_the_policy_says_so() -> None:
    policy = Policy(sampled_gate="same-environment")

    result = compare_runs(run("b", noisy("a", 1)), run("h", noisy("a", 2, 1.3)), policy)

    assert word(result) is Word.REGRESSED


def rounds(seed: int, factor: float = 1.0) -> CaseResult:
    """Many rounds of one process, whose interval is much too narrow."""
    result = noisy("a", seed, factor, n=100, noise=0.01)
    samples = tuple(dataclasses.replace(s, one_process=True) for s in result.samples)
    return dataclasses.replace(result, samples=samples)


@pytest.mark.parametrize(
    ("factor", "expected"),
    [(1.0, Word.UNCHANGED), (1.051, Word.INCONCLUSIVE), (1.2, Word.REGRESSED)],
)
def test_of_rounds_of_one_process_the_whole_interval_must_be_beyond(
    factor: float, expected: Word
) -> None:
    policy = Policy(sampled_gate="same-environment")

    result = compare_runs(run("b", rounds(1)), run("h", rounds(4, factor)), policy)

    (comparison,) = only(result).comparisons
    assert word(result) is expected
    assert "rounds of one process share its luck" in comparison.reason


def test_an_estimate_beyond_the_limit_is_enough_where_each_value_is_a_process() -> None:
    policy = Policy(sampled_gate="same-environment")
    base, head = (
        dataclasses.replace(r, samples=(dataclasses.replace(r.samples[0], one_process=False),))
        for r in (rounds(1), rounds(4, 1.051))
    )

    assert word(compare_runs(run("b", base), run("h", head), policy)) is Word.REGRESSED


def test_rounds_of_one_process_from_two_jobs_are_not_compared_by_default() -> None:
    result = compare_runs(run("b", rounds(1)), run("h", rounds(2, 3.0)), Policy())

    assert word(result) is Word.NOT_COMPARED
    assert exit_code(result) == 3


def test_a_gate_over_exact_metrics_loads_no_statistics() -> None:
    script = (
        "import sys\n"
        "from perfgate.gate import compare_runs, exit_code\n"
        "from perfgate.model import *\n"
        "latency = Metric('latency_us', 'us', kind=MetricKind.EXACT)\n"
        "samples = (Sample(latency, (1.0,)), Sample(Metric('t', 's'), (1.0,)))\n"
        "case = CaseResult('a', samples=samples)\n"
        "run = Run('r', Revision('c'), Environment(), '', '2026-01-01', results=(case,))\n"
        "from perfgate.policy import Policy\n"
        "assert exit_code(compare_runs(run, run, Policy())) == 0\n"
        "print(sorted({'numpy', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_unknown_environments_are_not_the_same() -> None:
    sides = (run(n, noisy("a", 1), environment=Environment()) for n in "bh")

    result = compare_runs(*sides, Policy(sampled_gate="same-environment"))

    assert word(result) is Word.NOT_COMPARED


def test_never_means_never() -> None:
    result = gate(noisy("a", 1), noisy("a", 2, 3.0), Policy(sampled_gate="never"))

    assert word(result) is Word.NOT_COMPARED


def test_identical_code_rarely_fails_the_gate() -> None:
    """A/A: 40 gates of 10 cases; the false discovery rate is a rate per gate here."""
    random = np.random.default_rng(7)
    alarms = 0
    for _ in range(40):
        sides = [
            [sampled(f"c{i}", *random.lognormal(0, 0.3, 8).tolist()) for i in range(10)]
            for _ in "bh"
        ]
        base, head = (run(n, *s) for n, s in zip("bh", sides, strict=True))
        alarms += exit_code(compare_runs(base, head, POLICY)) == 1

    assert alarms <= 5


@pytest.mark.parametrize(("slow", "told_so"), [(5, True), (1, False)])
def test_times_that_all_moved_together_are_told(slow: int, told_so: bool) -> None:
    base = run("b", *(noisy(f"c{i}", i) for i in range(5)))
    head = run("h", *(noisy(f"c{i}", 9 + i, 1.3 if i < slow else 1.0) for i in range(5)))

    result = compare_runs(base, head, POLICY)

    assert any("moved together" in warning for warning in result.warnings) is told_so


# --- waivers --------------------------------------------------------------------------------------


def accept(case: str, until: str = "2026-12-31", metric: str = "*") -> Policy:
    return Policy(waivers=(Waiver(case, "ada", "known", until, metric),))


def test_a_waiver_accepts_a_regression_and_says_who() -> None:
    result = gate(exact("a[m=1]", 1.0), exact("a[m=1]", 2.0), accept("a[m=1]"))

    assert word(result) is Word.WAIVED
    assert "accepted by ada until 2026-12-31: known" in only(result).reason
    assert exit_code(result) == 0


def test_an_ended_waiver_accepts_nothing_and_says_so() -> None:
    result = gate(exact("a", 1.0), exact("a", 2.0), accept("a", "2026-06-14"))

    assert word(result) is Word.REGRESSED
    assert "the waiver of ada ended on 2026-06-14" in only(result).reason


def test_a_waiver_for_one_metric_leaves_the_others() -> None:
    policy = dataclasses.replace(accept("a", metric="latency_us"), rules=(Rule(),))
    base, head = (joined(exact("a", v), exact("a", v, BYTES)) for v in (1.0, 2.0))

    assert word(gate(base, head, policy)) is Word.REGRESSED


def test_a_waiver_for_a_whole_case_accepts_that_it_is_gone() -> None:
    base = run("b", exact("a", 1.0), exact("c", 5.0))

    result = compare_runs(base, run("h", exact("a", 1.0)), accept("c"))

    assert exit_code(result) == 0


def test_a_waiver_for_a_whole_case_accepts_that_it_failed_in_the_base() -> None:
    result = compare_runs(
        run("b", failed("a"), exact("c", 1.0)),
        run("h", exact("a", 1.0), exact("c", 1.0)),
        accept("a"),
    )

    assert [v.word for v in result.verdicts] == [Word.WAIVED, Word.UNCHANGED]
    assert exit_code(result) == 0


def test_a_waiver_does_not_cover_a_failure() -> None:
    assert word(gate(exact("a", 1.0), failed("a"), accept("a"))) is Word.FAILED


# --- drift ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("head", "expected"), [(101.4, Word.UNCHANGED), (101.6, Word.REGRESSED)])
def test_small_steps_must_not_add_up_since_the_release(head: float, expected: Word) -> None:
    sides = (run("b", exact("a", 101.3)), run("h", exact("a", head)))

    result = compare_runs(*sides, POLICY, pinned=run("p", exact("a", 100.0)))

    assert word(result) is expected


@pytest.mark.parametrize("base", [None, run("b", exact("z", 1.0))])
def test_drift_is_seen_without_a_baseline(base: Run | None) -> None:
    result = compare_runs(base, run("h", exact("a", 102.0)), POLICY, run("p", exact("a", 100.0)))

    assert result.verdicts[0].word is Word.REGRESSED
    assert exit_code(result) == 1


def test_a_drift_names_the_release() -> None:
    sides = (run("b", exact("a", 102.0)), run("h", exact("a", 102.0)))

    result = compare_runs(*sides, POLICY, pinned=run("p", exact("a", 100.0)))

    assert only(result).comparisons[1].method == "exact, drift"
    assert "worse than the pinned release pppppppp" in only(result).reason


def test_a_release_without_the_metrics_is_warned_about() -> None:
    sides = (run("b", exact("a", 1.0)), run("h", exact("a", 1.0)))

    result = compare_runs(*sides, POLICY, pinned=run("p", exact("other", 1.0)))

    assert "drift was not checked" in result.warnings[0]


# --- properties -----------------------------------------------------------------------------------

values = st.lists(st.floats(0.5, 2.0), min_size=5, max_size=8)
FLIPPED = {
    Word.REGRESSED: Word.IMPROVED,
    Word.IMPROVED: Word.REGRESSED,
}


@settings(max_examples=40)
@given(values, values, st.floats(0.9, 1.1), st.floats(0.9, 1.1))
def test_swapping_the_sides_flips_every_word(
    base: list[float], head: list[float], old: float, new: float
) -> None:
    before, after = (
        joined(sampled("a", *base), exact("a", old)),
        joined(sampled("a", *head), exact("a", new)),
    )

    forth, back = gate(before, after), gate(after, before)

    flipped = [FLIPPED.get(c.decision.value, c.decision.value) for c in only(forth).comparisons]  # type: ignore[call-overload]
    assert [c.decision.value for c in only(back).comparisons] == flipped


@settings(max_examples=40)
@given(values, values, st.integers(-10, 10))
def test_the_unit_does_not_change_a_word(base: list[float], head: list[float], power: int) -> None:
    before = gate(sampled("a", *base), sampled("a", *head))
    scaled = ([v * 2.0**power for v in side] for side in (base, head))

    assert word(gate(*(sampled("a", *side) for side in scaled))) is word(before)


@settings(max_examples=30)
@given(st.permutations(["a", "b", "c", "d"]))
def test_the_order_of_the_cases_does_not_matter(order: list[str]) -> None:
    base = run("b", *(exact(c, 1.0) for c in "abcd"))

    result = compare_runs(base, run("h", *(exact(c, 1.0) for c in order)), POLICY)

    assert [v.case_id for v in result.verdicts] == ["a", "b", "c", "d"]


def test_a_result_survives_its_json_form() -> None:
    base: Run = run("b", noisy("a", 1), exact("c", 0.0), sampled("z", 1.0))
    head = run("h", noisy("a", 2), exact("c", 1.0), sampled("z", 2.0))

    result = compare_runs(base, head, POLICY)

    assert decode(GateResult, encode(result)) == result


def test_time_is_the_default_sampled_metric() -> None:
    """A rule can take one noisy case out of the gate, and it then decides nothing."""
    policy = Policy(rules=(Rule("a", TIME.name, gates=False),))

    assert word(gate(noisy("a", 1), noisy("a", 2, 3.0), policy)) is Word.NOT_COMPARED
