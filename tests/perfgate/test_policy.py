"""Which metrics gate, from which size on, and who accepted what."""

from __future__ import annotations

import pytest

from perfgate.model import Direction, Metric, MetricKind
from perfgate.policy import Policy, Rule, Waiver, find_waivers, gates, in_force, matches, threshold
from tests.perfgate.sides import BYTES, LATENCY, TIME


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("*", "", True),
        ("a[m=1]", "a[m=1]", True),
        ("a[m=1]", "am", False),
        ("kernels.*[*chip=trn2*]", "kernels.matmul[chip=trn2,m=5]", True),
        ("latency*", "latency_us", True),
        ("latency", "latency_us", False),
        ("m?", "mm", True),
        ("a*", "a\nb", True),
    ],
)
def test_patterns_take_brackets_literally(pattern: str, text: str, fits: bool) -> None:
    assert matches(pattern, text) is fits


def test_exact_latency_and_sampled_metrics_gate_by_default() -> None:
    policy = Policy()

    assert gates(policy, "a", LATENCY)
    assert gates(policy, "a", TIME)
    assert not gates(policy, "a", BYTES)
    assert threshold(policy, "a", LATENCY) == 0.005
    assert threshold(policy, "a", TIME) == 0.05


def test_a_metric_without_a_better_side_never_gates() -> None:
    metric = Metric("latency_us", "us", Direction.NONE, MetricKind.EXACT)

    assert not gates(Policy(rules=(Rule(),)), "a", metric)


def test_the_first_rule_that_matches_holds() -> None:
    rules = (
        Rule("slow.*", gates=False),
        Rule(metric="hbm*", threshold=0.1),
        Rule("*", "*", True, 0.2),
    )
    policy = Policy(rules=rules)

    assert not gates(policy, "slow.a", LATENCY)
    assert threshold(policy, "a", BYTES) == 0.1
    assert threshold(policy, "a", LATENCY) == 0.2


def test_the_longest_lived_waiver_comes_first() -> None:
    short, long = (Waiver("a*", "me", "why", day) for day in ("2026-01-01", "2026-12-31"))
    policy = Policy(waivers=(short, Waiver("b", "me", "why", "2030-01-01"), long))

    assert find_waivers(policy, "abc", "time") == (long, short)


def test_a_waiver_holds_through_its_last_day() -> None:
    waiver = Waiver("a", "me", "why", "2026-06-15")

    assert in_force(waiver, "2026-06-15T23:59:59+00:00")
    assert not in_force(waiver, "2026-06-16T00:00:00+00:00")
