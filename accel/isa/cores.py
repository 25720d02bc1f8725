"""Rows that several cores take part in, and rows that move a number to or from a register.

An exchange between cores is one transfer on each core: what arrives is written by the core that
receives it, from the tile of the core that sends it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from accel.chip import Chip
from accel.isa import costs
from accel.isa.row import ON_CHIP, SBUF, Array, Cost, Row, on, reads, writes
from accel.program import Access, Engine, Form, Memory

_ENGINES = (Engine.GPSIMD, Engine.SYNC, Engine.SCALAR, Engine.VECTOR, Engine.TENSOR)
_SEQUENCERS = (Engine.SYNC, Engine.GPSIMD, Engine.SCALAR, Engine.VECTOR, Engine.TENSOR)
_REGISTER = (Memory.REGISTER,)
_MEMORY = (Memory.HBM, Memory.SBUF)
_GPSIMD_BYTES = {4: 1024, 2: 512, 1: 256}
_INTEGERS = frozenset({"int8", "uint8", "int16", "uint16", "int32", "uint32"})


def _nothing(form: Form, arrays: Mapping[str, Array]) -> None:
    """A barrier orders the cores; it moves nothing and writes nothing."""


def _exchange(form: Form, arrays: Mapping[str, Array]) -> None:
    arrays["dst"][...] = arrays["src"]


def _to_register(form: Form, arrays: Mapping[str, Array]) -> None:
    """The register takes the 32 bits as they are; narrower integers are extended."""
    source = np.ascontiguousarray(arrays["src"]).reshape(-1)
    wide = source if source.dtype.itemsize == 4 else source.astype(np.int32)
    arrays["dst"][...] = wide.view(np.int32).reshape(arrays["dst"].shape)


def _from_register(form: Form, arrays: Mapping[str, Array]) -> None:
    value = np.ascontiguousarray(arrays["src"]).reshape(-1)
    target = arrays["dst"]
    same = target.dtype.itemsize == 4
    target[...] = (value.view(target.dtype) if same else value.astype(target.dtype)).reshape(
        target.shape
    )


def _move(form: Form, arrays: Mapping[str, Array]) -> None:
    source = arrays.get("src")
    value = form.attribute("value", 0)
    assert isinstance(value, int)
    bits = np.array(value & 0xFFFFFFFF, np.uint32).view(np.int32)
    arrays["dst"][...] = bits if source is None else source


def _step(form: Form, chip: Chip, engine: Engine) -> Cost:
    return Cost(chip.min_issue_cycles, chip.min_issue_cycles)


def _same_tiles(form: Form, chip: Chip) -> str | None:
    dst, src = form.access("dst"), form.access("src")
    assert dst is not None
    assert src is not None
    if dst.layout.dtype != src.layout.dtype or dst.layout.shape != src.layout.shape:
        return f"dst is {_said(dst)}, src is {_said(src)}, both must be the same"
    return None


def _said(access: Access) -> str:
    return f"{access.layout.shape} {access.layout.dtype}"


def _small_for_gpsimd(form: Form, chip: Chip) -> str | None:
    if form.attribute("dma_engine", "dma") != "gpsimd_dma":
        return None
    dst = form.access("dst")
    assert dst is not None
    width = costs.element_bytes(dst.layout)
    got, limit = dst.layout.elements * width, _GPSIMD_BYTES[width]
    if got > limit:
        return f"gpsimd_dma takes up to {limit} bytes a partition of {dst.layout.dtype}, got {got}"
    return None


def _one_number(form: Form, chip: Chip) -> str | None:
    for access in form.accesses:
        layout = access.layout
        if layout.elements * max(1, layout.partitions) != 1:
            return f"{access.role} has shape {layout.shape}, needs one element"
        if layout.dtype not in _INTEGERS and costs.element_bytes(layout) != 4:
            return f"{access.role} is {layout.dtype}, needs an integer or 32 bits"
    return None


_STEP_SOURCE = "assumed: one issue interval of the sequencer; nothing is published"

ROWS = (
    Row(
        name="core_barrier",
        summary="cores wait for each other; dst is the tensor they share, which stays as it is",
        engines=on(*_ENGINES, since=3),
        roles=(writes("dst", (Memory.HBM, *ON_CHIP)),),
        meaning=_nothing,
        cost=_step,
        source="assumed: one issue interval; a semaphore instruction was seen to take 9 ns, "
        "what a barrier of two cores takes is not published",
        attributes=("cores",),
        partial=True,
    ),
    Row(
        name="dma_sendrecv",
        fills=True,
        summary="dst = src, a tile of the same shape on another core",
        engines=on(Engine.GPSIMD, *_SEQUENCERS, since=3),
        roles=(writes("dst", SBUF), reads("src", SBUF)),
        meaning=_exchange,
        cost=costs.transfer_cost,
        source="timed as a DMA transfer between SBUFs; the handshake is within its fixed latency",
        attributes=("dma_engine", "pipe_id", "recv_from_rank", "send_to_rank"),
        rules=(_same_tiles, _small_for_gpsimd),
    ),
    Row(
        name="register_load",
        summary="a register = one number of HBM or SBUF, its 32 bits as they are",
        engines=on(*_SEQUENCERS),
        roles=(writes("dst", _REGISTER), reads("src", _MEMORY)),
        meaning=_to_register,
        cost=_step,
        source=_STEP_SOURCE,
        rules=(_one_number,),
    ),
    Row(
        name="register_store",
        summary="one number of HBM or SBUF = a register",
        engines=on(*_SEQUENCERS),
        roles=(writes("dst", _MEMORY), reads("src", _REGISTER)),
        meaning=_from_register,
        cost=_step,
        source=_STEP_SOURCE,
        rules=(_one_number,),
    ),
    Row(
        name="register_move",
        summary="a register = an integer or another register",
        engines=on(*_SEQUENCERS),
        roles=(writes("dst", _REGISTER), reads("src", _REGISTER, optional=True)),
        meaning=_move,
        cost=_step,
        source=_STEP_SOURCE,
        attributes=("value",),
    ),
)
