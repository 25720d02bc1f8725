"""What gates, from which size on, and which regressions somebody has accepted.

Facts only: `config.py` reads a policy from a file and `gate.py` applies it. Every threshold is a
fraction (0.05 is 5 %). Patterns know `*` and `?` and nothing else, because case ids are full of
square brackets.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Literal

from perfgate.model import Direction, Metric, MetricKind

SampledGate = Literal["interleaved", "same-environment", "never"]


@dataclass(frozen=True, slots=True)
class Rule:
    """Whether the metrics that match gate, and from which relative change on.

    `threshold` None stands for the policy's own: `exact_threshold` or `sampled_min_effect`.
    """

    case: str = "*"
    metric: str = "*"
    gates: bool = True
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Waiver:
    """An accepted regression: who accepted it, why, and the last day (ISO date) it holds."""

    case: str
    who: str
    why: str
    until: str
    metric: str = "*"


DEFAULT_RULES = (Rule(metric="latency*"),)


@dataclass(frozen=True, slots=True)
class Policy:
    """The thresholds of a gate.

    An exact metric gates if the first rule that matches it says so; the rules end with
    `DEFAULT_RULES`. A sampled metric gates unless a rule says it does not. `alpha` is the false
    discovery rate over all sampled comparisons of one gate.
    """

    exact_threshold: float = 0.005
    drift_threshold: float = 0.015
    sampled_min_effect: float = 0.05
    alpha: float = 0.05
    sampled_gate: SampledGate = "interleaved"
    rules: tuple[Rule, ...] = ()
    waivers: tuple[Waiver, ...] = ()


def gates(policy: Policy, case_id: str, metric: Metric) -> bool:
    """Whether this metric of this case may decide a verdict."""
    if metric.direction is Direction.NONE:
        return False
    rule = _rule(policy, case_id, metric)
    return rule.gates if rule else metric.kind is MetricKind.SAMPLED


def threshold(policy: Policy, case_id: str, metric: Metric) -> float:
    """The relative change from which on this metric counts as changed."""
    rule = _rule(policy, case_id, metric)
    if rule and rule.threshold is not None:
        return rule.threshold
    exact = metric.kind is MetricKind.EXACT
    return policy.exact_threshold if exact else policy.sampled_min_effect


def find_waivers(policy: Policy, case_id: str, metric_name: str) -> tuple[Waiver, ...]:
    """Every waiver for one metric of one case, in force or not, the longest-lived first."""
    found = [
        waiver
        for waiver in policy.waivers
        if matches(waiver.case, case_id) and matches(waiver.metric, metric_name)
    ]
    return tuple(sorted(found, key=lambda waiver: waiver.until, reverse=True))


def in_force(waiver: Waiver, day: str) -> bool:
    """Whether a waiver holds on an ISO date (or at an ISO time)."""
    return day[:10] <= waiver.until


def matches(pattern: str, text: str) -> bool:
    """Whether all of `text` fits the pattern: `*` is any text, `?` one character."""
    return _compiled(pattern).fullmatch(text) is not None


@functools.lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    special = {"*": ".*", "?": "."}
    return re.compile("".join(special.get(c, re.escape(c)) for c in pattern), re.DOTALL)


def _rule(policy: Policy, case_id: str, metric: Metric) -> Rule | None:
    return next(
        (
            rule
            for rule in (*policy.rules, *DEFAULT_RULES)
            if matches(rule.case, case_id) and matches(rule.metric, metric.name)
        ),
        None,
    )
