"""`accel sweep`: the latency of a kernel while sizes vary, as a table and bars."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from accel.accuracy import accuracy_of
from accel.cli.run import Request, simulated, size_text, time_text
from accel.cli.status import status_line
from accel.errors import UserError
from accel.sim import Metrics

_LARGEST_SWEEP = 1000
_BAR = 30
_HINT = "write --sweep NAME=FIRST..LAST:*FACTOR or :+STEP, as rows=128..8192:*2, or NAME=1,3,7"
_RANGE = re.compile(r"(\d+)\.\.(\d+):([*+])(\d+)")


@dataclass(frozen=True, slots=True)
class Step:
    """One point of a sweep: the sizes, and what came of them; `failed` where nothing did."""

    sizes: tuple[tuple[str, int], ...]
    metrics: Metrics | None = None
    failed: str = ""


def parse_sweep(text: str) -> tuple[str, tuple[int, ...]]:
    """`NAME=128..8192:*2` or `NAME=1,3,7` as name and sizes; UserError for anything else."""
    name, _, rest = text.partition("=")
    if not name.isidentifier() or not rest:
        raise UserError(f"--sweep {text!r} is not NAME=SIZES", _HINT)
    found = _RANGE.fullmatch(rest)
    if found is None:
        try:
            sizes = tuple(int(size) for size in rest.split(","))
        except ValueError:
            raise UserError(f"--sweep {name}: {rest!r} is no range and no list", _HINT) from None
    else:
        first, last, step = int(found[1]), int(found[2]), int(found[4])
        sizes = tuple(_range(first, last, step, multiplies=found[3] == "*"))
    if not sizes or min(sizes) < 1:
        raise UserError(f"--sweep {name}: {rest!r} has no sizes from 1 on", _HINT)
    return name, sizes


def _range(first: int, last: int, step: int, *, multiplies: bool) -> Iterator[int]:
    if step < (2 if multiplies else 1) or first < 1:
        return
    size = first
    while size <= last:
        yield size
        size = size * step if multiplies else size + step


def sweep_kernel(request: Request, sweeps: Sequence[str]) -> None:
    """Simulates the kernel at every combination of sizes, and prints a row for each."""
    given = dict(map(parse_sweep, sweeps))
    if len(given) < len(sweeps):
        raise UserError("a size is swept twice", "give each NAME once")
    texts = (*request.inputs, *request.args, request.grid)
    for name in given:
        if not any(_names(name).search(text) for text in texts):
            raise UserError(
                f"--sweep {name}: no input, argument or grid has {{{name}}} in it",
                f"write the name where the size goes, as --input x={{{name}}}x512:bfloat16",
            )
    points = list(itertools.product(*given.values()))
    if len(points) > _LARGEST_SWEEP:
        raise UserError(
            f"{len(points)} combinations of sizes, at most {_LARGEST_SWEEP}", "sweep fewer sizes"
        )
    line, steps = status_line(), []
    for number, point in enumerate(points, 1):
        sizes = dict(zip(given, point, strict=True))
        with line.doing(f"{number} of {len(points)}: {_told(sizes)}"):
            steps.append(_step(request, sizes))
    if all(step.metrics is None for step in steps):
        raise UserError(f"no size can be simulated: {steps[0].failed}", "try smaller sizes")
    if request.as_json:
        print(json.dumps(_as_json(request, steps), indent=2, allow_nan=False))
        return
    print(f"{request.target} on {request.chip}")
    print(f"timing model: {accuracy_of(request.chip)}")
    print("\n".join(_lines(tuple(given), steps)))


def _names(name: str) -> re.Pattern[str]:
    return re.compile(r"\{" + re.escape(name) + r"\}")


def _step(request: Request, sizes: Mapping[str, int]) -> Step:
    def filled(text: str) -> str:
        for name, size in sizes.items():
            text = _names(name).sub(str(size), text)
        return text

    changed = dataclasses.replace(
        request,
        inputs=tuple(map(filled, request.inputs)),
        args=tuple(map(filled, request.args)),
        grid=filled(request.grid),
    )
    point = tuple(sizes.items())
    try:
        return Step(point, simulated(changed)[2].metrics)
    except UserError as error:
        return Step(point, failed=error.args[0])


def _told(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _lines(names: tuple[str, ...], steps: Sequence[Step]) -> Iterator[str]:
    shown = [step.metrics.latency_us for step in steps if step.metrics is not None]
    low, high = min(shown, default=1.0), max(shown, default=1.0)
    width = [max(len(name), *(len(str(dict(s.sizes)[name])) for s in steps)) for name in names]
    head = "  ".join(f"{name:>{n}}" for name, n in zip(names, width, strict=True))
    yield ""
    yield f"{head}  {'latency':>12}  {'of roofline':>11}  {'hbm moved':>10}  bound by"
    for step in steps:
        sizes = dict(step.sizes)
        row = "  ".join(f"{sizes[name]:>{n}}" for name, n in zip(names, width, strict=True))
        if step.metrics is None:
            yield f"{row}  {step.failed}"
            continue
        metrics = step.metrics
        share = metrics.roofline_us / metrics.latency_us if metrics.latency_us else 0.0
        moved = size_text(metrics.hbm_read_bytes + metrics.hbm_write_bytes)
        yield (
            f"{row}  {time_text(metrics.latency_us):>12}  {100 * share:>9.1f} %  {moved:>10}  "
            f"{metrics.bound_by:<12}  {_bar(metrics.latency_us, low, high)}"
        )
    if shown:
        yield f"bars: latency from {time_text(low)} to {time_text(high)}, logarithmic"


def _bar(latency: float, low: float, high: float) -> str:
    if high <= low or low <= 0:
        return "#" * _BAR
    return "#" * max(1, round(_BAR * math.log(latency / low) / math.log(high / low)))


def _as_json(request: Request, steps: Sequence[Step]) -> dict[str, object]:
    return {
        "kernel": request.target,
        "chip": request.chip,
        "timing_model": accuracy_of(request.chip),
        "points": [
            {
                "sizes": dict(step.sizes),
                "metrics": None if step.metrics is None else step.metrics.as_dict(),
                "error": step.failed or None,
            }
            for step in steps
        ],
    }
