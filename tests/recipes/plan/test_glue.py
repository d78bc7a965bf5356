"""Fine-tuning on GLUE: the schedule, positions, where it starts, its folder, what is refused."""

import json
import shutil
import warnings

import pytest
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from recipes import folders
from recipes.checkpoints import read_checkpoint
from recipes.command_line import RecipeError
from recipes.plan import finetuning
from recipes.plan.glue import read_start

from fs_plugins import compat
from tests import builders

LENGTHS = [3, 5, 40, 4, 6, 30, 3]  # of the first sentences; the second ones are of 2 tokens
POINT = ("--lr", "1e-3", "--batch-size", "3", "--max-epoch", "4", "--warmup-ratio", "0.25")


@pytest.fixture
def glue(flags, toy_inputs):
    """glue(TASK, CHECKPOINT, WORD...) -> flags."""

    def make(task, checkpoint, *words, data="glue"):
        path = toy_inputs / "checkpoints" / f"{checkpoint}.pt"
        return flags("finetune_glue", task, path, toy_inputs / data, "save", *words)

    return make


@pytest.fixture
def trained(plan, saved_checkpoint, tmp_path):
    """What fairseq-train makes of the flags: its settings, and the batches of a split."""
    words, labels = (
        builders.dictionary(["a", "b", "c"]),
        builders.dictionary(["not_entailment", "entailment"]),
    )
    for one in (words, labels):
        one.symbols = one.symbols[:-1]  # dict.txt has no <mask>
    data, checkpoint = tmp_path / "RTE-bin", saved_checkpoint()
    for split in ("train", "valid"):
        first = [[4 + i % 3 for i in range(n)] + [2] for n in LENGTHS]
        builders.write_split(data / "input0", split, first, words)
        builders.write_split(data / "input1", split, [[5, 2]] * len(LENGTHS), words)
        builders.write_split(data / "label", split, [[4 + i % 2, 2] for i in range(len(LENGTHS))], labels)
    found = plan("finetune_glue", "RTE", checkpoint, tmp_path, tmp_path / "out", *POINT, "--print")
    flags = [word for group in found.groups.values() for word in group.words()]
    flags += ["--shorten-method", "truncate", "--required-batch-size-multiple", "1"]
    flags += ["--criterion", "glue_prediction"]
    args = options.parse_args_and_arch(options.get_training_parser(), [found.data, *flags])
    with warnings.catch_warnings():
        compat.silence_known_warnings()
        cfg = convert_namespace_to_omegaconf(args)
    task = tasks.setup_task(cfg.task)

    def batches(split):
        task.load_dataset(split)
        iterator = task.get_batch_iterator(
            task.dataset(split),
            max_sentences=cfg.dataset.batch_size,
            max_positions=task.max_positions(),
            ignore_invalid_inputs=split == "train",  # as fairseq-train does
            required_batch_size_multiple=cfg.dataset.required_batch_size_multiple,
        )
        return list(iterator.next_epoch_itr(shuffle=False))

    return cfg, batches


def test_updates_are_the_batches_of_all_epochs(trained):
    cfg, batches = trained
    updates = len(batches("train")) * cfg.optimization.max_epoch
    assert updates == 3 * 4  # 7 rows by threes
    assert cfg.lr_scheduler.total_num_update == updates and cfg.lr_scheduler.warmup_updates == updates / 4


@pytest.mark.parametrize("split", ["train", "valid"])
def test_long_rows_are_cut_and_not_left_out(trained, split):
    found = {}
    for batch in trained[1](split):
        tokens, lengths = batch["net_input"]["src_tokens"], batch["net_input"]["src_lengths"]
        rows = zip(batch["id"], tokens, lengths.tolist(), strict=True)
        found |= {int(i): row[:n].tolist() for i, row, n in rows}
    assert sorted(found) == list(range(len(LENGTHS)))
    for i, n in enumerate(LENGTHS):
        whole = [0, *(4 + j % 3 for j in range(n)), 2, 2, 5, 2]  # <s> A </s> </s> B </s>
        assert found[i] == whole[:16]  # the checkpoint's positions


def test_a_model_is_what_it_is_given_for(saved_checkpoint, tmp_path):
    fine = {"_name": "sentence_prediction", "num_classes": 2}
    with pytest.raises(RecipeError, match=r"was fine-tuned \(--task sentence_prediction\): give"):
        read_start(saved_checkpoint(task=fine), None)
    two = saved_checkpoint(task=fine).rename(tmp_path / "two.pt")
    mnli = saved_checkpoint(task={**fine, "num_classes": 3}).rename(tmp_path / "mnli.pt")
    other = saved_checkpoint(task={**fine, "num_classes": 3}, rows=9).rename(tmp_path / "other.pt")
    plain = saved_checkpoint()
    assert read_start(plain, mnli) == read_start(plain, None)
    with pytest.raises(RecipeError, match="two.pt was trained with 2 classes, not on MNLI, which has 3"):
        read_start(plain, two)
    with pytest.raises(RecipeError, match="model.pt was trained by masked_lm, not on MNLI"):
        read_start(plain, plain)
    with pytest.raises(RecipeError, match="other.pt is a model of other sizes than"):
        read_start(plain, other)


def test_an_mlm_reads_rows_as_long_as_an_exlm(saved_checkpoint, tmp_path):
    fine = {"_name": "sentence_prediction", "num_classes": 3}
    assert finetuning.positions(read_checkpoint(saved_checkpoint())) == 16
    mlm = saved_checkpoint("mlm_tiny").rename(tmp_path / "mlm.pt")
    assert finetuning.positions(read_checkpoint(mlm)) == 512
    repeated = saved_checkpoint("mlm_tiny", task={"repeat_times": 3})
    assert finetuning.positions(read_checkpoint(repeated)) == 3 * 512
    # as a fine-tuning on MNLI leaves it
    mnli = saved_checkpoint("mlm_tiny", task=fine, sizes={"max_positions": 512}).rename(tmp_path / "mnli.pt")
    assert read_start(mlm, mnli).max_positions == 16


def test_the_batch_is_that_of_an_update(glue):
    words = ("--batch-size", 32, "--max-epoch", 3)
    whole = glue("SST-2", "exlm", *words)
    for steps in (["--update-freq", "2"], ["--update-freq=2"]):
        split = glue("SST-2", "exlm", *words, *steps)
        assert (split.value("--batch-size"), split.value("--update-freq")) == ("16", "2")
        for name in ("--total-num-update", "--warmup-updates"):
            assert whole.value(name) == split.value(name)
    assert whole.whole("--total-num-update") == 3 * 16  # 499 rows
    for wrong in ("3", "0", "64", "two"):
        with pytest.raises(RecipeError, match=f"--update-freq {wrong}: --batch-size 32 is that of an update"):
            glue("SST-2", "exlm", *words, "--update-freq", wrong)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed=x"], None),
        (["--restore-file", "x.pt"], "--restore-file is set by finetune_glue.sh"),
        (["--save-dir=x"], "--save-dir is set by finetune_glue.sh"),
        (["--finetune-from-model", "x"], "--finetune-from-model is set by finetune_glue.sh"),
        (["--max-epoch", "0"], "--max-epoch '0': give a whole number, 1 or more"),
        (["--batch-size", "1.5"], "--batch-size '1.5': give a whole number, 1 or more"),
        (["--warmup-ratio", "6"], "--warmup-ratio '6': give a number, 0 or more and less than 1"),
        (["--lr", "0.0"], "--lr 0.0: give a number above 0"),
        (["--lr", "fast"], "--lr 'fast': give a number"),
        (["--gpus", "2"], "--gpus 2: finetune_glue.sh trains on one GPU"),
    ],
)
def test_flags_that_cannot_be(glue, words, message):
    with pytest.raises(RecipeError if message else SystemExit, match=message):
        glue("RTE", "exlm", *words)


def test_what_is_refused(glue, flags, toy_inputs, tmp_path):
    with pytest.raises(ValueError, match="unknown task 'WNLI'"):
        glue("WNLI", "exlm")
    with pytest.raises(RecipeError, match="RTE-bin/input0/dict.txt does not exist: give a folder that"):
        glue("RTE", "exlm", data="text")
    with pytest.raises(RecipeError, match="the checkpoint .*none.pt is not there"):
        glue("RTE", "none")
    shutil.copytree(toy_inputs / "glue" / "RTE-bin", tmp_path / "a" / "RTE-bin")
    dictionary = tmp_path / "a" / "RTE-bin" / "input0" / "dict.txt"
    lines = dictionary.read_text().splitlines(keepends=True)
    checkpoint = toy_inputs / "checkpoints" / "exlm.pt"

    def refused(content: list[str]) -> str:
        dictionary.write_text("".join(content))
        with pytest.raises(RecipeError) as error:
            flags("finetune_glue", "RTE", checkpoint, tmp_path / "a", "save")
        return str(error.value)

    assert "prepare GLUE with the dict.txt of its pre-training" in refused(lines[:-1])
    assert "dict.txt, line 1: 'w1', where the checkpoint's dictionary" in refused(
        [lines[1], lines[0], *lines[2:]]
    )


def test_a_finished_run_is_not_taken_for_another(plan, toy_inputs, tmp_path):
    save, checkpoint = tmp_path / "save", toy_inputs / "checkpoints" / "exlm.pt"
    shutil.copytree(toy_inputs / "glue" / "RTE-bin", tmp_path / "glue" / "RTE-bin")

    def asked(*words):
        return plan("finetune_glue", "RTE", checkpoint, tmp_path / "glue", save, *words)

    first = asked()
    assert not first.finished
    save.mkdir()
    (save / "checkpoint_last.pt").write_text("")
    with pytest.raises(RecipeError, match="holds results without a made_of.json"):
        folders.claim(save, first.settings(), first.inputs, [], ("*.pt",))
    (save / "checkpoint_last.pt").unlink()
    folders.claim(save, first.settings(), first.inputs, [])
    result = {"task": "RTE", "scores": {"valid": {"accuracy": 0.5}}, "rows": {"valid": 8}, "cut": {}}
    (save / "result.json").write_text(json.dumps(result))
    assert "finished before" in (said := asked().finished) and "accuracy 50.00" in said
    assert "finished before" in asked("--log-interval", "5").finished
    for words, message in (
        (["--seed", "2"], "seed: there 1, asked 2"),
        (["--lr", "1e-3"], "lr: there '2e-5', asked '1e-3'"),
        (["--dropout", "0.3"], "--dropout: there '0.1', asked '0.3'"),
        (["--max-update", "10", "--no-save"], "--max-update: there None, asked '10'"),
        (["--test", "--keep-checkpoint"], "was finished without --test and --keep-checkpoint"),
    ):
        with pytest.raises(RecipeError, match=message):
            asked(*words)
    (save / "submission").mkdir()
    (save / "submission" / "RTE.tsv").touch()
    (save / "checkpoint_best.pt").touch()
    assert asked("--test", "--keep-checkpoint").finished
    (tmp_path / "glue" / "RTE-bin" / "more").write_text("other data")
    with pytest.raises(RecipeError, match="data: there"):
        asked()
