"""Two runs and a policy to a word on every case, and the words to an exit code.

Nothing passes silently: a case that is gone, that failed, that has nothing to be compared with or
that could not be decided keeps its own word and fails the gate with exit code 3, and so does a gate
in which nothing was decided at all. A
regression needs a metric that gates; every other change is shown in the comparisons.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from perfgate.comparison import change_size, compare_pairs, drift, pair_metrics
from perfgate.figures import format_change
from perfgate.model import CaseResult, CaseStatus, Comparison, GateResult, Run, Verdict, Word
from perfgate.policy import Policy
from perfgate.renames import match_renames
from perfgate.session import Sides, take_sides
from perfgate.verdict import Terms, judge, judge_missing

PASS, REGRESSION, UNDECIDED = 0, 1, 3

# Sampled comparisons from which on a common movement is told.
FEWEST_FOR_SHIFT = 5

DECIDED = frozenset({Word.UNCHANGED, Word.IMPROVED, Word.REGRESSED, Word.WAIVED})
"""The words that say the numbers of a case were enough to decide."""

FAILS = frozenset(
    {
        Word.MISSING,
        Word.RENAMED,
        Word.FAILED,
        Word.TIMED_OUT,
        Word.NOT_RUN,
        Word.NO_BASELINE,
        Word.INCONCLUSIVE,
    }
)
"""The words that say a case which should have been decided was not."""


def exit_code(result: GateResult) -> int:
    """1: a case regressed. 3: something, or everything, could not be decided. 0: all is well."""
    words = {verdict.word for verdict in result.verdicts}
    if Word.REGRESSED in words:
        return REGRESSION
    if words & FAILS or not words & DECIDED:
        return UNDECIDED
    return PASS


def compare_runs(
    base: Run | None,
    head: Run,
    policy: Policy,
    pinned: Run | None = None,
    others: Iterable[Run] = (),
) -> GateResult:
    """A verdict for every case of either run, by case id. `pinned` is a release not to drift from.

    `others` are further runs of the session, which count with these two if they were in turns.
    Waivers are held against the day the head run started, so that a gate can be repeated.
    """
    sides = take_sides(base, head, others) if base else None
    if sides:
        base, head = sides.base, sides.head
    before, after = _by_id(base), _by_id(head)
    compared: defaultdict[str, list[Comparison]] = defaultdict(list)
    for comparison in _common(sides, policy) if sides else ():
        compared[comparison.case_id].append(comparison)
    breaches, watched = drift(pinned, head, policy) if pinned else ((), 0)
    for breach in breaches:
        compared[breach.case_id].append(breach)
    renames = _renames(before, after) if base else {}
    terms = Terms(policy, head.started_at, base is not None, renames)
    verdicts = [
        judge(after[case_id], before.get(case_id), compared[case_id], terms)
        if case_id in after
        else judge_missing(case_id, terms)
        for case_id in sorted(before.keys() | after.keys())
    ]
    warnings = [
        *_run_warnings(base, head),
        *_undecided_warnings(base, verdicts),
        *_shift_warnings(verdicts, policy),
    ]
    if pinned and not watched:
        warnings.append(
            f"drift was not checked: the pinned run {pinned.run_id} has no exact metric that gates"
        )
    return GateResult(base, head, tuple(verdicts), tuple(warnings))


def _by_id(run: Run | None) -> dict[str, CaseResult]:
    return {result.case_id: result for result in run.results} if run else {}


def _common(sides: Sides, policy: Policy) -> tuple[Comparison, ...]:
    """Every metric of every case that ended well on both sides."""
    before = {r.case_id: r for r in sides.base.results if r.status is CaseStatus.OK}
    pairs = [
        pair
        for result in sides.head.results
        if result.status is CaseStatus.OK and result.case_id in before
        for pair in pair_metrics(before[result.case_id], result)
    ]
    return compare_pairs(pairs, sides, policy)


def _renames(
    before: Mapping[str, CaseResult], after: Mapping[str, CaseResult]
) -> Mapping[str, str]:
    missing = [before[case_id] for case_id in sorted(before.keys() - after.keys())]
    new = [after[case_id] for case_id in sorted(after.keys() - before.keys())]
    return match_renames(missing, new)


def _run_warnings(base: Run | None, head: Run) -> Iterable[str]:
    for side, run in (("base", base), ("head", head)):
        if run and not run.finished_at:
            yield f"the {side} run {run.run_id} is not finished: cases may be missing"
    failed = [r.case_id for r in base.results if r.status is not CaseStatus.OK] if base else []
    if failed:
        yield f"not held to anything, because they failed in the base: {_some(failed)}"


def _shift_warnings(verdicts: Iterable[Verdict], policy: Policy) -> Iterable[str]:
    """Rounds of one process share its luck: a machine that slowed down slows every case down."""
    ratios = [
        comparison.ratio
        for verdict in verdicts
        for comparison in verdict.comparisons
        if comparison.p_value is not None and comparison.ratio is not None
    ]
    middle = median(ratios) if len(ratios) >= FEWEST_FOR_SHIFT else 1.0
    if change_size(1.0, middle) >= policy.sampled_min_effect:
        yield (
            f"the sampled metrics moved together, by {format_change(middle)} in the middle of "
            f"{len(ratios)}: did the machine change between base and head?"
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _undecided_warnings(base: Run | None, verdicts: Iterable[Verdict]) -> Iterable[str]:
    words = Counter(verdict.word for verdict in verdicts)
    if words.keys() & DECIDED:
        return
    if not words:
        yield "no case was measured, so nothing was decided"
    elif base is None:
        yield (
            "there is no baseline, so nothing was decided: that is right for the first change that "
            "adds the suite (merge it, and the next gate has a baseline); else check out the base, "
            "measure it into the same store, and gate again"
        )
    else:
        shown = ", ".join(f"{count} {word.value}" for word, count in words.most_common())
        yield f"no metric that gates was compared, so nothing was decided ({shown})"
