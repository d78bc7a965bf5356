"""Loads exported folders as a user of transformers does who has neither fairseq nor this package.

    python outsider.py JOBS.json RESULTS.pt

Each job names a ``folder``, an ``auto`` class and a file of ``inputs``; its result are the ``outputs``, and
``faults``, what is not as it should be of the weights. ``partial``: the class does not take all of them.
"""

import json
import sys

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


def run(job: dict) -> dict:
    auto = getattr(transformers, job["auto"])
    load = {"trust_remote_code": True, **job.get("options", {})}
    model, info = auto.from_pretrained(job["folder"], output_loading_info=True, **load)
    result = {"faults": [] if job.get("partial") else faults_of(model, info, job["folder"])}
    inputs = torch.load(job["inputs"], weights_only=True)
    with torch.no_grad():
        outputs = model.eval()(**inputs)
    result["outputs"] = {name: value for name, value in outputs.items() if value is not None}
    result["class"] = type(model).__name__
    return result


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        jobs = json.load(file)
    torch.save([run(job) for job in jobs], sys.argv[2])
