"""Memory: gives every on-chip tile its bytes. Program → Placed.

Comes in: a `Program` whose SBUF and PSUM storages may or may not have addresses. Goes out:
`Placed`, where all have one. Tiles that do not fit at once are spilled: saved before another takes
their space and reloaded before their next use, by instructions added to the program, and a warning
says so. A PSUM tile spills to SBUF by a copy, an SBUF tile to HBM by DMA; what a load brought is
loaded again instead. Only the written part of a PSUM tile moves: a matmul adds to what was written.
Errors: a tile larger than its memory, addresses of the kernel's own that overlap while both tiles
are live, and an instruction whose own operands do not fit.

Space is handed from tile to tile: `taken_first`/`taken` say from which, and the first access to the
new tile has to wait for the last accesses to those.
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass

import numpy as np

from accel.chip import Chip
from accel.dtypes import itemsize
from accel.errors import KernelError
from accel.program import (
    Access,
    Engine,
    Form,
    Kind,
    Layout,
    Memory,
    Mode,
    Program,
    Storage,
    classes_of,
)
from accel.sim.geometry import MEMORIES, MODES, Boxes, Flags, Ints, Stores, boxes_of, stores_of
from accel.sim.placement import (
    ADDRESS,
    COLUMNS,
    COPY,
    DROP,
    EMPTY,
    FETCH,
    LAST,
    LONG,
    MOVED,
    NEXT,
    RELOAD,
    SAVE,
    SIZE,
    STAY,
    STAYS,
    USED,
    by_taker,
    next_uses,
    takeovers,
    walk,
)

# Spills are the compiler's: their descriptors are ready, and they have queues of their own.
_SPILL_ATTRIBUTES: dict[str, str | bool] = {"dge_mode": "none", "spill": True}

_READ, _WRITE = MODES[Mode.READ], MODES[Mode.WRITE]


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A program whose on-chip storages all have an address (`address`, −1 off chip).

    `spills`: the instructions that placement added, sorted. Storage s takes over the bytes of the
    storages `taken[taken_first[s]:taken_first[s + 1]]`.
    """

    program: Program
    stores: Stores
    boxes: Boxes
    address: Ints
    spills: Ints
    taken_first: Ints
    taken: Ints
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Pool:
    """One memory of one core."""

    memory: Memory
    core: int
    capacity: int
    bank: int


def place(program: Program, chip: Chip) -> Placed:
    """Addresses for every on-chip storage; KernelError where the machine has no room."""
    warnings: list[str] = []
    added: Ints = np.zeros(0, np.int64)
    stores = stores_of(program)
    boxes = boxes_of(program, stores)
    uses = _uses(program, stores, boxes)
    address = np.where(_on_chip(stores), stores.address, -1)
    # PSUM first: what it spills are SBUF tiles, which have to be placed too.
    for pool in _pools(program, chip):
        result = _fill(program, stores, boxes, uses, address, pool)
        result = _in_pieces(program, boxes, result, pool)
        address, moves = result.address, result.moves
        if len(moves):
            before = moves[moves[:, 1] != DROP, 0]
            program, address, position = _rewritten(program, boxes, result, pool)
            fresh = position[before + np.arange(len(before))]
            old = position[added + np.searchsorted(before, added, side="right")]
            added = np.sort(np.concatenate((old, fresh)))
            stores = stores_of(program)
            boxes = boxes_of(program, stores)
            uses = _uses(program, stores, boxes)
            warnings.append(_spill_warning(program, fresh, pool))
    first, taken = _handed_over(program, stores, uses, address, chip)
    return Placed(program, stores, boxes, address, added, first, taken, tuple(warnings))


def unplaced(program: Program) -> Placed:
    """As if on-chip memory had no limits (for ablation)."""
    stores = stores_of(program)
    none = np.zeros(0, np.int64)
    first = np.zeros(len(stores.kind) + 1, np.int64)
    boxes = boxes_of(program, stores)
    return Placed(program, stores, boxes, stores.address, none, first, none, ())


def addressed(placed: Placed) -> Program:
    """The placed program with the addresses written into its storages."""
    storages = tuple(
        dataclasses.replace(storage, address=int(address)) if address >= 0 else storage
        for storage, address in zip(placed.program.storages, placed.address, strict=True)
    )
    return dataclasses.replace(
        placed.program, storages=storages, storage_class=classes_of(storages)
    )


def _pools(program: Program, chip: Chip) -> list[_Pool]:
    psum, bank = chip.psum_bank_bytes * chip.psum_banks, chip.psum_bank_bytes
    sizes = ((Memory.PSUM, psum, bank), (Memory.SBUF, chip.sbuf_usable_bytes, 0))
    return [
        _Pool(memory, core, capacity, bank)
        for (memory, capacity, bank), core in itertools.product(sizes, range(program.cores))
    ]


def _on_chip(stores: Stores) -> Flags:
    """Which storages have partitions."""
    codes = [MEMORIES.index(Memory.SBUF), MEMORIES.index(Memory.PSUM)]
    return np.isin(stores.memory, codes)


def _members(program: Program, stores: Stores, pool: _Pool) -> Flags:
    members: Flags = stores.memory == MEMORIES.index(pool.memory)
    if program.cores > 1:
        members &= np.array([s.core == pool.core for s in program.storages], np.bool_)
    return members


@dataclass(frozen=True, slots=True, eq=False)
class _Filled:
    """What the walk answered: addresses by storage, the stay of each operand, stays, moves."""

    address: Ints
    stay: Ints
    stays: Ints
    moves: Ints


@dataclass(frozen=True, slots=True, eq=False)
class _Uses:
    """When storages are used. By operand: the next instruction that uses its storage, whether it
    overwrites all of it, whether a load from the caller's tensors does. By storage: the first and
    last instruction, −1 for none.
    """

    following: Ints
    first: Ints
    last: Ints
    overwrites: Flags
    loads: Flags


@dataclass(frozen=True, slots=True, eq=False)
class _Demand:
    """What the tiles of a pool ask for: the walk's inputs. Arrays by storage."""

    members: Flags
    address: Ints
    uses: _Uses

    @property
    def used(self) -> Flags:
        """Members that some instruction touches."""
        return self.members & (self.uses.first >= 0)


def _fill(
    program: Program, stores: Stores, boxes: Boxes, uses: _Uses, address: Ints, pool: _Pool
) -> _Filled:
    """Stays for the tiles of a pool, with as few moves as two ways of placing them need."""
    demand = _Demand(_members(program, stores, pool), address, uses)
    _check_sizes(program, stores, demand.members, address, pool)
    nowhere = np.zeros(len(address), np.bool_)
    rotated = _walked(program, stores, boxes, demand, pool, nowhere)
    born, died = (
        np.bincount(at[demand.used], stores.partition_bytes[demand.used], len(program) + 1).cumsum()
        for at in (uses.first, uses.last)
    )
    most_live = (born - np.concatenate(([0], died[:-1]))).max()
    if not len(rotated.moves) or most_live > pool.capacity:
        return rotated
    # There is room, only not in one piece: keep what stays away from what comes and goes.
    stays = demand.used & (born[uses.last] - born[uses.first] > pool.capacity // 4)
    return min(
        (rotated, _walked(program, stores, boxes, demand, pool, stays)),
        key=lambda filled: len(filled.moves),
    )


def _in_pieces(program: Program, boxes: Boxes, filled: _Filled, pool: _Pool) -> _Filled:
    """Saves and reloads of PSUM tiles written in part become one of each piece that was written.

    The last column of such a move is an operand that wrote the piece, −1 where all of it moves.
    """
    if pool.memory is not Memory.PSUM or not len(filled.moves):
        return filled
    rows: list[tuple[int, int, int, int]] = []
    pieces: dict[int, list[int]] = {}
    for before, kind, stay, load in filled.moves.tolist():
        s = int(filled.stays[stay, 0])
        if kind == SAVE:
            pieces[s] = _written_pieces(program, boxes, s, before)
        parts = pieces[s] if kind in (SAVE, RELOAD) else [load]
        rows.extend((before, kind, stay, part) for part in parts)
    return dataclasses.replace(filled, moves=np.array(rows, np.int64))


def _written_pieces(program: Program, boxes: Boxes, s: int, before: int) -> list[int]:
    """Operands that wrote the tile's different pieces before an instruction; [−1] for all of it."""
    storage = program.storages[s]
    mine = (boxes.storage == s) & (boxes.mode != _READ) & (boxes.instruction < before)
    pieces: dict[tuple[Layout, int], int] = {}
    painted = np.zeros((storage.shape[0], storage.partition_bytes), np.bool_)
    for k in np.flatnonzero(mine).tolist():
        layout, offset = _operand_layout(program, boxes, k), int(program.offset[k])
        pieces.setdefault((layout, offset), k)
        steps = (storage.partition_bytes, *(step for step, _ in layout.pattern), 1)
        shape = (*layout.shape, itemsize(layout.dtype))
        np.ndarray(shape, np.bool_, painted.data, offset, steps)[...] = True
    return [-1] if painted.all() else list(pieces.values())


def _operand_layout(program: Program, boxes: Boxes, k: int) -> Layout:
    index = int(boxes.instruction[k])
    access, _, _ = program.operands(index)[k - int(program.first_operand[index])]
    return access.layout


def _uses(program: Program, stores: Stores, boxes: Boxes) -> _Uses:
    count = len(stores.kind)
    following, first, last = next_uses(len(program), count, boxes.instruction, boxes.storage)
    whole = (stores.partitions * stores.partition_bytes)[boxes.storage]
    overwrites = (boxes.mode == _WRITE) & (boxes.touched >= whole)
    loads = overwrites & _loads(program, stores, boxes)[boxes.instruction]
    return _Uses(following, first, last, overwrites, loads)


def _walked(
    program: Program, stores: Stores, boxes: Boxes, demand: _Demand, pool: _Pool, top: Flags
) -> _Filled:
    """One walk; storages marked in `top` go to the top of the memory."""
    # A stay is evicted at most once and filled at most once, so twice as many moves suffice.
    most = len(boxes.storage) + len(top)
    stay, stays = np.full(len(boxes.storage), -1, np.int64), np.empty((most, 3), np.int64)
    moves, tally = np.empty((2 * most, 4), np.int64), np.zeros(4, np.int64)
    failed = walk(
        boxes.first_operand,
        boxes.storage,
        demand.uses.following,
        boxes.mode != _READ,
        demand.uses.overwrites,
        demand.uses.loads,
        demand.members,
        _tile_rows(stores, demand, top, len(program)),
        _fixed_rows(stores, demand),
        (pool.capacity, pool.bank),
        stay,
        stays,
        moves,
        tally,
    )
    stays, moves = stays[: tally[STAYS]], moves[: tally[MOVED]]
    if failed >= 0:
        raise _no_room(program, stores, int(boxes.instruction[failed]), demand.members, pool)
    placed = demand.address.copy()
    # Backwards, because the first stay of a storage is the one that keeps its number.
    placed[stays[::-1, 0]] = stays[::-1, 1]
    return _Filled(placed, stay, stays, moves)


def _tile_rows(stores: Stores, demand: _Demand, top: Flags, end: int) -> Ints:
    """The walk's state of each storage before the first instruction."""
    rows = np.zeros((len(top), COLUMNS), np.int64)
    rows[:, SIZE], rows[:, ADDRESS] = stores.partition_bytes, demand.address
    rows[:, LAST], rows[:, LONG] = demand.uses.last, top
    rows[:, STAY], rows[:, NEXT], rows[:, USED], rows[:, COPY] = -1, end, -(end + 1), EMPTY
    return rows


def _fixed_rows(stores: Stores, demand: _Demand) -> Ints:
    """(first byte, end, first use, last use) of each address of the kernel's own."""
    fixed = np.flatnonzero(demand.used & (demand.address >= 0))
    low = demand.address[fixed]
    high = low + stores.partition_bytes[fixed]
    return np.stack((low, high, demand.uses.first[fixed], demand.uses.last[fixed]), axis=1)


def _loads(program: Program, stores: Stores, boxes: Boxes) -> Flags:
    """Instructions that fill a tile from what the caller owns and nobody writes."""
    written = np.zeros(len(stores.kind), np.bool_)
    written[program.storage[boxes.mode != _READ]] = True
    constant = stores.given & ~written
    plain = np.array([form.op == "dma_copy" for form in program.forms], np.bool_)
    pairs = np.diff(program.first_operand) == 2
    result: Flags = plain[program.form] & pairs
    candidates = np.flatnonzero(result)
    operands = program.first_operand[candidates][:, None] + np.arange(2)
    result[candidates] = constant[program.storage[operands]].any(axis=1)
    return result


def _check_sizes(
    program: Program,
    stores: Stores,
    members: Flags,
    address: Ints,
    pool: _Pool,
) -> None:
    end = np.maximum(address, 0) + stores.partition_bytes
    over = np.flatnonzero(members & (end > pool.capacity))
    if not len(over):
        return
    s = int(over[0])
    name, size = program.storages[s].name, int(stores.partition_bytes[s])
    where = f" at byte {address[s]}" if address[s] >= 0 else ""
    raise KernelError(
        f"{name}: {size} bytes a partition{where}, {pool.memory} has {pool.capacity}",
        "split the tile" if address[s] < 0 else "choose a lower address or a smaller tile",
        _first_place(program, s),
    )


def _no_room(
    program: Program, stores: Stores, index: int, members: Flags, pool: _Pool
) -> KernelError:
    numbers = {number for _, number, _ in program.operands(index) if members[number]}
    needed = sum(int(stores.partition_bytes[number]) for number in numbers)
    op = program.forms[program.form[index]].op
    return KernelError(
        f"{op}: no room in {pool.memory} for its operands: they need {needed} bytes a partition, "
        f"{pool.capacity} are not in use by explicit addresses at best",
        "make the tiles smaller or free explicit addresses",
        program.place(index),
    )


def _first_place(program: Program, storage: int) -> str:
    uses = np.flatnonzero(program.storage == storage)
    if not len(uses):
        return ""
    return program.place(int(np.searchsorted(program.first_operand, uses[0], side="right")) - 1)


def _handed_over(
    program: Program, stores: Stores, uses: _Uses, address: Ints, chip: Chip
) -> tuple[Ints, Ints]:
    """Compressed lists storage → storages whose bytes it takes; KernelError on live overlap."""
    first, last = uses.first, uses.last
    found = [np.zeros((0, 2), np.int64)]
    for pool in _pools(program, chip):
        used = np.flatnonzero(_members(program, stores, pool) & (first >= 0))
        order = used[np.argsort(first[used], kind="stable")]
        pairs, earlier, later = takeovers(
            order,
            address,
            address + stores.partition_bytes,
            stores.start_partition,
            stores.partitions,
            first,
            last,
        )
        if earlier >= 0:
            raise _overlap(program, stores, address, int(earlier), int(later), int(first[later]))
        found.append(pairs)
    starts, taken = by_taker(np.concatenate(found), len(stores.kind))
    return starts, taken


def _overlap(
    program: Program, stores: Stores, address: Ints, earlier: int, later: int, index: int
) -> KernelError:
    a, b = (
        f"{program.storages[s].name} (bytes {address[s]}–{address[s] + stores.partition_bytes[s]})"
        for s in (earlier, later)
    )
    return KernelError(
        f"{program.storages[later].memory}: {a} and {b} overlap while both are in use",
        "give one of them another address, or finish with the first before using the second",
        program.place(index),
    )


def _rewritten(
    program: Program, boxes: Boxes, filled: _Filled, pool: _Pool
) -> tuple[Program, Ints, Ints]:
    """The program with its moves, the addresses, and the indices of the added instructions."""
    number = _Renumbered(program, boxes, filled, pool)
    dropped = filled.moves[filled.moves[:, 1] == DROP, 3]
    moves = filled.moves[filled.moves[:, 1] != DROP]
    before = moves[:, 0]
    # A fetch shows the line of its load, a save or reload the line that needs the space.
    cause = np.where(moves[:, 1] == FETCH, moves[:, 3], before)
    index = {form: i for i, form in enumerate(program.forms)}
    form_numbers: list[int] = []
    storages: list[int] = []
    offsets: list[int] = []
    for _, kind, stay, load in moves.tolist():
        form, operands = number.move(program, kind, stay, load)
        form_numbers.append(index.setdefault(form, len(index)))
        storages.extend(storage for storage, _ in operands)
        offsets.extend(offset for _, offset in operands)
    member = filled.stay >= 0
    storage = program.storage.copy()
    storage[member] = np.array(number.of_stay, np.int32)[filled.stay[member]]
    kept = np.ones(len(program), np.bool_)
    kept[dropped] = False
    counts = np.diff(program.first_operand)
    kept = np.insert(kept, before, True)
    wide = np.insert(counts, before, 2)
    operand_kept = np.repeat(kept, wide)
    at = np.repeat(program.first_operand[before], 2)
    first_operand = np.zeros(int(kept.sum()) + 1, np.int64)
    np.cumsum(wide[kept], out=first_operand[1:])
    rewritten = dataclasses.replace(
        program,
        storages=tuple(number.storages),
        storage_class=classes_of(number.storages),
        forms=tuple(index),
        form=np.insert(program.form, before, form_numbers)[kept],
        core=np.insert(program.core, before, program.core[before])[kept],
        source=np.insert(program.source, before, program.source[cause])[kept],
        first_operand=first_operand,
        storage=np.insert(storage, at, storages)[operand_kept],
        offset=np.insert(program.offset, at, offsets)[operand_kept],
    )
    address = np.concatenate((filled.address, np.array(number.new_addresses, np.int64)))
    position = np.cumsum(kept) - 1
    return rewritten, address, position


class _Renumbered:
    """Storages of the rewritten program: later stays and spill areas are new ones at the end."""

    def __init__(self, program: Program, boxes: Boxes, filled: _Filled, pool: _Pool) -> None:
        self.boxes = boxes
        self.storages = list(program.storages)
        self.new_addresses: list[int] = []
        self.of_stay: list[int] = []
        self.spill_of: dict[int, int] = {}
        self.of = filled.stays[:, 0].tolist()
        self.pool = pool
        seen: dict[int, int] = {}
        for s, start in zip(self.of, filled.stays[:, 1].tolist(), strict=True):
            seen[s] = seen.get(s, -1) + 1
            if seen[s] == 0:
                self.of_stay.append(s)
            else:
                name = f"{program.storages[s].name}.reload{seen[s]}"
                self.of_stay.append(self._add(program.storages[s], name, start))

    def move(
        self, program: Program, kind: int, stay: int, load: int
    ) -> tuple[Form, list[tuple[int, int]]]:
        """The instruction of a move and its operands. `load`: the instruction that a fetch repeats,
        or the operand that wrote the piece to move.
        """
        if kind == FETCH:
            return self._fetch(program, stay, load)
        s = self.of[stay]
        if s not in self.spill_of:
            self.spill_of[s] = self._add_spill(program.storages[s])
        layout = None if load < 0 else _operand_layout(program, self.boxes, load)
        offset = 0 if load < 0 else int(program.offset[load])
        form = _move_form(program.storages[s], layout, kind, self.pool)
        pair = [(self.of_stay[stay], offset), (self.spill_of[s], offset)]
        return form, pair if kind == RELOAD else pair[::-1]

    def _fetch(self, program: Program, stay: int, load: int) -> tuple[Form, list[tuple[int, int]]]:
        """The load that brought the contents, once more."""
        form = program.forms[program.form[load]]
        attributes = dict(form.attributes) | _SPILL_ATTRIBUTES
        again = dataclasses.replace(form, attributes=tuple(sorted(attributes.items())))
        operands = [
            (storage if access.mode is Mode.READ else self.of_stay[stay], offset)
            for access, storage, offset in program.operands(load)
        ]
        return again, operands

    def _add(self, storage: Storage, name: str, address: int) -> int:
        self.storages.append(dataclasses.replace(storage, name=name))
        self.new_addresses.append(address)
        return len(self.storages) - 1

    def _add_spill(self, storage: Storage) -> int:
        memory = Memory.SBUF if self.pool.memory is Memory.PSUM else Memory.HBM
        area = dataclasses.replace(
            storage, memory=memory, kind=Kind.SCRATCH, address=None, start_partition=0
        )
        return self._add(area, f"{storage.name}.spill", -1)


def _move_form(storage: Storage, piece: Layout | None, kind: int, pool: _Pool) -> Form:
    """The instruction that saves or reloads a tile, or a piece of a PSUM tile."""
    width, row = itemsize(storage.dtype), storage.partition_bytes
    partitions, elements = storage.shape[0], row // width
    tile = piece or Layout(pool.memory, storage.dtype, partitions, ((width, elements),))
    attributes: tuple[tuple[str, str | bool], ...] = ()
    if pool.memory is Memory.PSUM:
        area, op = dataclasses.replace(tile, memory=Memory.SBUF), "tensor_copy"
    else:
        area = Layout(Memory.HBM, storage.dtype, 0, ((row, partitions), (width, elements)))
        op, attributes = "dma_copy", tuple(_SPILL_ATTRIBUTES.items())
    target, source = (area, tile) if kind == SAVE else (tile, area)
    accesses = (Access("dst", Mode.WRITE, target), Access("src", Mode.READ, source))
    return Form(op, Engine.ANY, accesses, attributes)


def _spill_warning(program: Program, fresh: Ints, pool: _Pool) -> str:
    tiles = {program.storages[s].name.split(".reload")[0] for s in _moved_tiles(program, fresh)}
    shown = ", ".join(sorted(tiles)[:3]) + (", …" if len(tiles) > 3 else "")
    where = "sbuf" if pool.memory is Memory.PSUM else "hbm"
    return (
        f"{pool.memory}: {len(fresh)} moves to and from {where}, because {pool.capacity} bytes a "
        f"partition do not hold {shown}"
    )


def _moved_tiles(program: Program, fresh: Ints) -> set[int]:
    """The tiles that the added instructions move, without their spill areas."""
    return {
        number
        for index in fresh.tolist()
        for _, number, _ in program.operands(index)
        if not program.storages[number].name.endswith(".spill")
    }
