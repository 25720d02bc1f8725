"""Rows that reduce or scan: over free axes, over partitions, running statistics.

Reductions compute in float32; the accumulator registers of the vector engine keep their values
between instructions and follow `reduce_cmd`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from accel.chip import Chip
from accel.isa import costs, rules
from accel.isa.elementwise import applied, named, scalar
from accel.isa.operators import Numbers
from accel.isa.row import SBUF, Array, Row, on, reads, writes
from accel.isa.values import Float32, accumulators, as_bits, load, number, store
from accel.program import Engine, Form

_STATISTICS = 6
_STATISTICS_MAX = 512
_ACCUMULATING = frozenset({"add", "multiply", "maximum", "minimum"})
_SCANNING = _ACCUMULATING | {"subtract"}


def _tensor_reduce(form: Form, arrays: Mapping[str, Array]) -> None:
    operator = named(form, "op")
    data, axis = arrays["data"], form.attribute("axis", ())
    assert operator.reduce is not None
    assert isinstance(axis, tuple)
    values = as_bits(data) if operator.kind == "bits" else load(data)
    result = operator.reduce(values.reshape(data.shape), axis)
    store(arrays["dst"], -result if form.attribute("negate") else result)


def _reduced_axes(form: Form, chip: Chip) -> str | None:
    axis, data, target = form.attribute("axis", ()), form.access("data"), form.access("dst")
    if data is None or target is None:
        return None
    shape = data.layout.shape
    if not isinstance(axis, tuple) or not axis:
        return f"axis is {axis!r}, must be a tuple of free axes"
    if tuple(sorted(axis)) != tuple(range(len(shape) - len(axis), len(shape))) or 0 in axis:
        return f"axis is {axis}, must be the last of the {len(shape)} axes and not 0"
    kept = data.layout.elements
    for position in axis:
        kept //= shape[position]
    if (target.layout.partitions, target.layout.elements) == (data.layout.partitions, kept):
        return None
    got = (target.layout.partitions, target.layout.elements)
    return f"dst is {got[0]}×{got[1]}, must be {data.layout.partitions}×{kept}"


def _negate_arithmetic(form: Form, chip: Chip) -> str | None:
    if form.attribute("negate") and str(form.attribute("op", "")).startswith("bitwise"):
        return f"negate with {form.attribute('op')}, needs an arithmetic operator"
    return None


def _tensor_scalar_reduce(form: Form, arrays: Mapping[str, Array]) -> None:
    first, reducer = named(form, "op0"), named(form, "reduce_op")
    operand = scalar(form, arrays, "operand0", first)
    values = applied(first, load(arrays["data"]), operand, form.attribute("reverse0"))
    registers = _started(form, arrays, len(values), reducer.identity)
    assert reducer.reduce is not None
    registers[...] = reducer.apply(registers, reducer.reduce(values, (1,)))
    # Last: `values` may be a view of data, and dst may overlap data.
    store(arrays["dst"], values)
    if "reduce_res" in arrays:
        store(
            arrays["reduce_res"], -registers if form.attribute("reduce_res_negate") else registers
        )


def _started(form: Form, arrays: Mapping[str, Array], lanes: int, identity: float) -> Float32:
    """The accumulators, reset or loaded as `reduce_cmd` says."""
    registers = accumulators(arrays, lanes)
    command = form.attribute("reduce_cmd", "reset_reduce")
    if command == "reset_reduce":
        registers[...] = np.float32(identity)
    elif command == "load_reduce":
        start = arrays.get("reduce_init")
        given = np.float32(number(form, "reduce_init"))
        registers[...] = given if start is None else load(start)[:, 0]
    return registers


def _tensor_scalar_cumulative(form: Form, arrays: Mapping[str, Array]) -> None:
    first, running = named(form, "op0"), named(form, "op1")
    operand = scalar(form, arrays, "operand0", first)
    values = applied(first, load(arrays["src"]), operand, form.attribute("reverse0"))
    registers = _started(form, arrays, len(values), running.identity)
    state: Numbers = registers.copy()
    columns = np.ascontiguousarray(values.T)
    result = np.empty(columns.shape, np.float32)
    for column, out in zip(columns, result, strict=True):
        state = running.apply(column, state)
        out[...] = state
    registers[...] = state
    store(arrays["dst"], result.T)


def _tensor_tensor_scan(form: Form, arrays: Mapping[str, Array]) -> None:
    first, second = load(arrays["data0"]), load(arrays["data1"])
    start = scalar(form, arrays, "initial", named(form, "op0"))
    state = np.broadcast_to(np.asarray(start, np.float32).reshape(-1), len(first))
    store(arrays["dst"], _scanned(form, first, second, state))


def _scanned(form: Form, first: Float32, second: Float32, state: Numbers) -> Numbers:
    """Columns in sequence, so that rounding is the machine's: each step is float32."""
    op0, op1 = named(form, "op0"), named(form, "op1")
    reverse0, reverse1 = form.attribute("reverse0"), form.attribute("reverse1")
    lefts, rights = np.ascontiguousarray(first.T), np.ascontiguousarray(second.T)
    result = np.empty(lefts.shape, np.float32)
    for left, right, out in zip(lefts, rights, result, strict=True):
        state = applied(op1, applied(op0, left, state, reverse0), right, reverse1)
        out[...] = state
    return result.T


def _tensor_partition_reduce(form: Form, arrays: Mapping[str, Array]) -> None:
    name = str(form.attribute("op"))
    if name == "average":
        store(arrays["dst"], load(arrays["data"]).mean(axis=0))
        return
    operator = named(form, "op")
    assert operator.reduce is not None
    data = arrays["data"]
    values = as_bits(data) if operator.kind == "bits" else load(data)
    store(arrays["dst"], operator.reduce(values, (0,)))


def _one_row(form: Form, chip: Chip) -> str | None:
    target, data = form.access("dst"), form.access("data")
    if target is None or data is None:
        return None
    got, wanted = (target.layout.partitions, target.layout.elements), (1, data.layout.elements)
    return None if got == wanted else f"dst is {got[0]}×{got[1]}, must be 1×{wanted[1]}"


def _bn_stats(form: Form, arrays: Mapping[str, Array]) -> None:
    """(count, mean, variance × count) of the even elements, then of the odd ones."""
    values = load(arrays["data"])
    columns = [column for half in (values[:, 0::2], values[:, 1::2]) for column in _moments(half)]
    store(arrays["dst"], np.stack(columns, axis=1))


def _moments(values: Float32) -> tuple[Float32, Float32, Float32]:
    lanes, count = values.shape
    mean = values.mean(axis=1) if count else np.zeros(lanes, np.float32)
    spread = np.square(values - mean[:, None]).sum(axis=1)
    return np.full(lanes, count, np.float32), mean.astype(np.float32), spread.astype(np.float32)


def _bn_aggr(form: Form, arrays: Mapping[str, Array]) -> None:
    """Chan's pairwise update over all tuples at once."""
    values = load(arrays["data"])
    tuples = values.reshape(len(values), -1, 3)
    count, mean, spread = tuples[:, :, 0], tuples[:, :, 1], tuples[:, :, 2]
    whole = count.sum(axis=1)
    average = (count * mean).sum(axis=1) / whole
    between = (count * np.square(mean - average[:, None])).sum(axis=1)
    store(arrays["dst"], np.stack([average, (spread.sum(axis=1) + between) / whole], axis=1))


def _triples(form: Form, chip: Chip) -> str | None:
    data = form.access("data")
    if data is None or data.layout.elements % 3 == 0:
        return None
    return f"data has {data.layout.elements} elements a partition, must be a multiple of 3"


ROWS = (
    Row(
        name="tensor_reduce",
        fills=True,
        summary="dst = op over the last free axes of data, negated on request",
        engines=on(Engine.VECTOR),
        roles=(writes("dst"), reads("data")),
        attributes=("op", "axis", "negate", "keepdims"),
        rules=(rules.operator("op", reduction=True), _reduced_axes, _negate_arithmetic),
        meaning=_tensor_reduce,
        cost=costs.engine_cost(costs.reduction),
        source="v2.26 cost table: N/2 for bfloat16 sums and maxima, else N",
        lanes=("dst", "data"),
    ),
    Row(
        name="tensor_scalar_reduce",
        summary="dst = data op0 operand0, reduce_res = reduce_op over its free axes",
        engines=on(Engine.VECTOR),
        roles=(
            writes("dst"),
            writes("reduce_res", optional=True),
            reads("data"),
            reads("operand0", optional=True),
            reads("reduce_init", optional=True),
        ),
        attributes=(
            "op0",
            "operand0",
            "reverse0",
            "reduce_op",
            "reduce_cmd",
            "reduce_init",
            "reduce_res_negate",
        ),
        rules=(
            rules.operator("op0"),
            rules.among("reduce_op", _ACCUMULATING),
            rules.same_size("data", "dst"),
            rules.per_partition("operand0", "data"),
            rules.per_partition("reduce_res", "data"),
            rules.number_or_operand("operand0", unless=rules.is_unary("op0")),
            rules.among(
                "reduce_cmd",
                frozenset({"reset_reduce", "reduce", "load_reduce"}),
                "reset_reduce",
            ),
        ),
        meaning=_tensor_scalar_reduce,
        cost=costs.engine_cost(costs.per_element(), reads_register=True),
        source="v2.26 cost table: max(64, N) + 64",
        registers=Engine.VECTOR,
        lanes=("dst", "data"),
    ),
    Row(
        name="tensor_scalar_cumulative",
        summary="dst[:, i] = (src[:, i] op0 operand0) op1 dst[:, i − 1]",
        engines=on(Engine.VECTOR),
        roles=(
            writes("dst"),
            reads("src"),
            reads("operand0", optional=True),
            reads("reduce_init", optional=True),
        ),
        attributes=("op0", "operand0", "reverse0", "op1", "reduce_cmd", "reduce_init"),
        rules=(
            rules.operator("op0"),
            rules.among("op1", _SCANNING),
            rules.same_size("src", "dst"),
            rules.per_partition("operand0", "src"),
            rules.number_or_operand("operand0", unless=rules.is_unary("op0")),
        ),
        meaning=_tensor_scalar_cumulative,
        cost=costs.engine_cost(costs.per_element(2)),
        source="none published; as tensor_tensor_scan",
        registers=Engine.VECTOR,
        lanes=("dst", "src"),
    ),
    Row(
        name="tensor_tensor_scan",
        fills=True,
        summary="dst[:, i] = (data0[:, i] op0 dst[:, i − 1]) op1 data1[:, i], from initial",
        engines=on(Engine.VECTOR),
        roles=(writes("dst"), reads("data0"), reads("data1"), reads("initial", optional=True)),
        attributes=("op0", "op1", "initial", "reverse0", "reverse1"),
        rules=(
            rules.operator("op0"),
            rules.operator("op1"),
            rules.same_size("data0", "data1", "dst"),
            rules.per_partition("initial", "data0"),
            rules.number_or_operand("initial"),
            rules.not_both_psum("data0", "data1"),
        ),
        meaning=_tensor_tensor_scan,
        cost=costs.engine_cost(costs.per_element(2)),
        source="v2.26 cost table: max(64, 2N)",
    ),
    Row(
        name="tensor_partition_reduce",
        summary="dst[0] = op over the partitions of data",
        engines=on(Engine.GPSIMD),
        roles=(writes("dst", SBUF), reads("data", SBUF)),
        attributes=("op",),
        rules=(
            rules.among(
                "op", frozenset({"add", "average", "maximum", "bitwise_or", "bitwise_and"})
            ),
            _one_row,
        ),
        meaning=_tensor_partition_reduce,
        cost=costs.engine_cost(costs.per_element()),
        source="none published; GpSimd start-up 150 + N",
    ),
    Row(
        name="bn_stats",
        fills=True,
        summary="count, mean, variance × count of the even and of the odd elements",
        engines=on(Engine.VECTOR),
        roles=(writes("dst"), reads("data")),
        rules=(
            rules.elements_between("data", 1, _STATISTICS_MAX),
            rules.per_partition("dst", "data", _STATISTICS),
        ),
        meaning=_bn_stats,
        cost=costs.engine_cost(costs.per_element()),
        source="v2.26 cost table: max(64, N)",
    ),
    Row(
        name="bn_aggr",
        fills=True,
        summary="mean and variance of the union of several bn_stats results",
        engines=on(Engine.VECTOR),
        roles=(writes("dst"), reads("data")),
        rules=(_triples, rules.per_partition("dst", "data", 2)),
        meaning=_bn_aggr,
        cost=costs.engine_cost(costs.aggregation),
        source="v2.26 cost table: max(64, 13 N ÷ 3)",
    ),
)
