"""Collectives: what each rank of a group gets, how ranks wait, and what they cannot agree on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import accel.nki.collectives as ncc
import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.chip import CHIPS
from accel.errors import KernelError, UserError
from accel.isa import ISA
from accel.nki.jit import TensorSpec, evaluate, evaluate_ranks, jit, trace
from accel.sim import simulate

TRN2 = CHIPS["trn2"]
ROWS, COLUMNS = 8, 6
GROUPS = [[0, 2], [3, 1]]


def inputs(ranks: int, rows: int = ROWS) -> list[np.ndarray]:
    rng = np.random.default_rng(11)
    return [rng.integers(-9, 9, (rows, COLUMNS)).astype(np.float32) for _ in range(ranks)]


def run(kernel, arrays: Sequence[np.ndarray], grid: tuple[int, ...] = (), **options: object):
    arguments = [{"x": x, **options} for x in arrays]
    return [e.result for e in evaluate_ranks(kernel, arguments, TRN2, grid)]


def through_hbm(call, rows: int):
    """A kernel that takes x through a collective, in HBM."""

    @jit
    def kernel(x, groups):
        src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        dst = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
        out = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(src, x)
        call(src, dst, groups)
        nisa.dma_copy(out, dst)
        return out

    return kernel


def members(rank: int) -> list[int]:
    return next(group for group in GROUPS if rank in group)


@pytest.mark.parametrize(
    ("op", "reduce"), [(nl.add, np.add), (nl.maximum, np.maximum), (nl.minimum, np.minimum)]
)
def test_all_reduce_combines_the_ranks_of_the_group(op, reduce) -> None:
    kernel = through_hbm(lambda s, d, g: ncc.all_reduce([s], [d], g, op), ROWS)
    x = inputs(4)

    for rank, result in enumerate(run(kernel, x, groups=ncc.ReplicaGroup(GROUPS))):
        np.testing.assert_array_equal(result, reduce.reduce([x[m] for m in members(rank)]))


def test_all_gather_puts_them_in_the_order_of_the_group() -> None:
    kernel = through_hbm(lambda s, d, g: ncc.all_gather([s], [d], g, 0), 2 * ROWS)
    x = inputs(4)

    for rank, result in enumerate(run(kernel, x, groups=GROUPS)):
        np.testing.assert_array_equal(result, np.concatenate([x[m] for m in members(rank)]))


def test_reduce_scatter_gives_each_rank_its_share() -> None:
    kernel = through_hbm(lambda s, d, g: ncc.reduce_scatter([s], [d], g, 0, nl.add), ROWS // 2)
    x = inputs(4)

    for rank, result in enumerate(run(kernel, x, groups=GROUPS)):
        group = members(rank)
        share = np.split(x[group[0]] + x[group[1]], 2)[group.index(rank)]
        np.testing.assert_array_equal(result, share)


def test_all_to_all_exchanges_shares() -> None:
    kernel = through_hbm(lambda s, d, g: ncc.all_to_all([s], [d], g, 0), ROWS)
    x = inputs(4)

    for rank, result in enumerate(run(kernel, x, groups=GROUPS)):
        group = members(rank)
        parts = [np.split(x[m], 2)[group.index(rank)] for m in group]
        np.testing.assert_array_equal(result, np.concatenate(parts))


def test_permute_moves_along_the_pairs_and_leaves_the_rest() -> None:
    pairs = [(0, 1), (1, 2)]

    @jit
    def kernel(x):
        dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst, x)
        ncc.collective_permute([x], [dst], pairs)
        return dst

    x = inputs(4)
    expected = [x[0], x[0], x[1], x[3]]
    for result, wanted in zip(run(kernel, x), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_a_ring_brings_every_ranks_data_past_every_rank() -> None:
    ring = [[2, 0, 3, 1]]

    @jit
    def kernel(x):
        out = nl.ndarray((4, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        here = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        next_ = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(here, x)
        for step in range(4):
            rank = ncc.collective_permute_implicit_current_processing_rank_id(step, ring)
            nisa.dma_copy(out[int(rank)], here)
            ncc.collective_permute_implicit([[here]], [[next_]], ring)
            here, next_ = next_, here
        return out

    x = inputs(4)
    for result in run(kernel, x):
        np.testing.assert_array_equal(result, np.stack(x))


def test_a_reducing_ring_sends_the_combination() -> None:
    @jit
    def kernel(x):
        dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        ncc.collective_permute_implicit_reduce([[x]], [[x]], [[dst]], [[0, 1, 2]], nl.add)
        return dst

    x = inputs(3)
    for rank, result in enumerate(run(kernel, x)):
        np.testing.assert_array_equal(result, 2 * x[rank - 1])


def test_sbuf_tiles_are_gathered_along_the_free_axis() -> None:
    @jit
    def kernel(x):
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        wide = nl.ndarray((ROWS, 2 * COLUMNS), dtype=x.dtype, buffer=nl.sbuf)
        out = nl.ndarray((ROWS, 2 * COLUMNS), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(tile, x)
        ncc.all_gather([tile], [wide], [[0, 1]], 1)
        nisa.dma_copy(out, wide)
        return out

    x = inputs(2)
    for result in run(kernel, x):
        np.testing.assert_array_equal(result, np.concatenate(x, axis=1))


def variable(call, counts_known: bool = False):
    @jit
    def kernel(x, metadata):
        dst = nl.ndarray((16, 1), dtype=x.dtype, buffer=nl.shared_hbm)
        table = nl.ndarray(metadata.shape, dtype=metadata.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(table, metadata)
        zero = nl.ndarray((16, 1), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(zero, 0)
        nisa.dma_copy(dst, zero)
        call([x], [dst], [[0, 1, 2, 3]], table, recv_counts_known=counts_known)
        return dst, table

    return kernel


def test_all_to_all_v_sends_as_much_as_the_metadata_says() -> None:
    rng = np.random.default_rng(2)
    counts = rng.integers(0, 4, (4, 4))
    sources = [np.arange(16, dtype=np.float32)[:, None] + 100 * r for r in range(4)]
    tables = [
        np.stack([counts[r], 4 * np.arange(4), np.full(4, 77)]).astype(np.uint32) for r in range(4)
    ]
    arguments = [{"x": x, "metadata": m} for x, m in zip(sources, tables, strict=True)]

    results = evaluate_ranks(variable(ncc.all_to_all_v), arguments, TRN2)

    for rank, evaluation in enumerate(results):
        dst, table = evaluation.result
        expected = np.zeros(16, np.float32)
        for source in range(4):
            n = counts[source, rank]
            expected[4 * source : 4 * source + n] = sources[source][4 * rank : 4 * rank + n, 0]
        np.testing.assert_array_equal(dst[:, 0], expected)
        np.testing.assert_array_equal(table[2], counts[:, rank])


def test_all_gather_v_sends_one_chunk_to_all() -> None:
    sources = [np.arange(16, dtype=np.float32)[:, None] + 100 * r for r in range(4)]
    tables = []
    for rank in range(4):
        table = np.full((3, 4), 9, np.uint32)
        table[:2, 0] = rank, 2
        tables.append(table)
    arguments = [{"x": x, "metadata": m} for x, m in zip(sources, tables, strict=True)]

    results = evaluate_ranks(variable(ncc.all_gather_v, True), arguments, TRN2, (2,))

    expected = np.zeros(16, np.float32)
    for rank in range(4):
        expected[4 * rank : 4 * rank + rank] = sources[rank][2 : 2 + rank, 0]
    for evaluation in results:
        dst, table = evaluation.result
        np.testing.assert_array_equal(dst[:, 0], expected)
        assert (table[2] == 9).all()


def test_a_chunk_larger_than_its_place_is_an_error() -> None:
    table = np.array([[5] * 4, [0] * 4, [0] * 4], np.uint32)
    arguments = [{"x": np.zeros((16, 1), np.float32), "metadata": table} for _ in range(4)]

    with pytest.raises(KernelError, match=r"sends 5 elements from 0 on.*dst has room for 4"):
        evaluate_ranks(variable(ncc.all_to_all_v), arguments, TRN2)


def test_each_rank_knows_its_number() -> None:
    @jit
    def kernel(x):
        out = nl.ndarray((1, COLUMNS), dtype=x.dtype, buffer=nl.shared_hbm)
        rank = ncc.rank_id()
        nisa.dma_copy(out, x.ap([[COLUMNS, 1], [1, COLUMNS]], scalar_offset=rank, indirect_dim=0))
        return out

    x = inputs(1)[0]
    for rank, result in enumerate(run(kernel, [x] * 3)):
        np.testing.assert_array_equal(result[0], x[rank])


def test_both_cores_of_a_rank_make_one_collective_in_shared_hbm() -> None:
    @jit
    def kernel(x):
        half = slice(nl.program_id(0) * ROWS // 2, (nl.program_id(0) + 1) * ROWS // 2)
        shared = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(shared[half], x[half])
        ncc.all_reduce([shared], [shared], [[0, 1]], nl.add)
        nisa.dma_copy(out[half], shared[half])
        return out

    x = inputs(2)
    evaluations = evaluate_ranks(kernel, [{"x": a} for a in x], TRN2, (2,))

    for evaluation in evaluations:
        np.testing.assert_array_equal(evaluation.result, x[0] + x[1])
        assert evaluation.uninitialised == ()
    traced = trace(kernel, {"x": TensorSpec((ROWS, COLUMNS), "float32")}, TRN2, (2,))
    assert traced == evaluations[0].program


def test_each_core_gathers_tiles_of_its_own() -> None:
    @jit
    def kernel(x):
        me = nl.program_id(0)
        tile = nl.ndarray((ROWS, 3), dtype=x.dtype, buffer=nl.sbuf)
        wide = nl.ndarray((ROWS, 6), dtype=x.dtype, buffer=nl.sbuf)
        out = nl.ndarray((2, ROWS, 6), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(tile, x[:, 3 * me : 3 * me + 3])
        ncc.all_gather([tile], [wide], [[0, 1]], 1)
        nisa.dma_copy(out[me], wide)
        return out

    x = inputs(2)
    for result in run(kernel, x, (2,)):
        for core in range(2):
            part = slice(3 * core, 3 * core + 3)
            np.testing.assert_array_equal(result[core], np.hstack([x[0][:, part], x[1][:, part]]))


def test_a_program_of_shapes_is_that_of_the_rank_asked_for() -> None:
    kernel = through_hbm(lambda s, d, g: ncc.all_gather([s], [d], g, 0), 2 * ROWS)
    evaluations = evaluate_ranks(kernel, [{"x": x, "groups": GROUPS} for x in inputs(4)], TRN2)

    for rank, evaluation in enumerate(evaluations):
        spec = {"x": TensorSpec((ROWS, COLUMNS), "float32"), "groups": GROUPS}
        assert trace(kernel, spec, TRN2, rank=rank) == evaluation.program


def test_a_collective_takes_hops_and_bytes() -> None:
    def latency(columns: int) -> float:
        kernel = through_hbm(lambda s, d, g: ncc.all_gather([s], [d], g, 0), 128 * 4)
        spec = {"x": TensorSpec((128, columns), "float32"), "groups": [[0, 1, 2, 3]]}
        program = trace(kernel, spec, TRN2)
        found = simulate(program, TRN2)
        (at,) = [
            i
            for i in range(len(found.program))
            if found.program.forms[found.program.form[i]].op == "all_gather"
        ]
        times = found.trace.times
        return float(times.end[at] - times.start[at]) / 1e6

    small, large = latency(1), latency(4096)
    fixed = (TRN2.collective_fixed_ps + 2 * TRN2.collective_hop_ps) / 1e6
    # 2 KiB go by a mesh, over two channels; 8 MiB by recursive doubling, over six: two hops each.
    mesh, doubling = (n * TRN2.collective_channel_bytes_per_us for n in (2, 6))

    assert small == pytest.approx(fixed + 3 * 512 / mesh, abs=1e-3)
    assert large == pytest.approx(fixed + 3 * 128 * 4096 * 4 / doubling, rel=1e-3)


def test_a_group_that_names_more_ranks_than_run_is_an_error() -> None:
    kernel = through_hbm(lambda s, d, g: ncc.all_gather([s], [d], g, 0), 2 * ROWS)

    with pytest.raises(KernelError, match="rank 1 takes part, this run has 1"):
        evaluate(kernel, {"x": inputs(1)[0], "groups": [[0, 1]]}, TRN2)


def test_ranks_that_wait_for_each_other_are_shown() -> None:
    orders = [[(0, 1), (0, 2)], [(1, 2), (0, 1)], [(0, 2), (1, 2)]]

    @jit
    def kernel(x):
        dst = nl.ndarray((2 * ROWS, COLUMNS), dtype=x.dtype, buffer=nl.shared_hbm)
        for pair in orders[int(ncc.rank_id())]:
            ncc.all_gather([x], [dst], [pair], 0)
        return dst

    with pytest.raises(KernelError) as caught:
        run(kernel, inputs(3))
    told = caught.value.message.split("; ")
    assert [part.partition(" in ")[0] for part in told] == [
        "deadlock: rank 0 waits for rank 1",
        "rank 1 waits for rank 2",
        "rank 2 waits for rank 0",
    ]
    assert "all_gather of ranks (1, 2) (test_collectives.py:" in told[1]


def test_a_rank_that_never_comes_is_named() -> None:
    @jit
    def kernel(x):
        dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        if int(ncc.rank_id()) == 0:
            ncc.all_reduce([x], [dst], [[0, 1]], nl.add)
        return x

    with pytest.raises(KernelError, match=r"rank 0 waits for rank 1 .*rank 1 has ended") as caught:
        run(kernel, inputs(2))
    assert "test_collectives.py:" in str(caught.value.message)


def test_these_instructions_are_between_ranks() -> None:
    """What each computes is tested above through its call."""
    assert {row.name for row in ISA.values() if row.across} == {
        "all_gather",
        "all_gather_v",
        "all_reduce",
        "all_to_all",
        "all_to_all_v",
        "collective_permute",
        "collective_permute_implicit",
        "collective_permute_implicit_reduce",
        "reduce_scatter",
    }


@pytest.mark.parametrize("differs", ["op", "call"])
def test_ranks_that_ask_for_different_things_are_an_error(differs: str) -> None:
    @jit
    def kernel(x):
        dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        if int(ncc.rank_id()) == 0:
            ncc.all_reduce([x], [dst], [[0, 1]], nl.add)
        elif differs == "op":
            ncc.all_reduce([x], [dst], [[0, 1]], nl.maximum)
        else:
            ncc.all_to_all([x], [dst], [[0, 1]], 0)
        return dst

    with pytest.raises(KernelError, match="deadlock: rank 0 waits for rank 1 in all_reduce"):
        run(kernel, inputs(2))


def test_ranks_that_bring_different_shapes_are_an_error() -> None:
    @jit
    def kernel(x):
        dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        ncc.all_reduce([x], [dst], [[0, 1]], nl.add)
        return dst

    with pytest.raises(KernelError, match=r"dst is \(4, 6\) float32 on rank 1, \(8, 6\)"):
        run(kernel, [*inputs(1), *inputs(1, 4)])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, d: ncc.all_gather([x], [d], [[0, 1], [1]], 0), "a rank is in .* twice"),
        (lambda x, d: ncc.all_gather([x], [d], [[1]], 0), "rank 0 is in no group"),
        (lambda x, d: ncc.all_gather([x], [d], [[0]], 1), "collective_dim is 1, must be 0"),
        (lambda x, d: ncc.all_gather([x], [d], [[0, 1]], 0), r"2 ranks need \[16, 6\]"),
        (lambda x, d: ncc.all_reduce([x], [d], [[0]], nl.multiply), "op is multiply, must be"),
        (lambda x, d: ncc.all_reduce([x, x], [d], [[0]], nl.add), "2 srcs and 1 dsts"),
        (lambda x, d: ncc.all_reduce(x, d, [[0]], nl.add), "needs a list of tensors"),
        (lambda x, d: ncc.all_reduce([x], [d], [0], nl.add), r"needs ReplicaGroup"),
        (lambda x, d: ncc.all_reduce([x], [d], [[0]], nl.add, priority=1), "trn2 has none"),
        (
            lambda x, d: ncc.collective_permute_implicit([[x]], [[d]], [[0]], [1]),
            "channel_ids is",
        ),
        (lambda x, d: ncc.collective_permute([x], [d], [(0, 1), (2, 1)]), "every target once"),
    ],
)
def test_wrong_arguments_are_named(call, message: str) -> None:
    @jit
    def kernel(x):
        dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        call(x, dst)
        return dst

    with pytest.raises(KernelError, match=message):
        trace(kernel, {"x": TensorSpec((ROWS, COLUMNS), "float32")}, TRN2)


def moved(x):
    """A view whose place an index tile says."""
    index = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(index, 1)
    return x.ap([[COLUMNS, 4], [1, COLUMNS]], scalar_offset=index, indirect_dim=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, d: ncc.all_reduce([moved(x)], [d], [[0]], nl.add), r"srcs\[0\] is a view of x"),
        (lambda x, d: ncc.collective_permute([x], [moved(d)], [(0, 0)]), r"dsts\[0\] is a view of"),
        (lambda x, d: nisa.core_barrier(moved(d), (0,)), "core_barrier: data is a view of"),
    ],
)
def test_views_with_an_index_are_refused(call, message: str) -> None:
    """The others read the operand as it stands, and would take the wrong elements."""

    @jit
    def kernel(x):
        dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        call(x, dst)
        return dst

    with pytest.raises(KernelError, match=message):
        evaluate(kernel, {"x": inputs(1)[0]}, TRN2)


def test_the_older_form_has_no_ranks() -> None:
    from accel.nki.legacy.jit import jit as older

    with pytest.raises(UserError, match="ranks are not supported"):
        evaluate_ranks(older(lambda x: x), [{"x": inputs(1)[0]}], TRN2)
