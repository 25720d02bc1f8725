"""Validation: published timings beside predicted ones.

Files: `timing_points.csv` (the publications), `matmuls` and `scans` (their kernels, in our own
words), `probes` (single instructions), `points` (rows, predictions, errors), `accuracy.json` (the
errors that `accel run` states).
"""

from __future__ import annotations

from accel.validation.points import (
    Accuracy,
    Point,
    Published,
    accuracy,
    accuracy_text,
    kernel_accuracy,
    validate,
)

__all__ = [
    "Accuracy",
    "Point",
    "Published",
    "accuracy",
    "accuracy_text",
    "kernel_accuracy",
    "validate",
]
