"""parting: where a kernel's values part from its reference's, and why as far as that can be told.

Comes in: the steps of a `Lockstep`, the elements of a result that are wrong, and the reference's
values. Goes out: a `Parting` that names the first instruction at fault among those which the worst
element was computed from. Causes are looked for in this order:

    unwritten      nothing wrote the element, or an instruction read what nothing wrote
    not finite     a NaN or an infinity appears that the reference does not have
    rounding       without rounding to storage dtypes, the element is right
    place          the result holds the reference's values, at other indices
    computation    values equal the reference's up to an instruction, and none after it does; or the
                   result is what the reference computes on the way; or only wrong elements are
                   computed from an instruction
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.parity.lockstep import Float64, Recognise, Step
from accel.parity.reference import Intermediate

_SAMPLES, _FEWEST = 256, 8
_CLOSE = 1e-5
_MOVES = tuple(1 + factor * _CLOSE for factor in (-70, -30, 30, 70))
_ALL, _BY_CHANCE = 0.95, 0.8
_WAY = 6
RESULT = "result"  # the name of what a reference returns
PERHAPS = "?"  # found, but among so many values that any would be


@dataclass(frozen=True, slots=True)
class Parting:
    """`step` is the index of the first instruction at fault, None where none stands out. `why` is
    one line; `way` the steps from it to the result.
    """

    cause: str
    step: int | None
    why: str
    way: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong: the steps that last wrote the worst element, wrong and right elements; whether
    the worst one is right without rounding; whether the reference's is finite; whether more of the
    reference's values are known than its arguments and results.
    """

    worst: int
    wrong: frozenset[int]
    right: frozenset[int]
    right_unrounded: bool
    finite: bool
    tolerance: float
    watched: bool


def recogniser(intermediates: Sequence[Intermediate]) -> Recognise:
    """A function that finds values among a reference's: samples of a tile, without their signs, all
    occur in one array, and samples moved by a little do not.
    """
    known = [(str(i), np.sort(np.abs(i.values[np.isfinite(i.values)]))) for i in intermediates]
    known = [(name, values) for name, values in known if len(values)]

    def recognise(tile: Float64) -> str | None:
        samples = _samples(tile)
        if len(samples) < _FEWEST:
            return None
        found = ""
        for name, values in known:
            if _share(samples, values) < _ALL:
                continue
            if np.mean([_share(samples * move, values) for move in _MOVES]) < _BY_CHANCE:
                return name
            found = PERHAPS
        return found

    return recognise


def _samples(tile: Float64) -> Float64:
    values = np.unique(np.abs(tile[np.isfinite(tile) & (tile != 0)]))
    if len(values) < _FEWEST:
        return values
    chosen = np.linspace(0, len(values) - 1, min(_SAMPLES, len(values))).astype(np.int64)
    result: Float64 = values[np.unique(chosen)]
    return result


def _share(samples: Float64, values: Float64) -> float:
    """How many of the samples are among the sorted values."""
    after = np.clip(np.searchsorted(values, samples), 0, len(values) - 1)
    before = np.maximum(after - 1, 0)
    gap = np.minimum(np.abs(values[after] - samples), np.abs(values[before] - samples))
    scale = float(np.sqrt(np.mean(samples**2)))
    return float(np.mean(gap <= _CLOSE * samples + 1e-6 * scale))


def parting(steps: Sequence[Step], wrong: Wrong) -> Parting:
    """The first instruction at fault."""
    if wrong.worst < 0:
        return Parting("unwritten", None, "nothing wrote the element")
    chain = _ancestors(steps, [wrong.worst])
    for look in (_unwritten, _not_finite, _rounding, _misplaced, _unrecognised, _only_wrong):
        found = look(steps, chain, wrong)
        if found is not None:
            at = found.step
            way = () if at is None else tuple(_way(steps, at, wrong.worst))
            return Parting(found.cause, at, found.why, way)
    crowded = any(steps[index].found == PERHAPS for index in chain)
    why = f"none of the {len(chain)} instructions it depends on stands out"
    return Parting("computation", None, why + ("; smaller inputs tell more" if crowded else ""))


def _ancestors(steps: Sequence[Step], start: Iterable[int]) -> list[int]:
    """Every step that these depend on, themselves too, in order."""
    seen: set[int] = set()
    waiting = list(start)
    while waiting:
        index = waiting.pop()
        if index >= 0 and index not in seen:
            seen.add(index)
            waiting += steps[index].sources
    return sorted(seen)


def _unwritten(steps: Sequence[Step], chain: list[int], wrong: Wrong) -> Parting | None:
    for index in chain:
        if steps[index].reads_unwritten:
            return Parting("unwritten", index, "it reads elements that nothing wrote")
    return None


def _not_finite(steps: Sequence[Step], chain: list[int], wrong: Wrong) -> Parting | None:
    for index in chain if wrong.finite else ():
        if not steps[index].finite:
            return Parting("not finite", index, "its result is the first with a NaN or infinity")
    return None


def _rounding(steps: Sequence[Step], chain: list[int], wrong: Wrong) -> Parting | None:
    if not wrong.right_unrounded:
        return None
    over = [index for index in chain if steps[index].loss > wrong.tolerance]
    first = over[0] if over else max(chain, key=lambda index: steps[index].loss)
    loss = f"{steps[first].loss:.2g} of its root mean square"
    told = (
        "the first result that rounding changes by more than the tolerance"
        if over
        else ("the result that rounding changes most")
    )
    return Parting("rounding", first, f"{told}: {loss}")


def _misplaced(steps: Sequence[Step], chain: list[int], wrong: Wrong) -> Parting | None:
    last = steps[wrong.worst]
    if last.found is None or last.found in ("", PERHAPS):
        return None
    if last.found.startswith(RESULT):
        return Parting("place", wrong.worst, "the values are right, at other indices")
    return Parting(
        "computation",
        wrong.worst,
        f"it writes the reference's {last.found}, which is not its result",
    )


def _unrecognised(steps: Sequence[Step], chain: list[int], wrong: Wrong) -> Parting | None:
    """The first step whose values the reference does not compute, nor those of any step after it
    on the way; the steps it reads from did equal the reference's.
    """
    alive = _leads_to_known(steps, chain)
    for index in chain if wrong.watched else ():
        step = steps[index]
        if step.found != "" or index in alive:
            continue
        sources = [steps[source] for source in step.sources]
        known = [source for source in sources if source.found not in (None, "", PERHAPS)]
        if not known:
            return None  # its inputs were not the reference's either: nothing was equal so far
        before = known[-1]
        return Parting(
            "computation",
            index,
            f"the reference computes no such values; what it reads from {before.op} at "
            f"{before.place} is the reference's {before.found}",
        )
    return None


def _leads_to_known(steps: Sequence[Step], chain: list[int]) -> set[int]:
    """Steps from which a value of the reference is computed on the way, as far as can be told."""
    alive: set[int] = set()
    for index in reversed(chain):
        if steps[index].found or index in alive:
            alive.update(steps[index].sources)
    return alive


def _only_wrong(steps: Sequence[Step], chain: list[int], wrong: Wrong) -> Parting | None:
    right = set(_ancestors(steps, wrong.right - wrong.wrong))
    alone = [index for index in chain if index not in right]
    if not right or not alone:
        return None
    return Parting("computation", alone[0], "the first that only wrong elements are computed from")


def _way(steps: Sequence[Step], start: int, end: int) -> list[int]:
    """Steps from one to another, each reading from the one before; the shortest way."""
    reached = {end: -1}
    waiting = [end]
    while waiting and start not in reached:
        index = waiting.pop(0)
        for source in steps[index].sources:
            if source not in reached:
                reached[source] = index
                waiting.append(source)
    way = [start]
    while reached.get(way[-1], -1) >= 0:
        way.append(reached[way[-1]])
    return way if len(way) <= _WAY else [*way[: _WAY - 1], way[-1]]


def wrong_elements(
    writers: npt.NDArray[np.int32], apart: npt.NDArray[np.bool_]
) -> tuple[frozenset[int], frozenset[int]]:
    """The steps that wrote elements apart, and those that wrote elements that agree."""
    wrong, right = np.unique(writers[apart]), np.unique(writers[~apart])
    return frozenset(wrong.tolist()) - {-1}, frozenset(right.tolist()) - {-1}
