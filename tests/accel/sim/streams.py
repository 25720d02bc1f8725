"""Instruction streams for the simulator's tests, built in code.

`Stream` is a thin writer over `Builder`; the functions below it write what well-known matmul and
scan kernels ask the machine to do, so that times can be compared with published ones.
"""

from __future__ import annotations

from accel.dtypes import itemsize
from accel.program import (
    Access,
    Builder,
    Engine,
    Form,
    Kind,
    Layout,
    Memory,
    Mode,
    Program,
    Storage,
)

Region = tuple[tuple[int, int], ...]  # (start, count) a dimension


class Stream:
    """Writes instructions on rectangular regions of storages."""

    def __init__(self, target: str, cores: int = 1) -> None:
        self.builder = Builder("stream", target, cores)
        self.core = 0
        self._forms: dict[tuple[object, ...], int] = {}

    def hbm(self, shape: tuple[int, ...], dtype: str, kind: Kind = Kind.INPUT, name: str = ""):
        number = len(self.builder.storages)
        name = name or f"hbm{number}"
        return self.builder.add_storage(Storage(name, Memory.HBM, dtype, shape, kind))

    def tile(
        self,
        shape: tuple[int, ...],
        dtype: str = "float32",
        memory: Memory = Memory.SBUF,
        address: int | None = None,
        start_partition: int = 0,
        name: str = "",
    ) -> int:
        number = len(self.builder.storages)
        storage = Storage(
            name or f"tile{number}",
            memory,
            dtype,
            shape,
            address=address,
            start_partition=start_partition,
            core=self.core,
        )
        return self.builder.add_storage(storage)

    def emit(
        self,
        op: str,
        operands: list[tuple[str, Mode, int, Region | None]],
        /,
        engine: Engine = Engine.ANY,
        line: int = 1,
        **attributes: object,
    ) -> int:
        """`operands`: (role, mode, storage, region); None is all of the storage."""
        places, key = [], [op, engine, tuple(attributes.items())]
        for role, mode, number, region in operands:
            layout_key, offset = self._place(number, region)
            places.append((number, offset))
            key.append((role, mode, layout_key))
        form = self._forms.get(tuple(key))
        if form is None:
            accesses = tuple(
                Access(role, mode, self._layout(number, region))
                for role, mode, number, region in operands
            )
            made = Form(op, engine, accesses, tuple(sorted(attributes.items())))
            form = self._forms[tuple(key)] = self.builder.intern_form(made)
        source = self.builder.intern_source("stream.py", line)
        return self.builder.emit(form, tuple(places), source, self.core)

    def _place(self, number: int, region: Region | None):
        storage = self.builder.storages[number]
        offset = sum(
            start * step
            for (start, _), step in zip(region or (), self._steps(storage), strict=False)
        )
        counts = tuple(count for _, count in region) if region else storage.shape
        return (storage.memory, storage.dtype, storage.shape, counts), offset

    def _layout(self, number: int, region: Region | None) -> Layout:
        storage = self.builder.storages[number]
        counts = tuple(count for _, count in region) if region else storage.shape
        pattern = tuple(zip(self._steps(storage), counts, strict=True))
        if storage.memory is Memory.HBM:
            return Layout(Memory.HBM, storage.dtype, 0, pattern)
        return Layout(storage.memory, storage.dtype, counts[0], pattern[1:])

    @staticmethod
    def _steps(storage: Storage) -> list[int]:
        steps = [itemsize(storage.dtype)]
        for size in reversed(storage.shape[1:]):
            steps.insert(0, steps[0] * size)
        return steps

    def dma(self, dst, src, dst_region=None, src_region=None, line: int = 1, **attributes) -> int:
        operands = [
            ("dst", Mode.WRITE, dst, dst_region),
            ("src", Mode.READ, src, src_region),
        ]
        return self.emit("dma_copy", operands, line=line, **attributes)

    def matmul(
        self, dst, stationary, moving, s_region=None, m_region=None, line: int = 1, **attributes
    ) -> int:
        operands = [
            ("dst", Mode.ACCUMULATE, dst, None),
            ("stationary", Mode.READ, stationary, s_region),
            ("moving", Mode.READ, moving, m_region),
        ]
        attributes = {"accumulate": "auto", **attributes}
        return self.emit("nc_matmul", operands, Engine.TENSOR, line, **attributes)

    def copy(self, dst, src, dst_region=None, src_region=None, engine=Engine.ANY, line=1) -> int:
        operands = [
            ("dst", Mode.WRITE, dst, dst_region),
            ("src", Mode.READ, src, src_region),
        ]
        return self.emit("tensor_copy", operands, engine, line)

    def tensor(self, dst, a, b, op="multiply", regions=(None, None, None), line=1) -> int:
        operands = [
            ("dst", Mode.WRITE, dst, regions[0]),
            ("data1", Mode.READ, a, regions[1]),
            ("data2", Mode.READ, b, regions[2]),
        ]
        return self.emit("tensor_tensor", operands, Engine.VECTOR, line, op=op)

    def fill(self, dst, value: float = 0.0, line: int = 1) -> int:
        return self.emit(
            "memset", [("dst", Mode.WRITE, dst, None)], Engine.VECTOR, line, value=value
        )

    def build(self) -> Program:
        return self.builder.build()


P, TILE_N = 128, 512


def tiled_matmul(target: str, dtype: str, m: int, k: int, n: int) -> Program:
    """Two loads for every matmul."""
    s = Stream(target)
    a, b, c = _matrices(s, dtype, m, k, n)
    for i in range(m // P):
        for j in range(n // TILE_N):
            psum = s.tile((P, TILE_N), "float32", Memory.PSUM)
            for x in range(k // P):
                left, right = s.tile((P, P), dtype), s.tile((P, TILE_N), dtype)
                s.dma(left, a, None, ((x * P, P), (i * P, P)), line=1)
                s.dma(right, b, None, ((x * P, P), (j * TILE_N, TILE_N)), line=2)
                s.matmul(psum, left, right, line=3)
            _store_tile(s, c, psum, dtype, i, j)
    return s.build()


def hoisted_matmul(target: str, dtype: str, m: int, k: int, n: int) -> Program:
    """All of a row block of A, and for it all of each column block of B, loaded first."""
    s = Stream(target)
    a, b, c = _matrices(s, dtype, m, k, n)
    for i in range(m // P):
        left = [_load(s, a, x, i, P, dtype, 1) for x in range(k // P)]
        for j in range(n // TILE_N):
            right = [_load(s, b, x, j, TILE_N, dtype, 2) for x in range(k // P)]
            psum = s.tile((P, TILE_N), "float32", Memory.PSUM)
            for x in range(k // P):
                s.matmul(psum, left[x], right[x], line=3)
            _store_tile(s, c, psum, dtype, i, j)
    return s.build()


def blocked_free_matmul(target: str, dtype: str, m: int, k: int, n: int, block: int = 2) -> Program:
    """Blocks of `block` × `block` output tiles share their loads."""
    s = Stream(target)
    a, b, c = _matrices(s, dtype, m, k, n)
    ks = range(k // P)
    for i in range(0, m // P, block):
        left = [[_load(s, a, x, i + bi, P, dtype, 1) for x in ks] for bi in range(block)]
        for j in range(0, n // TILE_N, block):
            right = [[_load(s, b, x, j + bj, TILE_N, dtype, 2) for x in ks] for bj in range(block)]
            for bi in range(block):
                for bj in range(block):
                    psum = s.tile((P, TILE_N), "float32", Memory.PSUM)
                    for x in ks:
                        s.matmul(psum, left[bi][x], right[bj][x], line=3)
                    _store_tile(s, c, psum, dtype, i + bi, j + bj)
    return s.build()


def blocked_matmul(
    target: str, dtype: str, m: int, k: int, n: int, tiles: tuple[int, int, int] = (16, 2, 8)
) -> Program:
    """All three dimensions blocked by `tiles` (M, N, K); partial sums in SBUF."""
    s = Stream(target)
    a, b, c = _matrices(s, dtype, m, k, n)
    tm, tn, tk = tiles
    wide_m, wide_n = tm * P, tn * TILE_N
    for j in range(n // wide_n):
        sums = {}
        for key in (
            (i, bi, bj) for i in range(m // wide_m) for bi in range(tm) for bj in range(tn)
        ):
            sums[key] = s.tile((P, TILE_N), dtype)
            s.fill(sums[key], line=1)
        for x in range(k // (tk * P)):
            right = [_load(s, b, x * tk + y, j, wide_n, dtype, 2) for y in range(tk)]
            for i in range(m // wide_m):
                left = [_load(s, a, x * tk + y, i, wide_m, dtype, 3) for y in range(tk)]
                for bj in range(tn):
                    for bi in range(tm):
                        psum = s.tile((P, TILE_N), "float32", Memory.PSUM)
                        for y in range(tk):
                            s.matmul(
                                psum,
                                left[y],
                                right[y],
                                ((0, P), (bi * P, P)),
                                ((0, P), (bj * TILE_N, TILE_N)),
                                line=4,
                            )
                        total = sums[i, bi, bj]
                        s.tensor(total, total, psum, "add", line=5)
        for i in range(m // wide_m):
            for bi in range(tm):
                packed = s.tile((P, wide_n), dtype)
                for bj in range(tn):
                    s.copy(packed, sums[i, bi, bj], ((0, P), (bj * TILE_N, TILE_N)), line=6)
                region = (((i * tm + bi) * P, P), (j * wide_n, wide_n))
                s.dma(c, packed, region, None, line=7)
    return s.build()


def _matrices(s: Stream, dtype: str, m: int, k: int, n: int) -> tuple[int, int, int]:
    return s.hbm((k, m), dtype), s.hbm((k, n), dtype), s.hbm((m, n), dtype, Kind.OUTPUT)


def _load(s: Stream, source: int, row: int, column: int, width: int, dtype: str, line: int) -> int:
    tile = s.tile((P, width), dtype)
    s.dma(tile, source, None, ((row * P, P), (column * width, width)), line=line)
    return tile


def _store_tile(s: Stream, c: int, psum: int, dtype: str, i: int, j: int) -> None:
    result = s.tile((P, TILE_N), dtype)
    s.copy(result, psum, line=8)
    s.dma(c, result, ((i * P, P), (j * TILE_N, TILE_N)), None, line=9)


def mamba(version: int, sequence: int, channels: int, states: int = 16) -> Program:
    """The selective scan of one batch, fp32: v1 state-major, v2 channel-major, v3 in 512-steps."""
    s = Stream("gen2")
    delta, u = (s.hbm((channels, sequence), "float32") for _ in range(2))
    a = s.hbm((channels, states), "float32")
    b, c = (s.hbm((states, sequence), "float32") for _ in range(2))
    out = s.hbm((channels, sequence), "float32", Kind.OUTPUT)
    scan = _Scan(s, delta, u, a, b, c, out, sequence, channels, states)
    (scan.state_major if version == 1 else scan.channel_major)(512 if version == 3 else sequence)
    return s.build()


class _Scan:
    """The pieces the three scan kernels are made of."""

    def __init__(self, s, delta, u, a, b, c, out, sequence, channels, states) -> None:
        self.s, self.delta, self.u, self.a, self.b, self.c, self.out = s, delta, u, a, b, c, out
        self.sequence, self.channels, self.states = sequence, channels, states
        self.ones = s.tile((1, P))
        s.fill(self.ones, 1.0, line=1)

    def state_major(self, step: int) -> None:
        tiles = range(self.channels // P)
        sums = [self._zeros() for _ in tiles]
        for state in range(self.states):
            for tile in tiles:
                delta = self._rows(self.delta, tile, 3)
                decay = self._column(tile, state)
                u = self._rows(self.u, tile, 5)
                self._step(delta, u, decay, state, 0, step, sums[tile], None)
        for tile in tiles:
            self.s.dma(self.out, sums[tile], ((tile * P, P), (0, self.sequence)), None, line=30)

    def channel_major(self, step: int) -> None:
        for tile in range(self.channels // P):
            total = self._zeros()
            delta, u = self._rows(self.delta, tile, 3), self._rows(self.u, tile, 5)
            for state in range(self.states):
                decay = self._column(tile, state)
                carry = None
                if step < self.sequence:
                    carry = self.s.tile((P, 1))
                    self.s.fill(carry, line=6)
                for start in range(0, self.sequence, step):
                    self._step(delta, u, decay, state, start, step, total, carry)
            self.s.dma(self.out, total, ((tile * P, P), (0, self.sequence)), None, line=30)

    def _zeros(self) -> int:
        tile = self.s.tile((P, self.sequence))
        self.s.fill(tile, line=2)
        return tile

    def _rows(self, source: int, tile: int, line: int) -> int:
        result = self.s.tile((P, self.sequence))
        self.s.dma(result, source, None, ((tile * P, P), (0, self.sequence)), line=line)
        return result

    def _column(self, tile: int, state: int) -> int:
        result = self.s.tile((P, 1))
        self.s.dma(result, self.a, None, ((tile * P, P), (state, 1)), line=4)
        return result

    def _broadcast(self, source: int, state: int, start: int, step: int, line: int) -> int:
        """One row on all partitions: a matmul with ones per 512 columns."""
        s = self.s
        row = s.tile((1, step))
        s.dma(row, source, None, ((state, 1), (start, step)), line=line)
        if step <= TILE_N:
            psum = s.tile((P, step), "float32", Memory.PSUM)
            s.matmul(psum, self.ones, row, line=line + 1)
            return psum
        wide = s.tile((P, step))
        for column in range(0, step, TILE_N):
            psum = s.tile((P, TILE_N), "float32", Memory.PSUM)
            s.matmul(psum, self.ones, row, None, ((0, 1), (column, TILE_N)), line=line + 1)
            operands = [
                ("dst", Mode.WRITE, wide, ((0, P), (column, TILE_N))),
                ("data", Mode.READ, psum, None),
            ]
            s.emit("activation", operands, Engine.SCALAR, line + 2, func="copy")
        return wide

    def _step(self, delta, u, decay, state, start, step, total, carry) -> None:
        s, part = self.s, ((0, P), (start, step))
        grown = s.tile((P, step))
        operands = [
            ("dst", Mode.WRITE, grown, None),
            ("data", Mode.READ, delta, part),
            ("scale", Mode.READ, decay, None),
        ]
        s.emit("activation", operands, Engine.SCALAR, 10, func="exp")
        row = self._broadcast(self.b, state, start, step, 11)
        pair = s.tile((P, step))
        s.tensor(pair, delta, u, regions=(None, part, part), line=14)
        inflow = s.tile((P, step))
        s.tensor(inflow, pair, row, line=15)
        result = s.tile((P, step))
        operands = [
            ("dst", Mode.WRITE, result, None),
            ("data0", Mode.READ, grown, None),
            ("data1", Mode.READ, inflow, None),
        ]
        if carry is not None:
            operands.append(("initial", Mode.READ, carry, None))
        s.emit("tensor_tensor_scan", operands, Engine.VECTOR, 16, op0="multiply", op1="add")
        if carry is not None:
            s.copy(carry, result, None, ((0, P), (step - 1, 1)), Engine.VECTOR, line=17)
        row = self._broadcast(self.c, state, start, step, 18)
        weighted = s.tile((P, step))
        s.tensor(weighted, result, row, line=21)
        s.tensor(total, total, weighted, "add", (part, part, None), line=22)
