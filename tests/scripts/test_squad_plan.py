"""The windows and updates of a fine-tuning on SQuAD, counted by hand."""

import pytest
from recipes.squad import plan

from fs_plugins.data import squad_tokens
from fs_plugins.data.squad import Answer
from tests import builders
from tests.data.squad_cases import sentence, split_of
from tests.scripts.test_finetuning_checkpoints import save  # noqa: F401


@pytest.fixture
def planned(save, tmp_path):  # noqa: F811
    """Flags for two questions, of one of which the answer is unknown, and a pre-training on 24 tokens."""
    symbols = builders.dictionary(60)
    data = tmp_path / "squad"
    data.mkdir()
    (data / "dict.txt").write_text("".join(f"w{i} 1\n" for i in range(60)))
    asked = [("known", "w50 w51", 0, [(3, 4)]), ("odd", "w52 w53", 0, [Answer("elsewhere", -1)])]
    split = split_of([sentence(30)], asked)
    split.settings["dictionary"] = squad_tokens.dictionary_hash(data)
    squad_tokens.save(split, data, "train")
    model = save("mlm_tiny", rows=len(symbols), task={"data": str(data), "tokens_per_sample": 24})

    def flags(*more):
        sizes = ["--batch-size", "2", "--max-epoch", "5", "--warmup-ratio", "0.5", "--window-tokens", "96"]
        sizes += ["--doc-stride", "32", "--max-question-tokens", "8", "--max-answer-tokens", "3"]
        words = plan.plan(plan.parser().parse_args([str(model), str(data), *sizes, *more]))
        values = dict(zip(words, words[1:], strict=False))
        names = ("window-tokens", "doc-stride", "total-num-update", "warmup-updates")
        return [int(values[f"--{name}"]) for name in names]

    return flags


def test_a_shorter_window_has_a_stride_in_proportion(planned):
    assert planned()[:2] == [24, 8]  # a quarter of 96 and of 32


def test_updates_are_of_windows_with_a_label(planned):
    # 24 - 2 - 4 = 18 words a window, from 0, 8 and 16: 3 windows, 2 updates of 2; half of them warm-up
    assert planned()[2:] == [2 * 5, 5]


def test_exact_windows_are_as_they_are_asked_for(planned):
    assert planned("--exact-window") == [96, 32, 1 * 5, 2]
