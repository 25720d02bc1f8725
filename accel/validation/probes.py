"""Programs of one or two instructions, for publications that time a single instruction.

Each probe is a kernel without arguments; the instruction asked about is its last. `duration_ns` is
start to end of it, `issue_interval_ns` from the start of the one before to its start, `data_ns` how
long a transfer moves data. All on the published shape.
"""

from __future__ import annotations

import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.chip import Chip
from accel.nki.jit import Kernel, jit, trace
from accel.nki.tensor import Tensor
from accel.sim import Trace, simulate

PS_PER_NS = 1000


def _tile(rows: int, columns: int, dtype: str = nl.float32) -> Tensor:
    return nl.ndarray((rows, columns), dtype=dtype, buffer=nl.sbuf)


def _psum(rows: int, columns: int) -> Tensor:
    return nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)


def _hbm(rows: int, columns: int, dtype: str) -> Tensor:
    return nl.ndarray((rows, columns), dtype=dtype, buffer=nl.hbm)


def matmul(columns: int, dtype: str, times: int = 2) -> Kernel:
    """Independent multiplications of `columns` moving columns, K = M = 128, one after the other."""

    def kernel() -> None:
        stationary, moving = _tile(128, 128, dtype), _tile(128, columns, dtype)
        for _ in range(times):
            nisa.nc_matmul(dst=_psum(128, columns), stationary=stationary, moving=moving)

    return jit(kernel)


def transpose(columns: int, dtype: str) -> Kernel:
    """A tensor-engine transpose of a [128, columns] tile."""

    def kernel() -> None:
        dst = nl.ndarray((columns, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(dst=dst, data=_tile(128, columns, dtype), engine=nisa.engine.tensor)

    return jit(kernel)


def copy_from_psum(columns: int) -> Kernel:
    """A vector-engine copy of fp32 columns out of PSUM."""

    def kernel() -> None:
        nisa.tensor_copy(
            dst=_tile(128, columns), src=_psum(128, columns), engine=nisa.engine.vector
        )

    return jit(kernel)


def tensor_tensor(rows: int, columns: int, one_in_psum: bool) -> Kernel:
    """An fp32 multiplication of two tiles on the vector engine."""

    def kernel() -> None:
        second = _psum(rows, columns) if one_in_psum else _tile(rows, columns)
        nisa.tensor_tensor(
            dst=_tile(rows, columns), data1=_tile(rows, columns), data2=second, op=nl.multiply
        )

    return jit(kernel)


def scalar_tensor_tensor(columns: int) -> Kernel:
    """Two independent bf16 (tile · scalar) · PSUM on the vector engine."""

    def kernel() -> None:
        for _ in range(2):
            nisa.scalar_tensor_tensor(
                dst=_tile(128, columns, nl.bfloat16),
                data=_tile(128, columns, nl.bfloat16),
                op0=nl.multiply,
                operand0=_tile(128, 1),
                op1=nl.multiply,
                operand1=_psum(128, columns),
            )

    return jit(kernel)


def largest_magnitude(columns: int) -> Kernel:
    """An absolute maximum over bf16 columns on the vector engine."""

    def kernel() -> None:
        nisa.tensor_reduce(
            dst=_tile(128, 1), op=nl.abs_max, data=_tile(128, columns, nl.bfloat16), axis=1
        )

    return jit(kernel)


def scale_to_fp8(columns: int) -> Kernel:
    """A bf16 → fp8 multiplication by a scalar on the vector engine."""

    def kernel() -> None:
        nisa.tensor_scalar(
            dst=_tile(128, columns, nl.float8_e4m3),
            data=_tile(128, columns, nl.bfloat16),
            op0=nl.multiply,
            operand0=_tile(128, 1),
            engine=nisa.engine.vector,
        )

    return jit(kernel)


def activation(rows: int, columns: int, dtype: str) -> Kernel:
    """An exponential on the scalar engine, after another one that loaded its table."""

    def kernel() -> None:
        nisa.activation(dst=_tile(1, 1), op=nl.exp, data=_tile(1, 1))
        nisa.activation(
            dst=_tile(rows, columns, dtype), op=nl.exp, data=_tile(rows, columns, dtype)
        )

    return jit(kernel)


def activation_chain(links: int) -> Kernel:
    """One-element fp32 activations, each reading what the one before wrote."""

    def kernel() -> None:
        value = _tile(1, 1)
        for _ in range(links):
            result = _tile(1, 1)
            nisa.activation(dst=result, op=nl.exp, data=value)
            value = result

    return jit(kernel)


def activation_reduce(columns: int) -> Kernel:
    """Squares of bf16 columns with their sum on the scalar engine, the table being loaded."""

    def kernel() -> None:
        nisa.activation(dst=_tile(1, 1), op=nl.square, data=_tile(1, 1))
        nisa.activation_reduce(
            dst=_tile(128, columns, nl.bfloat16),
            op=nl.square,
            data=_tile(128, columns, nl.bfloat16),
            reduce_op=nl.add,
            reduce_res=_tile(128, 1),
        )

    return jit(kernel)


def load(rows: int, columns: int, dtype: str) -> Kernel:
    """One transfer HBM → SBUF."""

    def kernel() -> None:
        nisa.dma_copy(dst=_tile(rows, columns, dtype), src=_hbm(rows, columns, dtype))

    return jit(kernel)


def save(rows: int, columns: int, dtype: str) -> Kernel:
    """One transfer SBUF → HBM."""

    def kernel() -> None:
        nisa.dma_copy(dst=_hbm(rows, columns, dtype), src=_tile(rows, columns, dtype))

    return jit(kernel)


def _run(probe: Kernel, chip: Chip) -> Trace:
    return simulate(trace(probe, {}, chip), chip).trace


def duration_ns(probe: Kernel, chip: Chip) -> float:
    """From start to end of the last instruction."""
    times = _run(probe, chip).times
    return int(times.end[-1] - times.start[-1]) / PS_PER_NS


def issue_interval_ns(probe: Kernel, chip: Chip) -> float:
    """From the start of the last but one instruction to that of the last."""
    times = _run(probe, chip).times
    return int(times.start[-1] - times.start[-2]) / PS_PER_NS


def data_ns(probe: Kernel, chip: Chip) -> float:
    """While the last transfer moves data."""
    times = _run(probe, chip).times
    return int(times.moved[-1] - times.moving[-1]) / PS_PER_NS
