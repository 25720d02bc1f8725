"""`accel run --measured`: what a profiler measured beside what is predicted.

The file is JSON: metric names of `accel run --json` with their values, or the summary that the
vendor's profiler writes (`summary-json`: one table a run, `total_time` in seconds, percentages as
fractions). A whole run in that summary includes the launch, as `launched_latency_us` does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from accel.errors import UserError
from accel.sim import Metrics

_HINT = 'write {"latency_us": 84.1, ...} with names of `accel run --json`, or a profiler\'s summary'
_TOTAL = "total_time"
_US_PER_S = 1e6


@dataclass(frozen=True, slots=True)
class Compared:
    """A metric that was measured and is predicted."""

    name: str
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """How far the larger exceeds the smaller; of percentages the difference ÷ 100."""
        if self.name.endswith("_percent"):
            return abs(self.predicted - self.measured) / 100
        low, high = sorted((abs(self.measured), abs(self.predicted)))
        if high == 0:
            return 0.0
        return high / low - 1 if low else float("inf")


def read_measured(path: Path) -> dict[str, float]:
    """The measured metrics by our names; UserError says what is wrong with the file."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UserError(f"no file {path}", _HINT) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not JSON: {error}", _HINT) from None
    table = _table(content)
    if table is None:
        raise UserError(f"{path} is no table of metrics", _HINT)
    numbers = {
        name: float(value)
        for name, value in table.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    return _of_profiler(numbers) if _TOTAL in numbers else numbers


def _table(content: object) -> Mapping[str, object] | None:
    """The one table of metrics in a file, which a profiler keeps under the name of the run."""
    if not isinstance(content, dict):
        return None
    inner = list(content.values())
    if len(inner) == 1 and isinstance(inner[0], dict):
        return inner[0]
    return content


def _of_profiler(numbers: Mapping[str, float]) -> dict[str, float]:
    ours = {
        name: 100 * value if name.endswith("_percent") else value for name, value in numbers.items()
    }
    ours["launched_latency_us"] = ours.pop(_TOTAL) * _US_PER_S
    return ours


def compared(measured: Mapping[str, float], metrics: Metrics, path: Path) -> list[Compared]:
    """The metrics that both have, in our order; UserError where there is none."""
    found = [
        Compared(name, measured[name], float(value))
        for name, value in metrics.as_dict().items()
        if name in measured and not isinstance(value, str)
    ]
    if not found:
        raise UserError(f"{path} has no metric that is predicted", _HINT)
    return found


def measured_lines(rows: list[Compared]) -> Iterator[str]:
    """A table of both."""
    yield ""
    yield f"  {'':<34}{'measured':>16}{'predicted':>16}  difference"
    for row in rows:
        values = f"{row.measured:>16,.6g}{row.predicted:>16,.6g}"
        yield f"  {row.name:<34}{values}  {100 * row.error:.1f} %"
