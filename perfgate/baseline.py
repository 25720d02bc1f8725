"""Which stored runs are compared: the baseline of a run, and the run that a person means."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from perfgate import vcs
from perfgate.errors import UserError
from perfgate.model import Run
from perfgate.store import Store
from perfgate.store.protocol import ambiguous_run


@dataclass(frozen=True, slots=True)
class Baseline:
    """The run to compare with, or None. `reason` says why this one, or what to do to get one."""

    run: Run | None
    reason: str


# The source of a run → the command that measures another one.
_COMMANDS = {"perfgate": "`perfgate run`", "pytest-benchmark": "`pytest --perfgate`"}

NAMED_CHANGES = 3


def find_baseline(store: Store, directory: Path, base_rev: str, head: Run) -> Baseline:
    """The run at the merge base of `base_rev` and the commit of `head`, else at an older commit.

    Older means along first parents. Runs of uncommitted changes, of another source (a tool whose
    cases are others) and `head` itself are never a baseline. Among several at one commit the first
    that counts is one of the same session, then of the same environment, then the one with most of
    the cases of `head`, then the newest.
    """
    if not head.revision.commit:
        return Baseline(
            None, "the run was measured outside a repository, or before its first commit"
        )
    try:
        fork = vcs.merge_base(directory, base_rev, head.revision.commit)
        ancestors = vcs.first_parents(directory, fork) if fork else ()
    except UserError as error:
        return Baseline(None, f"{error.message}: {error.hint}")
    if not ancestors:
        return Baseline(None, _unrelated(directory, base_rev, head))
    for back, commit in enumerate(ancestors):
        if run := _best_at(store, commit, head):
            return Baseline(run, _why(run, base_rev, back))
    return Baseline(
        None,
        f"none of {_count(len(ancestors), 'commit')} up to {ancestors[0][:12]}, the merge base "
        f"with {base_rev}, was measured: check it out and run {how_to_measure(store)}",
    )


def find_session(store: Store, base: Run | None, head: Run) -> tuple[Run, ...]:
    """The closed runs of the session of both sides at either commit; none if they share none."""
    if base is None or not head.session or base.session != head.session:
        return ()
    commits = dict.fromkeys((base.revision.commit, head.revision.commit))
    found = [run for commit in commits for run in store.runs_at(commit)]
    return tuple(store.run(run.run_id) for run in found if run.session == head.session)


def find_candidate(store: Store, directory: Path, rev: str | None) -> Run:
    """The newest finished run of the working tree as it is, or of what `rev` names.

    `rev` is a run id, a revision without uncommitted changes, or the unique beginning of a run id.
    Raises `UserError` where there is no such run, and for one that is still open.
    """
    if rev is None:
        return _of_working_tree(store, directory)
    named = _named(store, rev)
    if named and named.run_id == rev:
        return _finished(named)
    commit = _commit(directory, rev)
    runs = [run for run in store.runs_at(commit or rev) if not run.revision.dirty]
    if runs:
        return store.run(runs[0].run_id)
    if named:
        return _finished(named)
    if commit:
        raise UserError(
            f"revision {rev}: commit {commit[:12]} was not measured",
            f"check it out and run {how_to_measure(store)} first",
        )
    begins = [run.run_id for run in store.runs(include_open=True) if run.run_id.startswith(rev)]
    if rev and begins:
        raise ambiguous_run(rev, begins)
    raise UserError(
        f"revision {rev}: neither a run nor a revision", "see the runs with `perfgate runs`"
    )


def how_to_measure(store: Store) -> str:
    """The command that gives a run, as this project does it; both where it has none yet."""
    newest = next(iter(store.runs(limit=1)), None)
    return _COMMANDS.get(newest.source if newest else "", " or ".join(_COMMANDS.values()))


def _best_at(store: Store, commit: str, head: Run) -> Run | None:
    """The best baseline for `head` at one commit, with its results."""
    runs = [
        run
        for run in store.runs_at(commit)
        if not run.revision.dirty and run.source == head.source and run.run_id != head.run_id
    ]
    nearest = min((_distance(run, head) for run in runs), default=None)
    equals = (store.run(run.run_id) for run in runs if _distance(run, head) == nearest)
    cases = {result.case_id for result in head.results}
    # The store gives the newest first, and `max` keeps the first of equals.
    return max(equals, key=lambda run: len(cases & {r.case_id for r in run.results}), default=None)


def _distance(run: Run, head: Run) -> tuple[bool, bool]:
    """How far the numbers of two runs are from being comparable; the smallest is the nearest."""
    interleaved = bool(head.session) and run.session == head.session
    same_environment = run.environment.fingerprint() == head.environment.fingerprint()
    return not interleaved, not same_environment


def _why(run: Run, base_rev: str, back: int) -> str:
    commit = run.revision.commit[:12]
    if back == 0:
        return f"run {run.run_id} at {commit}, the merge base with {base_rev}"
    return (
        f"run {run.run_id} at {commit}, {_count(back, 'commit')} before the merge base with "
        f"{base_rev}, which was not measured"
    )


def _unrelated(directory: Path, base_rev: str, head: Run) -> str:
    missing = f"no common ancestor of {base_rev} and {head.revision.commit[:12]} is known here"
    if vcs.is_shallow(directory):
        return f"{missing}: fetch the whole history with `git fetch --unshallow`"
    return f"{missing}: name a branch that it was made from with --base"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _named(store: Store, name: str) -> Run | None:
    try:
        return store.run(name)
    except UserError:
        return None


def _commit(directory: Path, rev: str) -> str | None:
    try:
        return vcs.resolve(directory, rev)
    except UserError:
        return None


def _finished(run: Run) -> Run:
    if not run.finished_at:
        raise UserError(f"run {run.run_id}: not finished", "finish it with `perfgate run --resume`")
    return run


def _of_working_tree(store: Store, directory: Path) -> Run:
    revision = vcs.read_revision(directory)
    runs = store.runs_at(revision.commit)
    for run in runs:
        if run.revision.dirty == revision.dirty:
            return store.run(run.run_id)
    where = f"commit {revision.commit[:12]}" if revision.commit else "this folder"
    hint = f"run {how_to_measure(store)} first"
    if not revision.dirty:
        raise UserError(f"{where}: not measured", hint)
    if any(not run.revision.dirty for run in runs):
        hint = f"{hint}, or judge the commit without these changes: --head HEAD"
    changes = _named_changes(vcs.changed_files(directory))
    raise UserError(f"{where} with these uncommitted changes: not measured: {changes}", hint)


def _named_changes(files: tuple[str, ...]) -> str:
    more = len(files) - NAMED_CHANGES
    shown = ", ".join(files[:NAMED_CHANGES])
    return f"{shown} and {_count(more, 'more file')}" if more > 0 else shown
