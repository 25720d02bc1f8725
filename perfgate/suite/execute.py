"""One case, in this process: call the function, check what it returned, give a `CaseResult`.

Whatever the benchmark raises becomes a failed result with a message whose first line says what and
where; limits, crashes and captured output are the business of `worker.py`.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfgate.codec import encode
from perfgate.effect import centre
from perfgate.errors import UserError
from perfgate.model import (
    SCHEMA_VERSION,
    CaseResult,
    CaseStatus,
    Metric,
    ProfileNode,
    Sample,
    Span,
)
from perfgate.suite.benchmark import WALL_TIME, Benchmark, Case, Measurement, Rounds
from perfgate.suite.origin import find_strays
from perfgate.suite.sampling import collect_rounds, share, time_rounds

MESSAGE_LIMIT = 8_000
# An exact case that takes less is called twice, which a suite of many cheap cases does not notice.
CHECKED_BELOW_S = 0.2


@dataclass(frozen=True, slots=True)
class _Outcome:
    samples: tuple[Sample, ...]
    profile: ProfileNode | None = None
    timeline: tuple[Span, ...] = ()


def run_case(
    case: Case,
    is_stored: Callable[[str], bool] = lambda digest: False,
    *,
    verify: bool = False,
) -> CaseResult | None:
    """Run the case; None where `is_stored` says that the digest's result is known already.

    `verify`: call every exact case twice, not only the quick ones without a digest.
    """
    start = time.monotonic()
    digest = ""
    try:
        digest = digest_of(case)
        if digest:
            _refuse_strays(case)
            if is_stored(digest):
                return None
        limit_s = math.inf if verify else 0.0 if digest else CHECKED_BELOW_S
        outcome = _sampled(case) if case.benchmark.sampled else _exact(case, limit_s)
        _refuse_strays(case)
    # A benchmark that calls sys.exit() or is interrupted has failed like any other.
    except BaseException as error:
        return failed(case.case_id, describe(error), duration_s=time.monotonic() - start)
    return CaseResult(
        case_id=case.case_id,
        samples=outcome.samples,
        profile=outcome.profile,
        timeline=outcome.timeline,
        duration_s=time.monotonic() - start,
        digest=digest,
    )


def _refuse_strays(case: Case) -> None:
    """A number of another copy of the code is worse than none."""
    stray = next(find_strays(case.folders), None)
    if stray is not None:
        raise ImportError(
            f"{stray}, so another copy of the code was measured: take out what changes sys.path, "
            "or name the folder of the package in [tool.perfgate] path"
        )


def failed(
    case_id: str,
    message: str,
    status: CaseStatus = CaseStatus.FAILED,
    duration_s: float = 0.0,
) -> CaseResult:
    """A result without numbers. Control characters, which databases refuse, leave the message."""
    clean = "".join(c if c.isprintable() or c in "\n\t" else "?" for c in message)
    return CaseResult(case_id, status, message=_shorten(clean), duration_s=duration_s)


def pooled(results: Sequence[CaseResult]) -> CaseResult:
    """What the processes of one sampled case found, as one result; the last one's profile."""
    last = results[-1]
    return replace(
        last,
        samples=tuple(
            Sample(parts[0].metric, tuple(value for part in parts for value in part.values))
            for parts in zip(*(result.samples for result in results), strict=True)
        ),
        duration_s=sum(result.duration_s for result in results),
    )


def digest_of(case: Case) -> str:
    """What the case's exact numbers depend on, as 32 hexadecimal digits; empty: not to be cached.

    The author's digest, and what this package can see itself: the schema, the metrics and the
    source of the benchmark function, so that a new metric is never answered with old numbers.
    """
    benchmark = case.benchmark
    if benchmark.digest is None:
        return ""
    text = benchmark.digest(**dict(case.parameters))
    if not isinstance(text, str):
        raise TypeError(f"digest returned {type(text).__name__}, needs str")
    if not text:
        return ""
    parts = (SCHEMA_VERSION, text, encode(benchmark.metrics), _source(benchmark))
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def describe(error: BaseException) -> str:
    """`ValueError: no such chip (kernels.py:41)`, then the traceback without our own frames."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not _is_ours(f.filename)]
    text = error.message if isinstance(error, UserError) else str(error)
    head = f"{type(error).__name__}: {text}" if text else type(error).__name__
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    first, _, rest = head.partition("\n")
    lines = [first + place, *([rest] if rest else []), *traceback.format_list(frames)]
    return "\n".join(line.rstrip("\n") for line in lines)


def _source(benchmark: Benchmark) -> str:
    try:
        return inspect.getsource(benchmark.function)
    except OSError:
        return ""


def _is_ours(filename: str) -> bool:
    return Path(filename).parent == Path(__file__).parent


def _shorten(message: str) -> str:
    if len(message) <= MESSAGE_LIMIT:
        return message
    half = MESSAGE_LIMIT // 2
    return f"{message[:half]}\n[{len(message) - 2 * half} characters left out]\n{message[-half:]}"


def _exact(case: Case, check_below_s: float) -> _Outcome:
    """One call, and another one to check where the first took less; one value if they agree."""
    metrics = case.benchmark.metrics
    start = time.monotonic()
    measurement = _measurement(case.benchmark.function(**dict(case.parameters)))
    calls = [_numbers(measurement.metrics, metrics)]
    if time.monotonic() - start < check_below_s:
        calls.append(_numbers(_second_call(case).metrics, metrics))
    samples = tuple(
        Sample(metric, tuple(dict.fromkeys(call[metric.name] for call in calls)))
        for metric in metrics
    )
    return _Outcome(samples, measurement.profile, tuple(measurement.timeline))


def _second_call(case: Case) -> Measurement:
    try:
        return _measurement(case.benchmark.function(**dict(case.parameters)))
    except Exception as error:
        raise RuntimeError(
            f"the second call, which checks that the numbers are exact, failed: {describe(error)}"
        ) from error


def _sampled(case: Case) -> _Outcome:
    """The share of one process: the median of its rounds is one value."""
    benchmark = case.benchmark
    function, rounds = _after_set_up(case)
    if [metric.name for metric in benchmark.metrics] == [WALL_TIME.name]:
        seconds = time_rounds(function, rounds)
        return _Outcome((_middle(benchmark.metrics[0], seconds),))
    calls = [_measurement(value) for value in collect_rounds(function, rounds)]
    numbers = [_numbers(call.metrics, benchmark.metrics) for call in calls]
    samples = tuple(
        _middle(metric, tuple(number[metric.name] for number in numbers))
        for metric in benchmark.metrics
    )
    return _Outcome(samples, calls[-1].profile, tuple(calls[-1].timeline))


def _middle(metric: Metric, values: tuple[float, ...]) -> Sample:
    return Sample(metric, (centre(Sample(metric, values)),))


def _after_set_up(case: Case) -> tuple[Callable[[], object], Rounds]:
    """What to repeat, and how: the callable the benchmark returns, else the benchmark itself."""
    parameters = dict(case.parameters)
    function = case.benchmark.function
    rounds = share(case.benchmark.rounds)
    first = function(**parameters)
    if callable(first):
        prepared: Callable[[], object] = first
        return prepared, rounds
    # That call was a warm-up already.
    warm_up = max(0, rounds.warm_up - 1)
    return lambda: function(**parameters), replace(rounds, warm_up=warm_up)


def _measurement(value: object) -> Measurement:
    if isinstance(value, Measurement):
        return value
    if isinstance(value, Mapping):
        return Measurement(value)
    raise TypeError(
        f"the benchmark returned {type(value).__name__}, needs a mapping or a Measurement"
    )


def _numbers(returned: Mapping[str, float], metrics: tuple[Metric, ...]) -> dict[str, float]:
    declared = {metric.name for metric in metrics}
    missing, unknown = sorted(declared - set(returned)), sorted(set(returned) - declared, key=str)
    if missing or unknown:
        parts = [
            f"{word} {', '.join(map(str, names))}"
            for word, names in (("lacks", missing), ("has undeclared", unknown))
            if names
        ]
        raise ValueError(f"the metrics returned are not the declared ones: {'; '.join(parts)}")
    return {name: _number(name, value) for name, value in returned.items()}


def _number(name: str, value: object) -> float:
    if isinstance(value, (str, bytes, bool)) or not hasattr(value, "__float__"):
        raise TypeError(f"metric {name} is {type(value).__name__} {value!r}, needs a number")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"metric {name} is {number}, needs a finite number")
    return number
