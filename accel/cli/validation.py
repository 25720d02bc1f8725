"""`accel validate`: published timings beside predicted ones."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from accel.validation import Point, accuracy, validate


def show_validation(as_json: bool) -> None:
    """Prints every published timing beside the prediction, progress on stderr."""
    points = validate(lambda point: print(f"  {point.published.id}", file=sys.stderr, flush=True))
    if as_json:
        print(json.dumps({"points": [point.as_json() for point in points]}, indent=2))
        return
    print("\n".join(_validation_lines(points)))


def _validation_lines(points: tuple[Point, ...]) -> Iterator[str]:
    width = max(len(point.published.id) for point in points)
    columns = f"{'published':>10}  {'predicted':>10}  {'unit':<7}  {'error':>7}"
    yield f"{'timing':<{width}}  chip  {columns}"
    for point in points:
        row = point.published
        predicted = "-" if point.predicted is None else f"{point.predicted:.4g}"
        error = "" if point.error is None else f"{100 * point.error:.1f} %"
        yield (
            f"{row.id:<{width}}  {row.chip:<4}  {row.value:>10.4g}  {predicted:>10}  "
            f"{row.unit:<7}  {error:>7}"
        )
    yield ""
    for group in accuracy(points):
        yield (
            f"{group.group}: {group.count} rows, error {100 * group.median:.1f} % in the median, "
            f"{100 * group.worst:.1f} % at worst ({group.worst_id})"
        )
    yield "rows to judge by have an id with an odd CRC-32; no number of a chip was chosen by them"
    missing = sum(point.predicted is None for point in points)
    yield f"not predicted yet: {missing} of {len(points)} rows"
