"""`accel diff`: two versions of a kernel, or one on two chips, and where they part in time."""

from __future__ import annotations

import dataclasses
import json
import linecache
from collections.abc import Iterator
from pathlib import Path

from accel.accuracy import accuracy_of
from accel.cli.run import Request, simulated, time_text
from accel.program import Program
from accel.sim.difference import Change, Difference, difference_of

_TEXT = 60


def diff_kernels(request: Request, other: str, other_chip: str, top: int) -> None:
    """Simulates both and prints what the second does differently; `top` lines of the path."""
    second = dataclasses.replace(
        request, target=other or request.target, chip=other_chip or request.chip
    )
    _, before, old = simulated(request)
    _, after, new = simulated(second)
    texts = [_texts(r.target, p.program) for r, p in ((request, before), (second, after))]
    difference = difference_of(old, new, *texts)
    names = [f"{r.target} on {r.chip}" for r in (request, second)]
    if request.as_json:
        record = {"before": names[0], "after": names[1], **difference.as_dict()}
        print(json.dumps(record, indent=2, allow_nan=False))
        return
    print("\n".join(_lines(difference, names, second.chip, top)))


def _texts(target: str, program: Program) -> dict[str, str]:
    """The kernel's source lines by place, without indentation."""
    file = target.rpartition(":")[0]
    own = Path(file).name
    return {
        str(source): linecache.getline(file, source.line).strip()
        for source in program.sources
        if source.file == own and linecache.getline(file, source.line).strip()
    }


def _lines(difference: Difference, names: list[str], chip: str, top: int) -> Iterator[str]:
    before, after = difference.before_us, difference.after_us
    yield f"{time_text(before):>12}  {names[0]}"
    yield f"{time_text(after):>12}  {names[1]}"
    yield f"{_signed(after - before):>12}  {_verdict(before, after)}"
    yield f"timing model: {accuracy_of(chip)}"
    yield ""
    yield "where on the critical path (these add up to the difference)"
    shown = [change for change in difference.changes if change.us][:top]
    for change in shown:
        yield f"{_signed(change.us):>12}  {_counts(change):>15}  {change.op}  {_short(change.text)}"
    rest = sum(change.us for change in difference.changes) - sum(c.us for c in shown)
    if abs(rest) > 1e-9:
        yield f"{_signed(rest):>12}  {'':>15}  all other lines"
    if not difference.figures:
        return
    yield ""
    yield "what else differs"
    for figure in difference.figures:
        yield f"{figure.name:<34}{figure.before:>18,.6g}{figure.after:>18,.6g}"


def _verdict(before: float, after: float) -> str:
    if before == after:
        return "no difference"
    ratio = max(before, after) / min(before, after) if min(before, after) else 0.0
    return f"{100 * (ratio - 1):.2f} % {'slower' if after > before else 'faster'}"


def _counts(change: Change) -> str:
    if change.before_times == change.after_times:
        return f"{change.after_times} ×"
    return f"{change.before_times} -> {change.after_times} ×"


def _signed(us: float) -> str:
    return f"{'-' if us < 0 else '+'}{time_text(abs(us))}"


def _short(text: str) -> str:
    return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"
