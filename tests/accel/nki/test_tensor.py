"""Views against numpy: whatever is done to a view, its elements are the ones numpy would give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.chip import CHIPS
from accel.errors import KernelError
from accel.nki.jit import tensor_values
from accel.nki.recorder import Recorder
from accel.nki.tensor import Tensor, check_bounds
from accel.program import Memory

SHAPE = (8, 4, 6)
ARRAY = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)


def tensor(memory: Memory = Memory.HBM, shape: tuple[int, ...] = SHAPE) -> Tensor:
    return Recorder("test", CHIPS["trn2"]).allocate(shape, "float32", memory, name="t")


def values(view: Tensor) -> np.ndarray:
    return tensor_values(ARRAY, view)


def slices(extent: int) -> st.SearchStrategy[slice]:
    starts = st.integers(0, extent - 1)
    return starts.flatmap(
        lambda start: st.builds(
            slice,
            st.just(start),
            st.integers(start + 1, extent),
            st.sampled_from([None, 1, 2, 3]),
        )
    )


def indices(extent: int) -> st.SearchStrategy[slice | int]:
    return slices(extent) | st.integers(-extent, extent - 1)


@given(st.tuples(*map(indices, SHAPE)))
def test_hbm_indexing_is_numpys(key: tuple[slice | int, ...]) -> None:
    wanted = np.atleast_1d(ARRAY[key])

    np.testing.assert_array_equal(values(tensor()[key]), wanted)


@given(st.tuples(slices(8), indices(4), indices(6)))
def test_on_chip_indexing_keeps_two_axes(key: tuple[slice | int, ...]) -> None:
    view = tensor(Memory.SBUF)[key]

    assert view.ndim >= 2
    np.testing.assert_array_equal(values(view).ravel(), ARRAY[key].ravel())


def test_an_integer_keeps_the_partition_axis() -> None:
    assert tensor(Memory.SBUF)[3].shape == (1, 4, 6)
    assert tensor(Memory.SBUF)[3].start_partition == 3
    assert tensor()[3].shape == (4, 6)


def test_ellipsis_and_new_axes() -> None:
    assert tensor()[..., 2].shape == (8, 4)
    assert tensor()[:, None].shape == (8, 1, 4, 6)
    assert tensor(Memory.SBUF)[2:4, ..., 0:3].shape == (2, 4, 3)


@given(
    st.sampled_from([(8, 24), (8, 2, 12), (8, 4, 2, 3), (8, 6, 4), (8, 1, 24), (8, -1, 3)]),
    st.sampled_from(list(Memory)[:3]),
)
def test_reshape_is_numpys(shape: tuple[int, ...], memory: Memory) -> None:
    np.testing.assert_array_equal(values(tensor(memory).reshape(shape)), ARRAY.reshape(shape))


def test_reshape_of_a_slice_merges_only_what_lies_densely() -> None:
    view = tensor()[:, 1:3, :]

    np.testing.assert_array_equal(values(view.reshape((8, 12))), ARRAY[:, 1:3, :].reshape((8, 12)))
    with pytest.raises(KernelError, match="not dense enough"):
        view.reshape((16, 6)).reshape((96,))


def test_permute_broadcast_and_rearrange() -> None:
    view = tensor(Memory.SBUF)

    np.testing.assert_array_equal(values(view.permute((0, 2, 1))), ARRAY.transpose(0, 2, 1))
    repeated = view[:, 0:1, :].broadcast(1, 5)
    np.testing.assert_array_equal(values(repeated), np.repeat(ARRAY[:, 0:1, :], 5, axis=1))
    split = view.rearrange(("p", "a", ("b", "c")), ("p", "c", ("a", "b")), {"c": 2})
    wanted = ARRAY.reshape(8, 4, 3, 2).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(values(split.reshape_dim(2, (4, 3))), wanted)


def test_ap_addresses_the_storage_from_where_the_view_starts() -> None:
    part = tensor(Memory.SBUF)[2:4]
    view = part.ap([[24, 3], [2, 5]], offset=1)

    np.testing.assert_array_equal(values(view), ARRAY.reshape(8, 24)[2:5, 1:11:2])
    assert view.get_pattern() == [[24, 3], [2, 5]]
    assert view.offset == 2 * 24 + 1
    assert part.ap([[24, 3]], offset=0).offset == part.ap([[24, 3]]).offset == part.offset


def test_view_reinterprets_bytes() -> None:
    view = tensor().view("uint8")

    assert view.shape == (8, 4, 24)
    np.testing.assert_array_equal(values(view), ARRAY.view(np.uint8))
    assert view.view("float32").shape == SHAPE


def test_layouts_of_equal_views_are_one_object() -> None:
    first, second = tensor(Memory.SBUF), tensor(Memory.SBUF)

    assert first[:, 0:2].geometry is second[:, 2:4].geometry
    assert first[:, 0:2].layout is second[0:8, 1:3].layout


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ((slice(0, 9),), "index 0:9:1 of axis 0 of t: the axis has 8"),
        ((0, 4), "index 4 of axis 1 of t: it has 4"),
        ((slice(3, 2),), "index 3:2:1"),
        ((0, 0, 0, 0), "t has 3 axes, got 4 indices"),
        (("a",), "is str a, needs int or slice"),
    ],
)
def test_a_wrong_index_names_axis_and_extent(key: tuple[object, ...], told: str) -> None:
    with pytest.raises(KernelError, match=told):
        tensor()[key]


def test_an_empty_view_has_a_shape_and_nothing_else() -> None:
    view = tensor()[3:3]

    assert view.shape == (0, 4, 6)
    assert (view.dtype, view.ndim) == ("float32", 3)
    with pytest.raises(KernelError, match=r"reshape of an empty view \(0, 4, 6\) of t"):
        view.reshape((0, 24))


def test_partition_steps_are_refused_when_used() -> None:
    view = tensor(Memory.SBUF)[0:8:2]

    with pytest.raises(KernelError, match="partition step is 192 bytes, needs 96"):
        _ = view.layout


def test_a_pattern_that_leaves_the_tile_is_refused_when_used() -> None:
    inside = tensor(Memory.SBUF).ap([[24, 8], [1, 24]])
    beyond = tensor(Memory.SBUF).ap([[24, 9], [1, 24]])
    across = tensor(Memory.SBUF).ap([[24, 7], [1, 24]], offset=1)

    check_bounds(inside)
    with pytest.raises(KernelError, match="from byte 0 to byte 864 of storage, which has 768"):
        check_bounds(beyond)
    with pytest.raises(KernelError, match="from byte 4 to byte 100 of a partition, which has 96"):
        check_bounds(across)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t: t.permute((1, 0, 2)), "the partition axis of t stays first"),
        (lambda t: t.broadcast(0, 2), "axis 0 of t is the partition axis"),
        (lambda t: t.broadcast(1, 2), "axis 1 of t is 4, needs 1"),
        (lambda t: t.reshape((32, 6)), "partition axis of t is 8, got 32"),
        (lambda t: t.reshape((8, 25)), "192 elements do not fill"),
        (lambda t: t.view("float77"), "unknown dtype 'float77'"),
        (lambda t: t.__setitem__(0, 1), "an instruction writes its dst operand"),
    ],
)
def test_what_a_view_cannot_be(change: object, told: str) -> None:
    with pytest.raises(KernelError, match=told):
        change(tensor(Memory.SBUF))


def test_a_negative_step_stays_inside() -> None:
    inside = tensor(Memory.SBUF).ap([[24, 8], [-1, 24]], offset=23)
    before = tensor(Memory.SBUF).ap([[24, 8], [-1, 24]], offset=0)
    across = tensor(Memory.SBUF).ap([[24, 7], [-1, 24]], offset=24)

    check_bounds(inside)
    with pytest.raises(KernelError, match="from byte -92 to byte 676 of storage"):
        check_bounds(before)
    with pytest.raises(KernelError, match="from byte -92 to byte 4 of a partition"):
        check_bounds(across)


def test_an_index_is_not_a_float() -> None:
    whole = tensor(Memory.SBUF)
    first = whole[:, 0:2]

    with pytest.raises(KernelError, match="is float") as caught:
        whole[:, 0 : 4 / 2]
    assert caught.value.hint == "divide with // rather than /"
    assert first.shape == (8, 2, 6)


def test_an_index_moves_a_pattern_by_steps_of_the_view() -> None:
    index, table = tensor(Memory.SBUF), tensor(Memory.HBM)
    pattern = [[24, 8], [1, 24]]
    halves = table.reshape((16, 3, 4)).ap(pattern, vector_offset=index)

    assert table.ap(pattern, vector_offset=index).is_indirect()
    assert halves.chosen.meaning.step * 2 == table.geometry.strides[0]
    assert table.ap(pattern, scalar_offset=2, indirect_dim=1).offset == 2 * table.strides[1]
    with pytest.raises(KernelError, match="has 3 axes, got axis 3"):
        table.ap(pattern, scalar_offset=index, indirect_dim=3)
    with pytest.raises(KernelError, match="gets scalar_offset and vector_offset, needs one"):
        table.ap(pattern, scalar_offset=index, vector_offset=index)


def test_a_range_indexes_as_the_slice_it_covers() -> None:
    key = (range(1, 7, 2), range(4), 3)

    assert np.array_equal(values(tensor()[key]), ARRAY[1:7:2, :, 3])
