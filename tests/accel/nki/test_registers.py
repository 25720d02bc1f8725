"""Registers: ints where values are computed, given by name where only shapes are recorded."""

from collections.abc import Callable

import numpy as np
import pytest

import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.chip import CHIPS
from accel.errors import KernelError
from accel.nki.jit import TensorSpec, evaluate, jit, trace

TRN2 = CHIPS["trn2"]
X = np.ones((4, 8), np.float32)
SPECS = {"x": TensorSpec((4, 8), "float32"), "n": TensorSpec((1, 1), "int32")}


def count_of(n: int, dtype: object = np.int32) -> dict[str, object]:
    return {"x": X, "n": np.array([[n]], dtype)}


def loaded(n):
    """A register that holds the number in HBM."""
    count = nisa.register_alloc()
    nisa.register_load(count, n)
    return count


def doubled(x, loop: Callable[[object], None]):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    loop(tile)
    nl.store(out, tile)
    return out


def double(tile) -> None:
    nisa.tensor_scalar(tile, tile, op0=nl.multiply, operand0=2.0)


@jit
def for_loop(x, n):
    count = loaded(n)

    def loop(tile) -> None:
        for _ in nl.dynamic_range(1, count):
            double(tile)

    return doubled(x, loop)


@jit
def counted(x, n):
    return doubled(x, lambda tile: nl.fori_loop(0, loaded(n), lambda i: double(tile), step=2))


@jit
def until_zero(x, n):
    left = nl.ndarray((1, 1), nl.int32)
    nisa.dma_copy(left, n)

    def loop(tile) -> None:
        def body(going):
            double(tile)
            nisa.tensor_scalar(left, left, op0=nl.subtract, operand0=1)
            nisa.register_load(going, left)
            return going

        nl.while_loop(loaded(left), body)

    return doubled(x, loop)


@jit
def while_statement(x, n):
    left = nl.ndarray((1, 1), nl.int32)
    nisa.dma_copy(left, n)
    going = nisa.register_alloc(left)

    def loop(tile) -> None:
        while going:
            double(tile)
            nisa.tensor_scalar(left, left, op0=nl.subtract, operand0=1)
            nisa.register_load(going, left)

    return doubled(x, loop)


@pytest.mark.parametrize(
    ("kernel", "n", "times"),
    [(for_loop, 4, 3), (for_loop, 1, 0), (counted, 5, 3), (until_zero, 3, 3),
     (until_zero, 0, 0), (while_statement, 2, 2)],
)  # fmt: skip
def test_a_loop_runs_as_often_as_its_register_says(kernel, n: int, times: int) -> None:
    result = evaluate(kernel, count_of(n), TRN2).result

    np.testing.assert_array_equal(result, X * 2.0**times)


@pytest.mark.parametrize(
    ("kernel", "registers"),
    [(for_loop, {"count": 3}), (counted, {"count": 3}), (while_statement, {"going": [3, 2, 1, 0]})],
)
def test_given_values_give_the_program_that_evaluation_records(kernel, registers) -> None:
    traced = trace(kernel, SPECS, TRN2, registers=registers)

    assert evaluate(kernel, count_of(3), TRN2).program == traced


@pytest.mark.parametrize("registers", [None, {"other": 1}, {"count": []}])
def test_a_value_that_shapes_do_not_tell_is_an_error_that_names_the_register(registers) -> None:
    with pytest.raises(KernelError, match="value of register count") as caught:
        trace(for_loop, SPECS, TRN2, registers=registers)

    assert "registers={'count': 4}" in caught.value.hint
    assert caught.value.place.startswith("test_registers.py:")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32])
def test_a_register_takes_and_gives_integers(dtype: object) -> None:
    @jit
    def passed_on(n):
        out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
        other = nisa.register_alloc(0)
        nisa.register_move(other, loaded(n))
        nisa.register_store(out, other)
        return out

    given = np.array([[-7]]).astype(dtype)
    result = evaluate(passed_on, {"n": given}, TRN2).result

    assert result[0, 0] == given.astype(np.int32)[0, 0]


def test_a_constant_register_is_known_in_both_modes() -> None:
    @jit
    def constant(x):
        count = nisa.register_alloc(2)

        def loop(tile) -> None:
            for _ in nl.dynamic_range(count):
                double(tile)

        return doubled(x, loop)

    traced = trace(constant, {"x": SPECS["x"]}, TRN2)
    evaluation = evaluate(constant, {"x": X}, TRN2)

    assert evaluation.program == traced
    np.testing.assert_array_equal(evaluation.result, 4 * X)


def in_kernel(body: Callable[[object], object]):
    def kernel(x):
        body(x)

    return evaluate(jit(kernel), {"x": X}, TRN2)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda x: nisa.register_load(nisa.register_alloc(), x), r"shape \(4, 8\), needs one"),
        (lambda x: nisa.register_load(3, x), "dst is int, needs a register"),
        (lambda x: nisa.register_move(nisa.register_alloc(), 1.5), "src is float, needs an int"),
        (lambda x: nl.dynamic_range(0, 4, 0), "step is 0, needs a positive int"),
        (lambda x: nl.dynamic_range(0, 4, nisa.register_alloc(1)), "step is register"),
    ],
)
def test_misuse_is_an_error(body, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        in_kernel(body)
