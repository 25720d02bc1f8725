"""Published timings against ours: no row is lost, every error is what it says, the bars hold."""

import csv
import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

import accel.validation.points as points
from accel.chip import chip_named
from accel.nki.jit import TensorSpec, evaluate, trace
from accel.sim import simulate
from accel.validation import Point, Published, accuracy, matmuls, probes, scans

CSV = Path(points.__file__).parent / "timing_points.csv"

# Rows of the first release's bar, and how far the larger may exceed the smaller.
BARRED = 0.25
BARRED_ROWS = [
    "kopt_v2_tiled",
    "kopt_v3_hoisted",
    "kopt_v4_block_free",
    "kopt_v5_block_k",
    "matmul_trn1_tiled",
    "matmul_trn1_hoist_load",
    "matmul_trn1_block_free",
    "matmul_trn1_fully_optimized",
    "mamba_v1_512_256",
    "mamba_v1_512_4096",
    "mamba_v2_512",
    "mamba_v3_512",
    "mamba_v3_2048",
    "mamba_v3_4096",
    "mamba_v3_8192",
]


def row(name: str) -> Published:
    return next(r for r in points.published_points() if r.id == name)


def test_every_row_of_the_file_is_read() -> None:
    with CSV.open(newline="") as file:
        ids = [line["id"] for line in csv.DictReader(file)]

    assert [r.id for r in points.published_points()] == ids
    assert len(set(ids)) == len(ids)


def test_every_predictor_belongs_to_a_row() -> None:
    ids = {r.id for r in points.published_points()}

    assert set(points.PROBES) <= ids
    assert set(points.WORKLOADS) <= ids


def test_json_rows_have_the_promised_keys() -> None:
    shown = Point(row("kopt_v2_tiled"), None).as_json()

    assert list(shown) == ["id", "quality", "chip", "published", "predicted", "unit", "source"]
    assert shown["predicted"] is None
    assert shown["published"] == 39.894938


@pytest.mark.parametrize(
    ("predicted", "error"), [(None, None), (39.894938, 0.0), (79.789876, 1.0), (19.947469, 1.0)]
)
def test_error_is_how_far_the_larger_exceeds_the_smaller(predicted, error) -> None:
    assert Point(row("kopt_v2_tiled"), predicted).error == error


def test_error_of_a_percentage_is_the_difference() -> None:
    assert Point(row("kopt_v2_tiled_pe"), 77.28).error == pytest.approx(0.10)


def test_accuracy_leaves_out_targets_and_rows_that_are_not_predicted() -> None:
    known = (Point(row("kopt_v2_tiled"), 39.894938), Point(row("kopt_v3_hoisted"), 2 * 28.197982))
    ignored = (Point(row("perf_pe_ldw_1"), None), Point(row("rmsq_target_1_2048_8192"), 9.0))

    groups = {group.group: group for group in accuracy(known + ignored)}

    assert list(groups) == [points.WHOLE, points.ALL, points.FITTED, points.UNSEEN]
    whole = groups[points.WHOLE]
    assert (whole.count, whole.worst_id) == (2, "kopt_v3_hoisted")
    assert (whole.median, whole.worst) == (pytest.approx(0.5), pytest.approx(1.0))
    assert (groups[points.FITTED].worst_id, groups[points.FITTED].count) == ("kopt_v3_hoisted", 1)
    assert (groups[points.UNSEEN].worst_id, groups[points.UNSEEN].count) == ("kopt_v2_tiled", 1)


def test_a_row_that_a_number_comes_from_does_not_judge() -> None:
    for name, field in points.CHOSEN_BY.items():
        assert Point(row(name), 1.0).fitted
        assert "Its row" in chip_named(row(name).chip).fact(field).source


def test_probes_measure_what_the_cost_table_says() -> None:
    chip = chip_named("trn2")

    cold, warm = probes.matmul(512, "bfloat16"), probes.matmul(512, "bfloat16", times=64)
    assert probes.issue_interval_ns(cold, chip) == pytest.approx(2 * 512 / 2.4, abs=0.002)
    assert probes.issue_interval_ns(warm, chip) == pytest.approx(512 / 2.4, abs=0.001)
    assert probes.duration_ns(probes.copy_from_psum(512), chip) == pytest.approx(
        (256 + chip.vector_latency_cycles) / 0.96, abs=0.001
    )


def test_a_launch_is_added_to_latencies_and_not_to_windows() -> None:
    chip = chip_named("trn2")
    kernel = trace(matmuls.exp_whole, {"x": TensorSpec((4, 4096), "bfloat16")}, chip)

    metrics = simulate(kernel, chip).metrics

    assert metrics.launched_latency_us - metrics.latency_us == pytest.approx(22.28)


@pytest.mark.parametrize(
    "kernel",
    [matmuls.matmul_tiled, matmuls.matmul_hoisted, matmuls.matmul_blocked_free,
     matmuls.matmul_blocked],
)  # fmt: skip
def test_published_matmuls_multiply(kernel) -> None:
    rng = np.random.default_rng(3)
    left = rng.standard_normal((1024, 2048), dtype=np.float32)
    right = rng.standard_normal((1024, 1024), dtype=np.float32)

    result = evaluate(kernel, {"lhs_t": left, "rhs": right}, chip_named("trn2")).result

    assert np.abs(result - left.T @ right).max() <= 1e-3


@pytest.mark.parametrize(
    "kernel", [scans.scan_states_outer, scans.scan_channels_outer, scans.scan_in_pieces]
)
def test_published_scans_scan(kernel) -> None:
    rng = np.random.default_rng(4)
    channels, states, length = 128, 3, 1024
    delta, u = (rng.random((1, channels, length), dtype=np.float32) for _ in range(2))
    a = -rng.random((channels, states), dtype=np.float32)
    b, c = (rng.random((1, states, length), dtype=np.float32) for _ in range(2))

    arguments = {"delta": delta, "u": u, "a": a, "b": b, "c": c}
    result = evaluate(kernel, arguments, chip_named("trn1")).result

    assert np.allclose(result, _scan_reference(delta[0], u[0], a, b[0], c[0])[None], rtol=1e-4)


def _scan_reference(delta, u, a, b, c):
    out, state = np.zeros_like(delta), np.zeros(a.shape)
    for t in range(delta.shape[1]):
        decay = np.exp(delta[:, t, None] * a)
        state = decay * state + (delta[:, t] * u[:, t])[:, None] * b[None, :, t]
        out[:, t] = (state * c[None, :, t]).sum(axis=1)
    return out


@pytest.fixture(scope="module")
def validated() -> tuple[Point, ...]:
    """All predictions, which take 15 s: only slow tests ask for them."""
    return points.validate()


@pytest.mark.slow
def test_barred_rows_are_within_a_quarter(validated) -> None:
    known = {p.published.id: p for p in validated}

    errors = {name: known[name].error for name in BARRED_ROWS}

    assert all(error is not None and error <= BARRED for error in errors.values()), errors
    assert all(p.predicted is None or math.isfinite(p.predicted) for p in known.values())


@pytest.mark.slow
def test_the_accuracy_that_a_run_states_is_what_validation_finds(validated) -> None:
    written = CSV.with_name("accuracy.json").read_text(encoding="utf-8")

    found = points.accuracy_text(points.kernel_accuracy(validated))

    assert written == found, "run: python docs/generate.py --validate"


def test_accuracy_is_told_chip_by_chip_over_whole_kernels() -> None:
    def point(name: str, chip: str, published: float, predicted: float | None) -> Point:
        changed = dataclasses.replace(row("kopt_v2_tiled"), id=name, chip=chip, value=published)
        return Point(changed, predicted)

    errors = points.kernel_accuracy(
        (
            point("a", "trn1", 1.0, 1.5),
            point("b", "trn2", 1.0, 1.1),
            point("c", "trn2", 1.3, 1.0),
            point("d", "trn3", 1.0, None),
        )
    )

    assert {chip: (e.count, e.worst_id) for chip, e in errors.items()} == {
        "trn1": (1, "a"),
        "trn2": (2, "c"),
    }
    assert json.loads(points.accuracy_text(errors))["trn2"] == {
        "count": 2,
        "median": 0.2,
        "worst": 0.3,
        "worst_id": "c",
    }
