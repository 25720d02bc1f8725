"""`accel run`: load a kernel, record it, simulate it, and say what came of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from accel.chip import ACCURACY, Chip, chip_named
from accel.cli.arguments import kernel_arguments, parse_grid, random_arrays
from accel.errors import UserError
from accel.nki.jit import evaluate, trace
from accel.nki.load import load_kernel
from accel.program import Kind, Program
from accel.program_text import format_program
from accel.sim import PROFILE_OF_FORM, Metrics, Simulation, simulate, write_perfetto

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
    trace: Path | None = None
    program: Path | None = None
    compiler: str = "auto"
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """A kernel's program, with the values' side of it where there is one. `compiler` is the profile
    to assume.
    """

    program: Program
    compiler: str
    uninitialised: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


def run_kernel(request: Request) -> None:
    """Carries out one request and prints what came of it."""
    chip = chip_named(request.chip)
    _check_folders(request.trace, request.program)
    recorded = _record(request, chip)
    if len(recorded.program) == 0:
        raise UserError(f"kernel {recorded.program.name} has no instructions")
    simulation = simulate(recorded.program, chip, recorded.compiler)
    if request.program is not None:
        request.program.write_text(format_program(recorded.program), encoding="utf-8")
    if request.trace is not None:
        write_perfetto(simulation.trace, request.trace)
    if request.as_json:
        print(json.dumps(_as_json(request, recorded, simulation), indent=2))
        return
    print("\n".join(_lines(chip, recorded, simulation)))
    for note in (*simulation.warnings, *recorded.uninitialised):
        print(f"warning: {note}", file=sys.stderr)


def _check_folders(*paths: Path | None) -> None:
    """Fails before the work rather than after it."""
    for path in paths:
        if path is not None and not path.absolute().parent.is_dir():
            raise UserError(f"no folder {path.absolute().parent}", f"create it, or change {path}")


def _record(request: Request, chip: Chip) -> Recorded:
    kernel = load_kernel(request.target)
    grid = parse_grid(request.grid)
    arguments = kernel_arguments(kernel, request.inputs, request.args)
    compiler = request.compiler
    if compiler == "auto":
        compiler = PROFILE_OF_FORM[kernel.dialect.name]
    if not request.values:
        return Recorded(trace(kernel, arguments, chip, grid), compiler)
    evaluation = evaluate(kernel, random_arrays(arguments, request.seed), chip, grid)
    return Recorded(
        evaluation.program,
        compiler,
        tuple(map(str, evaluation.uninitialised)),
        tuple(_described_results(evaluation.result)),
    )


def _described_results(result: object) -> Iterable[str]:
    """One line an array that the kernel returned."""
    leaves = result if isinstance(result, (list, tuple)) else [result]
    for leaf in leaves:
        if isinstance(leaf, np.ndarray):
            wide = leaf.astype(np.float64)
            shape = "x".join(map(str, leaf.shape))
            yield (
                f"{shape} {leaf.dtype}, from {wide.min():.6g} to {wide.max():.6g}, "
                f"mean {wide.mean():.6g}"
            )


def _lines(chip: Chip, recorded: Recorded, simulation: Simulation) -> Iterable[str]:
    program, metrics = recorded.program, simulation.metrics
    yield f"{program.name} on {chip.name}: {_time(metrics.latency_us)}, bound by {metrics.bound_by}"
    yield ""
    for label, value in _rows(metrics):
        yield f"  {label:<22}{value}"
    for result in recorded.results:
        yield f"  {'result':<22}{result}"
    yield f"  {'compiler profile':<22}{recorded.compiler}"
    yield f"  {'timing model':<22}{ACCURACY[chip.name]}"


def _rows(metrics: Metrics) -> Iterable[tuple[str, str]]:
    yield "launched alone", _time(metrics.launched_latency_us)
    yield "roofline bound", f"{_time(metrics.roofline_us)} ({_distance(metrics)} of it reached)"
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
    yield "hbm read, written", f"{_size(metrics.hbm_read_bytes)}, {_size(metrics.hbm_write_bytes)}"
    yield (
        "spilled, reloaded",
        (f"{_size(metrics.spill_save_bytes)}, {_size(metrics.spill_reload_bytes)}"),
    )


def _distance(metrics: Metrics) -> str:
    return f"{100 * metrics.roofline_us / metrics.latency_us:.1f} %" if metrics.latency_us else "-"


def _time(us: float) -> str:
    return f"{us / 1000:.3f} ms" if us >= 1000 else f"{us:.3f} µs"


def _size(count: int) -> str:
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
        "outputs": outputs,
        "warnings": list(simulation.warnings),
        "uninitialised": list(recorded.uninitialised),
    }
