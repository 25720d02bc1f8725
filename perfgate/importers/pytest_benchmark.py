"""The JSON of pytest-benchmark, versions 2 to 5, as runs.

Raw round times become values where the file has all of them, thinned out to `MOST_VALUES`; else the
statistics become a summary. Either way they are rounds of one process (`Sample.one_process`).
A case id is the test's full name with its parameters, where they are plain values that tell the
tests of the file apart, and otherwise the name as pytest prints it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from perfgate.caseid import ParameterValue, format_case_id
from perfgate.importers.document import Node, as_number, parse_json
from perfgate.model import (
    CaseResult,
    CaseStatus,
    Direction,
    Environment,
    Metric,
    MetricKind,
    Revision,
    Run,
    Sample,
    Summary,
)

SOURCE = "pytest-benchmark"
# The tool leaves failed tests out; `pytest_recorder.py` adds them, with their message here.
FAILURE = "perfgate_failure"
TIME = Metric("time", "s", Direction.LOWER, MetricKind.SAMPLED)

_HINT = "write it again with `pytest --benchmark-json=results.json`"
# What the tool writes as commit where it found no repository.
_NO_COMMIT = ("unversioned", "unknown")
_UNREADABLE = "UNSERIALIZABLE["
# Longer parameters are data rather than names.
_LONGEST_PARAMETER = 80
_RUN_ID_DIGITS = 16
# Of a quick function the tool keeps a hundred thousand rounds and more, which say no more about it:
# they share the luck of one process. An odd number, so that the median is among them.
MOST_VALUES = 999


def parse_pytest_benchmark(content: bytes, file: str) -> tuple[Run, ...]:
    """The one run of a file. Raises `UserError` naming the place of what does not fit."""
    document = parse_json(content, file, _HINT)
    results, warnings = read_results(document)
    digest = hashlib.sha256(content).hexdigest()
    finished = _utc(document.get("datetime"))
    return (
        Run(
            run_id=digest[:_RUN_ID_DIGITS],
            revision=_revision(document.get("commit_info"), digest),
            environment=_environment(document.get("machine_info"), document.get("version")),
            started_at=finished,
            finished_at=finished,
            source=SOURCE,
            results=results,
            warnings=warnings,
        ),
    )


def read_results(document: Node) -> tuple[tuple[CaseResult, ...], tuple[str, ...]]:
    """The cases of a document and the doubts about them. No case at all is an error."""
    benchmarks = list(document.get("benchmarks").items())
    if not benchmarks:
        raise document.get("benchmarks").misfit("at least one benchmark")
    results: dict[str, CaseResult] = {}
    warnings: list[str] = []
    for case_id, benchmark in zip(_case_ids(benchmarks), benchmarks, strict=True):
        if case_id in results:
            warnings.append(f"{case_id}: appears twice, the first is kept")
            continue
        results[case_id], doubts = _result(case_id, benchmark)
        warnings += [f"{case_id}: {doubt}" for doubt in doubts]
    return tuple(results.values()), tuple(warnings)


def _result(case_id: str, benchmark: Node) -> tuple[CaseResult, tuple[str, ...]]:
    failure = benchmark.get(FAILURE).value
    if isinstance(failure, str):
        return CaseResult(case_id, CaseStatus.FAILED, message=failure), ()
    sample, doubts = _sample(benchmark.get("stats"))
    return CaseResult(case_id, samples=(sample,), tags=_tags(benchmark)), doubts


# --- case ids -------------------------------------------------------------------------------------


def _case_ids(benchmarks: Iterable[Node]) -> list[str]:
    """Ids by parameters, but the printed names of tests that the parameters do not tell apart."""
    printed = [_printed_name(benchmark) for benchmark in benchmarks]
    ids = [_parameter_id(b, name) for b, name in zip(benchmarks, printed, strict=True)]
    seen = Counter(ids)
    return [id_ if seen[id_] == 1 else name for id_, name in zip(ids, printed, strict=True)]


def _printed_name(benchmark: Node) -> str:
    fullname = benchmark.get("fullname")
    return (fullname if fullname.value is not None else benchmark.get("name")).text()


def _parameter_id(benchmark: Node, printed: str) -> str:
    parameters = benchmark.get("params").value
    name, bracket, _ = printed.partition("[")
    if not bracket or not isinstance(parameters, dict) or not parameters:
        return printed
    plain = {key: _plain(value) for key, value in parameters.items()}
    known = {key: value for key, value in plain.items() if value is not None}
    return format_case_id(name, known) if len(known) == len(plain) else printed


def _plain(value: object) -> ParameterValue | None:
    """A parameter that reads the same on every machine, None for anything else."""
    if isinstance(value, (bool, int, float)):
        return value
    if not isinstance(value, str) or len(value) > _LONGEST_PARAMETER:
        return None
    return None if value.startswith(_UNREADABLE) or not value.isprintable() else value


def _tags(benchmark: Node) -> tuple[str, ...]:
    group, extra = benchmark.get("group").value, benchmark.get("extra_info").value
    tags = [f"group={group}"] if isinstance(group, str) else []
    if isinstance(extra, dict):
        tags += [f"{key}={value}" for key, value in extra.items() if _plain(value) is not None]
    return tuple(tags)


# --- samples --------------------------------------------------------------------------------------


def _sample(stats: Node) -> tuple[Sample, tuple[str, ...]]:
    values = _all_values(stats)
    if len(values) > MOST_VALUES:
        return Sample(TIME, _thinned(values), one_process=True, taken=len(values)), ()
    if values:
        return Sample(TIME, values, one_process=True), ()
    mean, rounds = stats.get("mean").number(), stats.get("rounds").count()
    spread, doubts = _spread(stats, rounds)
    summary = Summary(rounds, mean, "mean", spread)
    if stats.get("data").value:
        doubts = ("not every raw value is in the file, so its statistics are used", *doubts)
    return Sample(TIME, summary=summary, one_process=True), doubts


def _thinned(values: Sequence[float]) -> tuple[float, ...]:
    """`MOST_VALUES` order statistics at even steps, from the smallest to the largest value."""
    ordered, step = sorted(values), (len(values) - 1) / (MOST_VALUES - 1)
    return tuple(ordered[round(step * position)] for position in range(MOST_VALUES))


def _all_values(stats: Node) -> tuple[float, ...]:
    """The raw values if they are all there; people shorten long lists by hand."""
    data = stats.get("data").value
    if not isinstance(data, list) or not data:
        return ()
    values = [number for number in map(as_number, data) if number is not None]
    rounds = stats.get("rounds").value
    complete = len(values) == len(data) and rounds in (None, len(data))
    return tuple(values) if complete else ()


def _spread(stats: Node, rounds: int) -> tuple[float | None, tuple[str, ...]]:
    """The standard deviation, where it is believable."""
    stddev = stats.get("stddev")
    if stddev.value is None or rounds < 2:
        return None, ()
    spread = stddev.number()
    if spread < 0:
        raise stddev.misfit("a number of 0 or more")
    low, high = as_number(stats.get("min").value), as_number(stats.get("max").value)
    if spread == 0 and low != high:
        return None, ("a standard deviation of 0 between different extremes is not believed",)
    return spread, ()


# --- where and when -------------------------------------------------------------------------------


def _revision(commit: Node, digest: str) -> Revision:
    """The commit. What was uncommitted is not known, so each such file is a change of its own."""
    if commit.value is None:
        return Revision("")
    name = _text_of(commit, "id")
    time = commit.get("time")
    return Revision(
        commit="" if name in _NO_COMMIT else name,
        dirty=digest[:_RUN_ID_DIGITS] if commit.get("dirty").value is True else "",
        branch=_branch(_text_of(commit, "branch")),
        committed_at=_utc(time) if time.value else "",
    )


def _branch(name: str) -> str:
    return "" if name.startswith("(") else name


def _environment(machine: Node, version: Node) -> Environment:
    if machine.value is None:
        return Environment()
    cpu = machine.get("cpu").value
    described: Mapping[str, object] = cpu if isinstance(cpu, dict) else {}
    brand = described.get("brand_raw") or described.get("brand") or _text_of(machine, "processor")
    cores = described.get("count")
    implementation = _text_of(machine, "python_implementation")
    return Environment(
        machine=_anonymous(_text_of(machine, "node")),
        cpu=str(brand),
        cores=cores if isinstance(cores, int) else 0,
        os=f"{_text_of(machine, 'system')} {_text_of(machine, 'machine')}".strip(),
        python=f"{implementation} {_text_of(machine, 'python_version')}".strip(),
        facts=_facts(machine, version),
    )


def _facts(machine: Node, version: Node) -> tuple[tuple[str, str], ...]:
    facts = {
        "compiler": _text_of(machine, "python_compiler"),
        "kernel": _text_of(machine, "release"),
        "pytest-benchmark": version.value if isinstance(version.value, str) else "",
    }
    return tuple((name, value) for name, value in facts.items() if value)


def _anonymous(node: str) -> str:
    """A name of the machine that stays the same without being its host name."""
    return hashlib.sha256(f"perfgate:{node}".encode()).hexdigest()[:16] if node else ""


def _text_of(node: Node, key: str) -> str:
    value = node.get(key).value
    return value if isinstance(value, str) else ""


def _utc(node: Node) -> str:
    """A time in UTC; older versions of the tool wrote UTC without saying so."""
    try:
        moment = datetime.fromisoformat(node.text())
    except ValueError:
        raise node.misfit("a time such as 2026-01-31T12:00:00+00:00") from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat()
