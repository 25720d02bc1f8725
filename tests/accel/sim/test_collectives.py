"""What a group of ranks takes: hops and bytes of the algorithm that fits, inside and between
instances.
"""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from accel.chip import CHIPS
from accel.errors import KernelError
from accel.instances import INSTANCES, instance_of
from accel.sim.collectives import algorithm_of, collective_ps
from accel.validation.collectives import LARGE_BYTES, MEASURED, form_of

TRN1, TRN2 = CHIPS["trn1"], CHIPS["trn2"]
MIB = 2**20


def us(op, ranks, size, chip=TRN2, lnc=1, **changes):
    return collective_ps(form_of(op, ranks, size, **changes), chip, lnc) / 1e6


@pytest.mark.parametrize(
    ("size", "ranks", "name", "steps", "channels"),
    [
        (MIB - 1, 64, "mesh", 2, 2),
        (MIB, 64, "doubling", 6, 6),
        (56 * MIB, 64, "doubling", 6, 6),
        (56 * MIB + 1, 64, "kangaring", 32, 6),
        (MIB, 48, "kangaring", 24, 6),
        (MIB, 3, "ring", 2, 6),
        (MIB, 2, "doubling", 1, 6),
    ],
)
def test_the_algorithm_follows_bytes_and_ranks(size, ranks, name, steps, channels):
    how = algorithm_of(size, ranks, TRN2)

    assert (how.name, how.steps, how.channels) == (name, steps, channels)


def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather():
    fixed = TRN2.collective_fixed_ps / 1e6
    both = us("reduce_scatter", 8, 4 * MIB) + us("all_gather", 8, 4 * MIB) - 2 * fixed

    assert us("all_reduce", 8, 4 * MIB) == pytest.approx(fixed + both)


def test_a_permute_of_the_whole_instance_has_four_channels():
    whole = instance_of(TRN2).ranks(TRN2)
    hop = (TRN2.collective_fixed_ps + TRN2.collective_hop_ps) / 1e6

    assert us("collective_permute", 8, MIB) == pytest.approx(hop + MIB / 34_000, abs=1e-4)
    assert us("collective_permute", whole, MIB) == pytest.approx(hop + MIB / 68_000, abs=1e-4)


def test_ranks_of_two_instances_exchange_what_is_left_over_the_network():
    local = INSTANCES["trn1.32xlarge"].ranks(TRN1)
    assert local == 32

    one, two = us("all_gather", 32, 64 * MIB, TRN1), us("all_gather", 64, 64 * MIB, TRN1)

    network = INSTANCES["trn1.32xlarge"].network_bytes_per_us(TRN1)
    assert network == 800 * 125 // 32
    assert two == pytest.approx(one + 15 + 64 * MIB / 2 / 32 / network, rel=1e-6)


def test_two_cores_a_rank_are_half_as_many_ranks_of_twice_the_network():
    instance = instance_of(TRN2)

    assert (instance.ranks(TRN2), instance.ranks(TRN2, 2)) == (128, 64)
    assert instance.network_bytes_per_us(TRN2, 2) == 2 * instance.network_bytes_per_us(TRN2)


def test_a_machine_without_a_network_holds_no_more_ranks_than_it_has():
    chip = CHIPS["inf2"]
    whole = instance_of(chip).ranks(chip)

    assert us("all_reduce", whole, MIB, chip) > 0
    with pytest.raises(KernelError, match=r"does not fit on inf2.48xlarge"):
        us("all_reduce", 2 * whole, MIB, chip)


def test_slow_links_between_chips_hold_a_collective_back():
    chip = CHIPS["inf1"]
    inside, across = (us("all_gather", ranks, 8 * MIB, chip) for ranks in (4, 8))

    assert across > 1.5 * inside
    assert across == pytest.approx(8 * MIB * 7 / 8 / chip.link_bytes_per_us, rel=0.05)


def test_a_collective_that_goes_out_with_others_pays_for_its_bytes_only():
    alone = us("all_reduce", 8, 4 * MIB)
    with_others = us("all_reduce", 8, 4 * MIB, coalesced=True)

    assert alone - with_others == pytest.approx(
        (TRN2.collective_fixed_ps + 2 * 3 * TRN2.collective_hop_ps) / 1e6
    )


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "collective_permute"])
def test_more_bytes_of_one_algorithm_never_take_less(op):
    sizes = [2**e for e in range(10)]
    times = [us(op, 8, size) for size in sizes]

    assert all(a <= b for a, b in itertools.pairwise(times))


def test_published_times_above_64_kib():
    """The two that are not close are named here, so that a change of them is seen."""
    large = [row for row in MEASURED if row.size > LARGE_BYTES]
    apart = {(row.op, row.ranks, row.size) for row in large if row.error > 0.3}

    assert len(large) == 12
    assert apart == {("all_reduce", 16, 2 * MIB), ("all_reduce", 64, MIB)}


def test_numbers_of_a_chip_from_a_file_run_on_the_machine_of_its_like():
    faster = dataclasses.replace(TRN2, name="faster", collective_channels=12)

    assert instance_of(faster).name == "trn2.48xlarge"
    assert us("all_gather", 8, 8 * MIB, faster) < us("all_gather", 8, 8 * MIB)
