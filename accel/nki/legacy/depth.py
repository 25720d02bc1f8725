"""Depth: instructions on views with more axes than an instruction can walk.

Index expressions make views of any number of axes; engines walk the partitions and four more. The
older compiler then splits an elementwise instruction, along the outermost axis that is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accel.isa.check import MAX_FREE_DIMENSIONS, merged
from accel.nki.legacy.views import clipped, free_size
from accel.nki.recorder import Attributes, Operand
from accel.nki.tensor import Tensor

_ELEMENTWISE = frozenset(
    {
        "activation",
        "memset",
        "reciprocal",
        "scalar_tensor_tensor",
        "tensor_copy",
        "tensor_scalar",
        "tensor_tensor",
    }
)
_REDUCING = frozenset({"reduce_cmd", "reduce_op"})


def parts_of(
    op: str, operands: Sequence[Operand], attributes: Attributes
) -> Iterator[list[Operand]]:
    """The operands of each instruction that an elementwise one becomes; none if one is enough, or
    if its operands are not alike.
    """
    if op not in _ELEMENTWISE or any(name in _REDUCING for name, _ in attributes):
        return
    if not any(_free_dimensions(tensor) > MAX_FREE_DIMENSIONS for _, _, tensor in operands):
        return
    shape = operands[0][2].shape
    full = [tensor.shape == shape for _, _, tensor in operands]
    if any(
        not whole and free_size(tensor.shape) > 1
        for whole, (_, _, tensor) in zip(full, operands, strict=True)
    ):
        return
    axis = next(n for n, count in enumerate(shape) if n > 0 and count > 1)
    for position in range(shape[axis]):
        box = [(0, count) for count in shape]
        box[axis] = (position, 1)
        yield [
            (role, mode, clipped(tensor, box) if whole else tensor)
            for whole, (role, mode, tensor) in zip(full, operands, strict=True)
        ]


def _free_dimensions(tensor: Tensor) -> int:
    axes = tuple(zip(tensor.geometry.strides[1:], tensor.shape[1:], strict=True))
    return len(merged(axes))
