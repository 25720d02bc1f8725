"""changes: calls of the language that mean something else in one version than in another.

An adapter stands between a kernel's call and the function of all versions: it gives positional
arguments the names they had, and refuses what the version does not take. `versions.py` says who
goes through which.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from accel.errors import KernelError
from accel.nki import isa
from accel.nki.enums import MemoryRegion
from accel.nki.instructions.mx import quantize_mx_ocp
from accel.nki.tensor import Tensor

Arguments = tuple[object, ...]
Keywords = dict[str, object]
Called = Callable[..., object]
Adapter = Callable[[Called, str, Arguments, Keywords], object]


@dataclass(frozen=True, slots=True)
class Change:
    """In versions from `since` on and before `until`, a call goes through `adapt`."""

    since: str
    until: str
    what: str
    adapt: Adapter


def _named(names: tuple[str, ...], arguments: Arguments, keywords: Keywords) -> Keywords:
    """All arguments by name; TypeError as Python's where there are too many."""
    if len(arguments) > len(names):
        raise TypeError(f"takes {len(names)} arguments, got {len(arguments)}")
    return dict(zip(names, arguments, strict=False)) | keywords


def _in_order(*names: str) -> Adapter:
    """Positional arguments have these names."""

    def adapt(call: Called, version: str, arguments: Arguments, keywords: Keywords) -> object:
        return call(**_named(names, arguments, keywords))

    return adapt


def _without(keyword: str, instead: str) -> Adapter:
    """The keyword is an error."""

    def adapt(call: Called, version: str, arguments: Arguments, keywords: Keywords) -> object:
        if keyword in keywords:
            raise KernelError(f"no argument {keyword} in NKI {version}", f"use {instead}")
        return call(*arguments, **keywords)

    return adapt


def _given(call: Called, arguments: Arguments, keywords: Keywords) -> Mapping[str, object]:
    try:
        return inspect.signature(call).bind(*arguments, **keywords).arguments
    except TypeError:
        return keywords  # the call itself says what is wrong with its arguments


def _named_constants(
    call: Called, version: str, arguments: Arguments, keywords: Keywords
) -> object:
    for name in ("dge_mode", "oob_mode", "engine", "reduce_cmd"):
        if type(keywords.get(name)) is int:
            raise KernelError(
                f"{name} is {keywords[name]}, NKI {version} takes members of nisa.{name}",
                f"name the member, as nisa.{name}.unknown",
            )
    return call(*arguments, **keywords)


def _buffer_objects(call: Called, version: str, arguments: Arguments, keywords: Keywords) -> object:
    buffer = _given(call, arguments, keywords).get("buffer")
    if isinstance(buffer, str) and not isinstance(buffer, MemoryRegion):
        raise KernelError(
            f"buffer is the string {buffer!r}, NKI {version} takes nl.{buffer}", f"nl.{buffer}"
        )
    return call(*arguments, **keywords)


def _strict_memset(call: Called, version: str, arguments: Arguments, keywords: Keywords) -> object:
    given = _named(("dst", "value"), arguments[:2], keywords)
    target, value = given.get("dst"), given.get("value")
    if isinstance(target, Tensor) and isinstance(value, float) and "float" not in target.dtype:
        raise KernelError(
            f"memset: value {value} is a float, dst is {target.dtype}",
            f"since NKI 0.3 they must match: write {int(value)}",
        )
    return call(*arguments, **keywords)


def _strict_copy(call: Called, version: str, arguments: Arguments, keywords: Keywords) -> object:
    given = _named(("dst", "src"), arguments[:2], keywords)
    target, source = given.get("dst"), given.get("src")
    if not isinstance(target, Tensor) or not isinstance(source, Tensor):
        return call(*arguments, **keywords)
    if source.buffer == "psum":
        raise KernelError(
            f"dma_copy: src is in psum, NKI {version} transfers from sbuf and hbm only",
            "copy it to sbuf with nisa.tensor_copy first",
        )
    if keywords.get("dge_mode") is isa.dge_mode.hwdge and source.dtype != target.dtype:
        raise KernelError(
            f"dma_copy: src is {source.dtype}, dst is {target.dtype}, hwdge needs them equal",
            "use .view() to reinterpret, or another dge_mode to cast",
        )
    return call(*arguments, **keywords)


def _same_rank(call: Called, version: str, arguments: Arguments, keywords: Keywords) -> object:
    given = _named(("dst", "src"), arguments[:2], keywords)
    target, source = given.get("dst"), given.get("src")
    if isinstance(target, Tensor) and isinstance(source, Tensor) and target.ndim != source.ndim:
        raise KernelError(
            f"dma_transpose: dst has {target.ndim} axes, src {source.ndim}",
            "since NKI 0.4 they must be equal: reshape one of them",
        )
    return call(*arguments, **keywords)


def _last_axis(call: Called, version: str, arguments: Arguments, keywords: Keywords) -> object:
    given = _named(("dst", "op", "data", "axis"), arguments, keywords)
    data = given.get("data")
    if given.get("axis") in (1, (1,), [1]) and isinstance(data, Tensor):
        given["axis"] = data.ndim - 1
    return call(**given)


def _ocp_scales(call: Called, version: str, arguments: Arguments, keywords: Keywords) -> object:
    return quantize_mx_ocp(*arguments, **keywords)  # type: ignore[arg-type]


def _fixed_range_select(
    call: Called, version: str, arguments: Arguments, keywords: Keywords
) -> object:
    names = tuple(inspect.signature(call).parameters)
    given = _named(names, arguments, keywords)
    kept = {n: v for n, v in given.items() if n not in ("on_false_value", "reduce_cmd")}
    return call(**kept)


def _move_immediate(call: Called, version: str, arguments: Arguments, keywords: Keywords) -> object:
    given = _named(("dst", "imm"), arguments, keywords)
    if "imm" in given:
        given["src"] = given.pop("imm")
    return call(**given)


def _move_register(call: Called, version: str, arguments: Arguments, keywords: Keywords) -> object:
    given = _named(("dst", "src"), arguments, keywords)
    if type(given.get("src")) is int:
        raise KernelError(
            f"register_move: src is {given['src']}, NKI {version} takes a register",
            "allocate one with the value: nisa.register_alloc(42)",
        )
    return call(**given)


def _send_by_flag(call: Called, version: str, arguments: Arguments, keywords: Keywords) -> object:
    given = dict(keywords)
    if "use_gpsimd_dma" in given:
        by_gpsimd = given.pop("use_gpsimd_dma")
        engines = isa.dma_engine
        given["dma_engine"] = engines.gpsimd_dma if by_gpsimd else engines.dma
    return call(*arguments, **given)


def _not_from_psum(call: Called, version: str, arguments: Arguments, keywords: Keywords) -> object:
    source = arguments[0] if arguments else keywords.get("x")
    if isinstance(source, Tensor) and source.buffer == "psum":
        raise KernelError(
            f"rsqrt: the operand is in psum, NKI {version} computes it on GpSimd",
            "copy it to sbuf first, or call nisa.activation(op=nl.rsqrt)",
        )
    return call(*arguments, **keywords)


def only_a_name(call: Called, version: str, arguments: Arguments, keywords: Keywords) -> object:
    raise KernelError(
        f"operators are only passed as op= in NKI {version}, calls of them came with 0.3",
        "call the nki.isa instruction, or ask for a later version",
    )


_AFFINE = ("dst", "pattern", "channel_multiplier", "on_true_tile", "on_false_value", "cmp_op")

CHANGES: dict[str, tuple[Change, ...]] = {
    "isa.affine_select": (
        Change(
            "0.2", "0.3", "offset is the third argument",
            _in_order(*_AFFINE[:2], "offset", *_AFFINE[2:]),
        ),
        Change("0.3", "", "offset is a keyword, 0 by default", _in_order(*_AFFINE)),
    ),
    "isa.dma_compute": (
        Change(
            "0.2", "0.3", "scales come before reduce_op",
            _in_order("dst", "srcs", "scales", "reduce_op"),
        ),
        Change(
            "0.3", "", "reduce_op comes before scales",
            _in_order("dst", "srcs", "reduce_op", "scales", "unique_indices"),
        ),
    ),
    "isa.dma_copy": (
        Change("0.3", "", "no dst_rmw_op", _without("dst_rmw_op", "nisa.dma_compute")),
        Change("0.3", "", "no unique_indices", _without("unique_indices", "nisa.dma_compute")),
        Change("0.3", "", "not from psum; hwdge does not cast", _strict_copy),
    ),
    "isa.dma_transpose": (Change("0.4", "", "dst and src have as many axes", _same_rank),),
    "isa.memset": (Change("0.3", "", "integers are filled with integers", _strict_memset),),
    "isa.quantize_mx": (
        Change("0.2", "0.5", "a block's scale leaves no spare bit, as OCP's", _ocp_scales),
    ),
    "isa.range_select": (
        Change(
            "0.2", "0.3", "on_false_value and reduce_cmd are overridden", _fixed_range_select
        ),
    ),
    "isa.register_move": (
        Change("0.2", "0.3", "imm is an integer", _move_immediate),
        Change("0.3", "", "src is a register", _move_register),
    ),
    "isa.sendrecv": (
        Change("0.2", "0.3", "use_gpsimd_dma instead of dma_engine", _send_by_flag),
        Change("0.3", "", "no use_gpsimd_dma", _without("use_gpsimd_dma", "dma_engine=")),
    ),
    "isa.tensor_reduce": (Change("0.2", "0.3", "axis 1 is the last axis", _last_axis),),
    "language.rsqrt": (Change("0.5", "", "not from psum", _not_from_psum),),
    "jit": (
        Change(
            "0.3", "", "no platform_target",
            _without("platform_target", "NEURON_PLATFORM_TARGET_OVERRIDE"),
        ),
    ),
}  # fmt: skip

# Changes of every call of a module.
EVERY_CALL: dict[str, tuple[Change, ...]] = {
    "isa": (Change("0.3", "", "enumerations are given by name", _named_constants),),
}
_CREATES = ("ndarray", "zeros", "ones", "full", "zeros_like", "empty_like")
CHANGES |= {
    f"language.{name}": (Change("0.3", "", "buffers are objects of nl", _buffer_objects),)
    for name in _CREATES
}
