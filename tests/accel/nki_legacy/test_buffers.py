"""Declared tensors: block axes, allocators, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from accel.errors import KernelError
from accel.nki.legacy import compiler
from accel.nki.legacy import isa as nisa
from accel.nki.legacy import language as nl
from accel.program import Memory
from tests.accel.nki_legacy.running import counts, numbers, result, run, traced

X = numbers(512, 64)


def blocked(x):
    """x in four blocks, of which each is read from the next one's position."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    blocks = nl.zeros((5, 2, nl.par_dim(128), 64), dtype=x.dtype)
    assert blocks.shape == (5, 2, 128, 64)
    for k in nl.affine_range(4):
        blocks[k, k % 2, :, :] = nl.load(x[128 * k : 128 * k + 128, :])
        blocks[k, k % 2, 0:128, 0:8] += 1.0
    for k in nl.affine_range(4):
        row = blocks[k]
        nl.store(out[nl.ds(128 * k, 128), :], row[k % 2])
    return out


def test_blocks_are_tiles_of_their_own_from_their_first_use_on():
    evaluation = run(blocked, X)

    expected = X.copy()
    expected[:, :8] += 1
    on_chip = [s for s in evaluation.program.storages if s.memory is Memory.SBUF]
    assert np.array_equal(evaluation.result, expected)
    assert [storage.shape for storage in on_chip] == [(128, 64)] * 4
    assert counts(evaluation.program)["memset"] == 4


def placed(buffer, shape, blocks):
    """The (address, start partition) of each block of a tensor in `buffer`."""

    def kernel(x):
        tensor = nl.ndarray(shape, dtype=nl.float32, buffer=buffer)
        for block in blocks:
            tensor[block] = nisa.memset(shape[-2:], 1.0, nl.float32)
        return nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)

    storages = traced(kernel, X).storages
    return [(s.address, s.start_partition) for s in storages if s.memory is not Memory.HBM]


def test_modulo_allocation_rotates_through_its_buffers():
    sbuf = compiler.sbuf.mod_alloc(base_addr=1024, num_free_tiles=(2,))
    psum = compiler.psum.mod_alloc(base_bank=1, num_bank_tiles=(1, 3))
    shape, wide = (4, nl.par_dim(128), 64), (2, 4, nl.par_dim(128), 64)

    assert placed(sbuf, shape, range(4)) == [(1024, 0), (1280, 0), (1024, 0), (1280, 0)]
    assert placed(psum, wide, [(0, 0), (0, 2), (1, 3)]) == [(2048, 0), (6144, 0), (2048, 0)]


def test_a_function_may_allocate_each_block():
    sbuf = compiler.sbuf.alloc(lambda idx, pdim_size, fdim_size: (32 * idx[0], 64 + fdim_size))
    psum = compiler.psum.alloc(lambda idx, pdim_size, fdim_size: (idx[0] + 2, 0, 0))

    assert placed(sbuf, (2, nl.par_dim(32), 16), range(2)) == [(128, 0), (128, 32)]
    assert placed(psum, (2, nl.par_dim(32), 16), range(2)) == [(4096, 0), (6144, 0)]


def test_one_dimension_on_chip_is_the_partition_axis():
    def kernel(x):
        out = nl.ndarray((128,), dtype=x.dtype, buffer=nl.shared_hbm)
        column = nl.ndarray((128,), dtype=x.dtype)
        column[...] = nl.load(x[0:128, 5])
        nl.store(out, column)
        return out

    assert np.array_equal(result(kernel, X), X[:128, 5])


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: nl.ndarray((256, 4), dtype=nl.float32), "256 partitions, trn2 has 128"),
        (lambda: nl.ndarray((128, 0), dtype=nl.float32), "no elements"),
        (lambda: nl.ndarray((128, 4), dtype="float12"), "unknown dtype 'float12'"),
        (lambda: nl.ndarray((128, 4), dtype=nl.float32, buffer="dram"), "unknown buffer 'dram'"),
        (lambda: nl.ndarray((128, 70_000), dtype=nl.float32), "sbuf of trn2 has 229376"),
        (
            lambda: nl.ndarray((nl.par_dim(4), nl.par_dim(4)), dtype=nl.float32),
            "2 par_dim axes",
        ),
        (lambda: blocks()[7, :, :], "block index"),
        (lambda: blocks()[nl.arange(2)[:, None], :, :], "needs an int"),
        (lambda: blocks().__setitem__(..., 1.0), "needs an int"),
        (lambda: nl.zeros((4, 4), dtype=nl.float32, buffer=nl.hbm), "filled tensor in hbm"),
    ],
)
def test_a_declaration_or_block_that_cannot_be_is_refused(make, problem):
    def kernel(x):
        make()

    with pytest.raises(KernelError, match=problem):
        traced(kernel, X)


def blocks():
    return nl.ndarray((2, nl.par_dim(128), 4), dtype=nl.float32)


def test_assigning_to_hbm_names_the_way_to_store():
    def kernel(x):
        x[0:128, :] = nl.load(x[128:256, :])

    with pytest.raises(KernelError, match="assignment to x in hbm") as caught:
        traced(kernel, X)
    assert caught.value.hint == "use nl.store"
