"""The code of an ExLM, as it lies in a folder that transformers loads with neither fairseq nor this
package."""

import re
from pathlib import Path

from fs_plugins import exlm
from fs_plugins.files import write_text

HERE = Path(__file__).parent
CORE = tuple(path for path in sorted(Path(exlm.__file__).parent.glob("*.py")) if path.stem != "__init__")
CODE = (HERE / "configuration_exlm.py", HERE / "modeling_exlm.py", *CORE)
HEADS = ("MaskedLM", "SequenceClassification")
AUTO_MAP = {
    "AutoConfig": "configuration_exlm.ExLMConfig",
    "AutoModel": "modeling_exlm.ExLMModel",
    **{f"AutoModelFor{head}": f"modeling_exlm.ExLMFor{head}" for head in HEADS},
}
_IMPORT = re.compile(rf"from fs_plugins(?:\.\w+)*\.({'|'.join(path.stem for path in CODE)}) import")


def write_code(folder: Path) -> None:
    """Puts the code beside the model in ``folder``."""
    for path in CODE:
        text = _IMPORT.sub(r"from .\1 import", path.read_text(encoding="utf-8"))
        write_text(folder / path.name, text)
