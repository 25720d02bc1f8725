"""`accel sweep` and `accel diff`: rows are what `accel run` says, differences add up."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings

from accel.chip import CHIPS
from accel.cli import main
from accel.cli.sweeping import parse_sweep
from accel.errors import UserError
from accel.sim import simulate
from accel.sim.difference import difference_of
from tests.accel.sim.strategies import programs

SILU = "docs/examples/silu.py:silu"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code, stdout and stderr of an `accel` command."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def latency(run: Run, *options: str) -> float:
    return json.loads(run("run", SILU, *options, "--json")[1])["metrics"]["latency_us"]


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("rows=128..1024:*2", (128, 256, 512, 1024)),
        ("rows=128..1000:*2", (128, 256, 512)),
        ("rows=1..9:+4", (1, 5, 9)),
        ("rows=3", (3,)),
        ("rows=7,1,3", (7, 1, 3)),
    ],
)
def test_sizes_are_ranges_or_lists(text: str, sizes: tuple[int, ...]) -> None:
    assert parse_sweep(text) == ("rows", sizes)


@pytest.mark.parametrize(
    "text",
    ["rows", "rows=", "=4", "rows=a", "rows=1..4", "rows=1..8:*1", "rows=1..8:+0", "rows=0,1",
     "rows=9..8:+1", "rows=0..8:*2"],
)  # fmt: skip
def test_anything_else_is_an_error_with_what_to_write(text: str) -> None:
    with pytest.raises(UserError) as error:
        parse_sweep(text)
    assert "128..8192:*2" in error.value.hint


def test_each_row_of_a_sweep_is_what_a_run_says(run: Run) -> None:
    sweep = ("--input", "x={rows}x{columns}:float32", "--sweep", "rows=128,256")
    code, out, _ = run("sweep", SILU, *sweep, "--sweep", "columns=512..1024:*2", "--json")
    points = json.loads(out)["points"]

    assert code == 0
    assert [tuple(p["sizes"].values()) for p in points] == [
        (128, 512), (128, 1024), (256, 512), (256, 1024)
    ]  # fmt: skip
    for point in points:
        rows, columns = point["sizes"].values()
        alone = latency(run, "--input", f"x={rows}x{columns}:float32")
        assert point["metrics"]["latency_us"] == alone


def test_a_size_that_does_not_fit_is_a_row_with_its_reason(run: Run) -> None:
    options = ("--input", "x=128x{columns}:float32", "--sweep", "columns=512,40000")
    code, out, _ = run("sweep", SILU, *options)

    assert code == 0
    assert re.search(r"^ +512 .* µs", out, re.M)
    assert re.search(r"^ +40000  activation: no room in sbuf", out, re.M)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sweep", "rows=1,2"), "no input, argument or grid has {rows}"),
        (("--sweep", "n=1,2", "--sweep", "n=3"), "swept twice"),
        (("--sweep", "n=40000,50000"), "no size can be simulated"),
        (("--sweep", "n=1..5000:+1"), "5000 combinations"),
    ],
)
def test_a_sweep_that_cannot_be_is_one_error(run: Run, options: list[str], message: str) -> None:
    code, out, err = run("sweep", SILU, "--input", "x=128x{n}:float32", *options)

    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 2


@settings(max_examples=20, deadline=None)
@given(programs(), programs())
def test_changes_add_up_to_the_difference(first, second) -> None:
    before, after = (simulate(program, CHIPS["trn2"]) for program in (first, second))

    difference = difference_of(before, after, {}, {})

    total = after.metrics.latency_us - before.metrics.latency_us
    assert sum(change.us for change in difference.changes) == pytest.approx(total, abs=1e-6)


def test_a_line_that_only_moved_is_the_same_line(run: Run, tmp_path: Path) -> None:
    moved = tmp_path / "moved.py"
    moved.write_text("\n\n\n" + Path("docs/examples/silu.py").read_text())
    shape = ("--input", "x=256x512:float32")

    code, out, _ = run("diff", SILU, f"{moved}:silu", *shape, "--json")
    record = json.loads(out)

    assert code == 0
    assert all(change["before_us"] == change["after_us"] for change in record["changes"])
    assert record["figures"] == []
    assert "no difference" in run("diff", SILU, f"{moved}:silu", *shape)[1]


def test_a_slower_line_is_named(run: Run, tmp_path: Path) -> None:
    slower = tmp_path / "slower.py"
    text = Path("docs/examples/silu.py").read_text()
    line = "nisa.activation(dst=gate, op=nl.sigmoid, data=tile)"
    assert line in text
    slower.write_text(text.replace(line, f"{line}\n        nisa.reciprocal(dst=gate, data=gate)"))

    code, out, _ = run("diff", SILU, f"{slower}:silu", "--input", "x=1024x4096:float32", "--top=1")

    assert code == 0
    assert " slower" in out
    first = out.split("where on the critical path")[1].splitlines()[1]
    assert "nisa.reciprocal(dst=gate, data=gate)" in first


def test_one_kernel_on_two_chips(run: Run) -> None:
    shape = ("--input", "x=1024x4096:bfloat16")

    record = json.loads(run("diff", SILU, *shape, "--other-chip", "trn1", "--json")[1])

    assert record["before"].endswith("on trn2")
    assert record["after"].endswith("on trn1")
    assert record["before_us"] == latency(run, *shape)
    assert record["after_us"] == latency(run, *shape, "--chip", "trn1")


def test_what_was_measured_is_shown_beside_what_is_predicted(run: Run, tmp_path: Path) -> None:
    shape = ("--input", "x=1024x4096:bfloat16")
    metrics = json.loads(run("run", SILU, *shape, "--json")[1])["metrics"]
    file = tmp_path / "measured.json"
    file.write_text(json.dumps({"latency_us": 2 * metrics["latency_us"], "other": "text"}))

    code, out, _ = run("run", SILU, *shape, "--measured", str(file))
    record = json.loads(run("run", SILU, *shape, "--measured", str(file), "--json")[1])

    assert code == 0
    assert re.search(r"latency_us .* 100\.0 %$", out, re.M)
    assert record["measured"] == [
        {
            "name": "latency_us",
            "measured": 2 * metrics["latency_us"],
            "predicted": metrics["latency_us"],
        }
    ]


def test_a_profilers_summary_is_read(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    summary = {"total_time": 1e-4, "mbu_estimated_percent": 0.25, "hardware_flops": 0}
    file.write_text(json.dumps({"n_abc": summary}))

    options = ("--input", "x=1024x4096:bfloat16", "--measured", str(file), "--json")
    rows = {row["name"]: row for row in json.loads(run("run", SILU, *options)[1])["measured"]}

    assert rows["launched_latency_us"]["measured"] == pytest.approx(100)
    assert rows["mbu_estimated_percent"]["measured"] == 25
    assert set(rows) == {"launched_latency_us", "mbu_estimated_percent", "hardware_flops"}


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is not JSON"), ("[1]", "no table of metrics"), ('{"speed": 3}', "has no metric")],
)
def test_a_file_without_measurements_is_one_error(
    run: Run, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "measured.json"
    file.write_text(text)

    code, out, err = run("run", SILU, "--input", "x=128x64:float32", "--measured", str(file))

    assert (code, out) == (2, "")
    assert message in err
    assert run("run", SILU, "--input", "x=128x64:float32", "--measured", "no.json")[0] == 2
