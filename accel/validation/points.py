"""Published timings against ours, one row each; what `accel validate` shows.

`timing_points.csv` holds the publications as facts: id, quality, chip, source, shape, value, unit.
`PREDICTORS` says how each is predicted; a row without one is listed as not predicted, never
dropped. Quality: A measured with shapes and kernel source, B read off a profile, C a target or
threshold (an upper bound), D weak.
"""

from __future__ import annotations

import csv
import functools
import json
import statistics
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources

from accel.chip import Chip, chip_named
from accel.nki.jit import Kernel, TensorSpec, trace
from accel.program import Program
from accel.sim import PROFILE_OF_FORM, Metrics, simulate
from accel.sim.simulation import chip_without
from accel.validation import matmuls, probes, scans

# What built every kernel of the older form that was measured.
OLDER_COMPILER = PROFILE_OF_FORM["neuronxcc"]


@dataclass(frozen=True, slots=True)
class Published:
    """One row of the file. `value` is in `unit`; `quantity` says what was measured."""

    id: str
    quality: str
    chip: str
    lnc: int
    source: str
    kernel: str
    shape: str
    dtype: str
    value: float
    unit: str
    quantity: str


# Odd rows that a number of a chip comes from all the same: they do not judge the model.
CHOSEN_BY = {"ov_dma_128x128": "dma_engine_step_ps"}


@dataclass(frozen=True, slots=True)
class Point:
    """A published value beside ours; `predicted` is None where the row is not predicted yet."""

    published: Published
    predicted: float | None

    @property
    def fitted(self) -> bool:
        """Whether a number of a chip may have been chosen by this row: those whose id has an even
        CRC-32, and the few others where one was.
        """
        row = self.published.id
        return zlib.crc32(row.encode()) % 2 == 0 or row in CHOSEN_BY

    @property
    def error(self) -> float | None:
        """Relative: how far the larger exceeds the smaller; of percentages the difference ÷ 100."""
        if self.predicted is None:
            return None
        if self.published.unit == "percent":
            return abs(self.predicted - self.published.value) / 100
        low, high = sorted((self.predicted, self.published.value))
        return high / low - 1 if low > 0 else float("inf")

    def as_json(self) -> dict[str, object]:
        """The row of `accel validate --json`."""
        row = self.published
        return {
            "id": row.id,
            "quality": row.quality,
            "chip": row.chip,
            "published": row.value,
            "predicted": self.predicted,
            "unit": row.unit,
            "source": row.source,
        }


@dataclass(frozen=True, slots=True)
class Workload:
    """A kernel at published shapes, on the compiler it was measured with."""

    kernel: Kernel
    arguments: tuple[tuple[str, TensorSpec], ...]
    profile: str = "none"


def _matmul(kernel: Kernel, dtype: str, profile: str = "none") -> Workload:
    left, right = TensorSpec((8192, 4096), dtype), TensorSpec((8192, 8192), dtype)
    return Workload(kernel, (("lhs_t", left), ("rhs", right)), profile)


def _scan(kernel: Kernel, length: int, channels: int = 4096, states: int = 16) -> Workload:
    shapes = {
        "delta": (1, channels, length),
        "u": (1, channels, length),
        "a": (channels, states),
        "b": (1, states, length),
        "c": (1, states, length),
    }
    specs = tuple((name, TensorSpec(shape, "float32")) for name, shape in shapes.items())
    return Workload(kernel, specs, OLDER_COMPILER)


WORKLOADS: dict[str, Workload] = {
    "kopt_v2_tiled": _matmul(matmuls.matmul_tiled, "float32"),
    "kopt_v3_hoisted": _matmul(matmuls.matmul_hoisted, "float32"),
    "kopt_v4_block_free": _matmul(matmuls.matmul_blocked_free, "float32"),
    "kopt_v5_block_k": _matmul(matmuls.matmul_blocked, "float32"),
    "matmul_trn1_tiled": _matmul(matmuls.matmul_tiled, "bfloat16", OLDER_COMPILER),
    "matmul_trn1_hoist_load": _matmul(matmuls.matmul_hoisted, "bfloat16", OLDER_COMPILER),
    "matmul_trn1_block_free": _matmul(matmuls.matmul_blocked_free, "bfloat16", OLDER_COMPILER),
    "matmul_trn1_fully_optimized": _matmul(matmuls.matmul_blocked, "bfloat16", OLDER_COMPILER),
    "mamba_v1_512_256": _scan(scans.scan_states_outer, 512, channels=256),
    "mamba_v1_512_4096": _scan(scans.scan_states_outer, 512),
    **{f"mamba_v2_{n}": _scan(scans.scan_channels_outer, n) for n in (512, 2048, 4096, 8192)},
    **{f"mamba_v3_{n}": _scan(scans.scan_in_pieces, n) for n in (512, 2048, 4096, 8192)},
    "ov_exp_kernel_4x4096": Workload(
        matmuls.exp_whole, (("x", TensorSpec((4, 4096), "bfloat16")),)
    ),
}

# Rows that are another metric of a workload: suffix of the id, metric.
ACTIVE: dict[str, str] = {
    "_pe": "tensor_engine_active_percent",
    "_dve": "vector_engine_active_percent",
    "_dma": "dma_active_percent",
}

Probe = Callable[[Chip], float]

PROBES: dict[str, Probe] = {
    # One nc_matmul in fp32 shows as two MATMULs in the profile; the row is one of them.
    "kopt_matmul_issue_fp32_512": lambda chip: (
        probes.issue_interval_ns(probes.matmul(512, "float32", times=32), chip) / 2
    ),
    "kopt_tensor_copy_512": lambda chip: probes.duration_ns(probes.copy_from_psum(512), chip),
    "kopt_tensor_tensor_512": lambda chip: probes.duration_ns(
        probes.tensor_tensor(128, 512, True), chip
    ),
    "perf_act_1elem_dependent": lambda chip: probes.issue_interval_ns(
        probes.activation_chain(4), chip
    ),
    "perf_dve_tt_8192": lambda chip: probes.duration_ns(
        probes.tensor_tensor(128, 8192, False), chip
    ),
    "perf_dve_tt_8192_64lanes": lambda chip: probes.duration_ns(
        probes.tensor_tensor(64, 8192, False), chip
    ),
    "perf_pe_mm_128x96": lambda chip: probes.duration_ns(probes.matmul(96, "bfloat16"), chip),
    "perf_pe_mm_128": lambda chip: probes.duration_ns(probes.matmul(128, "bfloat16"), chip),
    "perf_pe_transpose_128": lambda chip: probes.duration_ns(
        probes.transpose(128, "bfloat16"), chip
    ),
    "perf_dma_4mib": lambda chip: probes.data_ns(probes.save(128, 8192, "float32"), chip),
    "perf_dma_32k_one_engine": lambda chip: probes.data_ns(probes.load(1, 8192, "float32"), chip),
    "ov_dma_32k": lambda chip: probes.data_ns(probes.load(4, 4096, "bfloat16"), chip),
    "ov_dma_32k_end_to_end": lambda chip: probes.duration_ns(
        probes.load(4, 4096, "bfloat16"), chip
    ),
    "ov_act_4096": lambda chip: probes.duration_ns(probes.activation(4, 4096, "bfloat16"), chip),
    "ov_act_table_load": lambda chip: chip.activation_table_load_ps / probes.PS_PER_NS,
    "ov_dma_128x128": lambda chip: probes.data_ns(probes.load(128, 128, "bfloat16"), chip),
    "ov_dma_2k_per_engine": lambda chip: probes.data_ns(probes.load(1, 1024, "bfloat16"), chip),
    "ov_act_128": lambda chip: probes.duration_ns(probes.activation(128, 128, "bfloat16"), chip),
    "rmsq_act_reduce_16384": lambda chip: probes.duration_ns(probes.activation_reduce(16384), chip),
    "rmsq_matmul_512_cold": lambda chip: probes.issue_interval_ns(
        probes.matmul(512, "bfloat16"), chip
    ),
    "rmsq_stt_512": lambda chip: probes.issue_interval_ns(probes.scalar_tensor_tensor(512), chip),
    "rmsq_absmax_16384": lambda chip: probes.duration_ns(probes.largest_magnitude(16384), chip),
    "rmsq_ts_bf16_fp8_16384": lambda chip: probes.duration_ns(probes.scale_to_fp8(16384), chip),
}

PER_UNIT_OF_US = {"ns": 1000.0, "us": 1.0, "ms": 0.001}


def published_points() -> tuple[Published, ...]:
    """The rows of the shipped file, in its order."""
    text = resources.files("accel.validation").joinpath("timing_points.csv").read_text("utf-8")
    return tuple(_published(row) for row in csv.DictReader(text.splitlines()))


def _published(row: Mapping[str, str]) -> Published:
    fields = {**row, "lnc": int(row["lnc"]), "value": float(row["value"])}
    return Published(**fields)  # type: ignore[arg-type]


def validate(
    on_point: Callable[[Point], None] = lambda point: None,
    ablate: frozenset[str] = frozenset(),
    compiler: str = "",
    prefix: str = "",
) -> tuple[Point, ...]:
    """Predicts every published row; `on_point` hears of each as it is done.

    `ablate`: effects to leave out; `compiler`: the profile of what an older compiler built, if it
    is to be another one; `prefix`: of the ids of the rows wanted.
    """

    @functools.cache
    def metrics(workload: str, chip: str) -> Metrics:
        work, machine = WORKLOADS[workload], chip_named(chip)
        profile = compiler if compiler and work.profile != "none" else work.profile
        return simulate(_program(workload, chip), machine, profile, ablate).metrics

    points = []
    for row in published_points():
        if not row.id.startswith(prefix):
            continue
        point = Point(row, _predict(row, metrics, ablate))
        on_point(point)
        points.append(point)
    return tuple(points)


@functools.cache
def _program(workload: str, chip: str) -> Program:
    work = WORKLOADS[workload]
    return trace(work.kernel, dict(work.arguments), chip_named(chip))


def _predict(
    row: Published, metrics: Callable[[str, str], Metrics], ablate: frozenset[str]
) -> float | None:
    if row.id in PROBES:
        return PROBES[row.id](chip_without(chip_named(row.chip), ablate))
    if row.id in WORKLOADS:
        found = metrics(row.id, row.chip)
        alone = row.quantity == "latency"
        us = found.launched_latency_us if alone else found.latency_us
        return us * PER_UNIT_OF_US[row.unit]
    for suffix, metric in ACTIVE.items():
        workload = _workload_of(row.id.removesuffix(suffix)) if row.id.endswith(suffix) else None
        if workload:
            return float(getattr(metrics(workload, row.chip), metric))
    return None


def _workload_of(prefix: str) -> str | None:
    """`kopt_v2` and `kopt_v2_tiled` both name the workload `kopt_v2_tiled`."""
    return next((name for name in WORKLOADS if name.startswith(prefix)), None)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Errors of one group of predicted rows, as fractions. `worst_id` names the worst row."""

    group: str
    count: int
    median: float
    worst: float
    worst_id: str


WHOLE = "whole kernels"


def kernel_accuracy(points: tuple[Point, ...]) -> dict[str, Accuracy]:
    """The errors over whole kernels of each chip that has any."""
    chips = sorted({point.published.chip for point in points})
    groups = [
        (chip, group)
        for chip in chips
        for group in accuracy(tuple(p for p in points if p.published.chip == chip))
    ]
    return {chip: group for chip, group in groups if group.group == WHOLE}


def accuracy_text(errors: Mapping[str, Accuracy]) -> str:
    """`accuracy.json`: to a hundredth of a percent, since the last digits say nothing."""
    figures = {
        chip: {
            "count": group.count,
            "median": round(group.median, 4),
            "worst": round(group.worst, 4),
            "worst_id": group.worst_id,
        }
        for chip, group in errors.items()
    }
    return json.dumps(figures, indent=2) + "\n"


ALL = "all of quality A and B"
FITTED, UNSEEN = "of these, rows to choose by", "of these, rows to judge by"


def accuracy(points: tuple[Point, ...]) -> tuple[Accuracy, ...]:
    """Latencies and single instructions apart from engine-active percentages, then all together and
    by whether constants may be chosen by them; A and B rows only.
    """
    good = [p for p in points if p.published.quality in "AB" and p.error is not None]
    groups = {
        WHOLE: [p for p in good if p.published.unit == "ms" or "whole" in p.published.kernel],
        "engine active": [p for p in good if p.published.unit == "percent"],
    }
    known = {id(p) for group in groups.values() for p in group}
    groups["single instructions"] = [p for p in good if id(p) not in known]
    groups[ALL] = good
    groups[FITTED] = [p for p in good if p.fitted]
    groups[UNSEEN] = [p for p in good if not p.fitted]
    return tuple(_accuracy(name, group) for name, group in groups.items() if group)


def _accuracy(group: str, points: list[Point]) -> Accuracy:
    errors = [(p.error or 0.0, p.published.id) for p in points]
    worst, worst_id = max(errors)
    return Accuracy(group, len(points), statistics.median(e for e, _ in errors), worst, worst_id)
