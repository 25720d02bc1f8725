"""Row: everything the stack knows about one instruction, in one place.

The verifier reads `engines`, `roles` and `rules`; the evaluator reads `meaning`; the timer reads
`cost`; the metrics read `flops`; the reference page reads all of it. Adding an instruction is one
row and one test. Rules and costs are called once a form, not once an instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.chip import Chip
from accel.program import Engine, Form, Memory, Mode

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Role:
    """One operand an instruction takes: its name, how it is touched, where it may lie.

    `every` (period, count): of each `period` partitions only the first `count` are touched.
    """

    name: str
    mode: Mode
    memories: tuple[Memory, ...]
    optional: bool = False
    every: tuple[int, int] = (1, 1)


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of the executing engine.

    `issue` is how long the engine is taken before it can start its next instruction; `latency` is
    how long until the result can be read. A DMA transfer has neither: the schedule times its data.
    """

    issue: int
    latency: int


@dataclass(frozen=True, slots=True)
class Row:
    """`engines[generation]` are the engines it may run on, the default one first.

    A rule returns None or one fragment naming operand, value and limit. `meaning(form, arrays)`
    reads and writes the operands' arrays by role: on-chip `[partitions, *counts]`, HBM `[*counts]`,
    each in its storage dtype. For an operand of mode ACCUMULATE it finds `<role>.written`, a
    boolean array of the same shape saying which elements have been written since allocation.
    `cost(form, chip, engine)` follows `source`. `attributes` are the names a form may carry.
    `suits(form, engine)`: whether the machine may pick the engine where the kernel left it open.
    `partial`: some elements of dst may stay as they were, so the meaning finds `dst.written` too
    and updates it. `registers`: the engine whose accumulators the meaning also finds, as
    `registers`, 128 float32 that keep their values from one instruction to the next. `generator`:
    the meaning also finds `random`, uint32 [128, 4, 6]: the random states of the engine's lanes.
    `gathers`: operands may take a vector of indices; `lanes`: the operands that may be views made
    by `indirect()`. `across`: ranks of a group take part, see `collective`. `fills`: the meaning
    writes every element of what it writes. `device_meaning`: the meaning with the machine's error,
    where it is less exact.
    """

    name: str
    summary: str
    engines: Mapping[int, tuple[Engine, ...]]
    roles: tuple[Role, ...]
    meaning: Callable[[Form, Mapping[str, Array]], None]
    cost: Callable[[Form, Chip, Engine], Cost]
    source: str
    attributes: tuple[str, ...] = ()
    registers: Engine | None = None
    partial: bool = False
    generator: bool = False
    gathers: bool = False
    lanes: tuple[str, ...] = ()
    across: bool = False
    fills: bool = False
    device_meaning: Callable[[Form, Mapping[str, Array]], None] | None = None
    suits: Callable[[Form, Engine], bool] = lambda form, engine: True
    rules: tuple[Callable[[Form, Chip], str | None], ...] = ()
    flops: Callable[[Form], int] = lambda form: 0


ON_CHIP = (Memory.SBUF, Memory.PSUM)
SBUF = (Memory.SBUF,)


def reads(name: str, memories: tuple[Memory, ...] = ON_CHIP, *, optional: bool = False) -> Role:
    """An operand that is read."""
    return Role(name, Mode.READ, memories, optional)


def writes(name: str, memories: tuple[Memory, ...] = ON_CHIP, *, optional: bool = False) -> Role:
    """An operand that is written."""
    return Role(name, Mode.WRITE, memories, optional)


def on(*engines: Engine, since: int = 2) -> dict[int, tuple[Engine, ...]]:
    """The same engines on every generation from `since` on, the default one first.

    NeuronCore-v1 has what v2 has, on its three engines: it has no GpSimd (SDK neuron-core-v1.rst).
    """
    found = {generation: engines for generation in (2, 3, 4) if generation >= since}
    older = tuple(engine for engine in engines if engine is not Engine.GPSIMD)
    return {1: older, **found} if since == 2 and older else found
