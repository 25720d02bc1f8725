"""Whether the two sides of a gate were measured in turns, and what each side's runs say together.

In: a base and a head run, and the other closed runs of their session. Out: one run a side. A
machine that warms up, or a neighbour that wakes, changes every time measured after that moment; a
name that two runs share does not protect from it, turns do. Where there were turns, each run gives
one value of a sampled metric, the median of its own, because what a run measured shares the luck of
that moment. Where there were none, the runs stay as they are and `apart` says why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from perfgate.effect import centre
from perfgate.model import CaseResult, CaseStatus, MetricKind, Run, Sample
from perfgate.store.protocol import microseconds

FEWEST_RUNS = 2
"""Runs a side from which on turns can be told; a verdict needs more, see `stats.smallest_n`."""

# The source of a run → how to measure one of a session.
_COMMANDS = {
    "perfgate": "perfgate run --session NAME",
    "pytest-benchmark": "pytest --perfgate --perfgate-session NAME",
}


@dataclass(frozen=True, slots=True)
class Sides:
    """What is compared. `apart` says why the sides were not measured in turns; empty: they were."""

    base: Run
    head: Run
    apart: str = ""


def take_sides(base: Run, head: Run, others: Iterable[Run]) -> Sides:
    """Both sides with all their runs of the session, if these were in turns, else as they are."""
    known = {run.run_id: run for run in (*others, base, head)}
    runs = sorted(known.values(), key=lambda run: (microseconds(run.started_at), run.run_id))
    before = [run for run in runs if _is_of_side(run, base)]
    after = [run for run in runs if _is_of_side(run, head)]
    apart = _apart(base, head, [run for run in runs if run in before or run in after])
    return Sides(base, head, apart) if apart else Sides(pooled(base, before), pooled(head, after))


def pooled(chosen: Run, runs: Sequence[Run]) -> Run:
    """The header of `chosen` over what all the runs of its side found, oldest first."""
    found: defaultdict[str, list[CaseResult]] = defaultdict(list)
    for run in runs:
        for result in run.results:
            found[result.case_id].append(result)
    return replace(chosen, results=tuple(map(_merged, found.values())))


def _is_of_side(run: Run, chosen: Run) -> bool:
    return bool(run.finished_at) and _side(run) == _side(chosen)


def _side(run: Run) -> tuple[str, ...]:
    revision = run.revision
    fingerprint = run.environment.fingerprint()
    return run.session, run.source, revision.commit, revision.dirty, fingerprint


def _apart(base: Run, head: Run, runs: Sequence[Run]) -> str:
    """Why the runs, in the order of time, are no turns of two sides."""
    command = _COMMANDS.get(head.source, _COMMANDS["perfgate"])
    how = f"measure base and head in turns, each several times, with `{command}`"
    if not (base.session and head.session):
        return f"base and head were not measured in turns: {how}"
    if base.session != head.session:
        return f"base and head are of different sessions ({base.session}, {head.session}): {how}"
    if _side(base) == _side(head):
        return "base and head are one commit, so nothing tells their runs apart"
    turns = [_side(run) == _side(head) for run in runs]
    told = f"session {head.session} has {turns.count(False)} of the base and {turns.count(True)}"
    if min(turns.count(False), turns.count(True)) < FEWEST_RUNS:
        return f"{told} of the head, and turns need two of each at least: {how}"
    changes = sum(one != other for one, other in pairwise(turns))
    if changes == 1:
        return f"{told} of the head, all of one side first: {how}"
    return ""


def _merged(results: Sequence[CaseResult]) -> CaseResult:
    """One case over the runs of a side. A failure in any of them is not hidden by the others."""
    bad = next((result for result in results if result.status is not CaseStatus.OK), None)
    if bad is not None:
        return bad
    newest = results[-1]
    return replace(newest, samples=tuple(_over_runs(s, results) for s in newest.samples))


def _over_runs(newest: Sample, results: Sequence[CaseResult]) -> Sample:
    """One value a run of a sampled metric; of an exact one the values, which should be one."""
    same = [s for r in results if (s := r.sample(newest.metric.name)) and s.metric == newest.metric]
    if newest.metric.kind is MetricKind.SAMPLED:
        return Sample(newest.metric, tuple(map(centre, same)))
    values = tuple(dict.fromkeys(value for sample in same for value in sample.values))
    return Sample(newest.metric, values) if len(values) > 1 else newest
