"""`accel profile`: where a kernel's time goes, and what it would be if."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence

from accel.accuracy import accuracy_of
from accel.cli.run import Request, headline, simulated, size_text, time_text
from accel.cli.status import status_line
from accel.sim.profile import Lane, Occupancy, Part, Profile, profile_of, read_again

_SHADES = " ·-=#"


def profile_kernel(request: Request, top: int) -> None:
    """Carries out one request and prints the profile; `top` rows of each list."""
    chip, recorded, simulation = simulated(request)
    line = status_line()
    with line.doing("asking what it would be if"):
        profile = profile_of(simulation, recorded.program, chip, recorded.compiler)
    if request.as_json:
        record = {
            "kernel": recorded.program.name,
            "chip": chip.name,
            "compiler": recorded.compiler,
            "timing_model": accuracy_of(chip.name),
            "bound_by": simulation.metrics.bound_by,
            **profile.as_dict(),
        }
        print(json.dumps(record, indent=2, allow_nan=False))
        return
    print(headline(chip, recorded, simulation))
    print(f"timing model: {accuracy_of(chip.name)}")
    print("\n".join(_lines(profile, top)))
    for note in (*simulation.warnings, *recorded.warnings, *_reloads(profile)):
        print(f"warning: {note}", file=sys.stderr)


def _reloads(profile: Profile) -> Iterator[str]:
    for reading in read_again(profile):
        yield (
            f"{reading.name}: {size_text(reading.size)} read {reading.times:.1f} times, "
            f"{size_text(reading.read)} in all"
        )


def _lines(profile: Profile, top: int) -> Iterable[str]:
    yield ""
    yield "busy over time (each column 1/60 of the latency)"
    width = max(len(lane.name) for lane in profile.lanes)
    for lane in profile.lanes:
        yield _lane_line(lane, width)
    for memory in profile.occupancy:
        yield _memory_line(memory, width)
    yield from _parts("critical path, by kernel line", profile.critical, top, profile.latency_us)
    yield from _table(
        "idle queues, by what they waited for",
        [
            f"{time_text(stall.us):>12}  {stall.times:>6} ×  {stall.queue} waits for {stall.cause}"
            + (f" of {stall.op} ({stall.line})" if stall.line else "")
            for stall in profile.stalls
        ],
        top,
    )
    yield from _parts("work, by kernel line", profile.instructions, top, 0.0)
    roof = profile.roofline
    if roof.tflops:
        yield ""
        yield (
            f"roofline: {roof.tflops:.2f} TFLOP/s at {roof.intensity:.1f} FLOP a byte; the tensor "
            f"engine allows {roof.compute_roof:.1f} in bf16, HBM {roof.memory_roof:.1f}"
        )
    yield from _table(
        "it would be, if",
        [
            f"{time_text(change.latency_us):>12}  {change.faster:>6.2f} ×  {change.name}"
            for change in profile.what_ifs
        ],
        len(profile.what_ifs),
    )


def _lane_line(lane: Lane, width: int) -> str:
    return f"  {lane.name:<{width}} |{_shaded(lane.slices)}| {100 * lane.busy:5.1f} %"


def _memory_line(memory: Occupancy, width: int) -> str:
    shares = [held / memory.capacity for held in memory.slices]
    peak = 100 * memory.peak / memory.capacity
    return f"  {memory.memory:<{width}} |{_shaded(shares)}| {peak:5.1f} % at its fullest"


def _shaded(shares: Sequence[float]) -> str:
    """One character a slice: blank up to 5 %, then quarters."""
    levels = (0 if share < 0.05 else min(4, 1 + int(4 * share)) for share in shares)
    return "".join(_SHADES[level] for level in levels)


def _parts(title: str, parts: Sequence[Part], top: int, whole_us: float) -> Iterator[str]:
    rows = []
    for part in parts:
        share = f"{100 * part.us / whole_us:5.1f} %  " if whole_us else ""
        rows.append(f"{time_text(part.us):>12}  {share}{part.times:>6} ×  {part.op} ({part.line})")
    yield from _table(title, rows, top)


def _table(title: str, rows: Sequence[str], top: int) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield title
    yield from rows[:top]
    if len(rows) > top:
        yield f"{'':>12}  {len(rows) - top} more"
