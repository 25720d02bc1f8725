"""The kernel that carries out a script, call by call, and notes what became of each call."""

from __future__ import annotations

import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.errors import UserError
from accel.nki.jit import jit
from accel.nki.tensor import Tensor
from tests.accel.fuzz.script import Script, Step, View

SKIPPED = "skipped: a tile it needs is not there"
_BUFFERS = {"hbm": nl.hbm, "shared_hbm": nl.shared_hbm, "sbuf": nl.sbuf, "psum": nl.psum}
_MEMBERS = {"engine": nisa.engine, "reduce_cmd": nisa.reduce_cmd, "oob_mode": nisa.oob_mode}


class _GoneError(Exception):
    """A step needs a tile that an earlier step failed to make, or that was dropped."""


class Session:
    """A script being run. `outcomes`: by core, one entry a step, None where it was accepted;
    `order`: the (core, step) in the order they were begun.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.order: list[tuple[int, int]] = []
        self.outcomes: list[list[str | None]] = [[] for _ in range(script.cores)]


@jit
def fuzzed(session, inputs):
    """Every call of the script; an error is noted and the script goes on."""
    tiles = dict(enumerate(inputs))
    core = nl.program_id(0)
    for index, step in enumerate(session.script.steps):
        session.order.append((core, index))
        session.outcomes[core].append(_outcome(step, tiles))
    return [t for t in tiles.values() if t.memory == "hbm" and t.allocation.storage.core == -1
            and t.name not in {i.name for i in inputs}]  # fmt: skip


def _outcome(step: Step, tiles: dict[int, Tensor]) -> str | None:
    try:
        made = _run(step, tiles)
    except _GoneError:
        return SKIPPED
    except UserError as error:
        return error.message
    if made is not None:
        tiles[step.tile] = made
    return None


def _run(step: Step, tiles: dict[int, Tensor]) -> Tensor | None:
    options = dict(step.options)
    if step.call == "new":
        buffer, address = _BUFFERS[options["memory"]], options.get("address")
        return nl.ndarray(options["shape"], options["dtype"], buffer, address=address)
    if step.call == "drop":
        _tile(tiles, step.tile)
        del tiles[step.tile]
        return None
    operands = {role: _seen(view, tiles) for role, view in step.operands}
    if step.call == "function":
        return _function(options, **operands)
    for name, members in _MEMBERS.items():
        if name in options:
            options[name] = getattr(members, options[name])
    for name in ("op", "op0", "op1", "reduce_op", "comp_op0", "comp_op1", "cmp_op"):
        if name in options:
            options[name] = getattr(nl, options[name])
    getattr(nisa, step.call)(**operands, **options)
    return None


def _function(options: dict[str, object], x: Tensor, y: Tensor | None = None) -> Tensor:
    function = getattr(nl, str(options.get("name", "copy")))
    other = options.get("y", y)
    if options["kind"] == "fold":
        return function(x, axis=1, dtype=options["dtype"], keepdims=True)
    arguments = (x,) if other is None else (x, other)
    return function(*arguments, dtype=options["dtype"])


def _seen(view: View, tiles: dict[int, Tensor]) -> Tensor:
    tensor = _tile(tiles, view.tile)
    for method, arguments in view.views:
        if method == "index":
            tensor = tensor[tuple(arguments)]
        elif method == "ap":
            tensor = tensor.ap(arguments[0], offset=arguments[1])
        elif method in ("reshape", "permute"):
            tensor = getattr(tensor, method)(arguments)
        else:
            tensor = getattr(tensor, method)(*arguments)
    if view.chosen is None:
        return tensor
    kind, axis, index = view.chosen
    if kind == "lanes":
        return tensor.indirect(_tile(tiles, index), axis)
    if kind == "vector":
        return tensor.vector_select(axis, _tile(tiles, index))
    return tensor.select(axis, _tile(tiles, index))


def _tile(tiles: dict[int, Tensor], number: int) -> Tensor:
    if number not in tiles:
        raise _GoneError
    return tiles[number]
