"""What a run costs, against built models and the paper's hours."""

from dataclasses import replace

import numpy as np
import pytest
from lib.cost import CARDS, Model, lengths, text_of
from lib.flags import Flags

from tests import builders

MLM = Model(12, 768, 3072, 12, 50265, 512, 1, 0.15, 512, "mlm")
EXLM = Model(12, 768, 3072, 12, 50265, 2048, 4, 0.15, 512, "exlm")


def test_parameters_of_the_paper():
    assert EXLM.parameters == 128_255_589
    assert Model(24, 1024, 4096, 16, 50265, 2048, 4, 0.15, 512, "exlm").parameters == 361_213_033
    assert Model(9, 768, 2048, 12, 369, 1026, 2, 0.15, 48, "mlm").parameters == 50_503_281


@pytest.mark.parametrize("arch", ["exlm_tiny", "mlm_tiny"])
def test_parameters_are_those_of_a_built_model(arch):
    model = builders.model(arch, builders.dictionary(20))
    positions = model.args.max_positions
    kind = arch.removesuffix("_tiny")
    asked = Model(2, 128, 512, 4, len(model.encoder.dictionary), positions, 4, 0.15, 32, kind)
    assert asked.parameters == sum(parameter.numel() for parameter in model.parameters())


def test_hours_of_table_12():
    """54.7 and 104.2 hours on two A100: half of the peak."""
    updates, batch = 50_000, 4096
    seconds = [model.flops * batch * updates / (2 * CARDS["A100"] * 1e12) for model in (MLM, EXLM)]
    assert seconds[0] / 3600 == pytest.approx(0.5 * 54.7, rel=0.05)
    assert seconds[1] / 3600 == pytest.approx(0.5 * 104.2, rel=0.10)
    assert seconds[1] / seconds[0] == pytest.approx(1.69, abs=0.01)
    assert "about 56.2 on 2 x A100 at 50%" in text_of(MLM, batch, 32, updates, 2, "A100", 0.5)


@pytest.mark.parametrize(("first", "times"), [(0, 1.69), (6, 1.45), (9, 1.33), (12, 1.20)])
def test_layers_before_the_expansion_cost_as_much_as_the_mlms(first, times):
    """With all 12, vocabulary and graph are what ExLM costs more."""
    assert replace(EXLM, expand_from_layer=first).flops / MLM.flops == pytest.approx(times, abs=0.01)


def test_expansion_changes_cost_only():
    late = replace(EXLM, expand_from_layer=6)
    assert (late.parameters, late.tokens) == (EXLM.parameters, EXLM.tokens)
    assert late.memory(1) < EXLM.memory(1)
    all_layers = replace(EXLM, expand_from_layer=12)
    saved = EXLM.memory(1) - all_layers.memory(1), EXLM.memory(1) - late.memory(1)
    assert saved[0] == pytest.approx(2 * saved[1])


def test_repeated_mlm_reads_every_copy():
    repeated = Model(12, 768, 3072, 12, 50265, 2048, 4, 0.15, 512, "repeated-mlm")
    assert repeated.tokens == 4 * 512
    assert repeated.targets == pytest.approx(0.15 * 4 * 512)
    assert repeated.flops > 4 * MLM.flops  # attention grows with the square


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
    each = [replace(EXLM, T=n).flops for n in found]
    assert (
        replace(EXLM, T=found).flops == pytest.approx(np.mean(each)) != replace(EXLM, T=np.mean(found)).flops
    )
