"""accel: a kernel language, an instruction table and a simulator for NeuronCore-like machines.

In the order data passes through: `chip` (the machine), `program` (what to do), `isa` (what each
instruction means and costs), `nki` (the kernel language that writes programs), `sim` (values, time
and metrics of a program), `kernels` (a library in that language), `cli` (the `accel` command).
"""

from __future__ import annotations

__version__ = "0.1.0"
