"""scripts/pretrain_text.sh trains on prepared text, on one process or two; a finished run is not repeated."""

import random
import re
import sys

import prepare_text
import pytest
import torch
import train_bpe
from fairseq.data.indexed_dataset import MMapIndexedDataset
from tokenizers import Tokenizer

from fs_plugins.checkpoint import write_checkpoint
from fs_plugins.huggingface.export import export
from fs_plugins.inference import load
from tests.integration import commands
from tests.support import pages
from tests.support.builders import write_gpt2


def test_prepared_text_trains_in_every_sample_break_mode(tmp_path):
    """With paragraphs longer than a sample, which --max-tokens has cut to what one can hold with <s>."""
    rng = random.Random(7)
    bpe = write_gpt2(tmp_path / "bpe", [("t", "h"), ("i", "n")])
    text = (" ".join(rng.choices(["the", "inn", "thin"], k=rng.randint(2, 30))) for _ in range(60))
    (tmp_path / "text.txt").write_text("".join(f"{t}\n" + "\n" * (i % 3 == 0) for i, t in enumerate(text)))
    arguments = ["--train", tmp_path / "text.txt", "--bpe", bpe, "--valid-share", "0.2", "--workers", "1"]
    asked = (tmp_path / "data-bin", *arguments, "--max-tokens", 30)
    prepare_text.main([str(a) for a in asked])
    for mode in ("none", "complete", "complete_doc", "eos"):
        flags = ("--sample-break-mode", mode, "--max-update", 2, "--max-positions", 200)
        flags = commands.pretraining(tmp_path / "data-bin", tmp_path / mode, *flags)
        flags.remove("--disable-validation")
        run = commands.train(*flags)
        assert len(run.updates) == 2 and set(run.values("nonfinite")) == {0}, mode
        assert "will be skipped" not in run.text, mode
        assert max(run.values("wpb")) <= 8 * 32, mode


def test_a_finished_run_is_not_repeated_and_goes_on_to_more_updates(corpus, tmp_path):
    folder = tmp_path / "my model"
    last = folder / "checkpoint_last.pt"

    def pretrain(*flags) -> str:
        return pages.run("pretrain_text", "exlm", "smoke", corpus, folder, "--cpu", *flags)

    pretrain("--max-update", 1)
    written = last.read_bytes()
    pretrain("--max-update", 1)
    assert last.read_bytes() == written
    pretrain("--max-update", 2)
    log = (folder / "train.log").read_text()
    assert re.findall(r'"train_num_updates": "(\d+)"', log) == ["1", "2"]


@pytest.mark.slow
def test_two_processes_are_one_of_twice_the_accumulation(corpus, tmp_path):
    """In bash, as torchrun would start them; without dropout, whose random numbers are each process's own."""
    words = ["exlm", "smoke", str(corpus)]
    flags = ["--cpu", "--updates", "6", "--batch-size", "8", "--dropout", "0", "--attention-dropout", "0"]
    flags += ["--encoder-layers", "1", "--warmup-updates", "2", "--lr", "1e-2"]
    flags += ["--validate-interval-updates", "6", "--log-interval", "1"]
    command = ["bash", str(commands.ROOT / "scripts" / "pretrain_text.sh"), *words, str(tmp_path / "two")]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(commands.free_port())}
    shared |= {"GLOO_SOCKET_IFNAME": "lo", "EXLM_PYTHON": sys.executable}
    processes = [
        commands.start_process([*command, *flags, "--update-freq", "1"], RANK=rank, LOCAL_RANK=rank, **shared)
        for rank in ("0", "1")
    ]
    commands.finish(*processes)
    pages.run("pretrain_text", *words, tmp_path / "one", *flags, "--update-freq", 2)
    two, one = (commands.Run((tmp_path / name / "train.log").read_text()) for name in ("two", "one"))
    first, last = two.values("loss")[0], two.values("loss", "valid")[-1]
    assert last == pytest.approx(one.values("loss", "valid")[-1], abs=1e-3)  # the log's last digit
    assert last < first - 1


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["tokenizer.json", "gpt2"])
def test_a_tokenizer_from_text_to_fillings(layout, tmp_path):
    """What an export, the checkpoint and its import read is what was trained on."""
    rng = random.Random(5)
    words = ["The", "inn,", "it's", "naïve:", "1,234", "or", "3.5?", "", "(and)", "“on”."]
    lines = [" ".join(rng.choices(words, k=rng.randint(3, 20))) for _ in range(200)]
    (tmp_path / "text.txt").write_text("\n\n".join(lines))
    if layout == "gpt2":
        write_gpt2(tmp_path / "bpe", [("t", "h"), ("i", "n"), ("Ġ", "in"), ("Ġ", "s"), ("1", ",")])
    else:
        (tmp_path / "bpe").mkdir()
        train_bpe.train_tokenizer(lines, 300).save(str(tmp_path / "bpe" / "tokenizer.json"))
    data, save, folder = (tmp_path / name for name in ("data", "save", "exported"))
    asked = (data, "--train", tmp_path / "text.txt", "--bpe", tmp_path / "bpe", "--valid-share", 0.1)
    assert prepare_text.main([*map(str, asked), "--workers", "1"]) == 0
    pages.run("pretrain_text", "exlm", "smoke", data, save, "--cpu", "--updates", 2)
    trained, export_of = save / "checkpoint_last.pt", export(save / "checkpoint_last.pt", folder)
    write_checkpoint(export_of, imported := tmp_path / "imported.pt")
    read = Tokenizer.from_file(str(folder / "tokenizer.json"))
    models = [load(path, device="cpu") for path in (trained, folder, imported)]
    found = {split: MMapIndexedDataset(str(data / split)) for split in ("train", "valid")}
    sentences = {tuple(ids.tolist()) for split in found.values() for ids in split} - {(2,)}
    assert {tuple(read.encode(" ".join(line.split())).ids[1:]) for line in lines} == sentences
    for line in lines[:5]:
        line = " ".join(line.split())
        assert {tuple(model.encode(line)[0].tolist()) for model in models} == {(*read.encode(line).ids,)}
        first, *others = (model.log_probs(line.replace(line.split()[1], "<mask>", 1)) for model in models)
        for other in others:
            torch.testing.assert_close(other, first)
