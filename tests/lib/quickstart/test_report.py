"""The quickstart's report: the entropy of frequencies, the table, who is ahead."""

import json
import math

import pandas as pd
import pytest
from lib.quickstart import report

from tests import builders


def points(*bits):
    each = {"marginal": 9.5, "gain": 0.25, "tokens": 4321}
    return pd.DataFrame([{"updates": 100 * i, "joint": b, **each} for i, b in enumerate(bits, 1)])


def test_bits_of_the_frequencies(tmp_path):
    symbols = builders.dictionary(3)
    first = symbols.nspecial
    builders.write_split(tmp_path, "train", [[first] * 5 + [2], [first + 1, 2]], symbols)
    builders.write_split(tmp_path, "valid", [[first, first + 2, 2]], symbols)
    # w0, w1, w2 and <mask>, each seen once more than in training: 6, 2, 1, 1 of 10
    assert report.frequency_bits(tmp_path) == pytest.approx(-(math.log2(0.6) + math.log2(0.1)) / 2)


@pytest.mark.parametrize(
    ("exlm", "mlm", "said"),
    [
        (6.5, 7.0, "'ExLM' predicts the masked tokens best, 0.50 bits ahead of 'MLM'."),
        (7.0, 6.5, "'MLM' predicts the masked tokens best, 0.50 bits ahead of 'ExLM'."),
        (7.001, 7.002, "'ExLM' and 'MLM' predict the masked tokens best, and equally well."),
    ],
)
def test_it_says_who_is_ahead(exlm, mlm, said):
    assert said in report.verdict({"MLM": mlm, "ExLM": exlm, "another": 9.0})


def test_table_and_picture(tmp_path):
    for name in report.MODELS:
        (tmp_path / name).mkdir()
    record = json.dumps({"train_loss": "5", "train_num_updates": "200", "train_train_wall": "90"})
    (tmp_path / "exlm" / "train.log").write_text(f"2026-01-01 00:00:00 | INFO | train | {record}\n")
    for name, rmse in (("pretrained", 0.5), ("scratch", 0.75)):
        (tmp_path / "finetune" / name).mkdir(parents=True)
        result = json.dumps({"metrics": {"test": {"rmse": rmse}}})
        (tmp_path / "finetune" / name / "result.json").write_text(result)
    curves = {"mlm": points(7.25, 6.75), "exlm": points(7.5, 6.25), "exlm-lattice": points(7, 6)}
    rows = report.table(tmp_path, curves, 7.07)

    def cells(title: str) -> list[str]:
        [row] = [row for row in rows if row.startswith(title)]
        return row.removeprefix(title).split()

    assert cells("ExLM, the paper's") == ["6.25", "9.50", "0.25", "1.5"]
    assert cells("MLM") == ["6.75", "9.50", "0.25", "0.0"]
    assert cells("frequencies of the tokens alone") == ["7.07"]
    assert cells("pre-trained ExLM") == ["0.500"] and cells("the same model from scratch") == ["0.750"]
    assert "All predict the same 4,321 tokens." in " ".join(rows)
    figure = report.draw(curves, 7.07)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [*report.MODELS.values(), report.FREQUENCIES]
    assert figure.axes[0].lines[0].get_xydata().tolist() == [[100, 7.25], [200, 6.75]]
