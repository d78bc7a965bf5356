"""What an exported model says of itself: config.json, and the files of sentence-transformers."""

import logging
from dataclasses import asdict
from pathlib import Path

from fairseq.tasks import TASK_REGISTRY

from fs_plugins.checkpoint import Checkpoint, stored_folders
from fs_plugins.checkpoint_settings import is_pretraining
from fs_plugins.data.text_codecs import smiles_form
from fs_plugins.data.vocabulary import Vocabulary
from fs_plugins.finetuning.outputs import CLASSES, REGRESSION, Outputs
from fs_plugins.huggingface.code_files import AUTO_MAP
from fs_plugins.huggingface.weights import SEQUENCES, TIED, Head

logger = logging.getLogger(__name__)

IS_FIRST = {"first": True, "mean": False}  # pooling -> whether it takes the first state
# flags by which a pre-training makes samples
SAMPLES = ("mask_prob", "tokens_per_sample", "sample_break_mode")


def find_head(checkpoint: Checkpoint) -> Head | None:
    """Returns the head that a fine-tuning trained; None for a pre-training. Raises ValueError if there is
    none, or several of which the checkpoint does not say which."""
    model, cfg = checkpoint.model, checkpoint.cfg
    if is_pretraining(checkpoint.task):
        return None
    architecture = getattr(TASK_REGISTRY[checkpoint.task], "architecture", SEQUENCES)
    heads = model.classification_heads if architecture == SEQUENCES else model.token_heads
    named = getattr(cfg.criterion, "classification_head_name", None)
    chosen = [named] if named in heads else list(heads)
    if len(chosen) != 1:
        raise ValueError(
            f"{checkpoint.path}, fine-tuned with --task {checkpoint.task}, has {len(heads) or 'no'} heads "
            f"{sorted(heads)}: export a checkpoint that has one"
        )
    return Head(architecture, chosen[0])


def model_config(checkpoint: Checkpoint, head: Head | None, tensors: dict) -> dict:
    """Returns the content of config.json, for tensors under their names in transformers."""
    dictionary, task = checkpoint.dictionary, checkpoint.cfg.task
    samples = getattr(TASK_REGISTRY[checkpoint.task], "samples", SAMPLES)
    config = {
        "architectures": [head.architecture if head else "ExLMForMaskedLM"],
        "auto_map": AUTO_MAP,
        "model_type": "exlm",
        "dtype": "float32",
        **asdict(checkpoint.model.encoder.settings),
        "alignment": checkpoint.alignment,
        "repeat_times": checkpoint.copies,
        "tie_word_embeddings": TIED[0] not in tensors,
        "fairseq": {
            "arch": checkpoint.arch,
            "task": checkpoint.task,
            "criterion": checkpoint.criterion,
            "head": head and head.name,
            "symbols": Vocabulary.of(dictionary.symbols, checkpoint.path).identity,
            "smiles": smiles_form_of(checkpoint),
            "samples": {name: value for name in samples if (value := getattr(task, name, None))},
        },
    }
    if head is not None and head.of_sequences:
        config["fairseq"]["longest"] = longest = trained_length(checkpoint)
        positions = longest * config["repeat_times"] + states_of_ends(config)  # no weights depend on them
        config["max_position_embeddings"] = max(config["max_position_embeddings"], positions)
        outputs = outputs_of(checkpoint, head)
        config["problem_type"] = outputs.problem
        config["id2label"] = {str(i): name for i, name in enumerate(outputs.names)}
        config["label2id"] = {name: i for i, name in enumerate(outputs.names)}
    return config


def outputs_of(checkpoint: Checkpoint, head: Head) -> Outputs:
    """Returns what the outputs of a head for sequences are: properties of molecules, what the model's folder
    says, or the score or classes of GLUE. Classes are named by label/dict.txt in the folder of the
    fine-tuning's data, or LABEL_0, LABEL_1, ..."""
    count = checkpoint.model.classification_heads[head.name].out_proj.out_features
    outputs = checkpoint.properties.outputs if checkpoint.properties else checkpoint.outputs
    if outputs is not None:
        if len(outputs.names) != count:
            raise ValueError(f"{checkpoint.path} has {count} outputs, and the names {outputs.names!s:.200}")
        return outputs
    if getattr(checkpoint.cfg.criterion, "regression_target", False):
        return Outputs(REGRESSION, ("score",))
    stored = getattr(checkpoint.cfg.task, "data", None)
    for folder in stored_folders(checkpoint.path, stored):
        path = folder / "label" / "dict.txt"
        if path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines()
            names = [line.rsplit(" ", 1)[0] for line in lines if not line.startswith("madeupword")]
            if len(names) == count:
                return Outputs(CLASSES, tuple(names))
    logger.warning("no label/dict.txt of %d classes in %s: they are named LABEL_0, ...", count, stored)
    return Outputs(CLASSES, tuple(f"LABEL_{i}" for i in range(count)))


def smiles_form_of(checkpoint: Checkpoint) -> str | None:
    """Returns how the molecules of the training were written, "canonical" or "as-given"; None if unknown."""
    if checkpoint.properties is not None:
        return "canonical" if checkpoint.properties.canonical else "as-given"
    folders = stored_folders(checkpoint.path, getattr(checkpoint.cfg.task, "data", None))
    folders += [checkpoint.data] if checkpoint.data else []
    return checkpoint.smiles or next(filter(None, map(smiles_form, folders)), None)


def trained_length(checkpoint: Checkpoint) -> int | None:
    """Returns the most tokens of a text, ``<s>`` and ``</s>`` counted, that a fine-tuning read; None for
    a pre-training."""
    if is_pretraining(checkpoint.task):
        return None
    flag = getattr(TASK_REGISTRY[checkpoint.task], "length", "max_positions")
    most, copies = checkpoint.model.max_positions(), checkpoint.copies
    limit = getattr(checkpoint.cfg.task, flag, None) or most
    # positions count the copies of a Repeated MLM, tokens of a molecule do not
    return min(most // copies, limit // copies if flag == "max_positions" else limit)


def longest_text(config: dict) -> int:
    """Returns the most tokens of a text or a pair without masks, ``<s>`` and ``</s>`` counted: as many as a
    fine-tuning read, or what leaves room for their states."""
    if longest := (config.get("fairseq") or {}).get("longest"):
        return longest
    return max(config["max_position_embeddings"] // config["repeat_times"] - states_of_ends(config), 2)


def states_of_ends(config: dict) -> int:
    """Returns how many positions the states of ``<s> A </s> </s> B </s>`` take besides one for each."""
    return 4 * ((config["num_states"] or 1) - 1)


def sentence_transformers_files(config: dict, pooling: str) -> dict[str, object]:
    """{name: content} of what SentenceTransformer reads.

    Args:
        pooling: "first", the row of ``<s>``, or "mean", over all tokens (``<s>`` and ``</s>`` are counted).
    """
    module = "sentence_transformers.models"
    return {
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": f"{module}.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{module}.Pooling"},
        ],
        "sentence_bert_config.json": {"max_seq_length": longest_text(config), "do_lower_case": False},
        str(Path("1_Pooling", "config.json")): {
            "word_embedding_dimension": config["hidden_size"],
            "pooling_mode_cls_token": IS_FIRST[pooling],
            "pooling_mode_mean_tokens": not IS_FIRST[pooling],
        },
    }
