"""Use of states against the enumeration of all paths, one sentence after the other."""

import itertools
import json
import math

import pytest
import torch

from fs_plugins.analysis import use_of_states
from fs_plugins.analysis.masked_prediction import MaskedPredictor
from fs_plugins.analysis.masked_samples import mask_words
from tests import builders, oracles

SYMBOLS = builders.dictionary(6)
SAMPLES = [builders.sentence(SYMBOLS, n, [], seed=n)[0] for n in (8, 12)]


def model(k: int):
    """A model whose states are used and say different words."""
    result = builders.exlm(SYMBOLS, ext_state_num=k, embedding_init_std=1.0, seed=3)
    for layer in result.encoder.sentence_encoder.layers:
        for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.out_proj):
            torch.nn.init.normal_(projection.weight)
    torch.nn.init.normal_(result.encoder.lm_head.dense.weight)
    return result


def bits(probs) -> float:
    return -sum(p * math.log2(p) for p in map(float, probs) if p > 0)


def by_enumeration(network, sample, mask, k) -> list[dict]:
    """The measures of each masked word of a sample."""
    visible = sample.masked_fill(mask, SYMBOLS.index("<mask>"))[None]
    with torch.no_grad():
        graph, _ = network(visible, target=torch.where(mask, sample, SYMBOLS.pad())[None])
    words, links = graph.logits()[0].log_softmax(-1), graph.links[0]
    y = graph.layout.targets[0]
    M = len(y)
    rows = []
    for known in (False, True):
        match = torch.zeros(M, M * k)
        if known:
            match[1:-1] = words[:, y].t()[1:-1]
        scores = oracles.path_scores(match, links, M * k, M)
        total = math.fsum(math.exp(score) for score, _ in scores)
        nodes = torch.zeros(M, M * k, dtype=torch.float64)
        for score, path in scores:
            nodes[range(M), list(path)] += math.exp(score) / total
        rows.append(nodes)
    result = []
    for i in range(1, M - 1):
        own, own_posterior = (nodes[i, i * k : i * k + k] for nodes in rows)
        q, probs = own / own.sum(), words[i * k : i * k + k].double().exp()
        result.append(
            {
                "entropy": bits(q),
                "posterior_entropy": bits(own_posterior / own_posterior.sum()),
                "divergence": bits(q @ probs) - sum(float(q[c]) * bits(probs[c]) for c in range(k)),
                "second_state": float(sorted(q.tolist())[-2] > 0.1) if k > 1 else 0.0,
                "own_share": float(own.sum()),
                "posterior_own_share": float(own_posterior.sum()),
            }
        )
    return result


@pytest.mark.parametrize("k", [1, 2, 3])
def test_measures_are_those_of_all_paths(k):
    network = model(k)
    found = use_of_states.use_of_states(MaskedPredictor(network), SAMPLES, 0.25)
    expected = []
    for i, sample in enumerate(SAMPLES):
        expected += by_enumeration(network, sample, mask_words(sample, 0.25, SYMBOLS, 1, i), k)
    assert len(expected) == 2 + 3
    for name in use_of_states.MEASURES:
        mean = sum(row[name] for row in expected) / 5
        assert found[name].mean == pytest.approx(mean, rel=1e-4, abs=1e-5), name
        assert (found[name].tokens, found[name].sentences) == (5, 2)
    if k == 1:
        assert found["entropy"].mean == found["second_state"].mean == 0
    else:
        assert found["entropy"].mean > 0.05 and found["divergence"].mean > 0.01
        assert found["divergence"].mean < found["entropy"].mean


def test_own_states():
    nodes = torch.arange(2 * 3 * 6).view(2, 3, 6)
    own = use_of_states.own_states(nodes, 2)
    for b, m, c in itertools.product(range(2), range(3), range(2)):
        assert own[b, m, c] == nodes[b, m, 2 * m + c]


@pytest.mark.parametrize(
    "predictor",
    [
        MaskedPredictor(builders.model("p_roberta_base", SYMBOLS, **builders.SMALL)),
        MaskedPredictor(builders.exlm(SYMBOLS), ctc=True),
    ],
)
def test_models_without_transitions_are_refused(predictor):
    with pytest.raises(ValueError, match="trained by --criterion nat_dag_loss_mlm"):
        use_of_states.use_of_states(predictor, SAMPLES, 0.3)


def test_the_command_takes_checkpoints_in_any_order(pretrained, save_checkpoint, tmp_path):
    other = save_checkpoint("exlm_tiny", criterion="nat_dag_loss_mlm", ext_state_num=2)  # of 5 updates
    output = tmp_path / "states.json"
    flags = ["--mask-prob", "0.2", "--max-sentences", "4", "--device", "cpu", "--output", str(output)]
    use_of_states.main([str(pretrained), str(other), *flags])
    rows = json.loads(output.read_text())["rows"]
    assert [(row["updates"], row["k"]) for row in rows] == [(5, 2), (12, 3)]
    assert all(0 <= row["results"][0]["entropy"]["mean"] <= math.log2(3) for row in rows)
