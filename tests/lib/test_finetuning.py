"""Fine-tuning on GLUE, SQuAD and molecules: schedules, positions, where it starts, what is refused."""

import json
import shutil
import warnings

import numpy as np
import pytest
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from lib import finetuning, folders
from lib.checkpoints import read_checkpoint
from lib.command_line import UserError
from lib.finetune_glue import read_start
from lib.finetune_moleculenet import TABLE8
from lib.flags import Flags

from fs_plugins import compat
from fs_plugins.data.squad import Answer
from tests import builders, pages
from tests.makers import squad

LENGTHS = [3, 5, 40, 4, 6, 30, 3]  # of the first sentences; the second ones are of 2 tokens
TABLE_8 = {
    "bace": ("60", "64", "1e-4", "0.06", "0.1", "0.2"),
    "bbbp": ("40", "128", "4e-4", "0.06", "0.1", "0.1"),
    "tox21": ("80", "128", "1e-4", "0.06", "0.1", "0.1"),
    "sider": ("100", "32", "5e-4", "0.4", "0.1", "0"),
    "muv": ("40", "128", "2e-5", "0.2", "0.1", "0.1"),
    "clintox": ("100", "256", "5e-5", "0.1", "0.1", "0.5"),
    "toxcast": ("80", "64", "1e-4", "0.06", "0.1", "0.1"),
}
FINE = {"_name": "sentence_prediction", "num_classes": 3}


@pytest.fixture
def ask(toy_inputs):
    """ask(KIND, CHECKPOINT, WORD...) -> the training of a script with the toy inputs."""

    def make(kind, checkpoint, *words, data=None, save="save"):
        script, start, about = {
            "glue": ("finetune_glue", "RTE", "glue"),
            "squad": ("finetune_squad", None, "squad-short"),
            "molecules": ("finetune_moleculenet", "bbbp", "moleculenet/bbbp"),
        }[kind]
        if checkpoint is None:
            checkpoint = {"glue": "exlm", "squad": "exlm-long", "molecules": "exlm-smiles"}[kind]
        if isinstance(checkpoint, str):
            checkpoint = toy_inputs / "checkpoints" / f"{checkpoint}.pt"
        first = [start] if start else []
        return pages.resolve(script, *first, checkpoint, data or toy_inputs / about, save, *words)

    return make


@pytest.fixture
def trained(saved_checkpoint, tmp_path):
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
    point = ("--lr", "1e-3", "--batch-size", "3", "--max-epoch", "4", "--warmup-ratio", "0.25")
    _, *command = pages.command("finetune_glue", "RTE", checkpoint, tmp_path, tmp_path / "out", *point)
    args = options.parse_args_and_arch(options.get_training_parser(), command)
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
    two = saved_checkpoint(task={**FINE, "num_classes": 2}).rename(tmp_path / "two.pt")
    mnli = saved_checkpoint(task=FINE).rename(tmp_path / "mnli.pt")
    other = saved_checkpoint(task=FINE, rows=9).rename(tmp_path / "other.pt")
    plain = saved_checkpoint()
    assert read_start(plain, mnli) == read_start(plain, None)
    for first, second, message in (
        (two, None, r"was fine-tuned \(--task sentence_prediction\): give"),
        (plain, two, "two.pt was trained with 2 classes, not on MNLI, which has 3"),
        (plain, plain, "model.pt was trained by masked_lm, not on MNLI"),
        (plain, other, "other.pt is a model of other sizes than"),
    ):
        with pytest.raises(UserError, match=message):
            read_start(first, second)


def test_an_mlm_reads_rows_as_long_as_an_exlm(saved_checkpoint, tmp_path):
    assert finetuning.positions(read_checkpoint(saved_checkpoint())) == 16
    mlm = saved_checkpoint("mlm_tiny").rename(tmp_path / "mlm.pt")
    assert finetuning.positions(read_checkpoint(mlm)) == 512
    repeated = saved_checkpoint("mlm_tiny", task={"repeat_times": 3})
    assert finetuning.positions(read_checkpoint(repeated)) == 3 * 512
    # as a fine-tuning on MNLI leaves it
    mnli = saved_checkpoint("mlm_tiny", task=FINE, sizes={"max_positions": 512}).rename(tmp_path / "mnli.pt")
    assert read_start(mlm, mnli).max_positions == 16


@pytest.mark.parametrize(("kind", "updates"), [("glue", 3 * 5), ("molecules", 3 * 6)])  # 129 and 163 examples
def test_the_batch_is_that_of_an_update(ask, kind, updates):
    words = ("--batch-size", 32, "--max-epoch", 3)
    whole, split = ask(kind, None, *words).flags, ask(kind, None, *words, "--update-freq=2").flags
    assert (split.value("--batch-size"), split.value("--update-freq")) == ("16", "2")
    assert whole.whole("--total-num-update") == split.whole("--total-num-update") == updates
    assert whole.value("--warmup-updates") == split.value("--warmup-updates")
    for wrong in ("3", "0", "64", "two"):
        with pytest.raises(UserError, match=f"--update-freq {wrong}: --batch-size 32 is that of an update"):
            ask(kind, None, *words, "--update-freq", wrong)


@pytest.mark.parametrize("dataset", sorted(TABLE_8))
def test_flag_files_are_table_8(dataset):
    names = ("--max-epoch", "--batch-size", "--lr", "--warmup-ratio", "--dropout", "--pooler-dropout")
    flags = Flags.read(TABLE8 / f"{dataset}.flags")
    assert tuple(flags.value(name) for name in names) == TABLE_8[dataset] and set(flags) == set(names)


def test_from_scratch_is_another_run(ask):
    pretrained, scratch = ask("molecules", None), ask("molecules", None, "--scratch")
    assert pretrained.words["start"][0] == "--finetune-from-model" and scratch.words["start"] == []
    assert scratch.flags == pretrained.flags and scratch.settings != pretrained.settings


def test_hyper_parameters_of_another_set_are_told(toy_inputs):
    bbbp, model = toy_inputs / "moleculenet" / "bbbp", toy_inputs / "checkpoints" / "exlm-smiles.pt"
    [note] = pages.resolve("finetune_moleculenet", "bace", model, bbbp, "save").notes
    assert "was prepared as bbbp, and is fine-tuned with the hyper-parameters of bace" in note
    assert pages.resolve("finetune_moleculenet", "bbbp", model, bbbp, "save").notes == []


@pytest.fixture
def counted(saved_checkpoint, tmp_path):
    """Of two questions, one with an unknown answer, and a pre-training on 24 tokens."""
    symbols = builders.dictionary(60)
    data = tmp_path / "squad"
    data.mkdir()
    (data / "dict.txt").write_text("".join(f"w{i} 1\n" for i in range(60)))
    asked = [("known", "w50 w51", 0, [(3, 4)]), ("odd", "w52 w53", 0, [Answer("elsewhere", -1)])]
    squad.save(data, squad.split_of([squad.sentence(30)], asked), "train", "valid")
    model = saved_checkpoint("mlm_tiny", rows=len(symbols), task={"data": str(data), "tokens_per_sample": 24})
    sizes = ("--batch-size", 2, "--max-epoch", 5, "--warmup-ratio", 0.5, "--max-question-tokens", 8)
    names = ("--window-tokens", "--doc-stride", "--total-num-update", "--warmup-updates")

    def numbers(*words):
        found = pages.resolve("finetune_squad", model, data, "save", *sizes, "--max-answer-tokens", 3, *words)
        return [found.flags.whole(name) for name in names]

    return numbers


def test_windows_and_their_updates(counted):
    # 24 of 512, 6 of 128; 24 - 2 - 4 = 18 words a window, from 0, 6 and 12: 3 windows, 2 updates of 2
    assert counted() == [24, 6, 2 * 5, 5]
    assert counted("--window-tokens", 96) == [96, 24, 1 * 5, 2]
    assert counted("--window-tokens", 96, "--doc-stride", 32) == [96, 32, 1 * 5, 2]


def test_the_batch_is_split_over_gpus_and_steps(ask):
    found = ask("squad", None, "--gpus", 2, "--window-tokens", 60, "--tokens-per-gpu", 300).flags
    names = ("--distributed-world-size", "--batch-size", "--update-freq")
    workers, share, steps = (found.whole(name) for name in names)
    assert workers * share * steps == 32 and share * 60 <= 300 and "--find-unused-parameters" in found


@pytest.mark.parametrize(
    ("kind", "words", "message"),
    [
        ("glue", ["--restore-file", "x.pt"], "--restore-file is set by finetune_glue.sh"),
        ("glue", ["--save-dir=x"], "--save-dir is set by finetune_glue.sh"),
        ("glue", ["--max-epoch", "0"], "--max-epoch '0': give a whole number, 1 or more"),
        ("glue", ["--batch-size", "1.5"], "--batch-size '1.5': give a whole number, 1 or more"),
        ("glue", ["--warmup-ratio", "6"], "--warmup-ratio '6': give a number, 0 or more and less than 1"),
        ("glue", ["--lr", "0.0"], "--lr 0.0: give a number above 0"),
        ("glue", ["--lr", "fast"], "--lr 'fast': give a number"),
        ("glue", ["--max-sentences", "1"], "--max-sentences: give --batch-size"),
        ("molecules", ["--gpus", "2"], "--gpus 2: finetune_moleculenet.sh trains on one GPU"),
        ("squad", ["--gpus", "3"], "--batch-size 32 cannot be split evenly over 3 GPUs"),
        ("squad", ["--doc-stride", "8"], "--doc-stride is given together with --window-tokens"),
        ("squad", ["--window-tokens", "5000"], "5000 is more than the checkpoint's 1026 positions"),
        ("squad", ["--max-answer-tokens", "none"], "--max-answer-tokens 'none': give a whole number"),
        ("squad", ["--update-freq", "2"], "--update-freq is worked out from --batch-size"),
        ("squad", ["--window-tokens", "6"], "question known0 of 3 tokens leaves"),
    ],
)
def test_flags_that_cannot_be(ask, kind, words, message):
    with pytest.raises(ValueError, match=message):
        ask(kind, None, *words)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("glue", "RTE-bin/input0/dict.txt does not exist: give a folder that scripts/prepare_glue.py made"),
        ("squad", "dict.txt does not exist: DATA is a folder made by prepare_squad.py"),
        ("molecules", "molecules.json does not exist: DATA is a folder made by prepare_moleculenet.py"),
    ],
)
def test_data_and_checkpoints_that_are_not_there(ask, kind, message, toy_inputs, tmp_path):
    with pytest.raises(UserError, match=message):
        ask(kind, None, data=tmp_path)
    with pytest.raises(UserError, match="without ':' in its name"):
        ask(kind, None, data=tmp_path / "a:b")
    with pytest.raises(UserError, match="the checkpoint .*none.pt is not there"):
        ask(kind, "none")
    with pytest.raises(UserError, match=r"was fine-tuned \(--task glue\)"):
        ask(kind, "mnli")


def test_names_that_are_not_known(toy_inputs):
    model = toy_inputs / "checkpoints" / "exlm.pt"
    with pytest.raises(ValueError, match="unknown task 'WNLI'"):
        pages.resolve("finetune_glue", "WNLI", model, toy_inputs / "glue", "save")
    with pytest.raises(UserError, match="unknown dataset 'esol': choose one of bace, bbbp"):
        pages.resolve("finetune_moleculenet", "esol", model, toy_inputs / "moleculenet" / "bbbp", "save")


@pytest.mark.parametrize(("kind", "place"), [("glue", "RTE-bin/input0/dict.txt"), ("molecules", "dict.txt")])
def test_the_dictionary_has_to_be_the_checkpoints(ask, kind, place, toy_inputs, tmp_path):
    source = toy_inputs / ("glue" if kind == "glue" else "moleculenet/bbbp")
    copied = shutil.copytree(source, tmp_path / "copied", ignore=shutil.ignore_patterns("[!R]*-bin"))
    lines = (copied / place).read_text().splitlines(keepends=True)
    for content, message in (
        (lines[:-1], "with the dict.txt of its pre-training"),
        (lines[::-1], "line 1: .* as long"),
    ):
        (copied / place).write_text("".join(content))
        with pytest.raises(UserError, match=message):
            ask(kind, None, data=copied)


def test_molecules_from_which_nothing_can_be_learned(ask, toy_inputs, tmp_path):
    copied = shutil.copytree(toy_inputs / "moleculenet" / "bbbp", tmp_path / "bbbp")
    for split in ("valid", "train"):
        labels = np.load(copied / f"{split}.labels.npy")
        np.save(copied / f"{split}.labels.npy", np.zeros_like(labels))
        with pytest.raises(UserError, match=f"no property has labels of both classes in {split} of"):
            ask("molecules", None, data=copied)
    state = json.loads((copied / "molecules.json").read_text())
    del state["sizes"]
    (copied / "molecules.json").write_text(json.dumps(state))
    with pytest.raises(UserError, match="molecules.json is damaged .*prepare the data again"):
        ask("molecules", None, data=copied)


def test_a_finished_run_is_not_taken_for_another(toy_inputs, tmp_path):
    save, data = tmp_path / "save", tmp_path / "glue"
    shutil.copytree(toy_inputs / "glue" / "RTE-bin", data / "RTE-bin")
    trainings = []

    def fail(*words) -> int:
        trainings.append(words)
        return 1

    def asked(*words) -> str:
        checkpoint = toy_inputs / "checkpoints" / "exlm.pt"
        return pages.run("finetune_glue", "RTE", checkpoint, data, save, *words, execute=fail)

    asked()
    assert len(trainings) == 1 and (save / folders.MANIFEST).exists()
    result = {"metric": "accuracy", "metrics": {"valid": {"accuracy": 0.5}}}
    (save / "result.json").write_text(json.dumps(result))
    for words in ([], ["--log-interval", "5"]):
        assert "finished before" in (said := asked(*words)) and "valid accuracy 0.5" in said
    for words, message in (
        (["--seed", "2"], "seed: there 1, asked 2"),
        (["--lr", "1e-3"], "lr: there '2e-5', asked '1e-3'"),
        (["--dropout", "0.3"], "--dropout: there '0.1', asked '0.3'"),
        (["--max-update", "10", "--no-save"], "--max-update: there None, asked '10'"),
        (["--test", "--keep-checkpoint"], "was finished without --test and --keep-checkpoint"),
    ):
        with pytest.raises(UserError, match=message):
            asked(*words)
    (save / "submission").mkdir()
    (save / "submission" / "RTE.tsv").touch()
    (save / "checkpoint_best.pt").touch()
    assert "finished before" in asked("--test", "--keep-checkpoint")
    (data / "RTE-bin" / "more").write_text("other data")
    with pytest.raises(UserError, match="data: there"):
        asked()
    assert len(trainings) == 1
