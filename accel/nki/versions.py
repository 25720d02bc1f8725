"""versions: what a kernel finds under `nki` when it asks for one version of the language.

Without a version both spellings of a call are accepted where they can be told apart. With one, a
name that did not exist or no longer exists is an error that says so, and a call whose meaning
changed behaves as in that version. `LIFETIMES` says which names come and go, `CHANGES` which calls
changed; everything else is the same in all versions.

Versions are those of the language: 0.1 is `neuronxcc.nki`, 0.2 to 0.6 came with SDK 2.27 to 2.32.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType

from accel.errors import UserError
from accel.nki.changes import (
    CHANGES,
    EVERY_CALL,
    Adapter,
    Called,
    Change,
    only_a_name,
)
from accel.nki.enums import Token
from accel.program import Kind, Program

VERSIONS = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6")
LATEST = VERSIONS[-1]
# The older form was last accepted inside a kernel by 0.3, and knew no module `nki` itself.
OLDER_UNTIL, CURRENT_SINCE = "0.4", "0.2"


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A name exists from `since` on and before `until` ("" for no end); `instead`: what to use."""

    since: str
    until: str = ""
    instead: str = ""


def check_version(version: str) -> None:
    """UserError for what is neither a version nor empty."""
    if version and version not in VERSIONS:
        raise UserError(f"unknown version {version!r} of NKI", f"versions: {', '.join(VERSIONS)}")


def check_program(program: Program, version: str) -> None:
    """UserError for results that a version does not let a kernel return."""
    if version < "0.3":
        return
    for storage in program.storages:
        if storage.kind is Kind.OUTPUT and storage.core != -1:
            raise UserError(
                f"result {storage.name} lies in private hbm, NKI {version} returns shared_hbm only",
                "allocate it with buffer=nl.shared_hbm",
            )


def _lives(lifetime: Lifetime | Change, version: str) -> bool:
    return lifetime.since <= version and (not lifetime.until or version < lifetime.until)


# --- names that come and go -----------------------------------------------------------------------

_WRAPPERS = (
    *("load", "store", "load_transpose2d", "matmul", "transpose", "softmax", "rms_norm"),
    *("mean", "var", "all", "where", "dropout"),
)

LIFETIMES: dict[str, Lifetime] = {
    **{f"language.{name}": Lifetime("0.3", instead="an nki.isa call") for name in _WRAPPERS},
    "language.fori_loop": Lifetime("0.6", instead="nl.dynamic_range"),
    "language.while_loop": Lifetime("0.6", instead="while with a register"),
    "language.float8_e8m0fnu": Lifetime("0.5", instead="nl.uint8"),
    "isa.exponential": Lifetime("0.3", instead="nisa.activation(op=nl.exp)"),
    "isa.dma_engine": Lifetime("0.3", instead="use_gpsimd_dma"),
    "isa.activate2": Lifetime("0.4", instead="nisa.activation"),
    "isa.topk": Lifetime("0.4", instead="nisa.max8"),
    "isa.tensor_copy_dynamic_src": Lifetime("0.2", "0.4", "nisa.tensor_copy with .ap()"),
    "isa.tensor_copy_dynamic_dst": Lifetime("0.2", "0.4", "nisa.tensor_copy with .ap()"),
    "collectives.all_to_all_v": Lifetime("0.3", instead="ncc.all_to_all"),
    "collectives.all_gather_v": Lifetime("0.4", instead="ncc.all_gather"),
}


# --- modules --------------------------------------------------------------------------------------


class VersionedModule(ModuleType):
    """A module as it was in one version: looks names up in the module of all versions."""

    def __init__(self, name: str, original: ModuleType, version: str) -> None:
        super().__init__(name, original.__doc__)
        self.original, self.version = original, version
        self.part = name.removeprefix("nki.") if name != "nki" else ""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        path = f"{self.part}.{name}" if self.part else name
        lifetime = LIFETIMES.get(path)
        if lifetime is not None and not _lives(lifetime, self.version):
            raise AttributeError(_missing(self.__name__, name, lifetime, self.version))
        value = _as_of(self.version, self.part, path, getattr(self.original, name))
        setattr(self, name, value)  # kernels compare operators, so a name is always one object
        return value

    def __dir__(self) -> list[str]:
        return dir(self.original)


class AbsentModule(ModuleType):
    """A module that a version does not have: any use of it is an error that says so."""

    def __init__(self, name: str, version: str) -> None:
        super().__init__(name)
        self.version = version

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        older = self.__name__.startswith("neuronxcc")
        form = "the older form, neuronxcc.nki," if older else "the current form, nki,"
        since = f"until NKI {VERSIONS[2]}" if older else f"from NKI {CURRENT_SINCE} on"
        raise UserError(
            f"{form} is there {since}, the kernel is read as NKI {self.version}",
            "ask for another version with --nki, or for none",
        )


def _missing(module: str, name: str, lifetime: Lifetime, version: str) -> str:
    when = f"came with {lifetime.since}"
    if lifetime.until and version >= lifetime.until:
        when = f"left with {lifetime.until}"
    instead = f"; use {lifetime.instead}" if lifetime.instead else ""
    return f"{module} has no {name!r} in NKI {version}: it {when}{instead}"


def _as_of(version: str, part: str, path: str, value: object) -> object:
    """A value of a module with the changes that a version makes to calling it."""
    changes = [*CHANGES.get(path, ()), *EVERY_CALL.get(part, ())]
    adapters = [change.adapt for change in changes if _lives(change, version)]
    if isinstance(value, Token):
        if version < "0.3":
            adapters = [only_a_name]
        return Token(value.__name__, _adapted(value, version, adapters)) if adapters else value
    return _adapted(value, version, adapters) if isinstance(value, FunctionType) else value


def _adapted(call: Called, version: str, adapters: list[Adapter]) -> Called:
    for adapt in adapters:
        call = _wrapped(call, version, adapt)
    return call


def _wrapped(call: Called, version: str, adapt: Adapter) -> Called:
    @functools.wraps(call, ("__module__", "__name__", "__doc__"), ())
    def versioned(*arguments: object, **keywords: object) -> object:
        return adapt(call, version, arguments, keywords)

    return versioned


def as_of(version: str, modules: Mapping[str, ModuleType]) -> dict[str, ModuleType]:
    """The modules of all versions, by public name, as one version has them."""
    return dict(_as_of_version(version, modules))


def _as_of_version(
    version: str, modules: Mapping[str, ModuleType]
) -> Iterator[tuple[str, ModuleType]]:
    made: dict[str, ModuleType] = {}
    for name, module in modules.items():
        older = name.startswith("neuronxcc")
        if (older and version >= OLDER_UNTIL) or (not older and version < CURRENT_SINCE):
            made[name] = AbsentModule(name, version)
        elif older:
            made[name] = module
        else:
            made[name] = VersionedModule(name, module, version)
    for name, module in made.items():
        parent, _, child = name.rpartition(".")
        if isinstance(module, VersionedModule) and parent in made:
            setattr(made[parent], child, module)
    yield from made.items()
