"""What a benchmark author writes: `@benchmark(...)` over a function, and what the function returns.

The decorator attaches one frozen `Benchmark` to the function and gives the function back, so it
stays an ordinary function for tests and for other code. `cases_of` expands it into `Case`s, one per
set of parameters. Everything that can be wrong in a declaration is found here, when the suite is
imported, and not when the case runs.
"""

from __future__ import annotations

import inspect
import itertools
import math
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from perfgate.caseid import ParameterValue, format_case_id
from perfgate.errors import UserError
from perfgate.model import Metric, MetricKind, ProfileNode, Span

F = TypeVar("F", bound=Callable[..., object])

ParameterSet = tuple[tuple[str, ParameterValue], ...]
Parameters = Mapping[str, Sequence[ParameterValue]] | Sequence[Mapping[str, ParameterValue]]

WALL_TIME = Metric("time_s", "s")

_MARK = "__perfgate_benchmark__"

_HOW_TO_DECLARE = 'declare it: metrics=[Metric("steps", "1", kind=MetricKind.EXACT)]'


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one call of a benchmark function may return instead of a bare mapping."""

    metrics: Mapping[str, float]
    profile: ProfileNode | None = None
    timeline: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Rounds:
    """How a sampled case repeats: in fresh processes one after another, each giving one value.

    Where a process lands in memory and which core it gets can change its speed by more than a
    regression worth catching, and every round in it by the same, so the value stored of a process
    is the median of its rounds. `budget_s` and the two limits on rounds hold for all `processes`
    together, start and set-up of a process come on top. A round of a timed function calls it as
    often as it takes to last `min_round_s`; `warm_up` calls come first in each process and are not
    recorded.
    """

    min_rounds: int = 5
    max_rounds: int = 100
    min_round_s: float = 0.01
    budget_s: float = 1.0
    warm_up: int = 1
    processes: int = 5


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One decorated function. `name` lacks the module path, which `discover` puts in front."""

    name: str
    function: Callable[..., object]
    parameter_sets: tuple[ParameterSet, ...] = ((),)
    metrics: tuple[Metric, ...] = ()
    sampled: bool = False
    tags: tuple[str, ...] = ()
    timeout_s: float | None = None
    digest: Callable[..., str] | None = None
    rounds: Rounds = field(default=Rounds())


@dataclass(frozen=True, slots=True)
class Case:
    """One benchmark with one set of parameters, and where a worker process finds it again.

    `file` is the absolute path of the module, `suite` the absolute folder its name is relative to.
    `folders` are the absolute folders that it imports from before all others.
    """

    case_id: str
    benchmark: Benchmark
    parameters: ParameterSet
    suite: Path
    file: Path
    folders: tuple[Path, ...] = ()


def benchmark(
    *,
    params: Parameters | None = None,
    metrics: Sequence[Metric] = (),
    sampled: bool = False,
    tags: Sequence[str] = (),
    timeout_s: float | None = None,
    digest: Callable[..., str] | None = None,
    name: str | None = None,
    rounds: Rounds | None = None,
) -> Callable[[F], F]:
    """Make a function a benchmark.

    `params`: a mapping of sequences gives every combination, a sequence of mappings is taken as it
    is. Values are text, numbers or booleans, since they become part of the case id.

    An exact benchmark (the default) is called once per case and returns a mapping of metric name to
    number, or a `Measurement`, with every one of its `metrics` and no other. `digest`, called with
    the same parameters, identifies everything its numbers depend on: while it stays the same, the
    stored numbers are used.

    A sampled benchmark is called many times (`rounds`). With no `metrics` its own wall time is
    measured as `time_s`; with `metrics` each call returns a mapping. Where it returns a callable,
    the call was the set-up and the callable is what is measured.

    `timeout_s` is the wall-clock limit of one case in seconds, instead of the limit of the run.
    """

    def decorate(function: F) -> F:
        record = Benchmark(
            name=name or str(getattr(function, "__name__", "")),
            function=function,
            parameter_sets=tuple(_parameter_sets(params)),
            metrics=_declared(metrics, function) or ((WALL_TIME,) if sampled else ()),
            sampled=sampled,
            tags=tuple(tags),
            timeout_s=timeout_s,
            digest=digest,
            rounds=rounds or Rounds(),
        )
        _check(record)
        setattr(function, _MARK, record)
        return function

    return decorate


def benchmark_of(value: object) -> Benchmark | None:
    """The record that `benchmark` attached, or None for anything else."""
    record = getattr(value, _MARK, None) if inspect.isfunction(value) else None
    return record if isinstance(record, Benchmark) else None


def cases_of(record: Benchmark, prefix: str, suite: Path, file: Path) -> Iterator[Case]:
    """The cases of one benchmark whose module path is `prefix`, in the order of declaration."""
    path = f"{prefix}.{record.name}" if prefix else record.name
    for parameters in record.parameter_sets:
        case_id = format_case_id(path, dict(parameters))
        yield Case(case_id, record, parameters, suite, file)


def _declared(metrics: object, function: object) -> tuple[Metric, ...]:
    """The metrics, once it is certain that they are some: people give names, or one alone."""
    name = getattr(function, "__name__", "benchmark")
    if isinstance(metrics, Metric):
        raise UserError(f"{name}: metrics is one Metric", "put it in brackets: metrics=[...]")
    if not isinstance(metrics, Sequence) or isinstance(metrics, str):
        raise UserError(
            f"{name}: metrics is {reprlib.repr(metrics)}, needs a list of Metric", _HOW_TO_DECLARE
        )
    for metric in metrics:
        if not isinstance(metric, Metric):
            raise UserError(
                f"{name}: metrics has {reprlib.repr(metric)}, needs a Metric", _HOW_TO_DECLARE
            )
    return tuple(metrics)


def _parameter_sets(params: Parameters | None) -> Iterator[ParameterSet]:
    if params is None:
        yield ()
    elif isinstance(params, Mapping):
        for values in itertools.product(*(tuple(values) for values in params.values())):
            yield tuple(zip(params, values, strict=True))
    else:
        for chosen in params:
            yield tuple(chosen.items())


def _check(record: Benchmark) -> None:
    _check_function(record)
    _check_metrics(record)
    _check_limits(record)
    if not record.parameter_sets:
        raise UserError(f"{record.name}: params give no case", "give every parameter a value")
    for parameters in record.parameter_sets:
        _check_parameters(record, parameters)


def _check_function(record: Benchmark) -> None:
    if not inspect.isfunction(record.function):
        kind = type(record.function).__name__
        raise UserError(
            f"{record.name or 'benchmark'}: expected a function, got {kind}",
            "write `@perfgate.benchmark(...)`, with brackets, over a `def`",
        )
    if benchmark_of(record.function) is not None:
        raise UserError(f"{record.name}: decorated twice", "keep one @perfgate.benchmark")


def _check_metrics(record: Benchmark) -> None:
    wanted = MetricKind.SAMPLED if record.sampled else MetricKind.EXACT
    if not record.metrics:
        raise UserError(
            f"{record.name}: an exact benchmark declares no metric",
            "pass metrics=[Metric(...)], or sampled=True to measure wall time",
        )
    names = [metric.name for metric in record.metrics]
    if len(set(names)) != len(names):
        raise UserError(f"{record.name}: a metric is declared twice in {names}", "keep one of them")
    for metric in record.metrics:
        if metric.kind is not wanted:
            raise UserError(
                f"{record.name}: metric {metric.name} is {metric.kind}, needs {wanted}",
                f"declare it with kind=MetricKind.{wanted.name}, or in a benchmark of its own",
            )


def _check_limits(record: Benchmark) -> None:
    if record.timeout_s is not None and not 0 < record.timeout_s < math.inf:
        raise UserError(
            f"{record.name}: timeout_s is {record.timeout_s}", "give finite seconds above 0"
        )
    if record.digest is not None and record.sampled:
        raise UserError(f"{record.name}: a sampled benchmark has a digest", "remove digest=")
    rounds = record.rounds
    if not 1 <= rounds.min_rounds <= rounds.max_rounds or rounds.warm_up < 0:
        raise UserError(
            f"{record.name}: min_rounds={rounds.min_rounds}, max_rounds={rounds.max_rounds}, "
            f"warm_up={rounds.warm_up}",
            "needs 1 <= min_rounds <= max_rounds and warm_up >= 0",
        )
    if rounds.processes < 1:
        raise UserError(f"{record.name}: processes={rounds.processes}", "needs 1 or more")


def _check_parameters(record: Benchmark, parameters: ParameterSet) -> None:
    for name, value in parameters:
        # Subclasses (numpy.float64 is a float) would print differently from the plain value.
        if type(value) not in (str, int, float, bool):
            raise UserError(
                f"{record.name}: parameter {name} is {type(value).__name__} {value!r}",
                "parameters are text, int, float or bool; build anything else in the function",
            )
    for function in filter(None, (record.function, record.digest)):
        try:
            inspect.signature(function).bind(**dict(parameters))
        except TypeError as error:
            called = getattr(function, "__name__", "digest")
            raise UserError(
                f"{record.name}: {called} does not take its parameters: {error}",
                "name the function's arguments as in params=",
            ) from None
