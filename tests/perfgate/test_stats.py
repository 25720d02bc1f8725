"""The statistics agree with scipy, keep their symmetries and do not cry wolf."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from perfgate.effect import Effect, centre, compare_exact, count
from perfgate.model import Metric, Sample, Summary
from perfgate.stats import (
    benjamini_hochberg,
    compare_sampled,
    rank_sum_p,
    samples_needed,
    smallest_n,
)

TIME = Metric("time", "s")

positive = st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=12)


def raw(values: object) -> Sample:
    return Sample(TIME, tuple(float(v) for v in np.asarray(values)))


def told(n: int, mean: float, spread: float | None) -> Sample:
    return Sample(TIME, summary=Summary(n, mean, "mean", spread))


def compare(base: object, head: object, confidence: float = 0.95) -> Effect:
    return compare_sampled(raw(base), raw(head), confidence)


def test_exact_numbers_give_their_ratio_as_interval() -> None:
    effect = compare_exact(100.0, 102.0)

    assert effect.ratio == effect.low == effect.high == 1.02
    assert effect.p_value is None


def test_exact_change_from_zero_keeps_its_sign() -> None:
    effect = compare_exact(0.0, 3.0)

    assert effect.ratio is None
    assert effect.difference == 3.0


@pytest.mark.parametrize(("n", "m"), [(2, 3), (5, 5), (8, 8), (3, 20), (15, 15)])
def test_small_untied_samples_have_the_exact_p_of_scipy(n: int, m: int) -> None:
    random = np.random.default_rng(n * 100 + m)
    for shift in (0, 1, 2):
        base, head = random.normal(size=n), random.normal(shift, size=m)

        expected = reference.mannwhitneyu(base, head, method="exact").pvalue
        assert rank_sum_p(base, head) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("n", "m"), [(60, 60), (100, 40), (300, 500)])
def test_large_samples_have_the_approximate_p_of_scipy(n: int, m: int) -> None:
    random = np.random.default_rng(n + m)
    base, head = random.integers(0, 50, n) * 1.0, random.integers(3, 53, m) * 1.0

    expected = reference.mannwhitneyu(base, head, method="asymptotic").pvalue
    assert rank_sum_p(base, head) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
def test_ties_get_the_p_of_all_permutations(base: list[int], head: list[int]) -> None:
    ranks = reference.rankdata(base + head)
    size = min(len(base), len(head))
    small = ranks[: len(base)] if len(base) <= len(head) else ranks[len(base) :]
    sums = np.array([sum(chosen) for chosen in itertools.combinations(ranks, size)])
    tails = (np.mean(sums <= small.sum()), np.mean(sums >= small.sum()))

    p_value = rank_sum_p(np.sort(np.array(base, float)), np.sort(np.array(head, float)))

    assert p_value == pytest.approx(min(1.0, 2 * min(tails)))


def test_ratio_is_the_median_of_all_pairwise_ratios() -> None:
    random = np.random.default_rng(1)
    base, head = random.lognormal(size=7), random.lognormal(0.3, size=9)

    ratios = np.exp(np.median(np.log(head)[:, None] - np.log(base)[None, :]))
    assert compare(base, head).ratio == pytest.approx(ratios)


def test_interval_and_test_agree_about_one() -> None:
    """The interval at 1 − p just touches 1: both come from the same null distribution."""
    random = np.random.default_rng(5)
    base, head = random.lognormal(sigma=0.1, size=8), random.lognormal(0.1, 0.1, size=8)
    p_value = rank_sum_p(np.sort(base), np.sort(head))

    inside, outside = compare(base, head, 1 - p_value * 0.9), compare(base, head, 1 - p_value * 1.1)

    assert inside.low is not None
    assert outside.low is not None
    assert inside.low < 1 < outside.low


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    random = np.random.default_rng(11)
    held = 0
    for _ in range(400):
        effect = compare(random.lognormal(size=10), 1.2 * random.lognormal(size=12))
        assert effect.low is not None
        assert effect.high is not None
        held += effect.low <= 1.2 <= effect.high

    assert held / 400 >= 0.93


@pytest.mark.parametrize(("n", "m"), [(5, 5), (10, 10), (30, 200)])
def test_identical_sides_rarely_differ(n: int, m: int) -> None:
    random = np.random.default_rng(n)
    trials = 500
    alarms = sum(
        rank_sum_p(random.normal(size=n), random.normal(size=m)) <= 0.05 for _ in range(trials)
    )

    # Three standard errors above the level, for a seeded but honest draw.
    assert alarms / trials <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)


def test_many_values_are_compared_without_forming_all_pairs() -> None:
    random = np.random.default_rng(3)
    base, head = random.lognormal(sigma=0.2, size=1500), random.lognormal(0.1, 0.2, size=1500)
    differences = np.sort(np.subtract.outer(np.log(head), np.log(base)).ravel())

    effect = compare(base, head)

    assert effect.ratio == pytest.approx(math.exp(float(np.median(differences))), rel=1e-12)
    assert effect.low is not None
    assert effect.low < effect.ratio


@settings(max_examples=40)
@given(positive, positive)
def test_swapping_the_sides_inverts_the_ratio(base: list[float], head: list[float]) -> None:
    forth, back = compare(base, head), compare(head, base)

    assert forth.ratio is not None
    assert back.ratio == pytest.approx(1 / forth.ratio)
    assert back.p_value == pytest.approx(forth.p_value)
    if forth.low is not None and back.high is not None:
        assert back.high == pytest.approx(1 / forth.low)


@settings(max_examples=40)
@given(positive, positive, st.randoms(use_true_random=False))
def test_order_of_the_values_does_not_matter(base, head, random) -> None:  # type: ignore[no-untyped-def]
    before = compare(base, head)
    random.shuffle(base)
    random.shuffle(head)

    assert compare(base, head) == before


@settings(max_examples=40)
@given(positive, positive, st.integers(-20, 20))
def test_the_unit_does_not_matter(base: list[float], head: list[float], power: int) -> None:
    """Scaled by powers of two, which floats multiply by without rounding."""
    before = compare(base, head)
    after = compare([v * 2.0**power for v in base], [v * 2.0**power for v in head])

    assert after.ratio == pytest.approx(before.ratio)
    assert after.p_value == before.p_value


def test_values_of_zero_fall_back_to_differences() -> None:
    effect = compare([0.0, 1.0, 2.0, 3.0, 4.0], [10.0, 11.0, 12.0, 13.0, 14.0])

    assert effect.method == "rank-sum, linear"
    assert effect.ratio == pytest.approx(1 + 10 / 2)
    assert effect.warnings


def test_a_base_of_zeros_has_no_ratio_but_a_difference() -> None:
    effect = compare([0.0] * 5, [1.0] * 5)

    assert effect.ratio is None
    assert effect.low is None
    assert effect.difference == 1.0
    assert effect.p_value is not None
    assert effect.p_value < 0.01


def test_three_values_a_side_have_no_95_percent_interval() -> None:
    effect = compare([1.0, 1.1, 1.2], [2.0, 2.1, 2.2])

    assert effect.low is None
    assert effect.high is None
    assert effect.p_value == pytest.approx(0.1)
    assert "too few" in effect.warnings[0]


def test_extreme_values_do_not_overflow() -> None:
    effect = compare([5e-324] * 4, [1.7e308] * 4)

    assert effect.ratio is None
    assert effect.difference > 0


def test_summaries_give_a_welch_interval_on_the_log_ratio() -> None:
    effect = compare_sampled(told(20, 10.0, 0.5), told(30, 11.0, 0.6))

    assert effect.ratio == pytest.approx(1.1)
    assert effect.low is not None
    assert effect.high is not None
    assert 1.05 < effect.low < 1.1 < effect.high < 1.15


def test_summary_intervals_widen_with_few_measurements() -> None:
    """Equal relative errors of three measurements each have four degrees of freedom."""
    effect = compare_sampled(told(3, 100.0, 1.0), told(3, 200.0, 2.0))

    reach = reference.t.ppf(0.975, 4) * 0.01 * math.sqrt(2 / 3)
    assert (effect.low, effect.high) == pytest.approx((2 * math.exp(-reach), 2 * math.exp(reach)))


def test_summaries_agree_with_a_welch_test_when_the_spread_is_small() -> None:
    expected = reference.ttest_ind_from_stats(100, 2, 15, 101.5, 3, 25, equal_var=False)

    effect = compare_sampled(told(15, 100, 2), told(25, 101.5, 3))

    assert effect.p_value == pytest.approx(expected.pvalue, rel=0.02)


def test_summaries_rarely_differ_on_identical_sides() -> None:
    random = np.random.default_rng(8)
    alarms = 0
    for _ in range(500):
        sides = random.normal(100, 5, (2, 12))
        base, head = (told(12, float(s.mean()), float(s.std(ddof=1))) for s in sides)
        p_value = compare_sampled(base, head).p_value
        assert p_value is not None
        alarms += p_value <= 0.05

    assert alarms / 500 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 500)


def test_values_are_summarised_where_the_other_side_is_a_summary() -> None:
    values = [9.0, 10.0, 11.0, 10.5, 9.5]
    mixed = compare_sampled(raw(values), told(5, 12.0, 0.5))

    both = told(5, float(np.mean(values)), float(np.std(values, ddof=1)))
    assert mixed == compare_sampled(both, told(5, 12.0, 0.5))


def test_a_given_interval_stands_for_the_spread() -> None:
    base = Sample(TIME, summary=Summary(50, 10.0, "median", None, 9.8, 10.2))
    head = Sample(TIME, summary=Summary(50, 12.0, "median", None, 11.8, 12.2))

    effect = compare_sampled(base, head)

    assert effect.low is not None
    assert 1.15 < effect.low < 1.2


@pytest.mark.parametrize(
    ("base", "head", "word"),
    [
        (Summary(10, 1.0), Summary(10, 2.0), "no spread"),
        (Summary(10, 1.0, "mean", 0.0), Summary(10, 2.0, "mean", 0.0), "of 0"),
        (Summary(1, 1.0, "mean", 0.1), Summary(10, 2.0, "mean", 0.1), "too few"),
        (Summary(10, 1.0, "min", 0.1), Summary(10, 2.0, "min", 0.1), "minimum"),
        (Summary(10, 1.0, "mean", 0.1), Summary(10, 2.0, "median", 0.1), "median"),
        (Summary(10, -1.0, "mean", 0.1), Summary(10, 2.0, "mean", 0.1), "zero or below"),
        (Summary(2, 1.0, "mean", 3.0), Summary(10, 2.0, "mean", 0.1), "so wide"),
    ],
)
def test_a_summary_that_says_too_little_gives_no_interval(
    base: Summary, head: Summary, word: str
) -> None:
    effect = compare_sampled(Sample(TIME, summary=base), Sample(TIME, summary=head))

    assert effect.ratio is not None
    assert (effect.low, effect.high, effect.p_value) == (None, None, None)
    assert word in effect.warnings[0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_adjusted_p_values_are_those_of_scipy(p_values: list[float]) -> None:
    expected = reference.false_discovery_control(p_values)

    assert benjamini_hochberg(p_values) == pytest.approx(expected)


def test_no_p_values_adjust_to_none() -> None:
    assert benjamini_hochberg([]) == ()


@pytest.mark.parametrize(("alpha", "n"), [(0.05, 4), (0.01, 5), (0.001, 7)])
def test_fewest_values_that_can_be_significant(alpha: float, n: int) -> None:
    apart = rank_sum_p(np.arange(n) * 1.0, np.arange(n) + 100.0)

    assert smallest_n(alpha) == n
    assert apart <= alpha


def test_needed_samples_grow_with_the_square_of_the_noise() -> None:
    narrow = Effect(1.1, 1.1 / 1.2, 1.1 * 1.2, 0.2, "rank-sum", 0.1)
    wide = Effect(1.1, 1.1 / 1.44, 1.1 * 1.44, 0.2, "rank-sum", 0.1)

    few, many = (samples_needed(e, 10, 0.05, 0.05, 1) for e in (narrow, wide))

    assert few is not None
    assert many == pytest.approx(4 * few, abs=4)


def test_needed_samples_are_enough_on_average() -> None:
    """Measuring as often as advised decides most of the cases it was asked about."""
    random = np.random.default_rng(2)
    first = compare(random.lognormal(sigma=0.15, size=6), random.lognormal(0.2, 0.15, size=6))
    advice = samples_needed(first, 6, 0.05, 0.05, 1)
    assert advice is not None
    decided = 0
    for _ in range(50):
        effect = compare(
            random.lognormal(sigma=0.15, size=advice), random.lognormal(0.2, 0.15, size=advice)
        )
        assert effect.p_value is not None
        decided += effect.p_value <= 0.05

    assert decided >= 25


def test_centre_and_count_read_both_kinds_of_sample() -> None:
    assert (centre(raw([3, 1, 2])), count(raw([3, 1, 2]))) == (2.0, 3)
    assert (centre(told(7, 5.0, None)), count(told(7, 5.0, None))) == (5.0, 7)
