"""The shipped suite: the kernel library on every validated chip, and the host's own cost.

`kernels.py`: simulated metrics, exact. `tooling.py`: seconds on this machine to trace, simulate and
evaluate, sampled. `_simulated.py` is what they share: tracing, metrics, profile and digest.

Metrics of a simulated case: `latency_us` (predicted; gates), `hbm_bytes` (read and written,
spills included), `mfu_percent` (matmul FLOP against the bf16 peak of one core), `spill_bytes`.
"""
