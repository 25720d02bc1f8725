import dataclasses
import json
import re
from html.parser import HTMLParser

from perfgate.model import CaseResult, CaseStatus
from perfgate.report.html import Site, render
from perfgate.report.view import view_gate
from perfgate.store import HistoryPoint
from tests.perfgate.report import samples

VOID = {"meta", "input", "br", "link"}


class Outline(HTMLParser):
    """Checks that tags close in order, and collects attributes and text."""

    def __init__(self):
        super().__init__()
        self.open, self.attributes, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def outline(page):
    parsed = Outline()
    parsed.feed(page)
    assert parsed.open == []
    return parsed


def site(*values, case_id="kernels.matmul", gate=None):
    history = samples.history(values, case_id)
    runs = tuple(reversed([point.run for point in history]))
    return Site(
        "demo", runs, {case_id: history} if history else {}, gate, "Newest run" if gate else ""
    )


def test_a_page_with_everything(golden):
    golden("index.html", render(site(10.0, 10.2, 9.0, gate=view_gate(samples.gate_result()))))


def test_an_empty_store_is_a_page_that_says_how_to_begin():
    page = outline(render(site()))

    assert "Nothing measured yet" in page.text


def test_one_run_is_a_chart_with_one_point():
    page = render(site(10.0))

    outline(page)
    assert len(re.findall(r'class="dots g0" d="M[\d. ]+h0"', page)) == 2


def test_a_failed_case_shows_its_message_and_no_chart():
    run = samples.run(1)
    broken = CaseResult("kernels.broken", CaseStatus.FAILED, message="ValueError: <no>")

    page = render(Site("demo", (run,), {"kernels.broken": [HistoryPoint(run, broken)]}))

    outline(page)
    assert "ValueError: &lt;no&gt;" in page
    assert '<svg class="trend"' not in page


def test_a_case_that_the_newest_run_does_not_have_says_when_it_was_measured():
    history = samples.history((1.0, 2.0))

    page = render(Site("demo", (history[1].run, history[0].run), {"gone": history[:1]}))

    assert "last at c010000000" in page


def test_nothing_is_loaded_from_anywhere():
    page = outline(render(site(1.0, 2.0, gate=view_gate(samples.gate_result()))))

    assert not [a for a in page.attributes if a[1] in ("src", "srcset", "action")]
    assert all(value.startswith("#") for _, name, value in page.attributes if name == "href")
    assert ("meta", "http-equiv", "Content-Security-Policy") in page.attributes


def test_foreign_names_are_text_everywhere():
    page = render(site(1.0, 2.0, case_id=samples.HOSTILE, gate=view_gate(samples.gate_result())))

    outline(page)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_run_table_cannot_close_its_script():
    history = samples.history((1.0,))
    revision = type(history[0].run.revision)("c1", subject="</script><b>&")
    run = samples.run(1, revision=revision)

    page = render(Site("demo", (run,), {"k": [HistoryPoint(run, history[0].result)]}))

    table = re.search(r'id="run-table">(.*?)</script>', page)
    assert json.loads(table.group(1))[0][1] == "</script><b>&"


def test_hovering_finds_the_right_run():
    page = render(site(1.0, 2.0, 3.0))

    table = json.loads(re.search(r'id="run-table">(.*?)</script>', page).group(1))
    figure = re.search(
        r'<figure data-metric="latency_us" data-runs="([^"]*)" data-texts="([^"]*)"', page
    )
    places = [int(place) for place in figure.group(1).split()]
    assert [table[place][0].split()[0] for place in places] == [
        "c010000000",
        "c020000000",
        "c030000000",
    ]
    assert figure.group(2) == "1.000 µs|2.000 µs|3.000 µs"


def test_the_link_to_a_case_does_not_depend_on_other_cases():
    def anchor(page):
        return re.search(r'class="case" id="([^"]*)"', page).group(1)

    assert anchor(render(site(1.0))) == anchor(render(site(1.0, 2.0)))


def both_chips(*values):
    """Two cases of one benchmark over as many runs, all of one commit, the last one dirty."""
    clean = samples.run(1).revision
    runs = [
        samples.run(
            number,
            revision=clean if number < len(values) else dataclasses.replace(clean, dirty="d1"),
        )
        for number in range(1, len(values) + 1)
    ]
    histories = {
        f"k.norm[chip={chip},rows=8]": [
            HistoryPoint(run, samples.exact(f"k.norm[chip={chip},rows=8]", value, 0.0))
            for run, value in zip(runs, values, strict=True)
        ]
        for chip in ("a", "b")
    }
    return Site("demo", tuple(reversed(runs)), histories)


def test_cases_stand_under_their_benchmark_with_what_differs():
    page = outline(render(both_chips(1.0, 2.0)))

    assert "k.norm rows=8" in " ".join(page.text.split())
    assert page.text.count("k.norm[chip=a,rows=8]") == 1


def test_a_dirty_run_is_hollow_and_runs_of_one_commit_differ():
    page = render(both_chips(1.0, 2.0, 3.0))

    labels = re.findall(r'<text class="x[^>]*>([^<]*)<tspan[^>]*>([^<]*)<', page)[:3]
    assert labels == [
        ("c010000+dirty", "2026-01-03"),
        ("c010000", "2026-01-02"),
        ("c010000", "2026-01-01"),
    ]
    assert re.search(r'<path class="hollow" d="M[\d.]+ [\d.]+h0"/>', page)
    assert "A hollow point is a run of a tree with uncommitted changes" in page
    assert "hollow point" not in render(site(1.0, 2.0))


def test_runs_of_one_commit_on_one_day_are_told_apart_by_the_minute():
    times = ("2026-01-01T09:30:00+00:00", "2026-01-01T11:45:00+00:00")
    runs = [samples.run(1, run_id=f"r{i}", started_at=time) for i, time in enumerate(times)]
    points = [HistoryPoint(run, samples.exact("k", 1.0)) for run in runs]

    page = render(Site("demo", tuple(reversed(runs)), {"k": points}))

    assert ">2026-01-01 09:30</tspan>" in page
    assert ">2026-01-01 11:45</tspan>" in page
    table = json.loads(re.search(r'id="run-table">(.*?)</script>', page).group(1))
    assert [lines[-1] for lines in table] == [
        "run r1, started 2026-01-01 11:45",
        "run r0, started 2026-01-01 09:30",
    ]


def test_a_metric_that_was_always_zero_has_no_chart():
    page = outline(render(both_chips(1.0, 2.0)))

    assert page.text.count("0 B in all 2 runs") == 2
    assert sum(attribute == ("svg", "class", "trend") for attribute in page.attributes) == 2


def test_the_comparison_links_to_the_sections_of_its_cases():
    matmul = "kernels.matmul[chip=trn2]"
    page = render(site(1.0, 2.0, case_id=matmul, gate=view_gate(samples.gate_result())))

    comparison = page[page.index('id="comparison"') : page.index('id="overview"')]
    anchor = re.search(r'class="case" id="([^"]*)"', page).group(1)
    assert re.findall(r'href="#(case-[^"]*)"', comparison) == [anchor]


def test_small_screens_have_no_wide_table():
    page = render(site(1.0, 2.0, gate=view_gate(samples.gate_result())))

    tables = re.findall(r"<table[^>]*>", page)
    assert tables
    assert all('class="stack"' in table for table in tables)
