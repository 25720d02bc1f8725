"""Reads a git repository through the `git` program, with fixed argument lists.

Works in shallow clones, and without git or outside a repository as far as each function says.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from perfgate.errors import UserError
from perfgate.model import Revision
from perfgate.written import note, without_own

# Untracked folders that running benchmarks makes; they do not make a tree dirty.
_BY_PRODUCTS = frozenset({".perfgate", ".benchmarks", ".pytest_cache", "__pycache__"})

# Whatever the user configured, the output is the one that is parsed here.
_FIXED = ("-c", "log.showSignature=false", "-c", "core.fsmonitor=false")

_NO_GIT = 127
_CHUNK_BYTES = 1 << 20


def read_revision(directory: Path) -> Revision:
    """The revision of the working tree that holds `directory`.

    `dirty` digests what `changed_files` lists. The commit is "" outside a repository, without git
    and before the first commit. Raises `UserError` for a repository that git refuses to read.
    """
    root = _root(directory)
    if root is None:
        return Revision("")
    log = _git(root, "log", "-1", "--encoding=UTF-8", "--format=%H%x00%an%x00%ct%x00%s", "HEAD")
    if log.returncode:
        return Revision("")
    commit, author, seconds, subject = _text(log).split("\0")
    return Revision(
        commit,
        dirty=_dirty(root),
        branch=_text(_git(root, "symbolic-ref", "--quiet", "--short", "HEAD")),
        author=author,
        subject=subject,
        committed_at=datetime.fromtimestamp(int(seconds), UTC).isoformat(),
    )


def changed_files(directory: Path) -> tuple[str, ...]:
    """What makes the tree that holds `directory` differ from its commit, from the top of the tree.

    Changed tracked files and untracked ones that git does not ignore, apart from by-products of
    benchmarks and from what perfgate itself wrote.
    """
    root = _root(directory)
    return () if root is None else tuple(_changed(root))


def note_written(path: Path, *, store: bool = False) -> None:
    """Remember that perfgate wrote this file, if it lies in a working tree."""
    folder = path.absolute().parent
    if _is_by_product(str(folder)) or not folder.is_dir():
        return
    root = _root(folder)
    if root is not None:
        inside = (folder.resolve() / path.name).relative_to(root.resolve())
        note(root, inside.as_posix(), store=store)


def resolve(directory: Path, rev: str) -> str:
    """The full commit id of `rev`; a branch may be known under its name at `origin` only.

    Raises `UserError` for a revision that is not there and outside a repository.
    """
    root = _root(directory)
    if root is None:
        raise UserError(f"revision {rev}: {directory} is not in a git repository", _hint_for(root))
    for name in (rev, f"origin/{rev}"):
        if commit := _commit(root, name):
            return commit
    raise UserError(f"revision {rev}: not in this repository", _hint_for(root))


def merge_base(directory: Path, a: str, b: str) -> str | None:
    """The newest common ancestor of two revisions; None where history holds none.

    A shallow clone may have cut it off. Raises `UserError` where `resolve` does.
    """
    found = _git(directory, "merge-base", resolve(directory, a), resolve(directory, b))
    return _text(found) or None


def first_parents(directory: Path, rev: str, limit: int = 1000) -> tuple[str, ...]:
    """`rev` and its ancestors along first parents, newest first, at most `limit` commits.

    Raises `UserError` where `resolve` does.
    """
    commit = resolve(directory, rev)
    listed = _git(directory, "rev-list", "--first-parent", f"--max-count={limit}", commit)
    return tuple(_text(listed).split())


def is_shallow(directory: Path) -> bool:
    """Whether the clone that holds `directory` was made without its whole history."""
    return _text(_git(directory, "rev-parse", "--is-shallow-repository")) == "true"


def _git(directory: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = ("git", "-C", str(directory), "--no-pager", *_FIXED, *arguments)
    variables = os.environ | {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        return subprocess.run(
            command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, _NO_GIT, b"", b"git: not installed")


def _text(done: subprocess.CompletedProcess[bytes]) -> str:
    return "" if done.returncode else done.stdout.decode("utf-8", "replace").strip("\n")


def _root(directory: Path) -> Path | None:
    found = _git(directory, "rev-parse", "--show-toplevel")
    if b"dubious ownership" in found.stderr:
        raise UserError(
            f"repository {directory}: git refuses it because another user owns it",
            "git config --global --add safe.directory FOLDER",
        )
    return Path(os.fsdecode(found.stdout.rstrip(b"\n"))) if found.returncode == 0 else None


def _commit(root: Path, rev: str) -> str:
    """The commit id, or ""; `--verify` refuses what would be an option."""
    if "\0" in rev:
        return ""
    return _text(_git(root, "rev-parse", "--verify", "--quiet", f"{rev}^{{commit}}"))


def _hint_for(root: Path | None) -> str:
    if root is None:
        return "run it inside the repository, with git installed"
    if is_shallow(root):
        return "this clone is shallow: fetch the rest with `git fetch --unshallow`"
    return "see what there is with `git log`, or fetch it with `git fetch`"


def _changed(root: Path) -> list[str]:
    changed = _paths(_git(root, "diff", "HEAD", "--name-only", "--no-renames", "-z"))
    untracked = _paths(_git(root, "ls-files", "--others", "--exclude-standard", "-z"))
    new = (path for path in untracked if not _is_by_product(path))
    return sorted(without_own(root, {*changed, *new}))


def _dirty(root: Path) -> str:
    """A digest of what differs from HEAD, "" for nothing; it does not depend on diff settings."""
    paths = _changed(root)
    if not paths:
        return ""
    digest = hashlib.sha256()
    for path in paths:
        name = os.fsencode(path)
        digest.update(b"%d:%s" % (len(name), name))
        digest.update(_content_digest(root / path))
    return digest.hexdigest()[:16]


def _paths(done: subprocess.CompletedProcess[bytes]) -> Iterable[str]:
    return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]


def _is_by_product(path: str) -> bool:
    return not _BY_PRODUCTS.isdisjoint(PurePosixPath(path).parts)


def _content_digest(path: Path) -> bytes:
    if path.is_symlink():
        return _digest(b"link", [os.fsencode(os.readlink(path))])
    if path.is_dir():
        nested = read_revision(path)
        return _digest(b"repository", [nested.commit.encode(), nested.dirty.encode()])
    try:
        with path.open("rb") as file:
            kind = b"program" if os.access(path, os.X_OK) else b"file"
            return _digest(kind, iter(lambda: file.read(_CHUNK_BYTES), b""))
    except FileNotFoundError:
        return _digest(b"deleted", [])
    except PermissionError:
        return _digest(b"unreadable", [])


def _digest(kind: bytes, parts: Iterable[bytes]) -> bytes:
    digest = hashlib.sha256(kind)
    for part in parts:
        digest.update(part)
    return digest.digest()
