"""Rows of NeuronCore-v4's activation pipelines: `activate2` (scalar), `exponential` (vector).

Both leave sums or maxima in the engine's accumulator registers, as `reduce_cmd` says.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from accel.chip import Chip
from accel.isa import costs, rules
from accel.isa.elementwise import applied, named, scalar
from accel.isa.functions import FUNCTIONS, PARAMETRIC
from accel.isa.operators import OPERATORS, Numbers
from accel.isa.row import Array, Row, on, reads, writes
from accel.isa.values import accumulators, load, number, store
from accel.program import Engine, Form

_FRONT_STAGES = frozenset(
    {
        ("multiply", "add"),
        ("multiply", "subtract"),
        ("multiply", "bypass"),
        ("add", "bypass"),
        ("subtract", "bypass"),
        ("bypass", "bypass"),
    }
)
_REDUCES = frozenset({"add", "maximum", "minimum", "abs_max", "abs_min"})
_COMMANDS = frozenset({"idle", "reset", "reduce", "reset_reduce"})
_EXPONENTIAL_COMMANDS = frozenset({"idle", "reduce", "reset_reduce", "load_reduce"})


def _activate2(form: Form, arrays: Mapping[str, Array]) -> None:
    values: Numbers = load(arrays["data"])
    for stage in ("0", "1"):
        operator = named(form, "op" + stage)
        if operator.name != "bypass":
            operand = scalar(form, arrays, "imm" + stage, operator)
            values = applied(operator, values, operand, form.attribute("reverse" + stage))
    name = str(form.attribute("func"))
    if name in PARAMETRIC:
        given = arrays.get("relu_param")
        slope = np.float32(number(form, "relu_param")) if given is None else load(given)
        result = PARAMETRIC[name](values.astype(np.float32), slope)
    else:
        result = FUNCTIONS[name](values.astype(np.float32))
    _accumulate(form, arrays, result)
    store(arrays["dst"], result)
    if "reduce_res" in arrays:
        store(arrays["reduce_res"], accumulators(arrays, len(values)))


def _accumulate(form: Form, arrays: Mapping[str, Array], values: Array) -> None:
    registers, command = accumulators(arrays, len(values)), form.attribute("reduce_cmd", "idle")
    operator = OPERATORS[str(form.attribute("reduce_op", "add"))]
    if command in {"reset", "reset_reduce"}:
        registers[...] = np.float32(operator.identity)
    elif command == "load_reduce":
        given = arrays.get("reduce_init")
        start = np.float32(number(form, "reduce_init")) if given is None else load(given)[:, 0]
        registers[...] = start
    if command in {"reduce", "reset_reduce", "load_reduce"}:
        assert operator.reduce is not None
        folded = operator.reduce(values.astype(np.float32), (1,))
        registers[...] = operator.apply(registers, folded)


def _exponential(form: Form, arrays: Mapping[str, Array]) -> None:
    given = arrays.get("max_value")
    largest = np.float32(number(form, "max_value")) if given is None else load(given)
    result = np.exp(load(arrays["src"]) - largest)
    _accumulate(form, arrays, result)
    store(arrays["dst"], result)
    if "reduce_res" in arrays:
        store(arrays["reduce_res"], accumulators(arrays, len(result)))


def _front_stage(form: Form, chip: Chip) -> str | None:
    pair = (str(form.attribute("op0", "bypass")), str(form.attribute("op1", "bypass")))
    if pair in _FRONT_STAGES:
        return None
    legal = ", ".join(f"{first}-{second}" for first, second in sorted(_FRONT_STAGES))
    return f"op0, op1 are {pair[0]}-{pair[1]}, must be one of {legal}"


def _start_is_loaded(form: Form, chip: Chip) -> str | None:
    given = form.access("reduce_init") is not None or form.attribute("reduce_init", 0.0) != 0.0
    if not given or form.attribute("reduce_cmd", "idle") == "load_reduce":
        return None
    return "reduce_init is given, which needs reduce_cmd load_reduce"


def _known_function(form: Form, chip: Chip) -> str | None:
    if form.attribute("func", "") in PARAMETRIC:
        return None
    return rules.function("func")(form, chip)


def _four_a_cycle(form: Form, chip: Chip) -> int:
    return -(-costs.elements(form) // 4)


ROWS = (
    Row(
        name="activate2",
        summary="dst = func((data op0 imm0) op1 imm1), reduced in the engine's registers",
        engines=on(Engine.SCALAR, since=4),
        roles=(
            writes("dst"),
            writes("reduce_res", optional=True),
            reads("data"),
            reads("imm0", optional=True),
            reads("imm1", optional=True),
            reads("relu_param", optional=True),
        ),
        attributes=(
            "func",
            "imm0",
            "imm1",
            "op0",
            "op1",
            "relu_param",
            "reverse0",
            "reverse1",
            "reduce_op",
            "reduce_cmd",
        ),
        rules=(
            _known_function,
            _front_stage,
            rules.same_size("data", "dst"),
            rules.same_dtype("imm0", "imm1"),
            rules.per_partition("imm0", "data"),
            rules.per_partition("imm1", "data"),
            rules.per_partition("relu_param", "data"),
            rules.per_partition("reduce_res", "data"),
            rules.number_or_operand("imm0", unless=rules.is_unary("op0")),
            rules.number_or_operand("imm1", unless=rules.is_unary("op1")),
            rules.among("reduce_op", _REDUCES, "add"),
            rules.among("reduce_cmd", _COMMANDS, "idle"),
        ),
        meaning=_activate2,
        cost=costs.activation_cost,
        source="assumed: as activation, one element a cycle; nothing is published",
        registers=Engine.SCALAR,
        lanes=("dst", "data"),
    ),
    Row(
        name="exponential",
        fills=True,
        summary="dst = exp(src − max_value), summed in the engine's registers",
        engines=on(Engine.VECTOR, since=4),
        roles=(
            writes("dst"),
            writes("reduce_res", optional=True),
            reads("src"),
            reads("max_value", optional=True),
            reads("reduce_init", optional=True),
        ),
        attributes=("max_value", "reduce_cmd", "reduce_init"),
        rules=(
            rules.same_size("src", "dst"),
            rules.per_partition("max_value", "src"),
            rules.per_partition("reduce_res", "src"),
            rules.per_partition("reduce_init", "src"),
            rules.dtype_among("max_value", frozenset({"float32"})),
            rules.dtype_among("reduce_init", frozenset({"float32"})),
            rules.among("reduce_cmd", _EXPONENTIAL_COMMANDS, "idle"),
            _start_is_loaded,
        ),
        meaning=_exponential,
        cost=costs.engine_cost(_four_a_cycle, reads_register=False),
        source="trainium3_arch.rst: four times the rate of the scalar engine's exponential",
        registers=Engine.VECTOR,
        lanes=("dst", "src"),
    ),
)
