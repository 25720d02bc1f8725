"""The steps of the workflow that gates pull requests, run by bash as GitHub does."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.perfgate.repository import Repository

ROOT = Path(__file__).parents[1]
WORKFLOW = ROOT / ".github/workflows/perfgate.yml"

SUITE = """
import perfgate
from perfgate import Metric, MetricKind

LATENCY = Metric("latency_us", "us", kind=MetricKind.EXACT)

@perfgate.benchmark(metrics=[LATENCY])
def steady():
    return {"latency_us": 100.0}

@perfgate.benchmark(metrics=[LATENCY])
def changing():
    return {"latency_us": VALUE}
"""
FAILS = "float('no number')"
NO_SUITE = ""


def steps() -> list[dict[str, str]]:
    return yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["gate"]["steps"]


@dataclass(frozen=True, slots=True)
class Job:
    """What a job left: the steps that failed with their codes, the summary, the working folder."""

    failed: dict[str, int]
    said: str
    summary: str
    folder: Path

    @property
    def uploads(self) -> set[str]:
        return {name for name in ("report", "history.db") if (self.folder / name).exists()}


def commit(repository: Repository, value: str) -> str:
    if value:
        repository.write("benchmarks/kernels.py", SUITE.replace("VALUE", value))
    return repository.commit(f"changing is {value or 'not there'}")


def run_job(folder: Path, base: str, head: str) -> Job:
    """Every step that has a script, but the installation: perfgate is the one of this checkout."""
    program = folder / "bin" / "perfgate"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m perfgate "$@"\n')
    program.chmod(0o755)
    repository = Repository(folder / "head")
    repository.write(".gitignore", "__pycache__/\n.perfgate/\n")
    shas = [commit(repository, value) for value in (base, head)]
    variables = os.environ | {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "BASE_SHA": shas[0],
        "HEAD_SHA": shas[1],
        "GITHUB_WORKSPACE": str(folder),
        "GITHUB_STEP_SUMMARY": str(folder / "step_summary"),
        "PERFGATE_STORE": str(folder / "history.db"),
    }
    failed: dict[str, int] = {}
    said = ""
    for step in steps():
        if "run" not in step or step["name"].startswith("Install"):
            continue
        if failed and step.get("if") != "always()":
            continue
        done = subprocess.run(
            ("bash", "-e", "-c", step["run"]),
            cwd=folder,
            env=variables,
            capture_output=True,
            text=True,
        )
        said += done.stdout + done.stderr
        if done.returncode:
            failed[step["name"]] = done.returncode
    summary = folder / "step_summary"
    return Job(failed, said, summary.read_text() if summary.exists() else "", folder)


def test_the_pull_request_that_adds_the_suite_is_told_what_to_do(tmp_path: Path) -> None:
    job = run_job(tmp_path, NO_SUITE, "100.0")

    assert job.failed == {"Gate": 3}
    assert "2 no-baseline" in job.summary
    assert "the first change that adds the suite" in job.summary
    assert job.uploads == {"report", "history.db"}


@pytest.mark.slow
def test_an_unchanged_suite_passes(tmp_path: Path) -> None:
    job = run_job(tmp_path, "100.0", "100.0")

    assert job.failed == {}
    assert "2 unchanged" in job.summary


@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "head", "code", "words"),
    [
        (FAILS, "100.0", 3, "1 no-baseline, 1 unchanged"),
        ("100.0", FAILS, 3, "1 failed, 1 unchanged"),
        ("100.0", "110.0", 1, "1 regressed, 1 unchanged"),
    ],
)
def test_the_gate_judges_what_was_measured(
    base: str, head: str, code: int, words: str, tmp_path: Path
) -> None:
    job = run_job(tmp_path, base, head)

    assert job.failed == {"Gate": code}
    assert words in job.summary
    assert job.uploads == {"report", "history.db"}


@pytest.mark.slow
def test_a_suite_that_does_not_import_ends_the_job_and_keeps_what_there_is(tmp_path: Path) -> None:
    job = run_job(tmp_path, "100.0", "(")

    assert job.failed == {"Measure the head": 2}
    assert "error: benchmarks/kernels.py" in job.said
    assert job.uploads == {"report", "history.db"}


def test_the_report_is_uploaded_whatever_happened() -> None:
    upload = steps()[-1]

    assert upload["uses"].startswith("actions/upload-artifact@")
    assert upload["if"] == "always()"
    assert upload["with"]["path"].split() == ["report", "history.db"]
