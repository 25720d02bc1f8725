"""metrics: what a trace amounts to, under the names the vendor's profiler uses.

Comes in: a trace, the costs of its forms, and which instructions placement added. Goes out: one
frozen record. Where the profiler's definition and ours differ, the field says so.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from accel.chip import Chip
from accel.program import Form
from accel.sim.geometry import Ints
from accel.sim.machine import PS_PER_US, Costs
from accel.sim.queues import FIRST_DMA_QUEUE, QUEUES_PER_CORE, Queue
from accel.sim.trace import Trace, active_ps, dma_active_ps, stalls_ps

# Below this share of the time even the busiest resource is not what the kernel waits for.
_BOUND_SHARE_PERCENT = 50.0


@dataclass(frozen=True, slots=True)
class Metrics:
    """`latency_us`: from the first instruction to the last; `launched_latency_us` has the chip's
    launch time before it, which a kernel that runs alone pays. Percentages are of `latency_us`,
    averaged over the cores. Bytes and FLOP are totals.

    `*_engine_active_percent`: time in which the engine processes at least one instruction.
    `dma_active_percent`: time in which at least one transfer is under way, from its first byte
    until its end is signalled.
    `dma_issue_percent`: time in which the busier DMA queue generates descriptors.
    `mfu_estimated_percent` counts matmul FLOP without transposes against the bf16 peak,
    `hfu_estimated_percent` with them; `mbu_estimated_percent` HBM bytes against one HBM stack.
    `mm_arithmetic_intensity`: matmul FLOP without transposes over HBM bytes; −1 without any.
    `roofline_us`: no schedule of these matmuls and HBM bytes can be faster. `bound_by`: the
    resource that is busy longest, or `dependencies` where none is busy half of the time.
    """

    latency_us: float
    launched_latency_us: float
    latency_ps: int
    roofline_us: float
    bound_by: str
    instruction_count: int
    tensor_engine_instruction_count: int
    vector_engine_instruction_count: int
    scalar_engine_instruction_count: int
    gpsimd_engine_instruction_count: int
    sync_engine_instruction_count: int
    dma_transfer_count: int
    tensor_engine_active_percent: float
    vector_engine_active_percent: float
    scalar_engine_active_percent: float
    gpsimd_engine_active_percent: float
    sync_engine_active_percent: float
    dma_active_percent: float
    dma_issue_percent: float
    mfu_estimated_percent: float
    hfu_estimated_percent: float
    mbu_estimated_percent: float
    model_flops: int
    hardware_flops: int
    transpose_flops: int
    mm_arithmetic_intensity: float
    hbm_read_bytes: int
    hbm_write_bytes: int
    spill_save_bytes: int
    spill_reload_bytes: int
    stalls_us: tuple[tuple[str, str, float], ...]

    def as_dict(self) -> dict[str, float | int | str]:
        """The scalar metrics by name."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "stalls_us"
        }


def metrics_of(trace: Trace, costs: Costs, spills: Ints, chip: Chip) -> Metrics:
    """The metrics of a trace; `spills` are the instructions that placement added."""
    total, form, cores = trace.makespan_ps, trace.program.form, trace.program.cores
    counts = np.bincount(trace.queue % QUEUES_PER_CORE, minlength=QUEUES_PER_CORE).tolist()
    active = {
        queue.name.lower(): _percent(active_ps(trace, queue), total * cores)
        for queue in Queue
        if queue < FIRST_DMA_QUEUE
    }
    dma = _percent(dma_active_ps(trace), total * cores)
    issuing = _issue_percent(trace, cores)
    read, written = int(costs.read_bytes[form].sum()), int(costs.write_bytes[form].sum())
    flops, hardware = int(costs.flops[form].sum()), int(costs.hardware_flops[form].sum())
    peak = chip.peak_flops_per_us("bfloat16") * cores
    moved = read + written
    shares = active | {"dma": _dma_percent(trace, chip), "dma_issue": issuing}
    shares["collective"] = _percent(active_ps(trace, Queue.COLLECTIVE), total * cores)
    return Metrics(
        latency_us=total / PS_PER_US,
        launched_latency_us=(total + chip.launch_ps) / PS_PER_US,
        latency_ps=total,
        roofline_us=_roofline_us(trace, costs, moved, chip),
        bound_by=_bound_by(shares),
        instruction_count=len(form),
        tensor_engine_instruction_count=counts[Queue.TENSOR],
        vector_engine_instruction_count=counts[Queue.VECTOR],
        scalar_engine_instruction_count=counts[Queue.SCALAR],
        gpsimd_engine_instruction_count=counts[Queue.GPSIMD],
        sync_engine_instruction_count=counts[Queue.SYNC],
        dma_transfer_count=sum(counts[FIRST_DMA_QUEUE : Queue.COLLECTIVE]),
        tensor_engine_active_percent=active["tensor"],
        vector_engine_active_percent=active["vector"],
        scalar_engine_active_percent=active["scalar"],
        gpsimd_engine_active_percent=active["gpsimd"],
        sync_engine_active_percent=active["sync"],
        dma_active_percent=dma,
        dma_issue_percent=issuing,
        mfu_estimated_percent=_percent(flops * PS_PER_US, peak * total),
        hfu_estimated_percent=_percent(hardware * PS_PER_US, peak * total),
        mbu_estimated_percent=_percent(
            moved * PS_PER_US, chip.hbm_stack_bytes_per_us * total * chip.stacks_of(cores)
        ),
        model_flops=flops,
        hardware_flops=hardware,
        transpose_flops=hardware - flops,
        mm_arithmetic_intensity=flops / moved if moved else -1.0,
        hbm_read_bytes=read,
        hbm_write_bytes=written,
        spill_save_bytes=int(costs.write_bytes[form[spills]].sum()),
        spill_reload_bytes=int(costs.read_bytes[form[spills]].sum()),
        stalls_us=_stalls_us(trace),
    )


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0


def _issue_percent(trace: Trace, cores: int) -> float:
    """The busier of a core's DMA queues, averaged over the cores."""
    taken = trace.times.issued - trace.times.start
    busy = np.bincount(trace.queue, weights=taken, minlength=cores * QUEUES_PER_CORE)
    by_core = busy.reshape(cores, QUEUES_PER_CORE)[:, FIRST_DMA_QUEUE : Queue.COLLECTIVE]
    return _percent(int(by_core.max(axis=1).sum()), trace.makespan_ps * cores)


def _dma_percent(trace: Trace, chip: Chip) -> float:
    """How busy the DMA engines are on average (`dma_active_percent`: whether any of them is)."""
    capacity = trace.makespan_ps * chip.dma_engines * trace.program.cores
    return _percent(int(trace.times.work.sum()), capacity)


def _bound_by(shares: dict[str, float]) -> str:
    name, share = max(shares.items(), key=lambda item: item[1])
    return name if share >= _BOUND_SHARE_PERCENT else "dependencies"


def _roofline_us(trace: Trace, costs: Costs, moved: int, chip: Chip) -> float:
    """The later of: all matmuls at the peak of their dtype, all HBM bytes at full rate."""
    cores, times = (
        trace.program.cores,
        np.bincount(trace.program.form, minlength=len(trace.program.forms)),
    )
    compute = sum(
        int(times[i]) * int(costs.flops[i]) / chip.peak_flops_per_us(_matmul_dtype(form))
        for i, form in enumerate(trace.program.forms)
        if costs.flops[i]
    )
    return max(compute / cores, moved / chip.moved_bytes_per_us(cores))


def _matmul_dtype(form: Form) -> str:
    moving = form.access("moving")
    return moving.layout.dtype if moving else "bfloat16"


def _stalls_us(trace: Trace) -> tuple[tuple[str, str, float], ...]:
    """(queue, cause, time) rows, the longest first; the cores of a program together."""
    totals: dict[tuple[str, str], int] = {}
    for (queue, cause), time in stalls_ps(trace).items():
        key = (Queue(queue % QUEUES_PER_CORE).name.lower(), cause)
        totals[key] = totals.get(key, 0) + time
    rows = [(queue, cause, time / PS_PER_US) for (queue, cause), time in totals.items()]
    return tuple(sorted(rows, key=lambda row: (-row[2], row)))
