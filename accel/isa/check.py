"""check: is this form legal on this chip? The rules every instruction shares, then the row's own.

Called once a form, not once an instruction, so whatever depends on where a tile lies is kept apart:
`legal_start` answers for start partitions, and bank and capacity limits of a placed tile belong to
the placement.
"""

from __future__ import annotations

from collections.abc import Iterator

from accel.chip import Chip
from accel.dtypes import PACKED
from accel.errors import KernelError
from accel.isa import indirect
from accel.isa.row import Role, Row
from accel.program import Access, Engine, Form, Memory, Mode

MAX_FREE_DIMENSIONS = 4
_PACKED_MOVERS = frozenset(
    {"dma_copy", "dma_transpose", "memset", "dma_sendrecv", "nc_stream_shuffle", "tensor_copy"}
)
_PACKED_READERS = frozenset({"nc_matmul_mx", "quantize_mx"})


def check_form(row: Row, form: Form, chip: Chip, place: str = "") -> None:
    """KernelError with the first rule that `form` breaks: operand, value and limit."""
    for problem in _problems(row, form, chip):
        hint = f"{row.name}({', '.join(role.name for role in row.roles)}): {row.summary}"
        raise KernelError(f"{form.op}: {problem}", hint, place)


def able_engines(row: Row, form: Form, chip: Chip) -> tuple[Engine, ...]:
    """The engines that may run a form whose kernel left the choice open, the default one first."""
    psum = bool(_psum_roles(form))
    return tuple(
        engine
        for engine in row.engines.get(chip.generation, ())
        if not (psum and engine is Engine.GPSIMD) and row.suits(form, engine)
    )


def legal_start(start: int, count: int) -> bool:
    """Whether an engine may access `count` partitions from physical partition `start` on.

    More than 64 partitions start at 0, 33 to 64 at a multiple of 64, fewer at a multiple of 32.
    """
    step = 128 if count > 64 else 64 if count > 32 else 32
    return start % step == 0 and start + count <= 128


def _problems(row: Row, form: Form, chip: Chip) -> Iterator[str]:
    yield from _engine_problems(row, form, chip)
    yield from _attribute_problems(row, form)
    yield from _role_problems(row, form)
    yield from _packed_problems(row, form)
    for access in form.accesses:
        yield from _access_problems(access, chip, limited=is_engine_work(row))
    found = indirect.problem(row, form, chip)
    if found is not None:
        yield found
    for rule in row.rules:
        problem = rule(form, chip)
        if problem is not None:
            yield problem


def is_engine_work(row: Row) -> bool:
    """False for DMA transfers and collectives, which an engine only triggers."""
    return not (row.across or row.name.startswith("dma_"))


def _engine_problems(row: Row, form: Form, chip: Chip) -> Iterator[str]:
    engines = row.engines.get(chip.generation, ())
    if not engines:
        yield f"not available on {chip.name} ({chip.nc_version})"
    if form.engine is not Engine.ANY and form.engine not in engines:
        known = ", ".join(engines)
        yield f"engine {form.engine} cannot run it on {chip.name}, only {known}"
    if form.engine is Engine.GPSIMD and is_engine_work(row):
        yield from (f"{role} is in psum, which gpsimd cannot access" for role in _psum_roles(form))
    if form.engine is Engine.ANY and engines and not able_engines(row, form, chip):
        yield f"no engine of {chip.name} can run it: {_where(form)}"


def _where(form: Form) -> str:
    return ", ".join(
        f"{a.role} {a.layout.shape} {a.layout.dtype} in {a.layout.memory}" for a in form.accesses
    )


def _psum_roles(form: Form) -> list[str]:
    return [a.role for a in form.accesses if a.layout.memory is Memory.PSUM]


def _attribute_problems(row: Row, form: Form) -> Iterator[str]:
    for name, _ in form.attributes:
        if name not in row.attributes and not indirect.is_index(row, name):
            yield f"unknown attribute {name!r}, known: {', '.join(row.attributes) or 'none'}"


def _role_problems(row: Row, form: Form) -> Iterator[str]:
    roles = {role.name: role for role in row.roles}
    for access in form.accesses:
        role = roles.get(access.role)
        if role is None and indirect.is_index(row, access.role):
            continue
        if role is None:
            yield f"unknown operand {access.role!r}, known: {', '.join(roles)}"
        else:
            yield from _placing_problems(role, access)
    present = {access.role for access in form.accesses}
    for role in row.roles:
        if not role.optional and role.name not in present:
            yield f"operand {role.name} is missing"


def _placing_problems(role: Role, access: Access) -> Iterator[str]:
    if access.layout.memory not in role.memories:
        legal = " or ".join(role.memories)
        yield f"{role.name} is in {access.layout.memory}, must be in {legal}"
    if (access.mode is Mode.READ) != (role.mode is Mode.READ):
        yield f"{role.name} is touched as {access.mode!r}, must be {role.mode!r}"


def _packed_problems(row: Row, form: Form) -> Iterator[str]:
    """Packed dtypes are containers: they are moved as they are, or filled."""
    packed = [access for access in form.accesses if access.layout.dtype in PACKED]
    if not packed or row.name in _PACKED_READERS:
        return
    role, dtype = packed[0].role, packed[0].layout.dtype
    moved = [a for a in form.accesses if not indirect.is_index(row, a.role)]
    if row.name not in _PACKED_MOVERS or any(a.layout.dtype != dtype for a in moved):
        yield f"{role} is {dtype}, which is only filled, or copied to the same dtype"


def _access_problems(access: Access, chip: Chip, limited: bool) -> Iterator[str]:
    layout = access.layout
    if layout.partitions > chip.partitions:
        yield f"{access.role} has {layout.partitions} partitions, the limit is {chip.partitions}"
    if layout.elements < 1:
        yield f"{access.role} is empty: shape {layout.shape}"
    free = len(merged(layout.pattern))
    if limited and layout.partitions and free > MAX_FREE_DIMENSIONS:
        yield f"{access.role} needs {free} free dimensions, the limit is {MAX_FREE_DIMENSIONS}"


def merged(pattern: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """The same addresses in the fewest (step, count) pairs; dimensions of one element vanish."""
    pairs: list[tuple[int, int]] = []
    for step, count in pattern:
        if count == 1:
            continue
        if pairs and pairs[-1][0] == step * count:
            pairs[-1] = (step, pairs[-1][1] * count)
        else:
            pairs.append((step, count))
    return tuple(pairs)
