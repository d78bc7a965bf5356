"""What the criterion logs, and what is not finite; test_state_graphs.py enumerates its loss."""

import math

import pytest
import torch
from fairseq.logging import metrics
from fairseq.nan_detector import NanDetector

from fs_plugins.criterions.nat_dag_loss_mlm import NatDagLossMLM
from tests import oracles
from tests.criterions.batch import BATCH, SENTENCES, WORDS, logged
from tests.support import builders

CRITERION = builders.criterion(WORDS)


@pytest.mark.parametrize(("bias", "finite"), [(-math.inf, True), (math.nan, False)])
def test_only_a_sentence_without_a_path_leaves_the_gradient_finite(bias, finite, caplog):
    """Both are counted and told."""
    symbols = builders.dictionary(20)
    model = builders.exlm(symbols).train()
    sentences = [builders.sentence(symbols, n, [2], seed=n) for n in (4, 6)]
    targets = [int(target[2]) for _, target in sentences]
    assert targets[0] != targets[1]
    with torch.no_grad():
        model.encoder.lm_head.bias[targets[0]] = bias
    loss, _, log = builders.criterion(symbols)(model, builders.sample(symbols, sentences))
    loss.backward()
    values = logged(NatDagLossMLM, log)
    lost, of_the_rest = values["nonfinite"], loss.item() / math.log(2) if finite else math.inf
    assert lost == (1 if finite else 2) and torch.isfinite(loss) and f"{lost} sentences" in caplog.text
    assert values["loss"] == pytest.approx(of_the_rest, abs=1e-3)
    none = {**log, "loss": torch.tensor(0.0), "nonfinite": torch.tensor(2)}  # another batch
    with metrics.aggregate() as found:
        for batch in (log, none):
            NatDagLossMLM.reduce_metrics([batch])
    assert found.get_smoothed_values()["loss"] == values["loss"]
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(torch.isfinite(g).all() for g in gradients) == finite
    with NanDetector(model):  # fairseq's search for what is not finite
        builders.criterion(symbols)(model, builders.sample(symbols, sentences))[0].backward()


def test_metrics_are_those_of_all_workers_and_steps():
    model = builders.exlm(WORDS)
    logs = [CRITERION(model, builders.sample(WORDS, [s]))[2] for s in SENTENCES]
    _, sample_size, together = CRITERION(model, BATCH)
    assert sample_size == together["sample_size"] == together["nsentences"] == 3
    assert (together["targets"], together["nodes"], together["nonfinite"]) == (4 + 2 + 3, 4 * 9, 0)
    assert together["ntokens"] == BATCH["ntokens"]
    values = [logged(NatDagLossMLM, *outputs) for outputs in (logs, [together], [])]
    assert values[0] == pytest.approx(values[1], rel=1e-3) and values[2] == {}
    assert values[0]["loss"] == pytest.approx(together["loss"].item() / 3 / math.log(2), abs=1e-3)  # bits
    assert values[0]["nodes"] == pytest.approx(36 / 3, abs=0.05)


def test_use_of_states_is_logged_at_validation():
    """Of all workers' batches, each masked token counting alike."""
    model = builders.trained(builders.exlm(WORDS, ext_state_num=3)).eval()
    vectors = torch.randn(3, 1, 32, generator=torch.Generator().manual_seed(1))  # tell the states apart
    with torch.no_grad():
        model.encoder.lm_head.weight.mul_(20)
    norm = model.encoder.sentence_encoder.emb_layer_norm_after
    norm.register_forward_hook(lambda _, args, x: (x.unflatten(1, (-1, 3)) + vectors[:, 0]).flatten(1, 2))
    rows = []
    for tokens, targets in SENTENCES:
        with torch.no_grad():
            graph, _ = model(tokens[None], target=targets[None])
        words = graph.logits()[0].log_softmax(-1)
        rows += oracles.use_of_states(words, graph.links[0], graph.layout.targets[0], 3)
    assert len(rows) == 3
    entropy, divergence = (sum(row[name] for row in rows) / 3 for name in ("entropy", "divergence"))
    criterion = builders.criterion(WORDS)
    assert "entropy" not in criterion(model, BATCH)[2]  # not in training
    criterion.eval()
    assert "entropy" not in criterion(builders.exlm(WORDS, ext_state_num=1), BATCH)[2]  # one is no collapse
    logs = [criterion(model, builders.sample(WORDS, part))[2] for part in (SENTENCES[::2], SENTENCES[1:2])]
    with metrics.aggregate() as found:
        for log in logs:
            NatDagLossMLM.reduce_metrics([log])
    values = found.get_smoothed_values()
    assert 1.05 < values["states"] == pytest.approx(2**entropy, abs=0.006)
    assert 0.1 < values["divergence"] == pytest.approx(divergence, abs=6e-4)
