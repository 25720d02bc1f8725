"""`nki.collectives`: what the ranks of a group do together, each with a memory of its own.

The ranks of a run are recorded side by side, each as a program of its own; a collective holds all
cores of every rank of the group until the last is there. Cores of one rank that pass the same
tensors of shared HBM make one collective together, others one each. Where only shapes are recorded
there is one rank, and the group tells the rest.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from accel.errors import KernelError
from accel.nki.cores import Wait
from accel.nki.enums import operation_name
from accel.nki.objects import NKIObject
from accel.nki.operands import READ, WRITE, AnyEngine, direct, given, integers
from accel.nki.recorder import Array, Attributes, Operand, Recorder, current
from accel.nki.registers import Number, VirtualRegister, register_alloc
from accel.nki.tensor import Tensor
from accel.program import Memory

_MAX_CHANNELS = 4


class ReplicaGroup(NKIObject):
    """Ranks that take part in a collective: a list of groups of ranks, none in two groups."""

    def __init__(self, replica_groups: object = (), **fields: object) -> None:
        super().__init__(replica_groups=replica_groups, **fields)


Groups = ReplicaGroup | Sequence[Sequence[int]]
Tensors = Sequence[Tensor]


@dataclass(frozen=True, slots=True)
class _Part:
    """One instruction that a core brings to a collective."""

    recorder: Recorder
    core: int
    form: int
    places: tuple[tuple[int, int], ...]
    source: int
    shared: bool


def all_reduce(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: Groups,
    op: object,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """dst = src of all ranks of the group combined by op (add, minimum or maximum)."""
    options = given(op=operation_name(op))
    _exchange_tensors("all_reduce", srcs, dsts, replica_group, priority, options)


def all_gather(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: Groups,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """dst = src of all ranks of the group one after another along `collective_dim`."""
    options = given(collective_dim=operator.index(collective_dim))
    _exchange_tensors("all_gather", srcs, dsts, replica_group, priority, options)


def reduce_scatter(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: Groups,
    collective_dim: int,
    op: object,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """dst = this rank's share, along `collective_dim`, of src of all ranks combined by op."""
    options = given(collective_dim=operator.index(collective_dim), op=operation_name(op))
    _exchange_tensors("reduce_scatter", srcs, dsts, replica_group, priority, options)


def all_to_all(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: Groups,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """dst = this rank's share of src of each rank of the group, one after another."""
    options = given(collective_dim=operator.index(collective_dim))
    _exchange_tensors("all_to_all", srcs, dsts, replica_group, priority, options)


def all_gather_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: Groups,
    metadata_tensor: Tensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """One chunk of each rank's src, `metadata_tensor` says which, to that rank's share of dst.

    uint32 rows of `metadata_tensor`: count and start of the chunk sent, counts received (written
    unless `recv_counts_known`), places in dst (only with `has_rdispls`).
    """
    if has_rdispls:
        raise KernelError("all_gather_v: has_rdispls is not supported by the language yet")
    ranks, _ = _group("all_gather_v", replica_group)
    if len(ranks) != 4 or current().builder.cores != 2:
        raise KernelError(
            f"all_gather_v: {len(ranks)} ranks of {current().builder.cores} cores, "
            "the language supports 4 ranks of 2 cores"
        )
    pair = _pairs("all_gather_v", srcs, dsts, single=True)[0]
    rows = _metadata("all_gather_v", metadata_tensor, len(ranks), recv_counts_known, False)
    _meet("all_gather_v", ranks, [[*pair, *rows]], priority)


def all_to_all_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: Groups,
    metadata_tensor: Tensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """A chunk of src to each rank of the group; `metadata_tensor` (see `all_gather_v`) has a column
    a rank for what is sent there and received from there.
    """
    chip = current().chip
    if has_rdispls and chip.generation < 4:
        raise KernelError(f"all_to_all_v: has_rdispls is not supported on {chip.name}, only trn3")
    ranks, _ = _group("all_to_all_v", replica_group)
    pair = _pairs("all_to_all_v", srcs, dsts, single=True)[0]
    rows = _metadata("all_to_all_v", metadata_tensor, len(ranks), recv_counts_known, has_rdispls)
    _meet("all_to_all_v", ranks, [[*pair, *rows]], priority)


def collective_permute(
    srcs: Tensors,
    dsts: Tensors,
    source_target_pairs: Sequence[tuple[int, int]],
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """dst = src of the rank that a (source, target) pair names as this one's source."""
    op, recorder = "collective_permute", current()
    numbers = integers(source_target_pairs, f"{op}: source_target_pairs")
    sources, targets = numbers[::2], numbers[1::2]
    if len(sources) != len(targets) or len(set(targets)) != len(targets):
        raise KernelError(
            f"{op}: source_target_pairs is {list(source_target_pairs)}, "
            "needs (source, target) pairs with every target once"
        )
    ranks = tuple(sorted({*numbers}))
    pairs = _pairs(op, srcs, dsts, single=True)
    if recorder.rank in ranks:
        source = dict(zip(targets, sources, strict=True)).get(recorder.rank, -1)
        _meet(op, ranks, pairs, priority, given(source=source))


def collective_permute_implicit(
    srcs_by_channel: Sequence[Tensors],
    dsts_by_channel: Sequence[Tensors],
    replica_group: Groups,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """dst = src of the rank before this one in the ring of the group, channel by channel."""
    op = "collective_permute_implicit"
    channels = _channels(op, channel_ids, srcs_by_channel, dsts_by_channel)
    ranks, at = _group(op, replica_group)
    for channel, (srcs, dsts) in enumerate(channels):
        options = given(channel=channel or None, source=ranks[at - 1])
        _meet(op, ranks, _pairs(op, srcs, dsts, single=True), priority, options)


def collective_permute_implicit_reduce(
    srcs0_by_channel: Sequence[Tensors],
    srcs1_by_channel: Sequence[Tensors],
    dsts_by_channel: Sequence[Tensors],
    replica_group: Groups,
    op: object,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """dst = op(src0, src1) of the rank before this one in the ring, channel by channel."""
    call = "collective_permute_implicit_reduce"
    channels = _channels(call, channel_ids, srcs0_by_channel, srcs1_by_channel, dsts_by_channel)
    ranks, at = _group(call, replica_group)
    for channel, (srcs0, srcs1, dsts) in enumerate(channels):
        options = given(
            channel=channel or None,
            op=operation_name(op),
            source=ranks[at - 1],
        )
        second = _pairs(call, srcs1, dsts, single=True)[0][1][2]
        dst, src = _pairs(call, srcs0, dsts, single=True)[0]
        operands = [dst, ("src0", READ, src[2]), ("src1", READ, second)]
        _meet(call, ranks, [operands], priority, options)


def collective_permute_implicit_current_processing_rank_id(
    iteration_id: Number, replica_group: Groups, channel_id: int = 0, name: str | None = None
) -> VirtualRegister:
    """A register with the rank whose data this one has after `iteration_id` steps of the ring."""
    call = "collective_permute_implicit_current_processing_rank_id"
    ranks, at = _group(call, replica_group)
    return register_alloc(ranks[(at - operator.index(iteration_id)) % len(ranks)])


def rank_id(name: str | None = None) -> VirtualRegister:
    """A register with the number of this rank."""
    return register_alloc(current().rank)


def _group(call: str, groups: Groups) -> tuple[tuple[int, ...], int]:
    """The group of this rank, and where in it the rank stands."""
    listed = getattr(groups, "replica_groups", groups)
    if not isinstance(listed, Sequence) or not all(isinstance(g, Sequence) for g in listed):
        raise KernelError(f"{call}: replica_group is {groups!r}, needs ReplicaGroup([[0, 1], ...])")
    parsed = [integers(members, f"{call}: replica_group") for members in listed]
    every = [rank for members in parsed for rank in members]
    if len(set(every)) < len(every):
        raise KernelError(f"{call}: a rank is in replica_group {parsed} twice")
    mine = current().rank
    for members in parsed:
        if mine in members:
            return members, members.index(mine)
    raise KernelError(
        f"{call}: rank {mine} is in no group of replica_group {parsed}",
        "every rank is in one group; accel run --rank names the one to record",
    )


def _priority(value: int | None) -> Attributes:
    if value is None:
        return ()
    chip = current().chip
    if chip.generation < 4:
        raise KernelError(f"priority is {value!r}, {chip.name} has none: only trn3")
    if operator.index(value) not in range(4):
        raise KernelError(f"priority is {value}, must be 0 to 3")
    return given(priority=operator.index(value))


def _pairs(call: str, srcs: Tensors, dsts: Tensors, single: bool = False) -> list[list[Operand]]:
    """(dst, src) operands of each tensor of a coalesced call."""
    for role, tensors in (("srcs", srcs), ("dsts", dsts)):
        if not isinstance(tensors, Sequence) or not tensors:
            raise KernelError(f"{call}: {role} is {tensors!r}, needs a list of tensors")
        for number, tensor in enumerate(tensors):
            direct(call, f"{role}[{number}]", tensor)
    if len(srcs) != len(dsts) or (single and len(srcs) > 1):
        wanted = "needs one of each" if single else "needs as many"
        raise KernelError(f"{call}: {len(srcs)} srcs and {len(dsts)} dsts, {wanted}")
    if len(srcs) > 1 and srcs[0].memory is not Memory.HBM:
        raise KernelError(f"{call}: {len(srcs)} srcs in {srcs[0].buffer}, several only in HBM")
    return [[("dst", WRITE, dst), ("src", READ, src)] for dst, src in zip(dsts, srcs, strict=True)]


def _channels(
    call: str, channel_ids: Sequence[int], *by_channel: Sequence[Tensors]
) -> Iterator[tuple[Tensors, ...]]:
    ids = integers(list(channel_ids), f"{call}: channel_ids")
    if ids != tuple(range(len(ids))) or not 1 <= len(ids) <= _MAX_CHANNELS:
        raise KernelError(
            f"{call}: channel_ids is {list(ids)}, needs 0, 1, ... up to {_MAX_CHANNELS} channels"
        )
    counts = [len(tensors) for tensors in by_channel]
    if any(count != len(ids) for count in counts):
        raise KernelError(f"{call}: tensors of {counts} channels, channel_ids has {len(ids)}")
    return zip(*by_channel, strict=True)


def _metadata(call: str, table: Tensor, members: int, known: bool, placed: bool) -> list[Operand]:
    """The rows of `metadata_tensor` as operands."""
    rows = 4 if placed else 3
    direct(call, "metadata_tensor", table)
    wanted = (rows, members) if table.memory is Memory.HBM else (1, rows, members)
    if table.shape != wanted or table.dtype != "uint32":
        raise KernelError(
            f"{call}: metadata_tensor is {table.shape} {table.dtype}, must be {wanted} uint32"
        )

    def part(first: int, last: int) -> Tensor:
        lines = slice(first, last)
        return table[lines] if table.memory is Memory.HBM else table[:, lines]

    operands: list[Operand] = [] if known else [("counts", WRITE, part(2, 3))]
    operands.append(("sends", READ, part(0, 2)))
    return [*operands, ("displacements", READ, part(3, 4))] if placed else operands


def _exchange_tensors(
    call: str,
    srcs: Tensors,
    dsts: Tensors,
    groups: Groups,
    priority: int | None,
    options: Attributes,
) -> None:
    """A collective of whole tensors, one instruction a pair of them."""
    ranks, _ = _group(call, groups)
    _meet(call, ranks, _pairs(call, srcs, dsts), priority, options)


def _meet(
    call: str,
    ranks: tuple[int, ...],
    instructions: list[list[Operand]],
    priority: int | None,
    options: Attributes = (),
) -> None:
    """Waits for all cores of the ranks; the last to come carries the collective out for all."""
    recorder, options = current(), (*options, *_priority(priority))
    if recorder.ranks and max(ranks) >= recorder.ranks:
        raise KernelError(
            f"{call}: rank {max(ranks)} takes part, this run has {recorder.ranks}",
            "accel run --values --ranks N runs as many ranks as the groups name",
        )
    source = recorder.source()
    parts = []
    for number, operands in enumerate(instructions):
        own = (("rank", recorder.rank), ("ranks", ranks))
        first = (("coalesced", True),) if number else ()
        attributes = tuple(sorted((*options, *own, *first)))
        form, places = recorder.form(call, AnyEngine, operands, attributes)
        shared = all(t.memory is Memory.HBM for _, _, t in operands)
        parts.append(_Part(recorder, recorder.core, form, places, source, shared))
    count, place = recorder.builder.cores, str(recorder.builder.sources[source])
    firsts = [rank * count for rank in ranks] if recorder.ranks else [recorder.first_core]
    cores = tuple(first + core for first in firsts for core in range(count))
    static = tuple(pair for pair in options if pair[0] not in ("rank", "source"))
    wait = Wait(call, cores, (ranks, static, len(parts)), f"of ranks {ranks}", place, parts)
    recorder.cores.meet(wait, _carry_out, in_turn=True)


def _carry_out(brought: Mapping[int, object]) -> None:
    """Records each part in the program of its rank, with what the others of its kind brought.

    Cores are taken in order: the n-th core of every rank together.
    """
    by_core: dict[int, list[list[_Part]]] = {}
    for parts in brought.values():
        assert isinstance(parts, list)
        by_core.setdefault(parts[0].core, []).append(parts)
    done: set[tuple[int, tuple[tuple[int, int], ...]]] = set()
    for ranks in by_core.values():
        for together in zip(*ranks, strict=True):
            if all(p.shared and (id(p.recorder), p.places) in done for p in together):
                continue
            _exchange(together)
            done.update((id(part.recorder), part.places) for part in together)


def _exchange(parts: Sequence[_Part]) -> None:
    """One instruction of every rank; all read before any writes."""
    ordered = sorted(parts, key=_place_in_group)
    _check_alike(ordered)
    brought: dict[str, Array] = {}
    if len(ordered) > 1:
        for number, part in enumerate(ordered):
            values, form = part.recorder.values, part.recorder.builder.forms[part.form]
            assert values is not None
            line = str(part.recorder.builder.sources[part.source])
            read = values.sources(form, part.places, line)
            brought.update({f"{role}@{number}": array for role, array in read.items()})
    for part in ordered:
        part.recorder.emit_at(part.form, part.places, part.source, part.core, brought)


def _check_alike(parts: Sequence[_Part]) -> None:
    """Every rank brings operands of the same shape and dtype."""
    first = parts[0].recorder.builder.forms[parts[0].form]
    for part in parts[1:]:
        form = part.recorder.builder.forms[part.form]
        for mine, theirs in zip(form.accesses, first.accesses, strict=True):
            got, wanted = (f"{a.layout.shape} {a.layout.dtype}" for a in (mine, theirs))
            if got != wanted:
                raise KernelError(
                    f"{form.op}: {mine.role} is {got} on rank {part.recorder.rank}, "
                    f"{wanted} on rank {parts[0].recorder.rank}",
                    "every rank of a group brings tensors of the same shape and dtype",
                )


def _place_in_group(part: _Part) -> int:
    form = part.recorder.builder.forms[part.form]
    ranks = form.attribute("ranks", ())
    assert isinstance(ranks, tuple)
    return ranks.index(part.recorder.rank)


def __getattr__(name: str) -> object:
    raise AttributeError(f"nki.collectives has no {name!r}")
