"""Two samples of one metric to an effect: how much, how sure, by which method.

Raw values get a rank-sum test and the Hodges–Lehmann shift of the logarithms, so the estimate is a
ratio, its interval is distribution-free (order statistics of the pairwise ratios), swapping the
sides inverts it, and neither order nor unit of the values matters. Summaries (n, centre, spread)
get a t interval on the log ratio with the delta method. Where the data cannot carry an interval or
a p value, the field is None and a warning says why; nothing here decides, `comparison.py` does.

Both tests take the values for independent. Rounds of one process are not: they share its luck, so
many of them make an interval narrow, not right. That is why a suite stores one value a process, and
why `comparison.py` asks more of `Sample.one_process`.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtr, stdtrit

from perfgate.effect import Effect, finite
from perfgate.model import Sample, Summary

Floats = npt.NDArray[np.float64]
CentreKind = Literal["mean", "median", "min"]

# Table cells up to which the null distribution is counted instead of approximated (about 2 ms).
EXACT_CELLS = 2_000_000
# Pairs up to which all pairwise differences are held in memory (8 MB); above, bisection counts.
PAIRS_IN_MEMORY = 1_000_000
BISECTION_STEPS = 60
# The level assumed for an interval that a tool printed without saying its level.
SUMMARY_CONFIDENCE = 0.95
# Above this relative standard error the delta method's log-normal interval is too short to trust.
LARGEST_RELATIVE_ERROR = 0.3
# Nobody is advised to measure more often than this.
MOST_SAMPLES = 100_000
# Standard error of a median relative to that of a mean, for normal data: sqrt(pi / 2).
MEDIAN_ERROR_FACTOR = math.sqrt(math.pi / 2)

_LARGEST_LOG = math.log(sys.float_info.max)
_CENTRES: dict[CentreKind, Callable[[Floats], np.floating]] = {
    "mean": np.mean,
    "median": np.median,
    "min": np.min,
}


def compare_sampled(base: Sample, head: Sample, confidence: float = 0.95) -> Effect:
    """Two samples, raw values or summaries; values are summarised where only one side has them."""
    if base.values and head.values:
        return _compare_values(np.sort(base.values), np.sort(head.values), confidence)
    known = base.summary or head.summary
    kind = known.centre_kind if known else "mean"
    return _compare_summaries(summarise(base, kind), summarise(head, kind), confidence)


def summarise(sample: Sample, kind: CentreKind) -> Summary:
    """The summary a sample came with, or one of its values with the centre that is asked for."""
    if sample.summary is not None:
        return sample.summary
    values = np.asarray(sample.values)
    spread = float(values.std(ddof=1)) if len(values) > 1 else None
    return Summary(len(values), float(_CENTRES[kind](values)), kind, spread)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """P values adjusted for their number, in the order given (false discovery rate)."""
    order = np.argsort(p_values)[::-1]
    total = len(p_values)
    adjusted = np.empty(total)
    smallest = 1.0
    for position, index in enumerate(order):
        smallest = min(smallest, float(p_values[index]) * total / (total - position))
        adjusted[index] = smallest
    return tuple(adjusted.tolist())


def smallest_n(alpha: float) -> int:
    """Values per side below which no rank-sum test reaches `alpha`, however far apart the sides."""
    n = 1
    while 2 / math.comb(2 * n, n) > alpha:
        n += 1
    return n


def samples_needed(effect: Effect, n: float, margin: float, alpha: float, tests: int) -> int | None:
    """Values per side that would decide an undecided effect, if its estimate and noise stay.

    `n` were measured per side, `margin` is the smallest relative effect that counts and `tests` how
    many comparisons share `alpha`. None: the estimate lies on the margin, or there is no interval.
    """
    fewest = smallest_n(alpha / tests)
    if not (effect.ratio and effect.low and effect.high) or min(effect.ratio, effect.low) <= 0:
        return fewest if n < fewest else None
    reach = max(math.log(effect.high / effect.ratio), math.log(effect.ratio / effect.low))
    stricter = float(ndtri(alpha / tests / 2) / ndtri(alpha / 2))
    size, limit = abs(math.log(effect.ratio)), math.log1p(margin)
    target = size if size >= limit else limit - size
    needed = n * (reach * stricter / target) ** 2
    return max(fewest, math.ceil(needed)) if needed < MOST_SAMPLES else None


# --- raw values -----------------------------------------------------------------------------------


def _compare_values(base: Floats, head: Floats, confidence: float) -> Effect:
    """Both sides sorted. The scale is logarithmic where every value is positive, else linear."""
    p_value = rank_sum_p(base, head)
    rank = _interval_rank(len(base), len(head), round(1 - confidence, 12))
    if base[0] <= 0 or head[0] <= 0:
        return _compare_linear(base, head, rank, p_value)
    shift, low, high = _hodges_lehmann(np.log(base), np.log(head), rank)
    return Effect(
        ratio=_exp(shift),
        low=None if low is None else _exp(low),
        high=None if high is None else _exp(high),
        p_value=p_value,
        method="rank-sum",
        difference=_median(head) - _median(base),
        warnings=_too_few(base, head, rank, confidence),
    )


def _compare_linear(base: Floats, head: Floats, rank: int, p_value: float) -> Effect:
    """Values of zero or below have no logarithm: the shift itself, relative to the base median.

    The interval leaves out that the base median is an estimate too, and says so.
    """
    shift, low, high = _hodges_lehmann(base, head, rank)
    scale = abs(_median(base))
    ratio = finite(1 + shift / scale) if scale else None
    if ratio is None or low is None or high is None:
        bounds: tuple[float | None, float | None] = (None, None)
    else:
        bounds = (finite(1 + low / scale), finite(1 + high / scale))
    warning = "values of zero or below: differences are taken relative to the base median"
    return Effect(ratio, *bounds, p_value, "rank-sum, linear", shift, (warning,))


def _too_few(base: Floats, head: Floats, rank: int, confidence: float) -> tuple[str, ...]:
    if rank:
        return ()
    return (f"{len(base)} and {len(head)} values are too few for a {confidence:.0%} interval",)


def rank_sum_p(base: Floats, head: Floats) -> float:
    """Two-sided p of the Wilcoxon–Mann–Whitney test, ties included.

    Small samples get the exact null distribution of the ranks that occurred (which stays valid with
    ties), large ones the normal approximation with tie and continuity correction.
    """
    doubled = _doubled_midranks(np.concatenate((base, head)))
    smaller, size = (doubled[: len(base)], len(base))
    if len(head) < len(base):
        smaller, size = (doubled[len(base) :], len(head))
    statistic = int(smaller.sum())
    if _cells(len(doubled), size, int(np.sort(doubled)[-size:].sum())) <= EXACT_CELLS:
        return _exact_p(tuple(sorted(doubled.tolist())), size, statistic)
    return _normal_p(doubled, size, statistic)


def _doubled_midranks(values: Floats) -> npt.NDArray[np.int64]:
    """Ranks from 1, ties sharing the middle of theirs, times two so that they stay integers."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: npt.NDArray[np.int64] = (2 * last - counts + 1)[inverse]
    return ranks


def _cells(items: int, size: int, largest_sum: int) -> int:
    return items * size * largest_sum


def _exact_p(ranks: tuple[int, ...], size: int, statistic: int) -> float:
    null = _subset_sums(ranks, size)
    below = float(null[: statistic + 1].sum())
    above = float(null[statistic:].sum())
    return min(1.0, 2 * min(below, above))


@functools.lru_cache(maxsize=64)
def _subset_sums(ranks: tuple[int, ...], size: int) -> Floats:
    """The chance of each sum when `size` of the sorted `ranks` are drawn without replacement."""
    largest = sum(ranks[-size:])
    ways = np.zeros((size + 1, largest + 1))
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : largest + 1 - rank].copy()
    chances: Floats = ways[size] / math.comb(len(ranks), size)
    return chances


def _normal_p(doubled: npt.NDArray[np.int64], size: int, statistic: int) -> float:
    total = len(doubled)
    other = total - size
    _, ties = np.unique(doubled, return_counts=True)
    tied = float((ties.astype(float) ** 3 - ties).sum()) / (total * (total - 1))
    variance = size * other / 12 * (total + 1 - tied)
    if variance <= 0:
        return 1.0
    distance = abs(statistic / 2 - size * (total + 1) / 2) - 0.5
    return math.erfc(max(0.0, distance) / math.sqrt(2 * variance))


@functools.lru_cache(maxsize=1024)
def _interval_rank(base_n: int, head_n: int, alpha: float) -> int:
    """Which smallest and which largest pairwise difference bound the shift; 0: none is sure enough.

    The largest c with P(U <= c - 1) <= alpha / 2 under the null distribution of Mann–Whitney's U.
    """
    size, total = min(base_n, head_n), base_n + head_n
    largest = sum(range(total - size + 1, total + 1))
    if _cells(total, size, largest) <= EXACT_CELLS:
        null = _subset_sums(tuple(range(1, total + 1)), size)[size * (size + 1) // 2 :]
        # A relative slack keeps a tail that equals alpha / 2 on paper from being lost to rounding.
        return int(np.searchsorted(np.cumsum(null), alpha / 2 * (1 + 1e-9), side="right"))
    pairs = base_n * head_n
    deviation = math.sqrt(pairs * (total + 1) / 12)
    return max(0, math.floor(pairs / 2 + 0.5 + float(ndtri(alpha / 2)) * deviation))


def _hodges_lehmann(
    base: Floats, head: Floats, rank: int
) -> tuple[float, float | None, float | None]:
    """Median of all head − base differences, and the rank-th from either end (sorted input)."""
    pairs = len(base) * len(head)
    middle = ((pairs - 1) // 2, pairs // 2)
    ends = (rank - 1, pairs - rank) if rank else ()
    found = _order_statistics(base, head, (*middle, *ends))
    shift = (found[middle[0]] + found[middle[1]]) / 2
    if not ends:
        return shift, None, None
    return shift, found[ends[0]], found[ends[1]]


def _order_statistics(base: Floats, head: Floats, wanted: tuple[int, ...]) -> dict[int, float]:
    """The pairwise differences at the wanted 0-based positions of their sorted order."""
    if len(base) * len(head) > PAIRS_IN_MEMORY:
        return {index: _bisect_difference(base, head, index) for index in set(wanted)}
    differences = np.subtract.outer(head, base).ravel()
    differences.partition(sorted(set(wanted)))
    return {index: float(differences[index]) for index in wanted}


def _bisect_difference(base: Floats, head: Floats, index: int) -> float:
    """One order statistic without forming the pairs: the smallest d with > `index` pairs below."""
    low, high = float(head[0] - base[-1]), float(head[-1] - base[0])
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        below = len(base) * len(head) - int(np.searchsorted(base, head - middle).sum())
        if below > index:
            high = middle
        else:
            low = middle
    return high


def _median(values: Floats) -> float:
    """Of sorted values; halves before it adds, so that large values do not overflow."""
    low, high = values[(len(values) - 1) // 2], values[len(values) // 2]
    return float(low / 2 + high / 2)


# --- summaries ------------------------------------------------------------------------------------


def _compare_summaries(base: Summary, head: Summary, confidence: float) -> Effect:
    """Log ratio of the centres and Welch's t; its variance adds the squared relative errors."""
    difference = head.centre - base.centre
    ratio = finite(head.centre / base.centre) if base.centre else None
    doubt = _doubt(base, head)
    base_error, head_error = _relative_error(base), _relative_error(head)
    if doubt or ratio is None or base_error is None or head_error is None:
        reason = doubt or "the source gives no spread, or one of 0, which says nothing about noise"
        return Effect(ratio, None, None, None, "centres", difference, (reason,))
    error = math.hypot(base_error, head_error)
    freedom = error**4 / (base_error**4 / (base.n - 1) + head_error**4 / (head.n - 1))
    reach = float(stdtrit(freedom, (1 + confidence) / 2)) * error
    return Effect(
        ratio=ratio,
        low=_exp(math.log(ratio) - reach),
        high=_exp(math.log(ratio) + reach),
        p_value=2 * float(stdtr(freedom, -abs(math.log(ratio)) / error)),
        method="summary t",
        difference=difference,
    )


def _doubt(base: Summary, head: Summary) -> str:
    """Why two summaries carry no interval on their ratio, or nothing."""
    if base.centre_kind != head.centre_kind:
        return f"the base centre is a {base.centre_kind} and the head centre a {head.centre_kind}"
    if base.centre_kind == "min":
        return "a minimum has no known error: raw values are needed"
    if base.centre <= 0 or head.centre <= 0:
        return "a centre of zero or below has no ratio: raw values are needed"
    if min(base.n, head.n) < 2:
        return f"{base.n} and {head.n} measurements are too few: two on each side at least"
    errors = [_relative_error(base), _relative_error(head)]
    if max(error or 0.0 for error in errors) > LARGEST_RELATIVE_ERROR:
        return "the spread is so wide that the centre is not known to 30 %"
    return ""


def _relative_error(summary: Summary) -> float | None:
    """Standard error of the centre ÷ centre; None where the source does not say."""
    if summary.spread:
        factor = MEDIAN_ERROR_FACTOR if summary.centre_kind == "median" else 1.0
        return factor * summary.spread / math.sqrt(summary.n) / summary.centre
    if summary.low is None or summary.high is None or summary.high <= summary.low:
        return None
    reach = float(ndtri((1 + SUMMARY_CONFIDENCE) / 2))
    return (summary.high - summary.low) / 2 / reach / summary.centre


def _exp(value: float) -> float | None:
    return math.exp(value) if value < _LARGEST_LOG else None
