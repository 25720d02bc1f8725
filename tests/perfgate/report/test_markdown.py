import dataclasses
import re

from hypothesis import given
from hypothesis import strategies as st

from perfgate.model import Word
from perfgate.report.markdown import MAX_CHARACTERS, code, escape, gate_markdown
from perfgate.report.view import view_gate
from tests.perfgate.report import samples


def test_the_comment_of_a_comparison(golden):
    golden("gate.md", gate_markdown(view_gate(samples.gate_result()), more="All in the report."))


@given(st.text(alphabet="ab|`<>@#\n\r&*_[]()~\\!{}$:/ "))
def test_foreign_text_can_neither_open_markup_nor_mention_anybody(text):
    shown = escape(text)

    assert not re.search(r"[<>|`*\[\]\n\r\\@]", shown)
    assert not re.search(r"#[a-z]", shown)
    assert "://" not in shown


@given(st.text())
def test_a_name_in_code_type_stays_inside_it(name):
    shown = code(name)

    assert shown == "" or re.fullmatch(r"<code>[^<>|`\n@]*</code>", shown)


def test_links_and_mentions_are_broken_without_changing_how_they_look():
    assert escape("see @octocat, #12, https://x.org") == (
        "see &#64;\u200boctocat, #\u200b12, https:\u200b//x.org"
    )


def test_a_comment_never_grows_past_what_github_takes():
    result = samples.gate_result()
    many = tuple(
        samples.verdict(f"kernels.case{i}[{'x' * 80}]", word, reason="because " * 20)
        for i in range(400)
        for word in (Word.REGRESSED, Word.IMPROVED, Word.UNCHANGED)
    )
    huge = dataclasses.replace(result, verdicts=many)

    shown = gate_markdown(view_gate(huge))

    assert len(shown) <= MAX_CHARACTERS
    assert shown.count("🔴") > 100
    assert re.search(r"… and \d+ more cases that did not fit here", shown)
    assert "400 more cases that did not fit" in shown
    assert shown.count("<details>") == shown.count("</details>")


def test_a_long_reason_alone_does_not_break_the_cap():
    verdicts = (samples.verdict("a", Word.FAILED, reason="x" * 100_000),)
    huge = dataclasses.replace(samples.gate_result(), verdicts=verdicts, warnings=("w" * 90_000,))

    assert len(gate_markdown(view_gate(huge))) <= MAX_CHARACTERS
