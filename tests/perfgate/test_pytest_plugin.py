"""`pytest --perfgate` keeps a session as a run, and does nothing without the option."""

from __future__ import annotations

import importlib
import sys
from importlib import metadata
from pathlib import Path

import pytest

from perfgate import cli
from perfgate.importers import import_paths
from perfgate.model import CaseStatus, Run
from perfgate.store import connect
from tests.perfgate.repository import Repository

pytest.importorskip("pytest_benchmark")
pytest_plugins = ("pytester",)

INSTALLED = any(e.name == "perfgate" for e in metadata.entry_points(group="pytest11"))
QUICK = ("--benchmark-max-time=0.005", "--benchmark-min-rounds=5", "-p", "no:cacheprovider")

SUITE = """
import pytest

@pytest.mark.parametrize("n", [1, 2])
def test_sum(benchmark, n):
    benchmark(sum, range(n))

def test_no_benchmark():
    pass
"""

BROKEN = """
def test_good(benchmark):
    benchmark(sum, [1])

def test_raises(benchmark):
    benchmark(int, "no number")

def test_asserts_after(benchmark):
    assert benchmark(sum, [1]) == 2

def test_asserts_before(benchmark):
    assert False, "never measured"
"""


@pytest.fixture(scope="module", autouse=True)
def loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Load the database library once: an inner session forgets what it was first to import."""
    importlib.import_module("perfgate.pytest_recorder")
    connect(str(tmp_path_factory.mktemp("loaded") / "h.db")).close()


@pytest.fixture(autouse=True)
def on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inner sessions are no workers of a parallel outer one, where nothing would be measured."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)


def run_suite(pytester: pytest.Pytester, suite: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_suite=suite)
    return run_files(pytester, *options)


def run_files(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    plugin = () if INSTALLED else ("-p", "perfgate.pytest_plugin")
    return pytester.runpytest_inprocess(*plugin, *QUICK, *options)


def stored(path: Path) -> tuple[Run, ...]:
    store = connect(str(path), create=False)
    try:
        return tuple(store.run(run.run_id) for run in store.runs())
    finally:
        store.close()


def test_a_session_is_kept_as_a_run(pytester: pytest.Pytester) -> None:
    result = run_suite(
        pytester, SUITE, "--perfgate", "--perfgate-store=h.db", "--perfgate-session=j"
    )

    (run,) = stored(pytester.path / "h.db")
    assert result.ret == 0
    assert [r.case_id for r in run.results] == [f"test_suite.py::test_sum[n={n}]" for n in (1, 2)]
    assert all(len(r.samples[0].values) >= 5 for r in run.results)
    assert (run.source, run.session) == ("pytest-benchmark", "j")
    assert run.environment.machine or run.environment.runner
    result.stdout.fnmatch_lines([f"perfgate: kept as run {run.run_id}: 2 cases"])


def test_a_session_and_its_json_file_give_the_same_cases(pytester: pytest.Pytester) -> None:
    run_suite(pytester, SUITE, "--perfgate", "--perfgate-store=h.db", "--benchmark-json=r.json")

    (imported,) = import_paths("pytest-benchmark", [pytester.path / "r.json"])
    (kept,) = stored(pytester.path / "h.db")
    assert kept.results == imported.results


def test_failed_benchmarks_are_failed_cases(pytester: pytest.Pytester) -> None:
    result = run_suite(pytester, BROKEN, "--perfgate", "--perfgate-store=h.db")

    (run,) = stored(pytester.path / "h.db")
    found = {r.case_id.partition("::")[2]: (r.status, r.message) for r in run.results}
    assert result.ret == 1
    assert found["test_good"] == (CaseStatus.OK, "")
    assert found["test_raises"][0] is CaseStatus.FAILED
    assert "ValueError" in found["test_raises"][1]
    assert found["test_asserts_after"][0] is CaseStatus.FAILED
    assert "never measured" in found["test_asserts_before"][1]


def test_sessions_in_turns_can_be_gated(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = Repository(pytester.path)
    repository.write(".gitignore", ".perfgate\n.benchmarks\n")
    sides = {"main": SUITE, "slow": SUITE.replace("range(n)", "range(n * 20_000)")}
    for branch, suite in sides.items():
        repository.git("checkout", "-q", "-B", branch)
        repository.write("test_suite.py", suite)
        repository.commit()
    for branch in ["main", "slow", "slow", "main"] * 2:
        repository.git("checkout", "-q", branch)
        run_files(pytester, "--perfgate", "--perfgate-session=j")
    repository.git("checkout", "-q", "slow")
    capsys.readouterr()

    assert cli.main(["gate", "--base", "main"]) == 1
    assert "2 regressed" in capsys.readouterr().out


def test_the_configured_store_is_used(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml("[tool.perfgate]\nstore = 'kept/here.db'")

    run_suite(pytester, SUITE, "--perfgate")

    assert len(stored(pytester.path / "kept/here.db")) == 1


def test_without_the_option_nothing_happens(pytester: pytest.Pytester) -> None:
    result = run_suite(pytester, SUITE)

    assert result.ret == 0
    assert not (pytester.path / ".perfgate").exists()
    result.stdout.no_fnmatch_line("*perfgate*kept*")


def test_loading_the_plugin_loads_nothing_heavy(pytester: pytest.Pytester) -> None:
    root = str(Path(__file__).parents[2])
    code = (
        f"import sys; sys.path.insert(0, {root!r}); import perfgate.pytest_plugin; "
        "print(sorted({'numpy', 'sqlalchemy', 'perfgate.store'} & set(sys.modules)))"
    )

    assert pytester.run(sys.executable, "-c", code).outlines == ["[]"]


def test_without_pytest_benchmark_the_option_is_a_usage_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_a(): pass")
    plugin = () if INSTALLED else ("-p", "perfgate.pytest_plugin")

    result = pytester.runpytest_inprocess(*plugin, "-p", "no:benchmark", "--perfgate")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --perfgate: pytest-benchmark is not active*"])


def test_a_bad_store_is_refused_before_anything_runs(pytester: pytest.Pytester) -> None:
    (pytester.path / "h.db").write_text("this is no database " * 100)

    result = run_suite(pytester, SUITE, "--perfgate", "--perfgate-store=h.db")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--perfgate: *h.db*"])
    result.stdout.no_fnmatch_line("*passed*")


@pytest.mark.parametrize("option", ["--benchmark-disable", "--benchmark-skip"])
def test_a_session_that_measures_nothing_says_so(pytester: pytest.Pytester, option: str) -> None:
    result = run_suite(pytester, SUITE, "--perfgate", "--perfgate-store=h.db", option)

    assert stored(pytester.path / "h.db") == ()
    result.stdout.fnmatch_lines(["perfgate: no benchmark was measured, so no run was kept"])


def test_only_collecting_writes_nothing(pytester: pytest.Pytester) -> None:
    run_suite(pytester, SUITE, "--perfgate", "--perfgate-store=h.db", "--collect-only")

    assert not (pytester.path / "h.db").exists()


@pytest.mark.parametrize("option", ["--perfgate-session=j", "--perfgate-store=h.db"])
def test_an_option_that_needs_perfgate_says_so(option: str, pytester: pytest.Pytester) -> None:
    result = run_suite(pytester, SUITE, option)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    name = option.partition("=")[0]
    result.stderr.fnmatch_lines([f"*{name}: keeps nothing without --perfgate; *"])
    assert not (pytester.path / "h.db").exists()


COPIED = """
import copied_package

def test_copied(benchmark):
    benchmark(copied_package.work)
"""


@pytest.mark.parametrize(("installed", "kept"), [("def work(): 1", 0), ("def work(): 2", 1)])
def test_a_session_that_measured_another_copy_is_not_kept(
    installed: str, kept: int, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed copy counts if it is what the tree holds, here `def work(): 2`."""
    elsewhere = pytester.mkdir("elsewhere").rename(pytester.path.with_name(f"installed{kept}"))
    (pytester.mkdir("src") / "copied_package.py").write_text("def work(): 2")
    (elsewhere / "copied_package.py").write_text(installed)
    monkeypatch.syspath_prepend(str(elsewhere))

    result = run_suite(pytester, COPIED, "--perfgate", "--perfgate-store=h.db")

    assert len(stored(pytester.path / "h.db")) == kept
    if not kept:
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stdout.fnmatch_lines(["perfgate: error: copied_package was imported from *"])
        result.stdout.fnmatch_lines(["perfgate: hint: set pythonpath = *"])
