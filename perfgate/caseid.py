"""Case ids: `benchmark[name=value,…]`, stable across machines and runs.

The benchmark part is a dotted path; parameters are sorted by name, so the same parameters give the
same id whatever order they were declared in. Characters with a meaning here (`[ ] , = %`) and
control characters are percent-encoded inside values. Parsing an id that was formatted here gives
the same parts back (a property test says so).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

_RESERVED = re.compile(r"[\[\],=%\x00-\x1f\x7f]")

ParameterValue = str | int | float | bool


def _escape(text: str) -> str:
    return _RESERVED.sub(lambda match: f"%{ord(match.group()):02X}", text)


def _text(value: ParameterValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _escape(str(value))


def format_case_id(benchmark: str, parameters: Mapping[str, ParameterValue] | None = None) -> str:
    """`kernels.matmul`, {"m": 512, "chip": "trn2"} → `kernels.matmul[chip=trn2,m=512]`."""
    if not parameters:
        return _escape(benchmark)
    inside = ",".join(f"{_escape(name)}={_text(parameters[name])}" for name in sorted(parameters))
    return f"{_escape(benchmark)}[{inside}]"


def parse_case_id(case_id: str) -> tuple[str, dict[str, str]]:
    """The benchmark and its parameters as text; ids from other tools parse to (id, {})."""
    match = re.fullmatch(r"([^\[\]]*)(?:\[([^\[\]]*)\])?", case_id)
    if match is None:
        return case_id, {}
    benchmark, inside = match.groups()
    if inside is None:
        return unquote(benchmark), {}
    pairs = [part.partition("=") for part in inside.split(",")]
    if any(not separator for _, separator, _ in pairs):
        return case_id, {}
    return unquote(benchmark), {unquote(name): unquote(value) for name, _, value in pairs}
