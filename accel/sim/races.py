"""Races: cores that touch the same bytes of shared HBM without having met in between.

Comes in: a program and its hazards. Goes out: one warning a pair of kernel lines and tensor. Cores
order what they do only by meeting (a barrier, an exchange, a collective); anything else that two of
them do to the same bytes, one at least writing, may happen in either order on the machine.
"""

from __future__ import annotations

import numpy as np

from accel import isa
from accel.program import Memory, Program
from accel.sim.geometry import Ints
from accel.sim.hazards import Hazards

_MEETINGS = frozenset({"core_barrier", "dma_sendrecv"})
_LOOKED_AT = 10_000  # pairs of instructions; there are few lines


def race_warnings(program: Program, hazards: Hazards) -> list[str]:
    """What two cores do to the same bytes in no certain order."""
    if program.cores < 2:
        return []
    later = np.repeat(np.arange(len(program)), np.diff(hazards.first))
    earlier = hazards.earlier
    meets = _meets(program)
    core = program.core
    apart = (core[later] != core[earlier]) & ~meets[later] & ~meets[earlier]
    later, earlier = later[apart], earlier[apart]
    met = np.ones(len(later), np.bool_)
    for cores in (core[later], core[earlier]):
        met &= _between(program, meets, cores, earlier, later)
    return _told(program, later[~met][:_LOOKED_AT], earlier[~met][:_LOOKED_AT])


def _meets(program: Program) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each instruction is one that cores take part in together."""
    forms = [form.op in _MEETINGS or isa.row(form.op).across for form in program.forms]
    return np.array(forms, np.bool_)[program.form]


def _between(
    program: Program,
    meets: np.ndarray[tuple[int], np.dtype[np.bool_]],
    cores: np.ndarray[tuple[int], np.dtype[np.int16]],
    first: Ints,
    last: Ints,
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether a core (one a pair) meets others between two instructions."""
    found = np.zeros(len(first), np.bool_)
    for core in range(program.cores):
        mine = np.flatnonzero(meets & (program.core == core))
        pairs = cores == core
        count = np.searchsorted(mine, last[pairs]) - np.searchsorted(mine, first[pairs])
        found[pairs] = count > 0
    return found


def _told(program: Program, later: Ints, earlier: Ints) -> list[str]:
    told: dict[str, None] = {}
    for after, before in zip(later.tolist(), earlier.tolist(), strict=True):
        name = _shared(program, after, before)
        if name:
            one, other = int(program.core[before]), int(program.core[after])
            told[
                f"race on {name}: core {one} at {program.place(before)} and core {other} at "
                f"{program.place(after)}, with no barrier between them"
            ] = None
    return list(told)


def _shared(program: Program, after: int, before: int) -> str:
    """The tensor that two instructions have in common, empty if it is no HBM that cores share."""
    common = {number for _, number, _ in program.operands(after)}.intersection(
        number for _, number, _ in program.operands(before)
    )
    for number in sorted(common):
        storage = program.storages[number]
        if storage.memory is Memory.HBM and storage.core < 0:
            return storage.name
    return ""
