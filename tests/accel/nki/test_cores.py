"""Several cores: what they exchange, how they wait, and what they cannot agree on."""

import gc
import threading

import numpy as np
import pytest

import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.chip import CHIPS
from accel.errors import KernelError
from accel.nki.cores import Cores, Wait
from accel.nki.jit import TensorSpec, evaluate, jit, trace
from accel.program import Program
from accel.sim import simulate

TRN2 = CHIPS["trn2"]
SHAPE = (2, 128, 16)
X = np.random.default_rng(3).standard_normal(SHAPE, np.float32)


@jit
def swap_twice(x):
    """Each core sends its half to the other, stores it, waits, and reads what the other stored."""
    me, other = nl.program_id(0), 1 - nl.program_id(0)
    stored = nl.ndarray(SHAPE, dtype=x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray(SHAPE, dtype=x.dtype, buffer=nl.shared_hbm)
    mine = nl.ndarray(SHAPE[1:], dtype=x.dtype, buffer=nl.sbuf)
    theirs = nl.ndarray(SHAPE[1:], dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(mine, x[me])
    nisa.sendrecv(src=mine, dst=theirs, send_to_rank=other, recv_from_rank=other, pipe_id=0)
    nisa.dma_copy(stored[me], theirs)
    nisa.core_barrier(stored, cores=(0, 1))
    nisa.dma_copy(theirs, stored[other])
    nisa.dma_copy(out[me], theirs)
    return out


def run(kernel, grid: tuple[int, ...] = (2,), x: np.ndarray = X):
    return evaluate(kernel, {"x": x}, TRN2, grid)


def rows(program: Program, op: str) -> list[int]:
    return [i for i in range(len(program)) if program.forms[program.form[i]].op == op]


def test_cores_exchange_and_wait() -> None:
    evaluation = run(swap_twice)

    np.testing.assert_array_equal(evaluation.result, X)
    assert evaluation.uninitialised == ()


def test_both_modes_record_the_same_program_of_both_cores() -> None:
    traced = trace(swap_twice, {"x": TensorSpec(SHAPE, "float32")}, TRN2, (2,))

    assert run(swap_twice).program == traced
    assert traced.cores == 2
    assert sorted(set(traced.core.tolist())) == [0, 1]


def test_a_meeting_is_recorded_on_each_core_at_the_kernels_line() -> None:
    program = run(swap_twice).program
    for op in ("dma_sendrecv", "core_barrier"):
        first, second = rows(program, op)

        assert program.core[[first, second]].tolist() == [0, 1]
        assert program.place(first) == program.place(second)
        assert program.place(first).startswith("test_cores.py:")


def test_a_received_tile_comes_from_the_other_core() -> None:
    program = run(swap_twice).program
    for index in rows(program, "dma_sendrecv"):
        (_, dst, _), (_, src, _) = program.operands(index)
        cores = program.storages[dst].core, program.storages[src].core

        assert cores == (program.core[index], 1 - program.core[index])


def test_nothing_after_a_barrier_starts_before_both_cores_are_there() -> None:
    program = run(swap_twice).program
    times = simulate(program, TRN2)
    ran, schedule = times.program, times.trace.times
    stored = next(n for n, s in enumerate(ran.storages) if s.name.startswith("stored"))
    writes = [
        i
        for i in range(len(ran))
        if any(
            n == stored and a.role == "dst" and ran.forms[ran.form[i]].op == "dma_copy"
            for a, n, _ in ran.operands(i)
        )
    ]
    reads = [
        i
        for i in range(len(ran))
        if any(n == stored and a.role == "src" for a, n, _ in ran.operands(i))
    ]

    assert len(writes) == len(reads) == 2
    assert min(schedule.start[reads]) >= max(schedule.end[writes])


def test_each_core_has_its_own_accumulators() -> None:
    @jit
    def sums(x):
        me = nl.program_id(0)
        out = nl.ndarray((2, 128, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x[me])
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        junk = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(
            junk, op=nl.copy, data=tile, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce
        )
        nisa.core_barrier(out, (0, 1))
        nisa.activation(
            junk,
            op=nl.copy,
            data=tile,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reduce,
        )
        nisa.dma_copy(out[me], total)
        return out

    np.testing.assert_allclose(run(sums).result[..., 0], 2 * X.sum(axis=2), rtol=1e-4, atol=1e-4)


@jit
def one_comes(x):
    out = nl.ndarray(SHAPE, dtype=x.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:
        nisa.core_barrier(out, (0, 1))
    return out


@jit
def at_odds(x):
    out = nl.ndarray(SHAPE, dtype=x.dtype, buffer=nl.shared_hbm)
    tile, got = nl.load(x[0]), nl.load(x[1])
    if nl.program_id(0) == 0:
        nisa.core_barrier(out, (0, 1))
    else:
        nisa.sendrecv(src=tile, dst=got, send_to_rank=0, recv_from_rank=0, pipe_id=3)
    return out


def test_a_barrier_that_one_core_never_reaches_is_a_deadlock() -> None:
    with pytest.raises(
        KernelError,
        match=r"core 0 waits for core 1 in core_barrier .*"
        r"test_cores\.py:\d+\); core 1 has ended",
    ):
        run(one_comes)


def test_cores_that_wait_for_different_things_are_shown_with_both_places() -> None:
    with pytest.raises(KernelError) as caught:
        run(at_odds)

    assert "core 0 waits for core 1 in core_barrier of cores (0, 1)" in str(caught.value)
    assert "core 1 waits for core 0 in sendrecv on pipe 3" in str(caught.value)
    assert str(caught.value).count("test_cores.py:") >= 2


def test_a_stopped_kernel_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    with pytest.raises(KernelError):
        run(one_comes)

    assert threading.active_count() == before


def test_an_error_on_another_core_comes_out_with_its_line() -> None:
    @jit
    def fails(x):
        assert nl.program_id(0) == 0, "only the first core"
        return x

    with pytest.raises(KernelError, match="only the first core") as caught:
        run(fails)

    assert caught.value.place.startswith("test_cores.py:")


def test_a_barrier_needs_a_tensor_that_the_cores_share() -> None:
    @jit
    def private(x):
        nisa.core_barrier(nl.ndarray((4, 4), dtype=x.dtype, buffer=nl.private_hbm), (0, 1))

    with pytest.raises(KernelError, match="one core has to itself"):
        run(private)


def test_a_barrier_of_more_cores_than_the_grid_has_is_an_error() -> None:
    with pytest.raises(KernelError, match="core 1 is named, the grid has 1 cores"):
        run(one_comes, (1,))


@pytest.mark.parametrize(("columns", "overlaps"), [(slice(0, 8), True), (slice(8, 16), False)])
def test_what_is_sent_may_not_change_while_something_arrives(columns, overlaps: bool) -> None:
    @jit
    def exchange(x):
        tile = nl.load(x[nl.program_id(0)])
        other = 1 - nl.program_id(0)
        nisa.sendrecv(tile[:, 0:8], tile[:, columns], other, other, pipe_id=0)
        out = nl.ndarray(SHAPE, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out[1 - other], tile)
        return out

    if overlaps:
        with pytest.raises(KernelError, match="src and dst overlap"):
            run(exchange)
    else:
        np.testing.assert_array_equal(run(exchange).result[0, :, 8:], X[1, :, :8])


def test_gpsimd_moves_only_small_tiles() -> None:
    @jit
    def exchange(x):
        tile, other = nl.ndarray((128, 300), nl.bfloat16), 1 - nl.program_id(0)
        got = nl.ndarray((128, 300), nl.bfloat16)
        nisa.memset(tile, 1.0)
        nisa.sendrecv(tile, got, other, other, 0, dma_engine=nisa.dma_engine.gpsimd_dma)

    with pytest.raises(KernelError, match="up to 512 bytes a partition of bfloat16, got 600"):
        run(exchange)


def test_three_cores_pass_on_around_a_ring() -> None:
    @jit
    def ring(x):
        me = nl.program_id(0)
        tile, got = nl.load(x[me]), nl.ndarray(SHAPE[1:], x.dtype)
        nisa.sendrecv(tile, got, send_to_rank=(me + 1) % 3, recv_from_rank=(me - 1) % 3, pipe_id=0)
        out = nl.ndarray((3, *SHAPE[1:]), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out[me], got)
        return out

    x = np.random.default_rng(0).standard_normal((3, *SHAPE[1:]), np.float32)
    np.testing.assert_array_equal(run(ring, (3,), x).result, np.roll(x, 1, axis=0))


def test_a_tile_with_an_index_is_not_exchanged() -> None:
    @jit
    def kernel(x):
        other = 1 - nl.program_id(0)
        tile = nl.ndarray(SHAPE[1:], dtype=x.dtype, buffer=nl.sbuf)
        index = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.memset(index, 1)
        part = tile.ap([[16, 128], [1, 8]], scalar_offset=index, indirect_dim=1)
        nisa.sendrecv(part, nl.zeros((128, 8), x.dtype), other, other, 0)
        return x

    with pytest.raises(KernelError, match="sendrecv: src is a view of"):
        run(kernel)


def test_what_cores_do_without_meeting_is_told() -> None:
    """Without the barrier of `swap_twice`, what is read may not be there yet."""

    @jit
    def hasty(x, waits):
        me = nl.program_id(0)
        stored = nl.ndarray(SHAPE, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(SHAPE[1:], dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x[me])
        nisa.dma_copy(stored[me], tile)
        if waits:
            nisa.core_barrier(stored, cores=(0, 1))
        nisa.dma_copy(tile, stored[1 - me])
        return stored

    spec = {"x": TensorSpec(SHAPE, "float32")}
    told = [
        simulate(trace(hasty, spec | {"waits": waits}, TRN2, (2,)), TRN2).warnings
        for waits in (False, True)
    ]

    assert [w.partition(":")[0] for w in told[0]] == ["race on output"] * 2  # either may be late
    assert "core 0 at test_cores.py:" in told[0][0]
    assert "core 1 at test_cores.py:" in told[0][0]
    assert told[1] == ()


def test_cores_that_write_shared_memory_take_turns() -> None:
    """Both clear all of it, then each writes its part: neither clears what the other wrote."""

    @jit
    def kernel(x):
        me = nl.program_id(0)
        out = nl.ndarray(SHAPE, dtype=x.dtype, buffer=nl.shared_hbm)
        zero = nl.ndarray(SHAPE[1:], dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(zero, 0)
        for part in range(2):
            nisa.dma_copy(out[part], zero)
        nisa.dma_copy(out[me], x[me])
        return out

    evaluation = run(kernel)

    np.testing.assert_array_equal(evaluation.result, X)
    assert evaluation.program == trace(kernel, {"x": TensorSpec(SHAPE, "float32")}, TRN2, (2,))


def test_cores_take_turns_in_order() -> None:
    seen: list[tuple[int, str]] = []
    entered: list[int] = []
    cores = Cores(3, entered.append)

    def program(me: int) -> int:
        assert entered[-1] == me
        seen.append((me, "before"))
        others = tuple(n for n in range(3) if n != me)
        cores.meet(Wait("meeting", others, "k", "", "", me), lambda _: seen.append((me, "met")))
        seen.append((entered[-1], "after"))
        return me

    assert cores.run(program) == [0, 1, 2]
    assert seen[:4] == [(0, "before"), (1, "before"), (2, "before"), (2, "met")]
    assert sorted(seen[4:]) == [(0, "after"), (1, "after"), (2, "after")]


def test_the_collector_is_on_again_after_a_deadlock() -> None:
    with pytest.raises(KernelError):
        run(at_odds)

    assert gc.isenabled()
