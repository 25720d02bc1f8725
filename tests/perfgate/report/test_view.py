from perfgate.model import Decision, Word
from perfgate.report.view import (
    ATTENTION,
    WORD_ORDER,
    centre,
    environment_label,
    natural,
    view_gate,
    view_history,
    view_run,
)
from tests.perfgate.report import samples


def test_numbers_in_ids_sort_as_numbers():
    ids = ["a[m=512]", "a[m=64]", "a[m=64,n=2]", "a", "b1"]

    assert sorted(ids, key=natural) == ["a", "a[m=64,n=2]", "a[m=64]", "a[m=512]", "b1"]


def test_every_verdict_word_has_a_place():
    assert set(WORD_ORDER) == set(Word)
    assert Word.UNCHANGED not in ATTENTION


def test_regressions_come_first_and_unchanged_cases_last():
    view = view_gate(samples.gate_result())

    assert [row.word for row in view.attention] == [Word.REGRESSED, Word.MISSING, Word.INCONCLUSIVE]
    assert [row.case_id for row in view.notable] == ["kernels.fast", "kernels.pool"]
    assert [row.case_id for row in view.quiet] == ["kernels.norm"]
    assert view.headline == "1 regressed, 1 missing, 1 inconclusive, 1 improved, 2 unchanged"


def test_the_metric_that_gates_leads_even_if_another_changed_more():
    regressed = view_gate(samples.gate_result()).attention[0]

    assert [(line.metric, line.gates) for line in regressed.lines] == [
        ("latency_us", True),
        ("hbm_bytes", False),
    ]


def test_an_exact_metric_that_does_not_gate_is_still_shown_when_it_changed():
    pool = view_gate(samples.gate_result()).notable[1]

    assert [(line.metric, line.change) for line in pool.lines] == [
        ("latency_us", "0 %"),
        ("hbm_bytes", "+0.002 %"),
    ]


def test_an_improvement_of_a_case_shows_only_what_moved():
    still = samples.comparison("c", 1.0, Decision.UNCHANGED, samples.BYTES, gates=False)
    moved = samples.comparison("c", 0.5, Decision.IMPROVED)
    result = samples.gate_result()
    verdicts = (samples.verdict("c", Word.IMPROVED, still, moved),)

    view = view_gate(type(result)(result.base, result.head, verdicts))

    assert [line.change for line in view.notable[0].lines] == ["-50.0 %"]


def test_a_gate_without_data_says_so_and_why():
    result = samples.gate_result()

    view = view_gate(type(result)(None, result.head, ()), "nothing was measured")

    assert view.headline == "no cases were compared"
    assert (view.base, view.why_base) == ("no run", "nothing was measured")


def test_failed_cases_lead_the_table_of_a_run():
    view = view_run(samples.suite_run())

    assert [row.case_id for row in view.rows][:2] == ["kernels.broken", "kernels.stuck"]
    assert view.headline == "5 cases: 3 ok, 1 failed, 1 timed-out"


def test_a_series_is_oldest_first_with_the_middle_of_each_run():
    latency, time_s = view_history(samples.history((10.0, 12.0)))

    assert [point.value for point in latency.points] == [10.0, 12.0]
    assert time_s.points[0].value == 0.01
    assert time_s.points[0].low < 0.01 < time_s.points[0].high


def test_the_centre_of_raw_values_is_their_median():
    sample = samples.suite_run().results[2].samples[0]

    assert centre(sample) == 0.011


def test_environments_are_told_apart_by_what_a_person_knows():
    assert environment_label(samples.SERVER) == "another cpu, 64 cores"
    assert environment_label(type(samples.SERVER)()) == "unknown environment"
