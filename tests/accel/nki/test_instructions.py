"""Instruction calls against numpy: the arguments of the language arrive where they belong."""

from collections.abc import Callable

import numpy as np
import pytest

import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.chip import CHIPS
from accel.errors import KernelError
from accel.nki.jit import Kernel, TensorSpec, trace
from accel.nki.tensor import Tensor
from accel.program import Engine, Form
from accel.program_text import format_program, parse_program

Body = Callable[..., None]
RNG = np.random.default_rng(7)
A = RNG.standard_normal((128, 24), np.float32)
B = RNG.standard_normal((128, 24), np.float32)
COLUMN = RNG.standard_normal((128, 1), np.float32)
COUNTS = RNG.integers(0, 100, (128, 24)).astype(np.int32)
CHOICE = (COUNTS % 2).astype(np.uint8)


def run(
    body: Body, *arrays: np.ndarray, shape: tuple[int, ...] = (128, 24), dtype: object = np.float32
) -> np.ndarray:
    """`body(dst, *tiles)` between a load of every array and a store of dst."""

    def kernel(inputs: list[Tensor]) -> Tensor:
        out = nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)
        dst = nl.zeros(shape, dtype=dtype)
        body(dst, *map(nl.load, inputs))
        nl.store(out, dst)
        return out

    result = Kernel(kernel)(list(arrays))
    assert isinstance(result, np.ndarray)
    return result


def form_of(body: Body, *shapes: tuple[int, ...], chip: str = "trn2") -> Form:
    """The last form that `body(*tiles)` records."""

    def kernel(inputs: list[Tensor]) -> None:
        body(*map(nl.load, inputs))

    specs = [TensorSpec(shape, "float32") for shape in shapes]
    return trace(Kernel(kernel), {"inputs": specs}, CHIPS[chip]).forms[-1]


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        (nl.add, A + B),
        (np.subtract, A - B),
        ("multiply", A * B),
        (nl.maximum, np.maximum(A, B)),
        (np.max, np.maximum(A, B)),
    ],
)
def test_tensor_tensor_takes_tokens_names_and_numpy(op: object, wanted: np.ndarray) -> None:
    result = run(lambda dst, a, b: nisa.tensor_tensor(dst, a, b, op=op), A, B)

    np.testing.assert_allclose(result, wanted, rtol=1e-6)


def test_tensor_scalar_with_numbers_vectors_and_reversal() -> None:
    result = run(
        lambda dst, a, c: nisa.tensor_scalar(
            dst, a, op0=nl.subtract, operand0=c, reverse0=True, op1=nl.multiply, operand1=3
        ),
        A,
        COLUMN,
    )

    np.testing.assert_allclose(result, (COLUMN - A) * 3, rtol=1e-6)


def test_bit_operations_take_integers() -> None:
    result = run(
        lambda dst, n: nisa.tensor_scalar(dst, n, op0=nl.left_shift, operand0=3),
        COUNTS,
        dtype=np.int32,
    )

    np.testing.assert_array_equal(result, COUNTS << 3)


def test_scalar_tensor_tensor() -> None:
    result = run(
        lambda dst, a, b: nisa.scalar_tensor_tensor(
            dst, data=a, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=b
        ),
        A,
        B,
    )

    np.testing.assert_allclose(result, 2 * A + B, rtol=1e-6)


def test_scan_carries_along_the_free_axis() -> None:
    result = run(
        lambda dst, a, b: nisa.tensor_tensor_scan(
            dst, data0=a, data1=b, initial=0.5, op0=nl.multiply, op1=nl.add
        ),
        A,
        B,
    )

    wanted, state = np.empty_like(A), np.full(128, 0.5, np.float32)
    for i in range(A.shape[1]):
        state = A[:, i] * state + B[:, i]
        wanted[:, i] = state
    np.testing.assert_allclose(result, wanted, rtol=1e-4)


def test_activation_scales_biases_and_sums() -> None:
    total: list[Tensor] = []

    def body(dst: Tensor, a: Tensor, c: Tensor) -> None:
        total.append(nl.ndarray((128, 1), dtype=nl.float32))
        nisa.activation_reduce(
            dst, op=nl.exp, data=a, reduce_op=np.add, reduce_res=total[0], bias=c, scale=0.5
        )
        nisa.tensor_scalar(dst, dst, op0=nl.divide, operand0=total[0])

    powers = np.exp(A * np.float32(0.5) + COLUMN)
    result = run(body, A, COLUMN)

    np.testing.assert_allclose(result, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(("axis", "negate"), [(1, False), ([-1], True), ((1,), False)])
def test_reduce_over_the_free_axis(axis: object, negate: bool) -> None:
    result = run(
        lambda dst, a: nisa.tensor_reduce(dst, op=nl.add, data=a, axis=axis, negate=negate),
        A,
        shape=(128, 1),
    )

    sign = -1 if negate else 1
    np.testing.assert_allclose(result, sign * A.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-5)


def test_reduce_of_the_last_of_several_axes() -> None:
    result = run(
        lambda dst, a: nisa.tensor_reduce(
            dst, op=nl.maximum, data=a.reshape((128, 4, 6)), axis=(2,)
        ),
        A,
        shape=(128, 4),
    )

    np.testing.assert_array_equal(result, A.reshape(128, 4, 6).max(axis=2))


def test_tensor_scalar_reduce_gives_both_results() -> None:
    def body(dst: Tensor, a: Tensor) -> None:
        scaled = nl.ndarray(a.shape, dtype=nl.float32)
        nisa.tensor_scalar_reduce(
            scaled, data=a, op0=nl.multiply, operand0=2.0, reduce_op=nl.maximum, reduce_res=dst
        )

    result = run(body, A, shape=(128, 1))

    np.testing.assert_allclose(result, 2 * A.max(axis=1, keepdims=True), rtol=1e-6)


def test_matmul_adds_up_and_transposes() -> None:
    def body(dst: Tensor, a: Tensor, b: Tensor) -> None:
        psum = nl.ndarray((24, 24), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(psum, a, b)
        nisa.nc_matmul(psum, a, b)
        nisa.tensor_copy(dst, psum)

    np.testing.assert_allclose(run(body, A, B, shape=(24, 24)), 2 * A.T @ B, rtol=1e-4, atol=1e-4)
    transposed = run(lambda dst, a: nisa.tensor_copy(dst, nl.transpose(a)), A, shape=(24, 128))
    np.testing.assert_array_equal(transposed, A.T)


def test_matmul_can_overwrite() -> None:
    def body(dst: Tensor, a: Tensor, b: Tensor) -> None:
        psum = nl.ndarray((24, 24), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(psum, a, b)
        nisa.nc_matmul(psum, a, b, accumulate=False)
        nisa.tensor_copy(dst, psum)

    np.testing.assert_allclose(run(body, A, B, shape=(24, 24)), A.T @ B, rtol=1e-4, atol=1e-4)


def test_iota_and_affine_select() -> None:
    counted = run(
        lambda dst: nisa.iota(dst, [[2, 24]], offset=5, channel_multiplier=100), dtype=np.int32
    )
    lower = run(
        lambda dst, a: nisa.affine_select(
            dst, [[-1, 24]], 1, a, on_false_value=-9.0, cmp_op=nl.greater_equal
        ),
        A,
    )

    rows, columns = np.indices((128, 24))
    np.testing.assert_array_equal(counted, 5 + 100 * rows + 2 * columns)
    np.testing.assert_array_equal(lower, np.where(rows >= columns, A, np.float32(-9)))


def test_selects_by_a_predicate() -> None:
    chosen = run(lambda dst, p, a, b: nisa.select_reduce(dst, p, a, b), CHOICE, A, B)
    number = run(lambda dst, p, a: nisa.select_reduce(dst, p, a, -1.0), CHOICE, A)
    copied = run(
        lambda dst, p, a: nisa.tensor_copy_predicated(dst, a, p, reverse_pred=True), CHOICE, A
    )

    np.testing.assert_array_equal(chosen, np.where(CHOICE, A, B))
    np.testing.assert_array_equal(number, np.where(CHOICE, A, np.float32(-1)))
    np.testing.assert_array_equal(copied, np.where(CHOICE, np.float32(0), A))


def test_range_select_keeps_a_window() -> None:
    low, high = np.full((128, 1), 3, np.float32), np.full((128, 1), 9, np.float32)
    result = run(
        lambda dst, a, low, high: nisa.range_select(
            dst, a, nl.greater_equal, nl.less, bound0=low, bound1=high
        ),
        A,
        low,
        high,
    )

    np.testing.assert_array_equal(result[:, 3:9], A[:, 3:9])
    assert (result[:, :3] == np.finfo(np.float32).min).all()


def test_shuffle_and_identity() -> None:
    mask = [i ^ 1 for i in range(32)]
    shuffled = run(lambda dst, a: nisa.nc_stream_shuffle(dst, a, mask), A)
    identity = run(
        lambda dst: nl.shared_identity_matrix(24, dtype=nl.float32, dst=dst), shape=(24, 24)
    )

    np.testing.assert_array_equal(shuffled, A.reshape(64, 2, 24)[:, ::-1].reshape(128, 24))
    np.testing.assert_array_equal(identity, np.eye(24, dtype=np.float32))


def test_the_eight_largest() -> None:
    result = run(lambda dst, a: nisa.max8(dst, a), A, shape=(128, 8))

    np.testing.assert_array_equal(result, np.sort(A, axis=1)[:, :-9:-1])


def test_gather_of_rows() -> None:
    table = RNG.standard_normal((200, 24)).astype(np.float32)
    rows = RNG.integers(0, 200, (128, 1)).astype(np.uint32)

    def kernel(table: Tensor, rows: Tensor) -> Tensor:
        out = nl.ndarray((128, 24), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 24), dtype=nl.float32)
        index = nl.load(rows)
        nisa.dma_copy(dst=tile, src=table.ap([[24, 128], [1, 24]], vector_offset=index))
        nl.store(out, tile)
        return out

    np.testing.assert_array_equal(Kernel(kernel)(table, rows), table[rows[:, 0]])


def test_transfers_cast_and_transpose() -> None:
    def kernel(x: Tensor) -> Tensor:
        out = nl.ndarray((24, 128), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        tile = nl.load_transpose2d(x)
        nl.store(out, tile)
        return out

    result = Kernel(kernel)(A)

    assert result.dtype.name == "bfloat16"
    np.testing.assert_array_equal(result, A.T.astype(result.dtype))


def test_what_is_not_given_is_not_recorded() -> None:
    plain = form_of(lambda a: nisa.activation(a, op=nl.exp, data=a), (128, 8))
    full = form_of(
        lambda a, c: nisa.activation(a, op=nl.exp, data=a, bias=c, scale=2),
        (128, 8),
        (128, 1),
    )

    assert plain.attributes == (("func", "exp"),)
    assert full.attributes == (("func", "exp"), ("scale", 2.0))
    assert [access.role for access in full.accesses] == ["dst", "data", "bias"]


@pytest.mark.parametrize(
    ("engine", "wanted"), [(nisa.engine.gpsimd, Engine.GPSIMD), (nisa.scalar_engine, Engine.SCALAR)]
)
def test_the_requested_engine_is_recorded(engine: nisa.engine, wanted: Engine) -> None:
    assert form_of(lambda a: nisa.tensor_copy(a, a, engine=engine), (128, 8)).engine is wanted


def test_the_generation_is_the_chips() -> None:
    seen = []
    form_of(lambda a: seen.append(nisa.get_nc_version()), (1, 8), chip="trn1")

    assert seen == [nisa.nc_version.gen2]
    assert nisa.nc_version.gen3 > nisa.nc_version.gen2


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (lambda a: nisa.tensor_copy(a, A), "src is ndarray, needs a tensor"),
        (lambda a: nisa.tensor_scalar(a, a, op0="plus", operand0=1), "unknown operator 'plus'"),
        (lambda a: nisa.tensor_scalar(a, a, op0=nl.add, operand0="x"), "operand0 is str, needs"),
        (lambda a: nisa.tensor_reduce(a, op=nl.add, data=a, axis=0), "needs the last free ones"),
        (lambda a: nisa.tensor_copy(a, a, engine="vector"), "needs a member of nisa.engine"),
        (lambda a: nisa.tensor_copy(a, a, engine=nisa.tensor_engine), "cannot run it on trn2"),
        (lambda a: nisa.tensor_copy(a[16:32], a[0:16]), "dst takes 16 partitions from partition"),
        (lambda a: nl.ndarray((4, 4), dtype="f99"), "unknown dtype 'f99'"),
        (lambda a: nl.ndarray((4, 4), dtype=nl.int8, buffer="l2"), "unknown buffer 'l2'"),
        (lambda a: nl.ndarray((4, 0), dtype=nl.int8), "has no elements"),
        (lambda a: nl.ndarray((4, 1 << 20), dtype=nl.int8), "ends at byte 1048576 .* has 229376"),
        (
            lambda a: nl.ndarray((4, 5000), dtype=nl.float32, buffer=nl.psum),
            "ends at byte 20000 of a partition, psum of trn2 has 16384",
        ),
    ],
)
def test_a_wrong_call_says_what_is_wrong(body: Body, told: str) -> None:
    with pytest.raises(KernelError, match=told):
        form_of(body, (128, 8))


def test_a_bit_operator_may_come_second_or_be_unary() -> None:
    odd = run(
        lambda d, a: nisa.tensor_scalar(
            d, a, op0=nl.bypass, operand0=0, op1=nl.bitwise_and, operand1=1
        ),
        COUNTS,
        dtype=np.int32,
    )
    inverted = run(lambda d, a: nisa.tensor_copy(d, nl.invert(a)), COUNTS, dtype=np.int32)

    np.testing.assert_array_equal(odd, COUNTS & 1)
    np.testing.assert_array_equal(inverted, ~COUNTS)


@pytest.mark.parametrize(
    ("dtype", "value", "told"),
    [
        (nl.uint8, 300, "value is 300, uint8 holds 0 to 255"),
        (nl.int8, -129, "value is -129, int8 holds -128 to 127"),
        (nl.int32, 2**31, "int32 holds"),
        (nl.float8_e5m2_x4, 1, "float8_e5m2_x4 is filled with 0 only"),
    ],
)
def test_a_fill_that_the_dtype_does_not_hold_is_refused(dtype: str, value: int, told: str) -> None:
    with pytest.raises(KernelError, match=told):
        form_of(lambda a: nisa.memset(nl.ndarray((4, 4), dtype=dtype), value=value), (1, 1))


def test_a_sum_over_data_that_it_overwrites_is_of_the_data() -> None:
    def body(dst: Tensor, a: Tensor) -> None:
        nisa.tensor_scalar_reduce(
            a[:, 1:24],
            data=a[:, 0:23],
            op0=nl.bypass,
            operand0=0.0,
            reduce_op=nl.maximum,
            reduce_res=dst,
        )

    got = run(body, A, shape=(128, 1))

    np.testing.assert_array_equal(got, A[:, :23].max(axis=1, keepdims=True))


def test_numbers_that_are_equal_are_one_number() -> None:
    def signs(dst: Tensor, a: Tensor) -> None:
        nisa.memset(dst, value=-0.0)
        nisa.memset(dst, value=0.0)

    def kernel(inputs: list[Tensor]) -> None:
        for _ in range(2):
            nisa.memset(nl.load(inputs[0]), value=float("nan"))

    program = trace(Kernel(kernel), {"inputs": [TensorSpec((4, 4), "float32")]}, CHIPS["trn2"])

    assert not np.signbit(run(signs, A)).any()
    assert [form.op for form in program.forms] == ["dma_copy", "memset"]
    assert parse_program(format_program(program)) == program


def gathered(rows: np.ndarray, indices: np.ndarray, count: int, **options: object) -> np.ndarray:
    """`count` rows of a table by way of an indirect transfer."""

    def kernel(table: Tensor, index: Tensor) -> Tensor:
        out = nl.ndarray((count, 24), dtype=table.dtype, buffer=nl.shared_hbm)
        tile = nl.zeros((count, 24), dtype=table.dtype)
        source = table.ap([[24, count], [1, 24]], vector_offset=nl.load(index), indirect_dim=0)
        nisa.dma_copy(dst=tile, src=source, **options)
        nl.store(out, tile)
        return out

    result = Kernel(kernel)(rows, indices)
    assert isinstance(result, np.ndarray)
    return result


def test_a_gather_may_take_more_rows_than_the_table_has() -> None:
    table, indices = A[:50], RNG.integers(0, 50, (128, 1)).astype(np.int32)
    outside = indices.copy()
    outside[5] = 50
    skipped = gathered(table, outside, 128, oob_mode=nisa.oob_mode.skip)

    np.testing.assert_array_equal(gathered(table, indices, 128), table[indices[:, 0]])
    assert (skipped[5] == 0).all()
    np.testing.assert_array_equal(np.delete(skipped, 5, 0), table[np.delete(indices[:, 0], 5)])
    with pytest.raises(KernelError, match="index 50 is outside the 50 rows of src") as caught:
        gathered(table, outside, 128)
    assert "oob_mode.skip" in caught.value.hint


@pytest.mark.parametrize(
    ("indices", "told"),
    [
        (np.zeros((64, 1), np.int32), "src_index has 64 elements, src has 128 rows"),
        (np.zeros((128, 1), np.float32), "src_index is float32, must be an integer"),
    ],
)
def test_a_gather_needs_an_index_a_row(indices: np.ndarray, told: str) -> None:
    with pytest.raises(KernelError, match=told):
        gathered(A, indices, 128)


def test_one_index_moves_an_operand_of_any_engine() -> None:
    def body(dst: Tensor, a: Tensor, index: Tensor) -> None:
        nisa.tensor_copy(dst, a.ap([[24, 128], [1, 8]], scalar_offset=index, indirect_dim=1))

    result = run(body, A, np.array([[5]], np.int32), shape=(128, 8))

    np.testing.assert_array_equal(result, A[:, 5:13])
    with pytest.raises(KernelError, match="index 17 of src is outside the 17 places"):
        run(body, A, np.array([[17]], np.int32), shape=(128, 8))


def test_a_vector_of_indices_is_for_transfers_only() -> None:
    def body(a: Tensor) -> None:
        index = nl.zeros((128, 1), dtype=nl.int32)
        nisa.tensor_copy(a, a.ap([[8, 128], [1, 8]], vector_offset=index))

    with pytest.raises(KernelError, match="src takes a vector of indices, which only DMA"):
        form_of(body, (128, 8))


def test_an_index_outside_a_partition_is_an_error() -> None:
    far = np.full((128, 24), 24, np.uint32)

    with pytest.raises(KernelError, match="nc_n_gather: indices has 24, a partition"):
        run(lambda d, a, i: nisa.nc_n_gather(d, a, i), A, far)
    with pytest.raises(KernelError, match="local_gather: index has 24"):
        run(
            lambda d, a, i: nisa.local_gather(d, a, i),
            A,
            far[:, :2].astype(np.uint16),
            shape=(128, 32),
        )


def test_iota_saturates_in_narrow_integers() -> None:
    got = run(lambda d: nisa.iota(d, [[20, 24]], offset=-40), shape=(128, 24), dtype=np.uint8)

    np.testing.assert_array_equal(got[0], (20 * np.arange(24) - 40).clip(0, 255))
