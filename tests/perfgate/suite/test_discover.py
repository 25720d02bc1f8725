"""From folders to cases."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perfgate.errors import UserError
from perfgate.suite.discover import discover, matches
from perfgate.suite.runner import RunOptions, run_cases

ONE = """
@perfgate.benchmark(metrics=[CYCLES])
def one():
    return {"cycles": 1}
"""

TWO = """
import perfgate
from perfgate import Metric, MetricKind
from suite_project import VALUE

@perfgate.benchmark(metrics=[Metric("cycles", "1", kind=MetricKind.EXACT)])
def one():
    return {"cycles": VALUE}

@perfgate.benchmark(
    metrics=[Metric("speed", "1/s")], sampled=True, rounds=perfgate.Rounds(1, 1, budget_s=0)
)
def two():
    return {"speed": VALUE}
"""


def ids(path: Path, pattern: str | None = None) -> list[str]:
    return [case.case_id for case in discover(path, pattern)]


def test_the_module_path_is_part_of_the_id_and_files_come_in_order(make_suite):
    suite = make_suite(b=ONE, a=ONE)
    (suite / "deep").mkdir()
    (suite / "deep" / "c.py").write_text((suite / "a.py").read_text())

    assert ids(suite) == ["a.one", "b.one", "deep.c.one"]


def test_one_file_gives_the_ids_it_has_in_its_folder(make_suite):
    suite = make_suite(a=ONE, b=ONE)

    assert ids(suite / "b.py") == ["b.one"]


def test_private_files_and_folders_are_skipped(make_suite):
    suite = make_suite(a=ONE, _b="raise ValueError", __init__="")
    (suite / ".hidden").mkdir()
    (suite / ".hidden" / "c.py").write_text("raise ValueError")

    assert ids(suite) == ["a.one"]


def test_files_import_each_other_under_the_name_of_the_suite(make_suite):
    suite = make_suite(_sizes="SIZE = 7", a=ONE)
    source = (suite / "a.py").read_text().replace("CYCLES]", "CYCLES], params={'n': [SIZE]}")
    source = source.replace("one()", "one(n)")
    (suite / "a.py").write_text(f"from {suite.name}._sizes import SIZE\n{source}")

    assert ids(suite) == ["a.one[n=7]"]


def test_an_imported_benchmark_belongs_to_the_file_that_defines_it(make_suite):
    suite = make_suite(a=ONE, b="")
    (suite / "b.py").write_text(f"from {suite.name}.a import one\nalias = one\n")

    assert ids(suite) == ["a.one"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_module", r"/bad\.py:5: ModuleNotFoundError: No module named 'no_such_mod"),
        ("x = (", r"/bad\.py:5: SyntaxError: '\(' was never closed"),
        (
            "def f():\n    raise ValueError('two\\nlines')\nf()",
            r"/bad\.py:6: ValueError: two lines$",
        ),
        ("sys.exit(3)", r"/bad\.py:5: SystemExit: 3"),
        ("@perfgate.benchmark()\ndef f(): ...", r"/bad\.py:5: f: an exact benchmark declares no"),
    ],
)
def test_a_file_that_does_not_import_is_named_with_its_line(make_suite, source, message):
    suite = make_suite(a=ONE, bad=source)

    with pytest.raises(UserError, match=message) as caught:
        discover(suite)

    assert caught.value.hint
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("declared", "message", "hint"),
    [
        ("metric=[CYCLES]", "unexpected keyword argument 'metric'", "did you mean 'metrics'?"),
        ("warmup=3, metrics=[CYCLES]", "'warmup'", "known arguments: params, metrics, sampled"),
        ("[CYCLES]", "takes 0 positional arguments", "name its arguments: metrics=[…]"),
        ('metrics=["ops"]', "one: metrics has 'ops', needs a Metric", 'metrics=[Metric("steps"'),
        ('metrics="ops"', "one: metrics is 'ops', needs a list of Metric", "metrics=[Metric("),
        ("metrics=CYCLES", "one: metrics is one Metric", "put it in brackets"),
    ],
)
def test_the_hint_for_a_wrong_declaration_is_about_the_declaration(
    make_suite, declared, message, hint
):
    suite = make_suite(a=f"@perfgate.benchmark({declared})\ndef one():\n    return {{}}\n")

    with pytest.raises(UserError) as caught:
        discover(suite)
    assert f"{suite.name}/a.py:5: " in caught.value.message
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_brackets_left_out_are_told(make_suite):
    suite = make_suite(a="@perfgate.benchmark\ndef one():\n    return {}\n")

    with pytest.raises(UserError) as caught:
        discover(suite)
    assert caught.value.hint.startswith("write `@perfgate.benchmark(...)` with brackets")


def test_what_a_file_prints_while_imported_stays_off_standard_output(make_suite, capsys):
    discover(make_suite(a="print('noise')\n" + ONE))

    assert capsys.readouterr().out == ""


def test_discovery_leaves_the_import_path_as_it_was(make_suite):
    before = list(sys.path)
    discover(make_suite(a=ONE))

    assert sys.path == before


def test_a_case_that_appears_twice_is_refused(make_suite):
    suite = make_suite(
        a=ONE + ONE.replace("def one", "def two").replace("(metr", "(name='one', metr")
    )

    with pytest.raises(UserError, match=r"a\.one: the case appears 2 times"):
        discover(suite)


@pytest.mark.parametrize("name", ["nowhere", "nowhere.py", "file.txt", "/"])
def test_no_folder_is_an_error_that_says_what_to_name(tmp_path, name):
    (tmp_path / "file.txt").touch()

    with pytest.raises(UserError, match="not a folder of benchmarks") as caught:
        discover(tmp_path / name)

    assert "perfgate run FOLDER" in caught.value.hint


def test_a_folder_without_benchmarks_is_an_error(make_suite):
    with pytest.raises(UserError, match="no benchmark found"):
        discover(make_suite(a="x = 1"))


def test_a_suite_named_like_a_module_in_use_is_refused(tmp_path):
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "decoder.py").touch()

    with pytest.raises(UserError, match=r"json: the module json is in use already, .*json/__init"):
        discover(tmp_path / "json")


def test_a_broken_package_file_is_named_with_its_line(make_suite):
    suite = make_suite(a=ONE, __init__="import no_such_module")

    for _ in range(2):
        with pytest.raises(UserError, match=r"/__init__\.py:5: ModuleNotFoundError"):
            discover(suite)


def test_a_folder_name_may_hold_dots_and_dashes(make_suite):
    suite = make_suite(a=ONE)
    odd = suite.rename(suite.with_name(f"{suite.name}.my-benchmarks"))

    assert ids(odd) == ["a.one"]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Other copies of the suite and of the project it measures, found before the working tree."""
    site = tmp_path / "site-packages"
    for package in ("suite_of_two", "suite_project"):
        (site / package).mkdir(parents=True)
        (site / package / "__init__.py").write_text("VALUE = 1\n")
    (site / "suite_of_two" / "kernels.py").write_text("raise ValueError('the installed copy')\n")
    monkeypatch.setattr(sys, "path", [str(site), *sys.path, str(tmp_path / "tree")])
    yield site
    for name in [name for name in sys.modules if name.startswith(("suite_of_two", "suite_proj"))]:
        del sys.modules[name]


@pytest.mark.parametrize("has_init", [False, True])
def test_suite_and_project_are_those_of_the_working_tree(installed, tmp_path, has_init):
    tree = tmp_path / "tree"
    for package, file in (("suite_of_two", "kernels.py"), ("suite_project", "__init__.py")):
        (tree / package).mkdir(parents=True)
        (tree / package / file).write_text(TWO if file == "kernels.py" else "VALUE = 2\n")
    if has_init:
        (tree / "suite_of_two" / "__init__.py").touch()
    results = []

    run_cases(discover(tree / "suite_of_two"), RunOptions(), results.append)

    assert {r.case_id: r.message for r in results} == {"kernels.one": "", "kernels.two": ""}
    assert {value for r in results for s in r.samples for value in s.values} == {2.0}


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (None, True),
        ("", True),
        ("matmul", True),
        ("kernels.matmul[chip=trn2,m=512]", True),
        ("matmul*m=512", True),
        ("m=51?]", True),
        ("chip=trn1", False),
        ("matmul.chip", False),
        ("[cm]atmul", False),
    ],
)
def test_a_pattern_is_looked_for_anywhere_with_two_wild_cards(pattern, found):
    assert matches("kernels.matmul[chip=trn2,m=512]", pattern) is found


def test_a_pattern_that_matches_nothing_shows_what_an_id_looks_like(make_suite):
    with pytest.raises(UserError, match=r"no case matches 'two' \(the suite has 1\)") as caught:
        discover(make_suite(a=ONE), "two")

    assert "a.one" in caught.value.hint


def test_importing_the_public_names_loads_nothing_heavy():
    heavy = "{'numpy', 'scipy', 'sqlalchemy', 'alembic', 'jinja2', 'typer', 'rich', 'numba'}"
    code = f"import perfgate, sys; perfgate.benchmark; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
