import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from perfgate.report.chart import (
    HEIGHT,
    WIDTH,
    Dot,
    nice_ticks,
    spark_chart,
    trend_chart,
    value_range,
)


def dot(value, low=None, high=None, group=0):
    low, high = (value if low is None else low), (value if high is None else high)
    return Dot(value, low, high, "abc1234", "2026-01-01", group)


def test_ticks_are_round_numbers_inside_the_range():
    assert nice_ticks(0, 10) == (0, 2, 4, 6, 8, 10)
    assert nice_ticks(121.6, 124.2) == (122, 122.5, 123, 123.5, 124)
    assert nice_ticks(5, 5) == (5,)


@given(st.floats(-1e6, 1e6), st.floats(0.1, 1e9))
def test_there_are_always_a_few_ticks(low, span):
    ticks = nice_ticks(low, low + span)

    assert 3 <= len(ticks) <= 8
    assert all(low - span * 1e-6 <= tick <= low + span * (1 + 1e-6) for tick in ticks)


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=30))
def test_a_chart_is_well_formed_and_every_point_is_inside(values):
    svg = trend_chart("a title", [dot(value) for value in values], "us")

    ElementTree.fromstring(svg)
    places = [
        place for d in re.findall(r'class="dots[^"]*" d="([^"]*)"', svg) for place in d.split("h0")
    ]
    points = [tuple(map(float, place[1:].split())) for place in places if place]
    assert len(points) == len(values)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)


def test_a_chart_of_few_runs(golden):
    dots = [dot(10.0), dot(10.2, 10.1, 10.4, group=1), dot(9.0)]

    golden("trend.svg", trend_chart('x<y> & "z"', dots, "ms", reference=9.5) + "\n")


def test_a_flat_series_is_not_blown_up():
    low, high = value_range([dot(100.0), dot(100.0)])

    assert high - low >= 2
    assert low < 100 < high


def test_a_far_reference_does_not_flatten_the_series():
    assert value_range([dot(1.0), dot(1.1)], reference=50.0)[1] < 2
    assert "published" not in trend_chart("t", [dot(1.0)], "us", reference=50.0)
    assert "published" in trend_chart("t", [dot(1.0)], "us", reference=1.2)


def test_no_runs_no_chart():
    assert trend_chart("t", [], "us") == ""
    assert spark_chart([1.0]) == ""


def test_nothing_but_zeros_does_not_show_negative_values():
    assert value_range([dot(0.0), dot(0.0)]) == (0.0, 1.0)


def test_small_screens_keep_the_labels_that_have_room():
    kept = [
        re.findall(r'class="(x[^"]*)"', trend_chart("t", [dot(1.0)] * count, "s"))
        for count in (1, 2, 3, 6)
    ]

    assert kept[:3] == [["x"], ["x newest", "x oldest"], ["x newest", "x", "x oldest"]]
    assert kept[3] == ["x newest", *["x minor"] * 4, "x oldest"]


def test_only_runs_of_one_environment_are_joined():
    svg = trend_chart("t", [dot(1.0), dot(2.0, group=1), dot(1.0)], "s")

    assert svg.count('class="line g0"') == 1
    assert svg.count('class="line g1"') == 1


def test_two_hundred_runs_stay_small():
    assert len(trend_chart("t", [dot(float(i % 7)) for i in range(200)], "us")) < 8_000
