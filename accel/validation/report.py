"""The validation page: every published timing beside its prediction, and what each effect is worth.

Everything on it is computed: the rows by `validate`, the ablations by the same with one effect of
the model left out.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from accel.chip import CHIPS
from accel.sim import ABLATIONS
from accel.sim.collectives import algorithm_of
from accel.sim.lowering import rules_of
from accel.validation.collectives import LARGE_BYTES, MEASURED
from accel.validation.points import (
    ALL,
    OLDER_COMPILER,
    UNSEEN,
    WHOLE,
    Point,
    accuracy,
    validate,
)

_CHANGED = 0.01  # by this much a prediction has to differ to count as changed
_CLOSE = 0.3  # as near as a collective is expected to come


def validation_page(on_step: Callable[[str], None] = lambda step: None) -> str:
    """The page as Markdown; `on_step` hears of each effect that is being left out."""
    points = validate()
    sections = (_intro(points), _ablations(points, on_step), _rows(points), _collectives())
    return "\n".join(line for section in sections for line in section)


def _intro(points: Sequence[Point]) -> Iterator[str]:
    missing = sum(point.predicted is None for point in points)
    yield "# Validation"
    yield ""
    yield (
        "<!-- Written by `python docs/generate.py --validate`; edit accel/validation/report.py. -->"
    )
    yield ""
    yield (
        "Published timings beside what the simulator predicts, as `accel validate` does. The error "
        "is how far the larger exceeds the smaller, and for percentages the difference. Quality: A "
        "measured with shapes and kernel source, B read off a profile, C a target."
    )
    yield ""
    yield (
        "Rows whose id has an odd CRC-32 *judge*: no number of a chip was chosen by them. The "
        "others, and those that a number comes from, are there to *choose* by."
    )
    yield ""
    yield "| rows | count | median error | worst | worst row |"
    yield "|---|---|---|---|---|"
    for group in accuracy(tuple(points)):
        yield (
            f"| {group.group} | {group.count} | {_percent(group.median)} | "
            f"{_percent(group.worst)} | `{group.worst_id}` |"
        )
    yield ""
    yield f"{missing} of {len(points)} rows have no prediction yet; they are listed with a dash."


def _ablations(points: Sequence[Point], on_step: Callable[[str], None]) -> Iterator[str]:
    yield ""
    yield "## What each effect is worth"
    yield ""
    yield (
        "The same with one effect left out: median error over whole kernels, over all rows of "
        "quality A and B, and over those that judge; then how many predictions change by more than "
        "1 %, and the largest change."
    )
    yield ""
    yield "| without | whole kernels | all | judging | rows that change | largest change |"
    yield "|---|---|---|---|---|---|"
    yield _ablation("nothing", points, points)
    for effect in ABLATIONS:
        on_step(effect)
        yield _ablation(f"`{effect}`", points, validate(ablate=frozenset({effect})))
    rules = rules_of(OLDER_COMPILER)
    for rule in rules:
        on_step(rule)
        others = "+".join(name for name in rules if name != rule)
        name = f"`{rule}` of the older compiler"
        yield _ablation(name, points, validate(compiler=others))


def _ablation(name: str, points: Sequence[Point], without: Sequence[Point]) -> str:
    medians = {group.group: group.median for group in accuracy(tuple(without))}
    changes = [
        (abs(after.predicted / before.predicted - 1), before.published.id)
        for before, after in zip(points, without, strict=True)
        if before.predicted and after.predicted is not None
    ]
    largest, row = max(changes)
    told = f"{_percent(largest)} (`{row}`)" if largest > _CHANGED else "-"
    count = sum(change > _CHANGED for change, _ in changes)
    shown = " | ".join(_percent(medians[group]) for group in (WHOLE, ALL, UNSEEN))
    return f"| {name} | {shown} | {count} | {told} |"


def _rows(points: Sequence[Point]) -> Iterator[str]:
    yield ""
    yield "## Every row"
    yield ""
    yield "| id | chip | quality | what | published | predicted | error | |"
    yield "|---|---|---|---|---|---|---|---|"
    for point in points:
        row = point.published
        predicted = "-" if point.predicted is None else f"{point.predicted:.4g}"
        error = "-" if point.error is None else _percent(point.error)
        role = "choose" if point.fitted else "judge"
        yield (
            f"| `{row.id}` | {row.chip} | {row.quality} | {row.quantity} | {row.value:.4g} "
            f"{row.unit} | {predicted} | {error} | {role} |"
        )
    yield ""
    signed = [
        point.predicted / point.published.value
        for point in points
        if point.predicted and point.published.unit == "ms" and point.error is not None
    ]
    yield (
        f"Whole kernels come out at {statistics.median(signed):.3f} times the published latency in "
        f"the median, from {min(signed):.3f} to {max(signed):.3f}."
    )
    yield ""


def _collectives() -> Iterator[str]:
    large = [row for row in MEASURED if row.size > LARGE_BYTES]
    close = sum(row.error <= _CLOSE for row in large)
    yield "## Collectives"
    yield ""
    yield (
        "From the SDK's nccom-test page and its history, which name no hardware (quality D). The "
        "runtime of 2023 is modelled by its fixed time and hop, from its two rows of 1 KiB. Of the "
        f"{len(large)} rows above 64 KiB {close} come out within {100 * _CLOSE:.0f} %."
    )
    yield ""
    yield "| collective | ranks | bytes | year | chip | published us | predicted us | error | |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in MEASURED:
        yield (
            f"| {row.op} | {row.ranks} | {row.size:,} | {row.year} | {row.chip.name} | "
            f"{row.microseconds:g} | {row.predicted:.4g} | {_percent(row.error)} | "
            f"{'choose' if row.chosen_by else 'judge'} |"
        )
    yield ""
    yield (
        "Algorithms by size, 64 ranks on trn2: "
        + "; ".join(f"{name} from {size:,} bytes" for size, name in _crossovers())
        + "."
    )
    yield ""


def _crossovers() -> Iterator[tuple[int, str]]:
    """Sizes at which another algorithm is chosen, to the power of two or what is next to it."""
    before = ""
    for size in sorted({n for e in range(31) for n in (2**e, 7 * 2**e + 1)}):
        name = algorithm_of(size, 64, CHIPS["trn2"]).name
        if name != before:
            yield size, name
        before = name


def _percent(error: float) -> str:
    return f"{100 * error:.1f} %"
