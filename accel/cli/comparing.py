"""`accel test`: a kernel beside a reference function over generated inputs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from accel.chip import Chip, chip_named
from accel.cli.arguments import parse_grid, random_arrays, ready_kernel
from accel.cli.status import status_line
from accel.errors import UserError
from accel.isa.row import Array
from accel.nki.jit import Kernel, evaluate
from accel.nki.versions import check_program
from accel.parity.comparison import Difference, Tolerance, compare
from accel.parity.lockstep import Lockstep, Step
from accel.parity.parting import RESULT, Parting, Wrong, parting, recogniser, wrong_elements
from accel.parity.reference import (
    ARGUMENT,
    Intermediate,
    Reference,
    call_reference,
    load_reference,
    watched_values,
)
from accel.program import Kind, Memory, Mode, Program
from accel.sim.evaluate import Values
from accel.sim.numerics import Numerics, numerics_of
from accel.sim.wide import values_for

DIFFERS = 1
DTYPE, _UNROUNDED = Tolerance(), Tolerance(relative=1e-3)


@dataclass(frozen=True, slots=True)
class Request:
    """The options of `accel test`."""

    target: str
    reference: str
    chip: str
    inputs: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    grid: str = ""
    seed: int = 0
    cases: int = 3
    tolerance: Tolerance = DTYPE
    nki: str = ""
    strict: bool = False
    fp32_matmul: str = "exact"
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is compared: a kernel with its arguments, on a chip, against a reference."""

    kernel: Kernel
    reference: Reference
    arguments: Mapping[str, object]
    chip: Chip
    grid: tuple[int, ...]
    numerics: Numerics
    tolerance: Tolerance
    version: str


@dataclass(frozen=True, slots=True)
class Case:
    """One set of inputs. `number` is the result that differs, None where all agree; then `parting`
    says from where on, with the steps that it names.
    """

    seed: int
    differences: tuple[Difference, ...]
    warnings: tuple[str, ...]
    number: int | None = None
    parting: Parting | None = None
    named: tuple[Step, ...] = ()


def compare_kernel(request: Request) -> int:
    """Carries out one request and prints what came of it; the exit code."""
    subject = _subject(request)
    line = status_line()
    cases = []
    for index in range(request.cases):
        told = f"testing {subject.kernel.name}, case {index + 1} of {request.cases}"
        with line.beside_output(), line.doing(told):
            cases.append(_case(subject, request.seed + index))
        if cases[-1].number is not None:
            break
    if request.as_json:
        print(json.dumps(_as_json(request, subject, cases), indent=2, allow_nan=False))
    else:
        print("\n".join(_lines(request, subject, cases)))
    return 0 if cases[-1].number is None else DIFFERS


def _subject(request: Request) -> _Subject:
    chip = chip_named(request.chip)
    numerics = numerics_of(os.environ, request.fp32_matmul)
    kernel, arguments = ready_kernel(
        request.target, request.inputs, request.args, request.nki, request.strict
    )
    return _Subject(
        kernel,
        load_reference(request.reference),
        arguments,
        chip,
        parse_grid(request.grid),
        numerics,
        request.tolerance,
        request.nki,
    )


def _case(subject: _Subject, seed: int) -> Case:
    arrays = random_arrays(dict(subject.arguments), seed)
    values = values_for(subject.numerics)
    evaluation = evaluate(subject.kernel, arrays, subject.chip, subject.grid, values)
    check_program(evaluation.program, subject.version)
    results = _results(evaluation.result, evaluation.program, values)
    expected = call_reference(subject.reference, arrays)
    if len(results) != len(expected):
        raise UserError(
            f"the kernel returns {len(results)} arrays, the reference {len(expected)}",
            "return the same arrays in the same order",
        )
    differences = tuple(
        compare(result, wanted, subject.tolerance)
        for result, wanted in zip(results, expected, strict=True)
    )
    warnings = tuple(map(str, evaluation.uninitialised))
    apart = [number for number, difference in enumerate(differences) if not difference.agrees]
    case = Case(seed, differences, warnings)
    return _located(subject, case, apart[0], arrays, expected) if apart else case


def _results(returned: object, program: Program, values: Values) -> tuple[Array, ...]:
    """What the kernel returned; without that, the arguments that it wrote, in order."""
    arrays = tuple(_arrays(returned))
    if arrays:
        return arrays
    written = tuple(_read_whole(values, program, number) for number in _results_of(program))
    if not written:
        raise UserError(
            f"kernel {program.name} returns no tensor and writes none of its arguments",
            "return the tensor that holds the result",
        )
    return written


def _arrays(value: object) -> Iterator[Array]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _arrays(item)


def _results_of(program: Program) -> list[int]:
    """The storages of the results: outputs, or arguments that are written."""
    storages = program.storages
    outputs = [n for n, storage in enumerate(storages) if storage.kind is Kind.OUTPUT]
    if outputs:
        return sorted(outputs, key=lambda number: storages[number].name)
    written: set[int] = set()
    for number, form in enumerate(program.forms):
        for position, access in enumerate(form.accesses):
            if access.mode is not Mode.READ and access.layout.memory is Memory.HBM:
                where = program.first_operand[:-1][program.form == number] + position
                written.update(program.storage[where].tolist())
    return sorted(n for n in written if storages[n].kind is Kind.INPUT)


def _read_whole(values: Values, program: Program, number: int) -> Array:
    storage = program.storages[number]
    strides = np.cumprod((1, *storage.shape[:0:-1]))[::-1] * values.array(number).itemsize
    return values.read(number, storage.dtype, storage.shape, tuple(map(int, strides)), 0)


# --- locating -------------------------------------------------------------------------------------


def _located(
    subject: _Subject,
    case: Case,
    number: int,
    arrays: Mapping[str, object],
    expected: tuple[Array, ...],
) -> Case:
    """The case with where values part: the kernel once more, step by step."""
    watched = watched_values(subject.reference, arrays)
    results = [Intermediate(RESULT, subject.reference.name, _wide(e)) for e in expected]
    lockstep = Lockstep(recogniser([*results, *watched]), subject.numerics)
    evaluation = evaluate(subject.kernel, arrays, subject.chip, subject.grid, lockstep)
    storages = _results_of(evaluation.program)
    returned = tuple(_arrays(evaluation.result))
    if number >= len(storages) or (returned and len(returned) != len(storages)):
        return replace(case, number=number)
    storage = evaluation.program.storages[storages[number]]
    difference = case.differences[number]
    if storage.shape != difference.shape:
        return replace(case, number=number)  # a view was returned: its elements lie elsewhere
    wrong = _wrong(lockstep, evaluation.program, storages[number], difference, expected[number])
    known = {_wide(e).tobytes() for e in expected}
    inside = any(
        value.place != ARGUMENT and value.values.tobytes() not in known for value in watched
    )
    found = parting(lockstep.steps, replace(wrong, watched=inside))
    named = tuple(lockstep.steps[index] for index in found.way)
    return replace(case, number=number, parting=found, named=named)


def _wide(array: Array) -> npt.NDArray[np.float64]:
    """The same numbers as float64."""
    return array.astype(np.float64)


def _wrong(
    lockstep: Lockstep, program: Program, number: int, difference: Difference, expected: Array
) -> Wrong:
    storage = program.storages[number]
    count = int(np.prod(storage.shape))
    size = storage.total_bytes // count
    writers = lockstep.writers(number, 0, storage.total_bytes)[::size].reshape(storage.shape)
    wrong, right = wrong_elements(writers, difference.apart)
    unrounded = _read_whole(lockstep.unrounded, program, number)
    return Wrong(
        worst=int(writers[difference.worst]),
        wrong=wrong,
        right=right,
        right_unrounded=lockstep.follows and compare(unrounded, expected, _UNROUNDED).agrees,
        finite=bool(np.isfinite(difference.expected)),
        tolerance=difference.allowed / abs(difference.expected) if difference.expected else 1e-4,
        watched=False,
    )


# --- printing -------------------------------------------------------------------------------------


def _lines(request: Request, subject: _Subject, cases: Sequence[Case]) -> Iterator[str]:
    last, name = cases[-1], subject.kernel.name
    against = f"{name} on {subject.chip.name} against {subject.reference.name}"
    if last.number is None:
        largest = max(d.largest_error for case in cases for d in case.differences)
        agree = "1 case agrees" if len(cases) == 1 else f"{len(cases)} cases agree"
        yield f"{against}: {agree}, largest error {largest:.2g}"
    else:
        yield f"{against}: differs in case {len(cases)} of {request.cases} (seed {last.seed})"
        yield ""
        for label, value in _rows(last, last.differences[last.number]):
            yield f"  {label:<16}{value}"
    for warning in dict.fromkeys(warning for case in cases for warning in case.warnings):
        yield f"  {'warning':<16}{warning}"


def _rows(case: Case, difference: Difference) -> Iterator[tuple[str, str]]:
    shape = "x".join(map(str, difference.shape))
    yield "result", f"{case.number} of {len(case.differences)}: {shape} {difference.dtype}"
    count, total = int(difference.apart.sum()), difference.apart.size
    yield "apart", f"{count:,} of {total:,} elements, within {_box(difference)}"
    yield (
        "worst",
        f"{list(difference.worst)}: got {difference.got:.6g}, expected {difference.expected:.6g}, "
        f"{difference.allowed:.2g} allowed",
    )
    found = case.parting
    if found is None:
        return
    yield "cause", found.cause
    if found.step is not None:
        yield "instruction", f"{found.step}: {_step(case.named[0])}"
    yield "because", found.why
    if len(case.named) > 1:
        yield "then", " > ".join(map(_step, case.named[1:]))


def _step(step: Step) -> str:
    return f"{step.op} ({step.place})"


def _box(difference: Difference) -> str:
    return "[" + ", ".join(f"{first}:{last + 1}" for first, last in difference.box) + "]"


def _as_json(request: Request, subject: _Subject, cases: Sequence[Case]) -> dict[str, object]:
    return {
        "kernel": subject.kernel.name,
        "reference": subject.reference.name,
        "chip": subject.chip.name,
        "agrees": cases[-1].number is None,
        "cases": [_case_record(case) for case in cases],
    }


def _case_record(case: Case) -> dict[str, object]:
    found = case.parting
    return {
        "seed": case.seed,
        "results": [_difference_record(difference) for difference in case.differences],
        "cause": None if found is None else found.cause,
        "why": None if found is None else found.why,
        "instruction": None if found is None else found.step,
        "way": [{"op": step.op, "place": step.place} for step in case.named],
        "uninitialised": list(case.warnings),
    }


def _difference_record(difference: Difference) -> dict[str, object]:
    return {
        "shape": list(difference.shape),
        "dtype": difference.dtype,
        "agrees": difference.agrees,
        "apart": int(difference.apart.sum()),
        "worst": list(difference.worst),
        "got": _number(difference.got),
        "expected": _number(difference.expected),
        "allowed": difference.allowed,
        "largest_error": _number(difference.largest_error),
    }


def _number(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if np.isfinite(value) else None
