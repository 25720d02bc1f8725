"""The one exception a user can cause, caught once in `cli.py`.

`message` is one lower-case fragment that names the thing; `hint` says what to do about it. Both are
single lines: the command line prints `error: …` and `hint: …` and exits with 2.
"""

from __future__ import annotations


class UserError(Exception):
    """Bad input, configuration or environment; never a bug of ours."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
