"""The older form of the language, `neuronxcc.nki`, as an adapter over the newer one.

There, calls return their result, tensors are indexed with `arange` and `mgrid`, and a compiler adds
instructions. Files in the order data passes through them: `index` (index expressions and masks),
`views` (view algebra), `depth` and `bodies` (what is split, which loops run), `session` (where
results go), `lowering` (what the compiler adds), `tile` and `buffers` (values and declarations),
`isa`, `composites`, `loops`, `grid`, `language`, `compiler`, `typing` (what kernels import), `jit`
(running them).
"""

from __future__ import annotations

from types import ModuleType

from accel.dtypes import itemsize
from accel.nki.legacy import compiler, index, isa, jit, language, tile, typing


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
    return {"neuronxcc": root, "neuronxcc.nki": nki} | below | _compiler_internals()


def _compiler_internals() -> dict[str, ModuleType]:
    """Modules inside the compiler that public kernels import a few names from."""
    path = "neuronxcc.nki.compiler.backends"
    constants = ModuleType("neuronxcc.nki.language.constants", "Provided by accel.")
    vars(constants)["sizeinbytes"] = _size_in_bytes
    neuron: dict[str, dict[str, object]] = {
        "tensor": {"local_tile": tile.Tile},
        "indexing": {"TileIndex": index.Index},
    }
    made = {name: ModuleType(name, "Provided by accel.") for name in (path, f"{path}.neuron")}
    made[constants.__name__] = constants
    for name, contents in neuron.items():
        module = ModuleType(f"{path}.neuron.{name}", "Provided by accel.")
        vars(module).update(contents)
        made[module.__name__] = module
    return made


def _size_in_bytes(dtype: tile.DType) -> int:
    """Bytes of one element."""
    return itemsize(tile.kind_of(dtype, ""))
