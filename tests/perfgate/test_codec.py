"""Records become JSON and come back; what does not fit is refused by the path to it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate import codec
from perfgate.errors import UserError
from perfgate.model import (
    SCHEMA_VERSION,
    CaseResult,
    Comparison,
    Decision,
    Direction,
    Environment,
    GateResult,
    Metric,
    MetricKind,
    ProfileNode,
    Revision,
    Run,
    Sample,
    Summary,
    Verdict,
    Word,
)
from tests.perfgate.records import runs

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def run_data(**changed: Any) -> dict[str, Any]:
    """A run as JSON data, small enough to break in one place."""
    sample = {"metric": {"name": "t", "unit": "s"}, "values": [1.0, 2.0]}
    data: dict[str, Any] = {
        "run_id": "r",
        "revision": {"commit": "c"},
        "environment": {"cores": 2, "facts": [["a", "b"]]},
        "started_at": "2025-01-01T00:00:00+00:00",
        "results": [
            {
                "case_id": "x",
                "samples": [sample],
                "profile": {"name": "p", "attributes": [["a", 1]], "children": [{"name": "q"}]},
            }
        ],
    }
    return data | changed


def places(data: Any, path: str = "Run") -> list[tuple[str, Any, Any]]:
    """(path, container, key) of everything inside `data`."""
    if isinstance(data, dict):
        items = [(f"{path}.{name}", name) for name in data]
    elif isinstance(data, list):
        items = [(f"{path}[{i}]", i) for i in range(len(data))]
    else:
        return []
    deeper = [place for inner, key in items for place in places(data[key], inner)]
    return [(inner, data, key) for inner, key in items] + deeper


@settings(max_examples=40)
@given(runs())
def test_a_run_comes_back_from_json(run: Run) -> None:
    assert codec.decode(Run, json.loads(json.dumps(codec.encode(run)))) == run


def test_a_gate_result_comes_back_from_json() -> None:
    head = codec.decode(Run, run_data())
    metric = Metric("t", "s", Direction.HIGHER, MetricKind.EXACT)
    comparison = Comparison(
        "x", metric, 1.0, None, None, 0.5, 2.0, 0.01, Decision.INCONCLUSIVE, True, "m", "r", 3, 0
    )
    gate = GateResult(None, head, (Verdict("x", Word.RENAMED, (comparison,), "why"),), ("w",))

    assert codec.decode(GateResult, json.loads(json.dumps(codec.encode(gate)))) == gate


def test_what_equals_its_default_is_left_out() -> None:
    assert codec.encode(Environment()) == {}
    assert codec.encode(Metric("t", "s")) == {"name": "t", "unit": "s"}
    assert codec.encode(Metric("t", "s", Direction.HIGHER)) == {
        "name": "t",
        "unit": "s",
        "direction": "higher",
    }
    assert codec.encode(CaseResult("x", cached=True)) == {"case_id": "x", "cached": True}


def test_the_schema_version_is_written_once_it_changes() -> None:
    run = codec.decode(Run, run_data(schema_version=SCHEMA_VERSION + 1))

    assert codec.encode(run)["schema_version"] == SCHEMA_VERSION + 1


def test_whole_numbers_are_read_where_numbers_are_asked_for() -> None:
    summary = codec.decode(Summary, {"n": 3, "centre": 2, "spread": 1})

    assert summary == Summary(3, 2.0, spread=1.0)
    assert type(summary.centre) is float


@pytest.mark.parametrize("value", ["text", 3, 0.5, True, -(2**60)])
def test_an_attribute_keeps_its_type(value: str | float) -> None:
    node = ProfileNode("p", attributes=(("a", value),))
    (attribute,) = codec.decode(ProfileNode, codec.encode(node)).attributes

    assert attribute == ("a", value)
    assert type(attribute[1]) is type(value)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"results": 3}, "Run.results: expected a list, got 3"),
        ({"results": [{}]}, "Run.results[0]: missing field case_id"),
        ({"results": [None]}, "Run.results[0]: expected an object, got None"),
        ({"run_id": 7}, "Run.run_id: expected text, got 7"),
        ({"revision": {"commit": None}}, "Run.revision.commit: expected text, got None"),
        ({"environment": {"cores": 2.5}}, "Run.environment.cores: expected an integer, got 2.5"),
        ({"environment": {"cores": True}}, "Run.environment.cores: expected an integer, got True"),
        (
            {"environment": {"facts": [["a"]]}},
            "Run.environment.facts[0]: expected 2 items, got ['a']",
        ),
        ({"colour": 1}, "Run: unknown field 'colour'"),
        ({"x" * 100: 1}, "Run: unknown field '" + "x" * 56 + "..."),
        (
            {"results": [{"case_id": "x", "status": "fine"}]},
            "Run.results[0].status: expected one of ok, failed, timed-out, not-run, got 'fine'",
        ),
        (
            {"results": [{"case_id": "x", "cached": 1}]},
            "Run.results[0].cached: expected true or false, got 1",
        ),
        (
            {"results": [{"case_id": "x", "profile": {"name": "p", "children": [{"name": []}]}}]},
            "Run.results[0].profile.children[0].name: expected text, got []",
        ),
        (
            {"results": [{"case_id": "x", "profile": {"name": "p", "attributes": [["a", None]]}}]},
            "Run.results[0].profile.attributes[0][1]: expected text, an integer, a finite number "
            "or true or false, got None",
        ),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        codec.decode(Run, run_data(**changed))

    assert caught.value.message == message
    assert caught.value.hint


@pytest.mark.parametrize("number", [float("nan"), float("inf"), "1", None, True, 10**400])
def test_a_value_is_a_finite_number(number: Any) -> None:
    sample = {"metric": {"name": "t", "unit": "s"}, "values": [1.0, number]}

    with pytest.raises(UserError, match=r"^Sample\.values\[1\]: expected a finite number, got "):
        codec.decode(Sample, sample)


@pytest.mark.parametrize(
    "fields",
    [{}, {"values": []}, {"values": [1.0], "summary": {"n": 1, "centre": 1.0}}],
)
def test_a_sample_has_values_or_a_summary(fields: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"^s: t: a sample needs values or a summary"):
        codec.decode(Sample, {"metric": {"name": "t", "unit": "s"}, **fields}, "s")


def test_every_missing_field_is_named() -> None:
    with pytest.raises(UserError, match=r"^Run: missing field run_id, environment$"):
        codec.decode(Run, {"revision": {"commit": "c"}, "started_at": ""})


def test_bottomless_data_is_refused() -> None:
    node: dict[str, Any] = {"name": "p"}
    for _ in range(10_000):
        node = {"name": "p", "children": [node]}

    with pytest.raises(UserError, match=r"^profile: nested too deeply"):
        codec.decode(ProfileNode, node, "profile")
    while node := (node.get("children") or [None])[0]:
        pass  # taken apart from the outside: freeing it in one go would recurse as deeply


@settings(max_examples=40)
@given(st.data(), JSON_VALUES)
def test_broken_data_is_read_or_refused_but_never_crashes(data: st.DataObject, wrong: Any) -> None:
    broken = run_data()
    path, container, key = data.draw(st.sampled_from(places(broken)))
    container[key] = wrong

    try:
        decoded = codec.decode(Run, broken)
    except UserError as error:
        problem = error.message
    else:
        assert codec.decode(Run, codec.encode(decoded)) == decoded
        return
    assert problem.startswith((path, path.rpartition(".")[0], path.rpartition("[")[0]))
    assert "\n" not in problem


def test_a_revision_needs_only_its_commit() -> None:
    assert codec.decode(Revision, {"commit": ""}) == Revision("")
