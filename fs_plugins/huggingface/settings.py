"""Settings of an exported model: config.json, and the files of sentence-transformers."""

import logging
from collections.abc import Sequence
from pathlib import Path

from fs_plugins.checkpoint import Checkpoint, stored_folders
from fs_plugins.checkpoint_settings import PRETRAINING_TASKS
from fs_plugins.data.vocabulary import Vocabulary
from fs_plugins.huggingface.code_files import AUTO_MAP
from fs_plugins.huggingface.weights import TIED, Head
from fs_plugins.models.flags import to_config

logger = logging.getLogger(__name__)

POOLINGS = ("first", "mean")
SAMPLES = (  # flags of the task by which samples are made, and scored
    *("mask_prob", "tokens_per_sample", "sample_break_mode", "max_positions", "tokens_per_molecule"),
    *("long_molecules", "window_tokens", "doc_stride", "max_question_tokens", "max_answer_tokens"),
    *("null_threshold", "metrics"),
)
HEAD_CLASSES = {"sequence": "ExLMForSequenceClassification", "span": "ExLMForQuestionAnswering"}


def find_head(checkpoint: Checkpoint) -> Head | None:
    """The head that a fine-tuning trained; None for a pre-training. Raises ValueError if there is none, or
    several of which the checkpoint does not say which."""
    model, cfg = checkpoint.model, checkpoint.cfg
    if checkpoint.task in PRETRAINING_TASKS:
        return None
    heads = {name: "sequence" for name in model.classification_heads}
    if checkpoint.task == "squad2":  # a token head of another task has no class in transformers here
        heads |= {name: "span" for name in model.token_heads}
    named = (getattr(cfg.task, "head_name", None), getattr(cfg.criterion, "classification_head_name", None))
    chosen = [name for name in named if name in heads] or list(heads)
    if len(chosen) != 1:
        raise ValueError(
            f"{checkpoint.path} was fine-tuned with --task {checkpoint.task} and has "
            f"{len(heads) or 'no'} heads {sorted(heads)} for sequences, or for SQuAD's spans: export a "
            "checkpoint that has one of them"
        )
    return Head(heads[chosen[0]], chosen[0])


def model_config(checkpoint: Checkpoint, head: Head | None, tensors: dict) -> dict:
    """The content of config.json, for tensors under their names in transformers."""
    encoder, dictionary, k = checkpoint.model.encoder, checkpoint.dictionary, checkpoint.states
    task = checkpoint.cfg.task
    config = {
        "architectures": [HEAD_CLASSES[head.kind] if head else "ExLMForMaskedLM"],
        "auto_map": AUTO_MAP,
        "model_type": "exlm",
        "dtype": "float32",
        "vocab_size": len(dictionary),
        **to_config(encoder.args, k is not None),
        "alignment": "ctc" if k and not checkpoint.has_transitions else "dag",
        "repeat_times": checkpoint.copies,
        "expand_from_layer": getattr(encoder, "expand_from_layer", 0),
        "bos_token_id": dictionary.bos(),
        "pad_token_id": dictionary.pad(),
        "eos_token_id": dictionary.eos(),
        "unk_token_id": dictionary.unk(),
        "mask_token_id": dictionary.index("<mask>"),
        "tie_word_embeddings": TIED[0] not in tensors,
        "fairseq": {
            "arch": checkpoint.arch,
            "task": checkpoint.task,
            "criterion": checkpoint.criterion,
            "head": head and head.name,
            "symbols": Vocabulary.of(dictionary.symbols, checkpoint.path).identity,
            "samples": {name: value for name in SAMPLES if (value := getattr(task, name, None))},
        },
    }
    if head is not None and head.kind == "sequence":
        info, criterion = checkpoint.properties, checkpoint.cfg.criterion
        regression = info.regression if info else getattr(criterion, "regression_target", False)
        classes = "multi_label_classification" if info else "single_label_classification"
        names = output_names(checkpoint, len(tensors["classifier.out_proj.bias"]))
        config["problem_type"] = "regression" if regression else classes
        config["id2label"] = {str(i): name for i, name in enumerate(names)}
        config["label2id"] = {name: i for i, name in enumerate(names)}
    return config


def output_names(checkpoint: Checkpoint, outputs: int) -> Sequence[str]:
    """Of a head: the properties', or of classes those of label/dict.txt in the folder of the fine-tuning's
    data, or LABEL_0, LABEL_1, ..."""
    if checkpoint.properties is not None or checkpoint.labels is not None:
        return checkpoint.properties.names if checkpoint.properties else checkpoint.labels
    if outputs == 1 and getattr(checkpoint.cfg.criterion, "regression_target", False):
        return ["score"]
    stored = getattr(checkpoint.cfg.task, "data", None)
    for folder in stored_folders(checkpoint.path, stored):
        path = folder / "label" / "dict.txt"
        if path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines()
            names = [line.rsplit(" ", 1)[0] for line in lines if not line.startswith("madeupword")]
            if len(names) == outputs:
                return names
    logger.warning("no label/dict.txt of %d classes in %s: they are named LABEL_0, ...", outputs, stored)
    return [f"LABEL_{i}" for i in range(outputs)]


def longest_text(config: dict) -> int:
    """Most tokens of a text without masks, with ``<s>`` and ``</s>``, that leaves room for their states."""
    extra = 2 * ((config["num_states"] or 1) - 1)
    return max(config["max_position_embeddings"] // config["repeat_times"] - extra, 2)


def sentence_transformers_files(config: dict, pooling: str) -> dict[str, object]:
    """{name: content} of what SentenceTransformer reads.

    Args:
        pooling: "first", the row of ``<s>``, or "mean", over all tokens (``<s>`` and ``</s>`` are counted).
    """
    if pooling not in POOLINGS:
        raise ValueError(f"unknown pooling {pooling!r}: known are {' and '.join(POOLINGS)}")
    module = "sentence_transformers.models"
    return {
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": f"{module}.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{module}.Pooling"},
        ],
        "sentence_bert_config.json": {"max_seq_length": longest_text(config), "do_lower_case": False},
        str(Path("1_Pooling", "config.json")): {
            "word_embedding_dimension": config["hidden_size"],
            "pooling_mode_cls_token": pooling == "first",
            "pooling_mode_mean_tokens": pooling == "mean",
        },
    }
