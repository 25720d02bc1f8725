"""`accel run`: what it prints, what it writes, and how it says what is wrong."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from accel.cli import BROKEN_PIPE, main
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


def test_a_run_says_how_far_its_chip_is_validated(run: Run) -> None:
    _, validated, _ = run(*SCALE)
    _, not_validated, _ = run(*SCALE, "--chip", "trn3")

    assert re.search(
        r"timing model +median error [\d.]+ %, worst \d+ % over \d+ published", validated
    )
    assert re.search(r"timing model +not validated", not_validated)


def test_the_files_written_are_named(run: Run, tmp_path: Path) -> None:
    trace, program = tmp_path / "t.json", tmp_path / "p.txt"

    _, out, _ = run(*SCALE, "--trace", str(trace), "--program", str(program))

    assert f"timeline in           {trace}, which ui.perfetto.dev opens" in out
    assert f"instructions in       {program}" in out


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"accel {project['version']}\n"


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
    assert values.count("never written") == 1


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


def test_a_rank_that_is_not_run_is_named(run: Run) -> None:
    code, _, err = run(*SCALE, "--values", "--ranks", "2", "--rank", "2")

    assert (code, err.splitlines()[0]) == (2, "error: --rank 2 is not among the 2 of --ranks")


def test_several_ranks_need_values(run: Run) -> None:
    code, _, err = run(*SCALE, "--ranks", "2")

    assert (code, err.splitlines()[0]) == (2, "error: --ranks 2 without --values")


def test_ranks_have_inputs_of_their_own(run: Run) -> None:
    results = [
        json.loads(run(*SCALE, "--values", "--json", *options)[1])["results"]
        for options in (("--ranks", "2"), ("--ranks", "2", "--rank", "1"), ("--seed", "1"))
    ]

    assert results[0] != results[1] == results[2]


def test_a_grid_is_given_by_its_extents(run: Run) -> None:
    code, out, _ = run("by_program", "--input", "x=256x8:float32", "--grid", "2", "--json")

    assert code == 0
    assert json.loads(out)["metrics"]["dma_transfer_count"] == 4


X = ("--input", "x=256x512:bfloat16")


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (("scale", *X, "--chip", "trn9"), "unknown chip 'trn9'", "known chips: inf1, inf2, trn1"),
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

    assert [line.split()[0] for line in listed.splitlines()] == [
        "chip",
        "inf1",
        "trn1",
        "inf2",
        "trn2",
        "trn3",
    ]
    assert {chip["name"] for chip in record} == {"inf1", "trn1", "inf2", "trn2", "trn3"}
    assert all(number["source"] for chip in record for number in chip["numbers"].values())


def test_machines_are_listed_with_their_chips(capsys: pytest.CaptureFixture[str]) -> None:
    main(["chips", "trn2", "--instances"])
    listed = capsys.readouterr().out
    main(["chips", "trn2", "--json"])
    (record,) = json.loads(capsys.readouterr().out)["chips"]

    (row,) = [line.split() for line in listed.splitlines() if line.startswith("trn2.48xlarge")]
    assert " ".join(row) == "trn2.48xlarge 16 trn2 128 4 × 4 torus 1024 3200 Gbit/s"
    assert [i["chips"] for i in record["instances"]] == [16, 64]


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


BAD = KERNELS.parent / "misbehaved.py"
INPUT = ("--input", "x=128x8:float32")


@pytest.fixture
def misbehave(capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code, stdout and stderr of `accel run misbehaved.py:NAME ...` on one tile."""

    def call(name: str, *options: str) -> tuple[int, str, str]:
        code = main(["run", f"{BAD}:{name}", *INPUT, *options])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.mark.parametrize("name", ["prints", "prints_a_tile"])
def test_what_a_kernel_prints_does_not_reach_stdout(misbehave: Run, name: str) -> None:
    code, out, err = misbehave(name, "--json", "--values")

    assert code == 0
    assert json.loads(out)["kernel"] == name
    assert err.startswith("seen")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("returns_nothing", "returns_nothing returns no tensor and writes none of its arguments"),
        ("never_writes", "output: returned, but never written"),
        ("writes_half", "output: returned, but at most 2048 of its 4096 bytes are written"),
    ],
)
def test_an_output_that_is_not_filled_is_a_warning(misbehave: Run, name: str, told: str) -> None:
    _, _, text = misbehave(name)
    _, out, _ = misbehave(name, "--json", "--values")

    assert f"warning: {told}\n" in text
    assert told in json.loads(out)["warnings"]


def test_json_has_the_results_and_no_nan(misbehave: Run) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    _, nested, _ = misbehave("returns_nested", "--json", "--values")
    _, empty, _ = misbehave("never_writes", "--json", "--values")
    first, second = json.loads(nested)["results"]
    (unwritten,) = json.loads(empty, parse_constant=refuse)["results"]

    assert first["shape"] == second["shape"] == [128, 8]
    assert first["minimum"] < first["mean"] < first["maximum"]
    assert unwritten["mean"] is None


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("exits", r"SystemExit: 0 \(misbehaved.py:"),
        ("divides", r"index of axis 1 of tile.1 is float 4.0, needs int or slice \(misbehaved.py:"),
        ("across_banks", r"nc_matmul: dst takes bytes 1024 to 3072 .* bank of 2048 \(misbehaved"),
        ("below_zero", r"tile.1: address \(0, -4\) \(misbehaved.py:"),
        ("off_quarter", r"memset: dst takes 64 partitions from partition 10 \(misbehaved.py:"),
        ("odd_address", r"address is \(0, 1.5\) \(misbehaved.py:"),
        ("does_nothing", "kernel does_nothing has no instructions"),
        ("too_much_hbm", "needs 4096.00 GiB of HBM, trn2 has 96.00 GiB"),
        ("unknown_call", r"nki.isa has no 'no_such_call' \(misbehaved.py:"),
    ],
)
def test_each_error_is_one_line_and_a_hint(misbehave: Run, name: str, told: str) -> None:
    code, out, err = misbehave(name)
    error, hint = err.splitlines()

    assert code == 2
    assert out == ""
    assert error.startswith("error: ")
    assert re.search(told, error), error
    assert hint.startswith("hint: ")


def test_a_grid_has_a_limit(misbehave: Run) -> None:
    code, _, err = misbehave("prints", "--grid", "200,200")

    assert code == 2
    assert "grid (200, 200) is 40000 programs, at most 32767" in err


def test_keywords_reach_a_kernel_that_takes_any(misbehave: Run) -> None:
    code, out, _ = misbehave("takes_any", "--arg", "factor=3.0", "--json")

    assert code == 0
    assert json.loads(out)["outputs"][0]["shape"] == [128, 8]


def test_nothing_is_written_if_one_of_two_files_cannot_be(misbehave: Run, tmp_path: Path) -> None:
    program = tmp_path / "program.txt"
    code, _, err = misbehave("prints", "--program", str(program), "--trace", str(tmp_path))

    assert code == 2
    assert f"error: {tmp_path} is a folder" in err
    assert not program.exists()


def test_memory_that_runs_out_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    huge = ("--input", "x=99999999999x99999:float32", "--values")
    code = main(["run", f"{BAD}:prints", *huge])

    assert code == 2
    assert capsys.readouterr().err.startswith("error: out of memory: ")


def test_a_reader_that_leaves_is_no_error() -> None:
    command = [sys.executable, "-m", "accel", "chips"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()

        assert process.wait() == BROKEN_PIPE
        assert process.stderr.read() == ""


def test_a_closed_output_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)

    assert main(["chips"]) == 0


def test_float32_products_follow_the_machine_where_asked(run: Run) -> None:
    matmul = ("narrow_matmul", "--input", "lhs_t=128x64:float32", "--input", "rhs=128x64:float32")
    results = [
        run(*matmul, "--values", "--json", "--fp32-matmul", choice)[1]
        for choice in ("exact", "device")
    ]
    exact, device = (json.loads(text)["results"][0]["mean"] for text in results)

    assert exact != device
    assert exact == pytest.approx(device, rel=1e-2)


def test_an_unknown_float32_matmul_is_named(run: Run) -> None:
    code, _, err = run(*SCALE, "--fp32-matmul", "fast")

    assert code == 2
    assert "unknown float32 matmul 'fast'" in err


def test_a_profile_shows_where_the_time_goes(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["profile", f"{KERNELS}:{SCALE[0]}", *SCALE[1:], "--top", "1"])
    out = capsys.readouterr().out

    assert code == 0
    assert out.startswith("scale on trn2: ")
    for title in ("busy over time", "critical path", "idle queues", "it would be, if"):
        assert f"\n{title}" in out
    assert " more\n" in out


def test_a_profile_as_json_has_every_list(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["profile", f"{KERNELS}:{SCALE[0]}", *SCALE[1:], "--chip", "trn1", "--json"])
    record = json.loads(capsys.readouterr().out)

    assert (code, record["kernel"], record["chip"]) == (0, "scale", "trn1")
    assert len(record["what_ifs"]) == 9
    assert sum(part["us"] for part in record["critical"]) == pytest.approx(record["latency_us"])
