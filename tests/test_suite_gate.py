"""The shipped suite gated as a user does it: real repository, real kernels, a planted slowdown."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PATTERN = "flash_attention[causal=true*trn2*"
LOOP = "        for rows in spans(queries, 128):\n"
# Two of the 128 query tiles are computed twice: about 2 % more work, the same result.
SLOWER = (
    "        again = [slice(1024, 1152)] if head % 4 == 0 else []\n"
    "        for rows in [*spans(queries, 128), *again]:\n"
)

pytestmark = pytest.mark.slow


def call(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "PERFGATE_"))}
    # perfgate from this checkout; the suite must come from the copy all the same.
    environment["PYTHONPATH"] = str(ROOT)
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


def perfgate(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return call(sys.executable, "-m", "perfgate", *arguments, cwd=cwd)


def measure(cwd: Path, pattern: str = PATTERN) -> None:
    done = perfgate(cwd, "run", "-k", pattern, "--no-report", "--no-cache")
    assert done.returncode == 0, done.stderr


def commit(cwd: Path, subject: str) -> None:
    call("git", "add", "-A", cwd=cwd)
    who = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    done = call("git", *who, "commit", "-q", "--allow-empty", "-m", subject, cwd=cwd)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with accel, its suite and one measured commit on main, on a branch."""
    for name in ("accel", "benchmarks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.pyc"))
    for name in ("pyproject.toml", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path)
    call("git", "init", "-q", "-b", "main", cwd=tmp_path)
    commit(tmp_path, "base")
    measure(tmp_path)
    call("git", "switch", "-q", "-c", "work", cwd=tmp_path)
    return tmp_path


def test_a_two_percent_slowdown_in_a_kernel_fails_the_gate_and_names_the_case(project) -> None:
    kernel = project / "accel/kernels/attention.py"
    source = kernel.read_text()
    assert LOOP in source
    kernel.write_text(source.replace(LOOP, SLOWER))
    commit(project, "slower")
    measure(project)

    shown = perfgate(project, "gate", "--base", "main")
    told = perfgate(project, "gate", "--base", "main", "--json")

    assert shown.returncode == told.returncode == 1
    assert "kernels.flash_attention[causal=true,chip=trn2" in shown.stdout
    (verdict,) = json.loads(told.stdout)["gate"]["verdicts"]
    latency = next(
        c for c in verdict["comparisons"] if c["metric"]["name"] == "latency_us" and c["gates"]
    )
    assert verdict["word"] == "regressed"
    assert 1.015 <= latency["ratio"] <= 1.025


def test_an_unchanged_tree_passes_ten_times_in_a_row(project) -> None:
    commit(project, "nothing")

    codes = []
    for _ in range(10):
        measure(project)
        codes.append(perfgate(project, "gate", "--base", "main").returncode)

    assert codes == [0] * 10


def test_a_deleted_case_is_undecided(project) -> None:
    suite = project / "benchmarks/kernels.py"
    source = suite.read_text()
    suite.write_text(source.replace("_attention_size(8, 2, 2048, 2048, 128, True),", ""))
    assert suite.read_text() != source
    commit(project, "without the case")
    measure(project, "rmsnorm[chip=trn2,columns=4096*rows=1]")

    gate = perfgate(project, "gate", "--base", "main")

    assert gate.returncode == 3
    assert "missing" in gate.stdout
