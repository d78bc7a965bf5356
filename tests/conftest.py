import logging
import os
from pathlib import Path

import pytest
import torch

from tests.integration import commands
from tests.support import builders, prepared

ROOT = Path(__file__).resolve().parents[1]
# of the processes that tests start, as scripts/environment.sh sets it
os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT, ROOT / "scripts")))
torch.set_num_threads(1)  # the models are so small that threads only wait for each other


def pytest_collection_modifyitems(items):
    """Files with slow tests first, so that no worker begins one when the others have nothing left to do."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True)
def no_log_to_closed_files():
    """Removes the handlers by which commands log to the standard error of the test that called them, and the
    level at which they keep fairseq from logging."""
    root, fairseq = logging.getLogger(), logging.getLogger("fairseq")
    before, level = root.handlers[:], fairseq.level
    yield
    fairseq.setLevel(level)
    for handler in root.handlers[:]:
        if type(handler) is logging.StreamHandler and handler not in before:
            root.removeHandler(handler)


@pytest.fixture(params=["cpu", "cuda"])
def device(request) -> torch.device:
    """Each device that the op has a kernel for; skipped, with the reason, where it is not there."""
    from fs_plugins.custom_ops import library

    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device: torch.cuda.is_available() is False")
    if request.param == "cuda" and library.load("cuda") is None:
        pytest.skip("the CUDA op was not built: no libexlm_dag_cuda from these sources")
    return torch.device(request.param)


@pytest.fixture(scope="session")
def shared():
    """shared("data", "glue", ...) -> a file or folder of ../shared; skipped if it is not there."""

    def find(*names: str) -> Path:
        path = ROOT.parent.joinpath("shared", *names)
        if not path.exists():
            pytest.skip("needs real data, which are in no clone but in ../shared")
        return path

    return find


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """The folder of a binarised corpus of builders.TEXTS: ``train`` and ``valid``."""
    folder, symbols = tmp_path_factory.mktemp("corpus"), builders.dictionary(builders.WORDS)
    rows = [[*map(symbols.index, text.split()), symbols.eos()] for text in builders.TEXTS]
    builders.write_split(folder, "train", rows * 8, symbols)
    builders.write_split(folder, "valid", rows * 4, symbols)
    return folder


@pytest.fixture(scope="session")
def toy_inputs(tmp_path_factory) -> Path:
    """The folder that support/prepared.py fills."""
    folder = tmp_path_factory.mktemp("toys").resolve()
    prepared.make(folder)
    return folder


@pytest.fixture(scope="session")
def save_checkpoint(corpus, tmp_path_factory):
    """save_checkpoint(arch, ...) -> path of the checkpoint of a random model, in fairseq's format.

    ``task`` and ``criterion`` are names or flags; ``heads`` are those to register: (kind, name, outputs);
    ``spread`` tells how far the predictions are from uniform. Other flags are the model's.
    """

    def save(arch, criterion=None, task="masked_lm", *, symbols=None, data=corpus, heads=(), **flags):
        seed, spread = flags.pop("seed", 0), flags.pop("spread", 1.0)
        task_state = flags.pop("task_state", {})
        options = {"mask_prob": 0.3, "tokens_per_sample": 32, "sample_break_mode": "eos", "seed": 1}
        options |= {name: flags.pop(name) for name in ("mask_prob", "repeat_times") if name in flags}
        options |= {"_name": task} if isinstance(task, str) else task
        if options.get("repeat_times", 1) > 1:
            options["_name"] = "repeated_masked_lm"
        flags = {**builders.SMALL, **flags}
        model = builders.model(arch, symbols or builders.dictionary(builders.WORDS), seed=seed, **flags)
        criterion = criterion or (builders.DAG if hasattr(model.encoder, "k") else "masked_lm")
        for kind, name, outputs in heads:
            getattr(model, f"register_{kind}_head")(name, outputs)
        with torch.no_grad():  # as a trained model's, and no parameter as initialised
            generator = torch.Generator().manual_seed(seed)
            for name, parameter in model.named_parameters():
                noise = torch.randn(parameter.shape, generator=generator)
                parameter += (spread if name.endswith("lm_head.layer_norm.weight") else 0.1) * noise
        path = tmp_path_factory.mktemp("checkpoint") / "model.pt"
        criterion = {"_name": criterion} if isinstance(criterion, str) else criterion
        about = {"arch": arch, **flags}, {"data": str(data), **options}, criterion
        more = {"common": {"seed": 7}, "checkpoint": {"best_checkpoint_metric": "loss"}}
        return builders.save_checkpoint(path, model, *about, cfg=more, task_state=task_state)

    return save


@pytest.fixture(scope="session")
def pretrained(corpus, tmp_path_factory) -> Path:
    """The checkpoint of a few updates of ExLM, k = 3, on the corpus, by fairseq-train itself."""
    folder = tmp_path_factory.mktemp("pretrained")
    flags = ["--ext-state-num", 3, "--max-positions", 64, "--max-update", 12, "--sample-break-mode", "eos"]
    commands.train(*commands.pretraining(corpus, folder, *flags))
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def checkpoints(save_checkpoint) -> dict[str, Path]:
    """A pre-trained checkpoint of each of builders.KINDS."""
    kinds = builders.KINDS.items()
    return {name: save_checkpoint(arch, criterion, **flags) for name, (arch, criterion, flags) in kinds}


@pytest.fixture(scope="session")
def folders(checkpoints, tmp_path_factory) -> dict[str, Path]:
    """The export of each of these that is exported."""
    from fs_plugins.huggingface.export import export

    place = tmp_path_factory.mktemp("exports")
    return {name: export(checkpoints[name], place / name) for name in builders.EXPORTED}


@pytest.fixture
def refused(capsys):
    """refused(main, *arguments): the error of a script, which is one line or more and has status 2."""

    def call(main, *arguments) -> str:
        capsys.readouterr()
        try:
            status = main(list(map(str, arguments)))
        except SystemExit as stop:  # of argparse
            status = stop.code
        assert status == 2
        message = capsys.readouterr().err
        assert "error: " in message and "Traceback" not in message
        return message

    return call
