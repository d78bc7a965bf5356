"""The quickstart's report: the table and the picture."""

import pandas as pd
from lib.report import quickstart as report

from tests.scripts.lib.report.conftest import write


def test_table_and_picture(tmp_path):
    for name, rmse in (("pretrained", 0.5), ("scratch", 0.75)):
        write(tmp_path / "finetune" / name / "result.json", {"metrics": {"test": {"rmse": rmse}}})
    bits = {"MLM": (7.25, 6.75), "ExLM (paper)": (7.5, 6.25), "ExLM on a lattice": (7, 6)}
    columns = ["model", "updates", "tokens", "jointly", "one by one", "gain"]
    found = []
    for model, two in bits.items():
        found += [(model, 100 * i, 4321, b, 9.5, 0.25) for i, b in enumerate(two, 1)]
    measured = pd.DataFrame(found, columns=columns).sort_values("updates", kind="stable")
    rows = "\n".join(report.table(tmp_path, measured)).splitlines()

    def cells(title: str) -> list[str]:
        [row] = [row for row in rows if row.startswith(title)]
        return row.removeprefix(title).split()

    assert cells("ExLM (paper)") == ["6.25", "9.50", "0.25"] and cells("MLM")[0] == "6.75"
    assert cells("pre-trained ExLM") == ["0.500"] and cells("the same model from scratch") == ["0.750"]
    assert "All predict the same 4,321 tokens." in " ".join(rows)
    figure = report.draw(measured)
    labels = [text.get_text() for text in figure.axes[0].texts]
    assert labels == ["ExLM on a lattice", "ExLM (paper)", "MLM"]  # from below
    assert figure.axes[0].lines[0].get_xydata().tolist() == [[100, 7.25], [200, 6.75]]
