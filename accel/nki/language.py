"""`nki.language`: what a kernel finds under that name, beside the instructions of `nki.isa`.

Loops over `affine_range` and its kin are plain ranges: a kernel is recorded unrolled.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from accel.chip import CHIPS, Chip
from accel.dtypes import dtype_name
from accel.errors import KernelError
from accel.isa import FUNCTIONS, OPERATORS
from accel.nki import tiles
from accel.nki.enums import MemoryRegion, Token
from accel.nki.geometry import viewed_values
from accel.nki.instructions.moves import memset, tensor_copy
from accel.nki.instructions.patterns import FLOAT32_MIN, affine_select
from accel.nki.recorder import active, current
from accel.nki.tensor import Tensor
from accel.nki.tensor import Tensor as NkiTensor
from accel.program import Kind, Memory

DEFAULT_CHIP = "trn2"

bool_ = "bool_"
int8, int16, int32 = "int8", "int16", "int32"
uint8, uint16, uint32 = "uint8", "uint16", "uint32"
float16, bfloat16, tfloat32, float32 = "float16", "bfloat16", "tfloat32", "float32"
float8_e4m3, float8_e4m3fn, float8_e5m2 = "float8_e4m3", "float8_e4m3fn", "float8_e5m2"
float8_e8m0fnu, float4_e2m1fn_x4 = "float8_e8m0fnu", "float4_e2m1fn_x4"
float8_e4m3fn_x4, float8_e5m2_x4 = "float8_e4m3fn_x4", "float8_e5m2_x4"

sbuf, psum = MemoryRegion.sbuf, MemoryRegion.psum
hbm, private_hbm, shared_hbm = MemoryRegion.hbm, MemoryRegion.private_hbm, MemoryRegion.shared_hbm

fp32_min = FLOAT32_MIN

_MEMORIES: dict[str, Memory] = {
    MemoryRegion.sbuf: Memory.SBUF,
    MemoryRegion.psum: Memory.PSUM,
    MemoryRegion.private_hbm: Memory.HBM,
    MemoryRegion.shared_hbm: Memory.HBM,
    "hbm": Memory.HBM,
}


class NKIObject:
    """Base of kernel configuration classes: takes any keyword, fields may stay unset."""

    def __init__(self, **fields: object) -> None:
        for name, value in fields.items():
            setattr(self, name, value)


def _chip() -> Chip:
    recorder = active()
    return CHIPS[DEFAULT_CHIP] if recorder is None else recorder.chip


class TileSize:
    """Limits of the machine the kernel is recorded for; trn2's outside a kernel."""

    @property
    def pmax(self) -> int:
        """Partitions."""
        return _chip().partitions

    @property
    def gemm_stationary_fmax(self) -> int:
        """Columns of the stationary matmul operand."""
        return _chip().stationary_max

    @property
    def gemm_moving_fmax(self) -> int:
        """Columns of the moving matmul operand."""
        return _chip().moving_max

    @property
    def psum_bank_fmax_bytes(self) -> int:
        """Bytes of a PSUM bank in a partition."""
        return _chip().psum_bank_bytes

    @property
    def psum_bank_fmax(self) -> int:
        """float32 elements of a PSUM bank in a partition."""
        return _chip().psum_bank_bytes // 4

    psum_fmax = psum_bank_fmax

    @property
    def psum_num_banks(self) -> int:
        """PSUM banks."""
        return _chip().psum_banks

    @property
    def sbuf_fmax_bytes(self) -> int:
        """Bytes of a partition that a kernel may use."""
        return _chip().sbuf_usable_bytes

    total_available_sbuf_size = sbuf_fmax_bytes

    @property
    def sbuf_fmax(self) -> int:
        """float32 elements of a partition that a kernel may use."""
        return _chip().sbuf_usable_bytes // 4

    @property
    def sbuf_size_bytes(self) -> int:
        """Bytes of SBUF over all partitions."""
        return _chip().sbuf_partition_bytes * _chip().partitions

    bn_stats_fmax = 512
    psum_min_align = 4
    sbuf_min_align = 1


tile_size = TileSize()


def ndarray(
    shape: Sequence[int],
    dtype: object,
    buffer: str = MemoryRegion.sbuf,
    name: str = "",
    address: int | Sequence[int] | None = None,
) -> Tensor:
    """An uninitialised tensor. On-chip, shape[0] is partitions. `address`: (partition, byte)."""
    counts = _shape(tuple(shape))
    memory = _MEMORIES.get(buffer)
    if memory is None:
        raise KernelError(f"unknown buffer {buffer!r}", f"buffers: {', '.join(MemoryRegion)}")
    recorder, element = current(), _element(dtype)
    if buffer == "shared_hbm":
        return recorder.allocate_shared(counts, element, name)
    partition, byte = _address(address)
    return recorder.allocate(
        counts, element, memory, name=name, address=byte, start_partition=partition
    )


def _shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    try:
        counts = tuple(map(operator.index, shape))
    except TypeError:
        raise KernelError(
            f"shape {shape} has an extent that is not an integer", "divide with // rather than /"
        ) from None
    if not counts or any(count < 1 for count in counts):
        raise KernelError(f"shape {counts} has no elements", "every extent is at least 1")
    return counts


def _element(dtype: object) -> str:
    try:
        return dtype_name(dtype)
    except (KeyError, TypeError):
        raise KernelError(f"unknown dtype {dtype!r}", "use a dtype of nki.language") from None


def _address(address: int | Sequence[int] | None) -> tuple[int, int | None]:
    if address is None:
        return 0, None
    try:
        partition, byte = (0, address) if isinstance(address, int) else address
        return operator.index(partition), operator.index(byte)
    except (TypeError, ValueError):
        raise KernelError(
            f"address is {address!r}", "an address is (partition, byte), both integers"
        ) from None


def full(
    shape: Sequence[int],
    fill_value: float,
    dtype: object,
    buffer: str = MemoryRegion.sbuf,
    name: str = "",
) -> Tensor:
    """An on-chip tensor filled with a number."""
    tensor = ndarray(shape, dtype, buffer, name)
    memset(tensor, fill_value)
    return tensor


def zeros(
    shape: Sequence[int], dtype: object, buffer: str = MemoryRegion.sbuf, name: str = ""
) -> Tensor:
    """An on-chip tensor filled with 0."""
    return full(shape, 0.0, dtype, buffer, name)


def ones(
    shape: Sequence[int], dtype: object, buffer: str = MemoryRegion.sbuf, name: str = ""
) -> Tensor:
    """An on-chip tensor filled with 1."""
    return full(shape, 1.0, dtype, buffer, name)


def zeros_like(
    x: Tensor, dtype: object = None, buffer: str | None = None, name: str = ""
) -> Tensor:
    """`zeros` with the shape, dtype and buffer of x."""
    return zeros(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def empty_like(
    x: Tensor, dtype: object = None, buffer: str | None = None, name: str = ""
) -> Tensor:
    """`ndarray` with the shape, dtype and buffer of x."""
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def shared_constant(constant: np.ndarray[tuple[int, ...], np.dtype[np.generic]] | str) -> Tensor:
    """Constant data in HBM: an array, or the path of an `.npy` file."""
    array = np.load(constant) if isinstance(constant, str) else np.asarray(constant)
    return current().allocate(
        array.shape, _element(array.dtype), Memory.HBM, kind=Kind.CONSTANT, core=-1, array=array
    )


def shared_identity_matrix(n: int, dtype: object = uint8, dst: Tensor | None = None) -> Tensor:
    """The n×n identity in SBUF: ones, of which the diagonal is kept."""
    target = ndarray((n, n), dtype, MemoryRegion.sbuf) if dst is None else dst
    filled = tiles.full((n, n), 1.0, float32)
    diagonal = tiles.new_tile((n, n), float32)
    affine_select(diagonal, [[-1, n]], 1, filled, 0.0, cmp_op="equal")
    tensor_copy(target, diagonal)
    return target


def ds(start: int, size: int) -> slice:
    """`start:start + size`."""
    return slice(start, start + size)


def affine_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """A loop with independent iterations."""
    return range(start) if stop is None else range(start, stop, step)


sequential_range = static_range = dynamic_range = affine_range


def program_id(axis: int = 0) -> int:
    """This program's position in the grid."""
    position = current().program_id
    return position[axis] if axis < len(position) else 0


def num_programs(axes: int | Iterable[int] = 0) -> int | tuple[int, ...]:
    """Extent of the grid along an axis, or along several."""
    grid = current().grid
    if isinstance(axes, int):
        return grid[axes] if axes < len(grid) else 1
    return tuple(grid[axis] if axis < len(grid) else 1 for axis in axes)


def program_ndim() -> int:
    """Number of grid axes."""
    return len(current().grid)


def is_hbm(buffer: object) -> bool:
    """Whether a buffer (or a tensor's) is any HBM."""
    return _buffer_of(buffer).endswith("hbm")


def is_sbuf(buffer: object) -> bool:
    """Whether a buffer (or a tensor's) is SBUF."""
    return _buffer_of(buffer) == "sbuf"


def is_psum(buffer: object) -> bool:
    """Whether a buffer (or a tensor's) is PSUM."""
    return _buffer_of(buffer) == "psum"


def is_on_chip(buffer: object) -> bool:
    """Whether a buffer (or a tensor's) is SBUF or PSUM."""
    return not is_hbm(buffer)


def _buffer_of(value: object) -> str:
    return str(value.buffer if isinstance(value, Tensor) else value)


def device_print(print_prefix: str, tensor: Tensor) -> None:
    """Prints the tensor's values in evaluate mode; nothing in trace mode."""
    values = current().values
    if values is not None:
        array = values.array(tensor.storage)
        print(print_prefix, viewed_values(array, tensor.geometry, tensor.byte_offset))


load, store, load_transpose2d = tiles.load, tiles.store, tiles.load_transpose2d
transpose, negative = tiles.transpose, tiles.negative


def broadcast_to(x: Tensor, shape: Sequence[int], dtype: object = None) -> Tensor:
    """The tile repeated to a shape: a view, or a copy where the dtype changes."""
    view = x.broadcast_to(shape)
    return view if dtype is None else tiles.copy(view, dtype)


def expand_dims(x: Tensor, axis: int) -> Tensor:
    """A view with an axis of extent 1 at `axis`."""
    return x.expand_dim(axis + x.ndim + 1 if axis < 0 else axis)


_UNARY = frozenset(FUNCTIONS) | {name for name, op in OPERATORS.items() if op.unary}
_APART: dict[str, Callable[..., object]] = {"copy": tiles.copy}


def _token(name: str) -> Token:
    apply = _APART.get(name) or (tiles.unary(name) if name in _UNARY else tiles.binary(name))
    return Token(name, apply)


# Every operator and activation function of the instruction table is a name of the language.
TOKENS: dict[str, Token] = {name: _token(name) for name in sorted({*OPERATORS, *FUNCTIONS})}

sum, max, min, prod = (
    Token(name, tiles.reduction(op))
    for name, op in (("sum", "add"), ("max", "maximum"), ("min", "minimum"), ("prod", "multiply"))
)


def __getattr__(name: str) -> Token:
    if name in TOKENS:
        return TOKENS[name]
    raise AttributeError(f"nki.language has no {name!r}")


__all__ = ["NKIObject", "NkiTensor", "ds", "ndarray", "tile_size"]
