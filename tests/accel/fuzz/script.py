"""Scripts: random sequences of kernel language calls, as plain data.

Comes in: a source of choices (`random.Random`, or Hypothesis's). Goes out: a `Script`, which
`kernel.py` runs as a kernel and `reference.py` runs on numpy arrays. Operands are mostly made to
fit, so that most calls are legal; a share of the choices is left to chance, so that many are not.
A script stays meaningful when steps are taken out of it: a step whose tile is gone is skipped.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

import numpy as np

from accel.dtypes import numpy_dtype

FLOATS = ("float32", "bfloat16", "float16", "float8_e5m2", "float8_e4m3")
WHOLE = ("int32", "uint32", "int16", "uint16", "int8", "uint8")
PARTITIONS = (1, 2, 4, 16, 32, 48, 64, 128)
WIDTHS = (1, 3, 4, 8, 16, 24, 64)
ARITHMETIC = (
    "add", "subtract", "multiply", "maximum", "minimum", "divide", "mod", "power", "abs_max",
    "abs_min", "equal", "not_equal", "greater", "greater_equal", "less", "less_equal",
    "logical_and", "logical_or", "logical_xor",
)  # fmt: skip
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
ONE_INPUT = ("bypass", "abs", "square", "relu", "sqrt", "rsqrt", "reciprocal", "logical_not")
FOLDING = ("add", "multiply", "maximum", "minimum")
ACTIVATIONS = ("copy", "square", "relu", "exp", "tanh", "sqrt", "abs", "sign", "sigmoid", "log")
COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
ENGINES = ("unknown", "vector", "scalar", "gpsimd", "tensor")
MISUSE = 0.03  # share of the operands that are something else than what fits


@dataclass(frozen=True, slots=True)
class View:
    """A tile and what is done to it, one (method, arguments) pair after the other.

    `chosen` is (`scalar` or `vector`, axis, tile of indices) or (`lanes`, elements, tile of
    indices): the place found at run time.
    """

    tile: int
    views: tuple[tuple[str, tuple[object, ...]], ...] = ()
    chosen: tuple[str, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One call. `tile` is the tile it makes, −1 where it makes none."""

    call: str
    operands: tuple[tuple[str, View], ...] = ()
    options: tuple[tuple[str, object], ...] = ()
    tile: int = -1

    def __str__(self) -> str:
        parts = [f"{name}={value}" for name, value in (*self.operands, *self.options)]
        made = f"t{self.tile} = " if self.tile >= 0 else ""
        return f"{made}{self.call}({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Script:
    """`inputs` are the shapes and dtypes of tiles 0, 1, …, which lie in HBM. Every one of `cores`
    runs all steps.
    """

    seed: int
    cores: int
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "\n".join(
            [f"seed {self.seed}, {self.cores} cores, inputs {self.inputs}", *map(str, self.steps)]
        )

    def arrays(self) -> list[np.ndarray]:
        """The inputs' values: small numbers, so that few results overflow."""
        generator = np.random.default_rng(self.seed)
        return [_values(generator, shape, dtype) for shape, dtype in self.inputs]


def _values(generator: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = numpy_dtype(dtype)
    if kind.kind in "iub":
        low = -9 if kind.kind == "i" else 0
        return generator.integers(low, 10, shape).astype(kind)
    return (generator.standard_normal(shape) * 2).astype(np.float32).astype(kind)


@dataclass(frozen=True, slots=True)
class Tile:
    """What the generator knows of a tile that a step made."""

    number: int
    memory: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        return math.prod(self.shape[1:])


def scripts(r: random.Random, calls: int = 12) -> Script:
    """A script of up to `calls` instructions, their tiles, and the stores of what they left."""
    writer = _Writer(r)
    for _ in range(r.randrange(calls // 5, calls + 1)):
        writer.call()
    writer.stores()
    cores = 2 if writer.chance(0.1) else 1
    return Script(writer.seed, cores, tuple(writer.inputs), tuple(writer.steps))


class _Writer:
    """The script so far. Operands share a few extents and dtypes, or hardly any two would match."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.seed = r.randrange(1000)
        self.partitions = r.choice(PARTITIONS)
        self.width = r.choice(WIDTHS)
        self.dtypes = (r.choice(FLOATS), r.choice(WHOLE), "float32")
        self.tiles: list[Tile] = []
        self.steps: list[Step] = []
        self.inputs: list[tuple[tuple[int, ...], str]] = []
        for dtype in self.dtypes[: r.randrange(1, 4)]:
            shape = (self.partitions, self.width)
            self.inputs.append((shape, dtype))
            self.tiles.append(Tile(len(self.tiles), "hbm", shape, dtype))
        self.made = len(self.tiles)

    # Operands -----------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        return self.r.randrange(1000) < 1000 * share

    def dtype(self, among: tuple[str, ...] = ()) -> str:
        if self.chance(MISUSE):
            return self.r.choice((*FLOATS, *WHOLE, "bool_", "float8_e4m3fn", "tfloat32"))
        usual = [name for name in self.dtypes if not among or name in among]
        return self.r.choice(usual or among or self.dtypes)

    def memory(self) -> str:
        return self.r.choice(("sbuf", "sbuf", "sbuf", "psum"))

    def new(self, memory: str, shape: tuple[int, ...], dtype: str) -> Tile:
        """Allocates; a few tiles have an address of the kernel's choice."""
        options: list[tuple[str, object]] = [
            ("memory", memory), ("shape", shape), ("dtype", dtype)
        ]  # fmt: skip
        if memory in ("sbuf", "psum") and self.chance(0.05):
            place = (self.r.choice((0, 0, 32, 64)), self.r.choice((0, 4, 64, 256, 2048)))
            options.append(("address", place))
        tile = Tile(self._number(), memory, shape, dtype)
        self.tiles.append(tile)
        self.steps.append(Step("new", (), tuple(options), tile.number))
        return tile

    def _number(self) -> int:
        self.made += 1
        return self.made - 1

    def shape(self, partitions: int, elements: int) -> tuple[int, ...]:
        """A tile shape with so many elements, now and then with some to spare."""
        if self.chance(0.2):
            elements += self.r.choice((1, 3, elements))
        if self.chance(0.1):
            partitions = min(128, partitions + self.r.choice((1, 32)))
        parts = [n for n in (2, 3, 4, 8) if elements % n == 0]
        if parts and self.chance(0.3):
            part = self.r.choice(parts)
            return (partitions, part, elements // part)
        return (partitions, elements)

    def read(self, partitions: int, elements: int, dtype: str = "", memory: str = "") -> View:
        """An operand that mostly has values."""
        return self._operand(partitions, elements, dtype, memory, reading=True)

    def write(self, partitions: int, elements: int, dtype: str = "", memory: str = "") -> View:
        return self._operand(partitions, elements, dtype, memory, reading=False)

    def update(self, partitions: int, elements: int, dtype: str = "", memory: str = "") -> View:
        """An operand that mostly has values, of which some may stay."""
        return self._operand(partitions, elements, dtype, memory, reading=True, turned=False)

    def flat(self, partitions: int, elements: int, dtype: str = "", memory: str = "") -> View:
        """An operand to read with two axes."""
        view = self.update(partitions, elements, dtype, memory)
        return replace(view, views=(*view.views, ("reshape", (partitions, elements))))

    def _operand(
        self,
        partitions: int,
        elements: int,
        dtype: str,
        memory: str,
        reading: bool,
        turned: bool = True,
    ) -> View:
        if self.chance(MISUSE):
            return self._anything()
        wanted = [
            tile
            for tile in self.tiles
            if tile.shape[0] >= partitions and tile.elements >= elements
            and (tile.memory == memory if memory else tile.memory in ("sbuf", "psum"))
            and (not dtype or tile.dtype == dtype)
        ]  # fmt: skip
        if wanted and self.chance(0.8):
            tile = self.r.choice(wanted)
        else:
            tile = self.new(
                memory or self.memory(), self.shape(partitions, elements), dtype or self.dtype()
            )
            if reading and self.chance(0.9):
                self.fill(tile)
        return self._part(tile, partitions, elements, reading and turned)

    def _anything(self) -> View:
        if not self.tiles or self.chance(0.1):
            return View(self.r.randrange(40))
        tile = self.r.choice(self.tiles)
        key = (slice(self.r.randrange(4), self.r.randrange(1, 8)), self.r.choice((0, -1, 7, None)))
        return View(tile.number, (("index", key),) if self.chance(0.5) else ())

    def fill(self, tile: Tile) -> None:
        """Values for all of a tile, from an input where one has its shape."""
        whole = View(tile.number)
        alike = [t for t in self.tiles if t.memory == "hbm" and t.shape == tile.shape]
        if alike and tile.memory == "sbuf" and self.chance(0.8):
            source = View(self.r.choice(alike).number)
            self.steps.append(Step("dma_copy", (("dst", whole), ("src", source))))
        elif tile.memory == "sbuf" and self.chance(0.4):
            self._iota(whole, tile.shape[1:])
        else:
            value = self.r.choice((0, 1, 2, 5, -3))
            self.steps.append(Step("memset", (("dst", whole),), (("value", value),)))

    def _iota(self, dst: View, counts: tuple[int, ...]) -> None:
        pattern = [[self.r.choice((0, 1, 2, -1)), count] for count in counts]
        options = (
            ("pattern", pattern),
            ("offset", self.r.randrange(-3, 9)),
            ("channel_multiplier", self.r.choice((0, 1, -2))),
        )
        self.steps.append(Step("iota", (("dst", dst),), options))

    def _part(self, tile: Tile, partitions: int, elements: int, reading: bool) -> View:
        """A view of so many partitions and elements of a tile at least that large."""
        views: list[tuple[str, tuple[object, ...]]] = []
        total = tile.elements
        if (tile.shape[0], total) != (partitions, elements):
            start = self._start(tile.shape[0], partitions)
            rows = slice(start, start + partitions)
            if len(tile.shape) > 2:
                views.append(("reshape", (tile.shape[0], total)))
            step = self.r.choice([n for n in (1, 1, 2, 3) if (elements - 1) * n < total])
            first = self.r.randrange(total - (elements - 1) * step)
            columns = slice(first, first + (elements - 1) * step + 1, step if step > 1 else None)
            views.append(("index", (rows, columns)))
            shape = (partitions, elements)
        else:
            shape = tile.shape
        return View(tile.number, (*views, *self._turned(shape, reading)))

    def _start(self, have: int, partitions: int) -> int:
        starts = range(0, have - partitions + 1, 32)
        return (
            self.r.randrange(have - partitions + 1) if self.chance(0.03) else self.r.choice(starts)
        )

    def _turned(
        self, shape: tuple[int, ...], reading: bool
    ) -> tuple[tuple[str, tuple[object, ...]], ...]:
        """Another arrangement of the same number of elements, in a quarter of the cases."""
        partitions, elements = shape[0], math.prod(shape[1:])
        parts = [n for n in (2, 3, 4) if elements % n == 0]
        kind = self.r.randrange(16)
        if kind == 0 and parts and len(shape) == 2:
            part = self.r.choice(parts)
            return (("reshape", (partitions, part, elements // part)), ("permute", (0, 2, 1)))
        if kind == 1 and parts:
            part = self.r.choice(parts)
            return (("reshape", (partitions, part, elements // part)),)
        if kind == 2 and reading and len(shape) == 2:
            column = self.r.randrange(elements)
            keys = (slice(None), slice(column, column + 1))
            return (("index", keys), ("broadcast", (1, elements)))
        if kind == 3 and len(shape) == 3:
            return (("permute", (0, 2, 1)),)
        return ()

    # Calls --------------------------------------------------------------------------------------

    def call(self) -> None:
        """One instruction, with the tiles it needs."""
        name = self.r.choice(_CALLS)
        getattr(self, "_" + name)(self._rows(), self.width)

    def _rows(self) -> int:
        if self.chance(0.1):
            return self.r.randrange(1, self.partitions + 1)
        return self.partitions

    def step(
        self, call: str, *operands: tuple[str, View], tile: int = -1, **options: object
    ) -> None:
        if "engine" not in options and call in _WITH_ENGINE and self.chance(0.3):
            options["engine"] = self.r.choice(ENGINES)
        self.steps.append(Step(call, operands, tuple(options.items()), tile))

    def _number_or_tile(
        self, name: str, partitions: int, operands: list[tuple[str, View]]
    ) -> dict[str, object]:
        if self.chance(0.4):
            operands.append((name, self.read(partitions, 1, "float32")))
            return {}
        return {name: self.r.choice((0, 1, 2.0, -1.5, 0.25, 3))}

    def _memset(self, p: int, n: int) -> None:
        dst = self.write(p, n)
        self.step("memset", ("dst", dst), value=self.r.choice((0, 1, 0.5, -2.25, 7)))

    def _iota_call(self, p: int, n: int) -> None:
        self._iota(self.write(p, n, memory="sbuf"), (n,))

    def _tensor_copy(self, p: int, n: int) -> None:
        src = self.read(p, n)
        self.step("tensor_copy", ("dst", self.write(p, n)), ("src", src))

    def _dma_copy(self, p: int, n: int) -> None:
        memory = self.r.choice(("hbm", "sbuf"))
        src = self.read(p, n, memory=memory)
        to = "sbuf" if memory == "hbm" or self.chance(0.3) else "hbm"
        self.step("dma_copy", ("dst", self.write(p, n, memory=to)), ("src", src))

    def _scratch(self, p: int, n: int) -> None:
        """Through HBM and back."""
        src = self.read(p, n, memory="sbuf")
        middle = self.new("hbm", (p, n), self.dtype())
        self.step("dma_copy", ("dst", View(middle.number)), ("src", src))
        self._dma_copy(p, n)

    def _tensor_tensor(self, p: int, n: int) -> None:
        if self.chance(0.25):
            dtype = self.dtype(WHOLE)
            names, op = (dtype,) * 3, self.r.choice(BITS)
        else:
            names, op = ("",) * 3, self.r.choice(ARITHMETIC)
        one, two = self.read(p, n, names[0]), self.read(p, n, names[1])
        dst = self.write(p, n, names[2])
        self.step("tensor_tensor", ("dst", dst), ("data1", one), ("data2", two), op=op)

    def _tensor_scalar(self, p: int, n: int) -> None:
        bits = self.chance(0.2)
        dtype = self.dtype(WHOLE) if bits else ""
        operators = BITS if bits else (*ARITHMETIC, *ONE_INPUT)
        operands = [("data", self.read(p, n, dtype))]
        options: dict[str, object] = {"op0": self.r.choice(operators)}
        if bits:
            options["operand0"] = self.r.choice((0, 1, 3, 7))
        else:
            options |= self._number_or_tile("operand0", p, operands)
        if not bits and self.chance(0.5):
            options["op1"] = self.r.choice(operators)
            options |= self._number_or_tile("operand1", p, operands)
        for name in ("reverse0", "reverse1"):
            if self.chance(0.15):
                options[name] = True
        self.step("tensor_scalar", ("dst", self.write(p, n, dtype)), *operands, **options)

    def _scalar_tensor_tensor(self, p: int, n: int) -> None:
        operands = [("data", self.read(p, n)), ("operand1", self.read(p, n))]
        options = self._number_or_tile("operand0", p, operands)
        options |= {"op0": self.r.choice(ARITHMETIC), "op1": self.r.choice(ARITHMETIC)}
        self.step("scalar_tensor_tensor", ("dst", self.write(p, n)), *operands, **options)

    def _activation(self, p: int, n: int) -> None:
        operands = [("data", self.read(p, n))]
        options: dict[str, object] = {"op": self.r.choice(ACTIVATIONS)}
        if self.chance(0.4):
            options |= self._number_or_tile("bias", p, operands)
        if self.chance(0.4):
            options |= self._number_or_tile("scale", p, operands)
        call = "activation"
        if self.chance(0.4):
            operands.append(("reduce_res", self.write(p, 1)))
            options["reduce_op"] = "add"
            if self.chance(0.5):
                call = "activation_reduce"
            else:
                options["reduce_cmd"] = self.r.choice(("reset", "reduce", "reset_reduce", "idle"))
        self.step(call, ("dst", self.write(p, n)), *operands, **options)

    def _tensor_reduce(self, p: int, n: int) -> None:
        options = {"op": self.r.choice(FOLDING), "axis": 1, "negate": self.chance(0.2)}
        self.step("tensor_reduce", ("dst", self.write(p, 1)), ("data", self.read(p, n)), **options)

    def _tensor_scalar_reduce(self, p: int, n: int) -> None:
        operands = [("data", self.read(p, n))]
        options = self._number_or_tile("operand0", p, operands)
        options |= {"op0": self.r.choice(ARITHMETIC), "reduce_op": self.r.choice(FOLDING)}
        if self.chance(0.7):
            operands.append(("reduce_res", self.write(p, 1)))
        if self.chance(0.4):
            options["reduce_cmd"] = self.r.choice(("reduce", "reset_reduce"))
        self.step("tensor_scalar_reduce", ("dst", self.write(p, n)), *operands, **options)

    def _tensor_scalar_cumulative(self, p: int, n: int) -> None:
        operands = [("src", self.read(p, n))]
        options: dict[str, object] = {
            "op0": self.r.choice(ARITHMETIC),
            "op1": self.r.choice(FOLDING),
            "imm0": self.r.choice((1, 2.0, -0.5)),
        }
        if self.chance(0.4):
            options["reduce_cmd"] = self.r.choice(("reduce", "reset_reduce"))
        self.step("tensor_scalar_cumulative", ("dst", self.write(p, n)), *operands, **options)

    def _tensor_tensor_scan(self, p: int, n: int) -> None:
        operands = [("data0", self.read(p, n)), ("data1", self.read(p, n))]
        options = self._number_or_tile("initial", p, operands)
        options |= {"op0": self.r.choice(ARITHMETIC), "op1": self.r.choice(ARITHMETIC)}
        self.step("tensor_tensor_scan", ("dst", self.write(p, n)), *operands, **options)

    def _tensor_partition_reduce(self, p: int, n: int) -> None:
        data = self.read(p, n, memory="sbuf")
        options = {"op": self.r.choice(("add", "maximum"))}
        dst = self.write(1, n, memory="sbuf")
        self.step("tensor_partition_reduce", ("dst", dst), ("data", data), **options)

    def _reciprocal(self, p: int, n: int) -> None:
        self.step("reciprocal", ("dst", self.write(p, n)), ("data", self.read(p, n)))

    def _nc_matmul(self, p: int, n: int) -> None:
        rows = self.r.choice((n, 16, 32))
        dtype = self.dtype(FLOATS)
        left = self.read(p, rows, dtype, "sbuf")
        right = self.read(p, n, dtype, "sbuf")
        options = {"accumulate": self.r.choice((None, None, True, False))}
        dst = self.write(rows, n, "float32", "psum")
        for _ in range(self.r.choice((1, 1, 2, 3))):
            operands = (("dst", dst), ("stationary", left), ("moving", right))
            self.step("nc_matmul", *operands, **options)

    def _matmul_again(self, p: int, n: int) -> None:
        """Adds to all of a PSUM tile, or to the left of it, whatever was written there before."""
        mine = [t for t in self.tiles if t.memory == "psum" and t.dtype == "float32"]
        if not mine:
            return
        tile = self.r.choice(mine)
        columns = max(1, tile.elements // self.r.choice((1, 1, 2)))
        dtype = self.dtype(FLOATS)
        left = self.read(p, tile.shape[0], dtype, "sbuf")
        right = self.read(p, columns, dtype, "sbuf")
        keys = (slice(None), slice(0, columns))
        flat = (("reshape", (tile.shape[0], tile.elements)), ("index", keys))
        operands = (("dst", View(tile.number, flat)), ("stationary", left), ("moving", right))
        self.step("nc_matmul", *operands, accumulate=None)

    def _nc_transpose(self, p: int, n: int) -> None:
        data = self.read(p, n, memory="sbuf")
        dst = self.write(n, p, memory=self.r.choice(("psum", "psum", "sbuf")))
        self.step("nc_transpose", ("dst", dst), ("data", data))

    def _predicated(self, p: int, n: int) -> None:
        dtype = self.dtype()
        predicate = self.read(p, n, self.dtype(WHOLE))
        operands = [("predicate", predicate)]
        options: dict[str, object] = {}
        if self.chance(0.6):
            operands.append(("src", self.read(p, n, dtype)))
        else:
            options["src"] = 1.5
        if self.chance(0.3):
            options["reverse_pred"] = True
        dst = self.update(p, n, dtype)
        self.step("tensor_copy_predicated", ("dst", dst), *operands, **options)

    def _range_select(self, p: int, n: int) -> None:
        operands = [
            ("on_true_tile", self.read(p, n)),
            ("bound0", self.read(p, 1, "float32")),
            ("bound1", self.read(p, 1, "float32")),
        ]
        options = {"comp_op0": self.r.choice(COMPARISONS), "comp_op1": self.r.choice(COMPARISONS)}
        self.step("range_select", ("dst", self.write(p, n)), *operands, **options)

    def _max8(self, p: int, n: int) -> None:
        self.step("max8", ("dst", self.write(p, 8)), ("src", self.read(p, n)))

    def _find_index8(self, p: int, n: int) -> None:
        operands = (("data", self.read(p, n)), ("vals", self.read(p, 8)))
        dst = self.write(p, 8, self.r.choice(("uint16", "uint32")))
        self.step("nc_find_index8", ("dst", dst), *operands)

    def _shuffle(self, p: int, n: int) -> None:
        limit = min(32, p)
        entries = [self.r.randrange(limit) for _ in range(4)] + [255]
        mask = [self.r.choice(entries) for _ in range(32)]
        dtype = self.dtype()
        operands = (("dst", self.update(p, n, dtype)), ("src", self.read(p, n, dtype)))
        self.step("nc_stream_shuffle", *operands, shuffle_mask=mask)

    def _bn_stats(self, p: int, n: int) -> None:
        middle = self.write(p, 6)
        self.step("bn_stats", ("dst", middle), ("data", self.read(p, n)))
        self.step("bn_aggr", ("dst", self.write(p, 2)), ("data", middle))

    def _gather(self, p: int, n: int) -> None:
        """Rows of an HBM tensor by a vector of indices."""
        table = self.r.choice([t for t in self.tiles if t.memory == "hbm"])
        index = self._indices(p, table.shape[0])
        tile = self.write(p, table.elements, table.dtype, "sbuf")
        rows = View(table.number, (), ("vector", 0, index.number))
        options: dict[str, object] = {"oob_mode": "skip"} if self.chance(0.3) else {}
        if self.chance(0.3):
            self.step("dma_copy", ("dst", rows), ("src", tile), **options)
        else:
            self.step("dma_copy", ("dst", tile), ("src", rows), **options)

    def _indices(self, count: int, extent: int) -> Tile:
        """A column of row numbers, most of the time inside the extent."""
        index = self.new("sbuf", (count, 1), self.r.choice(("int32", "uint32")))
        offset = self.r.choice((0, 0, extent - count, 0, 1))
        step = self.r.choice((1, 1, 0))
        options = (("pattern", [[0, 1]]), ("offset", offset), ("channel_multiplier", step))
        self.steps.append(Step("iota", (("dst", View(index.number)),), options))
        return index

    def _select(self, p: int, n: int) -> None:
        """A column or a row chosen by one index."""
        index = self.new("sbuf", (1, 1), "int32")
        on_hbm = self.chance(0.5)
        table = self.r.choice([t for t in self.tiles if t.memory == ("hbm" if on_hbm else "sbuf")])
        axis = 0 if on_hbm else 1
        extent = table.shape[axis] if self.chance(0.95) else 100_000
        value = self.r.choice((0, extent - 1, extent // 2))
        options = (("value", value),)
        self.steps.append(Step("memset", (("dst", View(index.number)),), options))
        rest = [count for n, count in enumerate(table.shape) if n != axis]
        view = View(table.number, (), ("scalar", axis, index.number))
        partitions = 1 if on_hbm else rest[0]
        elements = math.prod(rest) // partitions
        tile = self.write(partitions, elements, memory="sbuf")
        pair = [("dst", tile), ("src", view)]
        if self.chance(0.4):
            pair = [("dst", view), ("src", tile)]
        self.step("dma_copy" if on_hbm or self.chance(0.3) else "tensor_copy", *pair)

    def _lanes(self, p: int, n: int) -> None:
        """Elements of each partition chosen by indices that groups of partitions share."""
        if p % 16:
            return
        table = self.update(p, self.r.choice((n, 24)), memory="sbuf")
        index = self.new("sbuf", (p, (n + 15) // 16), self.r.choice(("uint16", "int32")))
        step = self.r.choice((0, 0, 0, 1))
        pattern = [[self.r.choice((0, 1)), (n + 15) // 16]]
        options = (("pattern", pattern), ("offset", 0), ("channel_multiplier", step))
        self.steps.append(Step("iota", (("dst", View(index.number)),), options))
        view = replace(table, chosen=("lanes", n, index.number))
        if self.chance(0.5):
            self.step("tensor_copy", ("dst", self.write(p, n)), ("src", view))
        else:
            name = self.r.choice(ACTIVATIONS)
            self.step("activation", ("dst", self.write(p, n)), ("data", view), op=name)

    def _affine_select(self, p: int, n: int) -> None:
        data = self.read(p, n, memory="sbuf")
        options = {
            "pattern": [[self.r.choice((1, -1, 2)), n]],
            "channel_multiplier": self.r.choice((0, 1, -1)),
            "offset": self.r.randrange(-4, 5),
            "cmp_op": self.r.choice(COMPARISONS),
            "on_false_value": self.r.choice((0.0, -2.5)),
        }
        dst = self.write(p, n, memory="sbuf")
        self.step("affine_select", ("dst", dst), ("on_true_tile", data), **options)

    def _select_reduce(self, p: int, n: int) -> None:
        operands = [("predicate", self.read(p, n, self.dtype(WHOLE))), ("on_true", self.read(p, n))]
        options = self._number_or_tile("on_false", p, operands)
        if self.chance(0.4):
            operands.append(("reduce_res", self.write(p, 1)))
            options["reduce_cmd"] = self.r.choice(("reduce", "reset_reduce"))
        self.step("select_reduce", ("dst", self.write(p, n)), *operands, **options)

    def _match_replace8(self, p: int, n: int) -> None:
        operands = (("data", self.read(p, n)), ("vals", self.read(p, 8)))
        self.step("nc_match_replace8", ("dst", self.write(p, n)), *operands, imm=-7.0)

    def _n_gather(self, p: int, n: int) -> None:
        dtype = self.dtype()
        index = self.new("sbuf", (p, n), "uint32")
        step = self.r.choice((0, 1, 1, 2))
        options = (("pattern", [[step, n]]), ("offset", 0), ("channel_multiplier", 0))
        self.steps.append(Step("iota", (("dst", View(index.number)),), options))
        operands = (("data", self.read(p, n, dtype, "sbuf")), ("indices", View(index.number)))
        self.step("nc_n_gather", ("dst", self.write(p, n, dtype, "sbuf")), *operands)

    def _dma_transpose(self, p: int, n: int) -> None:
        dtype = self.dtype()
        src = self.flat(p, n, dtype, self.r.choice(("hbm", "sbuf")))
        self.step("dma_transpose", ("dst", self.write(n, p, dtype, "sbuf")), ("src", src))

    def _function(self, p: int, n: int) -> None:
        """A function on tiles, which makes its own result."""
        x = self.read(p, n)
        kind = self.r.choice(("binary", "number", "unary", "copy", "fold"))
        operands, options = [("x", x)], {"kind": kind}
        shape = (p, n)
        match kind:
            case "binary":
                operands[0] = ("x", self.flat(p, n))
                operands.append(("y", self.flat(p, n)))
                options["name"] = self.r.choice(("add", "subtract", "multiply", "maximum"))
            case "number":
                options |= {"name": self.r.choice(("add", "multiply", "divide")), "y": 1.5}
            case "unary":
                options["name"] = self.r.choice(("exp", "relu", "square", "tanh"))
            case "fold":
                options["name"], shape = self.r.choice(("sum", "max")), (p, 1)
        options["dtype"] = self.dtype()
        tile = Tile(self._number(), "sbuf", shape, str(options["dtype"]))
        self.tiles.append(tile)
        self.step("function", *operands, tile=tile.number, **options)

    def _drop(self, p: int, n: int) -> None:
        """Forgets a tile, whose bytes another may get."""
        mine = [tile for tile in self.tiles if tile.memory in ("sbuf", "psum")]
        if mine:
            tile = self.r.choice(mine)
            self.tiles.remove(tile)
            self.step("drop", tile=tile.number)

    def _ap(self, p: int, n: int) -> None:
        """A pattern over the whole tile, not always inside it."""
        mine = [tile for tile in self.tiles if tile.memory in ("sbuf", "hbm")]
        if not mine:
            return
        tile = self.r.choice(mine)
        pattern = [[tile.elements, tile.shape[0]], [self.r.choice((1, 2, -1, 0)), n]]
        offset = self.r.choice((0, 0, 1, n - 1, -1))
        view = View(tile.number, (("ap", (pattern, offset)),))
        call = "dma_copy" if tile.memory == "hbm" else "tensor_copy"
        rows = tile.shape[0]
        self.step(call, ("dst", self.write(rows, n, memory="sbuf")), ("src", view))

    def _cast(self, p: int, n: int) -> None:
        """The bytes of integers as another dtype (those of a NaN may differ from run to run)."""
        mine = [t for t in self.tiles if t.memory == "sbuf" and t.dtype in WHOLE]
        if not mine:
            return
        tile = self.r.choice(mine)
        dtype = self.r.choice((*WHOLE, *FLOATS))
        size, other = numpy_dtype(tile.dtype).itemsize, numpy_dtype(dtype).itemsize
        elements = tile.elements * size // other
        view = View(tile.number, (("view", (dtype,)),))
        if elements:
            dst = self.write(tile.shape[0], elements, dtype)
            self.step("tensor_copy", ("dst", dst), ("src", view))

    def stores(self) -> None:
        """What is left in most tiles goes to outputs."""
        for tile in list(self.tiles):
            if tile.memory == "hbm" or not self.chance(0.7):
                continue
            source = View(tile.number)
            if tile.memory == "psum":
                staged = self.new("sbuf", tile.shape, tile.dtype)
                self.steps.append(
                    Step("tensor_copy", (("dst", View(staged.number)), ("src", source)))
                )
                source = View(staged.number)
            out = self.new("shared_hbm", tile.shape, tile.dtype)
            self.steps.append(Step("dma_copy", (("dst", View(out.number)), ("src", source))))


_WITH_ENGINE = frozenset(
    {"tensor_copy", "tensor_tensor", "tensor_scalar", "memset", "nc_transpose"}
)
_CALLS = (
    "memset", "iota_call", "tensor_copy", "tensor_copy", "dma_copy", "dma_copy", "scratch",
    "tensor_tensor", "tensor_tensor", "tensor_scalar", "tensor_scalar", "scalar_tensor_tensor",
    "activation", "activation", "tensor_reduce", "tensor_scalar_reduce",
    "tensor_scalar_cumulative", "tensor_tensor_scan", "tensor_partition_reduce", "reciprocal",
    "nc_matmul", "nc_matmul", "matmul_again", "matmul_again", "nc_transpose", "predicated",
    "range_select", "max8", "find_index8",
    "shuffle", "bn_stats", "gather", "select", "function", "function", "drop", "drop", "ap", "cast",
    "lanes", "affine_select", "select_reduce", "match_replace8", "n_gather", "dma_transpose",
)  # fmt: skip


def without(script: Script, start: int, count: int) -> Script:
    """The script with some steps taken out."""
    return replace(script, steps=script.steps[:start] + script.steps[start + count :])
