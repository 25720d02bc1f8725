"""Functions of `nki.language`: operators called on tiles, creation, the grid, the machine."""

from collections.abc import Callable

import numpy as np
import pytest

import accel.nki.language as nl
from accel.chip import CHIPS
from accel.errors import KernelError
from accel.nki.jit import Kernel, TensorSpec, evaluate, trace
from accel.nki.tensor import Tensor
from accel.program import Kind

RNG = np.random.default_rng(3)
A = RNG.random((64, 12), np.float32) + np.float32(0.5)
B = RNG.random((64, 12), np.float32) + np.float32(0.5)
COLUMN = RNG.random((64, 1), np.float32)


def applied(function: Callable[..., Tensor], *arrays: np.ndarray) -> np.ndarray:
    """`function` on tiles loaded from the arrays, stored and returned."""

    def kernel(inputs: list[Tensor]) -> Tensor:
        result = function(*map(nl.load, inputs))
        out = nl.ndarray(result.shape, dtype=result.dtype, buffer=nl.shared_hbm)
        nl.store(out, result)
        return out

    result = evaluate(Kernel(kernel), {"inputs": list(arrays)}, CHIPS["trn2"]).result
    assert isinstance(result, np.ndarray)
    return result


def ops_of(function: Callable[..., Tensor], *shapes: tuple[int, ...]) -> list[str]:
    """The instructions between the loads and the end."""

    def kernel(inputs: list[Tensor]) -> None:
        function(*map(nl.load, inputs))

    specs = [TensorSpec(shape, "float32") for shape in shapes]
    program = trace(Kernel(kernel), {"inputs": specs}, CHIPS["trn2"])
    return [program.forms[form].op for form in program.form][len(shapes) :]


@pytest.mark.parametrize(
    ("function", "arrays", "wanted"),
    [
        (lambda a, b: nl.add(a, b), (A, B), A + B),
        (lambda a: nl.subtract(1.0, a), (A,), 1 - A),
        (lambda a: nl.multiply(a, 3), (A,), A * 3),
        (lambda a, c: nl.divide(a, c), (A, COLUMN), A / COLUMN),
        (lambda c, a: nl.subtract(c, a), (COLUMN, A), COLUMN - A),
        (lambda a: nl.exp(a), (A,), np.exp(A)),
        (lambda a: nl.rsqrt(a), (A,), 1 / np.sqrt(A)),
        (lambda a: nl.negative(a), (A,), -A),
        (lambda a: nl.sum(a, axis=1, keepdims=True), (A,), A.sum(axis=1, keepdims=True)),
        (lambda a: nl.max(a, axis=[1]), (A,), A.max(axis=1, keepdims=True)),
        (lambda a: nl.transpose(a), (A,), A.T),
        (lambda c: nl.copy(nl.broadcast_to(c, (64, 5))), (COLUMN,), np.repeat(COLUMN, 5, 1)),
    ],
)
def test_functions_are_numpys(
    function: Callable[..., Tensor], arrays: tuple[np.ndarray, ...], wanted: np.ndarray
) -> None:
    np.testing.assert_allclose(applied(function, *arrays), wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("function", "shapes", "ops"),
    [
        (lambda a, b: nl.add(a, b), ((8, 4), (8, 4)), ["tensor_tensor"]),
        (lambda a, c: nl.add(a, c), ((8, 4), (8, 1)), ["tensor_scalar"]),
        (lambda a: nl.add(a, 1.0), ((8, 4),), ["tensor_scalar"]),
        (lambda a: nl.exp(a), ((8, 4),), ["activation"]),
        (lambda a: nl.transpose(a), ((8, 4),), ["nc_transpose", "tensor_copy"]),
        (lambda a: nl.expand_dims(a, 1), ((8, 4),), []),
    ],
)
def test_a_call_is_one_instruction_chosen_by_the_shapes(
    function: Callable[..., Tensor], shapes: tuple[tuple[int, ...], ...], ops: list[str]
) -> None:
    assert ops_of(function, *shapes) == ops


def test_comparisons_give_bytes_and_dtypes_promote() -> None:
    result = applied(lambda a, b: nl.less(a, b), A, B)

    assert result.dtype == np.uint8
    np.testing.assert_array_equal(result, A < B)
    assert applied(lambda a, b: nl.add(a, b), A, B.astype(np.float16)).dtype == np.float32


def test_filled_tensors() -> None:
    assert (applied(lambda: nl.full((4, 3), 2.5, nl.float32)) == 2.5).all()
    assert (applied(lambda: nl.zeros((4, 3), nl.int32)) == 0).all()
    assert (applied(lambda a: nl.zeros_like(a), A) == 0).all()
    assert (applied(lambda: nl.ones((4, 3), nl.bfloat16)) == 1).all()


def test_constants_are_part_of_the_program() -> None:
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    result = applied(lambda: nl.load(nl.shared_constant(table)))

    np.testing.assert_array_equal(result, table)


def test_a_constant_is_marked_so() -> None:
    def kernel() -> None:
        nl.load(nl.shared_constant(np.ones((4, 3), np.float32)))

    program = trace(Kernel(kernel), {}, CHIPS["trn2"])

    assert program.storages[0].kind is Kind.CONSTANT


def test_the_machines_limits_are_the_chips() -> None:
    seen: dict[str, int] = {}

    def kernel(chip: str) -> None:
        seen[chip] = nl.tile_size.sbuf_fmax_bytes
        nl.zeros((1, 1), nl.float32)

    for name in ("trn1", "trn2"):
        trace(Kernel(kernel), {"chip": name}, CHIPS[name])

    assert seen == {name: CHIPS[name].sbuf_usable_bytes for name in ("trn1", "trn2")}
    assert (nl.tile_size.pmax, nl.tile_size.psum_bank_fmax) == (128, 512)


def test_programs_of_a_grid_know_where_they_are() -> None:
    seen = []

    def kernel() -> None:
        here = tuple(nl.program_id(axis) for axis in range(nl.program_ndim()))
        seen.append((here, nl.num_programs(axes=(0, 1))))

    trace(Kernel(kernel), {}, CHIPS["trn2"], grid=(1, 2))

    assert seen == [((0, 0), (1, 2)), ((0, 1), (1, 2))]


def test_buffers_are_told_apart() -> None:
    seen = []

    def kernel(x: Tensor) -> None:
        tile = nl.load(x)
        psum = nl.ndarray((1, 1), nl.float32, nl.psum)
        seen.append((nl.is_hbm(x), nl.is_sbuf(tile), nl.is_psum(psum), nl.is_on_chip(x)))
        seen.append((tile.buffer == nl.sbuf, tile.dtype == nl.float32, nl.is_hbm(nl.shared_hbm)))

    trace(Kernel(kernel), {"x": TensorSpec((4, 4), "float32")}, CHIPS["trn2"])

    assert seen == [(True, True, True, False), (True, True, True)]


def test_values_can_be_printed_while_evaluating(capsys: pytest.CaptureFixture[str]) -> None:
    def show(a: Tensor) -> Tensor:
        nl.device_print("corner", a[0:1, 0:2])
        return a

    applied(show, A)

    assert capsys.readouterr().out == f"corner {A[0:1, 0:2]}\n"


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda a: nl.add(1, 2), "needs a tile, got two numbers"),
        (lambda a: nl.load(a), "is in sbuf, must be in hbm"),
        (lambda a: nl.store(a, a), "is in sbuf, must be in hbm"),
        (lambda a: nl.add(a, a[:, 0:3]), "does not repeat to"),
        (lambda a: nl.conv(a), "nki.language has no 'conv'"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(function: Callable[..., Tensor], told: str) -> None:
    with pytest.raises(KernelError, match=told):
        ops_of(function, (8, 4))
