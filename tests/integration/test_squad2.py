"""Fine-tuning on SQuAD through fairseq-train and the scripts, with answers that a tiny model can memorise."""

import json
import shutil

import evaluate
import pytest

from fs_plugins.finetuning.squad.data import load_split
from tests.integration import commands
from tests.integration.commands import train
from tests.support import squad


def finetuning(data, save_dir, *flags, arch="exlm_tiny") -> list:
    return [
        *(data, "--user-dir", commands.PLUGIN, "--save-dir", save_dir),
        *("--task", "squad2", "--criterion", "squad2"),
        *("--arch", arch, "--max-positions", 2048, "--window-tokens", 27, "--doc-stride", 10),
        *("--max-answer-tokens", 4, "--best-checkpoint-metric", "f1", "--maximize-best-checkpoint-metric"),
        *("--dropout", 0, "--attention-dropout", 0, "--batch-size", 8, "--no-epoch-checkpoints"),
        *(*commands.OPTIMIZER, *commands.QUIET, *commands.TINY_MODEL, *flags),
    ]


@pytest.fixture(scope="module")
def memorised(squad_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("memorised")
    # the question has to be told apart from the context by what is in it
    flags = ["--max-epoch", 100, "--validate-interval", 10, "--encoder-embed-dim", 64, "--lr", 3e-3]
    return folder, train(*finetuning(squad_data, folder, *flags))


@pytest.mark.slow
def test_questions_that_are_memorised_and_predicted(memorised, squad_data, tmp_path):
    folder, run = memorised
    f1, em = run.values("f1", "valid"), run.values("em", "valid")
    assert f1[-1] == em[-1] == run.values("f1_swept", "valid")[-1] == 100 and f1[0] < 100
    assert run.values("f1_no_answer", "valid")[-1] == run.values("f1_has_answer", "valid")[-1] == 100
    flags = [folder / "checkpoint_best.pt", squad_data, "--output", tmp_path, "--device", "cpu"]
    flags.append("--overwrite")
    results = []
    for batch_size in ("1", "5", "64"):
        assert evaluate.main([*map(str, flags), "--batch-size", batch_size]) == 0
        names = ("predictions", "result")
        results.append({name: json.loads((tmp_path / f"{name}.json").read_text()) for name in names})
    squad = load_split(squad_data, "valid").squad
    golds = {q.id: q.answers[0].text if q.answers else "" for q in squad.questions}
    for result in results:  # whatever the batch
        assert result["predictions"] == golds
        scores = result["result"]["metrics"]["valid"]
        assert scores["exact"] == scores["best_f1"] == 100
        assert scores == pytest.approx(results[0]["result"]["metrics"]["valid"], abs=1e-4)


def test_questions_without_answers_are_predicted_and_not_scored(memorised, squad_data, tmp_path):
    data, split = shutil.copytree(squad_data, tmp_path / "data"), load_split(squad_data, "valid")
    split.settings["unlabelled"] = 4
    squad.save(data, split, "test")
    flags = ["--output", tmp_path, "--device", "cpu", "--split", "test"]
    assert evaluate.main([*map(str, [memorised[0] / "checkpoint_best.pt", data, *flags])]) == 0
    assert json.loads((tmp_path / "result.json").read_text())["metrics"] == {}
    assert len(json.loads((tmp_path / "predictions.json").read_text())) == len(split.squad.questions)
