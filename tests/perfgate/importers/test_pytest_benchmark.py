"""pytest-benchmark's JSON, old and new, whole and shortened, becomes runs."""

from __future__ import annotations

import copy
import json
import time
from itertools import pairwise
from pathlib import Path

import pytest

from perfgate.effect import centre, count
from perfgate.errors import UserError
from perfgate.importers import import_paths
from perfgate.importers.pytest_benchmark import MOST_VALUES
from perfgate.model import CaseResult, Run, Sample, Summary
from perfgate.store import MemoryStore

VALUES = [0.010, 0.011, 0.012, 0.011, 0.0105]
STATS = {
    "min": 0.010,
    "max": 0.012,
    "mean": 0.0109,
    "stddev": 0.00074,
    "rounds": 5,
    "median": 0.011,
    "iterations": 1,
    "data": VALUES,
}
DOCUMENT = {
    "machine_info": {
        "node": "build-host-7",
        "processor": "x86_64",
        "machine": "x86_64",
        "python_implementation": "CPython",
        "python_version": "3.12.1",
        "python_compiler": "GCC",
        "release": "6.1",
        "system": "Linux",
        "cpu": {"brand_raw": "Some CPU", "count": 8},
    },
    "commit_info": {
        "id": "a" * 40,
        "time": "2026-01-31T12:00:00+09:00",
        "dirty": False,
        "branch": "main",
    },
    "benchmarks": [
        {
            "group": "sorting",
            "name": "test_sort[10-quick]",
            "fullname": "tests/test_sort.py::test_sort[10-quick]",
            "params": {"n": 10, "how": "quick"},
            "param": "10-quick",
            "extra_info": {"items": 10, "note": {"deep": 1}},
            "options": {},
            "stats": STATS,
        }
    ],
    "datetime": "2026-01-31T03:00:01.250000",
    "version": "5.3.1",
}


def changed(**parts: object) -> dict[str, object]:
    return copy.deepcopy(DOCUMENT) | parts


def benchmark(**parts: object) -> dict[str, object]:
    return copy.deepcopy(DOCUMENT["benchmarks"][0]) | parts  # type: ignore[index, operator]


def write(folder: Path, document: object, name: str = "results.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(
        document if isinstance(document, str) else json.dumps(document), encoding="utf-8"
    )
    return file


def load(folder: Path, document: object) -> Run:
    (run,) = import_paths("pytest-benchmark", [write(folder, document)])
    return run


def first(run: Run) -> CaseResult:
    return run.results[0]


def sample(run: Run) -> Sample:
    return first(run).samples[0]


def refused(folder: Path, document: object) -> str:
    with pytest.raises(UserError) as caught:
        load(folder, document)
    assert "--benchmark-json" in caught.value.hint
    return caught.value.message.removeprefix(f"{folder / 'results.json'}: ")


def test_a_file_becomes_one_finished_run(tmp_path: Path) -> None:
    run = load(tmp_path, DOCUMENT)

    assert run.source == "pytest-benchmark"
    assert run.started_at == run.finished_at == "2026-01-31T03:00:01.250000+00:00"
    assert (run.revision.commit, run.revision.dirty) == ("a" * 40, "")
    assert run.revision.committed_at == "2026-01-31T03:00:00+00:00"
    assert run.environment.cpu == "Some CPU"
    assert run.environment.cores == 8
    assert run.environment.python == "CPython 3.12.1"
    assert run.warnings == ()


def test_a_time_without_a_zone_is_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        run = load(tmp_path, DOCUMENT)
    finally:
        monkeypatch.undo()
        time.tzset()

    assert run.started_at == "2026-01-31T03:00:01.250000+00:00"


def test_the_host_name_is_not_kept(tmp_path: Path) -> None:
    environment = load(tmp_path, DOCUMENT).environment

    assert environment.machine
    assert "build-host-7" not in repr(environment)


def test_raw_values_are_taken_where_the_file_has_them(tmp_path: Path) -> None:
    found = sample(load(tmp_path, DOCUMENT))

    assert found.values == tuple(VALUES)
    assert found.one_process
    assert (found.metric.name, found.metric.unit) == ("time", "s")


@pytest.mark.parametrize("data", [None, [], VALUES[:3], [*VALUES[:4], "... left out"], [True] * 5])
def test_without_all_raw_values_the_statistics_are_taken(tmp_path: Path, data: object) -> None:
    run = load(tmp_path, changed(benchmarks=[benchmark(stats=STATS | {"data": data})]))

    assert sample(run).summary == Summary(5, 0.0109, "mean", 0.00074)
    assert bool(run.warnings) is bool(data)


@pytest.mark.parametrize("rounds", [1000, 1001, 54_321])
def test_of_many_rounds_evenly_spaced_order_statistics_are_kept(
    tmp_path: Path, rounds: int
) -> None:
    data = [1.0 + (7919 * n) % rounds for n in range(rounds)]
    stats = STATS | {"rounds": rounds, "data": data}

    kept = sample(load(tmp_path, changed(benchmarks=[benchmark(stats=stats)])))

    assert (len(kept.values), kept.taken, count(kept)) == (MOST_VALUES, rounds, rounds)
    assert (kept.values[0], kept.values[-1]) == (1.0, rounds)
    assert abs(centre(kept) - (rounds + 1) / 2) <= 0.5
    steps = {b - a for a, b in pairwise(kept.values)}
    assert max(steps) - min(steps) <= 1


def test_as_many_rounds_as_are_kept_stay_as_they_are(tmp_path: Path) -> None:
    data = [1.0 + (7919 * n) % MOST_VALUES for n in range(MOST_VALUES)]
    stats = STATS | {"rounds": MOST_VALUES, "data": data}

    kept = sample(load(tmp_path, changed(benchmarks=[benchmark(stats=stats)])))

    assert (kept.values, kept.taken) == (tuple(data), 0)


def test_a_standard_deviation_of_zero_is_not_believed(tmp_path: Path) -> None:
    """A real saved run has one: 11,009 rounds between 0.22 and 7.7 us with no deviation at all."""
    stats = {k: v for k, v in STATS.items() if k != "data"} | {"stddev": 0}

    run = load(tmp_path, changed(benchmarks=[benchmark(stats=stats)]))

    assert sample(run).summary == Summary(5, 0.0109, "mean", None)
    assert "deviation of 0" in run.warnings[0]


def test_parameters_become_the_case_id(tmp_path: Path) -> None:
    assert (
        first(load(tmp_path, DOCUMENT)).case_id == "tests/test_sort.py::test_sort[how=quick,n=10]"
    )


@pytest.mark.parametrize("value", ["UNSERIALIZABLE[<object at 0x7f>]", [1], None, "x" * 81, "a\nb"])
def test_parameters_that_are_no_names_leave_the_printed_id(tmp_path: Path, value: object) -> None:
    run = load(tmp_path, changed(benchmarks=[benchmark(params={"n": 10, "how": value})]))

    assert first(run).case_id == "tests/test_sort.py::test_sort[10-quick]"


def test_parameters_that_do_not_tell_tests_apart_leave_the_printed_ids(tmp_path: Path) -> None:
    twins = [benchmark(), benchmark(fullname="tests/test_sort.py::test_sort[10-other]")]

    run = load(tmp_path, changed(benchmarks=twins))

    assert [r.case_id.partition("[")[2] for r in run.results] == ["10-quick]", "10-other]"]


def test_a_test_that_appears_twice_is_kept_once_and_told(tmp_path: Path) -> None:
    run = load(tmp_path, changed(benchmarks=[benchmark(), benchmark()]))

    assert len(run.results) == 1
    assert "appears twice" in run.warnings[0]


def test_group_and_plain_extras_become_tags(tmp_path: Path) -> None:
    assert first(load(tmp_path, DOCUMENT)).tags == ("group=sorting", "items=10")


def test_an_old_file_without_the_newer_fields_is_read(tmp_path: Path) -> None:
    old = {
        "benchmarks": [
            {
                "name": "test_x[0]",
                "fullname": "t.py::test_x[0]",
                "group": None,
                "stats": {k: v for k, v in STATS.items() if k != "data"},
            }
        ],
        "commit_info": {"id": "b" * 40, "dirty": True},
        "machine_info": {"system": "Linux", "machine": "x86_64"},
        "datetime": "2015-08-15T00:01:46.250433+00:00",
        "version": "2.5.0",
    }

    run = load(tmp_path, old)

    assert first(run).case_id == "t.py::test_x[0]"
    assert run.revision.dirty


@pytest.mark.parametrize("name", ["unversioned", "unknown"])
def test_outside_a_repository_there_is_no_commit(tmp_path: Path, name: str) -> None:
    run = load(tmp_path, changed(commit_info={"id": name, "dirty": False, "branch": "(unknown)"}))

    assert (run.revision.commit, run.revision.branch) == ("", "")


def test_importing_again_changes_nothing(tmp_path: Path) -> None:
    store = MemoryStore([load(tmp_path / "a", DOCUMENT)])

    store.add_run(load(tmp_path / "b", DOCUMENT))

    assert len(store.runs()) == 1


def test_a_folder_gives_all_its_saved_runs_once(tmp_path: Path) -> None:
    later = changed(datetime="2026-02-01T00:00:00")
    write(tmp_path / "Linux", DOCUMENT, "0001_a.json")
    write(tmp_path / "Linux", later, "0002_a.json")
    write(tmp_path / "copy", DOCUMENT, "0001_a.json")
    write(tmp_path, "notes", "README.md")

    runs = import_paths("pytest-benchmark", [tmp_path])

    assert [run.started_at[:10] for run in runs] == ["2026-01-31", "2026-02-01"]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("", "the file is empty"),
        ("[]", "the document: expected an object, got []"),
        ("{}", "benchmarks: expected a list, found nothing"),
        (changed(benchmarks=[]), "benchmarks: expected at least one benchmark, got []"),
        (changed(benchmarks=[3]), "benchmarks[0]: expected an object, got 3"),
        (
            changed(benchmarks=[{"stats": STATS}]),
            "benchmarks[0].name: expected text, found nothing",
        ),
        (
            changed(benchmarks=[benchmark(stats={"rounds": 3})]),
            "benchmarks[0].stats.mean: expected a number, found nothing",
        ),
        (
            changed(benchmarks=[benchmark(stats={"rounds": 0, "mean": 1})]),
            "benchmarks[0].stats.rounds: expected a whole number above 0, got 0",
        ),
        (
            changed(benchmarks=[benchmark(stats={"rounds": 3, "mean": 1, "stddev": -1})]),
            "benchmarks[0].stats.stddev: expected a number of 0 or more, got -1",
        ),
        (changed(datetime="yesterday"), "datetime: expected a time such as"),
        (changed(commit_info=[1]), "commit_info: expected an object, got [1]"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, document: object, message: str) -> None:
    assert refused(tmp_path, document).startswith(message)


def test_not_a_number_is_named_with_line_and_column(tmp_path: Path) -> None:
    text = json.dumps(DOCUMENT, indent=1).replace("0.0109", "NaN")

    line = text[: text.index("NaN")].count("\n") + 1
    assert refused(tmp_path, text).startswith(f"line {line}, column ")


def test_one_broken_file_in_a_folder_fails_the_import(tmp_path: Path) -> None:
    write(tmp_path, DOCUMENT, "1.json")
    write(tmp_path, '{"benchmarks": [', "2.json")

    with pytest.raises(UserError, match=r"2\.json: line 1, column 17: the file ends too early"):
        import_paths("pytest-benchmark", [tmp_path])


def test_paths_and_formats_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        import_paths("pytest-benchmark", [tmp_path / "none.json"])
    with pytest.raises(UserError, match=r"no \*\.json file in this folder"):
        import_paths("pytest-benchmark", [tmp_path])
    with pytest.raises(UserError, match="unknown format 'pytestbenchmark'") as caught:
        import_paths("pytestbenchmark", [tmp_path])
    assert caught.value.hint == "did you mean pytest-benchmark?"
