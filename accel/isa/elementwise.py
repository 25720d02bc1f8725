"""Rows that compute element by element: ALU operations, activation functions, reciprocal.

Everything is float32 inside, except bit operators (integers of the operands' dtype) and 32-bit
integer arithmetic on GpSimd, which is exact.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from accel.chip import Chip
from accel.isa import costs, rules
from accel.isa.functions import FUNCTIONS
from accel.isa.operators import OPERATORS, Numbers, Operator
from accel.isa.row import Array, Row, on, reads, writes
from accel.isa.values import (
    Float32,
    accumulators,
    as_bits,
    as_integers,
    compute,
    load,
    number,
    store,
    whole,
)
from accel.program import Engine, Form, Memory

_WORDS = frozenset({"int32", "uint32"})
_EXACT = frozenset({"add", "subtract", "multiply", "maximum", "minimum"})

# The engine's addition of a zero bias makes 0 of -0. These functions give the same for both, so it
# can be left out.
_SAME_AT_ZERO = frozenset({"abs", "exp", "log", "sigmoid", "softplus", "square"})

# ScalarE computes data × scale + bias, or one of the two (nki.isa tensor_scalar).
_SCALAR_PAIRS = frozenset(
    {("multiply", "add"), ("multiply", "bypass"), ("add", "bypass"), ("bypass", "bypass")}
)


def named(form: Form, name: str) -> Operator:
    """The ALU operator that an attribute names; `bypass` where it is absent."""
    return OPERATORS[str(form.attribute(name, "bypass"))]


def scalar(form: Form, arrays: Mapping[str, Array], name: str, operator: Operator) -> Numbers:
    """A number attribute or a per-partition operand, as the operator's second input."""
    if name in arrays:
        return _inputs(arrays[name], operator)
    if operator.kind == "bits":
        return np.full(1, whole(form, name), np.int64)
    return np.full(1, number(form, name), np.float32)


def applied(operator: Operator, left: Numbers, right: Numbers, reverse: object) -> Numbers:
    """`left op right`, or `right op left` where the instruction reverses the operands."""
    return operator.apply(*_ordered(operator, left, right, reverse))


def _ordered(
    operator: Operator, left: Numbers, right: Numbers, reverse: object
) -> tuple[Numbers, Numbers]:
    return (right, left) if reverse and not operator.unary else (left, right)


def _inputs(array: Array, operator: Operator) -> Numbers:
    return as_bits(array) if operator.kind == "bits" else load(array)


def _tensor_tensor(form: Form, arrays: Mapping[str, Array]) -> None:
    operator = named(form, "op")
    left, right = arrays["data1"], arrays["data2"]
    if _is_exact(form):
        store(arrays["dst"], operator.apply(as_integers(left), as_integers(right)))
        return
    compute(arrays["dst"], operator.apply, _inputs(left, operator), _inputs(right, operator))


def _is_exact(form: Form) -> bool:
    """32-bit integers go to GpSimd, whose arithmetic is exact, unless an operand is in PSUM."""
    return form.engine in {Engine.ANY, Engine.GPSIMD} and _all_words_in_sbuf(form)


def _all_words_in_sbuf(form: Form) -> bool:
    return form.attribute("op") in _EXACT and all(
        a.layout.dtype in _WORDS and a.layout.memory is Memory.SBUF for a in form.accesses
    )


def _tensor_tensor_suits(form: Form, engine: Engine) -> bool:
    if form.attribute("op") == "power" or _all_words_in_sbuf(form):
        return engine is Engine.GPSIMD
    return engine is Engine.VECTOR


def _power_engine(form: Form, chip: Chip) -> str | None:
    if form.attribute("op") != "power" or form.engine in {Engine.ANY, Engine.GPSIMD}:
        return None
    return f"op is 'power', which only gpsimd computes, not {form.engine}"


def _tensor_scalar(form: Form, arrays: Mapping[str, Array]) -> None:
    first, second = named(form, "op0"), named(form, "op1")
    values = _inputs(arrays["data"], second if first.name == "bypass" else first)
    steps = ((first, "operand0", "reverse0"), (second, "operand1", "reverse1"))
    *before, last = [step for step in steps if step[0].name != "bypass"] or steps[:1]
    for operator, name, reverse in before:
        right = scalar(form, arrays, name, operator)
        values = applied(operator, values, right, form.attribute(reverse))
    operator, name, reverse = last
    right = scalar(form, arrays, name, operator)
    inputs = _ordered(operator, values, right, form.attribute(reverse))
    compute(arrays["dst"], operator.apply, *inputs)


def _scalar_engine_pair(form: Form, chip: Chip) -> str | None:
    pair = (str(form.attribute("op0", "")), str(form.attribute("op1", "bypass")))
    if chip.generation == 3 and pair not in _SCALAR_PAIRS:
        return f"op0, op1 are {pair}, the scalar engine has multiply-add, multiply and add"
    return None


def _gpsimd_root(form: Form, chip: Chip) -> str | None:
    names = {str(form.attribute(name, "bypass")) for name in ("op0", "op1")}
    if names <= {"rsqrt", "bypass", "power"}:
        return None
    return f"operators are {', '.join(sorted(names))}, gpsimd computes only rsqrt here"


def _tensor_scalar_suits(form: Form, engine: Engine) -> bool:
    # The vector engine has everything but rsqrt, which GpSimd takes where it reaches the operands.
    psum = any(a.layout.memory is Memory.PSUM for a in form.accesses)
    wants_root = "rsqrt" in {form.attribute("op0"), form.attribute("op1")}
    if wants_root and not psum:
        return engine is Engine.GPSIMD
    return engine is Engine.VECTOR


def _scalar_tensor_tensor(form: Form, arrays: Mapping[str, Array]) -> None:
    first, second = named(form, "op0"), named(form, "op1")
    values = applied(
        first,
        load(arrays["data"]),
        scalar(form, arrays, "operand0", first),
        form.attribute("reverse0"),
    )
    inputs = _ordered(second, values, load(arrays["operand1"]), form.attribute("reverse1"))
    compute(arrays["dst"], second.apply, *inputs)


def _arithmetic_only(form: Form, chip: Chip) -> str | None:
    for name in ("op0", "op1"):
        found = OPERATORS.get(str(form.attribute(name, "bypass")))
        if found is not None and found.kind == "bits":
            return f"{name} is {found.name!r}, must be an arithmetic operator"
    return None


def _reciprocal(form: Form, arrays: Mapping[str, Array]) -> None:
    compute(arrays["dst"], np.reciprocal, load(arrays["data"]))


def _activation(form: Form, arrays: Mapping[str, Array]) -> None:
    _activate(form, arrays, str(form.attribute("reduce_cmd", "idle")))


def _activation_reduce(form: Form, arrays: Mapping[str, Array]) -> None:
    _activate(form, arrays, "reset_reduce")


def _activate(form: Form, arrays: Mapping[str, Array], command: str) -> None:
    function = FUNCTIONS[str(form.attribute("func"))]
    inputs = load(arrays["data"])
    if "scale" in arrays or number(form, "scale", 1.0) != 1.0:
        inputs = inputs * _affine(form, arrays, "scale", 1.0)
    if "bias" in arrays or number(form, "bias") != 0.0 or function.name not in _SAME_AT_ZERO:
        inputs = inputs + _affine(form, arrays, "bias", 0.0)
    values = load(compute(arrays["dst"], function.whole, inputs))
    _accumulate(form, arrays, values, command)


def _affine(form: Form, arrays: Mapping[str, Array], name: str, default: float) -> Float32:
    if name in arrays:
        return load(arrays[name])
    return np.full(1, number(form, name, default), np.float32)


def _accumulate(form: Form, arrays: Mapping[str, Array], values: Numbers, command: str) -> None:
    registers = accumulators(arrays, len(values))
    operator = named(form, "reduce_op") if form.attribute("reduce_op", "") else OPERATORS["add"]
    if command in {"reset", "reset_reduce"}:
        registers[...] = np.float32(operator.identity)
    if command in {"reduce", "reset_reduce"} and operator.reduce is not None:
        registers[...] = operator.apply(registers, operator.reduce(values, (1,)))
    if "reduce_res" in arrays:
        store(arrays["reduce_res"], registers)


def _bias_form(form: Form, chip: Chip) -> str | None:
    bias = form.attribute("bias", 0.0)
    if chip.generation > 2 or bias == 0.0:
        return None
    return f"bias is the number {bias}, {chip.name} takes a tile of one element a partition"


def _reduce_add_only(form: Form, chip: Chip) -> str | None:
    value = form.attribute("reduce_op", "add")
    return None if value == "add" else f"reduce_op is {value!r}, must be 'add'"


_ACTIVATION_ROLES = (
    writes("dst"),
    reads("data"),
    reads("bias", optional=True),
    reads("scale", optional=True),
)
_ACTIVATION_RULES = (
    rules.function("func"),
    rules.same_size("data", "dst"),
    rules.per_partition("bias", "data"),
    rules.per_partition("scale", "data"),
    rules.per_partition("reduce_res", "data"),
    rules.dtype_among("scale", frozenset({"float32", "tfloat32"})),
    _bias_form,
    _reduce_add_only,
)

ROWS = (
    Row(
        name="tensor_tensor",
        fills=True,
        summary="dst = data1 op data2",
        engines=on(Engine.VECTOR, Engine.GPSIMD),
        roles=(writes("dst"), reads("data1"), reads("data2")),
        attributes=("op",),
        rules=(
            rules.operator("op"),
            rules.same_size("data1", "data2", "dst"),
            rules.not_both_psum("data1", "data2"),
            _power_engine,
        ),
        meaning=_tensor_tensor,
        cost=costs.engine_cost(costs.two_inputs),
        source="v2.26 cost table: N with one input in PSUM or in bfloat16, else 2N",
        suits=_tensor_tensor_suits,
        lanes=("dst", "data1"),
    ),
    Row(
        name="tensor_scalar",
        fills=True,
        summary="dst = (data op0 operand0) op1 operand1, operands one value a partition",
        engines=on(Engine.VECTOR, Engine.GPSIMD)
        | on(Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD, since=3),
        roles=(
            writes("dst"),
            reads("data"),
            reads("operand0", optional=True),
            reads("operand1", optional=True),
        ),
        attributes=("op0", "operand0", "reverse0", "op1", "operand1", "reverse1"),
        rules=(
            rules.operator("op0"),
            rules.operator("op1", optional=True),
            rules.same_kind("op0", "op1"),
            rules.same_size("data", "dst"),
            rules.per_partition("operand0", "data"),
            rules.per_partition("operand1", "data"),
            rules.number_or_operand("operand0", unless=rules.is_unary("op0")),
            rules.number_or_operand("operand1", unless=rules.is_unary("op1")),
            rules.on_engine(Engine.SCALAR, _scalar_engine_pair),
            rules.on_engine(Engine.GPSIMD, _gpsimd_root),
        ),
        meaning=_tensor_scalar,
        cost=costs.engine_cost(costs.one_input),
        source="v2.26 cost table max(64, N); trainium2_arch.rst performance modes",
        suits=_tensor_scalar_suits,
        lanes=("dst", "data"),
    ),
    Row(
        name="scalar_tensor_tensor",
        fills=True,
        summary="dst = (data op0 operand0) op1 operand1, operand1 a tile like data",
        engines=on(Engine.VECTOR),
        roles=(
            writes("dst"),
            reads("data"),
            reads("operand0", optional=True),
            reads("operand1"),
        ),
        attributes=("op0", "operand0", "reverse0", "op1", "reverse1"),
        rules=(
            rules.operator("op0"),
            rules.operator("op1"),
            _arithmetic_only,
            rules.same_size("data", "operand1", "dst"),
            rules.per_partition("operand0", "data"),
            rules.number_or_operand("operand0", unless=rules.is_unary("op0")),
            rules.not_both_psum("data", "operand1"),
        ),
        meaning=_scalar_tensor_tensor,
        cost=costs.engine_cost(costs.scalar_then_two),
        source="v2.26 cost table: N for bfloat16 (a − s) × b, else as tensor_tensor",
    ),
    Row(
        name="activation",
        fills=True,
        summary="dst = func(data × scale + bias), sums kept in the engine's registers",
        engines=on(Engine.SCALAR),
        roles=(*_ACTIVATION_ROLES, writes("reduce_res", optional=True)),
        attributes=("func", "scale", "bias", "reduce_op", "reduce_cmd"),
        rules=(*_ACTIVATION_RULES, rules.among("reduce_cmd", rules.REDUCE_COMMANDS, "idle")),
        meaning=_activation,
        cost=costs.activation_cost,
        source="v2.26 cost table max(64, N); 64 to read the registers out",
        registers=Engine.SCALAR,
        lanes=("dst", "data"),
    ),
    Row(
        name="activation_reduce",
        fills=True,
        summary="dst = func(data × scale + bias), reduce_res = its sum over the free axes",
        engines=on(Engine.SCALAR),
        roles=(*_ACTIVATION_ROLES, writes("reduce_res")),
        attributes=("func", "scale", "bias", "reduce_op"),
        rules=_ACTIVATION_RULES,
        meaning=_activation_reduce,
        cost=costs.activation_cost,
        source="v2.26 cost table max(64, N) + 64",
        registers=Engine.SCALAR,
        lanes=("dst", "data"),
    ),
    Row(
        name="reciprocal",
        fills=True,
        summary="dst = 1 ÷ data",
        engines=on(Engine.VECTOR),
        roles=(writes("dst"), reads("data")),
        rules=(rules.same_size("data", "dst"),),
        meaning=_reciprocal,
        cost=costs.engine_cost(costs.per_element(8)),
        source="nki.api.shared.rst: max(64, 8N) on the vector engine",
    ),
)
