"""Rows that draw random numbers, and set or read the state that they are drawn from.

Every engine has states of its own, one set a lane, that last from one instruction to the next;
`random.py` says what they are. A kernel that sets no seed draws the same numbers every time too.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from accel.chip import Chip
from accel.dtypes import FLOATS
from accel.isa import costs, rules
from accel.isa.random import GENERATORS, WORDS, Words, drawn, seeded, unit
from accel.isa.row import SBUF, Array, Row, on, reads, writes
from accel.isa.values import copy, flat, load, number, store
from accel.program import Engine, Form

_INTEGERS = frozenset({"int8", "int16", "int32", "uint8", "uint16", "uint32"})
_WORDS = frozenset({"int32", "uint32", "float32"})


def _generators(form: Form) -> int:
    return 1 if form.engine is Engine.GPSIMD else GENERATORS


def _drawn(form: Form, arrays: Mapping[str, Array], count: int, lanes: int) -> Words:
    states = arrays["random"].view(np.uint32)
    return drawn(states[:lanes], _generators(form), count)


def _rng(form: Form, arrays: Mapping[str, Array]) -> None:
    target = arrays["dst"]
    words = _drawn(form, arrays, target[0].size, len(target))
    target[...] = words.astype(target.dtype).reshape(target.shape)


def _rand2(form: Form, arrays: Mapping[str, Array]) -> None:
    target = arrays["dst"]
    low, high = (
        load(arrays[name]) if name in arrays else np.float32(number(form, name))
        for name in ("min", "max")
    )
    values = unit(_drawn(form, arrays, target[0].size, len(target)))
    store(target, low + values * (high - low))


def _dropout(form: Form, arrays: Mapping[str, Array]) -> None:
    data, target = flat(arrays["data"]), arrays["dst"]
    given = arrays.get("prob")
    probability = np.float32(number(form, "prob")) if given is None else load(given)
    values = unit(_drawn(form, arrays, data.shape[1], len(data)))
    kept = np.where(values < probability, np.zeros(1, data.dtype), data)
    copy(target, kept)


def _set_rng_seed(form: Form, arrays: Mapping[str, Array]) -> None:
    states = arrays["random"]
    seed = int(np.ascontiguousarray(arrays["src_seeds"]).view(np.uint32).reshape(-1)[0])
    states[...] = seeded(seed, len(states))


def _rand_set_state(form: Form, arrays: Mapping[str, Array]) -> None:
    seeds = flat(arrays["src_seeds"])
    count = _generators(form)
    arrays["random"][: len(seeds), :count] = seeds.reshape(len(seeds), count, WORDS)


def _rand_get_state(form: Form, arrays: Mapping[str, Array]) -> None:
    target = arrays["dst"]
    states = arrays["random"][: len(target), : _generators(form)]
    target[...] = states.reshape(target.shape)


def _state_size(role: str) -> rules.Rule:
    def rule(form: Form, chip: Chip) -> str | None:
        access = form.access(role)
        wanted = WORDS * _generators(form)
        if access is None or access.layout.elements == wanted:
            return None
        engine = "vector" if wanted > WORDS else "gpsimd"
        return (
            f"{role} has {access.layout.elements} elements a partition, "
            f"the state of {engine} has {wanted}"
        )

    return rule


def _one_seed(form: Form, chip: Chip) -> str | None:
    seed = form.access("src_seeds")
    if seed is None or (seed.layout.partitions, seed.layout.elements) == (1, 1):
        return None
    return f"src_seeds is {seed.layout.partitions}×{seed.layout.elements}, must be 1×1"


def _probability_dtype(form: Form, chip: Chip) -> str | None:
    data, given = form.access("data"), form.access("prob")
    if data is None or given is None or given.layout.dtype == "float32":
        return None
    if data.layout.dtype in FLOATS and given.layout.dtype in FLOATS:
        return None
    return f"prob is {given.layout.dtype}, must be float32 for data of {data.layout.dtype}"


def _in_order(form: Form, chip: Chip) -> str | None:
    if form.access("min") is not None or form.access("max") is not None:
        return None
    low, high = number(form, "min"), number(form, "max")
    return None if low < high else f"min is {low}, must be below max, which is {high}"


def _words_a_cycle(form: Form, chip: Chip) -> int:
    """NeuronCore-v4 makes four numbers a lane and cycle."""
    return -(-costs.elements(form) // (GENERATORS if chip.generation >= 4 else 1))


_STATE_ENGINES = {
    3: (Engine.GPSIMD,),
    4: (Engine.GPSIMD, Engine.VECTOR),
}
_ASSUMED_STATE = "assumed: one element a cycle, as a copy; nothing is published"

ROWS = (
    Row(
        name="rng",
        summary="dst = random bits, as many of 32 as its integer dtype takes",
        engines=on(Engine.VECTOR) | on(Engine.VECTOR, Engine.GPSIMD, since=3),
        roles=(writes("dst"),),
        rules=(rules.dtype_among("dst", _INTEGERS),),
        meaning=_rng,
        cost=costs.engine_cost(_words_a_cycle),
        source="assumed: one element a cycle; four on NeuronCore-v4 (trainium3_arch.rst)",
        generator=True,
    ),
    Row(
        name="rand2",
        summary="dst = random numbers, uniform from min to max",
        engines=on(Engine.VECTOR, since=4),
        roles=(writes("dst"), reads("min", optional=True), reads("max", optional=True)),
        attributes=("min", "max"),
        rules=(
            rules.number_or_operand("min"),
            rules.number_or_operand("max"),
            rules.per_partition("min", "dst"),
            rules.per_partition("max", "dst"),
            _in_order,
        ),
        meaning=_rand2,
        cost=costs.engine_cost(_words_a_cycle),
        source="trainium3_arch.rst: four random numbers a lane and cycle",
        generator=True,
    ),
    Row(
        name="dropout",
        summary="dst = data, where a random number is below prob 0",
        engines=on(Engine.VECTOR),
        roles=(writes("dst"), reads("data"), reads("prob", optional=True)),
        attributes=("prob",),
        rules=(
            rules.same_size("data", "dst"),
            rules.same_dtype("data", "dst"),
            rules.per_partition("prob", "data"),
            rules.number_or_operand("prob"),
            _probability_dtype,
        ),
        meaning=_dropout,
        cost=costs.engine_cost(costs.per_element()),
        source="v2.26 cost table: max(64, N)",
        generator=True,
    ),
    Row(
        name="set_rng_seed",
        summary="the vector engine's random states follow from one 32-bit seed",
        engines=on(Engine.VECTOR),
        roles=(reads("src_seeds"),),
        rules=(rules.dtype_among("src_seeds", _WORDS), _one_seed),
        meaning=_set_rng_seed,
        cost=costs.engine_cost(costs.per_element()),
        source=_ASSUMED_STATE,
        generator=True,
    ),
    Row(
        name="rand_set_state",
        summary="the engine's random states = src_seeds, six words a generator and lane",
        engines=_STATE_ENGINES,
        roles=(reads("src_seeds", SBUF),),
        rules=(rules.dtype_among("src_seeds", frozenset({"uint32"})), _state_size("src_seeds")),
        meaning=_rand_set_state,
        cost=costs.engine_cost(costs.per_element()),
        source=_ASSUMED_STATE,
        generator=True,
    ),
    Row(
        name="rand_get_state",
        summary="dst = the engine's random states, six words a generator and lane",
        engines=_STATE_ENGINES,
        roles=(writes("dst"),),
        rules=(rules.dtype_among("dst", frozenset({"uint32"})), _state_size("dst")),
        meaning=_rand_get_state,
        cost=costs.engine_cost(costs.per_element()),
        source=_ASSUMED_STATE,
        generator=True,
    ),
)
