"""JSON from a file nobody here wrote, with errors that point at the place.

`parse_json` is stricter than the standard library: text after the document, NaN, infinities and
numbers too large for a float are errors with line and column. `Node` walks the parsed data and
names the path (`benchmarks[3].stats.mean`) of what does not fit.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Iterator
from dataclasses import dataclass

from perfgate.errors import UserError

# One lexical item of JSON that may hold a number, or a string that must be stepped over.
_ITEM = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity|-?\d[\d.eE+-]*', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Node:
    """A value inside a document, and how to say where it is; `hint` goes with every error."""

    value: object
    file: str
    path: str
    hint: str

    def get(self, key: str) -> Node:
        """The member of an object; its value is None where the object has no such key."""
        if not isinstance(self.value, dict):
            raise self.misfit("an object")
        path = f"{self.path}.{key}" if self.path else key
        return Node(self.value.get(key), self.file, path, self.hint)

    def items(self) -> Iterator[Node]:
        """The members of a list."""
        if not isinstance(self.value, list):
            raise self.misfit("a list")
        for index, item in enumerate(self.value):
            yield Node(item, self.file, f"{self.path}[{index}]", self.hint)

    def text(self) -> str:
        """A text that is not empty."""
        if not isinstance(self.value, str) or not self.value:
            raise self.misfit("text")
        return self.value

    def number(self) -> float:
        """A finite number."""
        found = as_number(self.value)
        if found is None:
            raise self.misfit("a number")
        return found

    def count(self) -> int:
        """A whole number of at least one."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or self.value < 1:
            raise self.misfit("a whole number above 0")
        return self.value

    def misfit(self, wanted: str) -> UserError:
        """The error that says what was expected here."""
        place = f"{self.file}: {self.path or 'the document'}"
        if self.value is None:
            return UserError(f"{place}: expected {wanted}, found nothing", self.hint)
        return UserError(f"{place}: expected {wanted}, got {reprlib.repr(self.value)}", self.hint)


def as_number(value: object) -> float | None:
    """A finite number as a float, None for everything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def parse_json(content: bytes, file: str, hint: str) -> Node:
    """The whole content as one document. Raises `UserError` naming file, line and column."""
    text = _decoded(content, file, hint)
    if not text.strip():
        raise UserError(f"{file}: the file is empty", hint)
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        cut_off = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        reason = "the file ends too early" if cut_off else f"not JSON: {_lowered(error.msg)}"
        raise UserError(f"{file}: {place}: {reason}", hint) from None
    except RecursionError:
        raise UserError(f"{file}: nested too deeply to be results", hint) from None
    except ValueError:
        raise UserError(f"{file}: {_find_unreal(text)}", hint) from None
    return Node(value, file, "", hint)


def _decoded(content: bytes, file: str, hint: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{file}: line {line}: not UTF-8 text", hint) from None


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _find_unreal(text: str) -> str:
    """Where the first number is that is none, since the standard parser does not tell."""
    for match in _ITEM.finditer(text):
        item = match.group()
        if not item.startswith('"') and _is_unreal(item):
            line = text.count("\n", 0, match.start()) + 1
            column = match.start() - text.rfind("\n", 0, match.start())
            return f"line {line}, column {column}: expected a finite number, got {item[:20]}"
    return "a number is not finite"


def _is_unreal(item: str) -> bool:
    try:
        return not math.isfinite(float(item))
    except ValueError:
        return False


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]
