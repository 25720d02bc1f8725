"""Misuse: what to say when a call of the language fails on arguments it was never meant for.

Calls check what a kernel's author gets wrong in earnest. Anything else, a string for a tensor or a
tile for a size, ends in a Python error somewhere below. That error names our variables; here the
call is found that the kernel made, and the argument that is not of the kind its annotation says.
"""

from __future__ import annotations

import collections.abc
import enum
import functools
import inspect
import numbers
import re
import traceback
import types
import typing
from collections.abc import Callable, Iterable
from pathlib import PurePath
from types import FrameType, ModuleType

import numpy as np

from accel.nki.tensor import Tensor

_OURS = str(PurePath(__file__).parents[1])
_CALLED = re.compile(r"^\S+\(\) ")
_SHOWN = 40
_WORDS = {
    Tensor: "a tensor",
    int: "an int",
    float: "a number",
    str: "a string",
    bool: "True or False",
    type(None): "None",
}


def told(error: BaseException, public: Iterable[ModuleType], kernel_file: str) -> str | None:
    """The message for an error below a call of the language; None for one of the kernel's own."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    below = 0
    while below < len(frames) and not _is_ours(frames[-1 - below]):
        below += 1  # inside numpy, called by us or by the kernel
    if below == len(frames):
        return None
    inner = frames[len(frames) - below :]
    caller = frames[-1 - below].f_locals.get("self")
    if any(f.f_code.co_filename == kernel_file for f in inner) or hasattr(caller, "dialect"):
        return None  # the kernel's own function, which we call back, or a kernel that it calls
    last = len(frames) - below
    entry = last
    while entry and _is_ours(frames[entry - 1]):
        entry -= 1
    if entry == 0:
        return None  # nothing but our own frames: no call of a kernel
    frame = frames[entry]
    name, function = _called(frame, public)
    if function is None:
        return None
    wrong = _wrong_argument(function, frame)
    text = " ".join(str(error).split())
    wrapped = entry == last - 1 and frame.f_code.co_name == "__call__"
    if wrapped and isinstance(error, TypeError) and _CALLED.match(text):
        return f"{name}: {_CALLED.sub('', text)}"  # the arguments do not fit what it stands for
    return f"{name}: {wrong or f'{type(error).__name__}: {text}'}"


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_OURS)


def _called(
    frame: FrameType, public: Iterable[ModuleType]
) -> tuple[str, Callable[..., object] | None]:
    """The name a kernel knows the function of a frame by, and the function."""
    code = frame.f_code
    owner: object = frame.f_locals.get("self")
    if owner is not None:
        method = inspect.getattr_static(type(owner), code.co_name, None)
        name = type(owner).__name__.lower() if isinstance(owner, Tensor) else str(owner)
        if code.co_name == "__call__":
            return name, None if method is None else method
        return f"{name}.{code.co_name}", method if inspect.isfunction(method) else None
    for module in public:
        for name, value in vars(module).items():
            if getattr(value, "__code__", None) is code:
                own = frame.f_locals.get("name") if "<locals>" in code.co_qualname else None
                return (own if isinstance(own, str) else name), value
    return "", None


def _wrong_argument(function: Callable[..., object], frame: FrameType) -> str | None:
    """Which argument of the frame is of another kind than its annotation says."""
    for name, hint in _hints(function).items():
        value = frame.f_locals.get(name)
        if name not in ("self", "return") and name in frame.f_locals and not fits(value, hint):
            shown = repr(value)
            shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
            return f"{name} is {type(value).__name__} {shown}, needs {_said(hint)}"
    return None


@functools.cache
def _hints(function: Callable[..., object]) -> dict[str, object]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError):
        return {}


def fits(value: object, hint: object) -> bool:
    """Whether a value is of the kind an annotation names; True where it names none."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, part) for part in inner)
    if origin is typing.Literal:
        return value in inner
    if origin is tuple:
        return isinstance(value, tuple)
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        if isinstance(value, str) or not isinstance(value, collections.abc.Sequence):
            return False
        return all(fits(item, inner[0]) for item in value)
    if not isinstance(hint, type) or hint is object:
        return True
    if hint is bool:
        return isinstance(value, (bool, int, np.bool_)) or value is None
    if hint in (int, typing.SupportsIndex):
        return hasattr(value, "__index__") and not isinstance(value, Tensor)
    if hint is float:
        return isinstance(value, (numbers.Real, np.generic))
    if issubclass(hint, enum.Enum):
        return True  # numbers and names of members are taken too
    return isinstance(value, hint)


def _said(hint: object) -> str:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_said(part) for part in inner))
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        return f"a list of {_said(inner[0])}" if inner else "a list"
    if isinstance(hint, type):
        return _WORDS.get(hint, hint.__name__)
    return str(hint)
