"""`kill -9` of a run, again and again: nothing that had finished is lost, nothing is corrupt."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from perfgate.model import Environment, Revision, Run
from perfgate.store import connect

ROOT = Path(__file__).parents[3]
KILLS = 20
SUITE = """
import time
@perfgate.benchmark(metrics=[CYCLES], params={'n': list(range(12))})
def exact(n):
    time.sleep(0.05)
    return Measurement({'cycles': n}, ProfileNode('p' * 10_000, n))
@perfgate.benchmark(sampled=True, params={'n': [1, 2]}, rounds=Rounds(5, 20, budget_s=0.1))
def sampled(n):
    time.sleep(0.001)
"""
DRIVER = """
import sys
from pathlib import Path
from perfgate.errors import UserError
from perfgate.model import Environment, Revision
from perfgate.store import connect
from perfgate.suite import NoProgress, RecordOptions, discover, find_open, record_run, resume

class Tell(NoProgress):
    def finished(self, result):
        print(result.case_id, flush=True)

store, cases = connect(sys.argv[1]), discover(Path(sys.argv[2]))
revision, environment = Revision("c0ffee"), Environment()
try:
    run = find_open(store, revision, environment)
except UserError:
    run = record_run(store, cases, revision, environment, RecordOptions(), Tell())
else:
    print("resumed", run.run_id, flush=True)
    run = resume(store, run.run_id, cases, RecordOptions(), Tell())
print("closed", run.run_id, flush=True)
"""


@pytest.mark.slow
def test_no_finished_case_is_lost_by_kill_9(make_suite, tmp_path):
    """Each process is killed within the time a whole run takes; the next one resumes its run."""
    store, moments = tmp_path / "history.db", random.Random(20261201)
    command = [sys.executable, "-c", DRIVER, str(store), str(make_suite(b=SUITE))]
    expected = {f"b.exact[n={n}]" for n in range(12)} | {"b.sampled[n=1]", "b.sampled[n=2]"}
    told: set[str] = set()
    kills = 0

    while kills < KILLS:
        driver = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            driver.wait(moments.uniform(0.0, 1.5))
        kills += driver.poll() is None
        driver.kill()
        said, _ = driver.communicate()
        told |= {line for line in said.splitlines() if line.startswith("b.")}
        run = newest_run(store)
        assert told <= {result.case_id for result in run.results}
        if run.finished_at:
            told.clear()

    done = subprocess.run(command, capture_output=True, cwd=ROOT, text=True, check=True)
    assert "closed" in done.stdout
    assert {result.case_id for result in newest_run(store).results} == expected
    with contextlib.closing(sqlite3.connect(store)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def newest_run(store: Path) -> Run:
    """Open or closed; an empty one where the first process did not get as far as a run."""
    nothing = Run("", Revision(""), Environment(), "")
    if not store.exists():
        return nothing
    with contextlib.closing(connect(str(store))) as opened:
        return next((opened.run(run.run_id) for run in opened.runs(include_open=True)), nothing)
