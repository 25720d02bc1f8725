"""--strict: what the vendor's compiler would reject, with the line."""

from pathlib import Path

import pytest

from accel.cli import main
from accel.errors import KernelError, UserError
from accel.nki.load import load_kernel, load_module
from accel.nki.strict import check_strict, findings

FILE = Path(__file__).parent / "kernels" / "unrestricted.py"
EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
X = ("--input", "x=128x64:float32")


def line_of(text: str) -> int:
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(
    ("name", "message", "text"),
    [
        ("comprehends", "a comprehension is not in the kernel language", "for value in values]"),
        ("tries", "try is not in the kernel language", "try:"),
        ("is_true", "`is` compares with None only", "doubled is True"),
        ("keyword_only", "`*` between parameters is not supported", "def keyword_only"),
        ("list_default", "a list is no kernel argument", "def list_default"),
        ("uses_class", "class Settings inherits from nothing, must be NKIObject", "class Settings"),
        ("number_keys", "keys of a dictionary are strings", "{1: 2.0}"),
        ("has_lambda", "lambda is not in the kernel language", "lambda value"),
        ("stops", "breakpoint is a function of Python itself", "breakpoint()"),
        ("unpacks", "a call may not unpack with * or **", "**options"),
        ("large_number", "a number has 32 bits", "6_000_000_000"),
    ],
)
def test_a_construct_outside_of_the_language_is_named_with_its_line(
    name: str, message: str, text: str
) -> None:
    found = findings(load_kernel(f"{FILE}:{name}"), "0.6")

    assert [finding.place for finding in found] == [f"unrestricted.py:{line_of(text)}"]
    assert found[0].message.startswith(message)


def test_the_language_itself_is_accepted() -> None:
    examples = load_module(EXAMPLES / "silu.py").silu

    assert findings(load_kernel(f"{FILE}:restricted"), "0.6") == ()
    assert findings(examples, "0.6") == ()


def test_rules_hold_from_the_version_that_brought_them() -> None:
    assert findings(load_kernel(f"{FILE}:is_true"), "0.2") == ()
    assert len(findings(load_kernel(f"{FILE}:is_true"), "0.3")) == 1


def test_a_list_argument_is_rejected() -> None:
    kernel = load_kernel(f"{FILE}:restricted")

    with pytest.raises(KernelError, match="argument names is a list"):
        check_strict(kernel, {"names": ["a"]}, "0.6")
    check_strict(kernel, {"names": ("a",)}, "0.6")


def test_strict_is_an_option_of_run(capsys: pytest.CaptureFixture[str]) -> None:
    plain = main(["run", f"{FILE}:tries", *X])
    capsys.readouterr()
    strict = main(["run", f"{FILE}:tries", *X, "--strict"])
    error, hint = capsys.readouterr().err.splitlines()

    assert (plain, strict) == (0, 2)
    assert error == (
        f"error: try is not in the kernel language (unrestricted.py:{line_of('try:')})"
    )
    assert hint == "hint: check before, with if or assert"


def test_the_older_form_has_no_restricted_python() -> None:
    with pytest.raises(UserError, match="kernel silu is in the older form"):
        check_strict(load_kernel(f"{EXAMPLES / 'silu_older.py'}:silu"), {}, "0.1")


def test_all_findings_are_counted() -> None:
    with pytest.raises(KernelError, match=r"; 1 more at unrestricted\.py:\d+ \(unrestr"):
        check_strict(load_kernel(f"{FILE}:two_faults"), {}, "0.6")
