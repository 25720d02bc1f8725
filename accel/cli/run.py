"""`accel run`: load a kernel, record it, simulate it, and say what came of it."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from accel.accuracy import accuracy_of
from accel.chip import Chip, chip_named
from accel.cli.arguments import parse_grid, random_arrays, ready_kernel
from accel.cli.measured import compared, measured_lines, read_measured
from accel.cli.outputs import output_warnings
from accel.cli.status import status_line
from accel.errors import UserError
from accel.isa.row import Array
from accel.nki.jit import evaluate, evaluate_ranks, trace
from accel.nki.versions import check_program
from accel.program import Kind, Memory, Program
from accel.program_text import format_program
from accel.sim import PROFILE_OF_FORM, Metrics, Simulation, simulate, write_perfetto
from accel.sim.lowering import rules_of
from accel.sim.numerics import numerics_of
from accel.sim.wide import values_for

_ENGINES = ("tensor", "vector", "scalar", "gpsimd")


@dataclass(frozen=True, slots=True)
class Request:
    """The options of `accel run`."""

    target: str
    chip: str
    inputs: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    grid: str = ""
    values: bool = False
    seed: int = 0
    ranks: int = 1
    rank: int = 0
    trace: Path | None = None
    program: Path | None = None
    measured: Path | None = None
    compiler: str = "auto"
    nki: str = ""
    strict: bool = False
    fp32_matmul: str = "exact"
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """An array that the kernel returned. Where it holds a NaN, so do the three numbers."""

    shape: tuple[int, ...]
    dtype: str
    minimum: float
    maximum: float
    mean: float

    def as_dict(self) -> dict[str, object]:
        """For JSON, which has no NaN and no infinity: they become null."""
        record = dataclasses.asdict(self)
        for name in ("minimum", "maximum", "mean"):
            record[name] = record[name] if math.isfinite(record[name]) else None
        return record

    def __str__(self) -> str:
        return (
            f"{'x'.join(map(str, self.shape))} {self.dtype}, from {self.minimum:.6g} to "
            f"{self.maximum:.6g}, mean {self.mean:.6g}"
        )


@dataclass(frozen=True, slots=True)
class Recorded:
    """A kernel's program, with the values' side of it where there is one. `compiler` is the profile
    to assume.
    """

    program: Program
    compiler: str
    warnings: tuple[str, ...] = ()
    uninitialised: tuple[str, ...] = ()
    results: tuple[Result, ...] = ()


def run_kernel(request: Request) -> None:
    """Carries out one request and prints what came of it."""
    measured = read_measured(request.measured) if request.measured is not None else {}
    chip, recorded, simulation = simulated(request)
    rows = compared(measured, simulation.metrics, request.measured) if request.measured else []
    if request.program is not None:
        request.program.write_text(format_program(recorded.program), encoding="utf-8")
    if request.trace is not None:
        write_perfetto(simulation.trace, request.trace)
    if request.as_json:
        record = _as_json(request, recorded, simulation)
        if rows:
            record["measured"] = [dataclasses.asdict(row) for row in rows]
        print(json.dumps(record, indent=2, allow_nan=False))
        return
    told = [*_lines(chip, recorded, simulation), *_files(request)]
    print("\n".join([*told, *measured_lines(rows)] if rows else told))
    unwritten = recorded.uninitialised if request.values else simulation.unwritten
    for note in (*simulation.warnings, *recorded.warnings, *unwritten):
        print(f"warning: {note}", file=sys.stderr)


def simulated(request: Request) -> tuple[Chip, Recorded, Simulation]:
    """The chip of a request, the kernel's program, and its simulation there."""
    chip = chip_named(request.chip)
    _check_paths(request.trace, request.program)
    if request.ranks > 1 and not request.values:
        raise UserError(
            f"--ranks {request.ranks} without --values", "shapes alone record one rank: --rank N"
        )
    if request.compiler != "auto":
        rules_of(request.compiler)  # refuses an unknown one before the work
    line = status_line()
    # What the kernel prints is not a result of this command: stdout stays readable by machines.
    with line.beside_output(), line.doing(f"recording {request.target}"):
        recorded = _record(request, chip)
    if len(recorded.program) == 0:
        raise UserError(
            f"kernel {recorded.program.name} has no instructions",
            "there is nothing to time: check the arguments that choose what it does",
        )
    _check_hbm(recorded.program, chip)
    told = f"simulating {recorded.program.name} (the first run compiles the simulator)"
    with line.doing(told):
        simulation = simulate(recorded.program, chip, recorded.compiler)
    return chip, recorded, simulation


def _check_paths(*paths: Path | None) -> None:
    """Fails before the work rather than after it, and before the first of two files is written."""
    for path in paths:
        if path is None:
            continue
        folder = path.absolute().parent
        if not folder.is_dir():
            raise UserError(f"no folder {folder}", f"create it, or change {path}")
        if path.is_dir():
            raise UserError(f"{path} is a folder", "give the name of a file to write")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise UserError(f"{path} cannot be written", "choose a writable file")


def _record(request: Request, chip: Chip) -> Recorded:
    grid = parse_grid(request.grid)
    numerics = numerics_of(os.environ, request.fp32_matmul)
    kernel, arguments = ready_kernel(
        request.target, request.inputs, request.args, request.nki, request.strict
    )
    compiler = request.compiler
    if compiler == "auto":
        compiler = PROFILE_OF_FORM[kernel.dialect.name]
    if not request.values:
        program = trace(kernel, arguments, chip, grid, rank=request.rank)
        check_program(program, request.nki)
        return Recorded(program, compiler, tuple(output_warnings(program)))
    if request.rank >= request.ranks:
        raise UserError(
            f"--rank {request.rank} is not among the {request.ranks} of --ranks",
            f"ranks count from 0: --ranks {request.rank + 1} or more",
        )
    arrays = [random_arrays(arguments, request.seed + rank) for rank in range(request.ranks)]
    if request.ranks == 1:
        evaluation = evaluate(kernel, arrays[0], chip, grid, values_for(numerics))
    else:
        evaluation = evaluate_ranks(kernel, arrays, chip, grid, numerics)[request.rank]
    check_program(evaluation.program, request.nki)
    return Recorded(
        evaluation.program,
        compiler,
        tuple(output_warnings(evaluation.program)),
        tuple(map(str, evaluation.uninitialised)),
        tuple(map(_result, _arrays(evaluation.result))),
    )


def _check_hbm(program: Program, chip: Chip) -> None:
    needed = sum(s.total_bytes for s in program.storages if s.memory is Memory.HBM)
    if needed > chip.hbm_bytes * chip.cores:
        raise UserError(
            f"kernel {program.name} needs {size_text(needed)} of HBM, "
            f"{chip.name} has {size_text(chip.hbm_bytes * chip.cores)}",
            "make the shapes smaller",
        )


def _arrays(value: object) -> Iterator[Array]:
    """The arrays in what a kernel returned, whatever they are nested in."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _arrays(item)


def _result(array: Array) -> Result:
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        moments = (float(wide.min()), float(wide.max()), float(wide.mean()))
    return Result(array.shape, str(array.dtype), *moments)


def _lines(chip: Chip, recorded: Recorded, simulation: Simulation) -> Iterable[str]:
    metrics = simulation.metrics
    yield headline(chip, recorded, simulation)
    yield ""
    for label, value in _rows(metrics):
        yield f"  {label:<22}{value}"
    for result in recorded.results:
        yield f"  {'result':<22}{result}"
    yield f"  {'compiler profile':<22}{recorded.compiler}"
    yield f"  {'timing model':<22}{accuracy_of(chip.name)}"


def headline(chip: Chip, recorded: Recorded, simulation: Simulation) -> str:
    """Kernel, chip, latency, and what bounds it."""
    metrics = simulation.metrics
    latency = time_text(metrics.latency_us)
    return f"{recorded.program.name} on {chip.name}: {latency}, bound by {metrics.bound_by}"


def _files(request: Request) -> Iterable[str]:
    if request.trace is not None:
        yield f"  {'timeline in':<22}{request.trace}, which ui.perfetto.dev opens"
    if request.program is not None:
        yield f"  {'instructions in':<22}{request.program}"


def _rows(metrics: Metrics) -> Iterable[tuple[str, str]]:
    yield "launched alone", time_text(metrics.launched_latency_us)
    yield "roofline bound", f"{time_text(metrics.roofline_us)} ({_distance(metrics)} of it reached)"
    yield (
        "instructions",
        f"{metrics.instruction_count:,} ({metrics.dma_transfer_count:,} transfers)",
    )
    active = [
        f"{engine} {getattr(metrics, f'{engine}_engine_active_percent'):.1f} %"
        for engine in _ENGINES
    ]
    yield "engines active", ", ".join(active)
    yield "dma active", f"{metrics.dma_active_percent:.1f} %"
    yield (
        "mfu / mbu",
        (
            f"{metrics.mfu_estimated_percent:.1f} % of bf16 peak, "
            f"{metrics.mbu_estimated_percent:.1f} % of HBM"
        ),
    )
    yield (
        "hbm read, written",
        f"{size_text(metrics.hbm_read_bytes)}, {size_text(metrics.hbm_write_bytes)}",
    )
    yield (
        "spilled, reloaded",
        (f"{size_text(metrics.spill_save_bytes)}, {size_text(metrics.spill_reload_bytes)}"),
    )


def _distance(metrics: Metrics) -> str:
    return f"{100 * metrics.roofline_us / metrics.latency_us:.1f} %" if metrics.latency_us else "-"


def time_text(us: float) -> str:
    """Microseconds below a thousand, milliseconds from there on."""
    return f"{us / 1000:,.3f} ms" if us >= 1000 else f"{us:.3f} µs"


def size_text(count: int) -> str:
    """Bytes in the largest unit of which there is one."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            return f"{count / scale:.2f} {unit}"
    return f"{count} B"


def _as_json(request: Request, recorded: Recorded, simulation: Simulation) -> dict[str, object]:
    program = recorded.program
    outputs = [
        {"name": storage.name, "shape": list(storage.shape), "dtype": storage.dtype}
        for storage in program.storages
        if storage.kind is Kind.OUTPUT
    ]
    return {
        "kernel": program.name,
        "chip": request.chip,
        "compiler": recorded.compiler,
        "metrics": simulation.metrics.as_dict(),
        "stalls": [
            {"queue": queue, "cause": cause, "us": us}
            for queue, cause, us in simulation.metrics.stalls_us
        ],
        "timing_model": accuracy_of(request.chip),
        "outputs": outputs,
        "results": [result.as_dict() for result in recorded.results],
        "warnings": [
            *simulation.warnings,
            *recorded.warnings,
            *(() if request.values else simulation.unwritten),
        ],
        "uninitialised": list(recorded.uninitialised),
    }
