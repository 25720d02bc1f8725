"""simulation: program and chip in, time out; the one function that runs every stage."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from accel.chip import Chip
from accel.errors import UserError
from accel.program import Program
from accel.sim.geometry import Ints, Shorts
from accel.sim.hazards import Hazards, hazards_of, no_hazards
from accel.sim.lowering import lookahead_of, lower
from accel.sim.machine import Costs, costs_of
from accel.sim.memory import Placed, addressed, place, unplaced
from accel.sim.metrics import Metrics, metrics_of
from accel.sim.queues import QUEUES_PER_CORE
from accel.sim.races import race_warnings
from accel.sim.schedule import schedule
from accel.sim.trace import Trace

# What can be left out of the model to see what it is worth.
ABLATIONS = (
    "hazards",
    "capacity",
    "dma_element_overhead",
    "dma_latency",
    "dge_issue",
    "engine_overhead",
    "activation_table",
    "tensor_limit",
    "semaphore",
    "shared_ports",
    "dma_engine_step",
    "hbm_share",
)

_WARNINGS_SHOWN = 5


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """What a program does on a chip. `placed.program` is what ran: lowered, with spills.

    `unwritten`: a warning a region that is read and never written; values tell it by element.
    """

    trace: Trace
    metrics: Metrics
    warnings: tuple[str, ...]
    unwritten: tuple[str, ...]
    placed: Placed

    @property
    def program(self) -> Program:
        """The program that ran, with every address."""
        return addressed(self.placed)


def simulate(
    program: Program,
    chip: Chip,
    profile: str = "none",
    ablate: frozenset[str] = frozenset(),
) -> Simulation:
    """Predicts when each instruction of `program` runs on `chip`.

    `profile` names the compiler whose rewriting is imitated, `ablate` the effects to leave out.
    UserError for an unknown name, KernelError for a program the machine has no room for.
    """
    chip = chip_without(chip, ablate)
    lowered, ahead = lower(program, chip, profile), lookahead_of(profile)
    placed = unplaced(lowered) if "capacity" in ablate else place(lowered, chip)
    costs = costs_of(placed.program, chip)
    queue = _queues(placed.program, costs)
    hazards = no_hazards(placed.program)
    if "hazards" not in ablate:
        taken = (placed.taken_first, placed.taken)
        hazards = hazards_of(placed.program, placed.stores, placed.boxes, queue, taken, ahead)
    partition = _partitions(placed, costs)
    times = schedule(placed.program, queue, costs, partition, hazards, chip, ahead)
    trace = Trace(placed.program, chip.name, queue, times)
    metrics = metrics_of(trace, costs, placed.spills, chip)
    warnings = placed.warnings + _shown(race_warnings(placed.program, hazards), "races")
    return Simulation(trace, metrics, warnings, _unwritten_warnings(placed, hazards), placed)


def chip_without(chip: Chip, ablate: frozenset[str]) -> Chip:
    """The chip without the effects that are numbers of it; UserError for an unknown effect."""
    unknown = sorted(ablate.difference(ABLATIONS))
    if unknown:
        raise UserError(f"unknown ablation {unknown[0]!r}", f"known: {', '.join(ABLATIONS)}")

    def kept(effect: str, value: int) -> int:
        return 0 if effect in ablate else value

    faster = 1_000_000 if "hbm_share" in ablate else 1
    return dataclasses.replace(
        chip,
        hbm_bytes_per_us=chip.hbm_bytes_per_us * faster,
        hbm_stack_bytes_per_us=chip.hbm_stack_bytes_per_us * faster,
        dma_element_overhead_ps=kept("dma_element_overhead", chip.dma_element_overhead_ps),
        dma_min_element_ps=kept("dma_element_overhead", chip.dma_min_element_ps),
        dma_latency_ps=kept("dma_latency", chip.dma_latency_ps),
        dge_issue_ps=kept("dge_issue", chip.dge_issue_ps),
        vector_overhead_cycles=kept("engine_overhead", chip.vector_overhead_cycles),
        vector_latency_cycles=kept("engine_overhead", chip.vector_latency_cycles),
        scalar_overhead_cycles=kept("engine_overhead", chip.scalar_overhead_cycles),
        scalar_latency_cycles=kept("engine_overhead", chip.scalar_latency_cycles),
        tensor_limit_window_ps=kept("tensor_limit", chip.tensor_limit_window_ps),
        shared_ports=kept("shared_ports", chip.shared_ports),
        semaphore_ps=kept("semaphore", chip.semaphore_ps),
        dma_engine_step_ps=kept("dma_engine_step", chip.dma_engine_step_ps),
        activation_table_load_ps=kept("activation_table", chip.activation_table_load_ps),
    )


def _queues(program: Program, costs: Costs) -> Shorts:
    """The queue of each instruction, over all cores."""
    core = program.core.astype(np.int16)
    return core * np.int16(QUEUES_PER_CORE) + costs.queue[program.form]


def _partitions(placed: Placed, costs: Costs) -> Ints:
    """The first physical partition of each transfer, 0 for what has none."""
    program, stores = placed.program, placed.stores
    operand = costs.dma_operand[program.form]
    result = np.zeros(len(program), np.int64)
    dma = np.flatnonzero(operand >= 0)
    at = program.first_operand[dma] + operand[dma]
    storage = program.storage[at]
    row = program.offset[at] // np.maximum(1, stores.partition_bytes[storage])
    result[dma] = stores.start_partition[storage] + row
    return result


def _unwritten_warnings(placed: Placed, hazards: Hazards) -> tuple[str, ...]:
    """One warning a kernel line and storage that reads what was never written."""
    program = placed.program
    instruction = placed.boxes.instruction[hazards.unwritten]
    own = ~np.isin(instruction, placed.spills)
    rows: dict[tuple[str, str], int] = {}
    pairs = zip(instruction[own].tolist(), hazards.unwritten[own].tolist(), strict=True)
    for index, operand in pairs:
        name = program.storages[program.storage[operand]].name
        rows[program.place(index), name] = rows.get((program.place(index), name), 0) + 1
    told = [
        f"{place}: {name}: reads a region that was never written ({times} instructions)"
        for (place, name), times in rows.items()
    ]
    return _shown(told, "reads of regions never written")


def _shown(told: list[str], what: str) -> tuple[str, ...]:
    """The first few warnings, and how many more there are."""
    more = len(told) - _WARNINGS_SHOWN
    return (*told[:_WARNINGS_SHOWN], f"{more} more {what}") if more > 0 else tuple(told)
