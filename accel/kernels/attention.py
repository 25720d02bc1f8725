"""Flash attention, forward: out[h] = softmax(scale · q[h].T @ k[g] + mask) @ v[g], g = h's KV head.

Layouts. q [heads, d, Sq], k [kv_heads, d, Skv] (d on partitions, so that both are matmul operands
as loaded), v [kv_heads, Skv, d]; out [heads, Sq, d] in q's dtype. d ≤ 128; any Sq and Skv;
heads a multiple of kv_heads (grouped-query attention). `causal` masks keys after the query, the
last query being aligned with the last key.

Algorithm. Query rows lie on partitions, 128 at a time; keys are walked in sections of up to 1024
(two PSUM banks of scores). Maximum m, sum l and output o of a row are kept running:

    S  = q.T @ k[section]                      tensor engine, one bank a 512 keys
    m' = max(m, scale · max S)                 vector engine
    P  = exp(scale · S − m'), r = Σ P          scalar engine, one pass
    o  = o · exp(m − m') + P @ v[section]      P transposed 128 × 128 at a time
    l  = l · exp(m − m') + r
    out = o ÷ l

Four sections are in flight, a stage of the work each: scores and maximum; weights; transposes; the
product with v. What a stage needs was made one turn before, so the engines, each of which works in
order, do not wait for each other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.kernels.tiling import extent, generation, like, load, psum, sbuf, spans
from accel.nki.jit import jit
from accel.nki.tensor import Tensor

SECTION = 1024
BANK = 512
# Added to masked scores before the exponential; far below any score, and finite in fp32.
MASKED = -1.0e30


@dataclass(frozen=True, slots=True)
class _Keys:
    """One KV head on chip: k [d, Skv], and v as tiles of 128 keys [keys, d]."""

    k: Tensor
    v: list[Tensor]


@dataclass(frozen=True, slots=True)
class _Step:
    """A tile of query rows against one section of keys; `goal` is where its rows go at the end."""

    query: Tensor
    keys: _Keys
    section: slice
    first_masked: int
    goal: Tensor | None


@dataclass(frozen=True, slots=True)
class _Scored:
    """Scores of a section [rows, keys], in PSUM where they are not masked. Columns [rows, 1]:
    `lowest`, −max so far, unscaled, and `shift`, scaled; `before`, the shift of the section before
    of the same rows, None for the first.
    """

    step: _Step
    scores: Tensor
    lowest: Tensor
    shift: Tensor
    before: Tensor | None


@dataclass(frozen=True, slots=True)
class _Weighed:
    """Weights of a section [rows, keys], or their transposes, tiles [keys, rows]. Columns: their
    sums, and `decay`, what earlier sections are worth beside this one, None for the first.
    """

    step: _Step
    weights: list[Tensor]
    total: Tensor
    decay: Tensor | None


@dataclass(frozen=True, slots=True)
class _Running:
    """Per query row: sum [rows, 1] and unnormalised output [rows, d]."""

    total: Tensor
    output: Tensor


@jit
def flash_attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None
) -> Tensor:
    """Attention of all heads; `scale`, which is positive, defaults to 1 ÷ √d."""
    heads, depth, queries = q.shape
    kv_heads, _, keys = k.shape
    assert depth <= 128, f"head dimension {depth} exceeds the 128 partitions"
    assert heads % kv_heads == 0, f"{heads} heads are not a multiple of {kv_heads} KV heads"
    assert v.shape == (kv_heads, keys, depth), f"v is {v.shape}, k is {k.shape}"
    factor = 1.0 / math.sqrt(depth) if scale is None else scale
    assert factor > 0, f"scale is {factor}, must be positive"
    out = nl.ndarray((heads, queries, depth), dtype=q.dtype, buffer=nl.shared_hbm)
    scored: _Scored | None = None
    weighed: _Weighed | None = None
    turned: _Weighed | None = None
    running: _Running | None = None
    for step in itertools.chain(_steps(q, k, v, out, causal), [None] * 3):
        next_scored = _score(step, scored, factor) if step else None
        next_weighed = _weigh(scored, factor) if scored else None
        next_turned = _transpose(weighed) if weighed else None
        if turned:
            running = _absorb(running, turned)
        scored, weighed, turned = next_scored, next_weighed, next_turned
    return out


def _steps(q: Tensor, k: Tensor, v: Tensor, out: Tensor, causal: bool) -> Iterator[_Step]:
    """All the work, section by section; a head is loaded when its first section is asked for."""
    heads, _, queries = q.shape
    kv_heads, _, keys = k.shape
    group = heads // kv_heads
    for head in range(heads):
        if head % group == 0:
            tiles = [load(v[head // group, span, :]) for span in spans(keys, 128)]
            on_chip = _Keys(load(k[head // group]), tiles)
        loaded = load(q[head])
        for rows in spans(queries, 128):
            last = keys - queries + rows.stop if causal else keys
            assert last > 0, "a causal mask leaves some queries no key"
            first_masked = last - extent(rows) + 1 if causal else last
            for section in spans(last, SECTION):
                goal = out[head, rows, :] if section.stop == last else None
                yield _Step(loaded[:, rows], on_chip, section, first_masked, goal)


def _score(step: _Step, before: _Scored | None, factor: float) -> _Scored:
    """Scores of a section; `before` is the section before, of the same rows or not."""
    scores = _scores(step)
    rows = scores.shape[0]
    lowest, shift = sbuf(rows, 1), sbuf(rows, 1)
    nisa.tensor_reduce(dst=lowest, op=nl.maximum, data=scores, axis=1, negate=True)
    if before is None or step.section.start == 0:
        nisa.tensor_scalar(dst=shift, data=lowest, op0=nl.multiply, operand0=factor)
        return _Scored(step, scores, lowest, shift, None)
    lower = sbuf(rows, 1)
    nisa.tensor_tensor(dst=lower, data1=before.lowest, data2=lowest, op=nl.minimum)
    nisa.tensor_scalar(dst=shift, data=lower, op0=nl.multiply, operand0=factor)
    return _Scored(step, scores, lower, shift, before.shift)


def _weigh(scored: _Scored, factor: float) -> _Weighed:
    """exp of a section's scores over the maximum so far."""
    rows, keys = scored.scores.shape
    weights, total = sbuf(rows, keys, scored.step.keys.v[0].dtype), sbuf(rows, 1)
    nisa.activation_reduce(
        dst=weights,
        op=nl.exp,
        data=scored.scores,
        scale=factor,
        bias=scored.shift,
        reduce_op=nl.add,
        reduce_res=total,
    )
    decay: Tensor | None = None
    if scored.before is not None:
        decay = sbuf(rows, 1)
        # exp(old maximum − new maximum) = exp(−old shift + new shift)
        nisa.activation(dst=decay, op=nl.exp, data=scored.before, scale=-1.0, bias=scored.shift)
    return _Weighed(scored.step, [weights], total, decay)


def _scores(step: _Step) -> Tensor:
    """q.T @ k of the section, masked in SBUF where it reaches the diagonal.

    Row r may see key c where c < first_masked + r.
    """
    query, section = step.query, step.section
    scores = psum(query.shape[1], extent(section))
    for bank in spans(extent(section), BANK):
        keys = step.keys.k[:, section.start + bank.start : section.start + bank.stop]
        nisa.nc_matmul(dst=scores[:, bank], stationary=query, moving=keys)
    if section.stop <= step.first_masked:
        return scores
    plain, masked = like(scores), like(scores)
    nisa.tensor_copy(dst=plain, src=scores)
    nisa.affine_select(
        dst=masked,
        pattern=[[-1, scores.shape[1]]],
        channel_multiplier=1,
        on_true_tile=plain,
        on_false_value=MASKED,
        cmp_op=nl.greater,
        offset=step.first_masked - section.start,
    )
    return masked


def _transpose(weighed: _Weighed) -> _Weighed:
    """The weights with keys on partitions, 128 keys a tile."""
    (weights,) = weighed.weights
    rows, found = weights.shape[0], []
    for number, group in enumerate(spans(weights.shape[1], 4 * 128)):
        steps = spans(extent(group), 128)
        width = min(extent(group), 128)
        # Four transposes share a PSUM bank, so that one copy empties it. Before NeuronCore-v3 a
        # transpose is a matmul with the identity and leaves fp32 in PSUM.
        columns = rows * len(steps)
        psum_dtype = weights.dtype if generation() >= 3 else nl.float32
        turned, copied = psum(width, columns, psum_dtype), sbuf(width, columns, weights.dtype)
        for i, step in enumerate(steps):
            source = weights[:, group.start + step.start : group.start + step.stop]
            nisa.nc_transpose(
                dst=turned[: extent(step), i * rows : (i + 1) * rows],
                data=source,
                engine=nisa.engine.tensor,
            )
        # The two engines that reach PSUM take turns.
        engine = nisa.engine.vector if number % 2 else nisa.engine.scalar
        _copy_transposes(copied, turned, steps, rows, engine)
        for i, step in enumerate(steps):
            found.append(copied[: extent(step), i * rows : (i + 1) * rows])
    return _Weighed(weighed.step, found, weighed.total, weighed.decay)


def _absorb(running: _Running | None, section: _Weighed) -> _Running:
    """The running state after one more section; the last one of some rows stores them."""
    values, start = section.step.keys.v, section.step.section.start // 128
    rows, depth = section.weights[0].shape[1], values[0].shape[1]
    product, output, total = psum(rows, depth), sbuf(rows, depth), section.total
    for i, weights in enumerate(section.weights):
        moving = values[start + i][: weights.shape[0], :]
        nisa.nc_matmul(dst=product, stationary=weights, moving=moving)
    if section.decay is None:
        nisa.tensor_copy(dst=output, src=product)
    else:
        assert running is not None
        total = sbuf(rows, 1)
        nisa.scalar_tensor_tensor(
            dst=total,
            data=running.total,
            op0=nl.multiply,
            operand0=section.decay,
            op1=nl.add,
            operand1=section.total,
        )
        nisa.scalar_tensor_tensor(
            dst=output,
            data=running.output,
            op0=nl.multiply,
            operand0=section.decay,
            op1=nl.add,
            operand1=product,
        )
    if section.step.goal is not None:
        inverse, result = sbuf(rows, 1), sbuf(rows, depth, section.step.goal.dtype)
        nisa.reciprocal(dst=inverse, data=total)
        nisa.tensor_scalar(dst=result, data=output, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=section.step.goal, src=result)
    return _Running(total, output)


def _copy_transposes(
    dst: Tensor, src: Tensor, steps: list[slice], rows: int, engine: nisa.engine
) -> None:
    """Full steps in one copy, a ragged last one alone: its lower partitions are not written."""
    whole = [step for step in steps if extent(step) == src.shape[0]]
    columns = len(whole) * rows
    nisa.tensor_copy(dst=dst[:, :columns], src=src[:, :columns], engine=engine)
    if len(whole) < len(steps):
        last = extent(steps[-1])
        nisa.tensor_copy(dst=dst[:last, columns:], src=src[:last, columns:], engine=engine)


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
