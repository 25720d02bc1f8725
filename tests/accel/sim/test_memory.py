"""Placement: tiles in use never share a byte; what does not fit is spilled or refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.chip import CHIPS
from accel.errors import KernelError
from accel.program import Engine, Kind, Memory, Mode, Program
from accel.sim import simulate
from accel.sim.evaluate import evaluate
from accel.sim.memory import Placed, addressed, place
from tests.accel.sim.strategies import programs
from tests.accel.sim.streams import Stream

TRN2 = CHIPS["trn2"]
KIB = 1024


def tiny(kib: int):
    """A chip with so much SBUF a partition for kernels."""
    return dataclasses.replace(TRN2, sbuf_partition_bytes=kib * KIB, sbuf_reserved_bytes=0)


def lives(placed: Placed) -> dict[int, tuple[int, int]]:
    """Storage → first and last instruction that touches it."""
    result: dict[int, tuple[int, int]] = {}
    program = placed.program
    for i in range(len(program)):
        for _, number, _ in program.operands(i):
            first, _ = result.get(number, (i, i))
            result[number] = (first, i)
    return result


def assert_no_byte_is_shared(placed: Placed, capacity: int) -> None:
    used = lives(placed)
    for memory in (Memory.SBUF, Memory.PSUM):
        tiles = [n for n in used if placed.program.storages[n].memory is memory]
        for n, a in enumerate(tiles):
            low = placed.address[a]
            high = low + placed.stores.partition_bytes[a]
            assert low >= 0
            assert memory is Memory.PSUM or high <= capacity
            for b in tiles[:n]:
                apart_in_time = used[a][1] < used[b][0] or used[b][1] < used[a][0]
                other = placed.address[b]
                apart = high <= other or other + placed.stores.partition_bytes[b] <= low
                assert apart or apart_in_time


@settings(max_examples=25, deadline=None)
@given(programs(tile_bytes=8 * KIB), st.integers(24, 64))
def test_tiles_in_use_at_once_never_share_a_byte(program, kib):
    placed = place(program, tiny(kib))

    assert_no_byte_is_shared(placed, kib * KIB)


@settings(max_examples=20, deadline=None)
@given(programs(tile_bytes=8 * KIB))
def test_spilling_changes_no_instruction_of_the_kernel(program):
    """Without the added ones, the same forms touch the same bytes of the same tiles."""
    placed = place(program, tiny(24))

    kept = np.setdiff1d(np.arange(len(placed.program)), placed.spills)
    dropped = len(program) - len(kept)
    loads = [i for i in range(len(program)) if program.forms[program.form[i]].op == "dma_copy"]
    assert dropped <= len(loads)
    if dropped == 0:
        rows = [_row(placed.program, int(i)) for i in kept]
        assert rows == [_row(program, i) for i in range(len(program))]


def _row(program: Program, index: int):
    names = [
        (access, program.storages[number].name.split(".reload")[0], offset)
        for access, number, offset in program.operands(index)
    ]
    return program.forms[program.form[index]].op, program.place(index), names


@settings(max_examples=20, deadline=None)
@given(programs(tile_bytes=8 * KIB))
def test_a_reload_brings_back_what_was_saved_last(program):
    """Plays the placed program on whole tiles: each read finds the version the kernel wrote."""
    placed = place(program, tiny(24))

    assert _versions(placed.program, placed.spills) == _versions(program, np.zeros(0, np.int64))


def _versions(program: Program, moves: np.ndarray) -> list[tuple[str, ...]]:
    """What each kernel instruction that reads on-chip tiles reads, as a history of writes.

    A load of a whole tile that is dropped or repeated by placement is the same write.
    """
    moving = set(moves.tolist())
    held: dict[int, tuple[str, ...]] = {}
    reads = []
    for i in range(len(program)):
        operands = program.operands(i)
        sources = [(n, a) for a, n, _ in operands if a.mode is Mode.READ]
        is_load = any(program.storages[n].kind is Kind.INPUT for n, _ in sources)
        line = program.place(i)
        if i not in moving and not is_load:
            reads.append((line, *(str(held.get(n)) for n, _ in sources)))
        for access, n, offset in operands:
            if access.mode is Mode.READ:
                continue
            if i in moving and not is_load:
                held[n] = held[sources[0][0]]
                continue
            whole = access.layout.elements * 4 == program.storages[n].partition_bytes
            event = f"{line}@{offset}"
            before = () if whole and access.mode is Mode.WRITE else held.get(n, ())
            held[n] = (*before, event)
    return reads


def test_tiles_that_fit_are_not_spilled_and_rotate_through_the_space():
    s = Stream("gen3")
    source = s.hbm((128, 2048), "float32")
    tiles = [s.tile((128, 2048)) for _ in range(6)]
    for tile in tiles:
        s.dma(tile, source)
        s.fill(tile)

    placed = place(s.build(), tiny(24))

    assert placed.address[tiles].tolist() == [0, 8192, 16384, 0, 8192, 16384]
    assert len(placed.spills) == 0
    assert placed.warnings == ()


def test_small_tiles_that_stay_do_not_cut_the_space_of_large_ones_into_pieces():
    s = Stream("gen3")
    staying = []
    for _ in range(12):
        staying.append(s.tile((128, 1)))
        s.fill(staying[-1])
        s.fill(s.tile((128, 1024)))
    s.fill(s.tile((128, 5 * 1024)))
    for tile in staying:
        s.fill(tile)

    placed = place(s.build(), tiny(24))

    assert len(placed.spills) == 0


def test_a_computed_tile_is_saved_once_and_reloaded():
    s = Stream("gen3")
    tiles = [s.tile((128, 2048), name=f"t{n}") for n in range(4)]
    out = s.hbm((128, 2048), "float32", Kind.OUTPUT)
    for tile in tiles:
        s.fill(tile, 1.0)
    for tile in tiles:
        s.dma(out, tile)

    result = simulate(s.build(), tiny(24))

    assert result.metrics.spill_save_bytes == result.metrics.spill_reload_bytes == 128 * 8 * KIB
    assert "psum" not in result.warnings[0]
    assert result.warnings[0].startswith("sbuf: 2 moves to and from hbm")


def test_a_loaded_tile_is_loaded_again_instead_of_saved():
    s = Stream("gen3")
    source = s.hbm((4 * 128, 2048), "float32")
    tiles = [s.tile((128, 2048)) for _ in range(4)]
    psum = s.tile((128, 512), memory=Memory.PSUM)
    for n, tile in enumerate(tiles):
        s.dma(tile, source, None, ((n * 128, 128), (0, 2048)))
    for _ in range(2):
        for tile in tiles:
            s.matmul(psum, tile, tile, ((0, 128), (0, 128)), ((0, 128), (0, 512)))

    result = simulate(s.build(), tiny(24))

    assert result.metrics.spill_save_bytes == 0
    assert result.metrics.spill_reload_bytes > 0
    moved = {name for *_, name in _loaded_rows(result.placed)}
    assert moved == {0, 128, 256, 384}


def _loaded_rows(placed: Placed):
    program = placed.program
    for i in range(len(program)):
        if program.forms[program.form[i]].op == "dma_copy":
            yield i, program.operands(i)[1][2] // 8192


def test_psum_tiles_get_banks_of_their_own_while_there_are_any():
    s = Stream("gen3")
    tiles = [s.tile((128, 64), memory=Memory.PSUM) for _ in range(10)]
    for _ in range(2):
        for tile in tiles:
            s.fill(tile)

    placed = place(s.build(), TRN2)

    banks = (placed.address[tiles] // 2048).tolist()
    assert sorted(banks[:8]) == list(range(8))
    assert len(placed.spills) == 0


def test_psum_tiles_beyond_the_banks_spill_to_sbuf():
    s = Stream("gen3")
    tiles = [s.tile((128, 512), memory=Memory.PSUM) for _ in range(9)]
    for tile in tiles:
        s.fill(tile)
    for tile in tiles:
        s.fill(tile)
        s.copy(s.tile((128, 512)), tile, engine=Engine.VECTOR)

    placed = place(s.build(), TRN2)

    assert placed.warnings[0].startswith("psum: ")
    ops = {placed.program.forms[placed.program.form[i]].op for i in placed.spills}
    assert ops == {"tensor_copy"}


def test_a_tile_never_straddles_a_bank_it_fits_in():
    s = Stream("gen3")
    tiles = [s.tile((128, 300), memory=Memory.PSUM) for _ in range(12)]
    for tile in tiles:
        s.fill(tile)

    placed = place(s.build(), TRN2)

    first, last = placed.address[tiles], placed.address[tiles] + 1199
    assert (first // 2048 == last // 2048).all()


def test_explicit_addresses_are_kept_and_avoided():
    s = Stream("gen3")
    fixed = s.tile((128, 1024), address=2048)
    free = [s.tile((128, 1024)) for _ in range(2)]
    for tile in (fixed, *free, fixed):
        s.fill(tile)

    placed = place(s.build(), tiny(16))

    assert placed.address.tolist() == [2048, 6144, 10240]
    assert [t.address for t in addressed(placed).storages] == [2048, 6144, 10240]


def test_explicit_addresses_that_overlap_while_in_use_are_an_error():
    s = Stream("gen3")
    a, b = s.tile((128, 1024), address=0, name="a"), s.tile((128, 1024), address=2048, name="b")
    for line, tile in enumerate((a, b, a)):
        s.fill(tile, line=line)

    with pytest.raises(KernelError, match=r"a \(bytes 0–4096\) and b \(bytes 2048–6144\).*:1\)"):
        place(s.build(), TRN2)


def test_explicit_addresses_may_be_reused_one_after_the_other_or_on_other_partitions():
    s = Stream("gen3")
    a, b = s.tile((64, 1024), address=0), s.tile((64, 1024), address=0, start_partition=64)
    c = s.tile((128, 1024), address=0)
    for tile in (a, b, a, c):
        s.fill(tile)

    placed = place(s.build(), TRN2)

    assert placed.taken.tolist() == [a, b]


@pytest.mark.parametrize(
    ("memory", "width", "address", "message"),
    [
        (Memory.SBUF, 60_000, None, "240000 bytes a partition, sbuf has 212992"),
        (Memory.PSUM, 8192, None, "32768 bytes a partition, psum has 16384"),
        (Memory.SBUF, 1024, 210_000, "4096 bytes a partition at byte 210000, sbuf has 212992"),
    ],
)
def test_a_tile_larger_than_its_memory_is_an_error(memory, width, address, message):
    s = Stream("gen3")
    s.fill(s.tile((128, width), memory=memory, address=address), line=7)

    with pytest.raises(KernelError, match=rf"{message} \(stream.py:7\)"):
        place(s.build(), TRN2)


def test_an_instruction_whose_operands_do_not_fit_is_an_error():
    s = Stream("gen3")
    s.tensor(*(s.tile((128, 2048)) for _ in range(3)), line=3)

    with pytest.raises(KernelError, match="no room in sbuf for its operands: they need 24576"):
        place(s.build(), tiny(16))


def test_each_core_has_its_own_memory():
    s = Stream("gen3", cores=2)
    for core in range(2):
        s.core = core
        s.fill(s.tile((128, 2048)))

    placed = place(s.build(), tiny(8))

    assert placed.address.tolist() == [0, 0]
    assert len(placed.taken) == 0


def test_only_the_written_part_of_a_psum_tile_is_saved_and_reloaded():
    s = Stream("gen3")
    part, whole = ((0, 64), (0, 128)), ((0, 64), (0, 512))
    a, b = (s.tile((64, 512), memory=Memory.PSUM) for _ in range(2))
    x, y = s.tile((64, 64)), s.tile((64, 512))
    s.fill(x)
    s.fill(y)
    for tile, region in ((a, part), (b, whole), (a, whole)):
        operands = [
            ("dst", Mode.ACCUMULATE, tile, region),
            ("stationary", Mode.READ, x, None),
            ("moving", Mode.READ, y, region),
        ]
        s.emit("nc_matmul", operands, engine=Engine.TENSOR, accumulate="auto")
    program = s.build()

    placed = place(program, dataclasses.replace(TRN2, psum_banks=1))
    moves = [placed.program.forms[placed.program.form[i]] for i in placed.spills]
    shapes = [access.layout.shape for form in moves for access in form.accesses]

    assert shapes == [(64, 128)] * 4
    assert evaluate(placed.program, {}).uninitialised == ()


def skipping(s: Stream, kept: int) -> None:
    """Gathers rows into a tile, leaving those whose index is outside."""
    table, index = s.hbm((64, s.builder.storages[kept].shape[1]), "float32"), s.tile((128, 1))
    s.fill(index)
    operands = [
        ("dst", Mode.WRITE, kept, None),
        ("src", Mode.READ, table, None),
        ("src_index", Mode.READ, index, None),
    ]
    s.emit("dma_copy", operands, src_index="vector:4", oob_mode="skip")


def masked(s: Stream, kept: int) -> None:
    """Writes into a tile where a mask says so."""
    mask = s.tile(s.builder.storages[kept].shape, "uint8")
    s.fill(mask)
    operands = [("dst", Mode.WRITE, kept, None), ("predicate", Mode.READ, mask, None)]
    s.emit("tensor_copy_predicated", operands, engine=Engine.VECTOR, value=1.0)


@pytest.mark.parametrize("change", [masked, skipping])
def test_an_instruction_that_may_keep_elements_needs_the_contents_of_its_spilled_tile(change):
    s = Stream("gen3")
    kept, other = s.tile((128, 1024)), s.tile((128, 1024))
    s.fill(kept)
    s.fill(other)
    s.copy(other, other)
    change(s, kept)

    placed = place(s.build(), tiny(6))
    forms = [placed.program.forms[placed.program.form[i]] for i in placed.spills]

    assert [form.accesses[0].layout.memory for form in forms] == [Memory.HBM, Memory.SBUF]
