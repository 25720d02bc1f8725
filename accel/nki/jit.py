"""Running a kernel: with values (evaluate) or shapes only (trace), both giving the same program.

Comes in: a kernel, its arguments (arrays, or `TensorSpec`s where only shapes matter), a chip and a
grid. Goes out: the `Program`, and with values what the kernel returned. An exception inside the
kernel comes out as a `KernelError` that names the kernel's line.

The two forms of the language differ in what a kernel gets and returns; a `Dialect` says so.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import itertools
import math
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import PurePath
from types import ModuleType
from typing import overload

import numpy as np
import numpy.typing as npt

from accel.chip import CHIPS, Chip, chip_named
from accel.dtypes import dtype_name
from accel.errors import KernelError, UserError
from accel.nki.arrays import as_array, as_torch, is_torch
from accel.nki.cores import Cores
from accel.nki.geometry import viewed_values
from accel.nki.language import DEFAULT_CHIP
from accel.nki.misuse import told
from accel.nki.recorder import Recorder, active, recording, use
from accel.nki.regions import provided
from accel.nki.tensor import Tensor
from accel.program import Kind, Memory, Program
from accel.sim.evaluate import Uninitialised, Values
from accel.sim.numerics import Numerics, numerics_of
from accel.sim.wide import values_for

Array = npt.NDArray[np.generic]
Arguments = Mapping[str, object]

MAX_PROGRAMS = np.iinfo(np.int16).max  # a program's cores are numbered in 16 bits
TARGET_VARIABLE = "NEURON_PLATFORM_TARGET_OVERRIDE"
_BROKEN = "a rule of the kernel language or of the machine: change the kernel at this line"
_MISUSED = "docs/reference/nki.md lists what each call takes"
_TARGETS = {"gen1": "inf1", "gen2": "trn1", "gen3": "trn2", "gen4": "trn3"}


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor argument without values."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Dialect:
    """A form of the language. `wrap` makes what the kernel sees of a tensor, `unwrap` turns what it
    returns back (None: not a tensor). `around` encloses a whole recording. `core_of`: which core
    runs a program of a grid, in a form where programs run one after another; without it they run
    on cores side by side. `settle` ends what a program left open.
    """

    name: str
    wrap: Callable[[Tensor], object]
    unwrap: Callable[[object], Tensor | None]
    around: Callable[[Recorder], AbstractContextManager[object]]
    core_of: Callable[[tuple[int, ...], tuple[int, ...]], int] | None = None
    settle: Callable[[], None] = lambda: None


def _tensor_or_none(value: object) -> Tensor | None:
    return value if isinstance(value, Tensor) else None


NKI = Dialect("nki", lambda tensor: tensor, _tensor_or_none, contextlib.nullcontext)


# The recorder of the kernel that runs; a dialect may put another in its place for what it calls.
_ROOT: ContextVar[Recorder | None] = ContextVar("root", default=None)


class Kernel:
    """A kernel function. Inside another kernel a call is inlined; with arrays it is evaluated on
    the chip of the environment (trn2 by default) and returns arrays. `kernel[grid]` sets the grid.
    """

    def __init__(
        self,
        function: Callable[..., object],
        grid: tuple[int, ...] = (),
        dialect: Dialect = NKI,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function, self.grid, self.dialect = function, grid, dialect

    def __getitem__(self, grid: int | tuple[int, ...]) -> Kernel:
        extents = grid if isinstance(grid, tuple) else (grid,)
        counts = tuple(n if isinstance(n, int) else int(n) for n in extents)
        return Kernel(self.function, counts, self.dialect)

    def __call__(self, *positional: object, **keywords: object) -> object:
        recorder = _ROOT.get() or active()
        if recorder is not None:
            call = functools.partial(self.function, *positional, **keywords)
            launches = self.grid and not recorder.grid
            return (
                _over_grid(self.dialect, [recorder], self.grid, [call])[0] if launches else call()
            )
        result = evaluate(self, self.bind(positional, keywords), default_chip()).result
        if any(map(is_torch, (*positional, *keywords.values()))):
            return mapped(result, lambda v: as_torch(v) if isinstance(v, np.ndarray) else v)
        return result

    @property
    def name(self) -> str:
        """The function's name."""
        return str(getattr(self.function, "__name__", "kernel"))

    @property
    def parameters(self) -> tuple[inspect.Parameter, ...]:
        """The function's parameters in order."""
        return tuple(inspect.signature(self.function).parameters.values())

    def bind(self, positional: tuple[object, ...], keywords: Arguments) -> dict[str, object]:
        """Arguments by parameter name, defaults left out; UserError names what is missing."""
        signature = inspect.signature(self.function)
        try:
            return dict(signature.bind(*positional, **keywords).arguments)
        except TypeError as error:
            names = ", ".join(map(str, signature.parameters.values()))
            raise UserError(
                f"kernel {self.name}: {error}", f"its parameters are ({names})"
            ) from None


@overload
def jit(function: Callable[..., object]) -> Kernel: ...
@overload
def jit(function: None = None, **options: object) -> Callable[[Callable[..., object]], Kernel]: ...


def jit(
    function: Callable[..., object] | None = None, **options: object
) -> Kernel | Callable[[Callable[..., object]], Kernel]:
    """The decorator `@nki.jit`, with or without arguments; options are accepted and unused."""
    if function is None:
        return jit
    return function if isinstance(function, Kernel) else Kernel(function)


def simulate(kernel: Callable[..., object]) -> Kernel:
    """The kernel as a function of arrays."""
    return jit(kernel)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What evaluate mode gives: the program, what the kernel returned (arrays for tensors), and
    the elements that were read before anything wrote them.
    """

    program: Program
    result: object
    uninitialised: tuple[Uninitialised, ...]


def default_chip() -> Chip:
    """The chip that the target variable of the environment names, else trn2."""
    name = os.environ.get(TARGET_VARIABLE, DEFAULT_CHIP)
    return chip_named(_TARGETS.get(name, name)) if name else CHIPS[DEFAULT_CHIP]


def trace(
    kernel: Kernel,
    arguments: Arguments,
    chip: Chip,
    grid: tuple[int, ...] = (),
    registers: Mapping[str, int | Sequence[int]] | None = None,
    rank: int = 0,
) -> Program:
    """The kernel's program from shapes only. Arguments by name: `TensorSpec`s or arrays (whose
    values are not looked at) for tensors, anything else as it is. `registers`: by variable name
    what registers hold that the kernel loads, the same at every load or one value a load. `rank`:
    whose program it is, of the ranks that collectives name.
    """
    recorder = _recorder(kernel, chip, None)
    recorder.rank, recorder.ranks = rank, 0
    recorder.register_values = {
        name: itertools.repeat(given) if isinstance(given, int) else iter(given)
        for name, given in (registers or {}).items()
    }
    _record(kernel, [arguments], grid, [recorder])
    return recorder.build()


def evaluate(
    kernel: Kernel,
    arguments: Arguments,
    chip: Chip,
    grid: tuple[int, ...] = (),
    values: Values | None = None,
) -> Evaluation:
    """Runs the kernel on arrays. UserError for a `TensorSpec`, which has no values. `values`: what
    computes, if not the numerics of the environment; it holds every storage afterwards.
    """
    values = values or values_for(numerics_of(os.environ))
    recorder = _recorder(kernel, chip, values)
    (returned,) = _record(kernel, [arguments], grid, [recorder])
    return _evaluation(kernel.dialect, recorder, values, returned)


def evaluate_ranks(
    kernel: Kernel,
    arguments: Sequence[Arguments],
    chip: Chip,
    grid: tuple[int, ...] = (),
    numerics: Numerics | None = None,
) -> tuple[Evaluation, ...]:
    """Runs the kernel on several ranks at once, `arguments` by rank; what each of them gives.

    Every rank has a program and memories of its own, and meets the others in collectives.
    KernelError where ranks wait for each other for ever, or do not agree on what to do together.
    """
    if kernel.dialect.core_of is not None:
        raise UserError(
            f"kernel {kernel.name}: ranks are not supported in the form {kernel.dialect.name}",
            "collectives between ranks are in nki.collectives, of the form `import nki`",
        )
    every = [values_for(numerics or numerics_of(os.environ)) for _ in arguments]
    recorders = [_recorder(kernel, chip, values) for values in every]
    for rank, recorder in enumerate(recorders):
        recorder.rank, recorder.ranks = rank, len(recorders)
    results = _record(kernel, arguments, grid, recorders)
    return tuple(
        _evaluation(kernel.dialect, recorder, values, result)
        for recorder, values, result in zip(recorders, every, results, strict=True)
    )


def _evaluation(
    dialect: Dialect, recorder: Recorder, values: Values, returned: object
) -> Evaluation:
    result = mapped(returned, lambda value: _read(dialect, values, value))
    return Evaluation(recorder.build(), result, values.uninitialised)


def _recorder(kernel: Kernel, chip: Chip, values: Values | None) -> Recorder:
    file = inspect.unwrap(kernel.function).__code__.co_filename
    return Recorder(kernel.name, chip, file, values=values)


def _record(
    kernel: Kernel,
    arguments: Sequence[Arguments],
    grid: tuple[int, ...],
    recorders: Sequence[Recorder],
) -> list[object]:
    """Runs the kernel, once a recorder; what the first program of the grid of each returned."""
    dialect, root = kernel.dialect, recorders[0]
    around, names = dialect.around(root), provided(kernel.function)
    with _running(root), _located(root), around, names:
        calls = []
        for recorder, given in zip(recorders, arguments, strict=True):
            bound = kernel.bind((), given)
            with recording(recorder):
                inputs = {name: _input(dialect, recorder, name, bound[name]) for name in bound}
            calls.append(functools.partial(kernel.function, **_spread(kernel, inputs)))
        results = _over_grid(dialect, recorders, grid or kernel.grid, calls)
    for recorder, result in zip(recorders, results, strict=True):
        _declare_outputs(dialect, recorder, result)
    return results


def _spread(kernel: Kernel, inputs: dict[str, object]) -> dict[str, object]:
    """The arguments with those of a `**parameter` beside the others, as the call wants them."""
    for parameter in kernel.parameters:
        extra = inputs.get(parameter.name)
        if parameter.kind is parameter.VAR_KEYWORD and isinstance(extra, dict):
            rest = {name: value for name, value in inputs.items() if name != parameter.name}
            return rest | extra
    return inputs


def _over_grid(
    dialect: Dialect,
    recorders: Sequence[Recorder],
    grid: tuple[int, ...],
    calls: Sequence[Callable[[], object]],
) -> list[object]:
    """Records a recorder's call once a program of the grid; what the first one of each returned."""
    _check_grid(grid)
    positions = tuple(itertools.product(*map(range, grid)))
    if dialect.core_of is None:
        return _side_by_side(recorders, grid, positions, calls)
    (recorder,), (call,) = recorders, calls
    recorder.grid = grid
    placed = [dialect.core_of(grid, position) for position in positions]
    recorder.builder.cores = max(placed) + 1
    results = []
    for position, core in zip(positions, placed, strict=True):
        recorder.enter_program(position, core)
        results.append(call())
        dialect.settle()
    return results[:1]


def _side_by_side(
    recorders: Sequence[Recorder],
    grid: tuple[int, ...],
    positions: Sequence[tuple[int, ...]],
    calls: Sequence[Callable[[], object]],
) -> list[object]:
    """All programs of all ranks on cores of their own."""
    count = len(positions)

    def enter(number: int) -> None:
        rank, core = divmod(number, count)
        recorders[rank].enter_program(positions[core], core)

    def program(number: int) -> object:
        rank = number // count
        if len(recorders) > 1:  # the thread is the core's own
            _ROOT.set(recorders[rank])
            use(recorders[rank])
        return calls[rank]()

    cores = Cores(len(recorders) * count, enter, count)
    for rank, recorder in enumerate(recorders):
        recorder.grid, recorder.builder.cores = grid, count
        recorder.cores, recorder.first_core = cores, rank * count
    return cores.run(program)[::count]


def _check_grid(grid: tuple[int, ...]) -> None:
    if any(extent < 1 for extent in grid):
        raise KernelError(f"grid {grid} has no programs", "every extent is at least 1")
    if math.prod(grid) > MAX_PROGRAMS:
        raise KernelError(
            f"grid {grid} is {math.prod(grid)} programs, at most {MAX_PROGRAMS} are recorded",
            "make the grid smaller, and loop inside the kernel",
        )


def _input(dialect: Dialect, recorder: Recorder, name: str, value: object) -> object:
    """The kernel's view of an argument; tensors inside lists, tuples and dicts are found."""
    if isinstance(value, (list, tuple)):
        items = [_input(dialect, recorder, f"{name}_{i}", item) for i, item in enumerate(value)]
        return _like(value, items)
    if isinstance(value, dict):
        return {
            key: _input(dialect, recorder, f"{name}_{key}", item) for key, item in value.items()
        }
    array = None if isinstance(value, TensorSpec) else as_array(value)
    tensor = value if isinstance(value, TensorSpec) else array
    if tensor is None:
        return value
    try:
        dtype = dtype_name(tensor.dtype)
    except (KeyError, TypeError):
        raise UserError(f"argument {name}: unknown dtype {tensor.dtype}") from None
    if recorder.values is not None and array is None:
        raise UserError(f"argument {name} has no values", "pass an array, or trace instead")
    return dialect.wrap(
        recorder.allocate(
            tensor.shape, dtype, Memory.HBM, name=name, kind=Kind.INPUT, core=-1, array=array
        )
    )


def _declare_outputs(dialect: Dialect, recorder: Recorder, returned: object) -> None:
    tensors: list[Tensor] = []

    def collect(value: object) -> object:
        tensor = dialect.unwrap(value)
        if tensor is not None:
            tensors.append(tensor)
        return value

    mapped(returned, collect)
    for index, tensor in enumerate(tensors):
        recorder.output(tensor, "output" if len(tensors) == 1 else f"output_{index}")


def _like(value: object, items: list[object]) -> object:
    """`items` as the kind of sequence that `value` is; a named tuple takes them one by one."""
    kind: Callable[..., object] = type(value)
    return kind(*items) if hasattr(value, "_fields") else kind(items)


def mapped(value: object, change: Callable[[object], object]) -> object:
    """The same nesting of lists, tuples and dicts with every leaf changed."""
    if isinstance(value, (list, tuple)):
        return _like(value, [mapped(item, change) for item in value])
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    return change(value)


def _read(dialect: Dialect, values: Values, value: object) -> object:
    tensor = dialect.unwrap(value)
    if tensor is None:
        return value
    shown = tensor.geometry
    return values.read(tensor.storage, shown.dtype, shown.shape, shown.strides, tensor.byte_offset)


def tensor_values(storage: Array, tensor: Tensor) -> Array:
    """A copy of a view's elements, from the array behind its storage."""
    return viewed_values(storage, tensor.geometry, tensor.byte_offset)


@contextlib.contextmanager
def _running(recorder: Recorder) -> Iterator[None]:
    """Makes the recorder the current one, with cyclic collection off: recording makes millions of
    tuples and no cycles, and walking them again and again doubles the time of a large kernel.
    """
    token, collects = _ROOT.set(recorder), gc.isenabled()
    gc.disable()
    try:
        with recording(recorder):
            yield
    finally:
        _ROOT.reset(token)
        if collects:
            gc.enable()


@contextlib.contextmanager
def _located(recorder: Recorder) -> Iterator[None]:
    """Turns any exception of the kernel into a `KernelError` with the kernel's line."""
    try:
        yield
    except UserError as error:
        if not isinstance(error, KernelError) or error.place:
            raise
        place = _place_of(error, recorder.kernel_file)
        raise KernelError(error.message, error.hint or _BROKEN, place) from error
    except MemoryError:
        raise  # of this machine, not of the kernel
    except (Exception, SystemExit) as error:
        place = _place_of(error, recorder.kernel_file)
        misuse = told(error, _public(), recorder.kernel_file)
        if misuse is not None:
            raise KernelError(misuse, _MISUSED, place) from error
        raise KernelError(_told(error), "the kernel itself raised this", place) from error


def _public() -> tuple[ModuleType, ...]:
    """The modules that kernels call, those of the form last, which wins names of its own."""
    names = ("accel.nki.language", "accel.nki.isa", "accel.nki.collectives")
    older = ("accel.nki.legacy.language", "accel.nki.legacy.isa")
    return tuple(sys.modules[name] for name in (*names, *older) if name in sys.modules)


def _told(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, AssertionError):
        return f"assertion failed: {text}" if text else "assertion failed"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _place_of(error: BaseException, kernel_file: str) -> str:
    frames = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == kernel_file
    ]
    if not frames:
        return ""
    frame, line = frames[-1]
    return f"{PurePath(frame.f_code.co_filename).name}:{line}"
