"""What a run costs, against the paper's hours."""

import numpy as np
import pytest
from lib.command_line import Flags
from lib.run.cost import CARDS, cost_of, lengths, of_model

from tests.support import builders, pages


@pytest.mark.parametrize(("tokens", "peak"), [(128, (0.24, 0.22)), (512, (1.03, 0.91))])
def test_hours_of_table_12_are_impossible_with_samples_of_512(tokens, peak):
    """The share of an A100's peak that 54.7 and 104.2 GPU hours are (docs/choices.md)."""
    for model, paper, share in zip(("mlm", "exlm"), (54.7, 104.2), peak, strict=True):
        given = ("pretrain_text", model, "paper", "d", "s", "--print", "--tokens-per-sample", tokens)
        run = pages.resolve(*given, "--gpus", 2, "--card", "A100")
        about, _, samples = cost_of("d", run.flags)
        flops = about.flops * samples * 50_000
        assert flops / (CARDS["A100"] * 1e12) / 3600 / paper == pytest.approx(share, abs=0.005)
        hours = paper * share / 0.16 / 2  # at an H100's share, on two
        said = float(run.note.split("about ")[1].split()[0])
        assert said == pytest.approx(hours, rel=0.03)


def test_samples_count_at_their_lengths(tmp_path):
    """Those of single molecules, too long ones left out; the cost is the mean over them."""
    symbols = builders.dictionary(20)
    for name, sizes in (("a", [3, 60]), ("b", [5, 9])):
        builders.write_split(tmp_path / name, "train", [[5] * (n - 1) + [2] for n in sizes], symbols)
    flags = Flags({"--tokens-per-sample": ("50",), "--sample-break-mode": ("eos",)})
    found = lengths(f"{tmp_path / 'a'}:{tmp_path / 'b'}", flags)
    assert sorted(found.tolist()) == [4, 6, 10]
    flags.set("--sample-break-mode", "none")
    assert lengths(str(tmp_path / "a"), flags).tolist() == [50]

    def flops(T):
        run = pages.resolve("pretrain_smiles", "exlm", "paper", "d", "s", "--print")
        return of_model(run.flags, 300, np.array(T)).flops

    assert flops(found) == pytest.approx(np.mean([flops([n]) for n in found])) != flops([found.mean()])
