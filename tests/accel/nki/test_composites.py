"""Functions of the language that several instructions make together, against numpy."""

from collections.abc import Callable

import numpy as np
import pytest

import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.chip import CHIPS
from accel.errors import KernelError
from accel.nki.jit import Kernel, TensorSpec, evaluate, trace
from accel.nki.tensor import Tensor

RNG = np.random.default_rng(4)
A = (RNG.standard_normal((128, 24)) * 5).astype(np.float32)
B = (RNG.standard_normal((128, 24)) * 3).astype(np.float32)
SMALL = B[:24, :16].copy()


def run(body: Callable[..., Tensor], *arrays: np.ndarray) -> np.ndarray:
    """What `body(*tiles)` gives, stored to HBM."""

    def kernel(inputs: list[Tensor]) -> Tensor:
        result = body(*map(nl.load, inputs))
        out = nl.ndarray(result.shape, dtype=result.dtype, buffer=nl.shared_hbm)
        nl.store(out, result if result.buffer == "sbuf" else nl.copy(result))
        return out

    result = Kernel(kernel)(list(arrays))
    assert isinstance(result, np.ndarray)
    return result


def softmax(a: np.ndarray) -> np.ndarray:
    powers = np.exp(a - a.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("body", "arrays", "wanted"),
    [
        (nl.floor, (A,), np.floor(A)),
        (nl.ceil, (A,), np.ceil(A)),
        (nl.trunc, (A,), np.trunc(A)),
        (nl.fmod, (A, B), np.fmod(A, B)),
        (lambda a: nl.fmod(a, -1.5), (A,), np.fmod(A, -1.5)),
        (lambda b: nl.fmod(-7.0, b), (B,), np.fmod(np.float32(-7), B)),
        (nl.cos, (A,), np.cos(A)),
        (nl.tan, (A / 12,), np.tan(A / 12)),
        (lambda a: nl.mean(a, 1), (A,), A.mean(1, keepdims=True)),
        (lambda a: nl.var(a, axis=1), (A,), A.var(1, keepdims=True)),
        (lambda a: nl.all(nl.greater(a, -9.0), 1), (A,), (A > -9).all(1, keepdims=True)),
        (nl.softmax, (A,), softmax(A)),
        (lambda a, b: nl.where(nl.greater(a, 0.0), a, b), (A, B), np.where(A > 0, A, B)),
        (lambda a: nl.where(nl.greater(a, 0.0), 1.0, a), (A,), np.where(A > 0, 1, A)),
        (lambda a: nl.where(a, a, 2.0), (np.trunc(B),), np.where(np.trunc(B), np.trunc(B), 2)),
        (nl.matmul, (A, SMALL), A @ SMALL),
        (lambda a, b: nl.matmul(a, b, transpose_x=True), (A, B), A.T @ B),
        (lambda a: nl.broadcast_to(a, (128, 24)), (A[:1],), np.broadcast_to(A[:1], (128, 24))),
        (lambda a: nl.broadcast_to(a, (40, 24)), (A[:1],), np.broadcast_to(A[:1], (40, 24))),
    ],
)
def test_values_are_those_of_numpy(
    body: Callable[..., Tensor], arrays: tuple[np.ndarray, ...], wanted: np.ndarray
) -> None:
    np.testing.assert_allclose(run(body, *arrays), wanted, rtol=2e-5, atol=3e-5)


def test_rms_norm_takes_a_row_of_weights() -> None:
    wanted = A / np.sqrt((A * A).mean(1, keepdims=True) + 1e-6) * B[:1]

    result = run(lambda a, w: nl.rms_norm(a, w, 1, 24), A, B[:1])

    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


def test_gather_flattened_takes_elements_of_its_own_partition() -> None:
    picks = RNG.integers(0, 24, (128, 7)).astype(np.int32)

    result = run(nl.gather_flattened, A, picks)

    np.testing.assert_array_equal(result, np.take_along_axis(A, picks, 1))


def test_random_tiles_follow_from_their_seed() -> None:
    def drawn(seed: Tensor) -> Tensor:
        nl.random_seed(seed)
        return nl.rand((128, 512), dtype=nl.float32)

    seeds = [np.array([[n]], np.int32) for n in (42, 42, 43)]
    first, again, other = (run(drawn, seed) for seed in seeds)

    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert first.min() >= 0
    assert first.max() < 1
    assert abs(first.mean() - 0.5) < 0.01


def test_dropout_keeps_or_drops() -> None:
    result = run(lambda a: nl.dropout(a, 0.25), A)

    assert ((result == 0) | (result == A)).all()
    assert abs((result == 0).mean() - 0.25) < 0.03


def test_hbm_tensors_are_filled_by_way_of_sbuf() -> None:
    def kernel(unused: Tensor) -> tuple[Tensor, Tensor]:
        sevens = nl.full((3, 1000), 7, dtype=nl.int32, buffer=nl.shared_hbm)
        return sevens, nl.zeros((300, 5), dtype=nl.bfloat16, buffer=nl.shared_hbm)

    done = evaluate(Kernel(kernel), {"unused": A}, CHIPS["trn2"])

    sevens, zeros = done.result  # type: ignore[misc]
    assert (sevens == 7).all()
    assert (zeros == 0).all()
    assert done.uninitialised == ()


def test_tokens_of_instructions_are_not_called() -> None:
    with pytest.raises(KernelError, match=r"nl\.prelu is not called"):
        run(nl.prelu, A)


def test_select_and_vector_select_find_their_place_at_run_time() -> None:
    table = RNG.standard_normal((6, 128, 24)).astype(np.float32)
    rows = RNG.integers(0, 6 * 128, (64, 1)).astype(np.int32)

    def kernel(data: Tensor, which: Tensor, picks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        index, places = nl.load(which), nl.load(picks)
        one, many, column = (nl.ndarray(s, nl.float32) for s in ((128, 24), (64, 24), (128, 6)))
        nisa.dma_copy(one, data.select(0, index)[:, 0:24])
        nisa.dma_copy(many, data.reshape((6 * 128, 24)).vector_select(0, places))
        nisa.tensor_copy(column, one.reshape((128, 4, 6)).select(1, index))
        outs = [nl.ndarray(tile.shape, nl.float32, nl.shared_hbm) for tile in (one, many, column)]
        for out, tile in zip(outs, (one, many, column), strict=True):
            nisa.dma_copy(out, tile)
        return outs[0], outs[1], outs[2]

    one, many, column = Kernel(kernel)(table, np.array([[3]], np.int32), rows)  # type: ignore[misc]

    np.testing.assert_array_equal(one, table[3])
    np.testing.assert_array_equal(many, table.reshape(-1, 24)[rows[:, 0]])
    np.testing.assert_array_equal(column, table[3].reshape(128, 4, 6)[:, 3])


def test_an_indirect_view_takes_no_second_index() -> None:
    def kernel(data: Tensor) -> None:
        index = nl.zeros((1, 1), dtype=nl.int32)
        data.select(0, index).select(0, index)

    with pytest.raises(KernelError, match="data is already an indirect view"):
        trace(Kernel(kernel), {"data": TensorSpec((4, 8, 8), "float32")}, CHIPS["trn2"])


def test_both_orders_of_affine_select_and_dma_compute_are_told_by_their_types() -> None:
    def kernel(data: Tensor) -> None:
        a, b = nl.load(data), nl.load(data)
        kept = nl.ndarray(a.shape, a.dtype)
        nisa.affine_select(kept, [[-1, 24]], 1, a, -1.0, cmp_op=nl.greater_equal, offset=3)
        nisa.affine_select(kept, [[-1, 24]], 3, 1, a, -1.0, nl.greater_equal)
        nisa.dma_compute(kept, [a, b], nl.add, scales=[1.0, 1.0])
        nisa.dma_compute(kept, [a, b], [1.0, 1.0], nl.add)
        nisa.dma_copy(b, a, dst_rmw_op=nl.add)

    program = trace(Kernel(kernel), {"data": TensorSpec((128, 24), "float32")}, CHIPS["trn2"])

    counts = dict.fromkeys(("affine_select", "dma_compute"), 0)
    for number in program.form:
        op = program.forms[number].op
        counts[op] = counts.get(op, 0) + 1
    assert [f.op for f in program.forms].count("affine_select") == 1
    assert [f.op for f in program.forms].count("dma_compute") == 1
    assert (counts["affine_select"], counts["dma_compute"]) == (2, 3)
