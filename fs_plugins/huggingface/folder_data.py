"""The dictionary of an exported folder, as fairseq's ``dict.txt``, and how the folder reads text."""

import json
from pathlib import Path

from fairseq.data import Dictionary


def write_dictionary(folder: Path, data: Path) -> str:
    """Writes ``data/dict.txt``: symbols of the folder's tokenizer, with the ids that its model has.

    Args:
        folder: with config.json and tokenizer.json.
        data: a folder.

    Returns:
        ``bpe``, as of :func:`fs_plugins.data.text_codecs.make_codec`: "smiles", "none" or the tokenizer.json.

    Raises:
        FileNotFoundError: if the folder has neither file.
    """
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    for needed in (folder / "config.json", path):
        if not needed.is_file():
            raise FileNotFoundError(
                f"there is no {needed}: give a checkpoint, such as checkpoint_best.pt, or a folder that "
                "scripts/export_huggingface.py wrote"
            )
    settings = json.loads(path.read_text(encoding="utf-8"))
    size = json.loads((folder / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    tokenizer, dictionary = Tokenizer.from_file(str(path)), Dictionary()
    for i in range(dictionary.nspecial, size - 1):  # the last is <mask>
        dictionary.add_symbol(tokenizer.id_to_token(i))
    dictionary.save(str(data / "dict.txt"))
    splitter = (settings["pre_tokenizer"] or {}).get("type")
    if settings["model"]["type"] == "WordLevel" and splitter in ("Split", "WhitespaceSplit"):
        return {"Split": "smiles", "WhitespaceSplit": "none"}[splitter]
    return str(path)
