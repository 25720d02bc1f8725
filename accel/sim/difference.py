"""difference: why one simulation takes longer than another.

Comes in: two simulations, of two versions of a kernel or of one kernel on two chips. Goes out: one
frozen record. The latency is the length of the critical path, so the difference of two latencies is
the sum of what each kernel line contributes more to one path than to the other: nothing is left
over. Lines are matched by instruction and source text, so that a line which only moved is the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from accel.sim.profile import Part, critical_parts
from accel.sim.simulation import Simulation

Texts = Mapping[str, str]
"""Source text by place (`file.py:12`)."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one kernel line contributes to the critical paths: µs and instructions in each."""

    op: str
    text: str
    before_us: float
    after_us: float
    before_times: int
    after_times: int

    @property
    def us(self) -> float:
        """By how much longer it makes the second."""
        return self.after_us - self.before_us


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric of both simulations."""

    name: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Difference:
    """`changes` add up to the difference of the latencies, the largest first; `figures` are the
    metrics that differ.
    """

    before_us: float
    after_us: float
    changes: tuple[Change, ...]
    figures: tuple[Figure, ...]

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return dataclasses.asdict(self)


def difference_of(
    before: Simulation, after: Simulation, before_texts: Texts, after_texts: Texts
) -> Difference:
    """What the second simulation does differently; texts name the kernel lines of each."""
    old = _by_text(critical_parts(before.trace), before_texts)
    new = _by_text(critical_parts(after.trace), after_texts)
    changes = []
    for op, text in dict.fromkeys((*old, *new)):
        old_us, old_times = old.get((op, text), (0.0, 0))
        new_us, new_times = new.get((op, text), (0.0, 0))
        changes.append(Change(op, text, old_us, new_us, old_times, new_times))
    return Difference(
        before.metrics.latency_us,
        after.metrics.latency_us,
        tuple(sorted(changes, key=lambda change: (-abs(change.us), change.op, change.text))),
        tuple(_figures(before, after)),
    )


def _by_text(parts: list[Part], texts: Texts) -> dict[tuple[str, str], tuple[float, int]]:
    found: dict[tuple[str, str], tuple[float, int]] = {}
    for part in parts:
        key = (part.op, texts.get(part.line, part.line))
        us, times = found.get(key, (0.0, 0))
        found[key] = (us + part.us, times + part.times)
    return found


def _figures(before: Simulation, after: Simulation) -> list[Figure]:
    old, new = before.metrics.as_dict(), after.metrics.as_dict()
    return [
        Figure(name, float(value), float(new[name]))
        for name, value in old.items()
        if not isinstance(value, str) and value != new[name] and "latency" not in name
    ]
