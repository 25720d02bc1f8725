"""version: a digest that changes whenever a simulated time could.

A cached result is valid as long as its program, its chip and this digest are the same.
"""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

from accel.chip import Chip
from accel.program import Program

_PACKAGE = Path(__file__).parent.parent
_PARTS = ("chip.py", "instances.py", "dtypes.py", "program.py", "isa/*.py", "sim/*.py")


def _digest() -> str:
    digest = hashlib.sha256()
    for pattern in _PARTS:
        for path in sorted(_PACKAGE.glob(pattern)):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


MODEL_VERSION = _digest()


def case_digest(program: Program, chip: Chip, profile: str = "none") -> str:
    """What identifies the simulated numbers of a program on a chip.

    Names and source lines are left out: renaming a tile or moving a kernel in its file changes no
    time. A compiler profile does look at lines, so with one they are part of it.
    """
    digest = hashlib.sha256(f"{MODEL_VERSION} {profile}".encode())
    digest.update(repr(chip).encode())
    digest.update(repr(program.forms).encode())
    for storage in program.storages:
        digest.update(repr(dataclasses.replace(storage, name="")).encode())
    for array in (program.form, program.core, program.storage, program.offset):
        digest.update(array.tobytes())
    if profile != "none":
        digest.update(program.source.tobytes())
    return digest.hexdigest()[:32]
