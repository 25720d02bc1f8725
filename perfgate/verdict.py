"""The word on one case, from its comparisons and the policy.

The words are tried from worst to best, and the first that holds is the verdict: a case is only
called unchanged when nothing about it regressed, vanished or stayed open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfgate.comparison import DRIFT_METHOD, change_size, exceeds
from perfgate.model import (
    CaseResult,
    CaseStatus,
    Comparison,
    Decision,
    MetricKind,
    Verdict,
    Word,
)
from perfgate.policy import Policy, Waiver, find_waivers, in_force, threshold

_STATUS_WORDS = {
    CaseStatus.FAILED: Word.FAILED,
    CaseStatus.TIMED_OUT: Word.TIMED_OUT,
    CaseStatus.NOT_RUN: Word.NOT_RUN,
}


@dataclass(frozen=True, slots=True)
class Terms:
    """What a verdict is judged by besides the numbers.

    `day` is the ISO time waivers are held against; `renames` maps missing to new case ids.
    """

    policy: Policy
    day: str
    has_base: bool
    renames: Mapping[str, str] = field(default_factory=dict)


def judge(
    head: CaseResult, base: CaseResult | None, comparisons: Sequence[Comparison], terms: Terms
) -> Verdict:
    """The verdict on a case that the head run has."""
    word, reason = _word(head, base, comparisons, terms)
    return Verdict(head.case_id, word, tuple(comparisons), reason)


def judge_missing(case_id: str, terms: Terms) -> Verdict:
    """The verdict on a case that only the base run has."""
    waiver, note = _waiver(terms, case_id, "*")
    if waiver:
        return Verdict(case_id, Word.WAIVED, (), f"no longer measured, {_accepted(waiver)}")
    if case_id in terms.renames:
        reason = f"no longer measured; is it now {terms.renames[case_id]}?{note}"
        return Verdict(case_id, Word.RENAMED, (), reason)
    return Verdict(case_id, Word.MISSING, (), f"measured in the base, not in the head{note}")


def decides_regression(comparison: Comparison, policy: Policy) -> bool:
    """Whether this comparison alone makes a case regressed."""
    return comparison.decision is Decision.REGRESSED and _counts(comparison, policy)


def _word(
    head: CaseResult, base: CaseResult | None, comparisons: Sequence[Comparison], terms: Terms
) -> tuple[Word, str]:
    if head.status is not CaseStatus.OK:
        return _STATUS_WORDS[head.status], _first_line(head.message) or "it did not end well"
    regressed = [c for c in comparisons if decides_regression(c, terms.policy)]
    accepted, standing = _split_waived(regressed, terms)
    if standing:
        return Word.REGRESSED, _join(standing)
    if base is None or base.status is not CaseStatus.OK:
        return _without_base(head.case_id, base, terms)
    gone, gone_accepted = _gone(comparisons, terms)
    if gone:
        return Word.MISSING, "; ".join(gone)
    gating = [c for c in comparisons if c.gates]
    undecided = [c for c in gating if c.decision is Decision.INCONCLUSIVE]
    if undecided:
        return Word.INCONCLUSIVE, _join([(c, "") for c in undecided])
    if accepted or gone_accepted:
        return Word.WAIVED, "; ".join([*(_join([a]) for a in accepted), *gone_accepted])
    return _harmless(comparisons, terms.policy)


def _harmless(comparisons: Sequence[Comparison], policy: Policy) -> tuple[Word, str]:
    """Nothing regressed, vanished or stayed open: is there anything that was decided?"""
    gating = [c for c in comparisons if c.gates and c.decision is not Decision.NOT_COMPARED]
    if not gating:
        reasons = [c.reason for c in comparisons if c.decision is Decision.NOT_COMPARED]
        return Word.NOT_COMPARED, reasons[0] if reasons else "none of its metrics gates"
    improved = [c for c in gating if c.decision is Decision.IMPROVED and _counts(c, policy)]
    if improved:
        return Word.IMPROVED, _join([(c, "") for c in improved])
    changed = [c for c in gating if c.decision is not Decision.UNCHANGED]
    return Word.UNCHANGED, _join([(c, "") for c in changed])


def _without_base(case_id: str, base: CaseResult | None, terms: Terms) -> tuple[Word, str]:
    if base is not None:
        waiver, note = _waiver(terms, case_id, "*")
        reason = f"the case is {base.status.value} in the base, so there is nothing to compare with"
        if waiver:
            return Word.WAIVED, f"{reason}, {_accepted(waiver)}"
        return Word.NO_BASELINE, reason + note
    if not terms.has_base:
        return Word.NO_BASELINE, "there is no baseline run"
    old = next((old for old, new in terms.renames.items() if new == case_id), None)
    return Word.NEW, f"is it {old} under a new name?" if old else "not measured in the base"


def _counts(comparison: Comparison, policy: Policy) -> bool:
    """Whether a change is of a metric that gates and large enough to.

    The decision on a sampled metric holds the size already; on an exact one it only says the side.
    """
    if not comparison.gates:
        return False
    if comparison.metric.kind is MetricKind.SAMPLED or comparison.method == DRIFT_METHOD:
        return True
    if comparison.base is None or comparison.head is None:
        return False
    limit = threshold(policy, comparison.case_id, comparison.metric)
    return exceeds(change_size(comparison.base, comparison.head), limit)


def _gone(comparisons: Sequence[Comparison], terms: Terms) -> tuple[list[str], list[str]]:
    """What is said of metrics that gate and are no longer measured: not accepted, accepted."""
    standing, accepted = [], []
    for comparison in comparisons:
        if not comparison.gates or comparison.head is not None:
            continue
        waiver, note = _waiver(terms, comparison.case_id, comparison.metric.name)
        text = f"{comparison.metric.name} is no longer measured"
        if waiver:
            accepted.append(f"{text}, {_accepted(waiver)}")
        else:
            standing.append(f"{text}{note}")
    return standing, accepted


Noted = tuple[Comparison, str]


def _split_waived(regressed: Sequence[Comparison], terms: Terms) -> tuple[list[Noted], list[Noted]]:
    """Regressions that somebody accepted and those that stand, each with what is to be added."""
    accepted: list[Noted] = []
    standing: list[Noted] = []
    for comparison in regressed:
        waiver, note = _waiver(terms, comparison.case_id, comparison.metric.name)
        if waiver:
            accepted.append((comparison, f", {_accepted(waiver)}"))
        else:
            standing.append((comparison, note))
    return accepted, standing


def _waiver(terms: Terms, case_id: str, metric_name: str) -> tuple[Waiver | None, str]:
    """The waiver in force, else a note on one that has run out."""
    found = find_waivers(terms.policy, case_id, metric_name)
    if not found:
        return None, ""
    if in_force(found[0], terms.day):
        return found[0], ""
    return None, f" (the waiver of {found[0].who} ended on {found[0].until})"


def _accepted(waiver: Waiver) -> str:
    return f"accepted by {waiver.who} until {waiver.until}: {waiver.why}"


def _join(noted: Sequence[Noted]) -> str:
    return "; ".join(f"{c.metric.name} {c.reason}{note}" for c, note in noted)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
