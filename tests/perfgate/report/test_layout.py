import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.report.layout import Table, lay

TABLE = Table(
    ("chip", "rows", "latency_us", "hbm_bytes", "spill_bytes", "took"),
    (
        ("trn1", "4096", "473.0 µs", "4.395 MiB", "0 B", "cached"),
        ("trn2", "1", "1.000 ms", "24.00 KiB", "0 B", "0.25 s"),
    ),
    right=frozenset({1, 2, 3, 4, 5}),
    title="kernels.rmsnorm  dtype=bfloat16 columns=4096",
    keys=2,
    spare=(4, 3),
)


def lines(table, width=None):
    return ["".join(cell.text for cell in line) for line in lay(table, width).lines]


def test_a_table_with_room_is_whole(golden):
    golden("layout.txt", "\n\n".join("\n".join(lines(TABLE, w)) for w in (80, 50, 36, 26)) + "\n")


def test_what_is_left_out_is_told():
    assert lay(TABLE).left_out == ()
    assert lay(TABLE, 50).left_out == ("spill_bytes",)
    assert lay(TABLE, 30).left_out == ("hbm_bytes", "spill_bytes")


@pytest.mark.parametrize("width", [40, 60])
def test_only_a_column_that_allows_it_is_cut(width):
    table = Table(("commit", "subject"), (("c1", "x" * 100),), cut=1)

    assert max(map(len, lines(table, width))) == width
    assert lines(table, width)[1].endswith("x…")
    assert lines(table)[1].endswith("x" * 100)


def test_a_row_too_wide_has_its_name_on_a_line_of_its_own():
    table = Table(("case", "time"), (("tests/a.py::test_long_name", "1 s"),), keys=1)

    assert lines(table, 26) == ["  time", "tests/a.py::test_long_name", "  1 s"]


@given(st.integers(30, 120))
def test_lines_fit_wherever_the_narrowest_form_does(width):
    assert max(map(len, lines(TABLE, width))) <= width


@given(st.integers(1, 200))
def test_no_width_loses_a_key_or_the_first_metric(width):
    shown = "\n".join(lines(TABLE, width))

    assert all(part in shown for part in ("trn1", "4096", "473.0 µs", "cached", "1.000 ms"))
