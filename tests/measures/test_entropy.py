"""Entropies by their definition, posteriors against enumeration; of a split against fairseq's own batches."""

import math

import pytest
import torch

from fs_plugins.checkpoint import load as load_checkpoint
from fs_plugins.measures.entropy import _masked_task, corpus_entropy, exlm_entropy
from tests import oracles
from tests.support import builders

EXLM = {"ext_state_num": 2, "spread": 2.0}
REPEATED = {"repeat_times": 2, "mask_prob": 0.8, "spread": 2.0}


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("graph", ["dag", "sparse"])
def test_exlm_over_nodes_and_by_posterior(k, graph):
    symbols = builders.dictionary(20)
    model = builders.trained(builders.exlm(symbols, ext_state_num=k, state_graph=graph)).double()
    with torch.no_grad():
        model.encoder.query_linear.weight.mul_(8.0)  # transitions far from uniform, too
    some = builders.sentence(symbols, 6, (2, 4)), builders.sentence(symbols, 4, (1,), seed=1, end=False)
    batch = builders.sample(symbols, some)
    tokens, target = batch["net_input"]["src_tokens"], batch["target"]
    found, targets, finite = exlm_entropy(model, tokens, target)
    with torch.no_grad():
        states, _ = model(tokens, target=target)
    probs, layout = states.logits().softmax(-1), states.layout
    match = probs.log().gather(2, layout.targets[:, None].expand(-1, probs.shape[1], -1)).transpose(1, 2)
    _, posterior, _ = oracles.dag_loss(match, states.links, layout.node_lengths, layout.target_lengths)
    assert finite.all() and torch.equal(targets, layout.targets)
    for b in range(2):
        bits = [oracles.entropy(p) for p in probs[b]]
        for i in range(int(layout.target_lengths[b])):
            own, weights = range(k * i, k * i + k), posterior[b, i].tolist()
            expected = {"entropy": sum(bits[u] for u in own) / k}
            expected["entropy_posterior"] = sum(w * h for w, h in zip(weights, bits, strict=True))
            values = {name: float(values[b, i]) for name, values in found.items()}
            assert values == pytest.approx(expected, abs=1e-8)
            if graph == "sparse" or k == 1:  # then a target has no node but its own
                assert sum(weights[u] for u in own) == pytest.approx(1)
            elif 0 < i < int(layout.target_lengths[b]) - 1:
                assert abs(expected["entropy_posterior"] - expected["entropy"]) > 1e-4


def batch_of(loaded) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """All of the split as one batch: tokens, targets, and which are masked and neither <s> nor </s>."""
    task = _masked_task(loaded, None, 1)
    task.load_dataset("valid")
    dataset = task.dataset("valid")
    batch = dataset.collater([dataset[i] for i in range(len(dataset))])
    tokens, target = batch["net_input"]["src_tokens"], batch["target"]
    assert len(target) == 4 * len(builders.TEXTS)
    assert torch.equal(tokens == loaded.dictionary.index("<mask>"), target != loaded.dictionary.pad())
    return tokens, target, target > loaded.dictionary.unk()


@pytest.mark.parametrize("k", [1, 2])
def test_a_split_by_mlm_and_repeated_mlm(save_checkpoint, monkeypatch, k):
    """Of Repeated MLM the tokens without a visible copy; also where the training left one masked token in ten
    visible, as fairseq does by default."""
    flags = REPEATED if k == 2 else {"spread": 2.0}
    loaded = load_checkpoint(save_checkpoint("p_roberta_base", **flags), device="cpu")
    tokens, _, masked = batch_of(loaded)
    with torch.no_grad():
        bits = torch.special.entr(loaded.model(tokens)[0].double().softmax(-1)).sum(-1) / math.log(2)
    wanted = masked.unflatten(1, (-1, k)).all(2)
    expected = bits.unflatten(1, (-1, k)).mean(2)[wanted]
    assert (k == 1) == (masked.sum() == len(expected) * k)
    found = [corpus_entropy(loaded)]
    monkeypatch.setattr("fs_plugins.measures.entropy.BATCH_TOKENS", 1)
    monkeypatch.setattr("fs_plugins.measures.entropy.NODES", 3)  # at a time
    found.append(corpus_entropy(loaded))
    for report in found:
        assert report["entropy"].tokens == len(expected)
        assert report["entropy"].mean == pytest.approx(float(expected.mean()), rel=1e-5)
        assert report["entropy_posterior"] is None
    assert found[0]["entropy"].standard_error == pytest.approx(found[1]["entropy"].standard_error, rel=1e-3)
    assert found[0]["uniform"] == pytest.approx(math.log2(21))


def test_a_split_by_exlm(save_checkpoint):
    loaded = load_checkpoint(save_checkpoint("exlm_base", **EXLM), device="cpu")
    report = corpus_entropy(loaded)
    tokens, target, _ = batch_of(loaded)
    found, targets, _ = exlm_entropy(loaded.model, tokens, target)
    wanted = targets > loaded.dictionary.unk()
    for name, values in found.items():
        assert report[name].tokens == int(wanted.sum())
        assert report[name].mean == pytest.approx(float(values[wanted].double().mean()), rel=1e-5)
    assert report["nonfinite"] == 0
    bias = loaded.model.encoder.lm_head.bias.data
    own = bias[loaded.dictionary.index("glad")].clone()
    bias[loaded.dictionary.index("glad")] = -math.inf  # of a word of 12 of the 20 sentences
    report = corpus_entropy(loaded, mask_prob=0.5)
    assert 0 < report["nonfinite"] <= 12
    assert report["entropy_posterior"].sentences == report["entropy"].sentences - report["nonfinite"]
    assert math.isfinite(report["entropy"].mean) and math.isfinite(report["entropy_posterior"].mean)
    bias[loaded.dictionary.index("glad")] = own
    loaded.cfg.criterion["_name"] = "nat_ctc_loss_mlm"
    report = corpus_entropy(loaded)
    assert report["entropy"].tokens > 0
    assert report["entropy_posterior"] is None


def test_mask_probability_seed_split_and_number_of_sentences(save_checkpoint):
    loaded = load_checkpoint(save_checkpoint("p_roberta_base"), device="cpu")
    few, many = (corpus_entropy(loaded, mask_prob=p) for p in (0.1, 0.6))
    assert many["entropy"].tokens > 3 * few["entropy"].tokens
    assert (few["mask_prob"], many["mask_prob"]) == (0.1, 0.6)
    assert corpus_entropy(loaded) == corpus_entropy(loaded) != corpus_entropy(loaded, seed=2)
    one, other = (corpus_entropy(loaded, 0.6, max_sentences=7, seed=seed)["entropy"] for seed in (1, 2))
    assert one.sentences == other.sentences == 7 and one != other
    everything = {"mask_prob": 1 - 1e-9, "max_sentences": 7}  # all words of other sentences, which seeds draw
    assert len({corpus_entropy(loaded, **everything, seed=s)["entropy"].tokens for s in range(1, 6)}) > 1
    assert corpus_entropy(loaded, split="train")["entropy"].sentences > 4 * len(builders.TEXTS)
