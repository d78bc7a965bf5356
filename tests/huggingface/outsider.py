"""Loads exported folders as a user of transformers does who has neither fairseq nor this package.

    python outsider.py JOBS.json RESULTS.pt

Each job names a ``folder``, an ``auto`` class and a file of ``inputs``; its result are the ``outputs``, and
``faults``, what is not as it should be of the weights. ``partial``: the class does not take all of them;
``again``: it is saved and loaded again, too.
"""

import json
import sys
import tempfile

sys.modules |= dict.fromkeys(("fairseq", "fs_plugins", "torchaudio"))  # are not to be found

import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402


def faults_of(model, info: dict, folder: str) -> list[str]:
    """What is not as it should be of a model's weights, given what from_pretrained says of them."""
    faults = [f"{kind}: {names}" for kind, names in info.items() if names]
    state, saved = model.state_dict(), load_file(f"{folder}/model.safetensors")
    faults += [f"{name} is not in the model" for name in saved if name not in state]
    faults += [
        f"{name} differs"
        for name, value in saved.items()
        if name in state and not torch.equal(value, state[name].cpu())
    ]
    faults += [f"the buffer {name}" for name, _ in model.named_buffers()]
    return faults


@torch.no_grad()
def faults_of_copy(model, inputs: dict, outputs: dict) -> list[str]:
    """The same of the model once it was saved and loaded again, and which of its outputs differ."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        auto = getattr(transformers, model._auto_class)
        copy, info = auto.from_pretrained(folder, trust_remote_code=True, output_loading_info=True)
        faults = faults_of(copy, info, folder)
    values = copy.eval()(**inputs)
    faults += [
        f"{name} differs"
        for name, value in outputs.items()
        if isinstance(value, torch.Tensor) and not torch.allclose(value, values[name], atol=1e-6)
    ]
    return [f"saved and loaded again: {fault}" for fault in faults]


def run(job: dict) -> dict:
    auto = getattr(transformers, job["auto"])
    load = {"trust_remote_code": True, **job.get("options", {})}
    model, info = auto.from_pretrained(job["folder"], output_loading_info=True, **load)
    result = {"faults": [] if job.get("partial") else faults_of(model, info, job["folder"])}
    inputs = torch.load(job["inputs"], weights_only=True)
    with torch.no_grad():
        outputs = model.eval()(**inputs)
    if job.get("again"):
        result["faults"] += faults_of_copy(model, inputs, outputs)
    result["outputs"] = {name: value for name, value in outputs.items() if value is not None}
    result["class"] = type(model).__name__
    return result


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        jobs = json.load(file)
    torch.save([run(job) for job in jobs], sys.argv[2])
