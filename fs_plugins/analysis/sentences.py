"""Embeddings of sentences or other pieces of text, a stream of any length in bounded memory."""

import os
from collections.abc import Sequence

from fs_plugins.analysis.checkpoint import Checkpoint, load_checkpoint
from fs_plugins.analysis.stream import StreamModel
from fs_plugins.data.text_codecs import Codec, encode_text, make_codec


class TextModel(StreamModel):
    """A checkpoint that reads text.

    Args:
        checkpoint: pre-trained on text, or fine-tuned.
        codec: how its corpus was written.
        options: those of :class:`StreamModel`.
    """

    def __init__(self, checkpoint: Checkpoint, codec: Codec, **options):
        super().__init__(checkpoint, **options)
        self.codec = codec

    def symbols_of(self, text: str) -> Sequence[str]:
        symbols = encode_text(text.strip(), self.codec)
        if not symbols:
            raise ValueError("there is no text")
        return symbols


def load_text_model(
    checkpoint: str | os.PathLike,
    *,
    data: str | os.PathLike | None = None,
    bpe: str | Sequence[str] | None = None,
    device: str | None = None,
    **options,
) -> TextModel:
    """A :class:`TextModel` of a checkpoint.

    >>> model = load_text_model("checkpoints/exlm/checkpoint_best.pt")
    >>> [(vector, remark)] = model.embed(["This is good news."])  # [width] float32, and what there is to say

    Args:
        checkpoint: a file that fairseq-train saved.
        data, bpe, device: as of :func:`fs_plugins.analysis.load`; of a fine-tuned checkpoint, ``data`` is the
            folder that its pre-training had.
        options: those of :class:`StreamModel`.

    Raises:
        FileNotFoundError: if the checkpoint, the dictionary or a file of the BPE is not there.
        ValueError: for another kind of checkpoint, another dictionary, or a device that is not there.
    """
    loaded = load_checkpoint(checkpoint, data, device)
    if loaded.data is None:
        raise ValueError(f"{checkpoint} reads molecules: use fs_plugins.analysis.molecules.MoleculeModel")
    return TextModel(loaded, make_codec(bpe, loaded.data, loaded.dictionary), **options)
