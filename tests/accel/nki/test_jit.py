"""Running kernels: both modes give one program, values are numpy's, errors name the line."""

from pathlib import Path
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest

import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.chip import CHIPS
from accel.errors import KernelError, UserError
from accel.nki.jit import TARGET_VARIABLE, TensorSpec, default_chip, evaluate, jit, trace
from accel.nki.load import load_kernel
from accel.program import Engine, Kind, Memory

TRN2 = CHIPS["trn2"]
KERNELS = Path(__file__).parent / "kernels" / "scaled.py"


def line_of(text: str) -> str:
    """The place of the line of the kernel file that contains `text`."""
    lines = KERNELS.read_text(encoding="utf-8").splitlines()
    (number,) = (n for n, line in enumerate(lines, 1) if text in line)
    return f"scaled.py:{number}"


def arrays(*shapes: tuple[int, ...], dtype: object = np.float32) -> list[np.ndarray]:
    generator = np.random.default_rng(1)
    return [generator.standard_normal(shape, np.float32).astype(dtype) for shape in shapes]


@jit
def matmul(lhs_t, rhs):
    """C = lhs_t.T @ rhs over K in steps of 128."""
    (k, m), n = lhs_t.shape, rhs.shape[1]
    out = nl.ndarray((m, n), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    psum = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum)
    for step in nl.affine_range(k // 128):
        rows = nl.ds(step * 128, 128)
        left, right = nl.load(lhs_t[rows]), nl.load(rhs[rows])
        nisa.nc_matmul(dst=psum, stationary=left, moving=right)
    tile = nl.copy(psum, dtype=out.dtype)
    nl.store(out, tile)
    return out


@jit
def softmax(x):
    """exp(x − max) ÷ Σ over the free axis."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    top = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=tile, axis=1, negate=True)
    nisa.activation_reduce(
        dst=tile, op=nl.exp, data=tile, bias=top, reduce_op=nl.add, reduce_res=total
    )
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=tile, data=tile, op0=np.multiply, operand0=total)
    nl.store(out, tile)
    return out


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_matmul_is_numpys(dtype: object) -> None:
    left, right = arrays((256, 64), (256, 512), dtype=dtype)
    result = matmul(left, right)

    wanted = left.astype(np.float32).T @ right.astype(np.float32)
    assert result.dtype == left.dtype
    np.testing.assert_allclose(result.astype(np.float32), wanted, rtol=1e-2, atol=1e-3)


def test_softmax_is_numpys() -> None:
    (x,) = arrays((128, 96))
    result = softmax(x)

    powers = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(result, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("kernel", [softmax])
def test_both_modes_record_the_same_program(kernel) -> None:
    (x,) = arrays((128, 96))
    traced = trace(kernel, {"x": TensorSpec((128, 96), "float32")}, TRN2)

    assert evaluate(kernel, {"x": x}, TRN2).program == traced
    assert len(traced) == 6


def test_a_traced_program_says_what_was_asked() -> None:
    program = trace(
        matmul,
        {"lhs_t": TensorSpec((256, 64), "bfloat16"), "rhs": TensorSpec((256, 512), "bfloat16")},
        TRN2,
    )
    kinds = {storage.name: storage.kind for storage in program.storages}
    ops = [program.forms[form].op for form in program.form]

    assert kinds["lhs_t"] is Kind.INPUT
    assert kinds["output"] is Kind.OUTPUT
    assert ops == ["dma_copy", "dma_copy", "nc_matmul"] * 2 + ["tensor_copy", "dma_copy"]
    assert len(program.forms) == 5
    assert {form.engine for form in program.forms} == {Engine.ANY}
    assert program.place(2).startswith("test_jit.py:")
    assert program.target == "gen3"


def test_storages_are_named_after_the_variable() -> None:
    program = trace(softmax, {"x": TensorSpec((128, 8), "float32")}, TRN2)
    names = [storage.name for storage in program.storages]

    assert names == ["x", "output", "tile.2", "top.3", "total.4"]


def test_an_assertion_in_the_kernel_comes_out_with_its_line() -> None:
    kernel = load_kernel(f"{KERNELS}:scale")

    with pytest.raises(KernelError, match=r"assertion failed: rows must .*, got 100") as caught:
        trace(kernel, {"x": TensorSpec((100, 8), "float32")}, TRN2)
    assert caught.value.place == line_of("assert rows")


@pytest.mark.parametrize(
    ("name", "shapes", "told", "line"),
    [
        ("too_many_partitions", {"x": (256, 8)}, "256 partitions, trn2 has 128", "(256, x.shape"),
        (
            "wide_matmul",
            {"lhs_t": (128, 64), "rhs": (128, 1024)},
            "moving has 1024 columns, the limit is 512",
            "nisa.nc_matmul(dst=",
        ),
    ],
)
def test_a_broken_rule_names_value_limit_and_line(
    name: str, shapes: dict[str, tuple[int, ...]], told: str, line: str
) -> None:
    specs = {key: TensorSpec(shape, "float32") for key, shape in shapes.items()}

    with pytest.raises(KernelError, match=told) as caught:
        trace(load_kernel(f"{KERNELS}:{name}"), specs, TRN2)
    assert caught.value.place == line_of(line)


def test_reads_of_what_was_never_written_are_told() -> None:
    (x,) = arrays((128, 8))
    evaluation = evaluate(load_kernel(f"{KERNELS}:forgets_to_load"), {"x": x}, TRN2)

    (found,) = evaluation.uninitialised
    assert (found.storage, found.operand, found.first, found.count) == (
        "tile.2",
        "data",
        (0, 4),
        512,
    )
    assert found.place.startswith("scaled.py:")


def test_a_kernel_inside_a_kernel_is_inlined() -> None:
    @jit
    def outer(x):
        return softmax(x)

    program = trace(outer, {"x": TensorSpec((128, 8), "float32")}, TRN2)

    assert len(program) == 6
    assert program.name == "outer"


def test_a_grid_runs_one_program_a_core_over_shared_memory() -> None:
    (x,) = arrays((256, 8))
    kernel = load_kernel(f"{KERNELS}:by_program")
    evaluation = evaluate(kernel[2], {"x": x}, TRN2)

    np.testing.assert_array_equal(evaluation.result, x)
    assert evaluation.program.cores == 2
    assert evaluation.program.core.tolist() == [0, 0, 1, 1]
    shared = [s for s in evaluation.program.storages if s.memory is Memory.HBM]
    assert [s.core for s in shared] == [-1, -1]


@pytest.mark.parametrize("grid", [0, (2, 0), (-1,)])
def test_a_grid_has_a_program(grid: int | tuple[int, ...]) -> None:
    kernel = load_kernel(f"{KERNELS}:by_program")

    with pytest.raises(KernelError, match=r"grid \(.*\) has no programs"):
        trace(kernel[grid], {"x": TensorSpec((256, 8), "float32")}, TRN2)


@pytest.mark.parametrize("name", ["launches_by_program", "launches_older_form"])
def test_a_plain_function_may_launch_a_grid(name: str) -> None:
    (x,) = arrays((256, 8))
    file = "older.py" if name == "launches_older_form" else "scaled.py"
    evaluation = evaluate(load_kernel(f"{KERNELS.parent / file}:{name}"), {"x": x}, TRN2)

    np.testing.assert_array_equal(evaluation.result, x)
    assert len(evaluation.program) == 4


def test_arguments_may_be_nested() -> None:
    @jit
    def both(pair, scale):
        tiles = [nl.load(tensor) for tensor in pair]
        out = nl.ndarray(pair[0].shape, dtype=nl.float32, buffer=nl.shared_hbm)
        total = nl.multiply(nl.add(*tiles), scale)
        nl.store(out, total)
        return {"sum": out, "scale": scale}

    first, second = arrays((4, 8), (4, 8))
    result = both([first, second], 3.0)

    np.testing.assert_allclose(result["sum"], 3 * (first + second), rtol=1e-6)
    assert result["scale"] == 3.0


def test_named_tuples_come_and_go_as_such() -> None:
    class Pair(NamedTuple):
        first: object
        second: object

    @jit
    def swap(pair):
        outs = [nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm) for t in pair]
        for out, tensor in zip(outs, pair[::-1], strict=True):
            nl.store(out, nl.load(tensor))
        return Pair(*outs)

    first, second = arrays((4, 8), (4, 8))
    result = swap(Pair(first, second))

    np.testing.assert_array_equal(result.first, second)
    np.testing.assert_array_equal(result.second, first)


def test_a_wrong_call_names_the_parameters() -> None:
    with pytest.raises(UserError, match="missing a required argument: 'rhs'") as caught:
        matmul(np.zeros((128, 8), np.float32))

    assert caught.value.hint == "its parameters are (lhs_t, rhs)"


def test_values_are_needed_to_evaluate() -> None:
    with pytest.raises(UserError, match="argument x has no values"):
        evaluate(softmax, {"x": TensorSpec((128, 8), "float32")}, TRN2)


def test_a_kernel_returns_hbm() -> None:
    @jit
    def returns_sbuf(x):
        return nl.load(x)

    with pytest.raises(KernelError, match="a kernel returns HBM tensors, got sbuf"):
        trace(returns_sbuf, {"x": TensorSpec((128, 8), "float32")}, TRN2)


def test_language_calls_need_a_kernel() -> None:
    with pytest.raises(KernelError, match="language call outside a kernel"):
        nl.ndarray((1, 1), dtype=nl.float32)


@pytest.mark.parametrize(
    ("target", "chip"), [("trn1", "trn1"), ("gen2", "trn1"), ("gen3", "trn2"), ("trn3", "trn3")]
)
def test_the_environment_chooses_the_chip(
    monkeypatch: pytest.MonkeyPatch, target: str, chip: str
) -> None:
    monkeypatch.setenv(TARGET_VARIABLE, target)

    assert default_chip().name == chip


def test_memories_are_names_that_a_kernel_need_not_import() -> None:
    @jit
    def kernel(x):  # type: ignore[no-untyped-def]
        tile = sbuf.view(dtype=x.dtype, shape=x.shape)  # type: ignore[name-defined]  # noqa: F821
        out = hbm.view(dtype=x.dtype, shape=x.shape)  # type: ignore[name-defined]  # noqa: F821
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=out, src=tile)
        return out

    (x,) = arrays((8, 4))

    assert np.array_equal(kernel(x), x)
    assert "sbuf" not in globals()


def test_a_kernel_that_writes_its_input_leaves_the_callers_array() -> None:
    @jit
    def kernel(x):
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(tile, 2)
        nisa.dma_copy(x, tile)
        return x

    x = np.ones((4, 8), np.float32)

    assert (evaluate(kernel, {"x": x}, CHIPS["trn2"]).result == 2).all()
    assert (x == 1).all()


def test_an_index_that_nothing_wrote_is_always_the_same() -> None:
    """All ones, so −1: outside, whatever the memory held before."""

    @jit
    def kernel(x):
        index = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        tile = nl.ndarray((1, 8), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x.ap([[8, 1], [1, 8]], scalar_offset=index, indirect_dim=0))
        return x

    with pytest.raises(KernelError, match="index -1 of src"):
        evaluate(kernel, {"x": np.ones((4, 8), np.float32)}, CHIPS["trn2"])
