"""Frozen dataclasses to plain JSON data and back, driven by their type hints.

One codec for every record, so a field is declared once. Decoding is strict: a missing field without
a default, an unknown field, a wrong type or a non-finite number is a `UserError` that names the
path (`results[3].samples[0].values[2]`). Fields equal to their default are left out when encoding.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from perfgate.errors import UserError

T = TypeVar("T")

# A function from JSON data to the value that a type hint asks for, or a `_Misfit`.
_Decoder = Callable[[Any], Any]

_WORDS = {str: "text", int: "an integer", float: "a finite number", bool: "true or false"}


class _Misfit(Exception):
    """Data that does not fit its hint. The path to it is put together on the way out."""

    def __init__(self, problem: str, hint: str = "the file does not fit the schema") -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint
        self.path = ""

    def inside(self, step: str) -> _Misfit:
        self.path = step + self.path
        return self


def encode(value: object) -> Any:
    """A record, tuple, enum or scalar as data that `json.dumps` takes."""
    if value is None or type(value) in _WORDS:
        return value
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if not dataclasses.is_dataclass(value):
        return value
    record: Any = type(value)
    return {
        name: encode(item)
        for name, default in _defaults(record)
        if (item := getattr(value, name)) != default
    }


def decode(cls: type[T], data: object, path: str = "") -> T:
    """Data as produced by `encode`, checked field by field, as a `cls`."""
    hint: Any = cls
    try:
        decoded: T = _decoder(hint)(data)
    except _Misfit as misfit:
        where = (path or cls.__name__) + misfit.path
        raise UserError(f"{where}: {misfit.problem}", misfit.hint) from None
    except RecursionError:
        raise UserError(f"{path or cls.__name__}: nested too deeply", "is the file ours?") from None
    return decoded


@functools.cache
def _defaults(cls: Any) -> tuple[tuple[str, object], ...]:
    """The fields of a record with their defaults; `dataclasses.MISSING` where there is none."""
    return tuple(
        (f.name, f.default if f.default_factory is dataclasses.MISSING else f.default_factory())
        for f in dataclasses.fields(cls)
    )


def _expected(wanted: str, got: object) -> _Misfit:
    return _Misfit(f"expected {wanted}, got {_shown(got)}")


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


@functools.cache
def _decoder(hint: Any) -> _Decoder:
    """How to decode what `hint` describes, made once: a profile is thousands of records."""
    origin = typing.get_origin(hint)
    args = typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _union_decoder(args)
    if origin is tuple:
        return _list_decoder(args[0]) if args[-1] is Ellipsis else _items_decoder(args)
    if origin is typing.Literal:
        return _choice_decoder(args)
    if dataclasses.is_dataclass(hint):
        return _record_decoder(typing.cast(type, hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum_decoder(hint)
    if hint is float:
        return _decode_number
    if hint in _WORDS:
        return functools.partial(_decode_scalar, hint)
    raise TypeError(f"no decoding rule for {hint!r}")


def _union_decoder(options: tuple[Any, ...]) -> _Decoder:
    optional = types.NoneType in options
    kinds = [option for option in options if option is not types.NoneType]
    if len(kinds) == 1:
        only = _decoder(kinds[0])
        return lambda data: None if data is None and optional else only(data)
    by_type = {kind: _decoder(kind) for kind in kinds}

    def decode_union(data: object) -> Any:
        if data is None and optional:
            return None
        if type(data) not in by_type:
            *first, last = (_WORDS.get(kind, str(kind)) for kind in kinds)
            raise _expected(f"{', '.join(first)} or {last}", data)
        return by_type[type(data)](data)

    return decode_union


def _list_decoder(item_hint: Any) -> _Decoder:
    decode_item = _decoder(item_hint)

    def decode_list(data: object) -> tuple[Any, ...]:
        if not isinstance(data, (list, tuple)):
            raise _expected("a list", data)
        items: list[Any] = []
        try:
            for item in data:
                items.append(decode_item(item))
        except _Misfit as misfit:
            raise misfit.inside(f"[{len(items)}]") from None
        return tuple(items)

    return decode_list


def _items_decoder(hints: tuple[Any, ...]) -> _Decoder:
    decoders = [_decoder(hint) for hint in hints]

    def decode_items(data: object) -> tuple[Any, ...]:
        if not isinstance(data, (list, tuple)):
            raise _expected("a list", data)
        if len(data) != len(decoders):
            raise _expected(f"{len(decoders)} items", data)
        items: list[Any] = []
        try:
            for decode_item, item in zip(decoders, data, strict=True):
                items.append(decode_item(item))
        except _Misfit as misfit:
            raise misfit.inside(f"[{len(items)}]") from None
        return tuple(items)

    return decode_items


def _choice_decoder(choices: tuple[object, ...]) -> _Decoder:
    def decode_choice(data: object) -> object:
        if data not in choices:
            raise _expected(" or ".join(map(repr, choices)), data)
        return data

    return decode_choice


def _record_decoder(cls: type) -> _Decoder:
    # Filled at the first use, because a record may contain its own kind.
    decoders: dict[str, _Decoder] = {}

    def decode_record(data: object) -> Any:
        if not isinstance(data, dict):
            raise _expected("an object", data)
        if not decoders:
            decoders.update({n: _decoder(h) for n, h in typing.get_type_hints(cls).items()})
        values: dict[str, Any] = {}
        for name, item in data.items():
            if name not in decoders:
                raise _Misfit(f"unknown field {_shown(name)}", "written by a newer version?")
            try:
                values[name] = decoders[name](item)
            except _Misfit as misfit:
                raise misfit.inside(f".{name}") from None
        return _made(cls, values)

    return decode_record


def _made(cls: type, values: dict[str, Any]) -> Any:
    try:
        return cls(**values)
    except TypeError:
        absent = [
            name
            for name, default in _defaults(cls)
            if default is dataclasses.MISSING and name not in values
        ]
        if not absent:
            raise
        raise _Misfit(f"missing field {', '.join(absent)}", "is the file cut off?") from None
    except ValueError as error:
        raise _Misfit(str(error)) from None


def _enum_decoder(cls: type[Enum]) -> _Decoder:
    def decode_enum(data: object) -> Enum:
        try:
            return cls(data)
        except ValueError:
            raise _expected("one of " + ", ".join(str(m.value) for m in cls), data) from None

    return decode_enum


def _decode_number(data: object) -> float:
    if isinstance(data, bool) or not isinstance(data, (int, float)):
        raise _expected(_WORDS[float], data)
    try:
        number = float(data)
    except OverflowError:
        raise _expected(_WORDS[float], data) from None
    if not math.isfinite(number):
        raise _expected(_WORDS[float], data)
    return number


def _decode_scalar(kind: type, data: object) -> object:
    if type(data) is not kind:
        raise _expected(_WORDS[kind], data)
    return data
