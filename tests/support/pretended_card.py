"""A GPU pretended on a CPU: ``pytest -p tests.support.pretended_card``, before anything imports torch.

Tensors on cuda:0 are PyTorch's own, with the host's memory (pretended_card.cpp). PyTorch thus refuses what it
refuses on a GPU (tensors on several devices, ``.numpy()``), and runs backward passes in the autograd thread
of the GPU. The DAG op's CUDA kernels are the emulated ones of tests/cuda_emulation. ``waits`` counts what
would wait for the GPU, by file and function.

It shows nothing of kernels, streams, memory or speed, and random numbers are the CPU's.
"""

import ctypes
import hashlib
import importlib.util
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve()
SOURCE, BUILD = HERE.with_suffix(".cpp"), HERE.parents[2] / "build"
TORCH = Path(importlib.util.find_spec("torch").origin).parent
assert "torch" not in sys.modules, "torch was imported before the card"

key = hashlib.sha256(SOURCE.read_bytes() + str(TORCH).encode()).hexdigest()[:16]
compiled = BUILD / f"pretended_card-{key}.so"
if not compiled.exists():
    BUILD.mkdir(exist_ok=True)
    command = f"g++ -std=c++20 -O1 -shared -fPIC {SOURCE} -I{TORCH}/include -L{TORCH}/lib -lc10 -ltorch_cpu"
    subprocess.run([*command.split(), "-o", part := compiled.with_suffix(".part")], check=True)
    part.replace(compiled)
for name in ("libc10.so", "libtorch_cpu.so"):  # for the card to find
    ctypes.CDLL(str(TORCH / "lib" / name), ctypes.RTLD_GLOBAL)
card = ctypes.CDLL(str(compiled))

import torch  # noqa: E402

ABOUT = {"name": "pretended", "major": 9, "minor": 0, "total_memory": 2**36, "multi_processor_count": 132}
VALUES = {
    **dict.fromkeys(["is_available", "is_initialized", "is_bf16_supported"], True),
    **dict.fromkeys(["current_device", "memory_allocated", "max_memory_allocated"], 0),
    **dict.fromkeys(["_exchange_device", "_maybe_exchange_device"], 0),
    **dict.fromkeys(["_lazy_init", "empty_cache", "reset_peak_memory_stats", "synchronize", "set_device"]),
    **dict.fromkeys(["manual_seed", "manual_seed_all", "set_rng_state"]),
    "device_count": 1,
    "get_device_name": "pretended",
    "get_device_capability": (9, 0),
    "get_device_properties": SimpleNamespace(**ABOUT),
    "current_stream": SimpleNamespace(cuda_stream=None),
    "get_rng_state": torch.zeros(1, dtype=torch.uint8),
}
for name, value in VALUES.items():
    setattr(torch.cuda, name, lambda *args, value=value, **kwargs: value)
torch.Tensor.pin_memory = lambda tensor, *args: tensor


def widened(original):
    """Half precision to float32 at once, which only the GPU's kernels can."""
    return lambda x, dim, dtype=None, **more: original(x if dtype is None else x.to(dtype), dim, **more)


for owner in (torch, torch.Tensor):
    for name in ("softmax", "log_softmax"):
        setattr(owner, name, widened(getattr(owner, name)))

from fs_plugins.custom_ops import library  # noqa: E402
from tests import cuda_emulation  # noqa: E402

kernels, load_cpu = cuda_emulation.build(BUILD / "emulated.so"), library.load
library.load = lambda device: kernels if device == "cuda" else load_cpu(device)

waits: Counter[str] = Counter()


@ctypes.CFUNCTYPE(None)
def on_wait() -> None:
    """Counts a wait of the innermost function that is not torch's."""
    frame = sys._getframe(1)
    while frame and (frame.f_code.co_filename == str(HERE) or str(TORCH) in frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        waits["a backward pass"] += 1
        return
    path = frame.f_code.co_filename
    root = next((root for root in ("fs_plugins", "fairseq", "fairseq_cli") if f"/{root}/" in path), None)
    path = path[path.rindex(f"/{root}/") + 1 :] if root else Path(path).name
    waits[f"{path} {frame.f_code.co_qualname.split('.<locals>')[0]}"] += 1


card.tell_waits(on_wait)
