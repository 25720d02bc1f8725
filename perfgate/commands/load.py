"""`perfgate import`: results of other tools become runs of the store."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perfgate.commands.workspace import here, opened
from perfgate.errors import UserError
from perfgate.figures import plural
from perfgate.importers import import_paths
from perfgate.model import Revision, Run
from perfgate.report import json
from perfgate.report.view import commit_label
from perfgate.vcs import read_revision, resolve

SHOWN_RUNS = 20


@dataclass(frozen=True, slots=True)
class Request:
    """What `perfgate import` was asked; None means the default that its help states."""

    format_name: str
    paths: Sequence[Path]
    commit: str | None = None
    session: str = ""
    store: str | None = None
    as_json: bool = False


def import_files(request: Request) -> None:
    """Read all files, then keep their runs: one broken file means that nothing is kept."""
    config = here()
    runs = import_paths(request.format_name, request.paths)
    if not runs:
        hint = f"is it what {request.format_name} writes?"
        raise UserError(f"{request.paths[0]}: no runs in it", hint)
    if request.commit is not None or request.session:
        revision = None if request.commit is None else _revision(config.root, request.commit)
        runs = tuple(_relabelled(run, revision, request.session) for run in runs)
    with opened(config, request.store, write=True) as store:
        for run in runs:
            store.add_run(run)
    _print(runs, request.as_json)


def _print(runs: Sequence[Run], as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.import_json(runs))
        return
    for run in runs[:SHOWN_RUNS]:
        cases = plural(len(run.results), "case")
        print(f"imported run {run.run_id}: {cases} at {commit_label(run)}")
        for warning in run.warnings:
            print(f"warning: {warning}")
    if len(runs) > SHOWN_RUNS:
        print(f"and {plural(len(runs) - SHOWN_RUNS, 'more run')}")


def _revision(directory: Path, name: str) -> Revision:
    """The commit of that name; where there is no repository, the name itself is the label."""
    if not read_revision(directory).commit:
        return Revision(name)
    return Revision(resolve(directory, name))


def _relabelled(run: Run, revision: Revision | None, session: str) -> Run:
    """The run under another revision or session, with an id of its own.

    The id follows from the old one and the labels, so that importing twice changes nothing.
    """
    revision = revision or run.revision
    labels = "\n".join((run.run_id, revision.commit, session))
    run_id = hashlib.sha256(labels.encode()).hexdigest()[: len(run.run_id)]
    return dataclasses.replace(
        run, run_id=run_id, revision=revision, session=session or run.session
    )
