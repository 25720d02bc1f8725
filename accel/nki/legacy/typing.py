"""`neuronxcc.nki.typing`: `tensor[shape, dtype]` describes an argument; else it is a comment."""

from __future__ import annotations

from collections.abc import Sequence

from accel.nki.jit import TensorSpec
from accel.nki.legacy.tile import kind_of


class tensor:
    """Used as an annotation, or as `tensor[[8192, 4096], nl.bfloat16]` for an input's shape."""

    def __class_getitem__(cls, key: object) -> object:
        if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], (list, tuple)):
            return _spec(key[0], key[1])
        return cls


mutable_tensor = tensor


def _spec(shape: Sequence[int], dtype: object) -> TensorSpec:
    return TensorSpec(tuple(int(n) for n in shape), kind_of(dtype, ""))  # type: ignore[arg-type]
