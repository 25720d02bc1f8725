"""Declaring benchmarks: what is accepted, what it expands to, and what is refused at import."""

from __future__ import annotations

from pathlib import Path

import pytest

import perfgate
from perfgate import Metric, MetricKind, Rounds
from perfgate.errors import UserError
from perfgate.suite.benchmark import WALL_TIME, Case, benchmark, benchmark_of, cases_of

CYCLES = Metric("cycles", "1", kind=MetricKind.EXACT)


def walk(n=1, chip="trn1"):
    return {"cycles": n}


def expand(function) -> list[Case]:
    record = benchmark_of(function)
    assert record is not None
    return list(cases_of(record, "kernels", Path("/s"), Path("/s/kernels.py")))


def declare(**arguments):
    def function(n=1, chip="trn1"):
        return {"cycles": n}

    return benchmark(**arguments)(function)


def test_the_decorated_function_stays_the_function():
    def function():
        return {"cycles": 1}

    assert benchmark(metrics=[CYCLES])(function) is function


def test_a_mapping_of_sequences_gives_every_combination():
    cases = expand(declare(metrics=[CYCLES], params={"n": [1, 2], "chip": ["trn1", "trn2"]}))

    assert [case.case_id for case in cases] == [
        "kernels.function[chip=trn1,n=1]",
        "kernels.function[chip=trn2,n=1]",
        "kernels.function[chip=trn1,n=2]",
        "kernels.function[chip=trn2,n=2]",
    ]


def test_a_sequence_of_mappings_is_taken_as_it_is():
    cases = expand(declare(metrics=[CYCLES], params=[{"n": 1}, {"n": 2, "chip": "trn2"}]))

    assert [case.parameters for case in cases] == [(("n", 1),), (("n", 2), ("chip", "trn2"))]


def test_no_parameters_is_one_case_without_brackets():
    assert [case.case_id for case in expand(declare(metrics=[CYCLES], name="other"))] == [
        "kernels.other"
    ]


def test_a_sampled_benchmark_without_metrics_measures_wall_time():
    record = benchmark_of(declare(sampled=True))

    assert record is not None
    assert record.metrics == (WALL_TIME,)
    assert WALL_TIME.kind is MetricKind.SAMPLED


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "an exact benchmark declares no metric"),
        ({"metrics": [Metric("t", "s")]}, "metric t is sampled, needs exact"),
        ({"metrics": [CYCLES], "sampled": True}, "metric cycles is exact, needs sampled"),
        ({"metrics": [CYCLES, CYCLES]}, "declared twice"),
        ({"metrics": [CYCLES], "params": {"n": []}}, "params give no case"),
        ({"metrics": [CYCLES], "params": []}, "params give no case"),
        ({"metrics": [CYCLES], "params": {"n": [(1, 2)]}}, r"parameter n is tuple \(1, 2\)"),
        ({"metrics": [CYCLES], "params": {"size": [1]}}, "function does not take its parameters"),
        ({"metrics": [CYCLES], "params": {"n": [1]}, "digest": lambda: ""}, "does not take"),
        ({"metrics": [CYCLES], "timeout_s": 0}, "timeout_s is 0"),
        ({"sampled": True, "digest": lambda: ""}, "a sampled benchmark has a digest"),
        ({"sampled": True, "rounds": Rounds(processes=0)}, "processes=0"),
        ({"sampled": True, "timeout_s": float("inf")}, "timeout_s is inf"),
        ({"sampled": True, "rounds": Rounds(min_rounds=9, max_rounds=3)}, "min_rounds=9"),
    ],
)
def test_a_wrong_declaration_is_refused_with_a_hint(arguments, message):
    with pytest.raises(UserError, match=message) as caught:
        declare(**arguments)

    assert caught.value.hint


def test_a_decorator_without_brackets_is_told_to_have_them():
    with pytest.raises(TypeError):
        benchmark(walk)  # type: ignore[call-arg,misc]


def test_only_a_function_can_be_a_benchmark():
    with pytest.raises(UserError, match="expected a function, got type"):
        benchmark(metrics=[CYCLES])(int)


def test_decorating_twice_is_refused():
    with pytest.raises(UserError, match="decorated twice"):
        benchmark(metrics=[CYCLES])(declare(metrics=[CYCLES]))


@pytest.mark.parametrize("name", perfgate.__all__)
def test_every_public_name_is_there(name):
    assert getattr(perfgate, name) is not None


def test_an_unknown_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = perfgate.nothing
