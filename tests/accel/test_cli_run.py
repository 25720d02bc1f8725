"""`accel run`: what it prints, what it writes, and how it says what is wrong."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from accel.cli import main
from accel.program_text import parse_program
from accel.validation.points import Point, published_points

KERNELS = Path(__file__).parent / "nki" / "kernels" / "scaled.py"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code, stdout and stderr of `accel run scaled.py:NAME ...`."""

    def call(name: str, *options: str) -> tuple[int, str, str]:
        code = main(["run", f"{KERNELS}:{name}", *options])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


SCALE = ("scale", "--input", "x=256x512:bfloat16")


def test_a_run_prints_latency_and_what_bounds_it(run: Run) -> None:
    code, out, err = run(*SCALE)

    assert code == 0
    assert out.startswith("scale on trn2: ")
    assert "bound by" in out.splitlines()[0]
    assert "hbm read, written     256.00 KiB, 256.00 KiB" in out
    assert "spilled, reloaded     0 B, 0 B" in out
    assert err == ""


def test_json_has_metrics_and_outputs(run: Run) -> None:
    code, out, _ = run(*SCALE, "--arg", "factor=3", "--json", "--chip", "trn1")
    record = json.loads(out)

    assert code == 0
    assert record["chip"] == "trn1"
    assert record["metrics"]["hbm_read_bytes"] == 256 * 512 * 2
    assert record["metrics"]["latency_us"] > 0
    assert record["outputs"] == [{"name": "output", "shape": [256, 512], "dtype": "bfloat16"}]
    assert record["uninitialised"] == []


def test_values_do_not_change_the_timing(run: Run) -> None:
    _, shapes, _ = run(*SCALE, "--json")
    _, values, _ = run(*SCALE, "--json", "--values", "--seed", "3")

    assert json.loads(shapes)["metrics"] == json.loads(values)["metrics"]


def test_values_describe_the_result_of_the_seed(run: Run) -> None:
    results = []
    for seed in ("1", "1", "2"):
        _, out, _ = run(*SCALE, "--values", "--seed", seed)
        results.append(next(line for line in out.splitlines() if "result" in line))

    assert results[0] == results[1] != results[2]
    assert "256x512 bfloat16, from -" in results[0]


def test_reads_of_what_was_never_written_are_warnings(run: Run) -> None:
    _, _, shapes = run("forgets_to_load", "--input", "x=128x8:float32")
    _, _, values = run("forgets_to_load", "--input", "x=128x8:float32", "--values")

    assert "warning: scaled.py:" in shapes
    assert "reads 512 elements of tile.2 never written, first at [0, 4]" in values


def test_trace_and_program_are_written(run: Run, tmp_path: Path) -> None:
    trace, program = tmp_path / "trace.json", tmp_path / "program.txt"
    code, _, _ = run(*SCALE, "--trace", str(trace), "--program", str(program))
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    parsed = parse_program(program.read_text(encoding="utf-8"))

    assert code == 0
    assert {"dma_copy", "tensor_scalar"} <= {
        event.get("name", "").split(" ")[0] for event in events
    }
    assert len(parsed) == 6
    assert parsed.name == "scale"


def test_a_grid_is_given_by_its_extents(run: Run) -> None:
    code, out, _ = run("by_program", "--input", "x=256x8:float32", "--grid", "2", "--json")

    assert code == 0
    assert json.loads(out)["metrics"]["dma_transfer_count"] == 4


X = ("--input", "x=256x512:bfloat16")


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (("scale", *X, "--chip", "trn9"), "unknown chip 'trn9'", "known chips: trn1"),
        (("scale",), "kernel scale needs an argument for x", "--input NAME=SHAPE:DTYPE"),
        (("scale", *X, *X), "argument x is given twice", "once"),
        (("scale", *X, "--arg", "by=2"), "kernel scale has no parameter 'by'", "factor=2.0"),
        (("scale", *X, "--arg", "factor=[1"), "'[1' is not a Python literal", "--arg NAME"),
        (("scale", "--input", "x=256:f8"), "unknown dtype 'f8'", "dtypes: bool_"),
        (("scale", "--input", "x=axb:int8"), "shape 'axb' is not numbers", "--input NAME"),
        (("scale", "--input", "x"), "'x' is not NAME=SHAPE:DTYPE", "x=4096x8192:bfloat16"),
        (("scale", "--input", "x=100x8:int8"), "rows must be a multiple of 128, got 100", ""),
        (("scale", *X, "--grid", "two"), "'two' is not numbers of programs", "--grid 2"),
        (("scale", *X, "--compiler", "gcc"), "unknown compiler profile 'gcc'", "neuronxcc"),
        (("nothing", *X), "no kernel 'nothing'", "kernels there: scale"),
        (("plain", *X), "kernel plain has no instructions", ""),
        (("too_many_partitions", *X), "256 partitions, trn2 has 128", "tile it by 128"),
        (("overlapping_addresses", "--input", "x=128x64:float32"), "overlap while both", "address"),
        (
            ("wide_matmul", "--input", "lhs_t=128x64:float32", "--input", "rhs=128x1024:float32"),
            "moving has 1024 columns, the limit is 512",
            "",
        ),
        (("scale", *X, "--trace", "no/such/folder/t.json"), "no folder", "create it"),
    ],
)
def test_bad_input_is_one_error_and_one_hint(
    run: Run, arguments: tuple[str, ...], error: str, hint: str
) -> None:
    code, out, err = run(*arguments)
    lines = err.splitlines()

    assert code == 2
    assert out == ""
    assert lines[0].startswith("error: ")
    assert error in lines[0]
    assert len(lines) == (2 if lines[-1].startswith("hint: ") else 1)
    assert hint in lines[-1]


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["run", "nowhere.py:f"])

    assert code == 2
    assert capsys.readouterr().err.startswith("error: no file nowhere.py\nhint: ")


def test_debug_shows_where_it_came_from(capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "nowhere.py:f", "--debug"])

    assert "Traceback" in capsys.readouterr().err


def test_chips_are_listed_with_their_facts(capsys: pytest.CaptureFixture[str]) -> None:
    main(["chips"])
    listed = capsys.readouterr().out
    main(["chips", "--json"])
    record = json.loads(capsys.readouterr().out)["chips"]

    assert [line.split()[0] for line in listed.splitlines()] == ["chip", "trn1", "trn2", "trn3"]
    assert {chip["name"] for chip in record} == {"trn1", "trn2", "trn3"}
    assert all(number["source"] for chip in record for number in chip["numbers"].values())


def test_validation_shows_every_row_even_without_a_prediction(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known, unknown = published_points()[:2]
    points = (Point(known, 1.1 * known.value), Point(unknown, None))
    monkeypatch.setattr("accel.cli.validation.validate", lambda on_point: points)
    codes = [main(["validate"]), main(["validate", "--json"])]
    table, record = capsys.readouterr().out.split("{", 1)

    assert codes == [0, 0]
    assert "10.0 %" in next(line for line in table.splitlines() if known.id in line)
    assert table.splitlines()[-1] == "not predicted yet: 1 of 2 rows"
    assert [p["predicted"] for p in json.loads("{" + record)["points"]] == [
        pytest.approx(1.1 * known.value),
        None,
    ]


@pytest.mark.parametrize(("given", "told"), [(["fly"], "fly"), (["run"], "missing argument")])
def test_usage_errors_point_to_help(
    capsys: pytest.CaptureFixture[str], given: list[str], told: str
) -> None:
    code = main(given)
    err = capsys.readouterr().err

    assert code == 2
    assert told in err
    assert "--help` lists what can be given" in err
