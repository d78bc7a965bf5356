"""A report: what is shown, and that text stays text."""

import pandas as pd
from lib.report.page import Page

NASTY, ESCAPED = "<b>*a|b*</b> [x](y) & `c`", r"\<b\>\*a\|b\*\</b\> \[x\](y) \& \`c\`"


def test_markdown(tmp_path):
    page = Page("Report", tmp_path)
    page.text(NASTY)
    rows = [["BERT", "1", "-"], [NASTY, "2.0 ± 0.1 (n=2 of 3)", "3"]]
    heads = pd.Index(["model", ("bits", "paper"), ("bits", "ours")], tupleize_cols=False)
    page.table(pd.DataFrame(rows, columns=heads))
    text = page.write().read_text(encoding="utf-8")
    table = "| model | bits: paper | bits: ours |\n| --- | ---: | ---: |\n| BERT | 1 | - |\n"
    assert text == f"# Report\n\n{ESCAPED}\n\n{table}| {ESCAPED} | 2.0 ± 0.1 (n=2 of 3) | 3 |\n"
