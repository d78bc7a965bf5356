"""A model of a checkpoint or of a folder for transformers."""

import os
import tempfile
from pathlib import Path

from fs_plugins.huggingface import restore
from fs_plugins.inference.explorer import Explorer, load


def load_explorer(model: str | os.PathLike, *, data=None, bpe=None, device: str | None = None) -> Explorer:
    """An :class:`Explorer` of a checkpoint or of an exported folder.

    >>> load_explorer("pretrained/exlm-molecules").fill("CC(=O)<mask>c1ccccc1").best.text

    Args:
        model: a file that fairseq-train saved, or a folder for transformers.
        data, bpe, device: as of :func:`fs_plugins.inference.explorer.load`.

    Raises:
        ValueError: if it has no graph of states; and whatever reading a checkpoint or folder raises.
    """
    if not Path(model).is_dir():
        return load(model, data=data, bpe=bpe, device=device)
    with tempfile.TemporaryDirectory() as temporary:
        codec = restore.write_dictionary(Path(model), Path(temporary))
        checkpoint = restore.restore(model, Path(temporary) / "checkpoint.pt", temporary)
        try:
            return load(checkpoint, data=temporary, bpe=bpe or codec, device=device)
        except ValueError as error:  # names the folder that was given
            raise ValueError(str(error).replace(str(checkpoint), str(model))) from error
