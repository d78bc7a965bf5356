"""Folders as the scripts prepare them, and checkpoints as fairseq-train saves them, all small.

``make(folder)`` writes the same files at every call:

    text                   pre-training text
    molecules              pre-training SMILES
    checkpoints/NAME.pt    the models of CHECKPOINTS, untrained
    glue/TASK-bin          the tasks of GLUE, with so many training examples
    squad, squad-short     questions about contexts of up to 1,200 words, and of up to 200
    moleculenet/NAME       the sets of MOLECULES, with so many training molecules

It uses only fairseq and fs_plugins, not the scripts under test.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import torch
from fairseq import options, tasks
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from fs_plugins.data.vocabulary import Vocabulary
from fs_plugins.fairseq_patches import messages
from fs_plugins.finetuning.moleculenet.data import MOLECULES_FILE, label_scale
from fs_plugins.finetuning.outputs import PropertyInfo
from tests.support import builders, squad

WORDS = squad.DICTIONARY
ATOMS = builders.dictionary(["C", "c", "N", "O", "(", ")", "1", "=", "[nH]", "Cl", "F", "#", "-", "+"])

_SMALL = "--encoder-layers 2 --encoder-embed-dim 16 --encoder-ffn-embed-dim 24 --encoder-attention-heads 2"
_EXLM = f"--task masked_lm --criterion nat_dag_loss_mlm {_SMALL} --arch exlm_base"
_MLM = f"--task masked_lm --criterion masked_lm {_SMALL} --encoder-normalize-before --arch p_roberta_base"
_REPEATED = "--task repeated_masked_lm --repeat-times 4 --criterion masked_lm_accuracy --max-positions 512"
_LONG = "--max-positions 1026 --tokens-per-sample 512"
_OF_MNLI = "--task glue --criterion sentence_prediction --metrics accuracy --num-classes 3"
_OF_MNLI += " --classification-head-name mnli --init-token 0 --separator-token 2"

# name -> (data and flags of its training)
CHECKPOINTS = {
    "exlm": ("text", f"{_EXLM} --ext-state-num 4 --max-positions 516 --tokens-per-sample 128"),
    "exlm-long": ("text", f"{_EXLM} --ext-state-num 2 {_LONG} --dropout 0.3"),
    "mlm": ("text", f"{_MLM} --max-positions 128 --tokens-per-sample 128"),
    "repeated-mlm": ("text", f"{_MLM} {_REPEATED} --tokens-per-sample 128"),
    "exlm-smiles": ("molecules", f"{_EXLM} --arch exlm_smiles --ext-state-num 2 {_LONG}"),
    "mlm-smiles": ("molecules", f"{_MLM} --arch mlm_smiles {_LONG}"),
    "repeated-mlm-smiles": ("molecules", f"{_MLM} {_REPEATED} --arch mlm_smiles --tokens-per-sample 128"),
    "mnli": ("glue/MNLI-bin", f"{_EXLM} --ext-state-num 4 --max-positions 516 {_OF_MNLI}"),
}

# benchmark -> what its script is given: words before the checkpoint, the checkpoint, the data
FINETUNINGS = {"glue": (["RTE"], "exlm", "glue"), "squad": ([], "exlm-long", "squad-short")}
FINETUNINGS["moleculenet"] = ["bbbp"], "exlm-smiles", "moleculenet/bbbp"

# task -> (training examples, labels; none of a regression)
GLUE = {"QQP": (701, ("0", "1")), "RTE": (129, ("entailment", "not_entailment")), "STS-B": (311, ())}
GLUE |= {"MRPC": (160, ("0", "1")), "MNLI": (1013, ("contradiction", "neutral", "entailment"))}
MOLECULES = {"bace": 121, "bbbp": 163, "clintox": 260, "solubility": 90}


def make(folder: Path) -> None:
    """Writes all of them into ``folder``; takes a few seconds."""
    for seed, name, symbols in ((1, "text", WORDS), (3, "molecules", ATOMS)):
        for split, count in (("train", 40), ("valid", 10)):
            builders.write_split(folder / name, split, _sentences(count, seed, symbols), symbols)
    for task in GLUE:
        _glue(folder / "glue" / f"{task}-bin", *GLUE[task], mismatched=task == "MNLI")
    _squad(folder / "squad", [37 * i for i in range(1, 33)])
    _squad(folder / "squad-short", [20 + 3 * i for i in range(61)])
    for name, count in MOLECULES.items():
        _molecules(folder / "moleculenet" / name, name, count)
    for name in CHECKPOINTS:
        _checkpoint(folder, name)


def write_properties(folder: Path, splits: dict, kind="classification", words=8, **state) -> Path:
    """A folder as prepare_moleculenet.py makes it.

    Args:
        splits: name -> [(numbers of a molecule's tokens, its labels)].
        words: of the dictionary, or its symbols.
        state: more of molecules.json.
    """
    symbols = builders.dictionary(words)
    for name, rows in splits.items():
        ids = [[symbols.nspecial + t for t in tokens] + [symbols.eos()] for tokens, _ in rows]
        builders.write_split(folder, name, ids, symbols)
        np.save(folder / f"{name}.labels.npy", np.array([labels for _, labels in rows], np.float32))
        lines = [f"{number}\tC\n" for number in range(2, len(rows) + 2)]
        builders.write_file(folder / f"{name}.tsv", "".join(["line\tsmiles\n", *lines]))
    mean, std = label_scale(np.array([labels for _, labels in splits["train"]]), kind)
    info = PropertyInfo(kind, tuple("abc"[: len(mean)]), mean, std)
    text = {"dictionary": Vocabulary.of(symbols.symbols, folder).identity, **info.to_dict(), **state}
    builders.write_file(folder / MOLECULES_FILE, text)
    return folder


def _sentences(count: int, seed: int, symbols: Dictionary) -> list[list[int]]:
    """Returns sentences of 3 to 30 words as ids, each with </s>."""
    rng = np.random.default_rng(seed)
    return builders.rows(symbols, rng.integers(3, 31, count), rng)


def _checkpoint(folder: Path, name: str) -> None:
    data, flags = CHECKPOINTS[name]
    path = folder / "checkpoints" / f"{name}.pt"
    path.parent.mkdir(exist_ok=True)
    words = [folder / data, "--cpu", "--optimizer", "adam", "--save-dir", path.parent, *flags.split()]
    with warnings.catch_warnings():
        messages.silence_known_warnings()
        parsed = options.parse_args_and_arch(options.get_training_parser(), list(map(str, words)))
        cfg = convert_namespace_to_omegaconf(parsed)
        task = tasks.setup_task(cfg.task)
        torch.manual_seed(1)
        model = task.build_model(cfg.model)
    whole = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    arch = {"arch": parsed.arch}
    builders.save_checkpoint(path, model, arch, cfg.task, cfg.criterion, updates=1, cfg=whole)


def _glue(folder: Path, rows: int, labels: tuple[str, ...], mismatched: bool) -> None:
    splits = {"train": rows, "valid": 8, "test": 4} | ({"valid1": 8, "test1": 4} if mismatched else {})
    classes = builders.dictionary(labels)
    for number, (split, count) in enumerate(splits.items()):
        for i in range(2):
            sentences = _sentences(count, number + 10 * i, WORDS)
            builders.write_split(folder / f"input{i}", split, sentences, WORDS)
        if labels and not split.startswith("test"):
            numbers = (row + number // 2 for row in range(count))  # of valid1 others than of valid
            ids = [[classes.nspecial + i % len(labels), classes.eos()] for i in numbers]
            builders.write_split(folder / "label", split, ids, classes)
        elif not split.startswith("test"):
            scores = "".join(f"{row % 6 / 5:.2f}\n" for row in range(count))
            builders.write_file(folder / "label" / f"{split}.label", scores)


def _squad(folder: Path, lengths: list[int]) -> None:
    """A context of each length in words; about each, one question with an answer and one without."""
    builders.write_dictionary(folder, WORDS.symbols[WORDS.nspecial :])
    contexts = [squad.sentence(count, index) for index, count in enumerate(lengths)]
    questions = []
    for i, n in enumerate(lengths):
        questions += [(f"known{i}", "w7 w8 w9", i, [(n // 2, n // 2)]), (f"none{i}", "w7 w8 w9", i, [])]
    squad.save(folder, squad.split_of(contexts, questions), "train", "valid")


def _molecules(folder: Path, name: str, count: int) -> None:
    splits, sizes = {}, {}
    for number, (split, rows) in enumerate((("train", count), ("valid", 12), ("test", 12))):
        tokens = [[i - ATOMS.nspecial for i in row[:-1]] for row in _sentences(rows, number, ATOMS)]
        splits[split] = [(row, [i % 2, (i // 2) % 2]) for i, row in enumerate(tokens)]
        sizes[split] = {"molecules": rows, "longest": 2 + max(map(len, tokens))}
    kind = "regression" if name == "solubility" else "classification"
    words = ATOMS.symbols[ATOMS.nspecial : -1]
    write_properties(folder, splits, kind, words, dataset=name, sizes=sizes, split={})
