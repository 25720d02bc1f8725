"""The older form of the language, `neuronxcc.nki`, as an adapter over the newer one.

There, calls return their result, tensors are indexed with `arange` and `mgrid`, and a compiler adds
instructions. Files in the order data passes through them: `index` (index expressions and masks),
`views` (view algebra), `session` (where results go), `lowering` (what the compiler adds), `tile`
and `buffers` (values and declarations), `isa`, `composites`, `language`, `compiler`, `typing` (what
kernels import), `jit` (running them).
"""

from __future__ import annotations

from types import ModuleType

from accel.nki.legacy import compiler, isa, jit, language, typing


def modules() -> dict[str, ModuleType]:
    """Module names under which kernels find this form, with the modules."""
    nki = ModuleType("neuronxcc.nki", "Provided by accel.")
    parts = {"language": language, "isa": isa, "compiler": compiler, "typing": typing}
    names = ("jit", "trace", "baremetal", "benchmark", "profile", "simulate_kernel")
    vars(nki).update(parts | {name: getattr(jit, name) for name in names})
    vars(nki)["tensor"] = typing.tensor
    root = ModuleType("neuronxcc", "Provided by accel.")
    vars(root)["nki"] = nki
    below = {f"neuronxcc.nki.{name}": module for name, module in parts.items()}
    return {"neuronxcc": root, "neuronxcc.nki": nki} | below
