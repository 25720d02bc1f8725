"""Boxes hold every byte an operand touches, and no more where the operand is rectangular."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.program import Access, Builder, Engine, Form, Kind, Layout, Memory, Mode, Storage
from accel.sim.geometry import boxes_of, stores_of
from tests.accel.sim.streams import Stream


def touched_bytes(layout: Layout, offset: int, row: int) -> set[int]:
    """Every byte of the storage that the operand touches, by enumeration."""
    pattern = list(layout.pattern)
    if layout.partitions:
        pattern.insert(0, (row, layout.partitions))
    places = np.array([offset])
    for step, count in pattern:
        places = (places[:, None] + step * np.arange(count)).ravel()
    return {int(p) + b for p in places for b in range(4)}


def bytes_in_box(low, high, strides, sizes) -> set[int]:
    """Every byte of the storage inside a box, by enumeration."""
    places = np.array([0])
    for start, end, stride in zip(low, high, strides, strict=True):
        places = (places[:, None] + stride * np.arange(start, end + 1)).ravel()
    assert all(e < n for e, n in zip(high, sizes, strict=True))
    return set(places.tolist())


@st.composite
def operands(draw):
    """A storage and an operand of it: a strided region, or a flat pattern of the free bytes."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=2, max_size=6)))
    steps = [4 * math.prod(shape[d + 1 :]) for d in range(len(shape))]
    if draw(st.booleans()):
        per_partition = math.prod(shape[1:])
        start = draw(st.integers(0, per_partition - 1))
        step = draw(st.integers(1, per_partition))
        count = 1 + (per_partition - 1 - start) // step
        return shape, ((4 * step, count),), (0, shape[0]), 4 * start
    pattern, offset, rows = [], 0, (0, 1)
    for d, size in enumerate(shape):
        first = draw(st.integers(0, size - 1))
        jump = draw(st.integers(1, size))
        count = draw(st.integers(1, 1 + (size - 1 - first) // jump))
        if d == 0:
            rows = (first, draw(st.integers(1, size - first)))
        else:
            pattern.append((steps[d] * jump, count))
            offset += first * steps[d]
    return shape, tuple(pattern), rows, offset


@settings(deadline=None)
@given(operands(), st.booleans())
def test_box_holds_every_byte_touched(operand, on_chip):
    shape, pattern, (first, partitions), inside = operand
    row = 4 * math.prod(shape[1:])
    memory = Memory.SBUF if on_chip else Memory.HBM
    if not on_chip:
        pattern, partitions = ((row, partitions), *pattern), 0
    layout = Layout(memory, "float32", partitions, pattern)
    builder = Builder("p", "gen3")
    storage = builder.add_storage(Storage("t", memory, "float32", shape))
    form = builder.intern_form(Form("memset", Engine.ANY, (Access("dst", Mode.WRITE, layout),)))
    offset = first * row + inside
    builder.emit(form, ((storage, offset),), builder.intern_source("k.py", 1))
    program = builder.build()

    stores = stores_of(program)
    boxes = boxes_of(program, stores)

    touched = touched_bytes(layout, offset, row)
    box = bytes_in_box(boxes.low[0], boxes.high[0], stores.strides[0], stores.sizes[0])
    assert touched <= box
    assert boxes.touched[0] == len(touched)


def test_column_blocks_of_an_hbm_matrix_have_exact_boxes():
    s = Stream("gen3")
    matrix = s.hbm((256, 1024), "bfloat16", Kind.OUTPUT)
    s.dma(matrix, s.tile((128, 512), "bfloat16"), ((128, 128), (512, 512)), None)
    program = s.build()

    stores = stores_of(program)
    boxes = boxes_of(program, stores)

    volume = np.prod(boxes.high[0] - boxes.low[0] + 1)
    assert volume == boxes.touched[0] == 128 * 1024


@pytest.mark.parametrize("step", [-4, 8, 0])
def test_reversed_strided_and_repeated_patterns_stay_inside_the_row(step):
    layout = Layout(Memory.SBUF, "float32", 2, ((step, 4),))
    builder = Builder("p", "gen3")
    builder.add_storage(Storage("t", Memory.SBUF, "float32", (2, 8)))
    form = builder.intern_form(Form("memset", Engine.ANY, (Access("dst", Mode.WRITE, layout),)))
    builder.emit(form, ((0, 12 if step < 0 else 4),), builder.intern_source("k.py", 1))
    program = builder.build()

    boxes = boxes_of(program, stores_of(program))

    width = {-4: (0, 15), 8: (4, 31), 0: (4, 7)}[step]
    assert (boxes.low[0, -1], boxes.high[0, -1]) == width
