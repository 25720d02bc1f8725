"""What is read from git, in ordinary repositories and in odd ones."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from perfgate import vcs
from perfgate.errors import UserError
from perfgate.model import Revision
from perfgate.store import connect
from tests.perfgate.repository import Repository


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    made = Repository(tmp_path_factory.mktemp("repository"))
    made.write("kernel.py", "x = 1\n")
    made.commit("first: größer\n\nbody")
    return made


@pytest.fixture
def repository(template: Repository, tmp_path: Path) -> Repository:
    return template.copy(tmp_path / "work tree")


def dirty(repository: Repository) -> str:
    return vcs.read_revision(repository.root).dirty


def test_a_clean_tree_is_its_commit(repository: Repository) -> None:
    (repository.root / "sub").mkdir()

    assert vcs.read_revision(repository.root / "sub") == Revision(
        commit=repository.git("rev-parse", "HEAD"),
        dirty="",
        branch="main",
        author="Ada Ünal",
        subject="first: größer",
        committed_at="2025-01-01T10:01:00+00:00",
    )


def test_a_detached_head_has_no_branch(repository: Repository) -> None:
    repository.git("checkout", "--quiet", "--detach")

    assert vcs.read_revision(repository.root).branch == ""


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.write("kernel.py", "x = 2\n"),
        lambda r: r.write("new.py", ""),
        lambda r: r.write("odd \n name ü.py", ""),
        lambda r: (r.root / "kernel.py").unlink(),
        lambda r: (r.root / "kernel.py").chmod(0o755),
        lambda r: (r.root / "link").symlink_to("nowhere"),
        lambda r: r.git("mv", "kernel.py", "renamed.py"),
        lambda r: r.git("rm", "--cached", "--quiet", "kernel.py"),
        lambda r: Repository(r.root / "nested").commit(),
    ],
    ids=["edited", "new", "odd-name", "deleted", "mode", "link", "moved", "unstaged", "nested"],
)
def test_any_uncommitted_change_makes_a_tree_dirty(
    repository: Repository, change: Callable[[Repository], object]
) -> None:
    change(repository)

    assert len(dirty(repository)) == 16
    assert dirty(repository) == dirty(repository)
    repository.git("config", "diff.noprefix", "true")
    (repository.root / "sub").mkdir()
    assert vcs.read_revision(repository.root / "sub").dirty == dirty(repository)


def test_different_changes_have_different_digests(repository: Repository) -> None:
    seen = set()
    for name, text in (("kernel.py", "2"), ("kernel.py", "3"), ("new", "3"), ("new2", "3")):
        repository.write(name, text)
        seen.add(dirty(repository))
    (repository.root / "new").chmod(0o755)
    seen.add(dirty(repository))

    assert len(seen) == 5


def test_staging_a_change_is_the_same_change(repository: Repository) -> None:
    repository.write("kernel.py", "x = 2\n")
    before = dirty(repository)
    repository.git("add", "kernel.py")

    assert dirty(repository) == before


def test_a_change_taken_back_leaves_the_tree_clean(repository: Repository) -> None:
    repository.write("kernel.py", "x = 2\n")
    repository.write("kernel.py", "x = 1\n")

    assert dirty(repository) == ""


def test_what_running_benchmarks_leaves_behind_is_no_change(repository: Repository) -> None:
    repository.write(".gitignore", "build/\n")
    repository.commit()
    for name in (".perfgate/history.db", "a/.perfgate/x", "a/__pycache__/b.pyc", "build/out"):
        repository.write(name, "x")

    assert dirty(repository) == ""


def test_a_tracked_file_counts_wherever_it_lies(repository: Repository) -> None:
    repository.write(".perfgate/waivers.toml", "a")
    repository.commit()
    repository.write(".perfgate/waivers.toml", "b")

    assert dirty(repository) != ""


@pytest.mark.parametrize("make", [Path.mkdir, Repository, lambda path: None])
def test_without_a_commit_the_revision_is_empty(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "place")

    assert vcs.read_revision(tmp_path / "place") == Revision("")


def test_without_git_the_revision_is_empty(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")

    assert vcs.read_revision(repository.root) == Revision("")
    with pytest.raises(UserError, match=r"revision main: .* is not in a git repository") as caught:
        vcs.resolve(repository.root, "main")
    assert "git installed" in caught.value.hint


def test_a_repository_that_git_refuses_is_reported(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")

    with pytest.raises(UserError, match="another user owns it") as caught:
        vcs.read_revision(repository.root)
    assert "safe.directory" in caught.value.hint


def test_a_revision_has_many_names(repository: Repository) -> None:
    first = repository.git("rev-parse", "HEAD")
    repository.git("tag", "--annotate", "v1", "--message", "one")
    repository.commit()

    assert {vcs.resolve(repository.root, r) for r in ("v1", "HEAD~1", first, first[:8])} == {first}


def test_a_branch_is_found_at_origin(repository: Repository, tmp_path: Path) -> None:
    clone = Repository(tmp_path / "clone")
    clone.git("remote", "add", "origin", str(repository.root))
    clone.git("fetch", "--quiet", "origin")

    assert vcs.resolve(clone.root, "main") == repository.git("rev-parse", "main")


@pytest.mark.parametrize(
    "rev", ["nowhere", "", "--all", "--since=1", "a\0b", "HEAD~9", "HEAD:kernel.py"]
)
def test_an_unknown_revision_is_named(repository: Repository, rev: str) -> None:
    with pytest.raises(UserError) as caught:
        vcs.resolve(repository.root, rev)

    assert caught.value.message == f"revision {rev}: not in this repository"
    assert "git fetch" in caught.value.hint


def test_branches_meet_at_their_merge_base(repository: Repository) -> None:
    fork = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "--quiet", "-b", "topic")
    repository.commit("on topic")
    repository.git("checkout", "--quiet", "main")
    repository.commit("on main")

    assert vcs.merge_base(repository.root, "main", "topic") == fork


def test_unrelated_branches_do_not_meet(repository: Repository) -> None:
    repository.git("checkout", "--quiet", "--orphan", "other")
    repository.commit()

    assert vcs.merge_base(repository.root, "main", "other") is None


def test_first_parents_leave_out_what_was_merged(repository: Repository) -> None:
    first = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "--quiet", "-b", "topic")
    repository.commit("on topic")
    repository.git("checkout", "--quiet", "main")
    second = repository.commit("on main")
    repository.git("merge", "--quiet", "--no-ff", "--message", "merge", "topic")
    merge = repository.git("rev-parse", "HEAD")

    assert vcs.first_parents(repository.root, "main") == (merge, second, first)
    assert vcs.first_parents(repository.root, "main", limit=2) == (merge, second)


def test_a_shallow_clone_is_read_as_far_as_it_goes(repository: Repository, tmp_path: Path) -> None:
    newest = repository.commit()
    clone = tmp_path / "clone"
    subprocess.run(
        ("git", "clone", "--quiet", "--depth=1", f"file://{repository.root}", str(clone)),
        check=True,
        env=os.environ | {"GIT_CONFIG_GLOBAL": os.devnull},
    )

    assert vcs.read_revision(clone).commit == newest
    assert vcs.first_parents(clone, "HEAD") == (newest,)
    with pytest.raises(UserError, match="revision HEAD~1: not in this repository") as caught:
        vcs.resolve(clone, "HEAD~1")
    assert "--unshallow" in caught.value.hint


# --- what perfgate wrote itself -------------------------------------------------------------------


def test_a_file_that_perfgate_wrote_is_no_change_until_somebody_edits_it(
    repository: Repository,
) -> None:
    for name in ("summary.md", "kernel.py"):
        vcs.note_written(repository.write(name, "written by perfgate"))
    assert vcs.changed_files(repository.root) == ()
    assert dirty(repository) == ""

    repository.write("summary.md", "edited")
    assert vcs.changed_files(repository.root / ".perfgate") == ("summary.md",)


def test_a_store_is_no_change_however_it_grows(repository: Repository) -> None:
    store = repository.root / "deep" / "history.db"
    connect(str(store)).close()
    vcs.note_written(store, store=True)
    repository.write("deep/history.db-wal", "anything")
    with store.open("ab") as file:
        file.write(b"more")
    assert dirty(repository) == ""

    store.write_text("not a database any more")
    assert vcs.changed_files(repository.root) == ("deep/history.db",)


@pytest.mark.parametrize("record", ["", "[]", '{"new.py": 3}', "\xff"])
def test_a_record_that_cannot_be_read_exempts_nothing(record: str, repository: Repository) -> None:
    repository.write(".perfgate/written", record)
    repository.write("new.py", "")

    assert vcs.changed_files(repository.root) == ("new.py",)


def test_outside_a_repository_nothing_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "summary.md").write_text("")
    vcs.note_written(tmp_path / "summary.md")
    vcs.note_written(tmp_path / "missing" / "summary.md")

    assert [path.name for path in tmp_path.iterdir()] == ["summary.md"]
    assert vcs.changed_files(tmp_path) == ()
