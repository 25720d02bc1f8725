"""Case ids are stable, readable, and can be taken apart again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.caseid import format_case_id, parse_case_id

texts = st.text() | st.text("[],=%\n\0 ab2", max_size=8)
values = texts | st.integers() | st.booleans() | st.floats(allow_nan=False)


@pytest.mark.parametrize(
    ("name", "parameters", "case_id"),
    [
        ("kernels.matmul", {}, "kernels.matmul"),
        ("kernels.matmul", None, "kernels.matmul"),
        ("kernels.matmul", {"m": 512, "chip": "trn2"}, "kernels.matmul[chip=trn2,m=512]"),
        ("a", {"on": True, "off": False, "x": 0.5}, "a[off=false,on=true,x=0.5]"),
        ("a", {"shape": "[1, 2]"}, "a[shape=%5B1%2C 2%5D]"),
        ("a[b]", {"k=": "50%\n"}, "a%5Bb%5D[k%3D=50%25%0A]"),
        ("größe", {"τ": "µs"}, "größe[τ=µs]"),
    ],
)
def test_an_id_is_written_in_one_way(name: str, parameters: dict[str, str], case_id: str) -> None:
    assert format_case_id(name, parameters) == case_id


@given(texts, st.dictionaries(texts, values))
def test_an_id_can_be_taken_apart(
    name: str, parameters: dict[str, str | int | float | bool]
) -> None:
    case_id = format_case_id(name, parameters)
    parsed_name, parsed = parse_case_id(case_id)

    assert parsed_name == name
    assert parsed.keys() == parameters.keys()
    assert all(parsed[name] == value for name, value in parameters.items() if type(value) is str)
    assert format_case_id(parsed_name, parsed) == case_id


@given(st.dictionaries(texts, values))
def test_the_order_of_parameters_does_not_matter(
    parameters: dict[str, str | int | float | bool],
) -> None:
    backwards = dict(reversed(parameters.items()))

    assert format_case_id("b", backwards) == format_case_id("b", parameters)


@pytest.mark.parametrize(
    "foreign", ["test_x[1-2]", "test_x[100%25-a]", "a[b][c]", "a]b[", "BM_f/8", "f[]", "f[a=1]x%41"]
)
def test_an_id_of_another_tool_stays_whole(foreign: str) -> None:
    assert parse_case_id(foreign) == (foreign, {})
