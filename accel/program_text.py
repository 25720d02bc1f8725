"""The text form of a Program: `parse_program(format_program(p)) == p`, one line an instruction.

    program "add" target="gen3" cores=1
    storage %0 "x" hbm float32 128x512 input partition=0 core=0
    storage %1 "t" sbuf float32 128x512 scratch address=0 partition=0 core=0
    form #0 dma_copy on any {"dge_mode": "hwdge"} w.dst(sbuf float32 128: 4x512) r.src(hbm …)
    line $0 "add.py" 7 "add"
    dma_copy #0 dst=%1[0] src=%0[0] $0 core=0

Tables first, then the instructions. A layout is memory, dtype, partitions (on-chip), then the
(step in bytes × count) pairs, outermost first. An operand is storage and byte offset. Attributes
are one JSON object, names are JSON strings.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator

from accel.errors import UserError
from accel.program import (
    Access,
    AttributeValue,
    Builder,
    Engine,
    Form,
    Kind,
    Layout,
    Memory,
    Mode,
    Program,
    Source,
    Storage,
)

_STRING = r'"(?:[^"\\]|\\.)*"'
_PROGRAM = re.compile(rf"program ({_STRING}) target=({_STRING}) cores=(\d+)")
_STORAGE = re.compile(
    rf"storage %(\d+) ({_STRING}) (\w+) (\w+) (scalar|[\dx]+) (\w+)"
    r"(?: address=(-?\d+))? partition=(-?\d+) core=(-?\d+)"
)
_FORM = re.compile(r"form #(\d+) (\S+) on (\w+) (.*)")
_ACCESS = re.compile(r" (\w)\.(\S+)\((\w+) (\w+)(?: (\d+))?:((?: -?\d+x-?\d+)*)\)")
_LINE = re.compile(rf"line \$(\d+) ({_STRING}) (-?\d+) ({_STRING})")
_INSTRUCTION = re.compile(r"(\S+) #(\d+)((?: \S+=%\d+\[-?\d+\])*) \$(\d+) core=(-?\d+)")
_OPERAND = re.compile(r" (\S+)=%(\d+)\[(-?\d+)\]")


def format_program(program: Program) -> str:
    """The text of a program, ending in a newline."""
    head = f"program {json.dumps(program.name)} target={json.dumps(program.target)}"
    lines = [f"{head} cores={program.cores}", *_tables(program), *_instructions(program)]
    return "\n".join(lines) + "\n"


def parse_program(text: str) -> Program:
    """The program that `format_program` printed; UserError names the line that is wrong."""
    lines = text.splitlines()
    head = _PROGRAM.fullmatch(lines[0]) if lines else None
    if head is None:
        raise UserError("line 1: not a program", "it starts with: program NAME target= cores=")
    builder = Builder(json.loads(head[1]), json.loads(head[2]), int(head[3]))
    for number, line in enumerate(lines[1:], 2):
        try:
            _read(builder, line)
        except (ValueError, KeyError, IndexError) as error:
            raise UserError(
                f"line {number}: {error}", "print programs with format_program"
            ) from None
    return builder.build()


def _tables(program: Program) -> Iterator[str]:
    for number, storage in enumerate(program.storages):
        yield f"storage %{number} {_storage_text(storage)}"
    for number, form in enumerate(program.forms):
        yield f"form #{number} {_form_text(form)}"
    for number, source in enumerate(program.sources):
        where = f"{json.dumps(source.file)} {source.line} {json.dumps(source.function)}"
        yield f"line ${number} {where}"


def _storage_text(storage: Storage) -> str:
    shape = "x".join(map(str, storage.shape)) or "scalar"
    address = "" if storage.address is None else f" address={storage.address}"
    return (
        f"{json.dumps(storage.name)} {storage.memory} {storage.dtype} {shape} {storage.kind}"
        f"{address} partition={storage.start_partition} core={storage.core}"
    )


def _form_text(form: Form) -> str:
    accesses = "".join(map(_access_text, form.accesses))
    return f"{form.op} on {form.engine} {json.dumps(dict(form.attributes))}{accesses}"


def _access_text(access: Access) -> str:
    layout = access.layout
    partitions = f" {layout.partitions}" if layout.partitions else ""
    pattern = "".join(f" {step}x{count}" for step, count in layout.pattern)
    where = f"{layout.memory} {layout.dtype}{partitions}:{pattern}"
    return f" {access.mode}.{access.role}({where})"


def _instructions(program: Program) -> Iterator[str]:
    roles = [[access.role for access in form.accesses] for form in program.forms]
    storages, offsets = program.storage.tolist(), program.offset.tolist()
    first = program.first_operand.tolist()
    columns = zip(
        program.form.tolist(), program.source.tolist(), program.core.tolist(), strict=True
    )
    for index, (form, source, core) in enumerate(columns):
        start = first[index]
        operands = "".join(
            f" {role}=%{storages[start + i]}[{offsets[start + i]}]"
            for i, role in enumerate(roles[form])
        )
        yield f"{program.forms[form].op} #{form}{operands} ${source} core={core}"


def _read(builder: Builder, line: str) -> None:
    reader = _READERS.get(line.split(" ", 1)[0], _read_instruction)
    reader(builder, line)


def _matched(pattern: re.Pattern[str], line: str, what: str) -> re.Match[str]:
    match = pattern.fullmatch(line)
    if match is None:
        raise ValueError(f"not {what}: {line[:60]!r}")
    return match


def _in_order(text: str, expected: int, what: str) -> None:
    if int(text) != expected:
        raise ValueError(f"{what} {text} is out of order, expected {expected}")


def _read_storage(builder: Builder, line: str) -> None:
    found = _matched(_STORAGE, line, "a storage")
    _in_order(found[1], len(builder.storages), "storage")
    shape = () if found[5] == "scalar" else tuple(map(int, found[5].split("x")))
    storage = Storage(
        name=json.loads(found[2]),
        memory=Memory(found[3]),
        dtype=found[4],
        shape=shape,
        kind=Kind(found[6]),
        address=None if found[7] is None else int(found[7]),
        start_partition=int(found[8]),
        core=int(found[9]),
    )
    builder.add_storage(storage)


def _read_form(builder: Builder, line: str) -> None:
    found = _matched(_FORM, line, "a form")
    _in_order(found[1], len(builder.forms), "form")
    attributes, end = json.JSONDecoder().raw_decode(found[4])
    accesses = tuple(_accesses(found[4], end))
    values = tuple((name, _attribute(value)) for name, value in attributes.items())
    builder.forms.append(Form(found[2], Engine(found[3]), accesses, values))


def _attribute(value: AttributeValue | list[int]) -> AttributeValue:
    if isinstance(value, list):
        return tuple(value)
    # The one NaN that the kernel language uses too: a program equals its text.
    return math.nan if value != value else value


def _accesses(text: str, position: int) -> Iterator[Access]:
    while position < len(text):
        found = _ACCESS.match(text, position)
        if found is None:
            raise ValueError(f"not an operand: {text[position : position + 60]!r}")
        pairs = (pair.split("x") for pair in found[6].split())
        pattern = tuple((int(step), int(count)) for step, count in pairs)
        layout = Layout(Memory(found[3]), found[4], int(found[5] or 0), pattern)
        yield Access(found[2], Mode(found[1]), layout)
        position = found.end()


def _read_line(builder: Builder, line: str) -> None:
    found = _matched(_LINE, line, "a source line")
    _in_order(found[1], len(builder.sources), "line")
    source = Source(json.loads(found[2]), int(found[3]), json.loads(found[4]))
    builder.sources.append(source)


def _read_instruction(builder: Builder, line: str) -> None:
    found = _matched(_INSTRUCTION, line, "an instruction")
    form = builder.forms[int(found[2])]
    operands = _OPERAND.findall(found[3])
    if form.op != found[1] or [a.role for a in form.accesses] != [role for role, _, _ in operands]:
        raise ValueError(f"{found[1]} is not what form {found[2]} says")
    places = tuple((int(storage), int(offset)) for _, storage, offset in operands)
    _in_tables(builder, places, int(found[4]))
    builder.emit(int(found[2]), places, int(found[4]), int(found[5]))


def _in_tables(builder: Builder, places: tuple[tuple[int, int], ...], source: int) -> None:
    for storage, _ in places:
        if storage >= len(builder.storages):
            raise ValueError(f"unknown storage %{storage}")
    if source >= len(builder.sources):
        raise ValueError(f"unknown line ${source}")


_READERS: dict[str, Callable[[Builder, str], None]] = {
    "storage": _read_storage,
    "form": _read_form,
    "line": _read_line,
}
