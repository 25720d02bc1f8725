"""Real worker processes: every case ends in one result, and nothing of it stays behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from perfgate.model import CaseResult, CaseStatus
from perfgate.suite.runner import RunOptions, run_cases

ROOT = Path(__file__).parents[3]


def run_all(cases, options=RunOptions(), lookup=lambda case_id, digest: None):  # noqa: B008
    """Results by what is in the brackets of their id, in the order of delivery, and warnings."""
    results: dict[str, CaseResult] = {}

    def keep(result: CaseResult) -> None:
        assert result.case_id not in results
        results[result.case_id] = result

    warnings = run_cases(cases, options, keep, lookup=lookup)
    return {
        case_id.partition("=")[2][:-1] or case_id: r for case_id, r in results.items()
    }, warnings


def cases_of(make_cases, body: str, ways: list[str], declared: str = "metrics=[CYCLES]"):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    declared += f", params={{'way': {ways!r}}}"
    return make_cases(f"closed = []\n@perfgate.benchmark({declared})\ndef one(way):\n{lines}")


MISBEHAVIOUR = """
if not closed:
    print("about to", way, flush=True)
if way == "segv":
    os.kill(os.getpid(), signal.SIGSEGV)
if way == "exit":
    os._exit(3)
if way == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if way == "raise":
    raise ValueError("no such chip \\udc80")
if way == "hang":
    while True: signal.pause()
if way == "stubborn":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGABRT])
    while True: signal.pause()
if way == "chatty":
    print("x" * 1_000_000)
    raise ValueError("after much ado")
if way == "bytes":
    os.write(1, b"\\xff\\x00")
    raise ValueError
if way == "profile":
    return Measurement({"cycles": 1}, ProfileNode("p", counts=(("bytes", object()),)))
if way == "big":
    return Measurement({"cycles": 1}, ProfileNode("p" * 3_000_000))
if way == "fork" and os.fork() == 0:
    return {"cycles": 99}
if way == "noise" and not closed:
    closed.append(1)
    os.write(1, b'{"kind": "finished"}\\n')
    os.close(0), os.close(1), os.close(2)
return {"cycles": 1}
"""
EXPECTED = {
    "segv": (CaseStatus.FAILED, "was killed by SIGSEGV before it had a result"),
    "exit": (CaseStatus.FAILED, "exited with status 3 before it had a result"),
    "kill": (CaseStatus.FAILED, "was killed by SIGKILL (out of memory?) before it had a result"),
    "raise": (CaseStatus.FAILED, "ValueError: no such chip ? (b.py:"),
    "hang": (CaseStatus.TIMED_OUT, "no result after 0.5 s"),
    "stubborn": (CaseStatus.TIMED_OUT, "no result after 0.5 s"),
    "chatty": (CaseStatus.FAILED, "ValueError: after much ado"),
    "bytes": (CaseStatus.FAILED, "ValueError"),
    "profile": (CaseStatus.FAILED, "the result has no JSON form"),
    "big": (CaseStatus.OK, ""),
    "fork": (CaseStatus.OK, ""),
    "noise": (CaseStatus.OK, ""),
    "good": (CaseStatus.OK, ""),
}

SAMPLED = "sampled=True, metrics=[Metric('cycles', '1')], rounds=Rounds(1, 1, warm_up=0)"


def check_misbehaviour(
    make_cases, declared: str, ways: list[str], timeout_s: float
) -> dict[str, CaseResult]:
    cases = cases_of(make_cases, MISBEHAVIOUR, ways, declared)

    results, warnings = run_all(cases, RunOptions(timeout_s=timeout_s, jobs=3))

    assert warnings == ()
    assert sorted(results) == sorted(ways)
    for way, result in results.items():
        status, start = EXPECTED[way]
        assert (way, result.status, result.message[: len(start)]) == (way, status, start)
        assert result.samples if status is CaseStatus.OK else not result.samples
    return results


def test_every_misbehaviour_of_an_exact_case_is_that_case_s_own(make_cases):
    ways = [way for way, (status, _) in EXPECTED.items() if status is not CaseStatus.TIMED_OUT]

    results = check_misbehaviour(make_cases, "metrics=[CYCLES]", ways, 20)

    assert "about to segv" in results["segv"].message
    assert "b.py" in results["segv"].message, "the stack at the crash"
    assert results["fork"].samples[0].values == (1.0,), (
        "not what the benchmark's own child returned"
    )
    assert len(results["chatty"].message) < 10_000


def test_a_sampled_case_misbehaves_alone_too(make_cases):
    check_misbehaviour(make_cases, SAMPLED, ["segv", "exit", "raise", "good"], 20)


def test_a_case_that_hangs_is_ended_and_says_where_it_hung(make_cases):
    results = check_misbehaviour(make_cases, "metrics=[CYCLES]", ["hang", "stubborn"], 0.5)

    assert "b.py" in results["hang"].message


@pytest.mark.slow
def test_a_sampled_case_that_hangs_is_ended_too(make_cases):
    check_misbehaviour(make_cases, SAMPLED, ["hang"], 0.5)


def test_exact_cases_run_side_by_side_and_sampled_ones_last_and_alone(make_cases, tmp_path):
    """The two exact cases wait for each other; a sampled one counts who runs beside it."""
    cases = make_cases(f"""
        import glob
        @perfgate.benchmark(sampled=True, metrics=[Metric('others', '1')], rounds=Rounds(1, 1))
        def a():
            return {{'others': len(glob.glob({str(tmp_path)!r} + '/*.busy'))}}
        for way in 'xy': os.path.exists(f'{tmp_path}/{{way}}') or os.mkfifo(f'{tmp_path}/{{way}}')
        @perfgate.benchmark(metrics=[CYCLES], params={{'way': ['x', 'y']}})
        def b(way):
            busy = open(f'{tmp_path}/{{way}}.busy', 'w')
            for name in 'xy':
                open(f'{tmp_path}/{{name}}', 'w' if name == way else 'r').close()
            os.remove(busy.name)
            return {{'cycles': 1}}
        """)

    results, _ = run_all(cases, RunOptions(jobs=2, timeout_s=20))

    assert list(results)[-1] == "b.a"
    assert results["b.a"].sample("others").values == (0.0,)
    assert [r.status for r in results.values()] == [CaseStatus.OK] * 3


def test_a_sampled_case_is_measured_in_several_processes_and_told_once(make_cases):
    cases = make_cases("""
        rounds = Rounds(3, 3, processes=3, budget_s=0)
        @perfgate.benchmark(sampled=True, metrics=[Metric('pid', '1')], rounds=rounds)
        def one():
            return {'pid': os.getpid()}
        """)
    started, finished = [], []

    run_cases(cases, RunOptions(), finished.append, started.append)

    (values,) = [sample.values for result in finished for sample in result.samples]
    assert len(set(values)) == len(values) == 3
    assert started == list(cases)


def test_a_sampled_case_fails_with_the_first_process_that_does(make_cases, tmp_path):
    cases = make_cases(f"""
        @perfgate.benchmark(sampled=True, metrics=[Metric('n', '1')], rounds=Rounds(3, 3))
        def one():
            n = len(os.listdir({str(tmp_path)!r}))
            open(f'{tmp_path}/{{n}}', 'w').close()
            if n >= 4: raise ValueError(f'call {{n}}')
            return {{'n': n}}
        """)

    results, _ = run_all(cases)

    assert results["b.one"].status is CaseStatus.FAILED
    assert results["b.one"].message.startswith("ValueError: call ")
    assert results["b.one"].samples == ()


def test_a_stored_result_is_delivered_instead_of_running(make_cases):
    cases = cases_of(
        make_cases,
        "if way == 'old': raise ValueError\nreturn {'cycles': 2}",
        ["old", "new"],
        "metrics=[CYCLES], tags=['t'], digest=lambda way: way",
    )
    stored = CaseResult("elsewhere", samples=(), duration_s=9.0)
    asked = {}

    def lookup(case_id: str, digest: str) -> CaseResult | None:
        asked[case_id] = digest
        return stored if "old" in case_id else None

    results, _ = run_all(cases, lookup=lookup)

    old = results["old"]
    digest = asked[old.case_id]
    expected = replace(
        stored, case_id="b.one[way=old]", cached=True, digest=digest, duration_s=0.0, tags=("t",)
    )
    assert old == expected
    assert (results["new"].cached, results["new"].digest) == (False, asked["b.one[way=new]"])


def test_a_killed_worker_costs_only_the_case_that_killed_it(make_cases):
    """Those that ran beside it are run again, one by one."""
    ways = ["1", "2", "killer", "3", "4"]
    cases = cases_of(
        make_cases,
        "if way == 'killer': os.kill(os.getppid(), signal.SIGKILL); signal.pause()\n"
        "return {'cycles': 1}",
        ways,
    )

    results, _ = run_all(cases, RunOptions(jobs=2))

    assert {way for way, r in results.items() if r.status is CaseStatus.FAILED} == {"killer"}
    assert "the worker process was killed by SIGKILL" in results["killer"].message
    assert sorted(results) == sorted(ways)


def test_warm_up_runs_once_before_the_cases(make_cases):
    cases = make_cases("""
        calls = []
        def warm_up():
            calls.append(1)
        @perfgate.benchmark(metrics=[CYCLES], params={'way': [1, 2]})
        def one(way):
            return {'cycles': len(calls)}
        """)

    results, _ = run_all(cases)

    assert [r.samples[0].values for r in results.values()] == [(1.0,), (1.0,)]


@pytest.mark.parametrize(
    ("warm_up", "limit_s", "message"),
    [
        ("raise ValueError('cold')", 20, "could not load the suite: ValueError: cold (b.py:"),
        ("os._exit(4)", 20, "the worker process exited with status 4 while it loaded the suite"),
        ("import signal; signal.pause()", 0.5, "the suite took more than 0.5 s to load"),
    ],
)
def test_a_suite_that_does_not_load_fails_its_cases(make_cases, warm_up, limit_s, message):
    cases = make_cases(
        f"def warm_up():\n    {warm_up}\n"
        "@perfgate.benchmark(metrics=[CYCLES], params={'way': [1, 2]})\ndef one(way): ...\n"
    )

    results, _ = run_all(cases, RunOptions(load_timeout_s=limit_s))

    assert [r.status for r in results.values()] == [CaseStatus.FAILED] * 2
    assert results["1"].message.startswith(message)
    assert "in warm_up" in results["1"].message or "os._exit" in warm_up


def test_a_file_changed_since_discovery_fails_its_cases(make_cases):
    cases = cases_of(make_cases, "return {'cycles': 1}", ["x"])
    cases[0].file.write_text("")

    results, _ = run_all(cases)

    assert "has no such case any more" in results["x"].message


def test_the_memory_limit_fails_only_the_case_that_needs_more(make_cases):
    body = "data = bytearray(int(way) << 20)\nreturn {'cycles': len(data)}"
    cases = cases_of(make_cases, body, ["1", "900"])

    results, _ = run_all(cases, RunOptions(memory_bytes=400 << 20))

    assert results["1"].status is CaseStatus.OK
    assert results["900"].message.startswith("MemoryError")


def test_what_the_budget_leaves_out_is_not_run(make_cases):
    cases = cases_of(make_cases, "return {'cycles': 1}", ["1", "2"])

    results, _ = run_all(cases, RunOptions(budget_s=0))

    assert [r.status for r in results.values()] == [CaseStatus.NOT_RUN] * 2
    assert results["1"].message == "the time budget of the run was spent"


def test_the_limit_of_the_benchmark_comes_before_that_of_the_run(make_cases):
    cases = cases_of(make_cases, "signal.pause()", ["x"], "metrics=[CYCLES], timeout_s=0.1")

    results, _ = run_all(cases, RunOptions(timeout_s=500))

    assert results["x"].message.startswith("no result after 0.1 s")


def test_threads_that_a_suite_starts_are_warned_about(make_cases):
    cases = make_cases("""
        import threading
        def warm_up():
            threading.Thread(target=signal.pause, daemon=True).start()
        @perfgate.benchmark(metrics=[CYCLES])
        def one():
            return {'cycles': 1}
        """)

    _, warnings = run_all(cases)

    assert warnings == ("the suite started 1 threads on import: exact cases may hang when forked",)


@pytest.mark.parametrize("kind", ["exact", "sampled"])
def test_numeric_libraries_get_one_thread(make_cases, monkeypatch, kind):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    cases = make_cases(f"""
        names = ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS')
        metrics = [Metric(name, '1', kind=MetricKind.{kind.upper()}) for name in names]
        @perfgate.benchmark(sampled={kind == "sampled"}, metrics=metrics, rounds=Rounds(1, 1))
        def one():
            return {{name: int(os.environ[name]) for name in names}}
        """)

    results, _ = run_all(cases)

    assert [s.values for s in results["b.one"].samples] == [(1.0,), (2.0,)], "ours, then the user's"


def test_no_case_starts_no_process(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("started"))

    assert run_cases((), RunOptions(), on_result=lambda result: None) == ()


def test_what_a_callback_raises_ends_the_run(make_cases):
    cases = cases_of(make_cases, "return {'cycles': 1}", ["1", "2"])

    def refuse(result: CaseResult) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run_cases(cases, RunOptions(), refuse)


def test_ctrl_c_never_cuts_a_delivery_in_two(make_cases):
    cases = cases_of(make_cases, "return {'cycles': 1}", ["1", "2", "3"])
    begun, ended = [], []

    def slow(result: CaseResult) -> None:
        begun.append(result.case_id)
        if len(begun) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        ended.append(result.case_id)

    with pytest.raises(KeyboardInterrupt):
        run_cases(cases, RunOptions(jobs=1), slow)

    assert begun == ended
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_at_the_very_end_is_not_swallowed(make_cases):
    cases = cases_of(make_cases, "return {'cycles': 1}", ["1"])

    with pytest.raises(KeyboardInterrupt):
        run_cases(cases, RunOptions(), lambda result: os.kill(os.getpid(), signal.SIGINT))


BLOCK = """
fd = os.open(way, os.O_WRONLY)
child = subprocess.Popen(["sleep", "600"], pass_fds=[fd])
os.write(fd, b"started")
child.wait()
"""
DRIVER = """
import sys
from pathlib import Path
from perfgate.suite import RunOptions, discover, run_cases
cases = discover(Path(sys.argv[1]))
try:
    run_cases(cases, RunOptions(jobs=1), lambda result: print(result.case_id, flush=True))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("exact", signal.SIGINT),
        ("sampled", signal.SIGKILL),
        pytest.param("exact", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("exact", signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param("sampled", signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_no_process_outlives_the_run(make_suite, tmp_path, kind, number):
    """Each process of the case, its child included, holds a FIFO open: its end is theirs."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    metrics = "metrics=[CYCLES]" if kind == "exact" else "sampled=True"
    body = "".join(f"    {line}\n" for line in BLOCK.strip().splitlines())
    suite = make_suite(
        a="@perfgate.benchmark(metrics=[CYCLES])\ndef quick(): return {'cycles': 1}\n",
        b=f"@perfgate.benchmark({metrics}, params={{'way': [{str(fifo)!r}]}})\ndef f(way):\n{body}",
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(suite)], stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    read_fd = os.open(fifo, os.O_RDONLY)

    assert read_within(read_fd, 10) == b"started"
    assert driver.stdout.readline() == "a.quick\n"
    driver.send_signal(number)
    said, _ = driver.communicate(timeout=10)

    assert read_within(read_fd, 10) == b"", "every process is gone"
    assert said == ("interrupted\n" if number == signal.SIGINT else "")
    os.close(read_fd)


def read_within(fd: int, limit_s: float) -> bytes:
    ready, _, _ = select.select([fd], [], [], limit_s)
    assert ready, f"nothing to read within {limit_s} s"
    return os.read(fd, 100)


@pytest.mark.slow
def test_numpy_and_compiled_loops_work_in_forks_of_a_warm_worker(make_cases):
    pytest.importorskip("numba")
    cases = make_cases("""
        import numba, numpy
        @numba.njit(parallel=True)
        def total(x):
            result = 0.0
            for i in numba.prange(x.size):
                result += x[i]
            return result
        def warm_up():
            numpy.ones((64, 64)) @ numpy.ones((64, 64))
            numba.njit(lambda x: x + 1)(1)
        @perfgate.benchmark(metrics=[CYCLES], params={'n': [16, 256, 1024]})
        def one(n):
            x = numpy.ones((n, n))
            return {'cycles': total((x @ x).ravel()) / n**3}
        """)

    results, warnings = run_all(cases, RunOptions(timeout_s=60))

    assert [r.samples[0].values for r in results.values()] == [(1.0,)] * 3
    assert warnings == ()
