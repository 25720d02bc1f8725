"""One pytest session as one run.

Takes the results from pytest-benchmark's own session in the form that the importer reads, so that
`pytest --perfgate` and an import of the JSON file give the same cases. Benchmark tests that failed
are failed cases: pytest-benchmark leaves them out, and a gate must not take that for a pass.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Protocol, cast

import pytest

from perfgate.config import Config, load_config, source_folders
from perfgate.environment import read_environment
from perfgate.errors import UserError
from perfgate.importers.document import Node
from perfgate.importers.pytest_benchmark import FAILURE, SOURCE, read_results
from perfgate.model import Run
from perfgate.store import connect, store_file
from perfgate.suite.origin import find_strays, is_other_text
from perfgate.suite.record import SystemClock, new_run_id
from perfgate.vcs import note_written, read_revision

_HINT = "does this version of pytest-benchmark work with perfgate?"


class Measured(Protocol):
    """What pytest-benchmark keeps of one test; false while nothing was measured."""

    fullname: str
    has_error: bool

    def as_dict(self, include_data: bool) -> dict[str, object]: ...


class Recorder:
    """Follows a session from before the first test, when the tree and the store are looked at."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._clock = SystemClock()
        self._failures: dict[str, str] = {}
        self._parameters: dict[str, object] = {}
        self._lines: list[str] = []

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Refuse a store that cannot be written to before time is spent on measuring."""
        self._started = self._clock.now()
        self._environment = read_environment()
        try:
            self._project = load_config(self._config.invocation_params.dir)
            self._url = self._config.getoption("perfgate_store") or self._project.store
            if not self._config.getoption("collectonly"):
                connect(self._url).close()
                if file := store_file(self._url):
                    note_written(file, store=True)
            self._revision = read_revision(self._config.rootpath)
        except UserError as error:
            raise pytest.UsageError(f"--perfgate: {error.message} (hint: {error.hint})") from None

    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        """Remember which tests are benchmarks, with their parameters."""
        for item in items:
            if "benchmark" in getattr(item, "fixturenames", ()):
                call = getattr(item, "callspec", None)
                self._parameters[item.nodeid] = dict(call.params) if call else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the benchmarks that fail, in whatever phase."""
        if report.failed and report.nodeid in self._parameters:
            self._failures.setdefault(report.nodeid, _message(report))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Keep the run. What goes wrong is told in the summary and fails the session."""
        if self._config.getoption("collectonly"):
            return
        try:
            self._lines.append(self._keep())
        except UserError as error:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
            self._lines += [f"error: {error.message}", f"hint: {error.hint}"]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was kept."""
        for line in self._lines:
            terminalreporter.write_line(f"perfgate: {line}")

    def _keep(self) -> str:
        benchmarks = list(self._benchmarks())
        if not benchmarks:
            return "no benchmark was measured, so no run was kept"
        _refuse_strays(self._project)
        document = Node({"benchmarks": benchmarks}, SOURCE, "", _HINT)
        results, warnings = read_results(document)
        finished = self._clock.now()
        run = Run(
            run_id=new_run_id(self._started),
            revision=self._revision,
            environment=self._environment,
            started_at=self._started.isoformat(timespec="milliseconds"),
            finished_at=finished.isoformat(timespec="milliseconds"),
            session=self._config.getoption("perfgate_session"),
            source=SOURCE,
            results=results,
            warnings=warnings,
        )
        store = connect(self._url)
        try:
            store.add_run(run)
        finally:
            store.close()
        cases = "1 case" if len(results) == 1 else f"{len(results)} cases"
        return f"kept as run {run.run_id}: {cases}"

    def _benchmarks(self) -> Iterator[dict[str, object]]:
        """Measured tests as pytest-benchmark writes them, then failed ones with their message."""
        for measured in _measured(self._config):
            if measured and not measured.has_error and measured.fullname not in self._failures:
                yield _as_json(measured.as_dict(include_data=True))
        for name, message in self._failures.items():
            yield _as_json({"fullname": name, "params": self._parameters[name], FAILURE: message})


def _refuse_strays(project: Config) -> None:
    """Keep nothing that was measured on another copy of the code than the tree's.

    An installed copy of the same text is as good. Tests and their helpers often have names that
    occur several times in a tree, so only what lies outside of it, or is installed in it, counts.
    """
    for stray in find_strays((*source_folders(project), project.root)):
        outside = not stray.found.is_relative_to(project.root)
        if (outside or "site-packages" in stray.found.parts) and is_other_text(stray):
            raise UserError(
                f"{stray}, so another copy of the code was measured and no run was kept",
                'set pythonpath = ["src"] (or where the package lies) under '
                "[tool.pytest.ini_options], or install this tree",
            )


def _message(report: pytest.TestReport) -> str:
    """The line of the exception, or the phase in which the test failed."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(getattr(crash, "message", "")).splitlines()
    return lines[0] if lines else f"failed in {report.when}"


def _measured(config: pytest.Config) -> Sequence[Measured]:
    session = getattr(config, "_benchmarksession", None)
    return cast("Sequence[Measured]", getattr(session, "benchmarks", ()))


def _as_json(benchmark: dict[str, object]) -> dict[str, object]:
    """The form a file would have: a parameter that JSON cannot hold becomes text that says so."""
    text = json.dumps(benchmark, default=lambda value: f"UNSERIALIZABLE[{value!r}]")
    return cast("dict[str, object]", json.loads(text))
