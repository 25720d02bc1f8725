"""Predicted latency of the kernel library at sizes that models use, on every validated chip.

Sizes: GPT-2 and Llama-like layers (4096 tokens, 4096 and 11008 wide), ViT-B/16 (197 tokens),
Whisper (1500 frames), a decode step (one token), a 250,002-word vocabulary.
"""

from __future__ import annotations

from accel.nki.jit import TensorSpec
from benchmarks._simulated import METRICS, Arguments, digest, measure
from perfgate import Measurement, benchmark

CHIPS = ("trn1", "trn2")


def warm_up() -> None:
    """Compiles the simulator once, before the worker forks a process for each case."""
    measure("rmsnorm", CHIPS[0], _rmsnorm(1, 128, "float32"))


def on_every_chip(*sizes: dict[str, object]) -> list[dict[str, object]]:
    return [{"chip": chip, **size} for size in sizes for chip in CHIPS]


def _matmul(m: int, n: int, k: int, dtype: str) -> Arguments:
    return {"lhs_t": TensorSpec((k, m), dtype), "rhs": TensorSpec((k, n), dtype)}


@benchmark(
    params=on_every_chip(
        {"m": 4096, "n": 4096, "k": 4096, "dtype": "bfloat16"},
        {"m": 4096, "n": 11008, "k": 4096, "dtype": "bfloat16"},
        {"m": 4096, "n": 4096, "k": 11008, "dtype": "bfloat16"},
        {"m": 1024, "n": 1024, "k": 1024, "dtype": "float32"},
        {"m": 197, "n": 3072, "k": 768, "dtype": "bfloat16"},
        {"m": 1, "n": 4096, "k": 4096, "dtype": "bfloat16"},
    ),
    metrics=METRICS,
    digest=lambda chip, **size: digest("matmul", chip, _matmul(**size)),
    tags=("kernel", "tensor-engine"),
)
def matmul(chip: str, m: int, n: int, k: int, dtype: str) -> Measurement:
    return measure("matmul", chip, _matmul(m, n, k, dtype))


def _rows(rows: int, columns: int, dtype: str) -> Arguments:
    return {"x": TensorSpec((rows, columns), dtype)}


@benchmark(
    params=on_every_chip(
        {"rows": 4096, "columns": 4096, "dtype": "bfloat16"},
        {"rows": 2364, "columns": 197, "dtype": "float32"},
        {"rows": 128, "columns": 250002, "dtype": "bfloat16"},
    ),
    metrics=METRICS,
    digest=lambda chip, **size: digest("softmax", chip, _rows(**size)),
    tags=("kernel", "vector-engine"),
)
def softmax(chip: str, rows: int, columns: int, dtype: str) -> Measurement:
    return measure("softmax", chip, _rows(rows, columns, dtype))


def _layernorm(rows: int, columns: int, dtype: str) -> Arguments:
    vector = TensorSpec((columns,), dtype)
    return {**_rows(rows, columns, dtype), "gamma": vector, "beta": vector}


@benchmark(
    params=on_every_chip(
        {"rows": 4096, "columns": 768, "dtype": "bfloat16"},
        {"rows": 1500, "columns": 1280, "dtype": "bfloat16"},
        {"rows": 4096, "columns": 4096, "dtype": "float32"},
    ),
    metrics=METRICS,
    digest=lambda chip, **size: digest("layernorm", chip, _layernorm(**size)),
    tags=("kernel", "vector-engine"),
)
def layernorm(chip: str, rows: int, columns: int, dtype: str) -> Measurement:
    return measure("layernorm", chip, _layernorm(rows, columns, dtype))


def _rmsnorm(rows: int, columns: int, dtype: str) -> Arguments:
    return {**_rows(rows, columns, dtype), "gamma": TensorSpec((columns,), dtype)}


@benchmark(
    params=on_every_chip(
        {"rows": 4096, "columns": 4096, "dtype": "bfloat16"},
        {"rows": 2048, "columns": 8192, "dtype": "bfloat16"},
        {"rows": 1, "columns": 4096, "dtype": "bfloat16"},
    ),
    metrics=METRICS,
    digest=lambda chip, **size: digest("rmsnorm", chip, _rmsnorm(**size)),
    tags=("kernel", "vector-engine"),
)
def rmsnorm(chip: str, rows: int, columns: int, dtype: str) -> Measurement:
    return measure("rmsnorm", chip, _rmsnorm(rows, columns, dtype))


def _attention(
    heads: int, kv_heads: int, queries: int, keys: int, depth: int, causal: bool, dtype: str
) -> Arguments:
    return {
        "q": TensorSpec((heads, depth, queries), dtype),
        "k": TensorSpec((kv_heads, depth, keys), dtype),
        "v": TensorSpec((kv_heads, keys, depth), dtype),
        "causal": causal,
    }


def _attention_size(
    heads: int, kv_heads: int, queries: int, keys: int, depth: int, causal: bool
) -> dict[str, object]:
    return {
        "heads": heads,
        "kv_heads": kv_heads,
        "queries": queries,
        "keys": keys,
        "depth": depth,
        "causal": causal,
        "dtype": "bfloat16",
    }


@benchmark(
    params=on_every_chip(
        _attention_size(8, 2, 2048, 2048, 128, True),
        _attention_size(1, 1, 4096, 4096, 128, False),
        _attention_size(12, 12, 197, 197, 64, False),
        _attention_size(6, 6, 1500, 1500, 64, False),
        _attention_size(4, 1, 1, 4096, 128, False),
    ),
    metrics=METRICS,
    digest=lambda chip, **size: digest("flash_attention", chip, _attention(**size)),
    tags=("kernel", "attention"),
)
def flash_attention(
    chip: str,
    heads: int,
    kv_heads: int,
    queries: int,
    keys: int,
    depth: int,
    causal: bool,
    dtype: str,
) -> Measurement:
    arguments = _attention(heads, kv_heads, queries, keys, depth, causal, dtype)
    return measure("flash_attention", chip, arguments)
