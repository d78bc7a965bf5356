"""The code of README and docs/huggingface.md, run as it stands."""

import re
from pathlib import Path

import pytest

from tests.support import builders

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "huggingface.md").read_text(encoding="utf-8")


def blocks(text: str, title: str) -> list[str]:
    """The Python code of the section of that title."""
    section = re.split(r"^#+ ", text, flags=re.MULTILINE)
    [found] = [part for part in section if part.startswith(title + "\n")]
    return re.findall(r"^```python\n(.*?)^```", found, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def place(folders, tmp_path_factory) -> Path:
    """A working directory with the folders that the documentation names."""
    place = tmp_path_factory.mktemp("place")
    (place / "exported").symlink_to(folders["exlm"].parent)
    (place / "pretrained").symlink_to(ROOT / "pretrained")
    return place


def test_the_readmes_first_lines_and_loading(place, run_outside):
    """All in one process, as one reads it; there, too, a model of each kind."""
    [first] = blocks((ROOT / "README.md").read_text(encoding="utf-8"), "Try a trained model")
    aspirin = 'fill("CC(=O)Oc1ccccc1C(=<mask>)O")[0]["sequence"] == "CC(=O)Oc1ccccc1C(=O)O"'
    loading = blocks(PAGE, "Loading")
    assert len(loading) == 3
    code = ["import outsider", first, f"assert vectors.shape == (1, 5, 192) and {aspirin}"]
    code += [*loading, "assert outputs.links.shape == (1, 9, 9)"]
    code += ["inputs = tokenizer(['I am <mask> .'], return_tensors='pt')"]
    for kind in builders.KINDS:
        code += [f"model = AutoModelForMaskedLM.from_pretrained('exported/{kind}', trust_remote_code=True)"]
        code += ["assert model(**inputs, labels=inputs['input_ids']).loss > 1"]
    run_outside(place, "-c", "\n".join(code))


@pytest.mark.slow
def test_pre_training_without_fairseq(place, run_outside):
    """A hundred updates by Trainer, on the compiled operator; the folder loads by its own code."""
    (place / "molecules.smi").write_text("CC(=O)Oc1ccccc1C(=O)O\nCCO\nc1ccccc1CN\n" * 2)
    [code] = blocks(PAGE, "Pre-training without fairseq")
    before = f"""
import sys
sys.modules |= dict.fromkeys(("fairseq", "torchaudio"))  # are not to be found
sys.path.insert(0, {str(ROOT)!r})
"""
    after = """
from transformers import AutoModelForMaskedLM
from fs_plugins.custom_ops import library
assert library.load.cache_info().hits > 50
batch = {name: values.to(model.device) for name, values in collator(rows).items()}
again = AutoModelForMaskedLM.from_pretrained("trained", trust_remote_code=True).to(model.device)
assert type(again) is not type(model)
models = ExLMForMaskedLM(config).to(model.device), model, again
first, last, same = (m.eval()(**batch).loss.item() for m in models)
assert last == same < first - 1
"""
    run_outside(place, "-c", before + code + after)
