"""Rows that the ranks of a group take part in: each rank has a program and a memory of its own.

A collective is one instruction in the program of every rank of its group. Its meaning finds, beside
the rank's own operands, what the others brought: `<role>@<i>`, the operand of the i-th rank of the
group, read before any rank wrote. Form attributes: `ranks`, the group in order; `rank`, this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from accel.chip import Chip
from accel.errors import KernelError
from accel.isa import costs
from accel.isa.row import Array, Role, Row, on, reads, writes
from accel.program import Access, Engine, Form, Memory

_HBM = (Memory.HBM,)
_EITHER = (Memory.HBM, Memory.SBUF)
_COMBINE: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
_EXACT = frozenset({"int32", "uint32", "int16", "uint16", "int8", "uint8", "float32"})


def group(form: Form) -> tuple[int, ...]:
    """The ranks that take part, in the order of the group."""
    ranks = form.attribute("ranks", ())
    assert isinstance(ranks, tuple)
    return ranks


def position(form: Form) -> int:
    """Where in its group this rank stands."""
    rank = form.attribute("rank", 0)
    assert isinstance(rank, int)
    return group(form).index(rank)


def _brought(form: Form, arrays: Mapping[str, Array], role: str = "src") -> list[Array]:
    """What each rank of the group brought, in group order."""
    members = group(form)
    if len(members) == 1:
        return [arrays[role]]
    if f"{role}@0" not in arrays:
        raise KernelError(
            f"{form.op} between ranks {members}: only rank {form.attribute('rank', 0)} is run",
            "run all ranks together, as accel run --values --ranks N does",
        )
    return [arrays[f"{role}@{i}"] for i in range(len(members))]


def _combined(form: Form, parts: list[Array]) -> Array:
    """The parts combined in group order; narrow floats in float32."""
    combine = _COMBINE[str(form.attribute("op", "add"))]
    dst = form.access("dst")
    assert dst is not None
    exact = dst.layout.dtype in _EXACT
    total = parts[0] if exact else parts[0].astype(np.float32)
    for part in parts[1:]:
        total = combine(total, part if exact else part.astype(np.float32))
    return total


def _all_reduce(form: Form, arrays: Mapping[str, Array]) -> None:
    arrays["dst"][...] = _combined(form, _brought(form, arrays))


def _all_gather(form: Form, arrays: Mapping[str, Array]) -> None:
    arrays["dst"][...] = np.concatenate(_brought(form, arrays), axis=_axis(form))


def _reduce_scatter(form: Form, arrays: Mapping[str, Array]) -> None:
    shares = np.split(_combined(form, _brought(form, arrays)), len(group(form)), axis=_axis(form))
    arrays["dst"][...] = shares[position(form)]


def _all_to_all(form: Form, arrays: Mapping[str, Array]) -> None:
    members, mine = len(group(form)), position(form)
    parts = [np.split(part, members)[mine] for part in _brought(form, arrays)]
    arrays["dst"][...] = np.concatenate(parts)


def _permute(form: Form, arrays: Mapping[str, Array]) -> None:
    """dst is what the rank `source` sent; it stays as it is where none sends here."""
    source = form.attribute("source", -1)
    assert isinstance(source, int)
    if source >= 0:
        arrays["dst"][...] = _brought(form, arrays)[group(form).index(source)]
        arrays["dst.written"][...] = True


def _permute_reduce(form: Form, arrays: Mapping[str, Array]) -> None:
    source = form.attribute("source", -1)
    assert isinstance(source, int)
    at = group(form).index(source)
    pair = [_brought(form, arrays, role)[at] for role in ("src0", "src1")]
    arrays["dst"][...] = _combined(form, pair)
    arrays["dst.written"][...] = True


def _all_gather_v(form: Form, arrays: Mapping[str, Array]) -> None:
    """Every rank's one chunk lands at that rank's equal share of dst."""
    sends = [table.reshape(2, -1)[:, 0] for table in _brought(form, arrays, "sends")]
    _scatter_chunks(form, arrays, sends)


def _all_to_all_v(form: Form, arrays: Mapping[str, Array]) -> None:
    """Every rank sends each rank a chunk of its own."""
    mine = position(form)
    sends = [table.reshape(2, -1)[:, mine] for table in _brought(form, arrays, "sends")]
    _scatter_chunks(form, arrays, sends)


def _scatter_chunks(form: Form, arrays: Mapping[str, Array], sends: list[Array]) -> None:
    """Writes the chunk (count, displacement) of each rank's src into dst, and the counts."""
    members = len(group(form))
    dst, written = arrays["dst"].reshape(-1), np.zeros(arrays["dst"].size, np.bool_)
    share = dst.size // members
    places = arrays.get("displacements")
    for i, source in enumerate(_brought(form, arrays)):
        count, start = int(sends[i][0]), int(sends[i][1])
        chunk = source.reshape(-1)[start : start + count]
        at = i * share if places is None else int(places.reshape(-1)[i])
        room = share if places is None else dst.size - at
        if len(chunk) != count or count > room:
            raise KernelError(
                f"{form.op}: rank {group(form)[i]} sends {count} elements from {start} on, "
                f"src has {source.size}, dst has room for {room}",
                "the counts and displacements of metadata_tensor stay inside src and dst",
            )
        dst[at : at + count] = chunk
        written[at : at + count] = True
    arrays["dst"][...] = dst.reshape(arrays["dst"].shape)
    np.copyto(arrays["dst.written"], True, where=written.reshape(arrays["dst"].shape))
    if "counts" in arrays:
        counts = np.array([send[0] for send in sends], np.uint32)
        arrays["counts"][...] = counts.reshape(arrays["counts"].shape)


def _axis(form: Form) -> int:
    axis = form.attribute("collective_dim", 0)
    assert isinstance(axis, int)
    return axis


def _one_memory(form: Form, chip: Chip) -> str | None:
    dst = form.access("dst")
    assert dst is not None
    for access in _data(form):
        if access.layout.memory is not dst.layout.memory:
            return (
                f"{access.role} is in {access.layout.memory}, dst in {dst.layout.memory}, "
                "all must be in HBM or all in SBUF"
            )
        if access.layout.dtype != dst.layout.dtype:
            return f"{access.role} is {access.layout.dtype}, dst {dst.layout.dtype}"
    return None


def _data(form: Form) -> list[Access]:
    return [a for a in form.accesses if a.role in ("src", "src0", "src1")]


def _dimension(form: Form, chip: Chip) -> str | None:
    dst, axis = form.access("dst"), _axis(form)
    assert dst is not None
    gathers_sbuf = form.op == "all_gather" and dst.layout.memory is Memory.SBUF
    if axis not in ((0, 1) if gathers_sbuf else (0,)):
        return f"collective_dim is {axis}, must be {'0 or 1' if gathers_sbuf else '0'}"
    return None


def _scaled(out: int, into: int) -> Callable[[Form, Chip], str | None]:
    """A rule: dst has out ÷ into times the size of src along the dimension, × the group."""

    def rule(form: Form, chip: Chip) -> str | None:
        dst, src = form.access("dst"), form.access("src")
        assert dst is not None
        assert src is not None
        n, axis = len(group(form)), _axis(form)
        want = list(src.layout.shape)
        if axis < len(want):
            want[axis] = want[axis] * n**out // n**into
        whole = axis < len(want) and (src.layout.shape[axis] * n**out) % n**into == 0
        if not whole or dst.layout.shape != tuple(want):
            return f"src is {src.layout.shape}, dst {dst.layout.shape}, {n} ranks need {want}"
        return None

    return rule


def _same_shape(form: Form, chip: Chip) -> str | None:
    dst = form.access("dst")
    assert dst is not None
    for access in _data(form):
        if access.layout.shape != dst.layout.shape:
            return f"{access.role} is {access.layout.shape}, dst {dst.layout.shape}, must be equal"
    return None


def _whole_shares(form: Form, chip: Chip) -> str | None:
    src = form.access("src")
    assert src is not None
    count, members = src.layout.shape[0], len(group(form))
    return f"src has {count} rows, no multiple of {members} ranks" if count % members else None


def _operator(form: Form, chip: Chip) -> str | None:
    name = str(form.attribute("op", ""))
    return None if name in _COMBINE else f"op is {name}, must be one of {', '.join(_COMBINE)}"


_SEQUENCERS = (Engine.SYNC, Engine.GPSIMD, Engine.SCALAR, Engine.VECTOR, Engine.TENSOR)
_SOURCE = (
    "sim/collectives.py: hops and bytes over the links, by the algorithm that fits the size "
    "(SDK intranode-collective-comm.rst)"
)
_COMMON = ("channel", "coalesced", "priority", "rank", "ranks")


def _row(
    name: str,
    summary: str,
    roles: tuple[Role, ...],
    meaning: Callable[[Form, Mapping[str, Array]], None],
    rules: tuple[Callable[[Form, Chip], str | None], ...],
    attributes: tuple[str, ...] = (),
    partial: bool = False,
) -> Row:
    return Row(
        name=name,
        summary=summary,
        engines=on(*_SEQUENCERS),
        roles=roles,
        meaning=meaning,
        cost=costs.transfer_cost,
        source=_SOURCE,
        attributes=tuple(sorted((*_COMMON, *attributes))),
        rules=rules,
        partial=partial,
        across=True,
    )


_PAIR = (writes("dst", _EITHER), reads("src", _EITHER))
_HBM_PAIR = (writes("dst", _HBM), reads("src", _HBM))
_METADATA = (
    writes("counts", _EITHER, optional=True),
    reads("sends", _EITHER),
    reads("displacements", _EITHER, optional=True),
)

ROWS = (
    _row(
        "all_reduce",
        "dst = src of all ranks combined by op",
        _PAIR,
        _all_reduce,
        (_one_memory, _same_shape, _operator),
        ("op",),
    ),
    _row(
        "all_gather",
        "dst = src of all ranks one after another along collective_dim",
        _PAIR,
        _all_gather,
        (_one_memory, _dimension, _scaled(1, 0)),
        ("collective_dim",),
    ),
    _row(
        "reduce_scatter",
        "dst = this rank's share of src of all ranks combined by op",
        _PAIR,
        _reduce_scatter,
        (_one_memory, _dimension, _scaled(0, 1), _operator),
        ("collective_dim", "op"),
    ),
    _row(
        "all_to_all",
        "dst = this rank's share of src of each rank, one after another",
        _HBM_PAIR,
        _all_to_all,
        (_one_memory, _dimension, _same_shape, _whole_shares),
        ("collective_dim",),
    ),
    _row(
        "all_gather_v",
        "a chunk of each rank's src, as long as that rank's metadata says, at its share of dst",
        (*_HBM_PAIR, *_METADATA),
        _all_gather_v,
        (_one_memory,),
        partial=True,
    ),
    _row(
        "all_to_all_v",
        "the chunk that each rank's metadata has for this one, at that rank's place in dst",
        (*_HBM_PAIR, *_METADATA),
        _all_to_all_v,
        (_one_memory,),
        partial=True,
    ),
    _row(
        "collective_permute",
        "dst = src of the rank that is paired with this one; unchanged if there is none",
        _HBM_PAIR,
        _permute,
        (_one_memory, _same_shape),
        ("source",),
        partial=True,
    ),
    _row(
        "collective_permute_implicit",
        "dst = src of the rank before this one in the ring",
        _PAIR,
        _permute,
        (_one_memory, _same_shape),
        ("source",),
        partial=True,
    ),
    _row(
        "collective_permute_implicit_reduce",
        "dst = op(src0, src1) of the rank before this one in the ring",
        (writes("dst", _EITHER), reads("src0", _EITHER), reads("src1", _EITHER)),
        _permute_reduce,
        (_one_memory, _same_shape, _operator),
        ("op", "source"),
        partial=True,
    ),
)
