"""Case ids taken apart, so that a table says once what all cases of a benchmark share.

In: anything that has a case id. Out: `Group`s in order of first appearance, each with the
parameters that are the same for all its cases and, per case, the values of the others. Values are
spelled as in the id. An id that is not `benchmark[name=value,…]`, such as another tool's, is kept
whole. Cases without parameters that are alone in their benchmark share one group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from perfgate.caseid import format_case_id, parse_case_id

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Member(Generic[Item]):
    """One case: `values` of the group's `names`, empty where it has no such parameter."""

    item: Item
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group(Generic[Item]):
    """The cases of one benchmark. `shared` are `name=value` texts; `names` are the parameters that
    differ. Where `benchmark` is empty, the one name is `case` and its values are whole ids."""

    benchmark: str
    shared: tuple[str, ...]
    names: tuple[str, ...]
    members: tuple[Member[Item], ...]

    def label(self, member: Member[Item]) -> str:
        """What tells a case from the others of the group: `m=512 n=64`, or the id."""
        if not self.benchmark:
            return member.values[0]
        told = zip(self.names, member.values, strict=True)
        return " ".join(f"{name}={value}" for name, value in told if value)


def grouped(items: Iterable[Item], case_id_of: Callable[[Item], str]) -> tuple[Group[Item], ...]:
    """The items by benchmark, in their order."""
    parts: dict[str, list[tuple[Item, Mapping[str, str]]]] = {}
    for item in items:
        benchmark, parameters = split_case_id(case_id_of(item))
        parts.setdefault(benchmark, []).append((item, parameters))
    lone = [members[0][0] for members in parts.values() if _is_lone(members)]
    groups: list[Group[Item]] = []
    for benchmark, members in parts.items():
        if not _is_lone(members):
            groups.append(_group(benchmark, members))
        elif members[0][0] is lone[0]:
            rows = tuple(Member(item, (case_id_of(item),)) for item in lone)
            groups.append(Group("", (), ("case",), rows))
    return tuple(groups)


def split_case_id(case_id: str) -> tuple[str, Mapping[str, str]]:
    """Benchmark and parameters spelled as in the id; an id of another form is all benchmark."""
    benchmark, parameters = parse_case_id(case_id)
    if not parameters or format_case_id(benchmark, parameters) != case_id:
        return case_id, {}
    name, _, inside = case_id.removesuffix("]").partition("[")
    pairs = (part.partition("=") for part in inside.split(","))
    return name, {key: value for key, _, value in pairs}


def _is_lone(members: Sequence[tuple[Item, Mapping[str, str]]]) -> bool:
    return len(members) == 1 and not members[0][1]


def _group(benchmark: str, members: Sequence[tuple[Item, Mapping[str, str]]]) -> Group[Item]:
    names = sorted({name for _, parameters in members for name in parameters})
    seen = {name: {parameters.get(name, "") for _, parameters in members} for name in names}
    differing = tuple(name for name in names if len(seen[name]) > 1)
    shared = tuple(f"{name}={min(seen[name])}" for name in names if len(seen[name]) == 1)
    rows = (
        Member(item, tuple(parameters.get(name, "") for name in differing))
        for item, parameters in members
    )
    return Group(benchmark, shared, differing, tuple(rows))
