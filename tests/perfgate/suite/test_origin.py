"""What is measured is the tree, never another copy of its packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perfgate.codec import decode
from perfgate.model import CaseStatus, Run
from perfgate.suite.origin import find_strays
from tests.perfgate.repository import Repository

SOURCE = Path(__file__).parents[3]
SUITE = """
import perfgate
{imports}
from perfgate import Metric, MetricKind

STEPS = Metric("steps", "1", kind=MetricKind.EXACT)

@perfgate.benchmark(metrics=[STEPS])
def walk():
    import proj.inner
    return {{"steps": proj.inner.STEPS}}

@perfgate.benchmark(sampled=True, metrics=[Metric("speed", "1/s")],
                    rounds=perfgate.Rounds(1, 1, processes=1))
def run():
    import proj.inner
    return {{"speed": proj.inner.STEPS}}
"""


def package(folder: Path, steps: int) -> None:
    (folder / "proj").mkdir(parents=True)
    (folder / "proj" / "__init__.py").write_text("")
    (folder / "proj" / "inner.py").write_text(f"STEPS = {steps}\n")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder that stands for the installed packages, with a copy of 111 steps."""
    package(tmp_path / "installed", 111)
    return tmp_path / "installed"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = Repository(tmp_path / "project").root
    (folder / "benchmarks").mkdir()
    (folder / "perfgate.toml").write_text("")
    write_suite(folder)
    return folder


def write_suite(project: Path, imports: str = "") -> None:
    (project / "benchmarks" / "b.py").write_text(SUITE.format(imports=imports))


def measured(project: Path, installed: Path) -> dict[str, list[float] | str]:
    """What each case of the suite gave: its values, or its failure."""
    variables = os.environ | {"PYTHONPATH": f"{installed}:{SOURCE}", "PERFGATE_STORE": ""}
    command = (sys.executable, "-m", "perfgate", "run", "--no-report", "--json")
    done = subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    results = decode(Run, json.loads(done.stdout)["run"]).results
    return {
        r.case_id: r.message if r.status is CaseStatus.FAILED else list(r.samples[0].values)
        for r in results
    }


@pytest.mark.parametrize("place", ["src", ".", "lib/python"])
def test_the_sources_of_the_tree_come_before_an_installed_copy(
    place: str, project: Path, installed: Path
) -> None:
    package(project / place, 222)
    (project / "perfgate.toml").write_text('path = ["lib/python"]\n' if "lib" in place else "")

    assert measured(project, installed) == {"b.walk": [222], "b.run": [222]}


def test_a_case_that_imported_another_copy_fails_and_names_both(
    project: Path, installed: Path
) -> None:
    package(project / "src", 222)
    write_suite(project, f"import sys; sys.path.insert(0, {str(installed)!r}); import proj")

    failures = measured(project, installed)

    assert failures.keys() == {"b.walk", "b.run"}
    for failure in failures.values():
        assert f"proj was imported from {installed}/proj/__init__.py" in failure
        assert f"should have been {project}/src/proj/__init__.py" in failure


def test_a_folder_of_path_that_is_not_there_stops_the_run(project: Path) -> None:
    (project / "perfgate.toml").write_text('path = ["build/lib"]\n')
    variables = os.environ | {"PYTHONPATH": str(SOURCE), "PERFGATE_STORE": ""}
    command = (sys.executable, "-m", "perfgate", "run", "--no-report")
    done = subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True)

    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {project}/build/lib: no such folder")


def test_what_only_has_the_name_of_a_package_is_no_copy(tmp_path: Path) -> None:
    for name in ("json", "pytest", "perfgate"):
        (tmp_path / name).mkdir()
    (tmp_path / "json" / "__init__.py").write_text("")
    (tmp_path / "perfgate" / "__init__.py").write_text("")
    (tmp_path / "pytest" / "results.txt").write_text("")

    assert list(find_strays([tmp_path])) == []

    (tmp_path / "pytest" / "__init__.py").write_text("")
    assert [stray.name for stray in find_strays([tmp_path])] == ["pytest"]


def test_a_linked_package_is_no_other_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path / "kept", 1)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "proj").symlink_to(tmp_path / "kept" / "proj")
    monkeypatch.syspath_prepend(str(tmp_path / "kept"))
    __import__("proj")

    try:
        assert list(find_strays([tmp_path / "src"])) == []
    finally:
        del sys.modules["proj"]
