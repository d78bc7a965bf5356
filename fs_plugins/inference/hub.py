"""fairseq's hub interface of the models here: text in, features and words out, with nothing downloaded."""

import argparse
import math

import torch
from fairseq import utils
from fairseq.models.roberta.hub_interface import RobertaHubInterface
from omegaconf import open_dict
from torch import Tensor

from fs_plugins.checkpoint import Checkpoint
from fs_plugins.data.text_codecs import MASK, Codec, encode_text, encode_with_masks
from fs_plugins.modules.marginals import NEVER, ctc_word_log_probs, word_log_probs
from fs_plugins.modules.state_expansion import gather_tokens


class _Bpe:
    """A codec as fairseq has its BPEs: symbols are one string, with a blank between them."""

    def __init__(self, codec: Codec):
        self.codec = codec

    def encode(self, text: str) -> str:
        return " ".join(encode_text(text, self.codec))

    def decode(self, symbols: str) -> str:
        return self.codec.decode(symbols.split()).strip()


class HubInterface(RobertaHubInterface):
    """RoBERTa's interface with this package's codecs, one row for each token, and masks filled by the model's
    own distribution of the word: of ExLM, the exact marginal over its graph of states.

    ``encode``, ``decode``, ``register_classification_head`` and ``predict`` are fairseq's; ``<mask>`` in a
    text is the symbol, and SMILES, of a model of molecules, are taken as they are given.
    """

    def __init__(self, checkpoint: Checkpoint, codec: Codec):
        with open_dict(checkpoint.cfg):
            checkpoint.cfg.bpe = None  # fairseq would download GPT-2's
        task = argparse.Namespace(source_dictionary=checkpoint.dictionary)
        super().__init__(checkpoint.cfg, task, checkpoint.model)
        self.bpe, self.codec, self.repeat_times = _Bpe(codec), codec, checkpoint.copies
        self.dictionary, self.has_transitions = checkpoint.dictionary, checkpoint.has_transitions

    def extract_features(self, tokens: Tensor, return_all_hiddens: bool = False) -> Tensor | list[Tensor]:
        """[B, T, d]: a row for each of the tokens [B, T] (or [T]), that of its first state if it has states;
        with ``return_all_hiddens`` a list of such, of the embedding and of each layer.

        Raises:
            ValueError: for more tokens than the model has positions.
        """
        tokens = (tokens[None] if tokens.dim() == 1 else tokens).to(self.device)
        if tokens.shape[1] * self.repeat_times > self.model.max_positions():
            most = self.model.max_positions() // self.repeat_times
            raise ValueError(f"{tokens.shape[1]} tokens, the model reads up to {most}")
        tokens = tokens.repeat_interleave(self.repeat_times, dim=1)
        features, extra = self.model.token_features(tokens, return_all_hiddens=return_all_hiddens)
        features = features[:, :: self.repeat_times]
        if not return_all_hiddens:
            return features
        hiddens = [hidden.transpose(0, 1) for hidden in extra["inner_states"]]  # [B, N, d]
        if "layout" in extra:
            return [gather_tokens(hidden, extra["layout"].first_states) for hidden in hiddens]
        return [hidden[:, :: self.repeat_times] for hidden in hiddens]

    @torch.no_grad()
    def mask_log_probs(self, tokens: Tensor) -> Tensor:
        """Log-probabilities of the vocabulary for each ``<mask>`` of tokens [T]: [masks, V] in nats, float32.

        MLM: at the mask; Repeated MLM: the mean of its copies' probabilities; ExLM: the exact marginal over
        all paths with one word for each mask; without transitions, by CTC over the mask's states.
        """
        tokens = tokens[None].to(self.device)
        is_mask = tokens[0] == self.dictionary.index(MASK)
        with utils.model_eval(self.model):
            output, _ = self.model(tokens.repeat_interleave(self.repeat_times, dim=1))
        if isinstance(output, Tensor):
            copies = output[0].float().log_softmax(-1).unflatten(0, (-1, self.repeat_times))
            return copies[is_mask].logsumexp(1) - math.log(self.repeat_times)
        layout, words = output.layout, output.logits().float().log_softmax(-1)  # [1, L, V]
        if not self.has_transitions:
            by_target = words.unflatten(1, (layout.targets.shape[1], -1))
            marginals = ctc_word_log_probs(by_target, self.dictionary.unk())
        else:
            links = output.links.clamp(min=NEVER)
            marginals = word_log_probs(words, links, layout.node_lengths, layout.target_lengths)
        return marginals[0, layout.targets[0] == self.dictionary.index(MASK)]

    def fill_mask(self, masked_input: str, topk: int = 5) -> list[tuple[str, float, str]]:
        """The most probable words of the one ``<mask>``: (text, probability, word), best first.

        Raises:
            ValueError: if there is not one mask.
        """
        symbols = encode_with_masks(masked_input, self.codec)
        if symbols.count(MASK) != 1:
            raise ValueError(
                f"{symbols.count(MASK)} masks in {masked_input!r}: give one, or use mask_log_probs"
            )
        probabilities, words = self.mask_log_probs(self.encode(masked_input))[0].exp().topk(topk)
        filled = []
        for probability, word in zip(probabilities.tolist(), words.tolist(), strict=True):
            symbol = self.dictionary[word]
            text = self.codec.decode([symbol if s == MASK else s for s in symbols]).strip()
            filled.append((text, probability, self.codec.decode([symbol])))
        return filled
