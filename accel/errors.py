"""The two exceptions of `accel`, one per audience.

`UserError`: bad input on the command line or in a call; caught once in `cli.py` and shown as an
`error:` line and a `hint:` line. `KernelError`: a kernel breaks a rule of the machine or of the
language; it names the operand, the value and the limit, and carries the kernel's source line.
"""

from __future__ import annotations


class UserError(Exception):
    """`message` is one lower-case fragment that names the thing; `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class KernelError(UserError):
    """A rule of the machine or language is broken, at `place` (`file.py:12`)."""

    def __init__(self, message: str, hint: str = "", place: str = "") -> None:
        super().__init__(f"{message} ({place})" if place else message, hint)
        self.place = place
