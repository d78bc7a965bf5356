"""The entropy of a checkpoint over a split, against a loop over fairseq's own task."""

import json
import math

import pytest
import torch

from fs_plugins.analysis import corpus_entropy, load_checkpoint
from fs_plugins.analysis.corpus_entropy import measure_entropy
from fs_plugins.analysis.entropy import exlm_entropy
from tests.analysis.conftest import SENTENCES

EXLM = {"criterion": "nat_dag_loss_mlm", "ext_state_num": 2, "spread": 2.0}
REPEATED = {"task": "repeated_masked_lm", "repeat_times": 2, "mask_prob": 0.8, "spread": 2.0}


@pytest.fixture
def batches(monkeypatch) -> list[dict]:
    """All batches that are measured from here on."""
    seen, add = [], corpus_entropy.EntropyMeter.add

    def record(self, batch):
        seen.append(batch)
        add(self, batch)

    monkeypatch.setattr(corpus_entropy.EntropyMeter, "add", record)
    return seen


def masks(batch, symbols) -> torch.Tensor:
    """[B, T] whether the token is masked and neither <s> nor </s>."""
    target = batch["target"]
    return target.ne(symbols.pad()) & target.ne(symbols.bos()) & target.ne(symbols.eos())


def bits(probs: torch.Tensor) -> torch.Tensor:
    return -(probs * probs.log2()).sum(-1)


def test_mlm(save_checkpoint, batches):
    loaded = load_checkpoint(save_checkpoint("p_roberta_base", spread=2.0), device="cpu")
    report = measure_entropy(loaded, batch_size=3)
    assert (report.kind, report.k, report.mask_prob) == ("mlm", 1, 0.3)
    assert (report.entropy_posterior, report.own_share, report.nonfinite) == (None, None, 0)
    assert report.uniform == pytest.approx(math.log2(21))
    expected, tokens, ends = 0.0, 0, 0
    for batch in batches:
        wanted = masks(batch, loaded.dictionary)
        with torch.no_grad():
            probs = loaded.model(batch["net_input"]["src_tokens"])[0].double().softmax(-1)
        expected += float(bits(probs)[wanted].sum())
        tokens += int(wanted.sum())
        ends += int((batch["target"].ne(1) & ~wanted).sum())
    assert sum(len(batch["target"]) for batch in batches) == 4 * len(SENTENCES)
    assert (report.entropy.tokens, ends > 0) == (tokens, True)
    assert report.entropy.mean == pytest.approx(expected / tokens, rel=1e-5)
    assert 0 < report.entropy.standard_error < report.entropy.mean < report.uniform


def test_repeated_mlm_counts_tokens_without_a_visible_copy(save_checkpoint, batches):
    loaded = load_checkpoint(save_checkpoint("p_roberta_base", **REPEATED), device="cpu")
    report = measure_entropy(loaded)
    assert (report.kind, report.k, report.mask_prob) == ("repeated_mlm", 2, 0.8)
    expected, tokens, partly = 0.0, 0, 0
    for batch in batches:
        wanted = masks(batch, loaded.dictionary)
        with torch.no_grad():
            probs = loaded.model(batch["net_input"]["src_tokens"])[0].double().softmax(-1)
        for row, masked in zip(bits(probs), wanted, strict=True):
            for t in range(0, len(masked), 2):
                partly += int(masked[t] != masked[t + 1])
                if masked[t] and masked[t + 1]:
                    expected += float(row[t] + row[t + 1]) / 2
                    tokens += 1
    assert partly > 0
    assert report.entropy.tokens == tokens
    assert report.entropy.mean == pytest.approx(expected / tokens, rel=1e-5)


def test_exlm(save_checkpoint, batches):
    loaded = load_checkpoint(save_checkpoint("exlm_base", **EXLM), device="cpu")
    report = measure_entropy(loaded, batch_size=7)
    assert (report.kind, report.k, report.nonfinite) == ("exlm", 2, 0)
    sums, tokens = torch.zeros(3, dtype=torch.float64), 0
    for batch in batches:
        states = exlm_entropy(loaded.model, batch["net_input"]["src_tokens"], batch["target"])
        wanted = (states.targets > 2) & (states.targets != 1)
        sums += torch.stack([x[wanted].sum() for x in (states.plain, states.posterior, states.own_share)])
        tokens += int(wanted.sum())
    found = report.entropy, report.entropy_posterior, report.own_share
    assert [mean.tokens for mean in found] == [tokens] * 3
    assert [mean.mean for mean in found] == pytest.approx((sums / tokens).tolist(), rel=1e-5)
    assert 0 < report.own_share.mean < 1


@pytest.mark.parametrize(
    ("arch", "flags"), [("p_roberta_base", {}), ("p_roberta_base", REPEATED), ("exlm_base", EXLM)]
)
def test_all_masked_tokens_are_hidden_and_the_batch_size_changes_nothing(
    save_checkpoint, batches, arch, flags
):
    """Also where the training left one masked token in ten visible, as fairseq does by default."""
    loaded = load_checkpoint(save_checkpoint(arch, **flags), device="cpu")
    reports = [measure_entropy(loaded, batch_size=n) for n in (1, 5, 64)]
    mask = loaded.dictionary.index("<mask>")
    for batch in batches:
        hidden = batch["net_input"]["src_tokens"] == mask
        assert torch.equal(hidden, batch["target"].ne(loaded.dictionary.pad()))
    for report in reports[1:]:
        assert report.entropy.tokens == reports[0].entropy.tokens
        assert report.entropy.mean == pytest.approx(reports[0].entropy.mean, rel=1e-5)
        assert report.entropy.standard_error == pytest.approx(reports[0].entropy.standard_error, rel=1e-3)


def test_mask_probability_seed_split_and_number_of_sentences(save_checkpoint, batches):
    loaded = load_checkpoint(save_checkpoint("p_roberta_base"), device="cpu")
    few = measure_entropy(loaded, mask_prob=0.1)
    many = measure_entropy(loaded, mask_prob=0.6)
    assert many.entropy.tokens > 3 * few.entropy.tokens
    assert (few.mask_prob, many.mask_prob) == (0.1, 0.6)
    assert measure_entropy(loaded) == measure_entropy(loaded) != measure_entropy(loaded, seed=2)
    batches.clear()
    measure_entropy(loaded, max_sentences=7, batch_size=3)
    assert [len(batch["target"]) for batch in batches] == [3, 3, 1]
    widths = [batch["target"].shape[1] for batch in batches]
    assert widths == sorted(widths, reverse=True)  # too little memory shows at once
    ids = torch.cat([batch["id"] for batch in batches]).tolist()
    batches.clear()
    measure_entropy(loaded, max_sentences=7, batch_size=3, seed=2)
    assert len(set(ids)) == 7 and set(ids) != set(torch.cat([batch["id"] for batch in batches]).tolist())
    batches.clear()
    measure_entropy(loaded, split="train", max_sentences=1000)
    assert sum(len(batch["target"]) for batch in batches) == 8 * len(SENTENCES)


def test_a_model_without_transitions_has_no_posterior(save_checkpoint):
    flags = {**EXLM, "criterion": "nat_ctc_loss_mlm"}
    report = measure_entropy(load_checkpoint(save_checkpoint("exlm_base", **flags), device="cpu"))
    assert report.entropy.tokens > 0
    assert (report.entropy_posterior, report.own_share) == (None, None)


def test_sentences_without_a_likelihood_are_counted(save_checkpoint):
    loaded = load_checkpoint(save_checkpoint("exlm_base", **EXLM), device="cpu")
    with torch.no_grad():
        loaded.model.encoder.lm_head.bias[
            loaded.dictionary.index("glad")
        ] = -math.inf  # in 12 of 20 sentences
    report = measure_entropy(loaded, mask_prob=0.5)
    assert 0 < report.nonfinite <= 12  # of 20 sentences, those with this word
    assert report.entropy_posterior.sentences == report.entropy.sentences - report.nonfinite
    assert math.isfinite(report.entropy.mean) and math.isfinite(report.entropy_posterior.mean)


def test_nothing_fully_masked(save_checkpoint):
    loaded = load_checkpoint(save_checkpoint("p_roberta_base", **REPEATED), device="cpu")
    assert measure_entropy(loaded, mask_prob=0.01, max_sentences=2).entropy is None


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"mask_prob": 0.0}, "between 0 and 1, both excluded, got 0.0"),
        ({"mask_prob": 1.0}, "got 1.0"),
        ({"batch_size": 0}, "batch size must be at least 1, got 0"),
        ({"max_sentences": -3}, "number of sentences must be at least 1, got -3"),
    ],
)
def test_settings_out_of_range(pretrained, bad, says):
    with pytest.raises(ValueError, match=says):
        measure_entropy(load_checkpoint(pretrained), **bad)


def test_more_states_than_positions(pretrained):
    loaded = load_checkpoint(pretrained)
    loaded.model.encoder.args.max_positions = 20
    with pytest.raises(ValueError, match="--max-positions 20.*lower mask probability"):
        measure_entropy(loaded, mask_prob=0.9)


def test_no_such_split(pretrained):
    with pytest.raises(FileNotFoundError, match="no split 'test'"):
        measure_entropy(load_checkpoint(pretrained), split="test")


def test_a_task_without_masks(save_checkpoint):
    with pytest.raises(ValueError, match="--task sentence_prediction, which masks nothing"):
        measure_entropy(load_checkpoint(save_checkpoint("exlm_base", task="sentence_prediction")))


def test_what_the_command_writes(pretrained, tmp_path):
    path = tmp_path / "new" / "entropy.json"
    flags = ["--mask-prob", "0.4", "--max-sentences", "9", "--seed", "3", "--output", str(path)]
    corpus_entropy.main([str(pretrained), *flags])
    figures = json.loads(path.read_text())
    report = measure_entropy(load_checkpoint(pretrained), mask_prob=0.4, max_sentences=9, seed=3)
    assert figures == json.loads(json.dumps(report.to_dict()))
    assert (figures["unit"], figures["kind"], figures["k"], figures["mask_prob"]) == ("bits", "exlm", 3, 0.4)
    assert figures["excluded"] == "<s>, </s>"


def test_what_the_command_refuses(pretrained, tmp_path):
    for words, message in (
        ([tmp_path / "nothing.pt"], "nothing.pt is not there"),
        ([pretrained, "--split", "test"], "no split 'test'"),
        ([pretrained, "--mask-prob", "1.5"], "got 1.5"),
        ([pretrained, "--output", tmp_path], "cannot write --output"),
    ):
        with pytest.raises(SystemExit, match=message):
            corpus_entropy.main([str(word) for word in words])
