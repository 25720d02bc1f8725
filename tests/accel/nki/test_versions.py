"""--nki: names come and go, and calls mean what they meant in the version asked for."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from accel.cli import main
from accel.errors import KernelError, UserError
from accel.nki.install import install
from accel.nki.load import load_kernel
from accel.nki.versions import LIFETIMES, VERSIONS

HEAD = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
"""
TAIL = """
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
X = np.arange(128 * 8, dtype=np.float32).reshape(128, 8)
Run = Callable[..., np.ndarray]


@pytest.fixture(autouse=True)
def all_versions_afterwards() -> Iterator[None]:
    yield
    install()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """What a kernel with these lines returns in a version."""

    def call(version: str, lines: str, x: np.ndarray = X) -> np.ndarray:
        body = "".join(f"    {line}\n" for line in lines.splitlines())
        path = tmp_path / "kernel.py"
        path.write_text(HEAD + body + TAIL, encoding="utf-8")
        result = load_kernel(f"{path}:kernel", version)(x)
        assert isinstance(result, np.ndarray)
        return result

    return call


AFFINE_OLD = "nisa.affine_select(tile, [[1, 8]], -4, 0, tile, 0.0, nl.greater_equal)"
AFFINE_NEW = "nisa.affine_select(tile, [[1, 8]], 0, tile, 0.0, nl.greater_equal, offset=-4)"


@pytest.mark.parametrize(("version", "line"), [("0.2", AFFINE_OLD), ("0.3", AFFINE_NEW)])
def test_positional_arguments_have_the_order_of_the_version(
    run: Run, version: str, line: str
) -> None:
    expected = np.where(np.arange(8) >= 4, X, 0)

    np.testing.assert_array_equal(run(version, line), expected)


def test_dma_compute_swapped_two_arguments(run: Run) -> None:
    tiles = "parts = [x, x]\n"
    old = run("0.2", tiles + "nisa.dma_compute(tile, parts, [1.0, 1.0], nl.add)")
    new = run("0.3", tiles + "nisa.dma_compute(tile, parts, nl.add, [1.0, 1.0])")

    np.testing.assert_array_equal(old, 2 * X)
    np.testing.assert_array_equal(new, 2 * X)


def test_axis_1_was_the_last_axis(run: Run) -> None:
    lines = (
        "cube = tile.reshape((128, 2, 4))\n"
        "sums = nl.ndarray((128, 2), dtype=nl.float32, buffer=nl.sbuf)\n"
        "nisa.tensor_reduce(sums, nl.add, cube, 1)\n"
        "nisa.tensor_copy(dst=tile[:, 0:2], src=sums)"
    )

    expected = X.reshape(128, 2, 4).sum(axis=2)
    np.testing.assert_array_equal(run("0.2", lines)[:, :2], expected)
    with pytest.raises(KernelError):
        run("0.3", lines)


@pytest.mark.parametrize(
    ("last", "first", "line", "message"),
    [
        ("", "0.2", "nl.load(x)", "no 'load' in NKI 0.2: it came with 0.3"),
        ("", "0.2", "nl.add(tile, tile)", "operators are only passed as op= in NKI 0.2"),
        ("", "0.5", "nl.fori_loop(0, 2, print)", "no 'fori_loop' in NKI 0.5: it came with 0.6"),
        (
            "0.2",
            "0.3",
            "other = nl.ndarray((128, 8), dtype=nl.int32, buffer=nl.sbuf)\nnisa.memset(other, 2.0)",
            "memset: value 2.0 is a float, dst is int32",
        ),
        (
            "",
            "0.3",
            "bank = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.psum)\n"
            "nisa.tensor_copy(dst=bank, src=tile)\nnisa.dma_copy(dst=out, src=bank)",
            "dma_copy: src is in psum",
        ),
        (
            "0.2",
            "0.3",
            "nl.ndarray((128, 8), dtype=nl.float32, buffer='sbuf')",
            "buffer is the string 'sbuf', NKI 0.3 takes nl.sbuf",
        ),
        (
            "0.2",
            "0.3",
            "register = nisa.register_alloc(1)\nnisa.register_move(register, 2)",
            "register_move: src is 2, NKI 0.3 takes a register",
        ),
        ("", "0.4", "nisa.tensor_copy_dynamic_src(tile, tile)", "it left with 0.4"),
    ],
)
def test_what_a_version_does_not_take_is_named(
    run: Run, last: str, first: str, line: str, message: str
) -> None:
    if last:
        run(last, line)

    with pytest.raises(UserError) as raised:
        run(first, line)
    assert message in raised.value.args[0]


def test_read_modify_write_left_dma_copy(run: Run) -> None:
    with pytest.raises(KernelError, match="no argument dst_rmw_op in NKI"):
        run("0.3", "nisa.dma_copy(dst=tile, src=x, dst_rmw_op=nl.add)")


def test_operators_stay_equal_to_themselves(run: Run) -> None:
    result = run("0.2", "assert nl.add == nl.add\nassert nl.add != nl.multiply")

    np.testing.assert_array_equal(result, X)


def test_results_lie_in_shared_hbm_since_0_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "private.py"
    path.write_text((HEAD + TAIL).replace("nl.shared_hbm", "nl.private_hbm"), encoding="utf-8")
    line = ["run", f"{path}:kernel", "--input", "x=128x8:float32", "--json", "--nki"]
    codes = [main([*line, version]) for version in ("0.2", "0.3")]
    printed = capsys.readouterr()

    assert codes == [0, 2]
    assert json.loads(printed.out)["kernel"] == "kernel"
    assert "result output lies in private hbm, NKI 0.3 returns shared_hbm only" in printed.err


OLDER = Path(__file__).parents[3] / "docs" / "examples" / "silu_older.py"


def test_the_older_form_ends_with_0_3() -> None:
    assert load_kernel(f"{OLDER}:silu", "0.1").name == "silu"
    with pytest.raises(UserError, match=r"until NKI 0\.3, the kernel is read as NKI 0\.4"):
        load_kernel(f"{OLDER}:silu", "0.4")


def test_the_current_form_begins_with_0_2(run: Run) -> None:
    with pytest.raises(UserError, match=r"from NKI 0\.2 on, the kernel is read as NKI 0\.1"):
        run("0.1", "pass")


def test_an_unknown_version_is_named(run: Run) -> None:
    with pytest.raises(UserError, match=r"unknown version '1\.0' of NKI"):
        run("1.0", "pass")


def test_lifetimes_name_versions_there_are() -> None:
    for lifetime in LIFETIMES.values():
        assert lifetime.since in VERSIONS
        assert lifetime.until in ("", *VERSIONS)
