"""The two forms of a report: what is shown, that text stays text, that the HTML needs nothing else."""

import re
from html.parser import HTMLParser

import pandas as pd
import pytest
from lib.report import figures
from lib.report.page import Page

NASTY = "<b>*a|b*</b> [x](y) & `c`"


class Reader(HTMLParser):
    """Text, tags and addresses of a page; fails where tags are not closed in order."""

    def __init__(self, page: str):
        super().__init__()
        self.open, self.seen, self.addresses, self.text = [], [], [], ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.addresses += [value for name, value in attrs if name in ("href", "src")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("meta", "img"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def written(tmp_path):
    page = Page("Report")
    page.list(["train.json is damaged", NASTY])
    page.heading(2, f"Table 1 {NASTY}")
    page.text(NASTY)
    rows = [["BERT", "1", "-"], [NASTY, "2.0 ± 0.1 (n=2 of 3)", "3"]]
    heads = pd.Index(["model", ("bits", "paper"), ("bits", "ours")], tupleize_cols=False)
    page.table(pd.DataFrame(rows, columns=heads))
    page.picture("one", figures.lines({}, "first", ""))
    page.picture("two", figures.lines({}, NASTY, ""))
    page.heading(3, "The end")
    assert page.write(tmp_path) == [tmp_path / "report.md", tmp_path / "report.html"]
    assert {path.name for path in tmp_path.iterdir()} == {"report.md", "report.html", "pictures"}
    assert (tmp_path / "pictures" / "two.png").read_bytes().startswith(b"\x89PNG")
    return {form: (tmp_path / f"report.{form}").read_text(encoding="utf-8") for form in ("md", "html")}


def test_html_is_whole_and_needs_nothing_else(written):
    page, read = written["html"], Reader(written["html"])
    assert 'name="viewport"' in page and "script" not in read.seen and "link" not in read.seen
    assert len(read.addresses) == 2
    assert all(one.startswith("data:image/png;base64,iVBOR") for one in read.addresses)
    assert "url(" not in page and "@import" not in page and "http" not in page
    assert read.text.count(NASTY) == 4 and "2.0 ± 0.1 (n=2 of 3)" in read.text


def test_numbers_of_a_table_are_at_the_right(written):
    table = written["html"].partition("<table>")[2].partition("</table>")[0]
    right = ' style="text-align:right"'
    assert f"<th>model</th>\n<th{right}>bits: paper</th>\n<th{right}>bits: ours</th>" in table
    assert f"<td>BERT</td>\n<td{right}>1</td>\n<td{right}>-</td>" in table


def test_markdown(written):
    text, escaped = written["md"], r"\<b\>\*a\|b\*\</b\> \[x\](y) \& \`c\`"
    remarks = f"# Report\n\n- train.json is damaged\n- {escaped}\n\n## Table 1 {escaped}\n\n{escaped}\n\n"
    assert text.startswith(remarks)
    table = "| model | bits: paper | bits: ours |\n| --- | ---: | ---: |\n| BERT | 1 | - |\n"
    assert f"{table}| {escaped} | 2.0 ± 0.1 (n=2 of 3) | 3 |\n" in text
    assert f"![first](pictures/one.png)\n\n![{escaped}](pictures/two.png)\n\n### The end\n" in text


@pytest.mark.parametrize("text", ["# one", "- one", "1. one", "+ one", "~~one~~", "a &lt; b", "  # one"])
def test_text_at_the_start_of_a_line_is_no_markup(text):
    page = Page("Report")
    page.text(text)
    page.list([text])
    read = Reader(page.html({}))
    assert read.text.count(text.strip()) == 2 and "\\" not in read.text
    assert [tag for tag in read.seen if tag in ("h1", "li", "ol", "s", "code")] == ["h1", "li"]


def test_the_terms_of_a_page_are_explained():
    page = Page("Report")
    page.table(pd.DataFrame([["3.1"]], columns=["joint bits per masked token"]))
    page.terms()
    assert re.findall(r"- \*\*(.*?)\*\*: \S", page.markdown()) == ["bits per masked token"]
