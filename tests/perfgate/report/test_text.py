import re

import pytest

from perfgate.model import CaseResult, CaseStatus, Decision, GateResult, Word
from perfgate.report import text
from perfgate.report.view import point_dates, view_gate, view_history, view_run
from tests.perfgate.report import samples


def test_the_table_of_a_run(golden):
    golden("run.txt", text.plain(text.run_blocks(view_run(samples.suite_run()))))


def test_the_table_of_a_comparison(golden):
    golden("gate.txt", text.plain(text.gate_blocks(view_gate(samples.gate_result()))))


def test_a_reason_that_cases_share_is_said_once():
    rows = [samples.verdict(name, Word.NO_BASELINE, reason="nothing there") for name in "abc"]
    result = GateResult(None, samples.run(1), tuple(rows))

    shown = text.plain(text.gate_blocks(view_gate(result, "none of 3 commits was measured")))

    assert shown.count("nothing there") == 1
    assert "no-baseline: 3 cases: nothing there" in shown
    assert "base  no run\n      none of 3 commits was measured\n" in shown


def test_the_table_of_a_history(golden):
    series = view_history(samples.history((10.0, 10.0, 10.2, 9.0, 9.0)))

    golden("history.txt", text.plain(text.history_blocks("kernels.matmul", series, limit=3)))


def test_the_list_of_runs(golden):
    listed = (samples.run(2, finished_at=""), samples.run(1, session="job 7"))

    golden("runs.txt", text.plain(text.runs_blocks(listed)))


def test_an_empty_store_says_how_to_begin():
    assert "perfgate run" in text.plain(text.runs_blocks(()))


def test_a_run_without_cases_has_no_table():
    assert text.plain(text.run_blocks(view_run(samples.run(1)))) == "no cases\n"


def test_rare_metrics_are_counted_instead_of_shown():
    many = samples.exact("a", 1.0)
    extra = tuple(
        type(many.samples[0])(type(samples.LATENCY)(f"m{i}", "1"), (1.0,)) for i in range(4)
    )
    run = samples.run(1, (type(many)("a", samples=many.samples + extra), samples.exact("b", 2.0)))

    shown = text.plain(text.run_blocks(view_run(run)))

    assert "2 more metrics in the report" in shown
    assert "hbm_bytes" in shown


def chips_run():
    """Two benchmarks with parameters, one of them with a case that failed."""
    broken = CaseResult("k.sum[chip=b,rows=8]", CaseStatus.FAILED, message="ValueError: no")
    return samples.run(
        1,
        (
            samples.exact("k.sum[chip=a,rows=8]", 1234.5),
            broken,
            samples.exact("k.norm[chip=a,dtype=f,rows=8]", 10.0),
            samples.exact("k.norm[chip=b,dtype=f,rows=4096]", 20.0, 3e6),
        ),
    )


def test_a_row_has_only_the_parameters_that_differ(golden):
    golden("run-groups.txt", text.plain(text.run_blocks(view_run(chips_run()))))


def test_a_comparison_is_grouped_like_a_run(golden):
    first, second = "k.norm[chip=a,rows=8]", "k.norm[chip=b,rows=8]"
    verdicts = (
        samples.verdict(first, Word.REGRESSED, samples.comparison(first, 2.5, Decision.REGRESSED)),
        samples.verdict(second, Word.MISSING, reason="measured in the base, not in the head"),
    )
    result = GateResult(samples.run(1), samples.run(2), verdicts)

    golden("gate-groups.txt", text.plain(text.gate_blocks(view_gate(result))))


@pytest.mark.parametrize("columns", [70, 80, 120])
def test_no_line_of_a_table_is_wider_than_the_terminal(monkeypatch, capsys, columns):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))
    blocks = [
        *text.run_blocks(view_run(chips_run())),
        *text.gate_blocks(view_gate(samples.gate_result())),
        *text.runs_blocks((samples.run(2, run_id="20260101T000000000-abcdef"),)),
        *text.history_blocks("k", view_history(samples.history((1.0, 2.0))), limit=3),
    ]

    text.show(blocks)

    shown = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert max(map(len, shown.splitlines())) <= columns
    assert "no room for interval" in shown


def test_runs_of_one_commit_have_the_time_they_were_started():
    runs = [samples.run(1), samples.run(1, started_at="2026-01-05T10:00:00+00:00")]

    assert point_dates(runs) == ("2026-01-01 09:30", "2026-01-05 10:00")
    assert point_dates(runs[:1]) == ("2026-01-01 08:00",)


def test_control_characters_in_a_name_cannot_move_the_cursor():
    assert text.one_line("a\x1b[31m\nb\x9b") == "a [31m b "


def test_a_terminal_gets_the_same_words(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    text.show(text.gate_blocks(view_gate(samples.gate_result())))

    shown = capsys.readouterr().out
    assert "kernels.matmul[chip=trn2]" in shown
    assert "+2.00 %" in shown
    assert "1 regressed" in shown
