"""Rows that search or gather inside a partition or a group of partitions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from accel.chip import Chip
from accel.errors import KernelError
from accel.isa import costs, rules
from accel.isa.row import SBUF, Array, Cost, Role, Row, on, reads, writes
from accel.isa.values import Int64, flat, load, number, store, whole
from accel.program import Engine, Form, Mode

_EIGHT = 8
_LONGEST = 16384
_INDEX_TYPES = frozenset({"uint16", "uint32"})
_GROUP = 16
_MOST_INDICES = 4096
_CORE_LANES = (_GROUP, 1)
_RUNS = frozenset({1, 2, 4, 8, 16, 32})


def _max8(form: Form, arrays: Mapping[str, Array]) -> None:
    values = load(arrays["src"])
    store(arrays["dst"], np.sort(values, axis=1)[:, : -_EIGHT - 1 : -1])


def _matches(data: Array, wanted: Array, order: range) -> Int64:
    """Position in each row of each wanted value, −1 for none; equal values take the next one."""
    found = np.full(wanted.shape, -1, np.int64)
    for lane in range(len(data)):
        taken = np.zeros(data.shape[1], np.bool_)
        for slot in order:
            hits = np.flatnonzero((data[lane] == wanted[lane, slot]) & ~taken)
            if len(hits):
                found[lane, slot] = hits[0]
                taken[hits[0]] = True
    return found


def _nc_find_index8(form: Form, arrays: Mapping[str, Array]) -> None:
    found = _matches(load(arrays["data"]), load(arrays["vals"]), range(_EIGHT))
    _store_indices(arrays["dst"], found)


def _store_indices(target: Array, found: Int64) -> None:
    """Misses are all ones, which is what −1 wraps to."""
    target[...] = found.astype(target.dtype).reshape(target.shape)


def _nc_match_replace8(form: Form, arrays: Mapping[str, Array]) -> None:
    data = load(arrays["data"])
    found = _matches(data, load(arrays["vals"]), range(_EIGHT - 1, -1, -1))
    result, lanes = data.copy(), np.arange(len(data))
    for slot in range(_EIGHT):
        hit = found[:, slot] >= 0
        result[lanes[hit], found[hit, slot]] = np.float32(number(form, "imm"))
    store(arrays["dst"], result)
    if "dst_idx" in arrays:
        _store_indices(arrays["dst_idx"], found)


def _nc_n_gather(form: Form, arrays: Mapping[str, Array]) -> None:
    data, indices = flat(arrays["data"]), flat(arrays["indices"]).astype(np.int64)
    _check_inside("nc_n_gather: indices", indices, data.shape[1])
    target = arrays["dst"]
    target[...] = np.take_along_axis(data, indices, axis=1).reshape(target.shape)


def _same_partitions(form: Form, chip: Chip) -> str | None:
    data, indices = form.access("data"), form.access("indices")
    assert data is not None
    assert indices is not None
    got, wanted = data.layout.partitions, indices.layout.partitions
    return None if got == wanted else f"data has {got} partitions, indices has {wanted}"


def _check_inside(what: str, indices: Int64, count: int) -> None:
    """KernelError for the first index that is not an element of a partition."""
    outside = indices[(indices < 0) | (indices >= count)]
    if len(outside):
        raise KernelError(
            f"{what} has {int(outside[0])}, a partition of the data has {count} elements",
            "keep the indices inside the partition",
        )


def _local_gather(form: Form, arrays: Mapping[str, Array]) -> None:
    """Each group of 16 partitions gathers with the indices in its own 16, partitions first."""
    source, index = flat(arrays["src_buffer"]), flat(arrays["index"]).astype(np.int64)
    run = whole(form, "num_elem_per_idx", 1)
    result = flat(arrays["dst"]).copy()
    for first in range(0, len(source), _GROUP):
        lanes = slice(first, first + _GROUP)
        starts = index[lanes].T.reshape(-1)[: result.shape[1] // run]
        columns = (starts[:, None] + np.arange(run)).reshape(-1)
        _check_inside("local_gather: index", columns, source.shape[1])
        result[lanes, : len(columns)] = source[lanes][:, columns]
    arrays["dst"][...] = result.reshape(arrays["dst"].shape)


def _nonzero_with_count(form: Form, arrays: Mapping[str, Array]) -> None:
    """Partition 0 of each 16: positions that are not 0, padding, and how many there are."""
    source, target = flat(arrays["src"]), arrays["dst"]
    offset, padding = whole(form, "index_offset"), whole(form, "padding_val", -1)
    for lane in range(0, len(source), _GROUP):
        found = np.flatnonzero(source[lane])
        row = np.full(source.shape[1] + 1, padding, np.int64)
        row[: len(found)] = found + offset
        row[-1] = len(found)
        target[lane] = row.astype(np.int32).reshape(target[lane].shape)


def _topk(form: Form, arrays: Mapping[str, Array]) -> None:
    """Each 16 partitions hold one list, column by column, and all get its largest elements."""
    source, count = flat(arrays["src"]), whole(form, "n")
    values, places = arrays["val_dst"], arrays["idx_dst"]
    wanted = values[0].size
    for first in range(0, len(source), _GROUP):
        lanes = slice(first, first + _GROUP)
        listed = source[lanes].T.reshape(-1)[:count]
        # Of equal values the first ones are taken; the last of the order is the largest.
        order = np.lexsort((-np.arange(count), listed.astype(np.float32)))[-wanted:]
        shape = values[lanes].shape
        values[lanes] = np.broadcast_to(listed[order], (shape[0], wanted)).reshape(shape)
        places[lanes] = np.broadcast_to(order, (shape[0], wanted)).reshape(shape)


def _topk_shapes(form: Form, chip: Chip) -> str | None:
    source, values = form.access("src"), form.access("val_dst")
    if source is None or values is None:
        return None
    count, wanted = whole(form, "n"), values.layout.elements
    if source.layout.partitions % _GROUP:
        return f"src has {source.layout.partitions} partitions, must have a multiple of {_GROUP}"
    if not _EIGHT <= count < 2**16:
        return f"n is {count}, must be {_EIGHT} to {2**16 - 1}"
    if source.layout.elements * _GROUP < count:
        return f"src holds {source.layout.elements * _GROUP} elements a group, n is {count}"
    if wanted > count or wanted >= 2**15:
        return f"val_dst has {wanted} elements a partition, must have up to n = {count}"
    return None


def _topk_cost(form: Form, chip: Chip, engine: Engine) -> Cost:
    values = form.access("val_dst")
    assert values is not None
    cycles = 4 * whole(form, "n") + values.layout.elements
    return Cost(cycles, cycles)


def _one_more(form: Form, chip: Chip) -> str | None:
    source, target = form.access("src"), form.access("dst")
    if source is None or target is None:
        return None
    got = (target.layout.partitions, target.layout.elements)
    wanted = (source.layout.partitions, source.layout.elements + 1)
    return None if got == wanted else f"dst is {got[0]}×{got[1]}, must be {wanted[0]}×{wanted[1]}"


def _enough_indices(form: Form, chip: Chip) -> str | None:
    index, target = form.access("index"), form.access("dst")
    if index is None or target is None:
        return None
    held, run = index.layout.elements * _GROUP, whole(form, "num_elem_per_idx", 1)
    valid = whole(form, "num_valid_indices", held)
    if not 0 < valid <= held:
        return f"num_valid_indices is {valid}, the index holds {held} a group of {_GROUP}"
    if valid > _MOST_INDICES:
        return f"{valid} indices a group of {_GROUP} partitions, the limit is {_MOST_INDICES}"
    if target.layout.elements != valid * run:
        return f"dst has {target.layout.elements} elements a partition, must have {valid * run}"
    return None


def _gather_cost(form: Form, chip: Chip, engine: Engine) -> Cost:
    """150 + indices × e ÷ C with C = ((28 + 4e) ÷ 4e) ÷ min(4 ÷ bytes, e), e elements an index."""
    index, source = form.access("index"), form.access("src_buffer")
    assert index is not None
    assert source is not None
    run = whole(form, "num_elem_per_idx", 1)
    indices = whole(form, "num_valid_indices", index.layout.elements * _GROUP)
    packed = min(max(1, 4 // costs.element_bytes(source.layout)), run)
    work = -(-indices * run * 4 * run * packed // (28 + 4 * run))
    cycles = chip.gpsimd_overhead_cycles + work
    return Cost(cycles, cycles)


def _groups(form: Form, chip: Chip) -> str | None:
    source, index = form.access("src_buffer"), form.access("index")
    if source is None or index is None:
        return None
    if source.layout.partitions != index.layout.partitions or source.layout.partitions % _GROUP:
        got = (source.layout.partitions, index.layout.partitions)
        return f"src_buffer has {got[0]} partitions, index {got[1]}: equal multiples of 16 needed"
    run = form.attribute("num_elem_per_idx", 1)
    return None if run in _RUNS else f"num_elem_per_idx is {run}, must be one of {sorted(_RUNS)}"


ROWS = (
    Row(
        name="max8",
        summary="the eight largest elements of each partition, largest first",
        engines=on(Engine.VECTOR),
        roles=(writes("dst"), reads("src")),
        rules=(
            rules.elements_between("src", _EIGHT, _LONGEST),
            rules.per_partition("dst", "src", _EIGHT),
        ),
        meaning=_max8,
        cost=costs.engine_cost(costs.per_element()),
        source="v2.26 cost table: N",
    ),
    Row(
        name="nc_find_index8",
        summary="position in data of each of eight values a partition, all ones for none",
        engines=on(Engine.VECTOR),
        roles=(writes("dst"), reads("data"), reads("vals")),
        rules=(
            rules.elements_between("data", _EIGHT, _LONGEST),
            rules.per_partition("vals", "data", _EIGHT),
            rules.per_partition("dst", "data", _EIGHT),
            rules.dtype_among("dst", _INDEX_TYPES),
        ),
        meaning=_nc_find_index8,
        cost=costs.engine_cost(costs.per_element()),
        source="v2.26 cost table: N",
    ),
    Row(
        name="nc_match_replace8",
        summary="dst = data with the first match of each of eight values replaced by imm",
        engines=on(Engine.VECTOR),
        roles=(
            writes("dst"),
            writes("dst_idx", optional=True),
            reads("data"),
            reads("vals"),
        ),
        attributes=("imm",),
        rules=(
            rules.elements_between("data", _EIGHT, _LONGEST),
            rules.same_size("dst", "data"),
            rules.per_partition("vals", "data", _EIGHT),
            rules.per_partition("dst_idx", "data", _EIGHT),
            rules.dtype_among("dst_idx", _INDEX_TYPES),
        ),
        meaning=_nc_match_replace8,
        cost=costs.engine_cost(costs.per_element()),
        source="v2.26 cost table, read as max(64, N)",
    ),
    Row(
        name="nc_n_gather",
        summary="dst = data[indices] inside each partition",
        engines=on(Engine.GPSIMD),
        roles=(writes("dst", SBUF), reads("data", SBUF), reads("indices", SBUF)),
        rules=(
            rules.same_size("dst", "indices"),
            _same_partitions,
            rules.same_dtype("dst", "data"),
            rules.dtype_among("indices", frozenset({"uint32"})),
        ),
        meaning=_nc_n_gather,
        cost=costs.engine_cost(costs.per_element()),
        source="none published; GpSimd start-up 150 + N",
    ),
    Row(
        name="local_gather",
        summary="each 16 partitions gather from themselves by the indices they hold",
        engines=on(Engine.GPSIMD),
        roles=(writes("dst", SBUF), reads("src_buffer", SBUF), reads("index", SBUF)),
        attributes=("num_elem_per_idx", "num_valid_indices"),
        rules=(
            rules.same_dtype("dst", "src_buffer"),
            rules.dtype_among("index", frozenset({"uint16"})),
            _groups,
            _enough_indices,
        ),
        meaning=_local_gather,
        cost=_gather_cost,
        source="v2.26 cost table",
    ),
    Row(
        name="nonzero_with_count",
        summary="positions of what is not 0, padding and their count, in partition 0 of each 16",
        engines=on(Engine.GPSIMD, since=3),
        roles=(
            Role("dst", Mode.WRITE, SBUF, every=_CORE_LANES),
            Role("src", Mode.READ, SBUF, every=_CORE_LANES),
        ),
        attributes=("index_offset", "padding_val"),
        rules=(
            rules.dtype_among("src", frozenset({"float32", "int32"})),
            rules.dtype_among("dst", frozenset({"int32"})),
            _one_more,
        ),
        meaning=_nonzero_with_count,
        cost=costs.engine_cost(costs.per_element()),
        source="assumed: GpSimd start-up 150 + N; nothing is published",
    ),
    Row(
        name="topk",
        summary="the largest elements of the list that each 16 partitions hold, smallest first",
        engines=on(Engine.GPSIMD),
        roles=(writes("val_dst", SBUF), writes("idx_dst", SBUF), reads("src", SBUF)),
        attributes=("n",),
        rules=(
            rules.dtype_among("src", frozenset({"bfloat16"})),
            rules.dtype_among("val_dst", frozenset({"bfloat16"})),
            rules.dtype_among("idx_dst", frozenset({"uint32"})),
            rules.same_size("val_dst", "idx_dst"),
            _topk_shapes,
        ),
        meaning=_topk,
        cost=_topk_cost,
        source="SDK 2.32 nki.isa.topk: 4 n + K GpSimd cycles",
    ),
)
