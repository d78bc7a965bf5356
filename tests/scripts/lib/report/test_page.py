"""A report: what is shown, and that text stays text."""

import pandas as pd
from lib.report import figures
from lib.report.page import Page

NASTY = "<b>*a|b*</b> [x](y) & `c`"
NO_POINTS = pd.DataFrame(columns=["label", "x", "y"])


def test_markdown(tmp_path):
    page = Page("Report", tmp_path)
    page.items(["train.json is damaged", NASTY])
    page.heading(2, f"Table 1 {NASTY}")
    page.text(NASTY)
    rows = [["BERT", "1", "-"], [NASTY, "2.0 ± 0.1 (n=2 of 3)", "3"]]
    heads = pd.Index(["model", ("bits", "paper"), ("bits", "ours")], tupleize_cols=False)
    page.table(pd.DataFrame(rows, columns=heads))
    page.picture("one", figures.lines(NO_POINTS, NASTY, ""))
    text = page.write().read_text(encoding="utf-8")
    assert (tmp_path / "pictures" / "one.png").read_bytes().startswith(b"\x89PNG")
    escaped = r"\<b\>\*a\|b\*\</b\> \[x\](y) \& \`c\`"
    remarks = f"# Report\n\n- train.json is damaged\n- {escaped}\n\n## Table 1 {escaped}\n\n{escaped}\n\n"
    assert text.startswith(remarks)
    table = "| model | bits: paper | bits: ours |\n| --- | ---: | ---: |\n| BERT | 1 | - |\n"
    assert f"{table}| {escaped} | 2.0 ± 0.1 (n=2 of 3) | 3 |\n" in text
    assert f"![{escaped}](pictures/one.png)\n" in text
