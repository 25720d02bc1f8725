"""`neuronxcc.nki.compiler`: allocators, and decorators that only the vendor's compiler obeys."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import TypeVar

from accel.errors import KernelError
from accel.nki.enums import MemoryRegion
from accel.nki.geometry import Shape
from accel.nki.legacy.buffers import Allocator, Place, modulo
from accel.nki.legacy.session import active_session
from accel.program import Memory

PSUM_BANK_BYTES = 2048

Decorated = TypeVar("Decorated")


def _sbuf_alloc(func: Callable[..., Place]) -> Allocator:
    """`func(idx, pdim_size, fdim_size)`, called by name, gives (start partition, byte)."""

    def place(block: Shape, partitions: int, width: int) -> Place:
        start, byte = func(idx=block, pdim_size=partitions, fdim_size=width)
        return byte, start

    return _first(Allocator(Memory.SBUF, place))


def _sbuf_mod_alloc(
    *,
    base_addr: int,
    base_partition: int = 0,
    num_par_tiles: Sequence[int] = (),
    num_free_tiles: Sequence[int] = (),
) -> Allocator:
    """Blocks rotate through `num_free_tiles` buffers from byte `base_addr` on."""
    _one_partition_tile(num_par_tiles)

    def place(block: Shape, partitions: int, width: int) -> Place:
        return base_addr + modulo(num_free_tiles, block, "num_free_tiles") * width, base_partition

    return _first(Allocator(Memory.SBUF, place))


def _psum_alloc(func: Callable[..., tuple[int, int, int]]) -> Allocator:
    """`func(idx, pdim_size, fdim_size)`, called by name, gives (bank, start partition, byte)."""

    def place(block: Shape, partitions: int, width: int) -> Place:
        bank, start, byte = func(idx=block, pdim_size=partitions, fdim_size=width)
        return bank * PSUM_BANK_BYTES + byte, start

    return _first(Allocator(Memory.PSUM, place))


def _psum_mod_alloc(
    *,
    base_bank: int,
    base_addr: int = 0,
    base_partition: int = 0,
    num_bank_tiles: Sequence[int] = (),
    num_par_tiles: Sequence[int] = (),
    num_free_tiles: Sequence[int] = (),
) -> Allocator:
    """Blocks rotate through `num_bank_tiles` banks from `base_bank` on."""
    _one_partition_tile(num_par_tiles)

    def place(block: Shape, partitions: int, width: int) -> Place:
        bank = base_bank + modulo(num_bank_tiles, block, "num_bank_tiles")
        byte = base_addr + modulo(num_free_tiles, block, "num_free_tiles") * width
        return bank * PSUM_BANK_BYTES + byte, base_partition

    return _first(Allocator(Memory.PSUM, place))


def _first(allocator: Allocator) -> Allocator:
    """In a loop, the allocator of its first turn: the older compiler reads loop bodies once."""
    active = active_session()
    return allocator if active is None else active.bodies.first(allocator)


def _one_partition_tile(counts: Sequence[int]) -> None:
    if any(count != 1 for count in counts):
        raise KernelError(f"num_par_tiles is {tuple(counts)}, only ones are supported")


sbuf = SimpleNamespace(
    alloc=_sbuf_alloc, mod_alloc=_sbuf_mod_alloc, auto_alloc=lambda: MemoryRegion.sbuf
)
psum = SimpleNamespace(
    alloc=_psum_alloc, mod_alloc=_psum_mod_alloc, auto_alloc=lambda: MemoryRegion.psum
)


def skip_middle_end_transformations(func: Decorated) -> Decorated:
    """Accepted; nothing here transforms a kernel unless a profile asks for it."""
    return func


def force_auto_alloc(func: Decorated) -> Decorated:
    """Accepted; explicit places are kept."""
    return func


def enable_stack_allocator(
    func: Decorated | None = None, log_level: int = 50
) -> Decorated | Callable[[Decorated], Decorated]:
    """Accepted, with or without arguments."""
    return skip_middle_end_transformations if func is None else func


def no_reorder() -> None:
    """A loop directive; program order is always kept."""


def multi_buffer(factor: int = 2) -> None:
    """A loop directive; placement decides how many buffers a loop uses."""


@contextlib.contextmanager
def allocation_scope() -> Iterator[None]:
    """Accepted; placement follows liveness."""
    yield
