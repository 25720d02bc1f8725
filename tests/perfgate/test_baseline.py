"""Which run is compared with which, over a real history and a store in memory."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from perfgate.baseline import Baseline, find_baseline, find_candidate
from perfgate.errors import UserError
from perfgate.model import Environment, Revision, Run
from perfgate.store import MemoryStore
from tests.perfgate.repository import Repository
from tests.perfgate.store.samples import closed, exact, opened


class History:
    """`main` with the commits a, b, c, and `topic` with t, made from b."""

    def __init__(self, repository: Repository, commits: dict[str, str]) -> None:
        self.repository = repository
        self.root = repository.root
        self.commits = dict(commits)
        self.store = MemoryStore()

    def measure(self, run_id: str, at: str, minute: int = 0, cases: str = "x", **facts: str) -> Run:
        """A stored run; `facts` are fields of the run, `dirty`, or `machine`."""
        commit = self.commits.get(at, at)
        run = closed(run_id, *(exact(case) for case in cases), minute=minute)
        run = dataclasses.replace(
            run,
            revision=Revision(commit, dirty=facts.pop("dirty", "")),
            environment=Environment(machine=facts.pop("machine", "m")),
            **facts,
        )
        self.store.add_run(run)
        return run

    def baseline(self, head: Run, base: str = "main") -> Baseline:
        return find_baseline(self.store, self.root, base, head)

    def candidate(self, rev: str | None) -> str:
        return find_candidate(self.store, self.root, rev).run_id


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> History:
    repository = Repository(tmp_path_factory.mktemp("repository"))
    commits = {name: repository.commit(name) for name in "ab"}
    repository.git("checkout", "--quiet", "-b", "topic")
    commits["t"] = repository.commit("t")
    repository.git("checkout", "--quiet", "main")
    commits["c"] = repository.commit("c")
    return History(repository, commits)


@pytest.fixture
def history(template: History, tmp_path: Path) -> History:
    return History(template.repository.copy(tmp_path / "copy"), template.commits)


def test_the_baseline_is_the_merge_base(history: History) -> None:
    for run_id, at in (("at-a", "a"), ("at-b", "b"), ("at-c", "c")):
        history.measure(run_id, at)
    found = history.baseline(history.measure("head", "t"))

    assert found.run == history.store.run("at-b")
    assert found.reason == f"run at-b at {history.commits['b'][:12]}, the merge base with main"


def test_an_older_commit_stands_in_for_one_that_was_not_measured(history: History) -> None:
    history.measure("at-a", "a")
    history.measure("at-c", "c")
    found = history.baseline(history.measure("head", "t"))

    assert found.run == history.store.run("at-a")
    assert "1 commit before the merge base with main, which was not measured" in found.reason


def test_nothing_measured_is_no_baseline(history: History) -> None:
    history.measure("at-c", "c")
    found = history.baseline(history.measure("head", "t"))

    assert found.run is None
    assert "none of 2 commits up to" in found.reason
    assert "`perfgate run`" in found.reason


def test_what_is_no_fair_comparison_is_never_a_baseline(history: History) -> None:
    head = history.measure("head", "b", minute=1)
    history.measure("dirty", "b", minute=2, dirty="0123")
    history.measure("other tool", "b", minute=3, source="pytest-benchmark")
    history.store.open_run(opened("open", commit=history.commits["b"], minute=4))

    assert history.baseline(head).run is None


def test_uncommitted_changes_are_compared_with_their_commit(history: History) -> None:
    clean = history.measure("clean", "c")
    head = history.measure("head", "c", minute=1, dirty="0123")

    assert history.baseline(head).run == clean


def test_the_newest_of_equal_runs_is_the_baseline(history: History) -> None:
    for minute in (1, 3, 2):
        history.measure(f"r{minute}", "b", minute=minute)
    found = history.baseline(history.measure("head", "t"))

    assert found.run == history.store.run("r3")


def test_comparable_numbers_count_more_than_new_ones(history: History) -> None:
    history.measure("same session", "b", minute=1, session="job", machine="other")
    history.measure("all cases", "b", minute=2, cases="xy")
    history.measure("same machine", "b", minute=3, cases="x")
    history.measure("newest", "b", minute=4, machine="other", cases="xy")
    head = history.measure("head", "t", cases="xy", session="job")

    expected = ["same session", "all cases"]
    found = [
        history.baseline(dataclasses.replace(head, session=session)).run for session in ("job", "")
    ]
    assert [run and run.run_id for run in found] == expected


@pytest.mark.parametrize(
    ("at", "base", "reason"),
    [
        ("", "main", "outside a repository"),
        ("t", "nowhere", "revision nowhere: not in this repository: "),
        ("0" * 40, "main", "revision 0000000000000000000000000000000000000000: not in this"),
    ],
)
def test_where_history_does_not_help_the_reason_says_so(
    history: History, at: str, base: str, reason: str
) -> None:
    head = history.measure("head", at)

    assert history.baseline(head, base).run is None
    assert reason in history.baseline(head, base).reason


def test_unrelated_history_is_no_baseline(history: History) -> None:
    history.repository.git("checkout", "--quiet", "--orphan", "other")
    history.commits["o"] = history.repository.commit()
    found = history.baseline(history.measure("head", "o"))

    assert found.run is None
    assert "no common ancestor of main and" in found.reason


def test_without_a_repository_there_is_no_baseline(tmp_path: Path) -> None:
    head = closed("head", commit="c1")
    found = find_baseline(MemoryStore([head]), tmp_path, "main", head)

    assert found.run is None
    assert "is not in a git repository" in found.reason


def test_the_candidate_is_the_working_tree_as_it_is(history: History) -> None:
    history.measure("old", "c", minute=1)
    history.measure("clean", "c", minute=2)
    history.measure("edited", "c", minute=3, dirty="0123")
    assert history.candidate(None) == "clean"

    history.repository.write("new.py", "")
    with pytest.raises(UserError, match=r"uncommitted changes: not measured: new\.py") as caught:
        history.candidate(None)
    assert caught.value.hint == (
        "run `perfgate run` first, or judge the commit without these changes: --head HEAD"
    )


def test_of_many_changes_the_first_few_are_named(history: History) -> None:
    for name in "edcba":
        history.repository.write(f"{name}.py", "")

    with pytest.raises(UserError, match=r"a\.py, b\.py, c\.py and 2 more files") as caught:
        history.candidate(None)
    assert "--head" not in caught.value.hint  # the commit was not measured either
    assert "`perfgate run` or `pytest --perfgate`" in caught.value.hint


def test_a_project_that_measures_with_pytest_is_told_so(history: History) -> None:
    history.measure("at-a", "a", source="pytest-benchmark")

    with pytest.raises(UserError) as caught:
        history.candidate("main")
    assert caught.value.hint == "check it out and run `pytest --perfgate` first"


def test_outside_a_repository_the_candidate_is_the_newest_run_from_outside(tmp_path: Path) -> None:
    runs = (closed("old", commit=""), closed("new", commit="", minute=1), closed("c", minute=2))

    assert find_candidate(MemoryStore(runs), tmp_path, None).run_id == "new"
    with pytest.raises(UserError, match="this folder: not measured"):
        find_candidate(MemoryStore(), tmp_path, None)


def test_a_candidate_can_be_named(history: History) -> None:
    history.measure("2025-one", "b", cases="xyz")
    history.measure("2025-two", "t")
    history.measure("edited", "t", minute=9, dirty="0123")

    assert history.candidate("topic") == "2025-two"
    assert history.candidate("main~1") == "2025-one"
    assert history.candidate(history.commits["t"][:9]) == "2025-two"
    assert history.candidate("2025-o") == "2025-one"
    assert history.candidate("edited") == "edited"
    assert len(find_candidate(history.store, history.root, "2025-one").results) == 3


def test_a_label_of_an_imported_run_is_a_revision(history: History) -> None:
    history.measure("r1", "release 7")

    assert history.candidate("release 7") == "r1"


def test_an_exact_run_id_comes_before_a_revision(history: History) -> None:
    history.measure("main", "b")
    history.measure("other", "c")

    assert history.candidate("main") == "main"


@pytest.mark.parametrize(
    ("rev", "message"),
    [
        ("main", "revision main: commit .* was not measured"),
        ("nowhere", "revision nowhere: neither a run nor a revision"),
        ("", "revision : neither a run nor a revision"),
        ("2025", "run 2025: matches 2025-two, 2025-one"),
        ("open", "run open-run: not finished"),
    ],
)
def test_what_names_no_candidate_is_refused(history: History, rev: str, message: str) -> None:
    history.measure("2025-one", "b")
    history.measure("2025-two", "t")
    history.store.open_run(opened("open-run"))

    with pytest.raises(UserError, match=message) as caught:
        history.candidate(rev)
    assert caught.value.hint
