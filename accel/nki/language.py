"""`nki.language`: what a kernel finds under that name, beside the instructions of `nki.isa`.

Loops over `affine_range` and its kin are plain ranges: a kernel is recorded unrolled.
"""

from __future__ import annotations

import builtins
import contextlib
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from accel.chip import CHIPS, Chip
from accel.dtypes import FLOATS
from accel.errors import KernelError
from accel.isa import FUNCTIONS, OPERATORS
from accel.nki import composites, tiles
from accel.nki.enums import MemoryRegion, Token
from accel.nki.geometry import viewed_values
from accel.nki.instructions.moves import dma_copy, memset, tensor_copy
from accel.nki.instructions.patterns import FLOAT32_MIN, affine_select
from accel.nki.objects import NKIObject
from accel.nki.recorder import active, current
from accel.nki.registers import dynamic_range, fori_loop, while_loop
from accel.nki.tensor import Tensor, element_name
from accel.nki.tensor import Tensor as NkiTensor
from accel.program import Kind, Memory

DEFAULT_CHIP = "trn2"

DType = str
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
_FILL_COLUMNS = 2048

_MEMORIES: dict[str, Memory] = {
    MemoryRegion.sbuf: Memory.SBUF,
    MemoryRegion.psum: Memory.PSUM,
    MemoryRegion.private_hbm: Memory.HBM,
    MemoryRegion.shared_hbm: Memory.HBM,
    "hbm": Memory.HBM,
}


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
    memory = _memory(buffer)
    recorder, element = current(), element_name(dtype)
    if buffer == "shared_hbm":
        return recorder.allocate_shared(counts, element, name)
    partition, byte = _address(address)
    return recorder.allocate(
        counts, element, memory, name=name, address=byte, start_partition=partition
    )


def _memory(buffer: str | None) -> Memory:
    memory = Memory.SBUF if buffer is None else _MEMORIES.get(buffer)
    if memory is None:
        raise KernelError(f"unknown buffer {buffer!r}", f"buffers: {', '.join(MemoryRegion)}")
    return memory


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
    """A tensor filled with a number; in HBM by way of SBUF."""
    tensor = ndarray(shape, dtype, buffer, name)
    if tensor.memory is not Memory.HBM:
        memset(tensor, _filled(fill_value, tensor.dtype))
        return tensor
    filled: dict[tuple[int, ...], Tensor] = {}
    for part, tile_shape in _by_tiles(tensor):
        if tile_shape not in filled:
            filled[tile_shape] = full(tile_shape, fill_value, tensor.dtype)
        dma_copy(part, filled[tile_shape])
    return tensor


def _filled(value: float, dtype: str) -> float:
    """Integers are filled with integers, also from a default of 0.0."""
    return int(value) if dtype not in FLOATS and value == int(value) else value


def _by_tiles(tensor: Tensor) -> Iterator[tuple[Tensor, tuple[int, ...]]]:
    """An HBM tensor in pieces, each with the shape of an SBUF tile that holds it."""
    flat, first = tensor.reshape((tensor.size,)), 0
    while first < tensor.size:
        left = tensor.size - first
        columns = builtins.min(left // _chip().partitions, _FILL_COLUMNS)
        shape = (_chip().partitions, columns) if columns else (1, left)
        yield flat[first : first + math.prod(shape)].reshape(shape), shape
        first += math.prod(shape)


def zeros(
    shape: Sequence[int], dtype: object, buffer: str = MemoryRegion.sbuf, name: str = ""
) -> Tensor:
    """A tensor filled with 0."""
    return full(shape, 0.0, dtype, buffer, name)


def ones(
    shape: Sequence[int], dtype: object, buffer: str = MemoryRegion.sbuf, name: str = ""
) -> Tensor:
    """A tensor filled with 1."""
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
    try:
        array = np.load(constant) if isinstance(constant, str) else np.asarray(constant)
    except (OSError, ValueError) as error:
        raise KernelError(f"shared_constant: {constant!r} cannot be read: {error}") from None
    return current().allocate(
        array.shape, element_name(array.dtype), Memory.HBM, kind=Kind.CONSTANT, core=-1, array=array
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


sequential_range = static_range = affine_range


@contextlib.contextmanager
def no_reorder() -> Iterator[None]:
    """Instructions in the body keep their order, as they do everywhere here."""
    yield


def program_id(axis: int = 0) -> int:
    """This program's position in the grid; `axis` counts from 0, or from the end below it."""
    position = current().program_id
    return position[axis] if -len(position) <= axis < len(position) else 0


def num_programs(axes: int | Iterable[int] = 0) -> int | tuple[int, ...]:
    """Extent of the grid along an axis, or along several."""
    grid = current().grid
    if isinstance(axes, int):
        return grid[axes] if -len(grid) <= axes < len(grid) else 1
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


floor, ceil, trunc, fmod = composites.floor, composites.ceil, composites.trunc, composites.fmod
cos, tan, mean, var = composites.cos, composites.tan, composites.mean, composites.var
all, softmax, rms_norm = composites.all_of, composites.softmax, composites.rms_norm
where, dropout, matmul = composites.where, composites.dropout, composites.matmul
random_seed, broadcast_to = composites.random_seed, composites.broadcast_to
gather_flattened = composites.gather_flattened


def rand(
    shape: Sequence[int], dtype: object, buffer: str = MemoryRegion.sbuf, name: str = ""
) -> Tensor:
    """A tensor of random numbers, uniform from 0 to below 1."""
    counts, element, memory = _shape(tuple(shape)), element_name(dtype), _memory(buffer)
    if memory is not Memory.HBM:
        return composites.random_tile(counts, element, memory)
    tensor = ndarray(counts, element, buffer, name)
    for part, tile_shape in _by_tiles(tensor):
        dma_copy(part, composites.random_tile(tile_shape, element, Memory.SBUF))
    return tensor


def expand_dims(x: Tensor, axis: int) -> Tensor:
    """A view with an axis of extent 1 at `axis`."""
    return x.expand_dim(axis + x.ndim + 1 if axis < 0 else axis)


# Names that kernels use and that would hide Python's own in this module.
_HIDING: dict[str, object] = {"bool": bool_, "range": static_range}
_UNARY = frozenset(FUNCTIONS) | {name for name, op in OPERATORS.items() if op.unary}
_APART: dict[str, Callable[..., object]] = {"copy": tiles.copy}


def _only_in_instructions(name: str) -> Callable[..., object]:
    def apply(*tiles: object, **options: object) -> object:
        raise KernelError(f"nl.{name} is not called", "pass it to an instruction as op=")

    return apply


def _token(name: str) -> Token:
    apply = _APART.get(name) or (tiles.unary(name) if name in _UNARY else tiles.binary(name))
    return Token(name, apply)


# Every operator and activation function of the instruction table is a name of the language.
TOKENS: dict[str, Token] = {name: _token(name) for name in sorted({*OPERATORS, *FUNCTIONS})}
TOKENS |= {name: Token(name, _only_in_instructions(name)) for name in ("average", "prelu")}

sum, max, min, prod = (
    Token(name, tiles.reduction(op))
    for name, op in (("sum", "add"), ("max", "maximum"), ("min", "minimum"), ("prod", "multiply"))
)


def __getattr__(name: str) -> object:
    if name in _HIDING:
        return _HIDING[name]
    if name in TOKENS:
        return TOKENS[name]
    raise AttributeError(f"nki.language has no {name!r}")


__all__ = [
    "NKIObject",
    "NkiTensor",
    "ds",
    "dynamic_range",
    "fori_loop",
    "ndarray",
    "tile_size",
    "while_loop",
]
