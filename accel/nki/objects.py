"""Objects a kernel makes or gets that are neither tensors nor numbers.

`NKIObject` is the base of a kernel's own records. The language, whose compiler reads the class
rather than running it, lets them be made from any keywords and changed at any time, whatever the
dataclass decorator says; so does this one.
"""

from __future__ import annotations

import dataclasses
from abc import ABCMeta
from collections.abc import Iterator
from types import FunctionType

_GENERATED = "<string>"  # the file of a function that the dataclass decorator wrote
_FREEZING = frozenset({"__setattr__", "__delattr__"})


class _Open(ABCMeta):
    """Makes instances by keyword unless the class has an `__init__` of its own."""

    def __call__(cls, *positional: object, **keywords: object) -> object:
        if not _is_generated(cls.__init__):  # type: ignore[misc]
            return super().__call__(*positional, **keywords)
        made: object = object.__new__(cls)  # type: ignore[arg-type]
        names = _fields(cls)
        given = dict(zip(names, positional, strict=False))
        if len(positional) > len(names):
            raise TypeError(f"{cls.__name__} has {len(names)} fields, got {len(positional)} values")
        vars(made).update(dict(_defaults(cls)) | given | keywords)
        finish = getattr(made, "__post_init__", None)
        if callable(finish):
            finish()
        return made

    def __setattr__(cls, name: str, value: object) -> None:
        """A frozen dataclass is not frozen inside a kernel."""
        if name in _FREEZING and isinstance(value, FunctionType) and _is_generated(value):
            return
        super().__setattr__(name, value)


class NKIObject(metaclass=_Open):
    """Base of kernel configuration classes: takes any keyword, fields may stay unset."""

    def __init__(self, **fields: object) -> None:
        for name, value in fields.items():
            setattr(self, name, value)


def _is_generated(function: object) -> bool:
    if function is NKIObject.__init__:
        return True
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename == _GENERATED


def _fields(cls: type) -> tuple[str, ...]:
    """Annotated names, those of base classes first."""
    names: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        names.update(dict.fromkeys(vars(base).get("__annotations__", ())))
    return tuple(names)


def _defaults(cls: type) -> Iterator[tuple[str, object]]:
    """Default values that are made anew for each instance."""
    for name, field in getattr(cls, "__dataclass_fields__", {}).items():
        if field.default_factory is not dataclasses.MISSING:
            yield name, field.default_factory()
    for name in _fields(cls):
        value = getattr(cls, name, None)
        if isinstance(value, dataclasses.Field) and value.default is not dataclasses.MISSING:
            yield name, value.default


class NkiInstruction:
    """What an instruction call returns. Instructions are recorded in the order of the calls, and
    each engine keeps it, so dependencies are accepted and need nothing more.
    """

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """This instruction itself; every producer must be one."""
        for producer in producers:
            if not isinstance(producer, NkiInstruction):
                raise TypeError(f"depends_on: got {type(producer).__name__}, needs instructions")
        return self
