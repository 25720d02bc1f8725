"""Base and head of each metric to `Comparison`s: what the numbers say, and whether they may gate.

Exact metrics are compared as numbers. Sampled ones are tested together, because the false discovery
rate is a property of all tests of one gate; they are tested only where the policy accepts that the
two runs were measured under the same conditions. Rounds of one process are not independent, so of
those not only the estimate but the whole interval must be beyond the limit. The size of a change is
the larger side ÷ the smaller − 1, so that swapping the sides turns a regression into an improvement
of the same size.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.effect import Effect, centre, compare_exact, count
from perfgate.figures import format_change, format_sides, format_step
from perfgate.model import (
    CaseResult,
    Comparison,
    Decision,
    Direction,
    Environment,
    Metric,
    MetricKind,
    Run,
    Sample,
)
from perfgate.policy import Policy, gates, threshold
from perfgate.session import Sides

DRIFT_METHOD = "exact, drift"

ONE_PROCESS = (
    "rounds of one process share its luck, so all of the interval has to be beyond the limit"
)

_NOTHING = Effect(None, None, None, None, "none", 0.0)

_FINGERPRINT_FIELDS = ("machine", "cpu", "cores", "os", "python", "runner")


@dataclass(frozen=True, slots=True)
class Pair:
    """One metric of one case on both sides; `metric` is the head's where the head has it."""

    case_id: str
    metric: Metric
    base: Sample | None
    head: Sample | None


@dataclass(frozen=True, slots=True)
class Finding:
    """What is concluded about a pair: a comparison without the facts of the pair."""

    decision: Decision
    reason: str
    gates: bool
    effect: Effect | None = None


def pair_metrics(base: CaseResult, head: CaseResult) -> tuple[Pair, ...]:
    """The metrics of one case, head's order first, then those that are gone."""
    pairs = [Pair(head.case_id, s.metric, base.sample(s.metric.name), s) for s in head.samples]
    gone = [s for s in base.samples if head.sample(s.metric.name) is None]
    return (*pairs, *(Pair(head.case_id, s.metric, s, None) for s in gone))


def compare_pairs(pairs: Sequence[Pair], sides: Sides, policy: Policy) -> tuple[Comparison, ...]:
    """One comparison per pair, in order, sampled ones adjusted for their number."""
    obstacle = sampled_obstacle(sides, policy)
    tested = [i for i, pair in enumerate(pairs) if not obstacle and _is_testable(pair)]
    findings = dict(zip(tested, _test([pairs[i] for i in tested], policy), strict=True))
    return tuple(
        _comparison(pair, findings.get(i) or _untested(pair, obstacle, policy))
        for i, pair in enumerate(pairs)
    )


def sampled_obstacle(sides: Sides, policy: Policy) -> str:
    """Why the policy does not let sampled metrics of these two sides gate, or nothing."""
    if policy.sampled_gate == "never":
        return "the policy lets no sampled metric gate (sampled_gate = 'never')"
    if policy.sampled_gate == "interleaved" and sides.apart:
        return sides.apart
    return environment_difference(sides.base.environment, sides.head.environment)


def environment_difference(base: Environment, head: Environment) -> str:
    """Which fields of two environments make sampled numbers incomparable, or nothing."""
    if base == head == Environment():
        return "neither run says where it was measured"
    fields = [f for f in _FINGERPRINT_FIELDS if getattr(base, f) != getattr(head, f)]
    if not fields:
        return ""
    told = (f"{f} {getattr(base, f)!r} against {getattr(head, f)!r}" for f in fields)
    return f"the environments differ: {', '.join(told)}; measure both on one machine"


def drift(pinned: Run, head: Run, policy: Policy) -> tuple[tuple[Comparison, ...], int]:
    """Exact gating metrics worse than the pinned release allows, and how many were looked at.

    Drift is what many small accepted steps add up to, so only its breach is a comparison.
    """
    before = {result.case_id: result for result in pinned.results}
    pairs = [
        pair
        for result in head.results
        if result.case_id in before
        for pair in pair_metrics(before[result.case_id], result)
        if _is_exact(pair) and gates(policy, pair.case_id, pair.metric)
    ]
    pairs = [pair for pair in pairs if not _mismatch(pair)]
    found = [_drift(pair, pinned, policy) for pair in pairs]
    return tuple(comparison for comparison in found if comparison), len(pairs)


def change_size(base: float, head: float) -> float:
    """The larger ÷ the smaller − 1; infinite for a change from or to zero or across it."""
    if base == head:
        return 0.0
    low, high = sorted((abs(base), abs(head)))
    if low == 0 or (base < 0) != (head < 0):
        return math.inf
    return high / low - 1


def exceeds(size: float, limit: float) -> bool:
    """Whether a change is larger than a threshold, a rounding error aside."""
    return size > limit * (1 + 1e-9) + 1e-15


# --- exact ----------------------------------------------------------------------------------------


def _is_exact(pair: Pair) -> bool:
    return pair.metric.kind is MetricKind.EXACT


def _exact(pair: Pair, policy: Policy) -> Finding:
    base, head = _both(pair)
    gate = gates(policy, pair.case_id, pair.metric)
    effect = compare_exact(base, head)
    if base == head:
        return Finding(Decision.UNCHANGED, "no change", gate, effect)
    if pair.metric.direction is Direction.NONE:
        text = f"{_values(pair)}, shown only: neither direction is better"
        return Finding(Decision.NOT_COMPARED, text, False, effect)
    decision = _side(pair.metric, head - base)
    text = f"{_change(effect.ratio)} {_word(decision)}: {_values(pair)}"
    if not gate:
        return Finding(decision, f"{text}, shown only: no rule lets it gate", gate, effect)
    limit = threshold(policy, pair.case_id, pair.metric)
    place = "over" if exceeds(change_size(base, head), limit) else "within"
    return Finding(decision, f"{text}, {place} the {_limit(limit)} limit", gate, effect)


def _drift(pair: Pair, pinned: Run, policy: Policy) -> Comparison | None:
    base, head = _both(pair)
    limit = policy.drift_threshold
    worse = _side(pair.metric, head - base) is Decision.REGRESSED
    if not worse or not exceeds(change_size(base, head), limit):
        return None
    effect = compare_exact(base, head)
    release = pinned.revision.commit[:12] or pinned.run_id
    reason = (
        f"{_change(effect.ratio)} worse than the pinned release {release}: {_values(pair)}, "
        f"over the {_limit(limit)} allowed to add up"
    )
    return _comparison(pair, Finding(Decision.REGRESSED, reason, True, effect), DRIFT_METHOD)


# --- sampled --------------------------------------------------------------------------------------


def _is_testable(pair: Pair) -> bool:
    present = pair.base is not None and pair.head is not None
    directed = pair.metric.direction is not Direction.NONE
    return present and directed and not _is_exact(pair) and not _mismatch(pair)


def _test(pairs: Sequence[Pair], policy: Policy) -> list[Finding]:
    """What the tests of one gate find, adjusted for their number."""
    if not pairs:
        return []
    # numpy and scipy take longer to load than a gate over exact metrics takes.
    from perfgate import stats

    effects = [stats.compare_sampled(*_samples(pair), 1 - policy.alpha) for pair in pairs]
    raw = [1.0 if effect.p_value is None else effect.p_value for effect in effects]
    adjusted = stats.benjamini_hochberg(raw)
    tested = zip(pairs, effects, adjusted, strict=True)
    return [_sampled(pair, effect, p, len(pairs), policy) for pair, effect, p in tested]


def _samples(pair: Pair) -> tuple[Sample, Sample]:
    assert pair.base is not None
    assert pair.head is not None
    return pair.base, pair.head


def _sampled(pair: Pair, effect: Effect, adjusted: float, tests: int, policy: Policy) -> Finding:
    margin = threshold(policy, pair.case_id, pair.metric)
    gate = gates(policy, pair.case_id, pair.metric)
    shared = any(sample.one_process for sample in _samples(pair))
    shown = f"{_change(effect.ratio)} ({_interval(effect)}, adjusted p {_chance(adjusted)})"
    note = f"; {ONE_PROCESS}" if shared else ""
    significant = effect.p_value is not None and adjusted <= policy.alpha
    size = _near_end(effect) if shared else _ratio_size(effect.ratio, effect.difference)
    if significant and size >= margin:
        change = effect.difference if effect.ratio is None else effect.ratio - 1
        decision = _side(pair.metric, change)
        text = f"{shown}: {_word(decision)} by {_limit(margin)} or more{note}"
        return Finding(decision, text, gate, effect)
    if _lies_inside(effect, margin):
        return Finding(Decision.UNCHANGED, f"{shown}: inside ±{_limit(margin)}{note}", gate, effect)
    advice = ONE_PROCESS if shared else _advice(pair, effect, margin, tests, policy)
    text = f"{shown}: neither inside ±{_limit(margin)} nor clearly beyond; {advice}"
    return Finding(Decision.INCONCLUSIVE, text, gate, effect)


def _near_end(effect: Effect) -> float:
    """The smallest size of change inside the interval; 0 where it holds no change, or is none."""
    if effect.low is None or effect.high is None or effect.low <= 1 <= effect.high:
        return 0.0
    return min(_ratio_size(effect.low), _ratio_size(effect.high))


def _lies_inside(effect: Effect, margin: float) -> bool:
    if effect.low is None or effect.high is None:
        return False
    return max(_ratio_size(effect.low), _ratio_size(effect.high)) < margin


def _ratio_size(ratio: float | None, difference: float = 0.0) -> float:
    if ratio is None:
        return math.inf if difference else 0.0
    return change_size(1.0, ratio)


def _advice(pair: Pair, effect: Effect, margin: float, tests: int, policy: Policy) -> str:
    base_n, head_n = _count(pair.base), _count(pair.head)
    measured = f"{base_n} and {head_n} measured"
    n = 2 / (1 / max(base_n, 1) + 1 / max(head_n, 1))
    from perfgate import stats  # as in `_test`

    needed = stats.samples_needed(effect, n, margin, policy.alpha, tests)
    if needed is not None:
        return f"about {_round_up(needed)} values per side would decide, {measured}"
    if effect.warnings:
        return f"{effect.warnings[0]} ({measured})"
    return f"too close to the limit for more values to decide ({measured})"


def _round_up(count: int) -> int:
    step = int(10 ** max(0, len(str(count)) - 2))
    return math.ceil(count / step) * step


# --- neither --------------------------------------------------------------------------------------


def _untested(pair: Pair, obstacle: str, policy: Policy) -> Finding:
    gate = gates(policy, pair.case_id, pair.metric)
    if pair.head is None:
        silent = not _is_exact(pair) and policy.sampled_gate == "never"
        return Finding(Decision.NOT_COMPARED, "the head has no such metric", gate and not silent)
    if pair.base is None:
        return Finding(Decision.NOT_COMPARED, "the base has no such metric", False)
    mismatch = _mismatch(pair)
    if mismatch:
        decision = Decision.INCONCLUSIVE if gate else Decision.NOT_COMPARED
        return Finding(decision, mismatch, gate)
    if _is_exact(pair):
        return _exact(pair, policy)
    base, head = _both(pair)
    reason = obstacle or f"{_values(pair)}, shown only: neither direction is better"
    point = dataclasses.replace(_NOTHING, ratio=compare_exact(base, head).ratio)
    return Finding(Decision.NOT_COMPARED, reason, False, point)


def _mismatch(pair: Pair) -> str:
    """Why the two samples do not measure the same thing, or nothing."""
    if pair.base is None or pair.head is None:
        return "one side is missing"
    base, head = pair.base.metric, pair.head.metric
    for name in ("unit", "kind", "direction"):
        old, new = getattr(base, name), getattr(head, name)
        if old != new:
            return f"the {name} changed from {old} to {new}: measure the base again"
    if not _is_exact(pair):
        return ""
    return _spread("base", pair.base) or _spread("head", pair.head)


def _spread(side: str, sample: Sample) -> str:
    if len(set(sample.values)) <= 1:
        return ""
    low, high = format_sides(min(sample.values), max(sample.values), sample.metric.unit)
    return (
        f"an exact metric has {len(sample.values)} values in the {side}, "
        f"from {low} to {high}: the benchmark is not deterministic"
    )


# --- words ----------------------------------------------------------------------------------------


def _comparison(pair: Pair, finding: Finding, method: str = "") -> Comparison:
    effect = finding.effect or _NOTHING
    return Comparison(
        case_id=pair.case_id,
        metric=pair.metric,
        base=None if pair.base is None else centre(pair.base),
        head=None if pair.head is None else centre(pair.head),
        ratio=effect.ratio,
        low=effect.low,
        high=effect.high,
        p_value=effect.p_value,
        decision=finding.decision,
        gates=finding.gates,
        method=method or effect.method,
        reason=finding.reason,
        base_n=_count(pair.base),
        head_n=_count(pair.head),
    )


def _both(pair: Pair) -> tuple[float, float]:
    assert pair.base is not None
    assert pair.head is not None
    return centre(pair.base), centre(pair.head)


def _count(sample: Sample | None) -> int:
    return 0 if sample is None else count(sample)


def _side(metric: Metric, change: float) -> Decision:
    worse = change > 0 if metric.direction is Direction.LOWER else change < 0
    return Decision.REGRESSED if worse else Decision.IMPROVED


def _word(decision: Decision) -> str:
    return "worse" if decision is Decision.REGRESSED else "better"


def _values(pair: Pair) -> str:
    return format_step(*_both(pair), pair.metric.unit)


def _change(ratio: float | None) -> str:
    return "changed from 0," if ratio is None else format_change(ratio)


def _chance(p_value: float) -> str:
    return "below 1e-9" if p_value < 1e-9 else f"{p_value:.2g}"


def _interval(effect: Effect) -> str:
    if effect.low is None or effect.high is None:
        return "no interval"
    return f"interval {_change(effect.low)} to {_change(effect.high)}"


def _limit(fraction: float) -> str:
    return f"{100 * fraction:.3g} %"
