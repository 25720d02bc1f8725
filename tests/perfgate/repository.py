"""A git repository for tests, made by the real git without the user's configuration."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path


class Repository:
    """A new repository with `main` checked out; commit times are one minute apart."""

    def __init__(self, root: Path, minute: int | None = None) -> None:
        self.root = root
        self._minute = minute or 0
        root.mkdir(parents=True, exist_ok=True)
        if minute is None:
            self.git("init", "--quiet", "--initial-branch=main")

    def copy(self, root: Path) -> Repository:
        """The same repository at another place, which is quicker than making it again."""
        shutil.copytree(self.root, root, symlinks=True)
        return Repository(root, self._minute)

    def git(self, *arguments: str) -> str:
        """What git prints; a failure is an error."""
        when = f"2025-01-01T12:{self._minute:02}:00 +0200"
        variables = os.environ | {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Ada Ünal",
            "GIT_AUTHOR_EMAIL": "ada@example.org",
            "GIT_AUTHOR_DATE": when,
            "GIT_COMMITTER_NAME": "Ada Ünal",
            "GIT_COMMITTER_EMAIL": "ada@example.org",
            "GIT_COMMITTER_DATE": when,
        }
        done = subprocess.run(
            ("git", *arguments), cwd=self.root, env=variables, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    def write(self, name: str, text: str) -> Path:
        """A file of the working tree."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def commit(self, subject: str = "a change") -> str:
        """Commit everything that is not ignored, or nothing; the commit id."""
        self._minute += 1
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", subject)
        return self.git("rev-parse", "HEAD")
