"""Hypothesis strategies for the records of `perfgate.model`."""

from __future__ import annotations

from hypothesis import strategies as st

from perfgate.model import (
    CaseResult,
    CaseStatus,
    Direction,
    Environment,
    Metric,
    MetricKind,
    ProfileNode,
    Revision,
    Run,
    Sample,
    Span,
    Summary,
)

words = st.text(max_size=6)
names = st.text(min_size=1, max_size=6)
numbers = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 2**62)
times = st.datetimes(timezones=st.just(None) | st.timezones()).map(lambda time: time.isoformat())

metrics = st.builds(
    Metric,
    names,
    words,
    st.sampled_from(Direction),
    st.sampled_from(MetricKind),
    st.none() | numbers,
    words,
)
summaries = st.builds(
    Summary,
    counts,
    numbers,
    st.sampled_from(["mean", "median", "min"]),
    st.none() | numbers,
    st.none() | numbers,
    st.none() | numbers,
)
samples = st.builds(
    Sample,
    metrics,
    st.lists(numbers, min_size=1, max_size=4).map(tuple),
    one_process=st.booleans(),
    taken=counts,
) | st.builds(Sample, metrics, summary=summaries)

attributes = st.tuples(words, words | st.integers(-(2**53), 2**53) | numbers | st.booleans())
leaves = st.builds(
    ProfileNode,
    words,
    counts,
    st.lists(st.tuples(words, counts), max_size=2).map(tuple),
    st.lists(attributes, max_size=2).map(tuple),
)
profiles = st.recursive(
    leaves,
    lambda inner: st.builds(
        ProfileNode, words, counts, children=st.lists(inner, max_size=2).map(tuple)
    ),
    max_leaves=4,
)
results = st.builds(
    CaseResult,
    names,
    st.sampled_from(CaseStatus),
    st.lists(samples, max_size=3).map(tuple),
    st.none() | profiles,
    st.lists(st.builds(Span, words, words, counts, counts), max_size=2).map(tuple),
    words,
    st.lists(words, max_size=2).map(tuple),
    numbers,
    words,
    st.booleans(),
)
revisions = st.builds(Revision, words, words, words, words, words, words)
environments = st.builds(
    Environment,
    words,
    words,
    counts,
    counts,
    words,
    words,
    words,
    st.lists(st.tuples(words, words), max_size=2).map(tuple),
)


def runs(*, finished: bool = False) -> st.SearchStrategy[Run]:
    """Runs whose cases are all different; `finished` keeps to those that a store takes whole."""
    return st.builds(
        Run,
        names,
        revisions,
        environments,
        times,
        times if finished else st.just("") | times,
        words,
        words,
        st.lists(results, max_size=3, unique_by=lambda result: result.case_id).map(tuple),
        st.lists(words, max_size=2).map(tuple),
    )
