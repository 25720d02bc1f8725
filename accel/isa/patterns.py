"""Rows whose result depends on an element's position: iota, selections by an affine value or range.

`pattern` is flat, (step, count, …) outermost first; an element's value is
offset + partition × channel_multiplier + Σ step × index.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from accel.chip import Chip
from accel.isa import costs, rules
from accel.isa.copies import accumulate_maximum
from accel.isa.elementwise import named
from accel.isa.row import SBUF, Array, Row, on, reads, writes
from accel.isa.values import Int64, flat, integer_bounds, load, number, store, whole
from accel.program import Engine, Form

_FLOAT32_MIN = float(np.finfo(np.float32).min)
_BOUND_TYPES = frozenset({"float32", "tfloat32"})


def _affine(form: Form, partitions: int) -> Int64:
    """The affine values as [partitions, elements], in wrapping 32-bit arithmetic."""
    pattern = form.attribute("pattern", ())
    assert isinstance(pattern, tuple)
    values = np.zeros(1, np.int64)
    for step, count in zip(pattern[::2], pattern[1::2], strict=True):
        values = (values[:, None] + step * np.arange(count)).reshape(-1)
    lanes = np.arange(partitions)[:, None] * whole(form, "channel_multiplier")
    return (values + lanes + whole(form, "offset")).astype(np.int32).astype(np.int64)


def _iota(form: Form, arrays: Mapping[str, Array]) -> None:
    target = arrays["dst"]
    values = _affine(form, len(target))
    if target.dtype.kind in "iu" and target.dtype.itemsize < 4:
        values = values.clip(*integer_bounds(target.dtype))
    store(target, values)


def _affine_select(form: Form, arrays: Mapping[str, Array]) -> None:
    source = arrays["on_true"]
    affine = _affine(form, len(source))
    chosen = named(form, "cmp").apply(affine, np.zeros(1, np.int64)) != 0
    other = np.float32(number(form, "on_false"))
    store(arrays["dst"], np.where(chosen, load(source), other))


def _range_select(form: Form, arrays: Mapping[str, Array]) -> None:
    source = load(arrays["on_true"])
    index = np.float32(number(form, "range_start")) + np.arange(source.shape[1], dtype=np.float32)
    inside = np.ones(source.shape, np.bool_)
    for comparison, bound in (("comp_op0", "bound0"), ("comp_op1", "bound1")):
        inside &= named(form, comparison).apply(index[None, :], load(arrays[bound])) != 0
    other = np.float32(number(form, "on_false", _FLOAT32_MIN))
    result = np.where(inside, source, other)
    store(arrays["dst"], result)
    accumulate_maximum(form, arrays, result)


def _sequence_bounds(form: Form, arrays: Mapping[str, Array]) -> None:
    """Start and end of the run each element belongs to; padding (0) gets (n, −1)."""
    ids = flat(arrays["segment_ids"])[0]
    n = len(ids)
    changes = np.flatnonzero(np.diff(ids)) + 1
    starts, ends = np.concatenate([[0], changes]), np.concatenate([changes, [n]])
    run = np.searchsorted(ends, np.arange(n), side="right")
    padding = ids == 0
    bounds = np.stack([np.where(padding, n, starts[run]), np.where(padding, -1, ends[run])])
    store(arrays["dst"], bounds.astype(np.int64))


def _two_bounds(form: Form, chip: Chip) -> str | None:
    ids, target = form.access("segment_ids"), form.access("dst")
    if ids is None or target is None:
        return None
    if ids.layout.partitions != 1:
        return f"segment_ids has {ids.layout.partitions} partitions, must have 1"
    got, wanted = (target.layout.partitions, target.layout.elements), (1, 2 * ids.layout.elements)
    return None if got == wanted else f"dst is {got[0]}×{got[1]}, must be 1×{wanted[1]}"


ROWS = (
    Row(
        name="iota",
        fills=True,
        summary="dst = affine value of each element's position, in 32-bit integers",
        engines=on(Engine.GPSIMD),
        roles=(writes("dst", SBUF),),
        attributes=("pattern", "offset", "channel_multiplier"),
        rules=(rules.pattern_covers("dst"),),
        meaning=_iota,
        cost=costs.engine_cost(costs.per_element()),
        source="v2.26 cost table: 150 + N",
    ),
    Row(
        name="affine_select",
        summary="dst = on_true where (affine value cmp 0), else on_false",
        engines=on(Engine.GPSIMD),
        roles=(writes("dst", SBUF), reads("on_true", SBUF)),
        attributes=("pattern", "offset", "channel_multiplier", "on_false", "cmp"),
        rules=(
            rules.pattern_covers("dst"),
            rules.same_size("dst", "on_true"),
            rules.comparison("cmp"),
        ),
        meaning=_affine_select,
        cost=costs.engine_cost(costs.per_element()),
        source="v2.26 cost table: 150 + N",
    ),
    Row(
        name="range_select",
        summary="dst = on_true where the free index compares true with both bounds; row maxima",
        engines=on(Engine.VECTOR, since=3),
        roles=(
            writes("dst"),
            writes("reduce_res", optional=True),
            reads("on_true"),
            reads("bound0"),
            reads("bound1"),
        ),
        attributes=(
            "comp_op0",
            "comp_op1",
            "range_start",
            "on_false",
            "reduce_op",
            "reduce_cmd",
        ),
        rules=(
            rules.same_size("dst", "on_true"),
            rules.per_partition("bound0", "on_true"),
            rules.per_partition("bound1", "on_true"),
            rules.per_partition("reduce_res", "on_true"),
            rules.dtype_among("bound0", _BOUND_TYPES),
            rules.dtype_among("bound1", _BOUND_TYPES),
            rules.comparison("comp_op0"),
            rules.comparison("comp_op1"),
            rules.among("reduce_op", frozenset({"maximum"}), "maximum"),
        ),
        meaning=_range_select,
        cost=costs.engine_cost(costs.per_element()),
        source="v2.26 cost table: max(64, N)",
        registers=Engine.VECTOR,
    ),
    Row(
        name="sequence_bounds",
        summary="start and end of the segment that each element belongs to",
        engines=on(Engine.GPSIMD),
        roles=(writes("dst", SBUF), reads("segment_ids", SBUF)),
        rules=(
            rules.dtype_among("segment_ids", frozenset({"float32", "int32"})),
            rules.dtype_among("dst", frozenset({"float32", "int32"})),
            _two_bounds,
        ),
        meaning=_sequence_bounds,
        cost=costs.engine_cost(costs.per_element()),
        source="none published; GpSimd start-up 150 + N",
    ),
)
