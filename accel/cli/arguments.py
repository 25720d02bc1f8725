"""What is typed after `--input`, `--arg` and `--grid`, turned into a kernel's arguments.

`x=4096x8192:bfloat16` is a tensor; `pool_size=2` a Python literal, or a plain word as a string;
`2,4` a grid. Every error names the text it is about.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from accel.dtypes import FLOATS, NAMES, numpy_dtype
from accel.errors import UserError
from accel.nki.jit import Kernel, TensorSpec
from accel.nki.load import load_kernel
from accel.nki.strict import check_strict
from accel.nki.versions import LATEST

_INPUT_HINT = "write --input NAME=SHAPE:DTYPE, as x=4096x8192:bfloat16"
_ARG_HINT = "write --arg NAME=VALUE with a Python literal, as pool_size=2 or shape2D=(3,4)"


def parse_input(text: str) -> tuple[str, TensorSpec]:
    """`NAME=SHAPE:DTYPE` as name and tensor."""
    name, _, rest = text.partition("=")
    shape, _, dtype = rest.partition(":")
    if not (name.isidentifier() and shape and dtype):
        raise UserError(f"--input {text!r} is not NAME=SHAPE:DTYPE", _INPUT_HINT)
    try:
        counts = tuple(int(count) for count in shape.split("x"))
    except ValueError:
        raise UserError(f"--input {name}: shape {shape!r} is not numbers", _INPUT_HINT) from None
    if min(counts) < 1:
        raise UserError(f"--input {name}: shape {shape} has no elements", _INPUT_HINT)
    if dtype not in NAMES:
        raise UserError(f"--input {name}: unknown dtype {dtype!r}", f"dtypes: {', '.join(NAMES)}")
    return name, TensorSpec(counts, dtype)


def parse_arg(text: str) -> tuple[str, object]:
    """`NAME=LITERAL` as name and value; a word that is no literal is a string."""
    name, equals, value = text.partition("=")
    if not (name.isidentifier() and equals and value):
        raise UserError(f"--arg {text!r} is not NAME=VALUE", _ARG_HINT)
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        if value.isidentifier():
            return name, value
        raise UserError(f"--arg {name}: {value!r} is not a Python literal", _ARG_HINT) from None


def parse_grid(text: str) -> tuple[int, ...]:
    """`2,4` as a grid of programs; the empty text as none."""
    if not text:
        return ()
    try:
        grid = tuple(int(extent) for extent in text.split(","))
    except ValueError:
        grid = (0,)
    if min(grid) < 1:
        raise UserError(f"--grid {text!r} is not numbers of programs", "write --grid 2 or 2,4")
    return grid


def ready_kernel(
    target: str, inputs: Sequence[str], literals: Sequence[str], version: str, strict: bool
) -> tuple[Kernel, dict[str, object]]:
    """The kernel and its arguments; with `strict` only if the vendor's compiler takes it."""
    kernel = load_kernel(target, version)
    arguments = kernel_arguments(kernel, inputs, literals)
    if strict:
        check_strict(kernel, arguments, version or LATEST)
    return kernel, arguments


def kernel_arguments(
    kernel: Kernel, inputs: Sequence[str], literals: Sequence[str]
) -> dict[str, object]:
    """All arguments by name; UserError for one given twice, unknown to the kernel, or missing."""
    pairs = [*map(parse_input, inputs), *map(parse_arg, literals)]
    arguments: dict[str, object] = {}
    for name, value in pairs:
        if name in arguments:
            raise UserError(f"argument {name} is given twice", "give each argument once")
        arguments[name] = value
    _check_names(kernel, arguments)
    return arguments


def _check_names(kernel: Kernel, arguments: dict[str, object]) -> None:
    parameters = {parameter.name: parameter for parameter in kernel.parameters}
    hint = f"{kernel.name} takes ({', '.join(map(str, kernel.parameters))})"
    takes_any = any(p.kind is p.VAR_KEYWORD for p in kernel.parameters)
    unknown = [] if takes_any else [name for name in arguments if name not in parameters]
    if unknown:
        raise UserError(f"kernel {kernel.name} has no parameter {unknown[0]!r}", hint)
    optional = {p.name for p in kernel.parameters if p.default is not p.empty}
    optional |= {p.name for p in kernel.parameters if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    missing = [name for name in parameters if name not in arguments and name not in optional]
    if missing:
        raise UserError(
            f"kernel {kernel.name} needs an argument for {', '.join(missing)}",
            f"{hint}: give --input NAME=SHAPE:DTYPE for a tensor, --arg NAME=VALUE for the rest",
        )


def random_arrays(arguments: dict[str, object], seed: int) -> dict[str, object]:
    """The same arguments with an array for every tensor: normal floats, integers from 0 to 9."""
    generator = np.random.default_rng(seed)
    return {
        name: _random_array(generator, value) if isinstance(value, TensorSpec) else value
        for name, value in arguments.items()
    }


def _random_array(generator: np.random.Generator, spec: TensorSpec) -> npt.NDArray[np.generic]:
    dtype, count = numpy_dtype(spec.dtype), math.prod(spec.shape)
    if spec.dtype in FLOATS:
        return generator.standard_normal(count, np.float32).astype(dtype).reshape(spec.shape)
    high = 2 if spec.dtype == "bool_" else 10
    return generator.integers(0, high, count).astype(dtype).reshape(spec.shape)
