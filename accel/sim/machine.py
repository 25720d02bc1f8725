"""Machine: what each form of a program costs on a chip, in integer picoseconds.

Comes in: a `Program` and a `Chip`. Goes out: `Costs`, one row a form: the queue it waits in, how
long that queue is taken, when the result is there, and for a DMA transfer the shape of its data.
Cycles come from the instruction table; this module turns them into time, settles engines that the
kernel left open, and knows DMA transfers and activation tables, which are no engine's cycles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from accel import isa
from accel.chip import Chip
from accel.dtypes import itemsize
from accel.errors import KernelError
from accel.isa import Cost
from accel.isa.indirect import INDEX
from accel.program import Access, Engine, Form, Layout, Memory, Mode, Program
from accel.sim.collectives import collective_ps
from accel.sim.geometry import Bytes, Ints
from accel.sim.queues import ENGINE_QUEUE, Queue

PS_PER_US = 1_000_000

# ScalarE holds one function's tables at a time. That these need none, and that every other function
# has tables of its own, is assumed: which functions share a set is not published.
TABLE_FREE = frozenset({"copy", "relu", "square", "abs", "sign"})

# Pieces of several partitions that lie together in HBM move as one up to this size: DMA-BW calls it
# near the peak, and pieces of 8 KiB in DMA overview example 1 move one by one.
_LARGEST_JOINED = 2048

# The tensor engine's array is cut into tiles of 64 rows or columns, or of 32 from NeuronCore-v3 on
# (SDK nki.isa nc_matmul): 4 × 4 squares.
_CELL_SIDE, _CELLS_IN_LINE = 32, 4
ALL_CELLS = (1 << _CELLS_IN_LINE**2) - 1

SBUF_PORT, PSUM_PORT = 1, 2

_SHARES = 128  # at most, that a transfer between HBM tensors is cut into

# DMA transpose runs at most at this share of the copy rate (ARCH3), as (numerator, denominator).
_TRANSPOSE_FROM_HBM = (9, 10)
_TRANSPOSE_ON_CHIP = (1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """One row a form; times in ps.

    `issue`: the queue can start its next instruction so much later. `latency`: the result is there
    so much later (DMA: after its data has moved). `table`: activation table set, 0 for none.
    `rows`: of the tensor engine's array that are in use, 0 on other engines. `cells`: the squares
    of the array that it takes, a bit each; matmuls on different squares run at the same time.
    `ports`: those it holds that engines share, a bit each (`SBUF_PORT`, `PSUM_PORT`).
    `dma_work`: time a DMA engine spends on one partition of the transfer; `dma_partitions` of them,
    starting at the physical partition of operand `dma_operand` (−1: the transfer touches no
    on-chip memory and is spread evenly). Bytes count HBM only.
    """

    queue: Bytes
    issue: Ints
    latency: Ints
    table: Ints
    rows: Ints
    cells: Ints
    ports: Ints
    dma_work: Ints
    dma_partitions: Ints
    dma_operand: Ints
    read_bytes: Ints
    write_bytes: Ints
    flops: Ints
    hardware_flops: Ints
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Transfer:
    """The data of a DMA form: `elements` contiguous pieces of `element_bytes` a partition.

    `joined`: so many partitions of one piece each are one piece in HBM.
    """

    partitions: int
    elements: int
    element_bytes: int
    joined: int
    operand: int
    queue: Queue


def to_ps(cycles: int, mhz: int) -> int:
    """Cycles of a clock as picoseconds, rounded to the nearest."""
    return (cycles * PS_PER_US + mhz // 2) // mhz


def clock_mhz(chip: Chip, engine: Engine) -> int:
    """The engine's clock."""
    mhz = {
        Engine.TENSOR: chip.tensor_mhz,
        Engine.VECTOR: chip.vector_mhz,
        Engine.SCALAR: chip.scalar_mhz,
        Engine.GPSIMD: chip.gpsimd_mhz,
    }
    return mhz.get(engine, chip.sync_mhz)


def costs_of(program: Program, chip: Chip) -> Costs:
    """The cost of every form of a program."""
    names: dict[str, int] = {"": 0}
    table = [_form_cost(form, chip, names, program.cores) for form in program.forms]
    column = np.ascontiguousarray(np.array(table, np.int64).reshape(-1, 14).T)
    return Costs(
        queue=column[0].astype(np.int8),
        issue=column[1],
        latency=column[2],
        table=column[3],
        rows=column[4],
        cells=column[5],
        ports=column[6],
        dma_work=column[7],
        dma_partitions=column[8],
        dma_operand=column[9],
        read_bytes=column[10],
        write_bytes=column[11],
        flops=column[12],
        hardware_flops=column[13],
        tables=tuple(names),
    )


def _form_cost(form: Form, chip: Chip, tables: dict[str, int], cores: int) -> tuple[int, ...]:
    row = isa.row(form.op)
    if is_dma(form):
        return _dma_cost(form, chip)
    if row.across:
        time = collective_ps(form, chip, cores)
        return Queue.COLLECTIVE, time, time, 0, 0, 0, 0, 0, 0, -1, *hbm_bytes(form), 0, 0
    engine = engine_of(form, chip)
    cost = row.cost(form, chip, engine)
    mhz = clock_mhz(chip, engine)
    issue, latency = _merged(form, cost, mhz)
    function = str(form.attribute("func", "")) if engine is Engine.SCALAR else ""
    name = "" if function in TABLE_FREE else function
    table = tables.setdefault(name, len(tables))
    hardware = matmul_flops(form) if engine is Engine.TENSOR else 0
    queue = ENGINE_QUEUE[engine]
    rows, cells = _array_use(form) if engine is Engine.TENSOR else (0, 0)
    ports = _ports(form, engine) if chip.shared_ports else 0
    flops = row.flops(form)
    return queue, issue, latency, table, rows, cells, ports, 0, 0, -1, 0, 0, flops, hardware


def _array_use(form: Form) -> tuple[int, int]:
    """What a tensor-engine instruction uses of the array: rows, which are the partitions it
    contracts, and squares, a bit each.
    """
    rows = max(a.layout.partitions for a in form.accesses if a.mode is Mode.READ)
    position, size = form.attribute("tile_position", ()), form.attribute("tile_size", ())
    if not position or not isinstance(position, tuple) or not isinstance(size, tuple):
        return rows, ALL_CELLS
    (top, left), (height, width) = position, size
    down, across = (
        range(first // _CELL_SIDE, (first + extent) // _CELL_SIDE)
        for first, extent in ((top, height), (left, width))
    )
    cells = sum(1 << (_CELLS_IN_LINE * r + c) for r in down for c in across)
    return rows, cells


def _ports(form: Form, engine: Engine) -> int:
    """The shared ports that an instruction holds."""
    memories = {access.layout.memory for access in form.accesses}
    port = 0
    if Memory.SBUF in memories and engine in (Engine.VECTOR, Engine.GPSIMD):
        port |= SBUF_PORT
    if Memory.PSUM in memories and engine in (Engine.VECTOR, Engine.SCALAR):
        port |= PSUM_PORT
    return port


def is_dma(form: Form) -> bool:
    """Whether DMA engines execute the form."""
    return form.op.startswith("dma_")


def engine_of(form: Form, chip: Chip) -> Engine:
    """The engine that executes a form: the one asked for, else the first that can."""
    able = isa.engines(form, chip)
    if not able:
        raise KernelError(f"{form.op}: no engine of {chip.name} can execute it")
    return able[0]


def matmul_flops(form: Form) -> int:
    """FLOP the tensor engine executes for a form, transposes included: 2 × K × M × N."""
    stationary, moving = form.access("stationary"), form.access("moving")
    if stationary is None or moving is None:
        return sum(
            2 * access.layout.partitions**2 * access.layout.elements
            for access in form.accesses
            if access.mode is Mode.READ
        )
    contraction = moving.layout.partitions
    return 2 * contraction * stationary.layout.elements * moving.layout.elements


def _merged(form: Form, cost: Cost, mhz: int) -> tuple[int, int]:
    """Issue and latency; a form marked as merged shares its fixed cost with its neighbours.

    The compiler profile marks small tiles with `merged_share` = (own elements, elements a tile).
    """
    share = form.attribute("merged_share", ())
    issue, latency = to_ps(cost.issue, mhz), to_ps(cost.latency, mhz)
    if not isinstance(share, tuple) or not share:
        return issue, latency
    work = min(cost.issue, share[0])
    fixed = (cost.issue - work) * share[0] // share[1]
    return to_ps(work + fixed, mhz), latency


def _dma_cost(form: Form, chip: Chip) -> tuple[int, ...]:
    transfer = transfer_of(form)
    joined = min(transfer.joined, max(1, chip.partitions // chip.dma_engines))
    piece = element_ps(transfer.element_bytes * joined, chip)
    work = transfer.elements * max(chip.dma_min_element_ps, piece // joined)
    if form.op == "dma_transpose":
        share, whole = _TRANSPOSE_FROM_HBM if _touches_hbm(form) else _TRANSPOSE_ON_CHIP
        work = work * whole // share
    if form.op == "dma_compute":
        # ARCH4: half the copy rate before NeuronCore-v4; every source is moved.
        work *= len(_sources(form)) * (1 if chip.generation >= 4 else 2)
    issue = 0 if form.attribute("dge_mode", "unknown") == "none" else chip.dge_issue_ps
    read, write = hbm_bytes(form)
    return (
        transfer.queue,
        issue,
        chip.dma_latency_ps,
        0,
        0,
        0,
        0,
        work,
        transfer.partitions,
        transfer.operand,
        read,
        write,
        0,
        0,
    )


def transfer_of(form: Form) -> Transfer:
    """The pieces a DMA form moves. A piece is contiguous on both sides; one that a run in HBM joins
    over partitions costs an engine as much as a piece of the whole run (DMA overview example 2).

    The compiler profile may join small pieces: attribute `coalesced_bytes`.
    """
    source, target = _sides(form)
    element = min(_run_elements(source.layout), _run_elements(target.layout))
    width = max(itemsize(source.layout.dtype), itemsize(target.layout.dtype))
    operand, access = _on_chip_side(form)
    queue = _queue(form, target.layout.memory is Memory.HBM)
    total = math.prod(target.layout.shape)
    if access is None:
        # Between HBM tensors: as many even shares as there are partitions.
        share = -(-total // _SHARES)
        element = min(element, share)
        return Transfer(-(-total // share), -(-share // element), element * width, 1, -1, queue)
    partitions = access.layout.partitions
    own = max(1, total // partitions)
    joined = form.attribute("coalesced_bytes", 0)
    if isinstance(joined, int) and element * width < joined:
        element = min(own, joined // width)
    elements = -(-own // element)
    joined = _joined(source, target, own, element * width) if elements == 1 else 1
    return Transfer(partitions, elements, element * width, joined, operand, queue)


def _joined(source: Access, target: Access, own: int, piece_bytes: int) -> int:
    """How many partitions in a row, of `own` elements each, one run in HBM holds."""
    sides = [a.layout for a in (source, target) if a.layout.memory is Memory.HBM]
    held = min((_run_elements(side) // own for side in sides), default=1)
    return max(1, min(held, _LARGEST_JOINED // piece_bytes))


def _queue(form: Form, to_hbm: bool) -> Queue:
    if form.attribute("spill"):
        return Queue.SPILL_SAVE if to_hbm else Queue.SPILL_RELOAD
    if not _touches_hbm(form) and form.op != "dma_sendrecv":
        return Queue.DMA_MOVE
    return Queue.DMA_STORE if to_hbm else Queue.DMA_LOAD


def element_ps(element_bytes: int, chip: Chip) -> int:
    """How long one DMA engine takes for one contiguous piece."""
    small = element_bytes < chip.dma_small_element_bytes
    rate = chip.dma_small_bytes_per_us if small else chip.dma_bytes_per_us
    moving = (element_bytes * PS_PER_US + rate // 2) // rate
    return max(chip.dma_min_element_ps, chip.dma_element_overhead_ps + moving)


def hbm_bytes(form: Form) -> tuple[int, int]:
    """HBM bytes a DMA form or a collective reads and writes."""
    target = next((a for a in form.accesses if a.role == "dst"), None) or _sides(form)[1]
    return sum(map(_hbm_part, _sources(form))), _hbm_part(target)


def _sources(form: Form) -> list[Access]:
    """What a transfer moves: its read operands, without the indices that say where from."""
    return [a for a in form.accesses if a.mode is Mode.READ and not a.role.endswith(INDEX)]


def _hbm_part(access: Access) -> int:
    layout = access.layout
    if layout.memory is not Memory.HBM:
        return 0
    return math.prod(layout.shape) * itemsize(layout.dtype)


def _sides(form: Form) -> tuple[Access, Access]:
    target = next((a for a in form.accesses if a.mode is not Mode.READ), None)
    source = next((a for a in form.accesses if a.mode is Mode.READ), None)
    if source is None or target is None:
        raise KernelError(f"{form.op}: a transfer needs a source and a destination")
    return source, target


def _on_chip_side(form: Form) -> tuple[int, Access | None]:
    """The operand whose partitions spread the transfer over the DMA engines, writes first."""
    numbered = [(i, a) for i, a in enumerate(form.accesses) if a.layout.partitions]
    if not numbered:
        return -1, None
    return min(numbered, key=lambda item: item[1].mode is Mode.READ)


def _touches_hbm(form: Form) -> bool:
    return any(access.layout.memory is Memory.HBM for access in form.accesses)


def _run_elements(layout: Layout) -> int:
    return layout.run_bytes // itemsize(layout.dtype)
