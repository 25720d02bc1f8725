"""lowering: what a compiler would have rewritten before the machine sees the program.

Comes in: a `Program`, as the kernel says it. Goes out: a `Program`, as a named compiler profile
would leave it. The profile `none` changes nothing and is right for the current language, whose
instructions run as written. `neuronxcc` imitates the vendor's older compiler where published
timings show its hand; `neuronxcc-tiling` adds two rules about small tiles that hold for whole
elementwise kernels but not for matmuls. Each rule can also be named alone, joined by `+`.
"""

from __future__ import annotations

from collections.abc import Callable

from accel.chip import Chip
from accel.errors import UserError
from accel.program import Program
from accel.sim.rules import balance_copies, coalesce_transfers, drop_repeats, merge_tiles

Rule = Callable[[Program, Chip], Program]

# What built a kernel of each form of the language: the older one knew only the older compiler.
PROFILE_OF_FORM = {"nki": "none", "neuronxcc": "neuronxcc"}

RULES: dict[str, Rule] = {
    "hoist": drop_repeats,
    "balance": balance_copies,
    "merge": merge_tiles,
    "coalesce": coalesce_transfers,
}

# Scheduling policies, named like rules: how many instructions at its head a queue starts any of.
LOOKAHEAD: dict[str, int] = {"interleave": 16}

PROFILES: dict[str, tuple[str, ...]] = {
    "none": (),
    "neuronxcc": ("hoist", "balance", "interleave"),
    "neuronxcc-tiling": ("hoist", "balance", "interleave", "merge", "coalesce"),
}


def rules_of(profile: str) -> tuple[str, ...]:
    """The rules of a profile, or of rule names joined by `+`; UserError for any other name."""
    if profile in PROFILES:
        return PROFILES[profile]
    names = tuple(profile.split("+"))
    known = (*RULES, *LOOKAHEAD)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UserError(
            f"unknown compiler profile {unknown[0]!r}",
            f"profiles: {', '.join(PROFILES)}; rules: {', '.join(known)}",
        )
    return names


def lookahead_of(profile: str) -> int:
    """Of how many instructions at its head a queue starts whichever can start first; 1: in order.

    The older compiler ordered independent work ahead of time; this has the same effect.
    """
    return max((LOOKAHEAD.get(name, 1) for name in rules_of(profile)), default=1)


def lower(program: Program, chip: Chip, profile: str = "none") -> Program:
    """The program after the profile's rules, in the order they are named."""
    for name in rules_of(profile):
        if name in RULES:
            program = RULES[name](program, chip)
    return program
