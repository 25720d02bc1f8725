"""How far predicted time is from published time, chip by chip, in words.

The figures are those of `accel validate`, kept in `validation/accuracy.json` because computing them
takes seconds: `python docs/generate.py --validate` writes the file, and a slow test compares it. A
chip that is not in it was never compared with anything, and that is said.
"""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import TypedDict


class KernelErrors(TypedDict):
    """Relative errors over the published timings of whole kernels; `worst_id` names the row."""

    count: int
    median: float
    worst: float
    worst_id: str


@functools.cache
def kernel_errors() -> dict[str, KernelErrors]:
    """The figures by the name of the chip."""
    file = resources.files("accel").joinpath("validation", "accuracy.json")
    figures: dict[str, KernelErrors] = json.loads(file.read_text("utf-8"))
    return figures


def accuracy_of(chip_name: str) -> str:
    """What to say beside a predicted latency."""
    errors = kernel_errors().get(chip_name)
    if errors is None:
        return "not validated: no kernel timing is published"
    return (
        f"median error {100 * errors['median']:.1f} %, worst {100 * errors['worst']:.0f} % "
        f"over {errors['count']} published timings"
    )
