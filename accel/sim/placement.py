"""Placement: the compiled walk that gives every tile of one memory its bytes.

Comes in: when each tile is used, and how big it is. Goes out: stays (one tile over one stretch of
time at one address) and moves (what is done with tiles that have to make room).

A tile is born at its first access and dead after its last, in program order. Space is handed out
next-fit round the partition, so what was freed longest ago is reused first and the engines can run
ahead; a tile marked LONG goes to the top instead, out of the way of the others. A tile that finds
no gap evicts the tiles whose next use is furthest. What an evicted tile holds is saved, unless it
is still what one load brought from the caller's tensors: then it is fetched again, and a load whose
tile goes before anyone read it is dropped. A bank (PSUM) is never straddled by a tile that fits in
one, and gets one tile while there are banks to spare.

State of a storage is one row of `tiles` (columns below), a stay one row of `stays` (storage, first
byte, end). `live[:count]` are the stays that hold bytes now, by address. `fixed` has a row (first
byte, end, first use, last use) for each address of the kernel's own.
"""

from __future__ import annotations

import numpy as np

from accel.sim.compiled import compiled
from accel.sim.geometry import Flags, Ints

Limits = tuple[int, int]  # bytes a partition, bytes a bank (0: no banks)

SAVE, RELOAD, FETCH, DROP = 0, 1, 2, 3

# Columns of a storage's row: bytes a partition; address given (−1: none); last use; stay (−1: not
# resident); next use; most recent use; where its contents also are; whether a load is unread;
# whether it goes to the top.
SIZE, ADDRESS, LAST, STAY, NEXT, USED, COPY, UNREAD, LONG = range(9)
COLUMNS = 9

# What the walk counts: live stays, stays, moves; and where the next gap is looked for.
LIVE, STAYS, MOVED, POINTER = range(4)

# Values of COPY: nothing in it yet, nowhere else, saved; ≥ 0 the load that brought it.
EMPTY, ONLY, SAVED = -3, -2, -1

# A tile is not evicted so many instructions after its last use if another can be: what takes its
# space has to wait for that use, and a reload that waits for the instruction just before is late.
RESTING = 8


@compiled
def next_uses(count: int, stores: int, instruction: Ints, storage: Ints) -> tuple[Ints, Ints, Ints]:
    """For each operand the next instruction that accesses its storage (`count` if none), and for
    each storage the first and last (−1 for a storage that is never accessed)."""
    following = np.empty(len(storage), np.int64)
    first = np.full(stores, -1, np.int64)
    last = np.full(stores, -1, np.int64)
    upcoming = np.full(stores, count, np.int64)
    pending = np.full(stores, count, np.int64)
    for k in range(len(storage) - 1, -1, -1):
        s, i = storage[k], instruction[k]
        if first[s] != i:
            # Several operands of one instruction may share a storage: they have one next use.
            pending[s] = upcoming[s]
            upcoming[s] = i
        following[k] = pending[s]
        first[s] = i
        if last[s] < 0:
            last[s] = i
    return following, first, last


@compiled
def _aligned(address: int, size: int, bank: int) -> int:
    """The first legal start at or after `address`: on 4 bytes, inside one bank or on its edge."""
    address = (address + 3) // 4 * 4
    if bank > 0 and address % bank + min(size, bank) > bank:
        address = (address // bank + 1) * bank
    if bank > 0 and size > bank:
        address = (address + bank - 1) // bank * bank
    return address


@compiled
def _blocked(fixed: Ints, low: int, high: int, first: int, last: int) -> int:
    """End of the kernel's own addresses that meet [low, high) in [first, last]; −1 if none do."""
    end = -1
    for f in range(len(fixed)):
        meets = fixed[f, 2] <= last and fixed[f, 3] >= first
        if meets and fixed[f, 0] < high and fixed[f, 1] > low:
            end = max(end, fixed[f, 1])
    return end


@compiled
def _gap(
    stays: Ints,
    live: Ints,
    count: int,
    fixed: Ints,
    limits: Limits,
    size: int,
    pointer: int,
    first: int,
    last: int,
) -> int:
    """The first gap of `size` bytes at or after `pointer`, wrapping once; −1 if there is none."""
    capacity, bank = limits
    for origin in (pointer, 0):
        low = _aligned(origin, size, bank)
        n = 0
        while low + size <= capacity:
            while n < count and stays[live[n], 2] <= low:
                n += 1
            if n < count and stays[live[n], 1] < low + size:
                low = _aligned(stays[live[n], 2], size, bank)
                continue
            end = _blocked(fixed, low, low + size, first, last)
            if end < 0:
                return low
            low = _aligned(end, size, bank)
    return -1


@compiled
def _top_gap(
    stays: Ints,
    live: Ints,
    count: int,
    fixed: Ints,
    capacity: int,
    size: int,
    first: int,
    last: int,
) -> int:
    """The highest gap of `size` bytes; −1 if there is none."""
    low = (capacity - size) // 4 * 4
    n = count - 1
    while low >= 0:
        while n >= 0 and stays[live[n], 1] >= low + size:
            n -= 1
        if n >= 0 and stays[live[n], 2] > low:
            low = (stays[live[n], 1] - size) // 4 * 4
            continue
        if _blocked(fixed, low, low + size, first, last) < 0:
            return low
        low -= 4
    return -1


@compiled
def _window(
    tiles: Ints,
    stays: Ints,
    live: Ints,
    count: int,
    fixed: Ints,
    limits: Limits,
    size: int,
    first: int,
    last: int,
    resting: int,
) -> int:
    """The window whose tiles are needed again last, −1 if there is none whose tiles have all
    rested: were last used more than `resting` instructions before."""
    capacity, bank = limits
    best, best_next, best_bytes = -1, -1, 0
    banks = capacity // bank if bank > 0 else 1
    for c in range(count + banks):
        origin = stays[live[c], 2] if c < count else (c - count) * bank
        low = _aligned(origin, size, bank)
        if low + size > capacity or _blocked(fixed, low, low + size, first, last) >= 0:
            continue
        needed, occupied, legal = 1 << 60, 0, True
        for n in range(count):
            if stays[live[n], 2] <= low or stays[live[n], 1] >= low + size:
                continue
            tile = tiles[stays[live[n], 0]]
            legal = legal and tile[USED] < first - resting
            needed = min(needed, tile[NEXT])
            occupied += tile[SIZE]
        better = needed > best_next or (needed == best_next and occupied < best_bytes)
        if legal and better:
            best, best_next, best_bytes = low, needed, occupied
    return best


@compiled
def _without_dead(tiles: Ints, stays: Ints, live: Ints, tally: Ints, i: int, end: int) -> None:
    """Drops the stays whose tile is never used again."""
    kept = 0
    for n in range(tally[LIVE]):
        tile = tiles[stays[live[n], 0]]
        if tile[NEXT] < end or tile[USED] == i:
            live[kept] = live[n]
            kept += 1
    tally[LIVE] = kept


@compiled
def _evict(
    tiles: Ints, stays: Ints, live: Ints, moves: Ints, tally: Ints, i: int, low: int, high: int
) -> None:
    """Empties [low, high)."""
    kept = 0
    for n in range(tally[LIVE]):
        stay = live[n]
        if stays[stay, 2] <= low or stays[stay, 1] >= high:
            live[kept] = stay
            kept += 1
            continue
        tile = tiles[stays[stay, 0]]
        tile[STAY] = -1
        if tile[COPY] == ONLY:
            _move(moves, tally, i, SAVE, stay, -1)
            tile[COPY] = SAVED
        elif tile[COPY] >= 0 and tile[UNREAD] != 0:
            _move(moves, tally, i, DROP, stay, tile[COPY])
        tile[UNREAD] = 0
    tally[LIVE] = kept


@compiled
def _move(moves: Ints, tally: Ints, before: int, kind: int, stay: int, load: int) -> None:
    n = tally[MOVED]
    moves[n, 0], moves[n, 1], moves[n, 2], moves[n, 3] = before, kind, stay, load
    tally[MOVED] += 1


@compiled
def _settle(stays: Ints, live: Ints, tally: Ints, low: int) -> None:
    """Registers the newest stay among the live ones, by address."""
    n = tally[LIVE]
    while n > 0 and stays[live[n - 1], 1] > low:
        live[n] = live[n - 1]
        n -= 1
    live[n] = tally[STAYS]
    tally[LIVE] += 1


@compiled
def _needs_contents(first: int, end: int, storage: Ints, overwrites: Flags, s: int) -> bool:
    """Whether an instruction needs what is in storage s: not if it only overwrites all of it."""
    needs = False
    for k in range(first, end):
        needs = needs or (storage[k] == s and not overwrites[k])
    return needs


@compiled
def _account(
    tiles: Ints,
    storage: Ints,
    following: Ints,
    writes: Flags,
    loads: Flags,
    first: int,
    end: int,
    i: int,
) -> None:
    """After instruction i: next uses, and where the contents of what it touched are now."""
    for k in range(first, end):
        tile = tiles[storage[k]]
        tile[NEXT] = following[k]
        if loads[k]:
            tile[COPY], tile[UNREAD] = i, 1
        elif writes[k]:
            tile[COPY] = ONLY
        else:
            tile[UNREAD] = 0


@compiled
def _room(
    tiles: Ints,
    stays: Ints,
    live: Ints,
    tally: Ints,
    fixed: Ints,
    limits: Limits,
    s: int,
    i: int,
) -> int:
    """Where storage s goes: the top or a bank of its own, else a gap, else a window to be emptied;
    −1 if there is none."""
    size, last, bank = tiles[s, SIZE], tiles[s, LAST], limits[1]
    count, pointer = tally[LIVE], tally[POINTER]
    low = -1
    if tiles[s, LONG] != 0 and bank == 0:
        low = _top_gap(stays, live, count, fixed, limits[0], size, i, last)
        if low >= 0:
            return low
    if bank > 0:
        whole = (size + bank - 1) // bank * bank
        low = _gap(stays, live, count, fixed, limits, whole, pointer, i, last)
    if low < 0:
        low = _gap(stays, live, count, fixed, limits, size, pointer, i, last)
    if low >= 0:
        tally[POINTER] = low + size
    for resting in (RESTING, 0):
        if low < 0:
            low = _window(tiles, stays, live, count, fixed, limits, size, i, last, resting)
    return low


@compiled
def walk(
    first_operand: Ints,
    storage: Ints,
    following: Ints,
    writes: Flags,
    overwrites: Flags,
    loads: Flags,
    member: Flags,
    tiles: Ints,
    fixed: Ints,
    limits: Limits,
    stay_of: Ints,
    stays: Ints,
    moves: Ints,
    tally: Ints,
) -> int:
    """Places the member storages. `loads`: operands that a load from the caller's tensors fills.

    Fills per operand its stay (left alone: not a member); the stays; the moves as (before
    instruction, kind, stay, load) rows; `tally` says how many. Returns the operand for which there
    was no room even so, −1 if all are placed.
    """
    end = len(first_operand) - 1
    live = np.empty(len(stays), np.int64)
    for i in range(end):
        begin, stop = first_operand[i], first_operand[i + 1]
        for k in range(begin, stop):
            tiles[storage[k], USED] = i
        for k in range(begin, stop):
            s = storage[k]
            if not member[s]:
                continue
            tile = tiles[s]
            if tile[STAY] < 0:
                low, stay = tile[ADDRESS], tally[STAYS]
                given = low >= 0
                if not given:
                    _without_dead(tiles, stays, live, tally, i, end)
                    low = _room(tiles, stays, live, tally, fixed, limits, s, i)
                    if low < 0:
                        return k
                    _evict(tiles, stays, live, moves, tally, i, low, low + tile[SIZE])
                stays[stay, 0], stays[stay, 1], stays[stay, 2] = s, low, low + tile[SIZE]
                if not given:
                    _settle(stays, live, tally, low)
                tally[STAYS] += 1
                tile[STAY] = stay
                if tile[COPY] >= SAVED and _needs_contents(begin, stop, storage, overwrites, s):
                    kind = RELOAD if tile[COPY] == SAVED else FETCH
                    _move(moves, tally, i, kind, stay, tile[COPY])
            stay_of[k] = tile[STAY]
        _account(tiles, storage, following, writes, loads, begin, stop, i)
    return -1


@compiled
def takeovers(
    order: Ints,
    low: Ints,
    high: Ints,
    first_partition: Ints,
    partitions: Ints,
    first: Ints,
    last: Ints,
) -> tuple[Ints, int, int]:
    """Which tiles each tile takes bytes from: the most recent owners of its bytes.

    `order`: tiles by birth. Returns (of, taken) pairs and the first pair of tiles that hold the
    same byte while both are live (−1, −1 if none).
    """
    capacity = 4 * len(order) + 16
    owner = np.empty(capacity, np.int64)
    begin = np.empty(capacity, np.int64)
    end = np.empty(capacity, np.int64)
    pairs = np.empty((64, 2), np.int64)
    owners, count = 0, 0
    for s in order:
        bottom, top = first_partition[s], first_partition[s] + partitions[s]
        begins, ends, start, n = low[s], high[s], count, -1
        while True:
            n = _meeting(begin, end, n + 1, owners, begins, ends)
            if n == owners:
                break
            t = owner[n]
            other_top = first_partition[t] + partitions[t]
            if top <= first_partition[t] or other_top <= bottom:
                continue
            if last[t] >= first[s]:
                return pairs[:count], t, s
            if count == len(pairs):
                pairs = np.concatenate((pairs, np.empty_like(pairs)))
            count += _enter(pairs, start, count, s, t)
            if bottom > first_partition[t] or other_top > top:
                continue  # t keeps the bytes in other partitions
            if begin[n] >= begins and end[n] <= ends:
                owners -= 1
                owner[n], begin[n], end[n] = owner[owners], begin[owners], end[owners]
                n -= 1
            elif begin[n] < begins and end[n] > ends:
                owner[owners], begin[owners], end[owners] = t, ends, end[n]
                owners += 1
                end[n] = begins
            elif begin[n] < begins:
                end[n] = begins
            else:
                begin[n] = ends
        owner[owners], begin[owners], end[owners] = s, begins, ends
        owners += 1
        if owners + owners >= len(owner):
            owner = np.concatenate((owner, np.empty_like(owner)))
            begin = np.concatenate((begin, np.empty_like(begin)))
            end = np.concatenate((end, np.empty_like(end)))
    return pairs[:count], -1, -1


@compiled
def _meeting(begin: Ints, end: Ints, n: int, owners: int, begins: int, ends: int) -> int:
    """The first owner from n on that has bytes of [begins, ends); `owners` if none has."""
    for at in range(n, owners):
        if begin[at] < ends and end[at] > begins:
            return at
    return owners


@compiled
def _enter(pairs: Ints, start: int, count: int, s: int, t: int) -> int:
    """Puts (s, t) among the pairs of s, which begin at `start`, by t; 0 if it is there already."""
    at = count
    while at > start and pairs[at - 1, 1] > t:
        at -= 1
    if at > start and pairs[at - 1, 1] == t:
        return 0
    for n in range(count, at, -1):
        pairs[n, 1] = pairs[n - 1, 1]
    pairs[at, 1], pairs[count, 0] = t, s
    return 1


@compiled
def by_taker(pairs: Ints, count: int) -> tuple[Ints, Ints]:
    """Compressed lists tile → tiles it takes from. The pairs of one tile stand together."""
    first = np.zeros(count + 1, np.int64)
    for n in range(len(pairs)):
        first[pairs[n, 0] + 1] += 1
    first = first.cumsum()
    at, taken = first[:-1].copy(), np.empty(len(pairs), np.int64)
    for n in range(len(pairs)):
        taken[at[pairs[n, 0]]] = pairs[n, 1]
        at[pairs[n, 0]] += 1
    return first, taken
