"""scripts/pretrain_text.sh trains on prepared text, on one process or two."""

import random
import sys

import prepare_text
import pytest

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


@pytest.mark.slow
def test_two_processes_are_one_of_twice_the_accumulation(corpus, tmp_path):
    """In bash, as torchrun would start them; without dropout, whose random numbers are each process's own."""
    words = ["exlm", "smoke", str(corpus)]
    flags = ["--cpu", "--updates", "6", "--batch-size", "8", "--dropout", "0", "--attention-dropout", "0"]
    flags += ["--encoder-layers", "1", "--warmup-updates", "2", "--lr", "1e-2"]
    flags += ["--validate-interval-updates", "6", "--log-interval", "1"]
    command = ["bash", str(commands.ROOT / "scripts" / "pretrain_text.sh"), *words, str(tmp_path / "two")]
    command += [*flags, "--update-freq", "1"]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(commands.free_port())}
    shared |= {"GLOO_SOCKET_IFNAME": "lo", "EXLM_PYTHON": sys.executable}
    commands.finish(*(commands.start_process(command, RANK=r, LOCAL_RANK=r, **shared) for r in ("0", "1")))
    pages.run("pretrain_text", *words, tmp_path / "one", *flags, "--update-freq", 2)
    two, one = (commands.Run((tmp_path / name / "train.log").read_text()) for name in ("two", "one"))
    first, last = two.values("loss")[0], two.values("loss", "valid")[-1]
    assert last == pytest.approx(one.values("loss", "valid")[-1], abs=1e-3)  # the log's last digit
    assert last < first - 1
