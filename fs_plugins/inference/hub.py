"""fairseq's hub interface of the models here: text in, features and words out, with nothing downloaded."""

import argparse
from pathlib import Path

from fairseq import utils
from fairseq.models.roberta.hub_interface import RobertaHubInterface
from omegaconf import open_dict
from torch import Tensor

from fs_plugins.data.text_codecs import MASK, encode_text, encode_with_masks
from fs_plugins.huggingface.restore import is_folder
from fs_plugins.inference.model import Model, load
from fs_plugins.modules.state_expansion import gather_tokens


def from_pretrained(folder: str, checkpoint_file: str, data: str, bpe=None) -> "HubInterface":
    """As :meth:`fs_plugins.models.mlm.RotaryRobertaModel.from_pretrained`."""
    place = Path(folder) / data if data.startswith(".") else Path(data)
    given = place.absolute() if data != "." or (place / "dict.txt").is_file() else None
    path = folder if is_folder(folder) else Path(folder) / checkpoint_file
    return HubInterface(load(path, data=given, bpe=bpe, device="cpu"))


class HubInterface(RobertaHubInterface):
    """RoBERTa's interface with this package's codecs, one row for each token, and masks filled by the model's
    own distribution of the word: of ExLM, the exact marginal over its graph of states.

    ``encode``, ``decode``, ``register_classification_head`` and ``predict`` are fairseq's; ``<mask>`` in a
    text is the symbol, and SMILES, of a model of molecules, are taken as they are given.
    """

    def __init__(self, model: Model):
        checkpoint, codec = model.checkpoint, model.codec
        with open_dict(checkpoint.cfg):
            checkpoint.cfg.bpe = None  # fairseq would download GPT-2's
        task = argparse.Namespace(source_dictionary=checkpoint.dictionary)
        super().__init__(checkpoint.cfg, task, checkpoint.model)
        self.bpe = argparse.Namespace(  # whose symbols are one string, with a blank between them
            encode=lambda text: " ".join(encode_text(text, codec)),
            decode=lambda symbols: codec.decode(symbols.split()).strip(),
        )
        self.loaded, self.codec, self.repeat_times = model, codec, checkpoint.copies

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

    def fill_mask(self, masked_input: str, topk: int = 5) -> list[tuple[str, float, str]]:
        """The most probable words of the one ``<mask>``: (text, probability, word), best first.

        Raises:
            ValueError: if there is not one mask.
        """
        symbols = encode_with_masks(masked_input, self.codec)
        if symbols.count(MASK) != 1:
            raise ValueError(
                f"{symbols.count(MASK)} masks in {masked_input!r}: give one, or use fs_plugins.inference.load"
            )
        with utils.model_eval(self.model):
            probabilities, words = self.loaded.log_probs(masked_input)[0].exp().topk(topk)
        filled = []
        for probability, word in zip(probabilities.tolist(), words.tolist(), strict=True):
            symbol = self.task.source_dictionary[word]
            text = self.codec.decode([symbol if s == MASK else s for s in symbols]).strip()
            filled.append((text, probability, self.codec.decode([symbol])))
        return filled
