"""What a pre-training costs, from its flags alone: parameters, tokens, FLOPs."""

import argparse
from pathlib import Path

from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from lib.command_line import Flags, counted
from torch import nn
from torch._subclasses import FakeTensorMode

from fs_plugins.data.vocabulary import MASK, SPECIAL, Vocabulary, dictionary_file
from fs_plugins.models.flags import add_flags

ENTRIES = {"text": 50_265, "smiles": 369}  # of the paper's dictionaries, assumed before the data exist


def expanded(tokens: int, flags: Flags) -> int:
    """Returns the tokens that the encoder sees for so many of the data."""
    masked = round(flags.proportion("--mask-prob") * 10**6)
    copies, states = flags.whole("--repeat-times", 1), flags.whole("--ext-state-num", 1)
    return tokens * copies + tokens * masked * (states - 1) // 10**6


def cost_text(corpus: str, data: str, flags: Flags) -> str:
    """Returns the cost of a pre-training in words.

    FLOPs are 6 N D: N, the parameters of the encoder's layers; D, the tokens that these see. Of ExLM each
    masked token is k of D: with p = 15% and k = 4, D is 1.45 times the tokens of the data. Of Repeated MLM
    each token is. Scores of the vocabulary, at masked tokens or their states, and attention are left out.
    """
    path, V = dictionary_file(Path(data.split(":")[0])), ENTRIES[corpus]
    assumed = Vocabulary((*SPECIAL, *map(str, range(V - len(SPECIAL) - 1)), MASK), "")
    vocabulary = Vocabulary.read(path) if path.is_file() else assumed
    model = _built(flags, vocabulary)
    of_model, of_layers = (
        sum(parameter.numel() for parameter in part.parameters())
        for part in (model, model.encoder.sentence_encoder.layers)
    )
    tokens = flags.whole("--update-freq", 1) * flags.whole("--distributed-world-size", 1)
    if "--batch-size" in flags:
        tokens *= flags.whole("--batch-size") * flags.whole("--tokens-per-sample")
    else:  # which counts copies, and is an upper limit
        tokens = tokens * flags.whole("--max-tokens") // flags.whole("--repeat-times", 1)
    seen, updates = expanded(tokens, flags), flags.whole("--max-update")
    by = "" if path.is_file() else f", with a dictionary of {V:,} entries"
    return (
        f"parameters        {of_model:,}{by}\n"
        f"tokens an update  {tokens:,}; in the encoder {seen:,}\n"
        f"FLOPs             {6 * of_layers * seen * updates:.3g} (6 N D) in {counted(updates, 'update')}"
    )


def _built(flags: Flags, vocabulary: Vocabulary) -> nn.Module:
    """Returns the model of a call of fairseq-train, without memory for its weights."""
    arch, parser = flags.value("--arch"), argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    add_flags(parser, ARCH_MODEL_REGISTRY[arch].flags)
    args, _ = parser.parse_known_args(flags.words(), argparse.Namespace(arch=arch))
    ARCH_CONFIG_REGISTRY[arch](args)
    dictionary = vocabulary.dictionary()
    task = argparse.Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    with FakeTensorMode():  # fairseq's init_bert_params cannot copy tensors of torch.device("meta")
        return ARCH_MODEL_REGISTRY[arch].build_model(args, task)
