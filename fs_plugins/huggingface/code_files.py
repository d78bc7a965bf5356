"""The model's code, as it lies in a folder that transformers loads with neither fairseq nor this package."""

import json
import os
import re
from pathlib import Path

from fs_plugins import exlm
from fs_plugins.data import molecules
from fs_plugins.files import write_json, write_text

HERE = Path(__file__).parent
CORE = tuple(path for path in sorted(Path(exlm.__file__).parent.glob("*.py")) if path.stem != "__init__")
CODE = (HERE / "configuration_exlm.py", HERE / "modeling_exlm.py", HERE / "modeling_checks.py", *CORE)
# code of a tokenizer of canonical SMILES
SMILES_CODE = (HERE / "tokenization_exlm.py", Path(molecules.__file__))
HEADS = ("MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering")
AUTO_MAP = {
    "AutoConfig": "configuration_exlm.ExLMConfig",
    "AutoModel": "modeling_exlm.ExLMModel",
    **{f"AutoModelFor{head}": f"modeling_exlm.ExLMFor{head}" for head in HEADS},
}
SMILES_TOKENIZER = "tokenization_exlm.ExLMSmilesTokenizer"
_IMPORT = re.compile(
    rf"from fs_plugins(?:\.\w+)*\.({'|'.join(path.stem for path in (*CODE, *SMILES_CODE))}) import"
)


def write_code(folder: str | os.PathLike) -> None:
    """Puts the code beside the model in ``folder``, and names it in config.json, so that the folder can be
    loaded with ``trust_remote_code=True``, such as one that ``Trainer.save_model`` wrote."""
    folder = Path(folder)
    tokenizer = folder / "tokenizer_config.json"
    smiles = tokenizer.is_file() and SMILES_TOKENIZER in tokenizer.read_text(encoding="utf-8")
    for path in (*CODE, *(SMILES_CODE if smiles else ())):
        text = _IMPORT.sub(r"from .\1 import", path.read_text(encoding="utf-8"))
        write_text(folder / path.name, text)
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    if config.get("auto_map") != AUTO_MAP:
        write_json(path, {**config, "auto_map": AUTO_MAP}, indent=2)
