import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.figures import (
    format_change,
    format_duration,
    format_interval,
    format_sides,
    format_step,
    format_value,
    plural,
    sparkline,
)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1536.0, "bytes", "1.500 KiB"),
        (0.0, "bytes", "0 B"),
        (1000.0, "us", "1.000 ms"),
        (51.803, "us", "51.80 µs"),
        (0.0105, "s", "10.50 ms"),
        (3e-13, "s", "0.3000 ps"),
        (120.0, "s", "120.0 s"),
        (45.25, "percent", "45.25 %"),
        (1234567.0, "1", "1,234,567"),
        (2.5e9, "1", "2,500,000,000"),
        (12345678.5, "1", "12,345,678"),
        (1234.5, "GB/s", "1,234 GB/s"),
        (2.5e12, "1", "2.5e+12"),
        (-3.0, "ms", "-3.000 ms"),
        (12.5, "GB/s", "12.50 GB/s"),
        (None, "us", "-"),
    ],
)
def test_a_value_is_shown_in_the_unit_that_fits(value, unit, text):
    assert format_value(value, unit) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.0, "0 %"),
        (1.02, "+2.00 %"),
        (0.9, "-10.0 %"),
        (1.0005, "+0.050 %"),
        (1 + 1e-9, "+<0.001 %"),
        (1 - 1e-9, "-<0.001 %"),
        (1.994, "+99.4 %"),
        (2.0, "2.000×"),
        (12.5, "12.50×"),
        (769.23, "769.2×"),
        (76923.1, "76,923×"),
        (None, ""),
    ],
)
def test_a_change_is_a_signed_percentage_below_twofold(ratio, text):
    assert format_change(ratio) == text


@given(st.floats(0, 1e6))
def test_a_change_that_is_not_zero_never_reads_as_zero(ratio):
    shown = format_change(ratio)

    assert any(digit in shown for digit in "123456789") == (ratio != 1.0)


def test_an_interval_of_one_point_is_not_an_interval():
    assert format_interval(1.02, 1.02) == ""
    assert format_interval(0.99, 1.02) == "-1.00 % … +2.00 %"


def test_durations_grow_into_minutes():
    assert [format_duration(s) for s in (0.2, 3.44, 125)] == ["0.20 s", "3.4 s", "2 min 05 s"]


def test_a_sparkline_spans_lowest_to_highest_and_keeps_the_newest():
    assert sparkline([1, 2, 3]) == "▁▅█"
    assert sparkline([5, 5]) == "▁▁"
    assert sparkline([9, 1, 2], width=2) == "▁█"
    assert sparkline([]) == ""


def test_one_is_singular():
    assert [plural(n, "case") for n in (0, 1, 2000)] == ["0 cases", "1 case", "2,000 cases"]


def test_two_values_get_the_digits_that_tell_them_apart():
    assert format_sides(100.0, 102.0, "us") == ("100.0 µs", "102.0 µs")
    assert format_sides(100.0, 100.02, "us") == ("100.00 µs", "100.02 µs")
    assert format_sides(100.0, 100.002, "bytes") == ("100 B", "100.002 B")
    assert format_sides(5.0, 5.0, "s") == ("5.000 s", "5.000 s")
    assert format_sides(None, 5.0, "s") == ("-", "5.000 s")


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_different_values_never_read_the_same(base, head):
    before, after = format_sides(base, head, "us")

    assert (before == after) == (base == head)


def test_a_step_names_its_unit_once_where_it_can():
    assert format_step(100.0, 102.0, "us") == "100.0 → 102.0 µs"
    assert format_step(900.0, 1100.0, "us") == "900.0 µs → 1.100 ms"
    assert format_step(13, 10000, "1") == "13 → 10,000"
