"""Costs: cycles of the executing engine, from N, the elements a partition of the largest operand.

Each row names the source of its rule. In short: vector work + fixed overhead; scalar and GpSimd one
element a cycle + fixed overhead; tensor engine passes × columns. All of them take at least the
issue interval. Whole cycles, rounded up.
"""

from __future__ import annotations

from collections.abc import Callable

from accel.chip import Chip
from accel.dtypes import FP32, SIXTEEN_BIT, itemsize
from accel.isa.row import Cost
from accel.program import Access, Engine, Form, Layout, Memory, Mode

Work = Callable[[Form, Chip], int]
CostOf = Callable[[Form, Chip, Engine], Cost]

# NeuronCore-v2 combines two bfloat16 tiles at full rate for these only.
_FAST_PAIRS = frozenset({"add", "subtract", "multiply"})


def elements(form: Form) -> int:
    """N: elements a partition of the largest operand."""
    return max((access.layout.elements for access in form.accesses), default=0)


def engine_cost(vector_work: Work, reads_register: bool = False) -> CostOf:
    """Cost on whichever engine runs it. `reads_register`: a reduction that is written out."""

    def cost(form: Form, chip: Chip, engine: Engine) -> Cost:
        register = chip.scalar_reduce_cycles if reads_register else 0
        match engine:
            case Engine.SCALAR:
                return _scalar_cost(_scalar_work(form, chip) + register, chip)
            case Engine.GPSIMD:
                cycles = elements(form) + chip.gpsimd_overhead_cycles
            case _:
                return _vector_cost(vector_work(form, chip) + register, chip)
        cycles = max(chip.min_issue_cycles, cycles)
        return Cost(cycles, cycles)

    return cost


def activation_cost(form: Form, chip: Chip, engine: Engine) -> Cost:
    """One element a cycle; reading the accumulator registers out takes another instruction."""
    reads_register = form.access("reduce_res") is not None
    return _scalar_cost(elements(form) + reads_register * chip.scalar_reduce_cycles, chip)


def _vector_cost(work: int, chip: Chip) -> Cost:
    return Cost(
        max(chip.min_issue_cycles, work + chip.vector_overhead_cycles),
        max(chip.min_issue_cycles, work + chip.vector_latency_cycles),
    )


def _scalar_cost(work: int, chip: Chip) -> Cost:
    """The next instruction may start before the result of this one can be read."""
    return Cost(
        max(chip.min_issue_cycles, work + chip.scalar_overhead_cycles),
        max(chip.min_issue_cycles, work + chip.scalar_latency_cycles),
    )


def transfer_cost(form: Form, chip: Chip, engine: Engine) -> Cost:
    """A DMA transfer occupies no engine; the schedule times its data."""
    return Cost(0, 0)


def _scalar_work(form: Form, chip: Chip) -> int:
    n = elements(form)
    # ARCH4: ScalarE of NeuronCore-v4 moves two 16-bit elements a cycle in copies.
    return -(-n // 2) if chip.generation >= 4 and _all_16_bit(form) else n


def one_input(form: Form, chip: Chip) -> int:
    """Copies and tensor-scalar: a cycle takes as many elements as the data path is wide."""
    fast = _all_16_bit(form) and all(map(_contiguous_sbuf, form.accesses))
    return -(-elements(form) // _lanes(chip, fast))


def two_inputs(form: Form, chip: Chip) -> int:
    """Two tiles share the read port of SBUF; a tile in PSUM has its own."""
    n = elements(form)
    if any(_in_psum(a) for a in form.accesses if a.mode is Mode.READ):
        return n
    if chip.generation <= 2:
        fast = _all_bfloat16(form) and form.attribute("op", "") in _FAST_PAIRS
        return n if fast and all(map(_contiguous_sbuf, form.accesses)) else 2 * n
    return -(-2 * n // _lanes(chip, _all_16_bit(form)))


def scalar_then_two(form: Form, chip: Chip) -> int:
    """scalar_tensor_tensor; NeuronCore-v2 is fast for (a − s) × b in bfloat16 only."""
    pair = [a for a in form.accesses if a.role in {"data", "operand1"}]
    if chip.generation > 2 or any(map(_in_psum, pair)):
        return two_inputs(form, chip)
    n = elements(form)
    operators = (form.attribute("op0"), form.attribute("op1"))
    narrow = all(a.layout.dtype == "bfloat16" for a in pair)
    return n if narrow and operators == ("subtract", "multiply") and n % 2 == 0 else 2 * n


def reduction(form: Form, chip: Chip) -> int:
    """One element a cycle; NeuronCore-v2 halves it for bfloat16 sums and maxima."""
    n = elements(form)
    fast = chip.generation <= 2 and form.attribute("op", "") in {"add", "maximum"}
    narrow = all(a.layout.dtype == "bfloat16" for a in form.accesses)
    return -(-n // 2) if fast and narrow else n


def fill(form: Form, chip: Chip) -> int:
    """memset: zeros of 16 bits go two a cycle."""
    n = elements(form)
    return -(-n // 2) if form.attribute("value", 0) == 0 and _all_16_bit(form) else n


def per_element(factor: int = 1) -> Work:
    """`factor` cycles an element."""
    return lambda form, chip: factor * elements(form)


def aggregation(form: Form, chip: Chip) -> int:
    """bn_aggr: 13 cycles for each (count, mean, variance × count)."""
    return 13 * elements(form) // 3


def matmul_cost(form: Form, chip: Chip, engine: Engine) -> Cost:
    """Columns stream through once a pass; loading the stationary tile hides behind the last one."""
    moving = form.access("moving")
    columns = 0 if moving is None else moving.layout.elements
    if form.attribute("perf_mode", "") == "double_row":
        columns //= 2
    return _tensor_cost(columns, _passes(form, chip), chip)


def transpose_cost(form: Form, chip: Chip, engine: Engine) -> Cost:
    """Tensor engine: the moving operand is an identity as wide as the tile has partitions."""
    if engine is not Engine.TENSOR:
        return engine_cost(per_element())(form, chip, engine)
    data = form.access("data")
    assert data is not None
    passes = chip.fp32_transpose_passes if _four_bytes(data.layout) else 1
    return _tensor_cost(data.layout.partitions, passes, chip)


def _tensor_cost(columns: int, passes: int, chip: Chip) -> Cost:
    issue = passes * max(chip.min_issue_cycles, columns)
    return Cost(issue, issue + chip.tensor_latency_cycles)


def _passes(form: Form, chip: Chip) -> int:
    inputs = [form.access("stationary"), form.access("moving")]
    if not any(a is not None and a.layout.dtype == "float32" for a in inputs):
        return 1
    if form.attribute("is_transpose"):
        return chip.fp32_transpose_passes
    if form.attribute("is_stationary_onezero") or form.attribute("is_moving_onezero"):
        return chip.fp32_passes // 2
    return chip.fp32_passes


def _lanes(chip: Chip, fast: bool) -> int:
    """Elements a partition and cycle: 4-byte ones, or 2-byte ones in the fast mode."""
    return chip.vector_16bit_bytes_per_cycle // 2 if fast else chip.vector_bytes_per_cycle // 4


def element_bytes(layout: Layout) -> int:
    """Bytes of one element of an operand."""
    return itemsize(layout.dtype)


def _four_bytes(layout: Layout) -> bool:
    return layout.dtype in FP32 or itemsize(layout.dtype) == 4


def _all_16_bit(form: Form) -> bool:
    return all(a.layout.dtype in SIXTEEN_BIT for a in _tiles(form))


def _all_bfloat16(form: Form) -> bool:
    return all(a.layout.dtype == "bfloat16" for a in _tiles(form))


def _tiles(form: Form) -> list[Access]:
    """Operands other than one value a partition, whose dtype does not set the data path."""
    n = elements(form)
    return [a for a in form.accesses if a.layout.elements > 1 or n == 1]


def _in_psum(access: Access) -> bool:
    return access.layout.memory is Memory.PSUM


def _contiguous_sbuf(access: Access) -> bool:
    layout = access.layout
    inner = layout.pattern[-1] if layout.pattern else (0, 1)
    dense = inner[1] == 1 or inner[0] == itemsize(layout.dtype)
    return layout.memory is Memory.SBUF and dense
