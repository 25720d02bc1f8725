"""`neuronxcc.nki`: decorators that run a kernel of the older form, and `benchmark`.

A kernel is the same `Kernel` object as in the newer form, with the dialect below: it sees `Tile`s,
and the programs of a grid run one after another on one core, unless the grid says with `nl.nc` how
they are spread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import overload

from accel.nki import jit as running
from accel.nki.jit import Dialect, Kernel, default_chip
from accel.nki.legacy.grid import core_of
from accel.nki.legacy.session import recording_session, session
from accel.nki.legacy.tile import Tile
from accel.nki.tensor import Tensor


def _unwrap(value: object) -> Tensor | None:
    return value.tensor if isinstance(value, Tile) else None


def _settle() -> None:
    session().flush()


DIALECT = Dialect("neuronxcc", Tile, _unwrap, recording_session, core_of, _settle)

Function = Callable[..., object]
Decorator = Callable[[Function], Kernel]


@overload
def jit(func: Function, mode: str = "auto", **options: object) -> Kernel: ...
@overload
def jit(func: None = None, mode: str = "auto", **options: object) -> Decorator: ...


def jit(func: Function | None = None, mode: str = "auto", **options: object) -> Kernel | Decorator:
    """The decorator `@nki.jit`, with or without arguments; options are accepted and unused."""
    return _kernel if func is None else _kernel(func)


def _kernel(func: Function) -> Kernel:
    return func if isinstance(func, Kernel) else Kernel(func, dialect=DIALECT)


def baremetal(kernel: Function | None = None, **options: object) -> Kernel | Decorator:
    """The kernel as a function of arrays; no files are saved."""
    return jit(kernel)


profile = baremetal
trace = jit


def simulate_kernel(kernel: Function, *args: object, **kwargs: object) -> object:
    """Runs a kernel on arrays and returns arrays."""
    return _kernel(kernel)(*args, **kwargs)


@dataclass(frozen=True, slots=True)
class Latency:
    """Predicted latency; a simulation has no spread, so every percentile is the same."""

    microseconds: float

    def get_latency_percentile(self, percentile: int) -> float:
        """Microseconds."""
        return self.microseconds


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """What `benchmark` measured."""

    nc_latency: Latency


PROFILE = "neuronxcc"
"""Kernels of this form were measured as that compiler rewrites them."""


class Benchmark:
    """A kernel that is timed by the simulator when called; it computes and returns nothing."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.benchmark_result: BenchmarkResult | None = None

    def __getitem__(self, grid: int | tuple[int, ...]) -> Benchmark:
        return Benchmark(self.kernel[grid])

    def __call__(self, *args: object, **kwargs: object) -> None:
        from accel.sim import simulate  # compiles the scheduler, which only a benchmark needs

        chip = default_chip()
        program = running.trace(self.kernel, self.kernel.bind(args, kwargs), chip)
        simulation = simulate(program, chip, PROFILE)
        self.benchmark_result = BenchmarkResult(Latency(simulation.metrics.latency_us))


def benchmark(
    kernel: Function | None = None, **options: object
) -> Benchmark | Callable[[Function], Benchmark]:
    """Predicts the latency instead of measuring it; `warmup`, `iters` and file names are unused."""
    return _benchmark if kernel is None else _benchmark(kernel)


def _benchmark(kernel: Function) -> Benchmark:
    return Benchmark(_kernel(kernel))
