"""install: makes `import nki` (and `import neuronxcc.nki`) resolve to this implementation.

Only names in `sys.modules` change. What was there before, such as the vendor's package, comes back
with `uninstall`. Kernel files loaded by the command line get this by themselves.
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType

from accel.nki import collectives, isa, jit, language, legacy, tensor
from accel.nki.versions import as_of

_replaced: dict[str, ModuleType | None] = {}


@functools.cache
def modules(version: str = "") -> dict[str, ModuleType]:
    """Every module name that `install` provides, with the module: as in one version of the
    language, or accepting the calls of all.
    """
    if version:
        return as_of(version, modules())
    constants = _module("nki.isa.constants", **{name: getattr(isa, name) for name in isa.__all__})
    dtypes = {name: getattr(language, name) for name in _dtype_names()}
    parts = {
        "language": language,
        "isa": isa,
        "collectives": collectives,
        "compiler": _module("nki.compiler"),
        "typing": _module("nki.typing", tensor=tensor.Tensor),
        "dtype": _module("nki.dtype", **dtypes),
    }
    root = _module("nki", jit=jit.jit, simulate=jit.simulate, **parts)
    new = {"nki": root, "nki.isa.constants": constants}
    return new | {f"nki.{name}": module for name, module in parts.items()} | legacy.modules()


def _dtype_names() -> tuple[str, ...]:
    return tuple(
        name for name, value in vars(language).items() if isinstance(value, str) and name == value
    )


def _module(name: str, **contents: object) -> ModuleType:
    module = ModuleType(name, "Provided by accel.")
    vars(module).update(contents)
    return module


def install(version: str = "") -> None:
    """Puts the language's modules under their public names; once is enough for a version."""
    provided = modules(version)
    if _replaced and sys.modules.get("nki") is provided["nki"]:
        return
    for name, module in provided.items():
        _replaced.setdefault(name, sys.modules.get(name))
        sys.modules[name] = module


def uninstall() -> None:
    """Restores what the public names meant before `install`."""
    for name, module in _replaced.items():
        if module is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = module
    _replaced.clear()
