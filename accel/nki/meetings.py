"""Calls that several cores make together: `core_barrier` and `sendrecv`.

Each core brings what it asks for; when all are there, the instructions of all are recorded, in core
order. So in the program nothing after a meeting comes before what any of the cores did ahead of it.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.errors import KernelError
from accel.nki.cores import Wait
from accel.nki.enums import dma_engine, engine
from accel.nki.operands import READ, WRITE, direct, given, integers
from accel.nki.recorder import Recorder, current
from accel.nki.tensor import Tensor
from accel.program import Engine, Memory


@dataclass(frozen=True, slots=True)
class _Barrier:
    """What a core brings to `core_barrier`: its instruction and its kernel line."""

    form: int
    places: tuple[tuple[int, int], ...]
    source: int


@dataclass(frozen=True, slots=True)
class _Exchange:
    """What a core brings to `sendrecv`; `source` is its kernel line."""

    src: Tensor
    dst: Tensor
    send_to: int
    recv_from: int
    pipe: int
    through: dma_engine
    source: int


def core_barrier(
    data: Tensor,
    cores: Sequence[int],
    engine: engine = engine.gpsimd,
    name: str | None = None,
) -> None:
    """No core of `cores` goes on before all are here. `data` is what they share in HBM; kernels
    also pass a tile, each core its own.
    """
    recorder, members = current(), tuple(sorted(set(integers(cores, "cores"))))
    _check_shared(data)
    if recorder.core not in members:
        raise KernelError(f"core_barrier: cores are {members}, this is core {recorder.core}")
    form, places = recorder.form(
        "core_barrier", _engine(engine), (("dst", WRITE, data),), given(cores=members)
    )
    source = recorder.source()

    def finish(barriers: Mapping[int, object]) -> None:
        for number, barrier in barriers.items():
            assert isinstance(barrier, _Barrier)
            core = number - recorder.first_core
            recorder.emit_at(barrier.form, barrier.places, barrier.source, core)

    others = _numbered(recorder, "core_barrier", [c for c in members if c != recorder.core])
    said, place = f"of cores {members} on {data.name}", str(recorder.builder.sources[source])
    shared = data.storage if data.memory is Memory.HBM else -1
    brought = _Barrier(form, places, source)
    recorder.cores.meet(
        Wait("core_barrier", others, (shared, members), said, place, brought), finish
    )


def _check_shared(data: Tensor) -> None:
    direct("core_barrier", "data", data)
    if data.memory is Memory.HBM and data.allocation.storage.core != -1:
        raise KernelError(
            f"core_barrier: data is {data.name} in {data.buffer}, which one core has to itself",
            "cores synchronise on a tensor they share: allocate it with buffer=nl.shared_hbm",
        )


def _engine(asked: engine) -> Engine:
    value = getattr(asked, "value", None)
    if not isinstance(value, Engine):
        raise KernelError(f"core_barrier: engine is {asked!r}, needs a member of nisa.engine")
    return Engine.GPSIMD if value is Engine.ANY else value


def sendrecv(
    src: Tensor,
    dst: Tensor,
    send_to_rank: int,
    recv_from_rank: int,
    pipe_id: int,
    dma_engine: dma_engine = dma_engine.dma,
    name: str | None = None,
) -> None:
    """Core `send_to_rank` gets src, and dst becomes what core `recv_from_rank` sends this one."""
    recorder = current()
    _check_apart(src, dst)
    source, pipe = recorder.source(), operator.index(pipe_id)
    to, origin = operator.index(send_to_rank), operator.index(recv_from_rank)
    brought = _Exchange(src, dst, to, origin, pipe, dma_engine, source)
    place = str(recorder.builder.sources[source])
    partners = _numbered(recorder, "sendrecv", (to, origin))
    wait = Wait("sendrecv", partners, pipe, f"on pipe {pipe}", place, brought)
    recorder.cores.meet(wait, lambda exchanges: _exchange(recorder, exchanges))


def _numbered(recorder: Recorder, call: str, cores: Sequence[int]) -> tuple[int, ...]:
    """Cores of this rank by their numbers among those of all ranks."""
    count = recorder.builder.cores
    for core in cores:
        if not 0 <= core < count:
            raise KernelError(
                f"{call}: core {core} is named, the grid has {count} cores",
                "launch the kernel on as many cores as it synchronises, as kernel[2](...)",
            )
    return tuple(recorder.first_core + core for core in cores)


def _check_apart(src: Tensor, dst: Tensor) -> None:
    """What is sent must not change while something arrives."""
    for role, tensor in (("src", src), ("dst", dst)):
        direct("sendrecv", role, tensor)
        if tensor.memory is not Memory.SBUF:
            raise KernelError(f"sendrecv: {role} is in {tensor.buffer}, must be in sbuf")
    if src.storage == dst.storage and np.intersect1d(_elements(src), _elements(dst)).size:
        raise KernelError(
            f"sendrecv: src and dst overlap in {src.name}", "receive into a tile of its own"
        )


def _elements(tensor: Tensor) -> npt.NDArray[np.int64]:
    """The byte that each element starts at."""
    at = np.array(tensor.byte_offset, np.int64)
    for count, step in zip(tensor.shape, tensor.geometry.strides, strict=True):
        at = at[..., None] + np.arange(count) * step
    return at.reshape(-1)


def _exchange(recorder: Recorder, exchanges: Mapping[int, object]) -> None:
    """One transfer a core, into it."""
    for number, exchange in exchanges.items():
        assert isinstance(exchange, _Exchange)
        core = number - recorder.first_core
        sender = exchanges[recorder.first_core + exchange.recv_from]
        assert isinstance(sender, _Exchange)
        if sender.send_to != core:
            raise KernelError(
                f"sendrecv: core {core} receives from core {exchange.recv_from}, "
                f"which sends to core {sender.send_to}"
            )
        through = exchange.through
        attributes = given(
            dma_engine=None if through is dma_engine.dma else through.name,
            pipe_id=exchange.pipe,
            recv_from_rank=exchange.recv_from,
            send_to_rank=exchange.send_to,
        )
        operands = (("dst", WRITE, exchange.dst), ("src", READ, sender.src))
        form, places = recorder.form("dma_sendrecv", Engine.ANY, operands, attributes)
        recorder.emit_at(form, places, exchange.source, core)
