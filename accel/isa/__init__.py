"""The instruction table: one `Row` an instruction, read by verifier, evaluator, timer and docs.

In the order things pass through it: `row` (the record), `values` (how numbers are read and
rounded), `operators` and `functions` (what ALUs and activation tables compute), `rules` and `check`
(what is legal), `costs` (cycles), then the rows with their numpy meanings by kind: `copies`,
`matrix`, `mx`, `elementwise`, `pipelines`, `reductions`, `patterns`, `searches`, `draws` (on
`random`), `cores`, `collective`; `indirect` says how an operand takes an index.
"""

from __future__ import annotations

from accel.chip import Chip
from accel.errors import KernelError
from accel.isa import (
    collective,
    copies,
    cores,
    draws,
    elementwise,
    matrix,
    mx,
    patterns,
    pipelines,
    reductions,
    searches,
)
from accel.isa.check import able_engines, check_form, is_engine_work, legal_start
from accel.isa.functions import FUNCTIONS
from accel.isa.operators import OPERATORS
from accel.isa.row import Cost, Role, Row
from accel.program import Engine, Form

__all__ = [
    "FUNCTIONS",
    "ISA",
    "OPERATORS",
    "Cost",
    "Role",
    "Row",
    "check",
    "engines",
    "is_engine_work",
    "legal_start",
    "row",
]

_FAMILIES = (
    copies,
    matrix,
    mx,
    elementwise,
    pipelines,
    reductions,
    patterns,
    searches,
    draws,
    cores,
    collective,
)

ISA: dict[str, Row] = {entry.name: entry for family in _FAMILIES for entry in family.ROWS}


def row(name: str) -> Row:
    """The row of an instruction; KernelError for one that is not in the table."""
    entry = ISA.get(name)
    if entry is None:
        raise KernelError(f"unknown instruction {name!r}", f"known: {', '.join(sorted(ISA))}")
    return entry


def check(form: Form, chip: Chip, place: str = "") -> None:
    """KernelError naming operand, value and limit if `form` is not legal on `chip`."""
    check_form(row(form.op), form, chip, place)


def engines(form: Form, chip: Chip) -> tuple[Engine, ...]:
    """The engines that may run `form` on `chip`: the one asked for, or all, the default first."""
    if form.engine is not Engine.ANY:
        return (form.engine,)
    return able_engines(row(form.op), form, chip)
