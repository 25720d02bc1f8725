"""Lines over pipes."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate.codec import encode
from perfgate.model import CaseResult, CaseStatus, ProfileNode
from perfgate.suite.wire import Event, EventKind, LineReader, event_of, to_line, write_all
from tests.perfgate.records import results


@given(
    st.lists(st.binary(max_size=9).map(lambda line: line.replace(b"\n", b""))), st.integers(1, 7)
)
def test_lines_come_out_whole_however_they_were_cut(lines, step):
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    reader, found = LineReader(read_fd), []
    data = b"".join(line + b"\n" for line in lines)

    for start in range(0, len(data), step):
        write_all(write_fd, data[start : start + step])
        found += reader.read()
    os.close(write_fd)

    assert found == lines
    assert reader.read() == []
    assert reader.ended
    os.close(read_fd)


def test_a_cut_off_line_says_nothing():
    read_fd, write_fd = os.pipe()
    write_all(write_fd, b'whole\n{"case_id": "half')
    os.close(write_fd)
    reader = LineReader(read_fd)

    assert [*reader.read(), *reader.read()] == [b"whole"]
    os.close(read_fd)


@settings(max_examples=40)
@given(results)
def test_an_event_comes_back_as_it_was(result):
    event = Event(EventKind.FINISHED, result.case_id, pid=3, result=result)

    assert event_of(to_line(event)) == event


def test_lone_surrogates_become_question_marks():
    assert to_line({"text": "a\udc80b"}) == b'{"text":"a?b"}\n'


def test_a_result_that_does_not_fit_the_schema_fails_its_case():
    profile = ProfileNode("p", counts=(("bytes", 1.5),))  # type: ignore[arg-type]
    data = {"kind": "finished", "case_id": "x", "result": encode(CaseResult("x", profile=profile))}

    event = event_of(to_line(data))

    assert event.result is not None
    assert event.result.status is CaseStatus.FAILED
    assert "counts[0][1]: expected an integer, got 1.5" in event.result.message


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_has_no_line(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_line({"x": value})
