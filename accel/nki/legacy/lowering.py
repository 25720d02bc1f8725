"""What the older compiler adds to a kernel: instructions that no line of the kernel asks for.

`nl.matmul` transposes and moves its operands to where the tensor engine can read them, a row is
repeated over partitions by a matmul with ones, a PSUM tile reaches HBM through SBUF. All such
expansions are here and nowhere else, so that another compiler era is another module. They take and
give `Tensor`s, are emitted in program order, and leave results where the machine produces them.
"""

from __future__ import annotations

from accel.dtypes import FLOATS, FP32
from accel.nki.legacy.session import Session
from accel.nki.legacy.views import fitted
from accel.nki.tensor import Tensor
from accel.program import Engine, Memory, Mode

BROADCAST_COLUMNS = 512
"""Columns of one ones-matmul: the most that the moving operand and one PSUM bank of fp32 take."""

ROWS = 128
"""Rows that the tensor engine transposes at once."""

BLOCK = 32
"""Rows and columns that the vector engine transposes at once."""


def moved(session: Session, source: Tensor, dtype: str, engine: Engine = Engine.ANY) -> Tensor:
    """A copy of `source` in SBUF."""
    target = session.allocate(source.shape, dtype, Memory.SBUF)
    operands = (("dst", Mode.WRITE, target), ("src", Mode.READ, source))
    session.emit("tensor_copy", engine, operands)
    return target


def in_sbuf(session: Session, tensor: Tensor) -> Tensor:
    """The tile itself, or a copy in SBUF of a PSUM tile."""
    return moved(session, tensor, tensor.dtype) if tensor.memory is Memory.PSUM else tensor


def one_in_sbuf(session: Session, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both operands of an instruction that can read at most one of them from PSUM."""
    if a.memory is Memory.PSUM and b.memory is Memory.PSUM:
        return a, in_sbuf(session, b)
    return a, b


def flattened(tensor: Tensor) -> Tensor:
    """(partitions, elements): the free axes as one."""
    return tensor if len(tensor.shape) == 2 else tensor.reshape((tensor.shape[0], -1))


def transposed(session: Session, data: Tensor) -> Tensor:
    """The tile with partitions and free axis exchanged, in PSUM."""
    source = transposable(session, data)
    target = session.allocate(source.shape[::-1], data.dtype, Memory.PSUM)
    operands = (("dst", Mode.WRITE, target), ("data", Mode.READ, source))
    session.emit("nc_transpose", Engine.TENSOR, operands)
    return target


def loaded_transposed(session: Session, source: Tensor) -> Tensor:
    """An HBM view of up to 128 columns as the tile of its transpose, 128 rows at a time."""
    rows, columns = source.shape
    target = session.allocate((columns, rows), source.dtype, Memory.SBUF)
    for first in range(0, rows, ROWS):
        part = source[first : min(first + ROWS, rows)]
        loaded = session.allocate(part.shape, source.dtype, Memory.SBUF)
        operands = (("dst", Mode.WRITE, loaded), ("src", Mode.READ, part))
        session.emit("dma_copy", Engine.ANY, operands)
        turned = transposed(session, loaded)
        place = target[:, first : first + part.shape[0]]
        operands = (("dst", Mode.WRITE, place), ("src", Mode.READ, turned))
        session.emit("tensor_copy", Engine.ANY, operands)
    return target


def transposed_in_blocks(session: Session, data: Tensor) -> Tensor:
    """The tile transposed by the vector engine, which does up to 32×32 elements at once."""
    source = flattened(data)
    rows, columns = source.shape
    target = session.allocate((columns, rows), data.dtype, Memory.SBUF)
    for row in range(0, rows, BLOCK):
        for column in range(0, columns, BLOCK):
            down = slice(row, min(row + BLOCK, rows))
            across = slice(column, min(column + BLOCK, columns))
            operands = (
                ("dst", Mode.WRITE, target[across, down]),
                ("data", Mode.READ, source[down, across]),
            )
            session.emit("nc_transpose", Engine.VECTOR, operands)
    return target


def transposable(session: Session, data: Tensor) -> Tensor:
    """The tile as the tensor engine can transpose it: in SBUF, two axes."""
    return flattened(in_sbuf(session, data))


def matmul_inputs(
    session: Session, x: Tensor, y: Tensor, transpose_x: bool
) -> tuple[Tensor, Tensor]:
    """Stationary and moving operand of the matmul that computes x @ y.

    The tensor engine contracts over partitions, reads SBUF and pairs float32 only with itself: `x`
    is transposed unless it comes transposed, and copies bring operands to SBUF and to one dtype.
    """
    stationary = x if transpose_x else transposed(session, x)
    dtype = "float32" if (x.dtype in FP32) != (y.dtype in FP32) else ""
    return _readable(session, stationary, dtype), _readable(session, y, dtype)


def _readable(session: Session, operand: Tensor, dtype: str) -> Tensor:
    if operand.memory is Memory.SBUF and dtype in ("", operand.dtype):
        return operand
    return moved(session, operand, dtype or operand.dtype)


def across_partitions(session: Session, row: Tensor, partitions: int) -> Tensor:
    """A tile of one partition repeated over `partitions`: ones.T @ row, 512 columns at a time.

    Up to 512 columns stay in PSUM; wider results are gathered in SBUF by the scalar engine.
    """
    dtype = row.dtype if row.dtype in FLOATS else "float32"
    source = in_sbuf(session, row) if row.dtype == dtype else moved(session, row, dtype)
    line, shape = flattened(source), (partitions, *row.shape[1:])
    columns = line.shape[1]
    if columns <= BROADCAST_COLUMNS:
        return fitted_free(_ones_matmul(session, line, partitions), shape)
    target = session.allocate((partitions, columns), row.dtype, Memory.SBUF)
    for first in range(0, columns, BROADCAST_COLUMNS):
        part = slice(first, min(first + BROADCAST_COLUMNS, columns))
        block = _ones_matmul(session, line[:, part], partitions)
        operands = (("dst", Mode.WRITE, target[:, part]), ("src", Mode.READ, block))
        session.emit("tensor_copy", Engine.SCALAR, operands)
    return fitted_free(target, shape)


def fitted_free(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A dense (partitions, elements) tile with its free axes split again."""
    return fitted(tensor, shape) if len(shape) == 2 else tensor.reshape(shape)


def _ones_matmul(session: Session, line: Tensor, partitions: int) -> Tensor:
    ones = _ones(session, partitions, line.dtype)
    target = session.allocate((partitions, line.shape[1]), "float32", Memory.PSUM)
    operands = (
        ("dst", Mode.ACCUMULATE, target),
        ("stationary", Mode.READ, ones),
        ("moving", Mode.READ, line),
    )
    session.emit("nc_matmul", Engine.TENSOR, operands, (("is_stationary_onezero", True),))
    return target


def _ones(session: Session, partitions: int, dtype: str) -> Tensor:
    """A row of ones, made once a kernel."""
    key = (f"ones on core {session.recorder.core}", partitions, dtype)
    if key not in session.constants:
        target = session.recorder.allocate(
            (1, partitions), dtype, Memory.SBUF, name=f"ones.{partitions}.{dtype}"
        )
        operands = (("dst", Mode.WRITE, target),)
        session.emit("memset", Engine.ANY, operands, (("value", 1.0),))
        session.constants[key] = target
    return session.constants[key]
