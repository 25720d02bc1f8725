"""`perfgate run` as a user types it: a process of its own, in a repository, over a small suite."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perfgate import cli
from perfgate.codec import decode
from perfgate.model import Run

SOURCE = str(Path(cli.__file__).parents[1])
SUITE = """
import perfgate
from perfgate import Metric, MetricKind

LATENCY = Metric("latency_us", "us", kind=MetricKind.EXACT)

@perfgate.benchmark(params={"m": [64, 512]}, metrics=[LATENCY])
def matmul(m):
    return {"latency_us": 0.5 * m}

@perfgate.benchmark(metrics=[LATENCY])
def softmax():
    return {"latency_us": 7.0}
"""
BROKEN = (
    SUITE
    + """
@perfgate.benchmark(metrics=[LATENCY])
def broken():
    raise ValueError("no such engine")
"""
)
SLEEPY = (
    SUITE
    + """
import time

@perfgate.benchmark(params={"n": range(24)}, metrics=[LATENCY])
def nap(n):
    time.sleep(0.1)
    return {"latency_us": 1.0 + n}
"""
)


def command(*arguments):
    return [sys.executable, "-m", "perfgate", *arguments]


def environment():
    path = os.pathsep.join(filter(None, (SOURCE, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "PERFGATE_STORE": ""}


def perfgate(folder, *arguments):
    return subprocess.run(
        command(*arguments), cwd=folder, env=environment(), capture_output=True, text=True
    )


def git(folder, *arguments):
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@localhost")
    subprocess.run(("git", *identity, *arguments), cwd=folder, check=True, capture_output=True)


def commit(folder, suite):
    (folder / "suite").mkdir(exist_ok=True)
    (folder / "suite" / "kernels.py").write_text(suite)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "a change")


@pytest.fixture
def project(tmp_path):
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "perfgate.toml").write_text('suite = "suite"\n')
    (tmp_path / ".gitignore").write_text(".perfgate/\n__pycache__/\n")
    commit(tmp_path, SUITE)
    return tmp_path


def test_the_main_job_from_a_run_to_a_caught_regression(project, monkeypatch, capsys):
    first = perfgate(project, "run")
    git(project, "checkout", "-qb", "slow")
    commit(project, BROKEN.replace("0.5 * m", "0.51 * m"))
    second = perfgate(project, "run", "--no-report", "--json")
    monkeypatch.chdir(project)
    monkeypatch.delenv("PERFGATE_STORE", raising=False)
    code = cli.main(["gate", "--base", "main"])

    table = first.stdout.splitlines()
    assert first.returncode == 0
    assert table[0] == "kernels.matmul"
    assert table[2].split()[:3] == ["64", "32.00", "µs"]
    assert table[3].split()[:3] == ["512", "256.0", "µs"]
    assert "3 cases: 3 ok" in table
    assert "3 of 3 cases" in first.stderr
    assert f"report: {project}/.perfgate/report/index.html" in first.stderr
    assert (project / ".perfgate/report/index.html").is_file()
    kept = decode(Run, json.loads(second.stdout)["run"])
    assert second.returncode == 3
    assert "failed: kernels.broken" in second.stderr
    assert [r.case_id for r in kept.results if r.message] == ["kernels.broken"]
    shown = capsys.readouterr().out
    assert code == 1
    assert "regressed: kernels.matmul[m=512]" in shown
    assert "failed: kernels.broken" in shown


def test_what_perfgate_writes_into_the_tree_does_not_change_it(project, monkeypatch, capsys):
    monkeypatch.chdir(project)
    gate = ["gate", "--base", "main", "--store", "h.db", "--markdown", "table.md"]
    codes = [perfgate(project, "run", "--store", "h.db", "--no-report").returncode]
    git(project, "checkout", "-qb", "work")
    commit(project, SUITE.replace("7.0", "7.01"))
    codes.append(perfgate(project, "run", "--store", "h.db", "--no-report").returncode)
    codes.append(cli.main(["report", "--store", "h.db", "--output", "page"]))
    codes += [cli.main(gate), cli.main(gate)]

    assert codes == [0, 0, 0, 0, 0]
    assert "+dirty" not in capsys.readouterr().out


@pytest.mark.slow
def test_ctrl_c_keeps_what_finished_and_resume_does_the_rest(project):
    commit(project, SLEEPY)
    process = subprocess.Popen(
        command("run", "--no-report", "--jobs", "2"),
        cwd=project,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    first_line = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()

    gate = perfgate(project, "gate", "--base", "main")
    resumed = perfgate(project, "run", "--resume", "--no-report", "--jobs", "8")

    assert process.returncode == 130
    assert "of 27 cases" in first_line
    assert "of 27 cases finished and kept" in said
    assert "hint: `perfgate run --resume` measures the rest" in said
    assert gate.returncode == 2
    assert resumed.returncode == 0
    assert "27 cases: 27 ok" in resumed.stdout
    assert "of 27 cases" not in resumed.stderr
