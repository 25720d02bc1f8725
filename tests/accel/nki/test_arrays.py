"""Arrays of other libraries come in by their bytes and go out as the caller's kind."""

import sys
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

import accel.nki.language as nl
from accel.nki.arrays import as_array, as_torch, is_torch
from accel.nki.jit import jit

X = np.arange(32, dtype=np.float32).reshape(4, 8)


class Foreign:
    """An array of a library that numpy can read."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.array


class Torch(Foreign):
    """Enough of a torch tensor: no numpy view of bfloat16, but views of its bytes."""

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        if self.dtype == ml_dtypes.bfloat16:
            raise TypeError("unsupported ScalarType BFloat16")
        return self.array

    def detach(self) -> "Torch":
        return self

    cpu = contiguous = detach

    def view(self, dtype: str) -> "Torch":
        return Torch(self.array.view(dtype))


def from_numpy(array: np.ndarray) -> Torch:
    if array.dtype == ml_dtypes.bfloat16:
        raise TypeError("can't convert")
    return Torch(array)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("torch")
    module.Tensor, module.from_numpy = Torch, from_numpy
    module.int16, module.bfloat16 = "int16", ml_dtypes.bfloat16
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@jit
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, nl.add(tile, tile))
    return out


@pytest.mark.parametrize("value", [3, 2.5, "x", None, (1, 2), np.float32(2)])
def test_what_is_no_array_is_left_alone(value: object) -> None:
    assert as_array(value) is None


def test_an_array_of_any_library_is_an_argument() -> None:
    result = doubled(Foreign(X))

    assert isinstance(result, np.ndarray)
    np.testing.assert_array_equal(result, 2 * X)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_torch_goes_in_and_comes_out(torch: ModuleType, dtype: object) -> None:
    result = doubled(Torch(X.astype(dtype)))

    assert is_torch(result)
    np.testing.assert_array_equal(result.array.astype(np.float32), 2 * X)


@pytest.mark.parametrize("dtype", [np.int32, ml_dtypes.bfloat16])
def test_there_and_back_keeps_every_bit(torch: ModuleType, dtype: object) -> None:
    array = X.astype(dtype)
    back = as_array(as_torch(array))

    assert back is not None
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)
