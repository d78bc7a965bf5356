"""The two forms of a report: what is shown, that text stays text, that the HTML needs nothing else."""

import html
import re

import pandas as pd
import pytest
from lib.report import figures
from lib.report.page import Page

NASTY = "<b>*a|b*</b> [x](y) & `c`"


def read(page: str) -> tuple[list[str], str]:
    """Tags and text of a page."""
    return re.findall(r"<(\w+)", page), html.unescape(re.sub("<[^>]*>", "", page))


@pytest.fixture
def written(tmp_path):
    page = Page("Report")
    page.items(["train.json is damaged", NASTY])
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


def test_html_needs_nothing_else_and_has_numbers_at_the_right(written):
    page, (tags, text) = written["html"], read(written["html"])
    assert 'name="viewport"' in page and "script" not in tags and "link" not in tags
    addresses = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert len(addresses) == 2 and all(one.startswith("data:image/png;base64,iVBOR") for one in addresses)
    assert "url(" not in page and "@import" not in page and "http" not in page
    assert text.count(NASTY) == 4 and "2.0 ± 0.1 (n=2 of 3)" in text
    right = ' style="text-align:right"'
    assert f"<th>model</th>\n<th{right}>bits: paper</th>\n<th{right}>bits: ours</th>" in page
    assert f"<td>BERT</td>\n<td{right}>1</td>\n<td{right}>-</td>" in page


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
    page.items([text])
    tags, found = read(page.html({}))
    assert found.count(text.strip()) == 2 and "\\" not in found
    assert [tag for tag in tags if tag in ("h1", "li", "ol", "s", "code")] == ["h1", "li"]
