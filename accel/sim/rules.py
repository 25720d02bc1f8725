"""rules: the single rewrites that compiler profiles are made of. Program → Program, one a function.

Each says what it assumes about the older compiler; none is exact, and each keeps the program's
meaning: instructions are dropped only where their result is already there, the others only choose
an engine or mark a form for the cost model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from accel import isa
from accel.chip import Chip
from accel.program import Access, Engine, Form, Memory, Mode, Program
from accel.sim.machine import clock_mhz, costs_of, is_dma, to_ps
from accel.sim.queues import ENGINE_QUEUE

MERGED_TILE = 512  # elements a partition
SMALLEST_MERGED = 64
COALESCED_BYTES = 2048

_Place = tuple[int, int]
_Key = tuple[int, int, tuple[tuple[int, int, int], ...]]


def drop_repeats(program: Program, chip: Chip) -> Program:
    """Drops an instruction whose kernel line already computed the same from the same operands.

    Its readers get the earlier result. The result must have one writer, and no operand may have
    changed since. A transfer is dropped only if it repeats that line's previous one, that is, if it
    does not depend on the innermost loop: the compiler does not keep whole inputs on chip.
    """
    walk = _Repeats(program)
    kept = np.ones(len(program), np.bool_)
    for index in range(len(program)):
        kept[index] = walk.keeps(index)
    if kept.all():
        return program
    counts = np.diff(program.first_operand)
    operand_kept = np.repeat(kept, counts)
    first_operand = np.zeros(int(kept.sum()) + 1, np.int64)
    np.cumsum(counts[kept], out=first_operand[1:])
    return dataclasses.replace(
        program,
        form=program.form[kept],
        core=program.core[kept],
        source=program.source[kept],
        first_operand=first_operand,
        storage=np.array(walk.storage, np.int32)[operand_kept],
        offset=program.offset[operand_kept],
    )


class _Repeats:
    """The state of the walk: contents by version, and where each result already lies."""

    def __init__(self, program: Program) -> None:
        self.forms = program.form.tolist()
        self.sources = program.source.tolist()
        self.first = program.first_operand.tolist()
        self.storage = program.storage.tolist()
        self.offset = program.offset.tolist()
        self.version = [0] * len(program.storages)
        self.alias: dict[int, int] = {}
        self.results: dict[_Key, _Place] = {}
        self.previous: dict[tuple[int, int], _Key] = {}
        self.table = [_FormUse(form) for form in program.forms]
        self.writers = self._count_writers()
        self.private = [
            storage.memory in (Memory.SBUF, Memory.PSUM) and storage.address is None
            for storage in program.storages
        ]

    def _count_writers(self) -> list[int]:
        writers = [0] * len(self.version)
        for index, form in enumerate(self.forms):
            for n in self.table[form].written:
                writers[self.storage[self.first[index] + n]] += 1
        return writers

    def keeps(self, index: int) -> bool:
        """Whether instruction `index` stays; redirects its operands to results kept earlier."""
        first, use = self.first[index], self.table[self.forms[index]]
        for k in range(first, self.first[index + 1]):
            self.storage[k] = self.alias.get(self.storage[k], self.storage[k])
        key = self._key(index, use)
        line = (self.sources[index], self.forms[index])
        again = self.previous.get(line) == key
        self.previous[line] = key
        place = self._result(first, use)
        if place is None:
            self._write(first, use)
            return True
        earlier = self.results.get(key)
        if earlier is not None and earlier[1] == place[1] and (again or not use.is_transfer):
            self.alias[place[0]] = earlier[0]
            return False
        self.results[key] = place
        self._write(first, use)
        return True

    def _key(self, index: int, use: _FormUse) -> _Key:
        first = self.first[index]
        reads = tuple(
            (self.storage[first + n], self.offset[first + n], self.version[self.storage[first + n]])
            for n in use.read
        )
        return self.sources[index], self.forms[index], reads

    def _result(self, first: int, use: _FormUse) -> _Place | None:
        """(storage, offset) the instruction alone fills, or None."""
        if len(use.written) != 1:
            return None
        k = first + use.written[0]
        target = self.storage[k]
        alone = self.writers[target] == 1 and self.private[target]
        return (target, self.offset[k]) if alone else None

    def _write(self, first: int, use: _FormUse) -> None:
        for n in use.written:
            self.version[self.storage[first + n]] += 1


class _FormUse:
    """Which operands of a form are read and which written."""

    def __init__(self, form: Form) -> None:
        numbered = list(enumerate(form.accesses))
        self.read = tuple(n for n, access in numbered if access.mode is Mode.READ)
        self.written = tuple(n for n, access in numbered if access.mode is not Mode.READ)
        self.is_transfer = is_dma(form)


def balance_copies(program: Program, chip: Chip) -> Program:
    """Gives each copy out of PSUM whose engine is open to the engine with less work so far."""
    costs = costs_of(program, chip)
    choices = [_copy_choices(form, chip) for form in program.forms]
    if not any(choices):
        return program
    forms = {form: number for number, form in enumerate(program.forms)}
    busy = dict.fromkeys(ENGINE_QUEUE, 0)
    engine_of_queue = {int(queue): engine for engine, queue in ENGINE_QUEUE.items()}
    chosen = program.form.copy()
    queues, issue = costs.queue.tolist(), costs.issue.tolist()
    for index, number in enumerate(program.form.tolist()):
        choice = choices[number]
        if not choice:
            engine = engine_of_queue.get(queues[number])
            if engine is not None:
                busy[engine] += issue[number]
            continue
        engine = min(choice, key=lambda candidate: busy[candidate])
        busy[engine] += choice[engine]
        form = dataclasses.replace(program.forms[number], engine=engine)
        chosen[index] = forms.setdefault(form, len(forms))
    return dataclasses.replace(program, forms=tuple(forms), form=chosen)


def _copy_choices(form: Form, chip: Chip) -> dict[Engine, int]:
    """Engine → time (ps) for a copy out of PSUM with a choice; empty for anything else."""
    source = form.access("src")
    open_copy = form.op == "tensor_copy" and form.engine is Engine.ANY
    if not open_copy or source is None or source.layout.memory is not Memory.PSUM:
        return {}
    from_table = isa.row(form.op).cost
    able = [e for e in isa.engines(form, chip) if e in (Engine.VECTOR, Engine.SCALAR)]
    return {e: to_ps(from_table(form, chip, e).issue, clock_mhz(chip, e)) for e in able}


def merge_tiles(program: Program, chip: Chip) -> Program:
    """Small elementwise tiles share an instruction: fixed costs are paid per 512 elements."""
    return _marked(program, _mergeable, lambda n: ("merged_share", (n, MERGED_TILE)))


def coalesce_transfers(program: Program, chip: Chip) -> Program:
    """Transfers in pieces below 2 KiB are joined to pieces of 2 KiB."""
    return _marked(program, is_dma, lambda n: ("coalesced_bytes", COALESCED_BYTES))


def _mergeable(form: Form) -> bool:
    on_array = any(
        access.layout.memory is Memory.PSUM and access.mode is Mode.ACCUMULATE
        for access in form.accesses
    )
    return not is_dma(form) and not on_array and SMALLEST_MERGED <= _elements(form) < MERGED_TILE


def _elements(form: Form) -> int:
    return max((_free(access) for access in form.accesses), default=0)


def _free(access: Access) -> int:
    return access.layout.elements


def _marked(
    program: Program,
    applies: Callable[[Form], bool],
    mark: Callable[[int], tuple[str, int | tuple[int, int]]],
) -> Program:
    """The program with an attribute added to the forms a rule applies to."""
    forms = tuple(
        dataclasses.replace(
            form, attributes=tuple(sorted((*form.attributes, mark(_elements(form)))))
        )
        if applies(form)
        else form
        for form in program.forms
    )
    return dataclasses.replace(program, forms=forms)
