"""Storage dtypes by name: one table read by the language, the instruction table and the evaluator.

Names are the kernel language's. Storage is exact: bfloat16, fp8 and the rest are the `ml_dtypes`
types, so a value written and read back is what the machine would hold. `tfloat32` is stored as
float32. Packed `_x4` types are containers of four elements: unsigned integers to numpy, with the
name in the dtype's metadata, so that an array of them is known as such. numpy knows their names.
"""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np


def _packed(name: str, storage: type[np.unsignedinteger]) -> np.dtype[np.unsignedinteger]:
    return np.dtype(storage, metadata={_PACKED: name})


_PACKED = "packed"
_NUMPY: dict[str, object] = {
    "bool_": np.bool_,
    "int8": np.int8,
    "uint8": np.uint8,
    "int16": np.int16,
    "uint16": np.uint16,
    "int32": np.int32,
    "uint32": np.uint32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "tfloat32": np.float32,
    "float32": np.float32,
    "float8_e4m3": ml_dtypes.float8_e4m3,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "float8_e4m3fn_x4": _packed("float8_e4m3fn_x4", np.uint32),
    "float8_e5m2_x4": _packed("float8_e5m2_x4", np.uint32),
    "float4_e2m1fn_x4": _packed("float4_e2m1fn_x4", np.uint16),
}

NAMES = tuple(_NUMPY)
PACKED = frozenset(name for name in NAMES if name.endswith("_x4"))
FLOATS = frozenset(name for name in NAMES if "float" in name) - PACKED
SIXTEEN_BIT = frozenset({"bfloat16", "float16"})
FP32 = frozenset({"float32", "tfloat32"})


for _name in PACKED:
    np.sctypeDict[_name] = _NUMPY[_name]  # type: ignore[assignment]


@functools.cache
def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """The numpy storage dtype of a language dtype; KeyError for an unknown name."""
    return np.dtype(_NUMPY[name])  # type: ignore[call-overload, no-any-return]


@functools.cache
def itemsize(name: str) -> int:
    """Bytes of one element."""
    return numpy_dtype(name).itemsize


def dtype_name(dtype: object) -> str:
    """The language name of a numpy dtype, scalar type, or name; KeyError if there is none."""
    if isinstance(dtype, np.dtype) and dtype.metadata:
        return str(dtype.metadata.get(_PACKED, dtype.name))  # equal dtypes may differ in this
    return _dtype_name(dtype)


@functools.cache
def _dtype_name(dtype: object) -> str:
    if isinstance(dtype, str) and dtype in _NUMPY:
        return dtype
    if dtype == "bool":
        return "bool_"
    name = np.dtype(dtype).name  # type: ignore[call-overload]
    name = "bool_" if name == "bool" else name
    if name not in _NUMPY:
        raise KeyError(name)
    return str(name)
