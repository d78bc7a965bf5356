"""The code of README and docs/huggingface.md, run as it stands."""

import re
from pathlib import Path

import pytest

from tests.support import builders

ROOT = Path(__file__).resolve().parents[2]

WITHOUT_PACKAGES = """
import sys
sys.modules |= dict.fromkeys(("fairseq", "fs_plugins", "torchaudio"))  # are not to be found
"""
ASPIRIN = """
assert vectors.shape == (1, 5, 192)
assert fill("CC(=O)Oc1ccccc1C(=<mask>)O")[0]["sequence"] == "CC(=O)Oc1ccccc1C(=O)O"
"""
EACH_KIND = f"""
assert outputs.links.shape == (1, 9, 9)
inputs = tokenizer(["I am <mask> ."], return_tensors="pt")
for kind in {[*builders.KINDS]}:
    model = AutoModelForMaskedLM.from_pretrained("exported/" + kind, trust_remote_code=True)
    assert model(**inputs, labels=inputs["input_ids"]).loss > 1
"""
WITH_THIS_PACKAGE = f"""
del sys.modules["fs_plugins"]
sys.path.insert(0, {str(ROOT)!r})
"""
TRAINED = """
batch = {name: values.to(model.device) for name, values in collator(rows).items()}
again = AutoModelForMaskedLM.from_pretrained("trained", trust_remote_code=True).to(model.device)
assert type(again) is not type(model)
models = ExLMForMaskedLM(config).to(model.device), model, again
first, last, same = (m.eval()(**batch).loss.item() for m in models)
assert last == same < first - 1
"""


def blocks(page: str, title: str) -> str:
    """The Python code of the section of that title."""
    section = re.split(r"^#+ ", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    [found] = [part for part in section if part.startswith(title + "\n")]
    return "\n".join(re.findall(r"^```python\n(.*?)^```", found, re.MULTILINE | re.DOTALL))


@pytest.mark.slow
def test_models_are_loaded_used_and_trained_without_fairseq(folders, tmp_path, run_outside):
    """In one process, as one reads it; up to the pre-training without this package, too, and with a model of
    each kind. The pre-training is on the compiled operator, and its folder loads by its own code."""
    (tmp_path / "exported").symlink_to(folders["exlm"].parent)
    (tmp_path / "pretrained").symlink_to(ROOT / "pretrained")
    (tmp_path / "molecules.smi").write_text("CC(=O)Oc1ccccc1C(=O)O\nCCO\nc1ccccc1CN\n" * 2)
    code = WITHOUT_PACKAGES + blocks("README.md", "Try a trained model") + ASPIRIN
    code += blocks("docs/huggingface.md", "Loading") + EACH_KIND + WITH_THIS_PACKAGE
    code += blocks("docs/huggingface.md", "Pre-training without fairseq") + TRAINED
    run_outside(tmp_path, "-c", code)
