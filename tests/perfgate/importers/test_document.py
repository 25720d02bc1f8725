"""JSON from strangers: what is wrong is named with line and column, or with its path."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.errors import UserError
from perfgate.importers.document import Node, as_number, parse_json

data = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def refused(content: str | bytes) -> str:
    raw = content if isinstance(content, bytes) else content.encode()
    with pytest.raises(UserError) as caught:
        parse_json(raw, "f.json", "the hint")
    assert caught.value.hint == "the hint"
    assert "\n" not in caught.value.message
    return caught.value.message


@given(data)
def test_what_json_writes_is_read_back(value: object) -> None:
    assert parse_json(json.dumps(value).encode(), "f", "").value == value


def test_a_byte_order_mark_is_no_harm() -> None:
    assert parse_json(b"\xef\xbb\xbf[1]", "f", "").value == [1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "f.json: the file is empty"),
        (" \n", "f.json: the file is empty"),
        ('{"a": [1,\n 2', "f.json: line 2, column 3: the file ends too early"),
        ('{"a": "b', "f.json: line 1, column 7: the file ends too early"),
        ('{"a": 1,\n "b" 2}', "f.json: line 2, column 6: not JSON: expecting ':' delimiter"),
        ("[1] [2]", "f.json: line 1, column 5: not JSON: extra data"),
        (
            '{"NaN \\" Infinity": 1,\n "b": NaN}',
            "f.json: line 2, column 7: expected a finite number, got NaN",
        ),
        ("[1,\n  -Infinity]", "f.json: line 2, column 3: expected a finite number, got -Infinity"),
        ("[1.5, 1e999]", "f.json: line 1, column 7: expected a finite number, got 1e999"),
        (b'["\xff"]', "f.json: line 1: not UTF-8 text"),
        ("[" * 100_000, "f.json: nested too deeply to be results"),
    ],
)
def test_broken_files_name_the_place(content: str | bytes, message: str) -> None:
    assert refused(content) == message


def test_an_integer_of_thousands_of_digits_is_no_number() -> None:
    assert "line 1, column 2: expected a finite number" in refused(f"[{'9' * 5000}]")


@given(data.map(lambda value: json.dumps({"k": value})), st.integers(0, 200))
def test_a_cut_off_file_is_never_accepted(text: str, keep: int) -> None:
    cut = text[: min(keep, len(text) - 1)]

    assert refused(cut)


@pytest.mark.parametrize("value", [None, True, "1", float("nan"), float("inf"), 10**400])
def test_only_finite_numbers_are_numbers(value: object) -> None:
    assert as_number(value) is None


def test_a_misfit_names_its_path() -> None:
    node = Node({"a": [{"b": "x"}]}, "f.json", "", "hint")

    with pytest.raises(UserError) as caught:
        next(node.get("a").items()).get("b").number()

    assert caught.value.message == "f.json: a[0].b: expected a number, got 'x'"
