"""The text form of a Program prints and parses back."""

import math

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from accel.dtypes import NAMES
from accel.errors import UserError
from accel.program import (
    Access,
    Builder,
    Engine,
    Form,
    Kind,
    Layout,
    Memory,
    Mode,
    Storage,
)
from accel.program_text import format_program, parse_program
from tests.accel.programs import form, hbm, layout

_TEXT = st.text(max_size=8)
_WORD = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)
_INT = st.integers(-(2**31), 2**31)
_VALUE = st.one_of(
    _TEXT,
    _INT,
    st.booleans(),
    st.floats(allow_nan=False),
    st.just(math.nan),
    st.lists(_INT, max_size=3).map(tuple),
)
_LAYOUT = st.builds(
    Layout,
    st.sampled_from(Memory),
    st.sampled_from(NAMES),
    st.integers(0, 128),
    st.lists(st.tuples(_INT, st.integers(1, 999)), max_size=4).map(tuple),
)
_FORM = st.builds(
    Form,
    _WORD,
    st.sampled_from(Engine),
    st.lists(st.builds(Access, _WORD, st.sampled_from(Mode), _LAYOUT), max_size=3).map(tuple),
    st.dictionaries(_TEXT, _VALUE, max_size=3).map(lambda d: tuple(sorted(d.items()))),
)
_STORAGE = st.builds(
    Storage,
    _TEXT,
    st.sampled_from(Memory),
    st.sampled_from(NAMES),
    st.lists(st.integers(1, 999), max_size=3).map(tuple),
    st.sampled_from(Kind),
    st.none() | st.integers(0, 2**20),
    st.integers(0, 127),
    st.integers(-1, 7),
)


@st.composite
def programs(draw):
    builder = Builder(draw(_TEXT), draw(_TEXT), draw(st.integers(1, 8)))
    for storage in draw(st.lists(_STORAGE, min_size=1, max_size=3)):
        builder.add_storage(storage)
    forms = [builder.intern_form(f) for f in draw(st.lists(_FORM, min_size=1, max_size=3))]
    lines = draw(st.lists(st.tuples(_TEXT, _INT, _TEXT), min_size=1, max_size=3))
    sources = [builder.intern_source(*line) for line in lines]
    for _ in range(draw(st.integers(0, 5))):
        number = draw(st.sampled_from(forms))
        operand = st.tuples(st.integers(0, len(builder.storages) - 1), st.integers(0, 2**40))
        places = [draw(operand) for _ in builder.forms[number].accesses]
        core = draw(st.integers(0, 7))
        builder.emit(number, tuple(places), draw(st.sampled_from(sources)), core)
    return builder.build()


@settings(max_examples=40, deadline=None)
@given(programs())
def test_parsing_what_was_printed_gives_the_program_back(program):
    text = format_program(program)

    assert parse_program(text) == program
    assert format_program(parse_program(text)) == text


def _copy_program():
    builder = Builder("copy", "gen3")
    source = builder.add_storage(Storage("x", Memory.HBM, "bfloat16", (128, 64), Kind.INPUT))
    tile = builder.add_storage(Storage("t", Memory.SBUF, "bfloat16", (128, 64), address=0))
    load = form("dma_copy", dst=layout((128, 64), "bfloat16"), src=hbm((128, 64), "bfloat16"))
    places = ((tile, 0), (source, 0))
    builder.emit(builder.intern_form(load), places, builder.intern_source("k.py", 3, "copy"))
    return builder.build()


def test_the_text_is_one_readable_line_an_instruction():
    assert format_program(_copy_program()).splitlines() == [
        'program "copy" target="gen3" cores=1',
        'storage %0 "x" hbm bfloat16 128x64 input partition=0 core=0',
        'storage %1 "t" sbuf bfloat16 128x64 scratch address=0 partition=0 core=0',
        "form #0 dma_copy on any {} "
        "w.dst(sbuf bfloat16 128: 2x64) r.src(hbm bfloat16: 128x128 2x64)",
        'line $0 "k.py" 3 "copy"',
        "dma_copy #0 dst=%1[0] src=%0[0] $0 core=0",
    ]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("program", "programme", "line 1: not a program"),
        ("%1[0]", "%7[0]", "line 6: unknown storage %7"),
        ("$0 core", "$9 core", "line 6: unknown line $9"),
        ("dma_copy #0", "memset #0", "line 6: memset is not what form 0 says"),
        ("storage %1", "storage %4", "line 3: storage 4 is out of order, expected 1"),
        (" sbuf bfloat16 128x64", " dram bfloat16 128x64", "line 3: 'dram' is not a valid Memory"),
    ],
)
def test_a_broken_text_names_the_line(old, new, problem):
    text = format_program(_copy_program()).replace(old, new, 1)

    with pytest.raises(UserError, match="line") as caught:
        parse_program(text)
    assert problem in caught.value.message
