"""One case in this process: numbers in, `CaseResult` out, whatever the benchmark does."""

from __future__ import annotations

import pytest

from perfgate.model import CaseResult, CaseStatus, Metric, ProfileNode, Sample, Span
from perfgate.suite.execute import MESSAGE_LIMIT, digest_of, failed, pooled, run_case


def run_one(make_cases, body: str, decorator: str = "metrics=[CYCLES]"):
    (case,) = make_cases(f"@perfgate.benchmark({decorator})\ndef one():\n    {body}\n")
    return run_case(case)


def test_an_exact_benchmark_gives_one_value_a_metric(make_cases):
    result = run_one(make_cases, "return {'cycles': 7}")

    assert (result.case_id, result.status, result.message) == ("b.one", CaseStatus.OK, "")
    assert result.sample("cycles").values == (7.0,)


def test_parameters_reach_the_function(make_cases):
    cases = make_cases(
        "@perfgate.benchmark(metrics=[CYCLES], params={'n': [2, 3]})\n"
        "def one(n):\n    return {'cycles': n * n}\n"
    )

    assert [run_case(case).samples[0].values for case in cases] == [(4.0,), (9.0,)]


def test_profile_and_timeline_are_kept(make_cases):
    result = run_one(
        make_cases,
        "return Measurement({'cycles': 1}, ProfileNode('p', 5), (perfgate.Span('e', 'x', 0, 1),))",
    )

    assert result.profile == ProfileNode("p", 5)
    assert result.timeline == (Span("e", "x", 0, 1),)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise ValueError('no chip')", "ValueError: no chip (b.py:7)"),
        ("raise ValueError", "ValueError (b.py:7)"),
        ("sys.exit('bye')", "SystemExit: bye (b.py:7)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt (b.py:7)"),
        ("return 3", "TypeError: the benchmark returned int, needs a mapping or a Measurement"),
        ("return {}", "the metrics returned are not the declared ones: lacks cycles"),
        ("return {'cycles': 1, 'x': 2}", "not the declared ones: has undeclared x"),
        ("return {'cycles': float('nan')}", "metric cycles is nan, needs a finite number"),
        ("return {'cycles': '7'}", "TypeError: metric cycles is str '7', needs a number"),
        ("return {'cycles': True}", "TypeError: metric cycles is bool True, needs a number"),
        ("return {'cycles': 10**400}", "OverflowError: int too large to convert to float"),
    ],
)
def test_failure_says_what_and_where_on_its_first_line(make_cases, body, message):
    result = run_one(make_cases, body)

    assert result.status is CaseStatus.FAILED
    assert message in result.message.splitlines()[0]
    assert result.samples == ()


def test_the_traceback_shows_the_benchmark_and_not_the_runner(make_cases):
    message = run_one(make_cases, "return 1 / 0").message

    assert "in one" in message
    assert "execute.py" not in message


def test_a_sampled_benchmark_without_metrics_is_timed(make_cases):
    rounds = "sampled=True, rounds=Rounds(3, 3, min_round_s=0, warm_up=0)"
    (seconds,) = run_one(make_cases, "return None", rounds).sample("time_s").values

    assert 0 < seconds < 1


def test_a_returned_callable_is_what_is_measured(make_cases):
    """The set-up runs once: it would count to more than one otherwise."""
    (case,) = make_cases(
        "calls = []\n"
        "@perfgate.benchmark(sampled=True, metrics=[Metric('n', '1')],"
        " rounds=Rounds(2, 2, processes=1))\n"
        "def one():\n    calls.append(1)\n    return lambda: {'n': len(calls)}\n"
    )

    assert run_case(case).sample("n").values == (1.0,)


def test_a_process_gives_the_median_of_its_share_of_the_rounds(make_cases):
    (case,) = make_cases(
        "import itertools\ncount = itertools.count()\n"
        "@perfgate.benchmark(sampled=True, metrics=[Metric('a_s', 's'), Metric('b_s', 's')],"
        " rounds=Rounds(6, 6, warm_up=0, processes=2))\n"
        "def one():\n    n = next(count)\n    return {'b_s': -n, 'a_s': n}\n"
    )

    # The first call may have been a set-up, so it is not among the recorded ones.
    assert [sample.values for sample in run_case(case).samples] == [(2.0,), (-2.0,)]


def test_the_processes_of_a_case_are_one_result():
    metrics = [Metric("a_s", "s"), Metric("b_s", "s")]
    parts = [
        CaseResult("x", samples=tuple(Sample(m, (value,)) for m in metrics), duration_s=0.5)
        for value in (3.0, 1.0)
    ]

    result = pooled(parts)

    assert [sample.values for sample in result.samples] == [(3.0, 1.0)] * 2
    assert result.duration_s == 1.0


DIGESTED = "metrics=[CYCLES], digest=lambda: 'inputs'"


def test_a_known_digest_answers_without_running(make_cases):
    asked = []
    (case,) = make_cases(f"@perfgate.benchmark({DIGESTED})\ndef one():\n    raise ValueError\n")

    assert run_case(case, lambda digest: not asked.append(digest)) is None
    assert asked == [digest_of(case)]


def test_an_unknown_digest_is_stored_with_the_result(make_cases):
    (case,) = make_cases(
        f"@perfgate.benchmark({DIGESTED})\ndef one():\n    return {{'cycles': 1}}\n"
    )

    assert run_case(case).digest == digest_of(case) != ""


def test_no_digest_is_never_asked_about(make_cases):
    (case,) = make_cases(
        "@perfgate.benchmark(metrics=[CYCLES], digest=lambda: '')\ndef one():\n"
        "    return {'cycles': 1}\n"
    )

    result = run_case(case, lambda digest: pytest.fail("asked"))

    assert result.digest == ""


@pytest.mark.parametrize(
    "other",
    [
        "@perfgate.benchmark(metrics=[CYCLES], digest=lambda: 'other')\ndef one(): ...\n",
        "@perfgate.benchmark(metrics=[CYCLES], digest=lambda: 'inputs')\ndef one(): pass\n",
        "@perfgate.benchmark(metrics=[Metric('c', '1', kind=MetricKind.EXACT)],"
        " digest=lambda: 'inputs')\ndef one(): ...\n",
    ],
)
def test_the_digest_changes_with_inputs_function_and_metrics(make_cases, other):
    base = "@perfgate.benchmark(metrics=[CYCLES], digest=lambda: 'inputs')\ndef one(): ...\n"
    (first,), (same,), (different,) = make_cases(base), make_cases(base), make_cases(other)

    assert digest_of(first) == digest_of(same)
    assert digest_of(first) != digest_of(different)


@pytest.mark.parametrize(
    ("digest", "message"),
    [("lambda: 1 / 0", "ZeroDivisionError"), ("lambda: 3", "digest returned int, needs str")],
)
def test_a_digest_that_fails_fails_the_case(make_cases, digest, message):
    result = run_one(make_cases, "return {'cycles': 1}", f"metrics=[CYCLES], digest={digest}")

    assert result.status is CaseStatus.FAILED
    assert message in result.message


def test_a_long_message_keeps_its_beginning_and_its_end():
    message = failed("x", "begin" + "x" * 100_000 + "end").message

    assert message.startswith("begin")
    assert message.endswith("end")
    assert len(message) < MESSAGE_LIMIT + 100


def test_control_characters_leave_the_message():
    assert failed("x", "a\x00b\x1b[31m\n\tc").message == "a?b?[31m\n\tc"


def test_numpy_numbers_are_numbers(make_cases):
    (case,) = make_cases(
        "import numpy\n@perfgate.benchmark(metrics=[CYCLES])\n"
        "def one():\n    return {'cycles': numpy.float32(0.5)}\n"
    )

    assert run_case(case).samples == (Sample(case.benchmark.metrics[0], (0.5,)),)


COUNTING = (
    "import itertools\ncount = itertools.count(1)\n"
    "@perfgate.benchmark(metrics=[CYCLES]{digest})\n"
    "def one():\n    return {{'cycles': next(count)}}\n"
)


@pytest.mark.parametrize(
    ("digest", "verify", "calls"),
    [("", False, 2), (", digest=lambda: 'inputs'", False, 1), (", digest=lambda: 'x'", True, 2)],
)
def test_a_quick_exact_case_is_called_twice_to_see_that_it_is_exact(
    digest, verify, calls, make_cases
):
    (case,) = make_cases(COUNTING.format(digest=digest))

    values = run_case(case, verify=verify).sample("cycles").values
    assert values == (1.0, 2.0)[:calls]


def test_a_slow_exact_case_is_called_once(make_cases, monkeypatch):
    monkeypatch.setattr("perfgate.suite.execute.CHECKED_BELOW_S", 0.0)
    (case,) = make_cases(COUNTING.format(digest=""))

    assert run_case(case).sample("cycles").values == (1.0,)


def test_an_exact_case_that_repeats_its_number_has_one_value(make_cases):
    (case,) = make_cases(
        "@perfgate.benchmark(metrics=[CYCLES])\ndef one():\n    return {'cycles': 7}\n"
    )

    assert run_case(case, verify=True).sample("cycles").values == (7.0,)


def test_a_failure_of_the_second_call_is_told_as_such(make_cases):
    (case,) = make_cases(COUNTING.format(digest="").replace("next(count)", "[0][next(count) - 1]"))

    lines = run_case(case).message.splitlines()

    assert lines[0].startswith("RuntimeError: the second call, which checks")
    assert "IndexError: list index out of range (b.py:" in lines[0]
