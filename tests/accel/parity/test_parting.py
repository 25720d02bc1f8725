"""`accel test`: whether a kernel agrees with its reference, and if not, since which instruction."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from accel.cli import main
from accel.parity.parting import PERHAPS, recogniser
from accel.parity.reference import Intermediate

FOLDER = Path(__file__).parent
X = ("--input", "x=256x64:float32")
TILE = ("--input", "x=128x64:float32")
PRODUCT = ("--input", "left_t=256x128:float32", "--input", "right=256x64:float32")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code, stdout and stderr of `accel test faulty.py:NAME --reference references.py:...`."""

    def call(kernel: str, reference: str, *options: str) -> tuple[int, str, str]:
        if "." not in reference:
            reference = f"{FOLDER / 'references.py'}:{reference}"
        line = ["test", f"{FOLDER / 'faulty.py'}:{kernel}", "--reference", reference, *options]
        code = main(line)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def line_with(text: str, after: str) -> int:
    """The line of `faulty.py` with some text, after another."""
    lines = (FOLDER / "faulty.py").read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if after in line)
    return next(i for i, line in enumerate(lines[start:], start + 1) if text in line)


def test_a_right_kernel_agrees(run: Run) -> None:
    code, out, err = run("row_softmax", "softmax", *X)

    assert code == 0
    assert out.startswith("row_softmax on trn2 against softmax: 3 cases agree, largest error ")
    assert err == ""


@pytest.mark.parametrize(
    ("kernel", "reference", "inputs", "cause", "op", "line"),
    [
        ("wrong_scale", "softmax", X, "computation", "activation", ("nl.exp", "def softmax_rows")),
        ("wrong_second_tile", "softmax", X, "computation", "activation", ("nl.exp", "softmax")),
        ("short_product", "product", PRODUCT, "computation", "nc_matmul", ("nc_matmul", "short")),
        ("half_loaded", "doubled", TILE, "unwritten", "tensor_scalar", ("multiply", "half_l")),
        ("root_of_negatives", "doubled", TILE, "not finite", "activation", ("nl.sqrt", "root")),
        ("narrow_product", "doubled", TILE, "rounding", "tensor_copy", ("_copy(dst=n", "narrow")),
        ("swapped_tiles", "doubled", X, "place", "dma_copy", ("128 - start", "swapped")),
    ],
)
def test_the_instruction_at_fault_is_named(
    run: Run,
    kernel: str,
    reference: str,
    inputs: tuple[str, ...],
    cause: str,
    op: str,
    line: tuple[str, str],
) -> None:
    code, out, _ = run(kernel, reference, *inputs)
    rows = dict(row.strip().split(None, 1) for row in out.splitlines()[2:])

    assert code == 1
    assert rows["cause"] == cause
    assert rows["instruction"].endswith(f"{op} (faulty.py:{line_with(*line)})")


def test_the_elements_apart_are_counted_and_located(run: Run) -> None:
    _, out, _ = run("wrong_second_tile", "softmax", *X)

    assert "of 16,384 elements, within [128:256, 0:64]" in out
    assert "is the reference's x (argument)" in out


def test_an_element_that_nothing_wrote_has_no_instruction(run: Run) -> None:
    code, out, _ = run("half_written", "doubled", *TILE)

    assert code == 1
    assert "apart           4,096 of 8,192 elements, within [0:128, 32:64]" in out
    assert "because         nothing wrote the element" in out


def test_without_values_of_the_reference_wrong_elements_are_told_from_right_ones(run: Run) -> None:
    _, out, _ = run("wrong_second_tile", "opaque_softmax", *X)

    assert "because         the first that only wrong elements are computed from" in out


def test_a_result_that_the_reference_computes_on_the_way_is_recognised(run: Run) -> None:
    _, out, _ = run("row_softmax", "softmax_plus_one", *X)

    assert "because         it writes the reference's weights (references.py:" in out


def test_an_argument_that_is_written_counts_as_the_result(run: Run) -> None:
    code, out, _ = run("doubles_in_place", "doubled", *TILE, "--cases", "1")

    assert code == 0
    assert "against doubled: 1 case agrees, largest error 0" in out


def test_the_tolerance_can_be_given(run: Run) -> None:
    assert run("narrow_product", "doubled", *TILE, "--rtol", "0.2")[0] == 0
    assert run("row_softmax", "softmax", *X, "--rtol", "0", "--atol", "0")[0] == 1


def test_json_names_the_way_to_the_result(run: Run) -> None:
    code, out, _ = run("wrong_scale", "softmax", *X, "--json")
    case = json.loads(out)["cases"][0]

    assert code == 1
    assert case["results"][0]["shape"] == [256, 64]
    assert [step["op"] for step in case["way"]] == ["activation", "tensor_scalar", "dma_copy"]


@pytest.mark.parametrize(
    ("reference", "error", "hint"),
    [
        ("nothing", "no function 'nothing' in", "one that the file defines"),
        ("numpy.nothing", "the reference 'numpy.nothing' cannot be imported", "numpy.add"),
        ("nowhere.py:f", "no file nowhere.py", "FILE.py:FUNCTION"),
        ("fails", "reference fails: ValueError: cannot reshape", "arguments as arrays"),
        ("returns_nothing", "reference returns_nothing returns no array", "return what"),
        ("numpy.sum", "the kernel returns (256, 64), the reference ()", "reshape what"),
    ],
)
def test_a_reference_that_cannot_serve_is_named(
    run: Run, reference: str, error: str, hint: str
) -> None:
    code, _, err = run("row_softmax", reference, *X)

    assert code == 2
    assert error in err.splitlines()[0]
    assert hint in err.splitlines()[1]


def test_a_tile_is_recognised_by_its_values_where_they_are_few() -> None:
    values = np.random.default_rng(0).standard_normal(2**20)
    few, many = values[: 2**12], values
    recognise = recogniser([Intermediate("scores", "reference.py:3", few.reshape(64, 64))])
    crowded = recogniser([Intermediate("scores", "reference.py:3", many)])

    assert recognise(few[:200]) == "scores (reference.py:3)"
    assert recognise(-few[::-7].astype(np.float32).astype(np.float64)) == "scores (reference.py:3)"
    assert recognise(1.5 * few[:200]) == ""
    assert recognise(few[:3]) is None
    assert crowded(values[:200]) == crowded(1.5 * values[:200]) == PERHAPS


def test_a_numpy_function_can_be_the_reference(run: Run) -> None:
    code, out, _ = run("swapped_tiles", "numpy.square", *X, "--cases", "1")

    assert code == 1
    assert "against numpy.square: differs in case 1 of 1 (seed 0)" in out
