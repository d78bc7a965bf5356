"""Small inputs for the training scripts: corpora, checkpoints, GLUE, SQuAD and MoleculeNet data.

``make(folder)`` writes the same files at every call:

    text, text2            pre-training text with one dictionary
    molecules              pre-training SMILES
    checkpoints/NAME.pt    the models of CHECKPOINTS, untrained, in the format of fairseq-train
    glue/TASK-bin          the eight tasks, with GLUE_ROWS training examples
    squad, squad-short     questions about contexts of up to 1,200 words, and of up to 200
    moleculenet/NAME       the seven sets and a regression, with MOLECULES training molecules

It uses only fairseq and fs_plugins, not the scripts under test.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import torch
from fairseq import options, tasks
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from fs_plugins import compat
from fs_plugins.data import squad_tokens
from fs_plugins.data.property_info import FILE, VERSION, PropertyInfo
from fs_plugins.data.squad import Answer, Question, Squad
from fs_plugins.data.squad_tokens import Ragged, TokenizedSquad
from tests import builders

WORDS = builders.dictionary(200)
ATOMS = builders.dictionary(["C", "c", "N", "O", "(", ")", "1", "=", "[nH]", "Cl", "F", "#", "-", "+"])

_SMALL = "--encoder-layers 2 --encoder-embed-dim 16 --encoder-ffn-embed-dim 24 --encoder-attention-heads 2"
_EXLM = f"--task masked_lm --criterion nat_dag_loss_mlm {_SMALL} --arch exlm_base"
_MLM = f"--task masked_lm --criterion masked_lm {_SMALL} --encoder-normalize-before --arch p_roberta_base"
_LONG = "--tokens-per-sample 512"

# name -> (data and flags of its training)
CHECKPOINTS = {
    "exlm": ("text", f"{_EXLM} --ext-state-num 4 --max-positions 516 --tokens-per-sample 128"),
    "exlm-long": ("text", f"{_EXLM} --ext-state-num 2 --max-positions 1026 {_LONG} --dropout 0.3"),
    "exlm-1d-rope": ("text", f"{_EXLM} --rope-dimensions 1 --max-positions 2052 {_LONG}"),
    "exlm-no-transitions": (
        "text",
        f"{_EXLM} --criterion nat_ctc_loss_mlm --ext-state-num 3 --max-positions 1539 {_LONG}",
    ),
    "exlm-sparse": ("text", f"{_EXLM} --arch exlm_large --state-graph sparse --max-positions 2052 {_LONG}"),
    "release": (  # the architecture of the authors' command
        "text",
        f"{_EXLM} --arch p_roberta_ext_denselink_base --links-feature feature:position "
        f"--max-transition-length 99999 --max-positions 2048 {_LONG}",
    ),
    "mlm": ("text", f"{_MLM} --max-positions 128 --tokens-per-sample 128"),
    "mlm-long": (
        "text",
        f"{_MLM} --arch p_roberta_large --max-positions 512 {_LONG} --embedding-init-std 0.5",
    ),
    "repeated-mlm": (
        "text",
        f"{_MLM} --task repeated_masked_lm --repeat-times 4 --criterion masked_lm_accuracy "
        "--max-positions 512 --tokens-per-sample 128",
    ),
    "exlm-smiles": (
        "molecules",
        f"{_EXLM} --arch exlm_smiles --ext-state-num 2 --max-positions 1026 {_LONG}",
    ),
    "mlm-smiles": ("molecules", f"{_MLM} --arch mlm_smiles --max-positions 1026 {_LONG}"),
    "mnli": (  # "exlm", fine-tuned on MNLI
        "glue/MNLI-bin",
        f"{_EXLM} --ext-state-num 4 --max-positions 516 --task glue --criterion glue_prediction "
        "--glue-metric accuracy --num-classes 3 --classification-head-name mnli --init-token 0 "
        "--separator-token 2",
    ),
}

# task -> (sentences of an input, labels; none of a regression)
GLUE = {
    "MNLI": (2, ("contradiction", "neutral", "entailment")),
    "QQP": (2, ("0", "1")),
    "QNLI": (2, ("entailment", "not_entailment")),
    "SST-2": (1, ("0", "1")),
    "CoLA": (1, ("0", "1")),
    "RTE": (2, ("entailment", "not_entailment")),
    "MRPC": (2, ("0", "1")),
    "STS-B": (2, ()),
}
GLUE_ROWS = {
    **{"MNLI": 1013, "QQP": 701, "QNLI": 640, "SST-2": 499},
    **{"CoLA": 257, "RTE": 129, "MRPC": 160, "STS-B": 311},
}

MOLECULES = {
    **{"bace": 121, "bbbp": 163, "tox21": 301, "sider": 97, "muv": 517, "clintox": 260, "toxcast": 211},
    "solubility": 90,
}


def make(folder: Path) -> None:
    """Writes all of them into ``folder``; takes a few seconds."""
    for number, name in enumerate(("text", "text2", "molecules"), 1):
        symbols = ATOMS if name == "molecules" else WORDS
        for split, count in (("train", 40), ("valid", 10)):
            builders.write_split(folder / name, split, _sentences(count, number, symbols), symbols)
        _write_dictionary(folder / name, symbols)
    for task in GLUE:
        _glue(folder / "glue" / f"{task}-bin", task)
    _squad(folder / "squad", [37 * i for i in range(1, 33)])
    _squad(folder / "squad-short", [20 + 3 * i for i in range(61)])
    for name, count in MOLECULES.items():
        _molecules(folder / "moleculenet" / name, name, count)
    for name in CHECKPOINTS:
        _checkpoint(folder, name)


def _write_dictionary(folder: Path, symbols: Dictionary) -> None:
    """dict.txt, which has no <mask>."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [symbol for symbol in symbols.symbols[symbols.nspecial :] if symbol != "<mask>"]
    (folder / "dict.txt").write_text("".join(f"{word} 1\n" for word in words))


def _sentences(count: int, seed: int, symbols: Dictionary) -> list[list[int]]:
    """Of 3 to 30 words; ids, each with </s>."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 31, count)
    ids = (rng.integers(symbols.nspecial, len(symbols) - 1, n) for n in lengths)
    return [[*row.tolist(), symbols.eos()] for row in ids]


def _checkpoint(folder: Path, name: str) -> None:
    data, flags = CHECKPOINTS[name]
    path = folder / "checkpoints" / f"{name}.pt"
    path.parent.mkdir(exist_ok=True)
    words = [
        str(folder / data),
        "--cpu",
        "--optimizer",
        "adam",
        "--save-dir",
        str(path.parent),
        *flags.split(),
    ]
    with warnings.catch_warnings():
        compat.silence_known_warnings()
        cfg = convert_namespace_to_omegaconf(
            options.parse_args_and_arch(options.get_training_parser(), words)
        )
        task = tasks.setup_task(cfg.task)
        torch.manual_seed(1)
        model = task.build_model(cfg.model)
    history = {"num_updates": 1, "lr_scheduler_state": {}, "optimizer_name": "FairseqAdam"}
    state = {
        "args": None,
        "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True),
        "model": model.state_dict(),
        "criterion": None,
        "optimizer_history": [history],
        "task_state": {},
        "extra_state": {"epoch": 1, "train_iterator": {"epoch": 1}},
        "last_optimizer_state": {},
    }
    torch.save(state, path)


def _glue(folder: Path, task: str) -> None:
    inputs, labels = GLUE[task]
    splits = {"train": GLUE_ROWS[task], "valid": 8, "test": 4}
    if task == "MNLI":
        splits |= {"valid1": 8, "test1": 4}
    classes = builders.dictionary(labels)
    for number, (split, rows) in enumerate(splits.items()):
        for i in range(inputs):
            builders.write_split(folder / f"input{i}", split, _sentences(rows, number + 10 * i, WORDS), WORDS)
        if split.startswith("test"):
            continue
        if labels:
            ids = [[classes.nspecial + row % len(labels), classes.eos()] for row in range(rows)]
            builders.write_split(folder / "label", split, ids, classes)
        else:
            (folder / "label").mkdir(exist_ok=True)
            scores = "".join(f"{row % 6 / 5:.2f}\n" for row in range(rows))
            (folder / "label" / f"{split}.label").write_text(scores)
    for i in range(inputs):
        _write_dictionary(folder / f"input{i}", WORDS)
    if labels:
        _write_dictionary(folder / "label", classes)


def _squad(folder: Path, lengths: list[int]) -> None:
    """A context of each length in words; about each, one question with an answer and one without."""
    _write_dictionary(folder, WORDS)
    texts, questions, tokens, offsets, asked = [], [], [], [], []
    for index, count in enumerate(lengths):
        words = [f"w{(index + i) % 200}" for i in range(count)]
        texts.append(" ".join(words))
        ends = np.cumsum([len(word) + 1 for word in words]) - 1
        begins = np.array([0, *(ends[:-1] + 1)])
        offsets.append(np.stack([begins, ends], 1).astype(np.int32))
        tokens.append(np.array([WORDS.index(word) for word in words], np.int32))
        middle = count // 2
        answer = Answer(words[middle], int(begins[middle]))
        for kind, answers in (("known", (answer,)), ("none", ())):
            questions.append(Question(f"{kind}{index}", "w7 w8 w9", index, answers))
            asked.append(np.array([WORDS.index(word) for word in ("w7", "w8", "w9")], np.int32))
    settings = {"dictionary": squad_tokens.dictionary_hash(folder)}
    split = TokenizedSquad(
        Squad(texts, questions), Ragged.of(tokens), Ragged.of(offsets), Ragged.of(asked), settings
    )
    for name in ("train", "valid"):
        squad_tokens.save(split, folder, name)


def _molecules(folder: Path, name: str, count: int) -> None:
    kind = "regression" if name == "solubility" else "classification"
    info = PropertyInfo(kind, ("first", "second"), (0.0, 0.0), (1.0, 1.0))
    sizes = {}
    for number, (split, rows) in enumerate((("train", count), ("valid", 12), ("test", 12))):
        molecules = _sentences(rows, number, ATOMS)
        builders.write_split(folder, split, molecules, ATOMS)
        labels = np.array([[row % 2, (row // 2) % 2] for row in range(rows)], np.float32)
        np.save(folder / f"{split}.labels.npy", labels)
        sizes[split] = {"molecules": rows, "longest": 1 + max(map(len, molecules))}
    _write_dictionary(folder, ATOMS)
    state = {"version": VERSION, "dataset": name, **info.to_dict(), "sizes": sizes}
    (folder / FILE).write_text(json.dumps(state))
