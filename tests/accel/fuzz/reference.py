"""What a script computes, on plain numpy arrays and without the instruction table.

A tile is an array and a view is a numpy view of it. Engines read everything as float32 and round
once, where a result is stored: to nearest even, integers saturating, NaN as 0. Bit operators, and
32-bit integers on GpSimd, are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from accel.dtypes import numpy_dtype
from tests.accel.fuzz.script import Script, Step, View

Array = np.ndarray
F32 = np.float32

_TWO: dict[str, Callable[[Array, Array], Array]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "divide": lambda a, b: a / b,
    "mod": lambda a, b: a % b,
    "power": lambda a, b: (a.astype(np.float64) ** b).astype(np.float32),
    "abs_max": lambda a, b: np.where(abs(a) > abs(b), a, b),
    "abs_min": lambda a, b: np.where(abs(a) < abs(b), a, b),
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "logical_and": lambda a, b: (a != 0) & (b != 0),
    "logical_or": lambda a, b: (a != 0) | (b != 0),
    "logical_xor": lambda a, b: (a != 0) ^ (b != 0),
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "left_shift": lambda a, b: a << b,
    "right_shift": lambda a, b: a >> b,
}
_ONE: dict[str, Callable[[Array], Array]] = {
    "bypass": lambda a: a,
    "copy": lambda a: a,
    "abs": abs,
    "square": lambda a: a * a,
    "relu": lambda a: np.maximum(a, F32(0)),
    "sqrt": np.sqrt,
    "rsqrt": lambda a: F32(1) / np.sqrt(a),
    "reciprocal": lambda a: F32(1) / a,
    "logical_not": lambda a: a == 0,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sign": np.sign,
}
_BITS = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"})
_START = {"add": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}
_EXACT = frozenset({"add", "subtract", "multiply", "maximum", "minimum"})


class Failure(Exception):
    """The call has no result: an index leads outside."""


class Reference:
    """The tiles of a script on one core, by number; `run` carries a step out. `beside`: another
    core of the script, which has the same inputs and outputs.
    """

    def __init__(self, script: Script, beside: Reference | None = None) -> None:
        inputs = {n: array.copy() for n, array in enumerate(script.arrays())}
        self.inputs = inputs if beside is None else beside.inputs
        self.outputs: list[Array] = [] if beside is None else beside.outputs
        self.arrays = dict(self.inputs)
        self.on_chip = dict.fromkeys(self.arrays, False)
        self.in_psum = dict.fromkeys(self.arrays, False)
        self.written: dict[int, Array] = {}
        self.shared = 0
        self.start: dict[int, int] = {}
        self.sums = {"scalar": np.zeros(128, F32), "vector": np.zeros(128, F32)}

    def run(self, step: Step) -> None:
        """Carries out a call that the language accepted."""
        options = dict(step.options)
        with np.errstate(all="ignore"):
            getattr(self, "_" + step.call)(step, options, dict(step.operands))

    def result(self) -> list[Array]:
        """The outputs in the order they were made."""
        return self.outputs

    # Tiles and views ----------------------------------------------------------------------------

    def _new(self, step: Step, options: dict, views: dict[str, View]) -> None:
        self._make(step.tile, options["shape"], options["dtype"], options["memory"])
        self.start[step.tile] = options.get("address", (0, 0))[0]

    def _make(self, number: int, shape: Sequence[int], dtype: str, memory: str) -> None:
        kind = numpy_dtype(dtype)
        data = np.full(math.prod(shape) * kind.itemsize, 0xFF, np.uint8)
        self.arrays[number] = data.view(kind).reshape(shape)
        self.on_chip[number] = memory in ("sbuf", "psum")
        self.in_psum[number] = memory == "psum"
        self.written[number] = np.zeros(shape, np.bool_)
        if memory == "shared_hbm":
            if self.shared == len(self.outputs):
                self.outputs.append(self.arrays[number])
            self.arrays[number] = self.outputs[self.shared]
            self.shared += 1

    def _drop(self, step: Step, options: dict, views: dict[str, View]) -> None:
        del self.arrays[step.tile]

    def _see(self, view: View, array: Array | None = None) -> Array:
        """A numpy view of the tile (or of an array of its shape)."""
        on_chip = self.on_chip[view.tile]
        array = self.arrays[view.tile] if array is None else array
        base = array
        for method, arguments in view.views:
            array = _VIEWS[method](array, arguments, on_chip, base)
        if view.chosen is None:
            return array
        kind, axis, index = view.chosen
        rows = self.arrays[index].astype(np.int64)
        if kind == "vector":
            raise AssertionError("rows are gathered by dma_copy itself")
        if kind == "lanes":
            return self._grouped(array, rows, axis)
        position = int(rows.reshape(-1)[0])
        if not 0 <= position < array.shape[axis]:
            raise Failure
        array = array[(slice(None),) * axis + (position,)]
        return _deep_enough(array, on_chip)

    def _grouped(self, array: Array, rows: Array, count: int) -> Array:
        """Elements by the indices of each 16 partitions, which run down the partitions first."""
        table = array.reshape(len(array), -1)
        result = np.empty((len(array), count), array.dtype)
        for first in range(0, len(array), 16):
            group = rows[first : first + 16]
            chosen = [group[n % 16, n // 16] for n in range(count)]
            if min(chosen) < 0 or max(chosen) >= table.shape[1]:
                raise Failure
            result[first : first + 16] = table[first : first + 16, chosen]
        return result

    def _tile(self, view: View) -> Array:
        """The operand as [partitions, elements], a copy."""
        array = self._see(view)
        return array.reshape(array.shape[0], -1).copy()

    def _f32(self, view: View) -> Array:
        return self._tile(view).astype(F32)

    def _put(self, view: View, values: Array, where: Array | None = None) -> None:
        """Stores rounded values, everywhere or where `where` says."""
        array, marks = self._see(view), self._marks(view)
        rounded = _rounded(values, array.dtype).reshape(array.shape)
        chosen = np.ones(array.shape, np.bool_) if where is None else where.reshape(array.shape)
        array[chosen] = rounded[chosen]
        if marks is not None:
            marks[chosen] = True

    def _marks(self, view: View) -> Array | None:
        if view.tile not in self.written or any(method == "view" for method, _ in view.views):
            return None
        return self._see(view, self.written[view.tile])

    def _second(self, name: str, options: dict, views: dict[str, View], default: float) -> Array:
        """A number, or one value a partition."""
        if name in views:
            return self._f32(views[name])
        return np.full((1, 1), options.get(name, default), F32)

    # Calls --------------------------------------------------------------------------------------

    def _memset(self, step: Step, options: dict, views: dict[str, View]) -> None:
        shape = self._see(views["dst"]).shape
        self._put(views["dst"], np.broadcast_to(np.asarray(options["value"]), shape))

    def _iota(self, step: Step, options: dict, views: dict[str, View]) -> None:
        dst = self._see(views["dst"])
        counts = [count for _, count in options["pattern"]]
        grid = np.indices((dst.shape[0], *counts)).astype(np.int64)
        values = options["offset"] + grid[0] * options["channel_multiplier"]
        for axis, (factor, _) in enumerate(options["pattern"], 1):
            values = values + grid[axis] * factor
        if dst.dtype.kind in "iu" and dst.dtype.itemsize < 4:
            low, high = np.iinfo(dst.dtype).min, np.iinfo(dst.dtype).max
            values = values.clip(low, high)
        self._put(views["dst"], values)

    def _tensor_copy(self, step: Step, options: dict, views: dict[str, View]) -> None:
        self._move(views["dst"], self._see(views["src"]).copy())

    def _move(self, view: View, source: Array) -> None:
        dst = self._see(view)
        same = source.dtype == dst.dtype
        self._put(view, source if same else source.astype(F32))

    def _dma_copy(self, step: Step, options: dict, views: dict[str, View]) -> None:
        dst, src = views["dst"], views["src"]
        if src.chosen is not None and src.chosen[0] == "vector":
            self._gathered(dst, src, options.get("oob_mode", "error"))
        elif dst.chosen is not None and dst.chosen[0] == "vector":
            self._scattered(dst, src, options.get("oob_mode", "error"))
        else:
            try:
                self._tensor_copy(step, options, views)
            except Failure:
                if options.get("oob_mode", "error") != "skip":
                    raise

    def _rows(self, view: View, mode: str) -> tuple[Array, Array, Array]:
        """The table, the rows chosen, and which of them exist."""
        assert view.chosen is not None
        table = self._see(View(view.tile, view.views))
        rows = self.arrays[view.chosen[2]].T.reshape(-1).astype(np.int64)
        inside = (rows >= 0) & (rows < len(table))
        if mode == "error" and not inside.all():
            raise Failure
        return table, rows, inside

    def _gathered(self, dst: View, src: View, mode: str) -> None:
        table, rows, inside = self._rows(src, mode)
        array = self._see(dst)
        source = table[np.where(inside, rows, 0)]
        kept = np.broadcast_to(inside[:, None], (len(rows), source[0].size))
        values = source.reshape(len(rows), -1)
        values = values if values.dtype == array.dtype else values.astype(F32)
        self._put(dst, values.reshape(array.shape), kept.reshape(array.shape))

    def _scattered(self, dst: View, src: View, mode: str) -> None:
        table, rows, inside = self._rows(dst, mode)
        values = self._see(src).reshape(len(rows), -1).copy()
        for row, value in zip(rows[inside], values[inside], strict=True):
            same = value.dtype == table.dtype
            rounded = _rounded(value if same else value.astype(F32), table.dtype)
            table[row] = rounded.reshape(table[row].shape)

    def _tensor_tensor(self, step: Step, options: dict, views: dict[str, View]) -> None:
        op, engine = options["op"], options.get("engine", "unknown")
        operands = [views["data1"], views["data2"]]
        whole = all(
            self._see(v).dtype in (np.int32, np.uint32) and not self.in_psum[v.tile]
            for v in views.values()
        )
        if op in _BITS:
            one, two = (_bits(self._tile(view)) for view in operands)
        elif op in _EXACT and whole and engine in ("unknown", "gpsimd"):
            one, two = (self._tile(view).astype(np.int64) for view in operands)
        else:
            one, two = (self._f32(view) for view in operands)
        self._put(views["dst"], _apply(op, one, two))

    def _tensor_scalar(self, step: Step, options: dict, views: dict[str, View]) -> None:
        op0, op1 = options["op0"], options.get("op1", "bypass")
        bits = op0 in _BITS or (op0 == "bypass" and op1 in _BITS)
        values = _bits(self._tile(views["data"])) if bits else self._f32(views["data"])
        for n, op in enumerate((op0, op1)):
            name = f"operand{n}"
            if op in _BITS:
                right: Array = np.full((1, 1), options.get(name, 0), np.int64)
                right = _bits(self._tile(views[name])) if name in views else right
            else:
                right = self._second(name, options, views, 0.0)
            values = _apply(op, values, right, options.get(f"reverse{n}", False))
        self._put(views["dst"], values)

    def _scalar_tensor_tensor(self, step: Step, options: dict, views: dict[str, View]) -> None:
        first = self._second("operand0", options, views, 0.0)
        values = _apply(options["op0"], self._f32(views["data"]), first)
        self._put(views["dst"], _apply(options["op1"], values, self._f32(views["operand1"])))

    def _activation(self, step: Step, options: dict, views: dict[str, View]) -> None:
        self._activate(options, views, options.get("reduce_cmd", "idle"))

    def _activation_reduce(self, step: Step, options: dict, views: dict[str, View]) -> None:
        self._activate(options, views, "reset_reduce")

    def _activate(self, options: dict, views: dict[str, View], command: str) -> None:
        scale = self._second("scale", options, views, 1.0)
        bias = self._second("bias", options, views, 0.0)
        values = _function(options["op"], self._f32(views["data"]) * scale + bias)
        self._put(views["dst"], values)
        sums = self._lanes("scalar", views["dst"], len(values))
        if command in ("reset", "reset_reduce"):
            sums[...] = 0
        if command in ("reduce", "reset_reduce"):
            sums += values.sum(axis=1, dtype=F32)
        if "reduce_res" in views:
            self._put(views["reduce_res"], sums.copy())

    def _lanes(self, engine: str, view: View, count: int) -> Array:
        """The accumulators of the partitions that a view covers."""
        return self.sums[engine][self._first(view) :][:count]

    def _first(self, view: View) -> int:
        """The physical partition a view starts at, from where its first element lies."""
        array, base = self._see(view), self.arrays[view.tile]
        step = base.strides[0]
        distance = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        return self.start.get(view.tile, 0) + distance // step

    def _tensor_reduce(self, step: Step, options: dict, views: dict[str, View]) -> None:
        data = self._see(views["data"]).astype(F32)
        result = _folded(options["op"], data, data.ndim - 1)
        self._put(views["dst"], -result if options["negate"] else result)

    def _tensor_scalar_reduce(self, step: Step, options: dict, views: dict[str, View]) -> None:
        operand = self._second("operand0", options, views, 0.0)
        values = _number(_apply(options["op0"], self._f32(views["data"]), operand))
        op = options["reduce_op"]
        sums = self._lanes("vector", views["dst"], len(values))
        if options.get("reduce_cmd", "reset_reduce") == "reset_reduce":
            sums[...] = _START[op]
        sums[...] = _apply(op, sums.copy(), _folded(op, values, 1))
        self._put(views["dst"], values)
        if "reduce_res" in views:
            self._put(views["reduce_res"], sums.copy())

    def _tensor_scalar_cumulative(self, step: Step, options: dict, views: dict[str, View]) -> None:
        values = _apply(options["op0"], self._f32(views["src"]), F32(options["imm0"]))
        values, op = _number(values), options["op1"]
        sums = self._lanes("vector", views["dst"], len(values))
        if options.get("reduce_cmd", "reset_reduce") == "reset_reduce":
            sums[...] = _START[op]
        for column in range(values.shape[1]):
            sums[...] = values[:, column] = _apply(op, values[:, column].copy(), sums.copy())
        self._put(views["dst"], values)

    def _tensor_tensor_scan(self, step: Step, options: dict, views: dict[str, View]) -> None:
        one, two = self._f32(views["data0"]), self._f32(views["data1"])
        state = np.broadcast_to(self._second("initial", options, views, 0.0), (len(one), 1))[:, 0]
        result = np.empty_like(one)
        for column in range(one.shape[1]):
            state = _number(_apply(options["op0"], one[:, column], state))
            state = _number(_apply(options["op1"], state, two[:, column]))
            result[:, column] = state
        self._put(views["dst"], result)

    def _tensor_partition_reduce(self, step: Step, options: dict, views: dict[str, View]) -> None:
        self._put(views["dst"], _folded(options["op"], self._f32(views["data"]), 0))

    def _reciprocal(self, step: Step, options: dict, views: dict[str, View]) -> None:
        self._put(views["dst"], F32(1) / self._f32(views["data"]))

    def _nc_matmul(self, step: Step, options: dict, views: dict[str, View]) -> None:
        left, right = self._f32(views["stationary"]), self._f32(views["moving"])
        product = left.T @ right
        before, marks = self._tile(views["dst"]), self._marks(views["dst"])
        assert marks is not None
        old = marks.reshape(product.shape).copy()
        if options["accumulate"] is not None:
            old[...] = options["accumulate"]
        total = np.where(old, before.astype(F32) + product, product)
        self._put(views["dst"], total)

    def _nc_transpose(self, step: Step, options: dict, views: dict[str, View]) -> None:
        self._move(views["dst"], np.ascontiguousarray(self._tile(views["data"]).T))

    def _tensor_copy_predicated(self, step: Step, options: dict, views: dict[str, View]) -> None:
        chosen = self._tile(views["predicate"]) != 0
        if options.get("reverse_pred"):
            chosen = ~chosen
        dst = self._tile(views["dst"])
        if "src" in views:
            values = self._tile(views["src"])
            values = values if values.dtype == dst.dtype else values.astype(F32)
        else:
            values = np.full(dst.shape, options["src"], F32)
        self._put(views["dst"], values, chosen)

    def _range_select(self, step: Step, options: dict, views: dict[str, View]) -> None:
        data = self._f32(views["on_true_tile"])
        index = np.arange(data.shape[1], dtype=F32)[None]
        first = _apply(options["comp_op0"], index, self._f32(views["bound0"])) != 0
        second = _apply(options["comp_op1"], index, self._f32(views["bound1"])) != 0
        values = np.where(first & second, data, np.finfo(F32).min)
        self._put(views["dst"], values)
        self._lanes("vector", views["dst"], len(values))[...] = values.max(axis=1)

    def _affine_select(self, step: Step, options: dict, views: dict[str, View]) -> None:
        data = self._f32(views["on_true_tile"])
        lanes, columns = np.indices(data.shape)
        values = options["offset"] + lanes * options["channel_multiplier"]
        values = values + columns * options["pattern"][0][0]
        chosen = _apply(options["cmp_op"], values, np.zeros(1, np.int64)) != 0
        self._put(views["dst"], np.where(chosen, data, F32(options["on_false_value"])))

    def _select_reduce(self, step: Step, options: dict, views: dict[str, View]) -> None:
        chosen = self._tile(views["predicate"]) != 0
        false = self._second("on_false", options, views, 0.0)
        values = np.where(chosen, self._f32(views["on_true"]), false)
        self._put(views["dst"], values)
        command, sums = options.get("reduce_cmd", "idle"), None
        if command != "idle":
            sums = self._lanes("vector", views["dst"], len(values))
            largest = values.max(axis=1)
            sums[...] = np.maximum(largest, sums) if command == "reduce" else largest
            self._put(views["reduce_res"], sums.copy())

    def _nc_match_replace8(self, step: Step, options: dict, views: dict[str, View]) -> None:
        data, wanted = self._f32(views["data"]), self._f32(views["vals"])
        values = data.copy()
        for lane in range(len(data)):
            free = list(range(data.shape[1]))
            for slot in reversed(range(8)):
                hit = next((n for n in free if data[lane, n] == wanted[lane, slot]), None)
                if hit is not None:
                    values[lane, hit] = options["imm"]
                    free.remove(hit)
        self._put(views["dst"], values)

    def _nc_n_gather(self, step: Step, options: dict, views: dict[str, View]) -> None:
        data, rows = self._tile(views["data"]), self._tile(views["indices"]).astype(np.int64)
        if rows.min() < 0 or rows.max() >= data.shape[1]:
            raise Failure
        self._put(views["dst"], np.stack([line[at] for line, at in zip(data, rows, strict=True)]))

    def _dma_transpose(self, step: Step, options: dict, views: dict[str, View]) -> None:
        self._put(views["dst"], self._see(views["src"]).T.copy())

    def _max8(self, step: Step, options: dict, views: dict[str, View]) -> None:
        ordered = np.sort(self._f32(views["src"]), axis=1)
        self._put(views["dst"], ordered[:, ::-1][:, :8])

    def _nc_find_index8(self, step: Step, options: dict, views: dict[str, View]) -> None:
        data, wanted = self._f32(views["data"]), self._f32(views["vals"])
        found = np.full(wanted.shape, -1, np.int64)
        for lane in range(len(data)):
            free = list(range(data.shape[1]))
            for slot in range(8):
                hit = next((n for n in free if data[lane, n] == wanted[lane, slot]), None)
                if hit is not None:
                    found[lane, slot] = hit
                    free.remove(hit)
        self._put(views["dst"], found.astype(self._see(views["dst"]).dtype))

    def _nc_stream_shuffle(self, step: Step, options: dict, views: dict[str, View]) -> None:
        source, mask = self._tile(views["src"]), options["shuffle_mask"]
        values = self._tile(views["dst"])
        chosen = np.zeros(values.shape, np.bool_)
        for lane in range(len(values)):
            if mask[lane % 32] != 255:
                values[lane], chosen[lane] = source[lane - lane % 32 + mask[lane % 32]], True
        self._put(views["dst"], values, chosen)

    def _bn_stats(self, step: Step, options: dict, views: dict[str, View]) -> None:
        data = self._f32(views["data"])
        columns = []
        for half in (data[:, ::2], data[:, 1::2]):
            count = half.shape[1]
            mean = half.mean(axis=1) if count else np.zeros(len(data), F32)
            spread = ((half - mean[:, None]) ** 2).sum(axis=1)
            columns += [np.full(len(data), count, F32), mean, spread]
        self._put(views["dst"], np.stack(columns, axis=1).astype(F32))

    def _bn_aggr(self, step: Step, options: dict, views: dict[str, View]) -> None:
        data = self._f32(views["data"])
        count, mean, spread = data[:, 0::3], data[:, 1::3], data[:, 2::3]
        whole = count.sum(axis=1)
        average = (count * mean).sum(axis=1) / whole
        between = (count * (mean - average[:, None]) ** 2).sum(axis=1)
        variance = (spread.sum(axis=1) + between) / whole
        self._put(views["dst"], np.stack([average, variance], axis=1))

    def _function(self, step: Step, options: dict, views: dict[str, View]) -> None:
        x = self._see(views["x"])
        shape, kind = x.shape, options["kind"]
        values = x.astype(F32)
        if kind == "copy" and numpy_dtype(options["dtype"]) == x.dtype:
            values = x.copy()
        elif kind == "unary":
            values = _function(options["name"], values)
        elif kind == "number":
            values = _apply(options["name"], values, np.full(1, options["y"], F32))
        elif kind == "binary":
            values, shape = self._binary(options, views)
        elif kind == "fold":
            op = {"sum": "add", "max": "maximum"}[options["name"]]
            values, shape = _folded(op, values, 1)[:, None], (x.shape[0], 1)
        self._make(step.tile, shape, options["dtype"], "sbuf")
        self._put(View(step.tile), values)

    def _binary(self, options: dict, views: dict[str, View]) -> tuple[Array, tuple[int, ...]]:
        pair = [self._see(views["x"]), self._see(views["y"])]
        words = (np.int32, np.uint32)
        whole = all(a.dtype in words for a in pair) and numpy_dtype(options["dtype"]) in words
        chip = not any(self.in_psum[v.tile] for v in views.values())
        exact = whole and chip and pair[0].shape == pair[1].shape
        x, y = (a.astype(np.int64 if exact else F32) for a in pair)
        values = _apply(options["name"], x, y)
        return values, values.shape


def _apply(op: str, left: Array, right: Array, reverse: bool = False) -> Array:
    if op in _ONE:
        return _number(_ONE[op](left))
    return _number(_TWO[op](right, left) if reverse else _TWO[op](left, right))


def _number(values: Array) -> Array:
    """Truth as 1.0 and 0.0."""
    return values.astype(F32) if values.dtype == np.bool_ else values


def _function(name: str, values: Array) -> Array:
    if name == "sigmoid":
        from scipy.special import expit

        return expit(values)
    return _number(_ONE[name](values))


def _folded(op: str, values: Array, axis: int) -> Array:
    ufunc = {"add": np.add, "multiply": np.multiply}.get(op) or _TWO[op]
    return ufunc.reduce(values, axis=axis)


def _bits(values: Array) -> Array:
    if values.dtype.kind == "i":
        values = values.view(f"u{values.dtype.itemsize}")
    return values.astype(np.int64)


def _rounded(values: Array, dtype: np.dtype) -> Array:
    if dtype == np.bool_:
        return values != 0
    if dtype.kind in "iu" and values.dtype.kind not in "iub":
        limits = np.iinfo(dtype)
        exact = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
        return np.rint(exact).clip(limits.min, limits.max).astype(dtype)
    return values.astype(dtype)


def _deep_enough(array: Array, on_chip: bool) -> Array:
    while array.ndim < (2 if on_chip else 1):
        array = array[..., None]
    return array


def _indexed(array: Array, keys: Sequence, on_chip: bool, base: Array) -> Array:
    first = keys[0]
    if on_chip and isinstance(first, int):
        first = slice(first, first + 1) if first != -1 else slice(-1, None)
    return _deep_enough(array[(first, *keys[1:])], on_chip)


def _reshaped(array: Array, shape: tuple, on_chip: bool, base: Array) -> Array:
    result = array.reshape(shape)
    assert np.shares_memory(result, array)
    return result


def _pattern(array: Array, arguments: tuple, on_chip: bool, base: Array) -> Array:
    (pattern, offset), size = arguments, base.itemsize
    steps = [step * size for step, _ in pattern]
    counts = [count for _, count in pattern]
    return np.ndarray(counts, base.dtype, base.view(np.uint8).data, offset * size, steps)


def _repeated(array: Array, arguments: tuple, on_chip: bool, base: Array) -> Array:
    axis, size = arguments
    return np.broadcast_to(array, (*array.shape[:axis], size, *array.shape[axis + 1 :]))


_VIEWS: dict[str, Callable] = {
    "index": _indexed,
    "reshape": _reshaped,
    "permute": lambda array, dims, on_chip, base: array.transpose(dims),
    "broadcast": _repeated,
    "view": lambda array, arguments, on_chip, base: array.view(numpy_dtype(arguments[0])),
    "ap": _pattern,
}
