"""reference: the function that says what a kernel should compute.

`FILE.py:FUNCTION` is a function of a file, `numpy.add` one that can be imported. It gets the
kernel's arguments by name where it has parameters of these names, else those it has room for, in
order; floats of fewer bits arrive as float32 with the same values. `watched_values` calls it once
more and notes every array that it computes or binds to a variable, with the line.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from accel.dtypes import FLOATS, dtype_name
from accel.errors import UserError
from accel.nki.jit import Kernel
from accel.nki.load import load_module

if TYPE_CHECKING:
    from _typeshed import TraceFunction

Array = npt.NDArray[np.generic]
_HINT = "write FILE.py:FUNCTION, or a name that can be imported, as numpy.add"
_KEPT_BYTES = 2**29
ARGUMENT = "argument"  # the place of an intermediate that was passed in


@dataclass(frozen=True, slots=True)
class Reference:
    """A function with what it is called in messages."""

    name: str
    function: Callable[..., object]


@dataclass(frozen=True, slots=True)
class Intermediate:
    """An array that a reference computed, and where: `scores (reference.py:12)`."""

    name: str
    place: str
    values: npt.NDArray[np.float64]

    def __str__(self) -> str:
        return f"{self.name} ({self.place})"


def load_reference(target: str) -> Reference:
    """The function that `target` names; UserError where there is none."""
    file, colon, name = target.rpartition(":")
    if colon and not Path(file).is_file():
        raise UserError(f"no file {file}", _HINT)
    found = _from_file(file, name) if colon else _imported(target)
    if isinstance(found, Kernel) or not callable(found):
        kind = "a kernel" if isinstance(found, Kernel) else "no function"
        raise UserError(f"the reference {target!r} is {kind}", "give a function of arrays")
    return Reference(name if colon else target, found)


def _from_file(file: str, name: str) -> object:
    module = load_module(Path(file))
    if not hasattr(module, name):
        raise UserError(f"no function {name!r} in {file}", "give one that the file defines")
    return getattr(module, name)


def _imported(target: str) -> object:
    module, _, name = target.rpartition(".")
    if not module:
        raise UserError(f"{target!r} does not name a reference", _HINT)
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        raise UserError(f"the reference {target!r} cannot be imported", _HINT) from None


def call_reference(reference: Reference, arguments: Mapping[str, object]) -> tuple[Array, ...]:
    """The arrays that it returns. UserError where it fails or returns none."""
    given, named = _given(reference, {name: _widened(v) for name, v in arguments.items()})
    try:
        with np.errstate(all="ignore"):
            returned = reference.function(*given, **named)
    except Exception as error:
        raise UserError(
            f"reference {reference.name}: {type(error).__name__}: {error}{_line_of(error)}",
            "it is called with the kernel's arguments as arrays",
        ) from error
    arrays = tuple(_arrays(returned))
    if not arrays:
        raise UserError(
            f"reference {reference.name} returns no array", "return what the kernel should return"
        )
    return arrays


def _given(
    reference: Reference, arguments: Mapping[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """The arguments by position and by name."""
    try:
        parameters = inspect.signature(reference.function).parameters.values()
    except ValueError:  # a numpy function written in C
        room = getattr(reference.function, "nin", len(arguments))
        return tuple(arguments.values())[:room], {}
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in _VARIADIC]
    if all(name in arguments for name in needed):
        takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
        names = {p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY}
        if set(needed) <= names:
            return (), {n: v for n, v in arguments.items() if takes_all or n in names}
    return tuple(arguments.values())[: max(len(needed), 1)], {}


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _widened(value: object) -> object:
    if isinstance(value, np.ndarray) and value.dtype.itemsize < 4 and _is_float(value.dtype):
        return value.astype(np.float32)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_widened(item) for item in value)
    return value


def _is_float(dtype: np.dtype[np.generic]) -> bool:
    try:
        return dtype_name(dtype) in FLOATS
    except (KeyError, TypeError):
        return False


def _arrays(value: object) -> Iterator[Array]:
    if isinstance(value, np.ndarray | np.generic):
        yield np.asarray(value)
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _arrays(item)
    elif hasattr(value, "__array__"):
        yield np.asarray(value)


def _line_of(error: BaseException) -> str:
    trace: TracebackType | None = error.__traceback__
    places = []
    while trace is not None:
        places.append(f"{PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f" ({places[-1]})" if len(places) > 1 else ""


# --- watching -------------------------------------------------------------------------------------


def watched_values(
    reference: Reference, arguments: Mapping[str, object]
) -> tuple[Intermediate, ...]:
    """Every array of floats that the reference computes on the way, its arguments first."""
    notes = _Notes(getattr(inspect.unwrap(reference.function), "__code__", None))
    watched: dict[str, object] = {}
    for name, value in arguments.items():
        wide = _widened(value)
        if isinstance(wide, np.ndarray):
            notes.add(name, ARGUMENT, wide)
            wide = wide.view(notes.watched)
        watched[name] = wide
    old = sys.gettrace()
    sys.settrace(notes.enter)
    try:
        call_reference(reference, watched)
    except UserError:
        pass  # not every function takes a subclass of arrays; what was seen until then counts
    finally:
        sys.settrace(old)
    return tuple(notes.found.values())


class _Notes:
    """The arrays seen so far: results of numpy functions, and values of variables."""

    def __init__(self, code: object) -> None:
        self.found: dict[tuple[object, ...], Intermediate] = {}
        self.file = str(getattr(code, "co_filename", ""))
        self.bytes = 0
        notes = self

        class Watched(np.ndarray):
            """An array whose results are noted."""

            def __array_ufunc__(
                self, ufunc: np.ufunc, method: str, *inputs: object, **options: object
            ) -> object:
                plain = [_plain(value) for value in inputs]
                given = {name: _plain(value) for name, value in options.items()}
                result = getattr(ufunc, method)(*plain, **given)
                if not isinstance(result, np.ndarray):
                    return result
                notes.add(ufunc.__name__, notes.place(sys._getframe(1)), result)
                return result.view(Watched)

        self.watched = Watched

    def enter(self, frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        """The trace function: follows the frames of the reference's own file."""
        return self.line if frame.f_code.co_filename == self.file else None

    def line(self, frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        """Notes the variables of a frame before its next line and at its end."""
        for name, value in list(frame.f_locals.items()):
            if isinstance(value, np.ndarray):
                self.add(name, self.place(frame), _plain(value), bound=True)
        return self.line

    def place(self, frame: FrameType) -> str:
        """The line of the reference's file that runs."""
        inner: FrameType | None = frame
        while inner is not None and inner.f_code.co_filename != self.file:
            inner = inner.f_back
        return "" if inner is None else f"{PurePath(self.file).name}:{inner.f_lineno}"

    def add(self, name: str, place: str, array: object, bound: bool = False) -> None:
        """Keeps a copy of an array of floats, once for the same numbers."""
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or array.size < 2:
            return
        key = (array.shape, hash(array.tobytes()))
        known = self.found.get(key)
        if known is not None:
            if bound and known.name in vars(np) and known.place != ARGUMENT:
                self.found[key] = Intermediate(name, known.place, known.values)
            return
        self.bytes += 8 * array.size
        if self.bytes <= _KEPT_BYTES:
            self.found[key] = Intermediate(name, place, array.astype(np.float64))


def _plain(value: object) -> object:
    if isinstance(value, tuple):  # `out=`
        return tuple(map(_plain, value))
    return value.view(np.ndarray) if isinstance(value, np.ndarray) else value
