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
    assert figure.group(2) == "1.000 us|2.000 us|3.000 us"


def test_the_link_to_a_case_does_not_depend_on_other_cases():
    def anchor(page):
        return re.search(r'class="case" id="([^"]*)"', page).group(1)

    assert anchor(render(site(1.0))) == anchor(render(site(1.0, 2.0)))
