"""The flags of a fine-tuning on GLUE, as fairseq-train's data set and batches have them."""

import warnings

import pytest
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from recipes.checkpoints import read_checkpoint
from recipes.glue.grids import Point
from recipes.glue.tasks import TASKS
from recipes.glue.training import training_flags

from fs_plugins import compat
from tests import builders
from tests.scripts.test_finetuning_checkpoints import SIZES, SYMBOLS, save  # noqa: F401

LENGTHS = [3, 5, 40, 4, 6, 30, 3]  # of the first sentences; the second ones are of 2 tokens


@pytest.fixture
def trained(save, tmp_path):  # noqa: F811
    """What fairseq-train makes of the flags: its settings, and the batches of a split."""
    words, labels = builders.dictionary(SYMBOLS), builders.dictionary(["not_entailment", "entailment"])
    for one in (words, labels):
        one.symbols = one.symbols[:-1]  # dict.txt has no <mask>
    data, checkpoint = tmp_path / "RTE-bin", save()
    for split in ("train", "valid"):
        first = [[4 + i % 3 for i in range(n)] + [2] for n in LENGTHS]
        builders.write_split(data / "input0", split, first, words)
        builders.write_split(data / "input1", split, [[5, 2]] * len(LENGTHS), words)
        builders.write_split(data / "label", split, [[4 + i % 2, 2] for i in range(len(LENGTHS))], labels)
    point = Point("1e-3", "3", "4", "0.25")
    flags = training_flags(
        TASKS["RTE"], read_checkpoint(checkpoint), checkpoint, data, tmp_path / "out", point, 1, True
    )
    args = options.parse_args_and_arch(options.get_training_parser(), flags)
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
        found |= {
            int(i): row[:n].tolist() for i, row, n in zip(batch["id"], tokens, lengths.tolist(), strict=True)
        }
    assert sorted(found) == list(range(len(LENGTHS)))
    for i, n in enumerate(LENGTHS):
        whole = [0, *(4 + j % 3 for j in range(n)), 2, 2, 5, 2]  # <s> A </s> </s> B </s>
        assert found[i] == whole[: SIZES["max_positions"]]
