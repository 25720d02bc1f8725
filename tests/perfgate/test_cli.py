"""The command line in this process, over a repository whose runs were put in the store directly."""

import contextlib
import io
import json
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from perfgate import cli
from perfgate.cli import app, main
from perfgate.codec import decode
from perfgate.commands.progress import watching
from perfgate.model import (
    CaseResult,
    CaseStatus,
    Environment,
    GateResult,
    Metric,
    MetricKind,
    Run,
    Sample,
)
from perfgate.store import connect
from perfgate.vcs import read_revision, resolve

LATENCY = Metric("latency_us", "us", kind=MetricKind.EXACT)
COMMANDS = sorted(command.name or command.callback.__name__ for command in app.registered_commands)
SUITE = """
import perfgate

@perfgate.benchmark(sampled=True)
def host():
    pass
"""
UNWRITABLE = "/proc/perfgate/history.db"


def git(folder, *arguments):
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@localhost")
    subprocess.run(("git", *identity, *arguments), cwd=folder, check=True, capture_output=True)


def stored_run(folder, minute, latencies):
    """The run of the folder's commit, as `perfgate run` would have kept it."""
    results = tuple(
        CaseResult(f"kernels.{name}", samples=(Sample(LATENCY, (value,)),))
        for name, value in latencies.items()
    )
    time = f"2026-01-01T00:{minute:02}:00+00:00"
    return Run(f"run{minute}", read_revision(folder), Environment(), time, time, results=results)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """`main`, then branches on it: `same`, `slow` (matmul 2 % slower) and `gone` (no softmax)."""
    folder = tmp_path_factory.mktemp("project")
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitignore").write_text(".perfgate/\ncomment.md\nsite/\n")
    (folder / "perfgate.toml").write_text('suite = "benchmarks"\n')
    for name, text in (("cli_broken_suite", "import nowhere"), ("cli_suite", SUITE)):
        (folder / name).mkdir()
        (folder / name / "kernels.py").write_text(text)
    (folder / "results.json").write_text('{"benchmarks": [')
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    store = connect(str(folder / ".perfgate/history.db"))
    store.add_run(stored_run(folder, 1, {"matmul": 100.0, "softmax": 7.0}))
    branches = {
        "same": {"matmul": 100.0, "softmax": 7.0},
        "slow": {"matmul": 102.0, "softmax": 7.0},
        "gone": {"matmul": 100.0},
    }
    for minute, (branch, latencies) in enumerate(branches.items(), start=2):
        git(folder, "checkout", "-qb", branch, "main")
        git(folder, "commit", "-q", "--allow-empty", "-m", branch)
        store.add_run(stored_run(folder, minute, latencies))
    store.close()
    git(folder, "checkout", "-q", "same")
    return folder


@pytest.fixture
def project(measured, monkeypatch):
    monkeypatch.chdir(measured)
    monkeypatch.delenv("PERFGATE_STORE", raising=False)
    return measured


def files_in(folder):
    """Every file's content, but not what SQLite keeps beside a database while readers share it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if not path.name.endswith(("-shm", "-wal"))}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_the_effect_first_and_ends_with_an_example(command, capsys):
    assert main([command, "--help"]) == 0

    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert len(lines[1]) <= 72
    assert lines[-1].startswith(f"Example: perfgate {command} ")


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in ("run", "import")])
def test_the_example_in_the_help_works(command, project, capsys):
    main([command, "--help"])
    example = capsys.readouterr().out.strip().splitlines()[-1].split()

    assert main(example[example.index(command) :]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("head", "code", "named"),
    [
        ("same", 0, "2 unchanged"),
        ("slow", 1, "kernels.matmul: latency_us"),
        ("gone", 3, "missing: kernels.softmax"),
    ],
)
def test_the_gate_decides_by_exit_code_and_names_the_case(head, code, named, project, capsys):
    assert main(["gate", "--base", "main", "--head", head]) == code

    assert named in capsys.readouterr().out


def test_an_unchanged_tree_passes_every_time(project, capsys):
    assert [main(["gate", "--base", "main"]) for _ in range(10)] == [0] * 10


def test_a_gate_without_a_baseline_never_passes(project, capsys):
    assert main(["gate", "--base", "unknown"]) == 3

    shown = capsys.readouterr().out
    assert "unknown" in shown
    assert "nothing was decided" in shown
    assert "2 no-baseline" in shown
    assert "kernels.matmul" not in shown


def test_the_gate_as_json_holds_exit_code_and_verdicts(project, capsys):
    code = main(["gate", "--base", "main", "--head", "slow", "--json"])

    data = json.loads(capsys.readouterr().out)
    verdicts = decode(GateResult, data["gate"]).verdicts
    assert data["exit_code"] == code == 1
    assert [v.case_id for v in verdicts if v.word == "regressed"] == ["kernels.matmul"]
    assert "merge base" in data["why_base"]


def test_the_gate_writes_markdown_beside_the_table(project, tmp_path):
    file = tmp_path / "new" / "comment.md"

    main(["gate", "--base", "main", "--head", "slow", "--markdown", str(file)])

    assert "🔴 regressed | <code>kernels.matmul</code>" in file.read_text(encoding="utf-8")


def test_compare_takes_run_ids_and_decides_nothing(project, capsys):
    assert main(["compare", "run1", "run3"]) == 0

    assert "+2.00 %" in capsys.readouterr().out


def test_history_finds_the_only_case_with_that_part(project, capsys):
    assert main(["history", "soft", "--limit", "2"]) == 0

    shown = capsys.readouterr().out
    assert shown.startswith("kernels.softmax\n")
    assert shown.count("7.000 µs  ") == 2


def test_history_finds_a_case_by_words_of_its_id(project, capsys):
    assert main(["history", "soft kernels"]) == 0
    assert capsys.readouterr().out.startswith("kernels.softmax\n")


def test_history_as_json_keeps_only_the_metric_asked_for(project, capsys):
    main(["history", "kernels.matmul", "--metric", "latency_us", "--json"])

    data = json.loads(capsys.readouterr().out)
    values = [point["result"]["samples"][0]["values"] for point in data["points"]]
    assert values == [[100.0], [100.0], [102.0], [100.0]]


def test_runs_lists_the_newest_first(project, capsys):
    main(["runs", "--limit", "2", "--json"])

    assert [run["run_id"] for run in json.loads(capsys.readouterr().out)["runs"]] == [
        "run4",
        "run3",
    ]


def test_the_report_compares_the_newest_run_with_the_one_before(project, tmp_path, capsys):
    assert main(["report", "--output", str(tmp_path)]) == 0

    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "Newest run against the run before" in page
    assert str(tmp_path / "index.html") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "named", "hint"),
    [
        ([], "missing command", "perfgate --help"),
        (["gate"], "--base", "perfgate gate --help"),
        (["compare", "main"], "'B'", "perfgate compare --help"),
        (["rum"], "rum", "perfgate --help"),
        (["run", "--timeout", "inf"], "--timeout", "perfgate run --help"),
        (["runs", "--limit", "9" * 30], "--limit", "perfgate runs --help"),
        (["run", "--jobs", "0"], "--jobs", "perfgate run --help"),
        (["run", "--jobz", "1"], "--jobz", "perfgate run --help"),
        (["run", "nowhere"], "nowhere", "perfgate run"),
        (["history", "kernels."], "kernels.matmul, kernels.softmax", "more of the id"),
        (["history", "kernels.matmil"], "matmil", "kernels.matmul"),
        (["history", "soft", "--metric", "speed"], "speed", "latency_us"),
        (["gate", "--base", "main", "--head", "nothing"], "nothing", "perfgate runs"),
        (["gate", "--base", "main", "--markdown", "/proc/x/y.md"], "/proc/x/y.md", "folder"),
        (["report", "--output", "/proc/x"], "/proc/x/index.html", "folder"),
        (["report", "--base", "unknown"], "unknown", "--base"),
        (["runs", "--store", "missing.db"], "missing.db", "perfgate run"),
        (["runs", "--store", "perfgate.toml"], "perfgate.toml", "--store"),
        (["run", "cli_suite", "--store", "."], "is a folder", "history.db"),
        (["run", "cli_suite", "--store", "perfgate.toml/x.db"], "is not a folder", "--store"),
        (["gate", "--base", ""], "empty", "variable"),
        (["run", "cli_suite", "--session="], "--session=", "variable"),
        (["gate", "--base", "main", "--markdown", "."], "is a folder", "file inside"),
        (["run", "cli_broken_suite"], "kernels.py", "import"),
        (["run", "cli_suite", "-k", "zzz"], "zzz", "kernels.host"),
        (["run", "cli_suite", "--resume"], "no interrupted run", "without --resume"),
        (["run", "cli_suite", "--store", UNWRITABLE], UNWRITABLE, "--store"),
        (["import", "pytest-benchmark", "results.json"], "results.json", "pytest"),
        (["import", "pytest-bench", "results.json"], "pytest-bench", "pytest-benchmark"),
        (["import", "pytest-benchmark"], "PATH", "perfgate import --help"),
    ],
)
def test_bad_input_is_one_error_line_and_one_hint_line(arguments, named, hint, project, capsys):
    before = files_in(project)

    assert main(arguments) == 2

    shown = capsys.readouterr()
    error_line, hint_line = shown.err.splitlines()
    assert error_line.startswith("error: ")
    assert named in error_line
    assert hint_line.startswith("hint: ")
    assert hint in hint_line
    assert shown.out == ""
    assert files_in(project) == before


def test_a_wrong_configuration_key_is_named(project, tmp_path, monkeypatch, capsys):
    (tmp_path / "perfgate.toml").write_text('stroe = "x.db"\n')
    monkeypatch.chdir(tmp_path)

    assert main(["runs"]) == 2
    assert "stroe" in capsys.readouterr().err


def test_a_store_from_a_newer_version_is_left_alone(project, tmp_path, capsys):
    path = tmp_path / "newer.db"
    connect(str(path)).close()
    with sqlite3.connect(path) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.close()
    before = path.read_bytes()

    for command in (["runs"], ["import", "pytest-benchmark", "x.json"], ["gate", "--base", "main"]):
        assert main([*command, "--store", str(path)]) == 2

    assert "newer" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_a_bug_does_not_look_like_a_regression(project, monkeypatch, capsys):
    monkeypatch.setattr("perfgate.commands.show.text.runs_blocks", lambda runs: 1 / 0)

    assert main(["runs"]) == 2

    error_line, hint_line = capsys.readouterr().err.splitlines()
    assert error_line == "error: internal error: ZeroDivisionError: division by zero"
    assert "--debug" in hint_line


def test_debug_shows_where_an_error_comes_from(project, capsys):
    assert main(["runs", "--store", "missing.db", "--debug"]) == 2

    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_has_its_own_exit_code(project, monkeypatch):
    def stop(runs):
        raise KeyboardInterrupt

    monkeypatch.setattr("perfgate.commands.show.text.runs_blocks", stop)

    assert main(["runs"]) == 130


def test_a_reader_that_leaves_early_is_no_regression(project):
    script = "import sys; from perfgate.cli import main; sys.exit(main(['runs']))"
    path = str(Path(cli.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {path!r}); {script}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()

    assert process.wait() == cli.BROKEN_PIPE
    assert process.stderr.read() == ""
    process.stderr.close()


def test_a_closed_output_is_no_error(project, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)

    assert main(["runs"]) == 0


def test_a_full_disk_under_the_output_is_told(project, monkeypatch, capsys):
    with contextlib.suppress(OSError), open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        code = main(["runs"])

    assert code == 2
    assert capsys.readouterr().err.startswith("error: the output: no space left on device\nhint: ")


def test_an_error_that_cannot_be_told_is_no_regression(project, monkeypatch):
    with contextlib.suppress(OSError), open("/dev/full", "w", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        code = main(["nosuch"])

    assert code == 2


def test_a_terminal_without_the_characters_gets_question_marks(project, monkeypatch):
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", output)

    assert main(["history", "soft"]) == 0
    assert b"???  7.000 ?s" in output.buffer.getvalue()


def test_help_loads_nothing_heavy():
    script = (
        "import sys; from perfgate.cli import main; main(['run', '--help']);"
        "print(sorted({'numpy', 'scipy', 'sqlalchemy', 'jinja2', 'rich'} & set(sys.modules)))"
    )
    path = str(Path(cli.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", script], cwd=path, capture_output=True, text=True)

    assert done.stdout.splitlines()[-1] == "[]"


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("perfgate 0.")


def test_stored_runs_are_what_the_commands_read(measured):
    store = connect(str(measured / ".perfgate/history.db"), create=False, read_only=True)

    newest = store.run("run4")

    assert newest.results == replace(stored_run(measured, 4, {"matmul": 100.0})).results
    store.close()


def test_progress_without_a_terminal_is_a_line_at_every_tenth(capsys):
    with watching() as watched:
        watched.total(40)
        for number in range(40):
            status = CaseStatus.FAILED if number == 5 else CaseStatus.OK
            watched.finished(CaseResult(f"case{number}", status))

    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == ["4 of 40 cases", "failed: case5", "8 of 40 cases"]
    assert len(lines) == 10 + 1


def test_progress_on_a_terminal_counts_and_names_failures(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")

    with watching() as watched:
        watched.total(2)
        watched.finished(CaseResult("good[m=1]"))
        watched.finished(CaseResult("bad[m=2]", CaseStatus.FAILED))

    assert "failed: bad[m=2]" in capsys.readouterr().err


def saved_results(folder):
    """A file as pytest-benchmark writes it, with what the importer needs."""
    stats = {"data": [0.010, 0.011, 0.012], "rounds": 3, "mean": 0.011, "stddev": 0.001}
    document = {
        "machine_info": {"node": "laptop", "cpu": {"count": 2}, "python_version": "3.11.9"},
        "commit_info": {"id": "a" * 40, "time": "2026-01-01T00:00:00+00:00", "dirty": False},
        "benchmarks": [{"name": "test_a", "fullname": "t.py::test_a", "stats": stats}],
        "datetime": "2026-01-01T00:00:00+00:00",
        "version": "5.1.0",
    }
    file = folder / "results.json"
    file.write_text(json.dumps(document))
    return str(file)


def test_an_import_keeps_the_run_once_and_says_so(project, tmp_path, capsys):
    command = [
        "import",
        "pytest-benchmark",
        saved_results(tmp_path),
        "--store",
        str(tmp_path / "s"),
    ]

    codes = [main(command), main(command)]
    said = capsys.readouterr().out.splitlines()
    main(["runs", "--json", "--store", str(tmp_path / "s")])

    assert codes == [0, 0]
    assert said[0] == said[1]
    assert said[0].endswith("1 case at aaaaaaaaaa")
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 1


def test_an_import_can_be_given_another_commit_and_a_session(project, tmp_path, capsys):
    file, store = saved_results(tmp_path), str(tmp_path / "s")

    for arguments in ([], ["--commit", "main", "--session", "job"]):
        assert main(["import", "pytest-benchmark", file, *arguments, "--store", store]) == 0
    capsys.readouterr()
    main(["runs", "--json", "--store", store])

    runs = json.loads(capsys.readouterr().out)["runs"]
    assert len({run["run_id"] for run in runs}) == 2
    assert [run["revision"]["commit"] for run in runs if run.get("session") == "job"] == [
        resolve(project, "main")
    ]


def test_an_import_outside_a_repository_takes_the_commit_as_a_label(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    code = main(["import", "pytest-benchmark", saved_results(tmp_path), "--commit", "v1", "--json"])

    assert code == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["run"]["revision"] == {"commit": "v1"}
