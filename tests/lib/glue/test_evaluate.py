"""What a fine-tuning on GLUE reports of its rows and scores."""

from lib.glue.evaluate import row_lengths, scores_text

from tests import builders


def test_lengths_of_rows(tmp_path):
    words = builders.dictionary(9)
    first, second = [[5, 6, 7, 2], [5, 2]], [[6, 2], [5, 6, 7, 2]]
    builders.write_split(tmp_path / "input0", "train", first, words)
    assert row_lengths(tmp_path, "train").tolist() == [1 + 4, 1 + 2]  # <s> A </s>
    builders.write_split(tmp_path / "input1", "train", second, words)
    assert row_lengths(tmp_path, "train").tolist() == [1 + 4 + 1 + 2, 1 + 2 + 1 + 4]  # <s> A </s> </s> B </s>


def test_cut_rows_are_told():
    result = {"task": "RTE", "metrics": {"valid": {"accuracy": 0.5}}, "rows": {"valid": 277}, "cut": {}}
    assert scores_text(result) == "RTE valid (277 rows): accuracy 50.00"
    result["cut"] = {"valid": [3, 128]}
    assert scores_text(result) == "RTE valid (277 rows, 3 of them cut to 128 tokens): accuracy 50.00"
