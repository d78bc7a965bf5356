"""config.json, which says all that is known of an exported model, and the flags of a run that would train it;
and the files of sentence-transformers."""

from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.tasks import TASK_REGISTRY
from omegaconf import DictConfig

from fs_plugins.checkpoint import Checkpoint, Head
from fs_plugins.checkpoint_settings import read_settings
from fs_plugins.criterions import find_states_criterion
from fs_plugins.data.vocabulary import Vocabulary
from fs_plugins.finetuning.outputs import KINDS, Outputs, PropertyInfo
from fs_plugins.finetuning.scored import ScoredTask
from fs_plugins.huggingface.code_files import AUTO_MAP
from fs_plugins.huggingface.weights import SEQUENCES, SPANS
from fs_plugins.models.architectures import ARCHITECTURES, EXLM, MLM
from fs_plugins.models.flags import from_settings

PRETRAINED = ("ExLMForMaskedLM", "ExLMModel")
USUAL_NAMES = {SEQUENCES: "sentence_classification_head", SPANS: "span"}  # of heads, in fairseq and here
# flags by which a pre-training makes samples
SAMPLES = ("mask_prob", "tokens_per_sample", "sample_break_mode")
IS_FIRST = {"first": True, "mean": False}  # pooling -> whether it takes the first state


def model_config(checkpoint: Checkpoint) -> dict:
    """Returns the content of config.json."""
    head, task, info = checkpoint.head, checkpoint.cfg.task, checkpoint.properties
    samples = SAMPLES if checkpoint.fine_tuning is None else checkpoint.fine_tuning.samples
    recorded = {
        "arch": checkpoint.arch,
        "task": checkpoint.task,
        "criterion": checkpoint.criterion,
        "head": head and head.name,
        "symbols": Vocabulary.of(checkpoint.dictionary.symbols, checkpoint.path).identity,
        "smiles": checkpoint.smiles_form,
        "samples": {name: value for name in samples if (value := getattr(task, name, None))},
    }
    config = {
        "architectures": [head.architecture if head else PRETRAINED[0]],
        "auto_map": AUTO_MAP,
        "model_type": "exlm",
        "dtype": "float32",
        **asdict(checkpoint.model.encoder.settings),
        "alignment": checkpoint.alignment,
        "repeat_times": checkpoint.copies,
        "fairseq": recorded,
    }
    if head is not None and head.of_sequences:
        recorded["longest"] = longest = checkpoint.longest
        positions = longest * config["repeat_times"] + states_of_ends(config)  # no weights depend on them
        config["max_position_embeddings"] = max(config["max_position_embeddings"], positions)
        outputs = checkpoint.outputs_of(head)
        config["problem_type"] = outputs.problem
        config["id2label"] = {str(i): name for i, name in enumerate(outputs.names)}
        config["label2id"] = {name: i for i, name in enumerate(outputs.names)}
    if info is not None:
        recorded["properties"] = info.to_dict()
    return config


def head_of(config: dict) -> Head | None:
    """Returns the fine-tuned head of a folder, with the recorded name or the usual one."""
    name = (config.get("architectures") or PRETRAINED)[0]
    if name in PRETRAINED:
        return None
    return Head(name, config["fairseq"].get("head") or USUAL_NAMES[name])


def properties_of(config: dict, outputs: Outputs, smiles: bool) -> PropertyInfo | None:
    """Returns the properties of molecules that a head's outputs are; None if its texts are no SMILES.

    What they mean is said by the configuration, which a training in transformers changes. The export recorded
    what it knew besides: how SMILES are read (by the tokenizer, too) and, as long as the outputs are the same
    ones, the scale that they were trained in.

    Args:
        smiles: whether the tokenizer is one of SMILES.
    """
    known = config["fairseq"].get("properties")
    if not known and not smiles:
        return None
    known = known and PropertyInfo.from_dict(known)
    if known and (known.outputs.problem, known.outputs.names) == (outputs.problem, outputs.names):
        return known
    kinds = [kind for kind, problem in KINDS.items() if problem == outputs.problem]
    if not kinds:
        raise ValueError(f"a head of {outputs.problem} predicts no properties of molecules")
    return PropertyInfo(
        kinds[0],
        outputs.names,
        mean=(0.0,) * len(outputs.names),
        std=(1.0,) * len(outputs.names),
        canonical=config["fairseq"].get("smiles") == "canonical",
        allow_valence=known is not None and known.allow_valence,
    )


def run_flags(config: dict, head: Head | None, outputs: Outputs | None, smiles: bool) -> DictConfig:
    """Returns the flags of the run by group: those of the model, and of the task and the criterion that train
    what the folder has; ``smiles``: whether a head's texts are molecules."""
    recorded, copies = config["fairseq"], config["repeat_times"]
    task = recorded.get("samples", {}) | ({"repeat_times": copies} if copies > 1 else {})
    if head is None:
        task["_name"] = "repeated_masked_lm" if copies > 1 else "masked_lm"
        states = {name: find_states_criterion(name) for name in CRITERION_REGISTRY}
        same = [name for name, one in states.items() if one and one.alignment == config["alignment"]]
        same = same or [config["alignment"]]  # is refused as a criterion
        criterion = {"_name": _one_of(same, recorded, "criterion") if config["num_states"] else "masked_lm"}
    else:
        tasks = {name: task for name, task in TASK_REGISTRY.items() if issubclass(task, ScoredTask)}
        kind = (head.architecture, smiles)
        same = [name for name, one in tasks.items() if (one.architecture, one.reads_smiles) == kind]
        name = _one_of(same, recorded, "task")
        flags, criterion = tasks[name].settings_of(head.name, outputs, longest_text(config), copies)
        task |= {"_name": name, **flags}
        criterion["_name"] = tasks[name].criterion
    flags = from_settings({"tie_word_embeddings": True, **config})
    family = EXLM if config["num_states"] else MLM
    # A pre-norm architecture would overrule the flag; others set none that is given.
    pre_norms = {False, flags["encoder_normalize_before"]}
    same = [name for name, one in ARCHITECTURES.items() if one[0] == family and one[2] in pre_norms]
    arch = _one_of([f"{family}_base", *same], recorded, "arch")
    model = Namespace(arch=arch, _name=arch, **flags)
    return read_settings({"cfg": {"model": model, "task": task, "criterion": criterion}})


def _one_of(fitting: list[str], recorded: dict, what: str) -> str:
    """Returns the name that was recorded, if it is one of these; else the first."""
    return recorded[what] if recorded.get(what) in fitting else fitting[0]


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
