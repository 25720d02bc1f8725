"""Flash attention, forward: out[h] = softmax(scale · q[h].T @ k[g] + mask) @ v[g], g = h's KV head.

Layouts. q [heads, d, Sq], k [kv_heads, d, Skv] (d on partitions, so that both are matmul operands
as loaded), v [kv_heads, Skv, d]; out [heads, Sq, d] in q's dtype. d ≤ 128; any Sq and Skv;
heads a multiple of kv_heads (grouped-query attention). `causal` masks keys after the query, the
last query being aligned with the last key.

Algorithm. Query rows lie on partitions, 128 at a time; keys are walked in sections of up to 2048
(four PSUM banks of scores). Maximum m, sum l and output o of a row are kept running:

    S  = q.T @ k[section]                      tensor engine, one bank a 512 keys
    m' = max(m, scale · max S)                 vector engine
    P  = exp(scale · S − m'), r = Σ P          scalar engine, one pass
    o  = o · exp(m − m') + P @ v[section]      P transposed 128 × 128 at a time
    l  = l · exp(m − m') + r
    out = o ÷ l
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.kernels.tiling import extent, like, load, psum, sbuf, spans
from accel.nki.jit import jit
from accel.nki.tensor import Tensor

SECTION = 2048
BANK = 512
# Added to masked scores before the exponential; far below any score, and finite in fp32.
MASKED = -1.0e30


@dataclass(frozen=True, slots=True)
class _Running:
    """Per query row: −maximum, sum [rows, 1] and unnormalised output [rows, d]."""

    shift: Tensor
    total: Tensor
    output: Tensor


@dataclass(frozen=True, slots=True)
class _Keys:
    """One KV head on chip: k [d, Skv], and v as tiles of 128 keys [keys, d]."""

    k: Tensor
    v: list[Tensor]


@jit
def flash_attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None
) -> Tensor:
    """Attention of all heads; `scale` defaults to 1 ÷ √d."""
    heads, depth, queries = q.shape
    kv_heads, _, keys = k.shape
    assert depth <= 128, f"head dimension {depth} exceeds the 128 partitions"
    assert heads % kv_heads == 0, f"{heads} heads are not a multiple of {kv_heads} KV heads"
    assert v.shape == (kv_heads, keys, depth), f"v is {v.shape}, k is {k.shape}"
    factor = 1.0 / math.sqrt(depth) if scale is None else scale
    out = nl.ndarray((heads, queries, depth), dtype=q.dtype, buffer=nl.shared_hbm)
    group = heads // kv_heads
    for kv_head in range(kv_heads):
        on_chip = _Keys(load(k[kv_head]), [load(v[kv_head, span, :]) for span in spans(keys, 128)])
        for head in range(kv_head * group, (kv_head + 1) * group):
            loaded = load(q[head])
            for rows in spans(queries, 128):
                last = keys - queries + rows.stop if causal else keys
                result = _attend(loaded[:, rows], on_chip, factor, rows, last, causal)
                nisa.dma_copy(dst=out[head, rows, :], src=result)
    return out


def _attend(
    query: Tensor, keys: _Keys, factor: float, rows: slice, last: int, causal: bool
) -> Tensor:
    """One tile of query rows against the first `last` keys."""
    running: _Running | None = None
    first_masked = last - extent(rows) + 1 if causal else last
    for section in spans(last, SECTION):
        scores = _scores(query, keys.k, section, first_masked)
        running = _absorb(running, scores, keys, section, factor)
    assert running is not None, "a causal mask leaves these queries no key"
    inverse, result = sbuf(extent(rows), 1), sbuf(extent(rows), keys.v[0].shape[1], query.dtype)
    nisa.reciprocal(dst=inverse, data=running.total)
    nisa.tensor_scalar(dst=result, data=running.output, op0=nl.multiply, operand0=inverse)
    return result


def _scores(query: Tensor, k: Tensor, section: slice, first_masked: int) -> list[Tensor]:
    """q.T @ k for each bank of the section; banks that reach the diagonal are masked in SBUF.

    Row r may see key c where c < first_masked + r.
    """
    banks = []
    for bank in spans(extent(section), BANK):
        start, stop = section.start + bank.start, section.start + bank.stop
        scores = psum(query.shape[1], extent(bank))
        nisa.nc_matmul(dst=scores, stationary=query, moving=k[:, start:stop])
        banks.append(_masked(scores, start, first_masked) if stop > first_masked else scores)
    return banks


def _masked(scores: Tensor, start: int, first_masked: int) -> Tensor:
    plain, masked = like(scores), like(scores)
    nisa.tensor_copy(dst=plain, src=scores)
    nisa.affine_select(
        dst=masked,
        pattern=[[-1, scores.shape[1]]],
        channel_multiplier=1,
        on_true_tile=plain,
        on_false_value=MASKED,
        cmp_op=nl.greater,
        offset=first_masked - start,
    )
    return masked


def _absorb(
    running: _Running | None, scores: list[Tensor], keys: _Keys, section: slice, factor: float
) -> _Running:
    """The running state after one more section of keys."""
    rows = scores[0].shape[0]
    shift = _section_shift(scores, factor)
    if running is not None:
        lower = sbuf(rows, 1)
        nisa.tensor_tensor(dst=lower, data1=running.shift, data2=shift, op=nl.minimum)
        shift = lower
    weights = sbuf(rows, extent(section), keys.v[0].dtype)
    parts, total = sbuf(rows, len(scores)), sbuf(rows, 1)
    for i, bank in enumerate(scores):
        nisa.activation_reduce(
            dst=weights[:, i * BANK : i * BANK + bank.shape[1]],
            op=nl.exp,
            data=bank,
            scale=factor,
            bias=shift,
            reduce_op=nl.add,
            reduce_res=parts[:, i : i + 1],
        )
    nisa.tensor_reduce(dst=total, op=nl.add, data=parts, axis=1)
    output = _weighted_values(weights, keys.v, section)
    if running is None:
        kept = like(output)
        nisa.tensor_copy(dst=kept, src=output)
        return _Running(shift, total, kept)
    return _rescaled(running, shift, total, output)


def _section_shift(scores: list[Tensor], factor: float) -> Tensor:
    """−scale · max over the section, a column."""
    rows = scores[0].shape[0]
    highest, lowest, shift = sbuf(rows, len(scores)), sbuf(rows, 1), sbuf(rows, 1)
    for i, bank in enumerate(scores):
        nisa.tensor_reduce(dst=highest[:, i : i + 1], op=nl.maximum, data=bank, axis=1)
    nisa.tensor_reduce(dst=lowest, op=nl.maximum, data=highest, axis=1, negate=True)
    nisa.tensor_scalar(dst=shift, data=lowest, op0=nl.multiply, operand0=factor)
    return shift


def _weighted_values(weights: Tensor, values: list[Tensor], section: slice) -> Tensor:
    """weights @ v over the section, in PSUM; weights are transposed 128 keys at a time."""
    rows, depth = weights.shape[0], values[0].shape[1]
    output = psum(rows, depth)
    # Before NeuronCore-v3 a transpose is a matmul with the identity and leaves fp32 in PSUM.
    in_place = nisa.get_nc_version() >= nisa.nc_version.gen3
    for group in spans(weights.shape[1], 4 * 128):
        steps = spans(extent(group), 128)
        width = min(extent(group), 128)
        # Four transposes share a PSUM bank, so that one copy empties it.
        turned = psum(width, rows * len(steps), weights.dtype if in_place else nl.float32)
        stationary = sbuf(width, rows * len(steps), weights.dtype)
        for i, step in enumerate(steps):
            source = weights[:, group.start + step.start : group.start + step.stop]
            nisa.nc_transpose(
                dst=turned[: extent(step), i * rows : (i + 1) * rows],
                data=source,
                engine=nisa.engine.tensor,
            )
        _copy_transposes(stationary, turned, steps, rows)
        for i, step in enumerate(steps):
            tile = values[(section.start + group.start + step.start) // 128]
            nisa.nc_matmul(
                dst=output,
                stationary=stationary[: extent(step), i * rows : (i + 1) * rows],
                moving=tile[: extent(step), :],
            )
    return output


def _copy_transposes(dst: Tensor, src: Tensor, steps: list[slice], rows: int) -> None:
    """Full steps in one copy, a ragged last one alone: its lower partitions are not written."""
    whole = [step for step in steps if extent(step) == src.shape[0]]
    columns = len(whole) * rows
    nisa.tensor_copy(dst=dst[:, :columns], src=src[:, :columns])
    if len(whole) < len(steps):
        last = extent(steps[-1])
        nisa.tensor_copy(dst=dst[:last, columns:], src=src[:last, columns:])


def _rescaled(running: _Running, shift: Tensor, total: Tensor, output: Tensor) -> _Running:
    rows, depth = output.shape
    decay, merged, kept = sbuf(rows, 1), sbuf(rows, 1), sbuf(rows, depth)
    # exp(old maximum − new maximum) = exp(−old shift + new shift)
    nisa.activation(dst=decay, op=nl.exp, data=running.shift, scale=-1.0, bias=shift)
    nisa.scalar_tensor_tensor(
        dst=merged,
        data=running.total,
        op0=nl.multiply,
        operand0=decay,
        op1=nl.add,
        operand1=total,
    )
    nisa.scalar_tensor_tensor(
        dst=kept,
        data=running.output,
        op0=nl.multiply,
        operand0=decay,
        op1=nl.add,
        operand1=output,
    )
    return _Running(shift, merged, kept)


Array = npt.NDArray[np.generic]


def flash_attention_reference(
    q: Array, k: Array, v: Array, causal: bool = False, scale: float | None = None
) -> npt.NDArray[np.float32]:
    """The same in numpy, fp32."""
    heads, depth, queries = q.shape
    keys = k.shape[2]
    group = heads // k.shape[0]
    wide_k = np.repeat(k.astype(np.float32), group, axis=0)
    wide_v = np.repeat(v.astype(np.float32), group, axis=0)
    factor = np.float32(1.0 / math.sqrt(depth) if scale is None else scale)
    scores = np.matmul(q.astype(np.float32).transpose(0, 2, 1), wide_k) * factor
    if causal:
        allowed = np.arange(keys)[None, :] <= np.arange(queries)[:, None] + keys - queries
        scores = np.where(allowed, scores, np.float32(MASKED))
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    result: npt.NDArray[np.float32] = np.matmul(weights, wide_v)
    return result
