"""Arguments that no call was meant for: the error names the call and the argument."""

from __future__ import annotations

import inspect
import random
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import accel.nki.collectives as ncc
import accel.nki.isa as nisa
import accel.nki.language as nl
import accel.nki.legacy.isa as older_isa
import accel.nki.legacy.language as older_language
from accel.chip import CHIPS
from accel.errors import KernelError
from accel.nki.jit import Kernel, evaluate, jit
from accel.nki.legacy.jit import jit as older_jit

FACTS = tomllib.loads((Path(__file__).parents[3] / "docs/nki_names.toml").read_text("utf-8"))
CALLS = 12

# What a call may take, and what none does; names are looked up among the tiles of a kernel.
FITTING = ("tile", "narrow", "unsigned", "psum", "hbm", 1, 0, 0.5, "float32", nl.add, (4, 8))
STRANGE = (
    None, -1, 10**12, 1.5, "text", [], {}, object(), np.float32(2), float("nan"), (), True,
    "cube", "tall",
)  # fmt: skip


def tiles(language: ModuleType) -> dict[str, object]:
    found = {
        "tile": language.zeros((4, 8), nl.float32, buffer=language.sbuf),
        "narrow": language.zeros((4, 8), nl.bfloat16, buffer=language.sbuf),
        "unsigned": language.zeros((4, 8), nl.uint32, buffer=language.sbuf),
        "cube": language.zeros((4, 2, 4), nl.float32, buffer=language.sbuf),
        "tall": language.zeros((128, 8), nl.float32, buffer=language.sbuf),
        "psum": language.zeros((4, 8), nl.float32, buffer=language.psum),
    }
    return found | {"hbm": language.ndarray((4, 8), nl.float32, buffer=language.shared_hbm)}


def calls(part: str, module: ModuleType) -> list[tuple[str, Callable[..., object]]]:
    named = [(name, getattr(module, name, None)) for name in FACTS[part]["names"]]
    return [
        (name, value)
        for name, value in named
        if callable(value) and not isinstance(value, type) and name != "device_print"
    ]


def arguments(call: Callable[..., object], r: random.Random) -> dict[str, object]:
    given: dict[str, object] = {}
    for parameter in inspect.signature(call).parameters.values():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if parameter.default is parameter.empty or r.random() < 0.4:
            given[parameter.name] = r.choice(FITTING if r.random() < 0.7 else STRANGE)
    return given


def outcome(
    call: Callable[..., object],
    given: dict[str, object],
    language: ModuleType,
    wrap: Callable[[Callable[..., object]], Kernel],
    chip: str,
) -> KernelError | None:
    def kernel() -> None:
        made = tiles(language)
        call(**{k: made.get(v, v) if isinstance(v, str) else v for k, v in given.items()})

    try:
        evaluate(wrap(kernel), {}, CHIPS[chip])
    except KernelError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("part", "module", "language", "wrap"),
    [
        ("language", nl, nl, jit),
        ("isa", nisa, nl, jit),
        ("collectives", ncc, nl, jit),
        ("language", older_language, older_language, older_jit),
        ("isa", older_isa, older_language, older_jit),
    ],
)
def test_no_argument_ends_in_an_error_of_ours(
    part: str,
    module: ModuleType,
    language: ModuleType,
    wrap: Callable[[Callable[..., object]], Kernel],
) -> None:
    """An error of Python's below a call would say so: by its type, or as the kernel's own."""
    found = []
    for name, call in calls(part, module):
        r = random.Random(f"{module.__name__} {name}")
        for _ in range(CALLS):
            given = arguments(call, r)
            error = outcome(call, given, language, wrap, r.choice(("trn2", "trn3")))
            if error is not None and ("Error: " in error.message or "itself" in error.hint):
                found.append(f"{name}({given}): {error.message}")

    assert found == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: nl.cos("x"), "cos: x is str 'x', needs a tensor"),
        (lambda t: nl.add(t), "add: missing 1 required positional argument: 'y'"),
        (lambda t: nl.ones(nl.add, nl.float32), "ones: shape is Token nl.add, needs"),
        (lambda t: nl.ds(t, 4), "ds: start is Tensor"),
        (lambda t: nisa.topk(t, t, t, n="many"), "topk: n is str 'many', needs an int"),
        (lambda t: t.broadcast("a", 2), "tensor.broadcast: "),
        (
            lambda t: nisa.tensor_copy(
                nl.zeros((4, 32), nl.float32), t.indirect(nl.zeros((4, 8), nl.uint16))
            ),
            "src takes 32 offsets of groups of 16 partitions, the last group of its 4 has 4",
        ),
        (lambda t: nl.exp(t, dtype="float33"), "unknown dtype 'float33'"),
        (lambda t: nl.add(nl.zeros((4, 2, 4), nl.float32), t), r"x is \(4, 2, 4\), y is \(4, 8\)"),
    ],
)
def test_the_message_names_call_and_argument(
    call: Callable[[object], object], message: str
) -> None:
    def kernel() -> None:
        call(nl.zeros((4, 8), nl.float32))

    with pytest.raises(KernelError, match=message):
        evaluate(jit(kernel), {}, CHIPS["trn3"])


@pytest.mark.parametrize(
    "call", [lambda f: f(0), lambda f: nl.fori_loop(0, 2, f), lambda f: jit(f)(0)]
)
def test_an_error_of_the_kernel_is_its_own(call: Callable[[object], object]) -> None:
    def body(_: object) -> None:
        [][1]

    def kernel() -> None:
        call(body)

    with pytest.raises(KernelError, match="IndexError: list index out of range") as caught:
        evaluate(jit(kernel), {}, CHIPS["trn2"])
    assert caught.value.hint == "the kernel itself raised this"
