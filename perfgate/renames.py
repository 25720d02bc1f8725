"""Which missing case may be a new case under another name.

A rename breaks a history silently, and a gate that sees one case vanish and another appear should
say so. Two cases may be one if their exact numbers are the same, or if they are of one benchmark;
the answer is a question for a person, never a reason to pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from perfgate.caseid import parse_case_id
from perfgate.model import CaseResult, MetricKind

# What so many cases have in common tells none of them apart, and nobody reads thousands of guesses.
MOST_PAIRS = 100_000

Numbers = tuple[tuple[str, tuple[float, ...]], ...]


@dataclass(frozen=True, slots=True)
class _Traits:
    """What two cases are likened by. `numbers` is empty where it would say nothing."""

    case_id: str
    benchmark: str
    parameters: frozenset[tuple[str, str]]
    numbers: Numbers


Key = Callable[[_Traits], Hashable]


def match_renames(missing: Sequence[CaseResult], new: Sequence[CaseResult]) -> Mapping[str, str]:
    """Missing case id → the new case id it most resembles; each new case is used once.

    Equal numbers go before equal benchmarks.
    """
    old, young = [*map(_traits, missing)], [*map(_traits, new)]
    matched = _match(old, young, lambda traits: traits.numbers)
    found = set(matched.values())
    old = [traits for traits in old if traits.case_id not in matched]
    young = [traits for traits in young if traits.case_id not in found]
    return matched | _match(old, young, lambda traits: traits.benchmark)


def _match(old: Sequence[_Traits], young: Sequence[_Traits], key: Key) -> dict[str, str]:
    """Pair those with the same key; an empty key is none."""
    before, after = _grouped(old, key), _grouped(young, key)
    matched: dict[str, str] = {}
    for shared in before.keys() & after.keys():
        if shared and len(before[shared]) * len(after[shared]) <= MOST_PAIRS:
            matched |= _pair(before[shared], after[shared])
    return matched


def _grouped(cases: Sequence[_Traits], key: Key) -> Mapping[Hashable, list[_Traits]]:
    groups: defaultdict[Hashable, list[_Traits]] = defaultdict(list)
    for traits in cases:
        groups[key(traits)].append(traits)
    return groups


def _pair(old: Sequence[_Traits], young: Sequence[_Traits]) -> dict[str, str]:
    """Those with the most parameters in common first."""
    scored = sorted(
        (-len(before.parameters & after.parameters), before.case_id, after.case_id)
        for before in old
        for after in young
    )
    matched: dict[str, str] = {}
    taken: set[str] = set()
    for _, before_id, after_id in scored:
        if before_id not in matched and after_id not in taken:
            matched[before_id] = after_id
            taken.add(after_id)
    return matched


def _traits(result: CaseResult) -> _Traits:
    benchmark, parameters = parse_case_id(result.case_id)
    numbers = [
        (s.metric.name, s.values) for s in result.samples if s.metric.kind is MetricKind.EXACT
    ]
    # Cases whose exact numbers are all zero are alike without being related.
    telling = any(any(values) for _, values in numbers)
    shared = tuple(sorted(numbers)) if telling else ()
    return _Traits(result.case_id, benchmark, frozenset(parameters.items()), shared)
