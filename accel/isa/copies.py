"""Rows that move elements without computing: DMA transfers, copies, fills, selections, shuffles.

Copies are bit-exact between equal dtypes and pass through float32 otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from accel.chip import Chip
from accel.errors import KernelError
from accel.isa import costs, rules
from accel.isa.indirect import INDEX, INTEGERS, VECTOR, index_of, vector_index
from accel.isa.row import SBUF, Array, Row, on, reads, writes
from accel.isa.values import Int64, accumulators, copy, flat, number, store
from accel.program import Engine, Form, Memory

_DMA = (Memory.HBM, Memory.SBUF)
_TRIGGERS = (Engine.SYNC, Engine.SCALAR, Engine.GPSIMD, Engine.VECTOR, Engine.TENSOR)
_DGE_MODES = frozenset({"unknown", "swdge", "hwdge", "none"})
_PREDICATES = INTEGERS | {"bool_"}
SOURCES = tuple(f"src{number}" for number in range(16))
_KEEP_PARTITION = 255
_QUADRANT = 32

# A transpose swaps the outermost and the innermost axis of the source.
_TRANSPOSES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def _dma_copy(form: Form, arrays: Mapping[str, Array]) -> None:
    picked, places = (vector_index(form, arrays, role) for role in ("src", "dst"))
    if picked is None and places is None:
        copy(arrays["dst"], arrays["src"])
        return
    count = len(picked if picked is not None else places)  # type: ignore[arg-type]
    source, taken = _rows(form, arrays, "src", picked, count)
    target, written = _rows(form, arrays, "dst", places, count)
    both = taken & written
    if picked is not None:
        source = source[np.where(both, picked, 0)]
    if places is None:
        view = target.copy()
        view[both] = _cast(source[both], target.dtype).reshape(view[both].shape)
        arrays["dst"][...] = view.reshape(arrays["dst"].shape)
        return
    if np.may_share_memory(source, target):
        source = source.copy()  # a transfer within one tensor reads what was there before
    for position in np.flatnonzero(both):
        copy(target[int(places[position])], source[position])


def _rows(
    form: Form, arrays: Mapping[str, Array], role: str, index: Int64 | None, count: int
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """An operand by rows, and which positions may be moved; KernelError for an index outside."""
    array = arrays[role]
    if index is None:
        return array.reshape(count, -1), np.ones(count, np.bool_)
    inside = (index >= 0) & (index < len(array))
    if not inside.all() and form.attribute("oob_mode", "error") == "error":
        bad = int(index[~inside][0])
        raise KernelError(
            f"{form.op}: index {bad} is outside the {len(array)} rows of {role}",
            "keep indices inside the table, or skip those outside with oob_mode.skip",
        )
    return array, inside


def _cast(values: Array, dtype: np.dtype[np.generic]) -> Array:
    result = np.empty(values.shape, dtype)
    copy(result, values)
    return result


def _dma_compute(form: Form, arrays: Mapping[str, Array]) -> None:
    """Sums in float32; an index applies to the source or to dst, which is then also a source."""
    roles = [role for role in SOURCES if role in arrays]
    places = vector_index(form, arrays, "dst")
    if places is not None:
        _add_at(form, arrays, places, next(r for r in roles if r + INDEX not in arrays))
        return
    shape = arrays["dst"].shape
    total, moved = np.zeros(shape, np.float32), np.ones((shape[0],), np.bool_)
    for role in roles:
        values, picked = arrays[role], vector_index(form, arrays, role)
        if picked is not None:
            table, moved = _rows(form, arrays, role, picked, len(picked))
            values = table[np.where(moved, picked, 0)]
        total += values.astype(np.float32).reshape(shape)
    result = arrays["dst"].copy()
    store(result, total)
    arrays["dst"][moved] = result[moved]


def _add_at(form: Form, arrays: Mapping[str, Array], places: Int64, role: str) -> None:
    target, inside = _rows(form, arrays, "dst", places, len(places))
    source = arrays[role].reshape(len(places), *target.shape[1:]).astype(np.float32)
    for position in np.flatnonzero(inside):
        row = target[int(places[position])]
        store(row, row.astype(np.float32) + source[position])


def _sums_sizes(form: Form, chip: Chip) -> str | None:
    for role in SOURCES:
        problem = rules.same_total("dst", role)(form, chip)
        if problem is not None:
            return problem
    return None


def _read_modify_write(form: Form, chip: Chip) -> str | None:
    """With a vector of indices: two sources, one of them dst; scattering, dst is that one."""
    given = [role for role in SOURCES if form.access(role) is not None]
    indexed = [role for role in ("dst", *given) if _takes_vector(form, role)]
    if not indexed:
        return None
    if chip.generation < 3:
        return f"{indexed[0]} takes a vector of indices, which needs gen3, not {chip.nc_version}"
    if len(given) != 2:
        return f"{len(given)} sources with a vector of indices, must be 2"
    if "dst" in indexed and len(indexed) != 2:
        return "dst takes a vector of indices, one source must be the same view"
    return None


def _takes_vector(form: Form, role: str) -> bool:
    index = index_of(form, role)
    return index is not None and index.kind == VECTOR


def _dma_transpose(form: Form, arrays: Mapping[str, Array]) -> None:
    source, picked = arrays["src"], vector_index(form, arrays, "src")
    axes = _axes(form, source.ndim)
    if picked is None:
        copy(arrays["dst"], np.ascontiguousarray(source.transpose(axes)))
        return
    access = form.access("src")
    assert access is not None
    count = access.layout.shape[0]
    table, inside = _rows(form, arrays, "src", picked[:count], count)
    gathered = table[np.where(inside, picked[:count], 0)].transpose(axes)
    before = arrays["dst"].reshape(gathered.shape)
    arrays["dst"][...] = np.where(inside, gathered, before).reshape(arrays["dst"].shape)


def _axes(form: Form, dimensions: int) -> tuple[int, ...]:
    axes = form.attribute("axes", ())
    return axes if isinstance(axes, tuple) and axes else _TRANSPOSES[dimensions]


def _transposable(form: Form, chip: Chip) -> str | None:
    source = form.access("src")
    dimensions = 0 if source is None else len(source.layout.shape)
    if dimensions not in _TRANSPOSES:
        return f"src has {dimensions} axes, must be 2 to 4"
    axes = _axes(form, dimensions)
    if axes != _TRANSPOSES[dimensions]:
        return f"axes is {axes}, must be {_TRANSPOSES[dimensions]} for {dimensions} axes"
    return _transposed(form, axes)


def _transposed(form: Form, axes: tuple[int, ...]) -> str | None:
    """dst has the permuted shape of src, but for axes of one element."""
    source, target = form.access("src"), form.access("dst")
    if source is None or target is None:
        return None
    wanted = tuple(source.layout.shape[axis] for axis in axes)
    got = target.layout.shape
    if got[0] == wanted[0] and _long(got) == _long(wanted):
        return None
    return f"dst is {got}, must be {wanted}"


def _long(shape: tuple[int, ...]) -> list[int]:
    return [count for count in shape if count > 1]


def _hardware_descriptors(form: Form, chip: Chip) -> str | None:
    if form.attribute("dge_mode", "unknown") == "hwdge" and chip.generation < 3:
        return f"dge_mode hwdge needs gen3 or newer, {chip.name} is {chip.nc_version}"
    return None


def _gathers_by_software(form: Form, chip: Chip) -> str | None:
    mode = form.attribute("dge_mode", "unknown")
    vectors = [role for role in ("dst", "src") if _takes_vector(form, role)]
    if not vectors or mode in {"unknown", "swdge"}:
        return None
    return f"dge_mode is {mode}, a vector of indices of {vectors[0]} needs swdge"


def _tensor_copy(form: Form, arrays: Mapping[str, Array]) -> None:
    copy(arrays["dst"], arrays["src"])


def _memset(form: Form, arrays: Mapping[str, Array]) -> None:
    value = form.attribute("value", 0)
    store(arrays["dst"], np.broadcast_to(np.asarray(value), arrays["dst"].shape))


def _tensor_copy_predicated(form: Form, arrays: Mapping[str, Array]) -> None:
    target = arrays["dst"]
    chosen = (arrays["predicate"] != 0).reshape(target.shape)
    if form.attribute("reverse_pred"):
        chosen = ~chosen
    values = np.empty(target.shape, target.dtype)
    if "src" in arrays:
        copy(values, arrays["src"])
    else:
        store(values, np.broadcast_to(np.float32(number(form, "value")), target.shape))
    target[chosen] = values[chosen]
    arrays["dst.written"][chosen] = True


def _select(form: Form, arrays: Mapping[str, Array]) -> None:
    target = arrays["dst"]
    chosen = flat(arrays["predicate"]) != 0
    if form.attribute("reverse_pred"):
        chosen = ~chosen
    true, false = (_choice(form, arrays, role) for role in ("on_true", "on_false"))
    result = np.where(chosen, true, false)
    store(target, result)
    if form.attribute("reduce_cmd", "idle") != "idle" or "reduce_res" in arrays:
        accumulate_maximum(form, arrays, result)


def _false_size(form: Form, chip: Chip) -> str | None:
    """on_false is a tile like dst, or one value a partition."""
    problem = rules.per_partition("on_false", "dst")(form, chip)
    return problem and rules.same_size("dst", "on_false")(form, chip)


def _choice(form: Form, arrays: Mapping[str, Array], role: str) -> Array:
    if role in arrays:
        return flat(arrays[role]).astype(np.float32)
    return np.asarray(number(form, role), np.float32)


def accumulate_maximum(form: Form, arrays: Mapping[str, Array], values: Array) -> None:
    """Row maxima into the accumulators as `reduce_cmd` says, and out to `reduce_res`."""
    registers = accumulators(arrays, len(values))
    row_maxima = values.max(axis=1).astype(np.float32)
    command = form.attribute("reduce_cmd", "reset_reduce")
    if command == "reduce":
        row_maxima = np.maximum(row_maxima, registers)
    if command in {"reduce", "reset_reduce"}:
        registers[...] = row_maxima
    if "reduce_res" in arrays:
        store(arrays["reduce_res"], registers)


def _nc_stream_shuffle(form: Form, arrays: Mapping[str, Array]) -> None:
    target, source = arrays["dst"], arrays["src"]
    mask = form.attribute("mask", ())
    assert isinstance(mask, tuple)
    moved = source.copy()
    for partition in range(len(target)):
        chosen = mask[partition % _QUADRANT]
        origin = partition - partition % _QUADRANT + chosen
        if chosen != _KEEP_PARTITION:
            target[partition] = moved[origin].reshape(target[partition].shape)
            arrays["dst.written"][partition] = True


def _shuffle_mask(form: Form, chip: Chip) -> str | None:
    """Every partition of dst comes from one that src has in the same 32."""
    mask, source, target = form.attribute("mask", ()), form.access("src"), form.access("dst")
    if not isinstance(mask, tuple) or len(mask) != _QUADRANT:
        return f"mask is {mask!r}, must have {_QUADRANT} entries"
    if source is None or target is None:
        return None
    if source.layout.elements != target.layout.elements:
        return (
            f"dst has {target.layout.elements} elements a partition, "
            f"src has {source.layout.elements}"
        )
    for partition in range(target.layout.partitions):
        entry, first = mask[partition % _QUADRANT], partition - partition % _QUADRANT
        limit = min(_QUADRANT, source.layout.partitions - first)
        if entry != _KEEP_PARTITION and not 0 <= entry < limit:
            return f"mask has {entry}, must be below {limit} or {_KEEP_PARTITION}"
    return None


def _scalar_value(form: Form) -> bool:
    return form.attribute("value", "") != ""


def _source_or_value(form: Form, chip: Chip) -> str | None:
    if (form.access("src") is not None) != _scalar_value(form):
        return None
    return "needs either the operand src or the number value"


ROWS = (
    Row(
        name="dma_copy",
        fills=True,
        summary="dst = src between HBM and on-chip memory, by the DMA engines",
        engines=on(*_TRIGGERS),
        roles=(
            writes("dst", _DMA),
            reads("src", _DMA),
        ),
        attributes=("dge_mode", "oob_mode", "priority"),
        rules=(
            rules.same_total("dst", "src"),
            rules.among("dge_mode", _DGE_MODES, "unknown"),
            rules.among("oob_mode", frozenset({"error", "skip"}), "error"),
            _hardware_descriptors,
            _gathers_by_software,
        ),
        meaning=_dma_copy,
        gathers=True,
        cost=costs.transfer_cost,
        source="nki-dma-overview.rst; see the dma_* numbers of the chip",
    ),
    Row(
        name="dma_compute",
        summary="dst = the sum of up to 16 tensors, by the DMA engines",
        engines=on(*_TRIGGERS),
        roles=(writes("dst", _DMA), *(reads(role, _DMA, optional=True) for role in SOURCES)),
        attributes=("op", "oob_mode"),
        rules=(
            rules.among("op", frozenset({"add"})),
            rules.among("oob_mode", frozenset({"error", "skip"}), "error"),
            _sums_sizes,
            _read_modify_write,
        ),
        meaning=_dma_compute,
        cost=costs.transfer_cost,
        source="trainium3_arch.rst: half the copy rate before NeuronCore-v4",
        gathers=True,
    ),
    Row(
        name="dma_transpose",
        summary="dst = src with its outermost and innermost axes swapped, by the DMA engines",
        engines=on(*_TRIGGERS),
        roles=(writes("dst", SBUF), reads("src", _DMA)),
        attributes=("axes", "dge_mode", "oob_mode", "priority"),
        rules=(
            rules.same_total("dst", "src"),
            rules.same_dtype("dst", "src"),
            rules.among("dge_mode", _DGE_MODES, "unknown"),
            _hardware_descriptors,
            _gathers_by_software,
            _transposable,
        ),
        meaning=_dma_transpose,
        gathers=True,
        cost=costs.transfer_cost,
        source="trainium2_arch.rst: 90 % of the copy rate from HBM, 50 % on chip",
    ),
    Row(
        name="tensor_copy",
        fills=True,
        summary="dst = src on chip",
        engines=on(Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD),
        roles=(writes("dst"), reads("src")),
        rules=(rules.same_size("src", "dst"),),
        meaning=_tensor_copy,
        cost=costs.engine_cost(costs.one_input),
        source="v2.26 cost table max(64, N); trainium2_arch.rst performance modes",
        lanes=("dst", "src"),
    ),
    Row(
        name="memset",
        fills=True,
        summary="every element of dst = value",
        engines=on(Engine.VECTOR, Engine.GPSIMD),
        roles=(writes("dst"),),
        attributes=("value",),
        meaning=_memset,
        cost=costs.engine_cost(costs.fill),
        source="v2.26 cost table: max(64, N/2) for 16-bit zeros, else max(64, N)",
    ),
    Row(
        name="tensor_copy_predicated",
        summary="dst = src where predicate is not 0, unchanged elsewhere",
        engines=on(Engine.VECTOR),
        roles=(writes("dst"), reads("src", optional=True), reads("predicate")),
        attributes=("value", "reverse_pred"),
        rules=(
            rules.same_size("dst", "src", "predicate"),
            rules.same_dtype("dst", "src"),
            rules.dtype_among("predicate", _PREDICATES),
            rules.not_both_psum("src", "predicate"),
            _source_or_value,
        ),
        meaning=_tensor_copy_predicated,
        cost=costs.engine_cost(costs.two_inputs),
        source="v2.26 cost table: N with one input in PSUM, 2N with both in SBUF",
        partial=True,
        lanes=("dst", "predicate"),
    ),
    Row(
        name="select",
        summary="dst = on_true where predicate is not 0, else on_false; optionally row maxima",
        engines=on(Engine.VECTOR),
        roles=(
            writes("dst"),
            reads("predicate"),
            reads("on_true", optional=True),
            reads("on_false", optional=True),
            writes("reduce_res", optional=True),
        ),
        attributes=("on_true", "on_false", "reverse_pred", "reduce_cmd", "reduce_op"),
        rules=(
            rules.same_size("dst", "predicate", "on_true"),
            rules.dtype_among("predicate", _PREDICATES),
            rules.not_both_psum("on_true", "predicate"),
            rules.number_or_operand("on_true"),
            rules.number_or_operand("on_false"),
            _false_size,
            rules.per_partition("reduce_res", "dst"),
            rules.among("reduce_op", frozenset({"maximum"}), "maximum"),
        ),
        meaning=_select,
        cost=costs.engine_cost(costs.two_inputs),
        source="none published; as tensor_copy_predicated",
        registers=Engine.VECTOR,
    ),
    Row(
        name="nc_stream_shuffle",
        summary="partition p of each 32 of dst = partition mask[p] of the same 32 of src",
        engines=on(Engine.VECTOR),
        roles=(writes("dst"), reads("src")),
        attributes=("mask",),
        rules=(rules.same_dtype("src", "dst"), _shuffle_mask),
        meaning=_nc_stream_shuffle,
        cost=costs.engine_cost(costs.per_element()),
        source="v2.26 cost table: max(64, N)",
        partial=True,
    ),
)
