"""Warnings about what a kernel gives back: nothing, or tensors that it does not fill.

From the program alone, so they come without values too. Bytes are counted, not places: a kernel
that writes one half twice is not noticed, one that is noticed is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from accel.dtypes import itemsize
from accel.isa.rules import total
from accel.program import Access, Kind, Memory, Mode, Program


def output_warnings(program: Program) -> Iterator[str]:
    """One line for each output that is not filled, or one that there is no output at all."""
    written = _bytes_written(program)
    outputs = [n for n, storage in enumerate(program.storages) if storage.kind is Kind.OUTPUT]
    inputs = [n for n, storage in enumerate(program.storages) if storage.kind is Kind.INPUT]
    if not outputs and not any(written[number] for number in inputs):
        yield f"{program.name} returns no tensor and writes none of its arguments"
    for number in outputs:
        storage = program.storages[number]
        if written[number] == 0:
            yield f"{storage.name}: returned, but never written"
        elif written[number] < storage.total_bytes:
            yield (
                f"{storage.name}: returned, but at most {written[number]} of its "
                f"{storage.total_bytes} bytes are written"
            )


def _bytes_written(program: Program) -> npt.NDArray[np.int64]:
    """Bytes that instructions write into each HBM storage, counted as often as they are written."""
    written = np.zeros(len(program.storages), np.int64)
    instructions = np.bincount(program.form, minlength=len(program.forms))
    for number, form in enumerate(program.forms):
        for position, access in enumerate(form.accesses):
            if instructions[number] and _writes_hbm(access):
                where = program.first_operand[:-1][program.form == number] + position
                size = total(access.layout) * itemsize(access.layout.dtype)
                np.add.at(written, program.storage[where], size)
    return written


def _writes_hbm(access: Access) -> bool:
    return access.mode is not Mode.READ and access.layout.memory is Memory.HBM
