"""The ablation without transitions against enumeration of CTC paths."""

import pytest

from fs_plugins.criterions.nat_ctc_loss_mlm import NatCtcLossMLM
from tests import oracles
from tests.criterions.batch import BATCH, SENTENCES, WORDS
from tests.support import builders

CRITERION = NatCtcLossMLM(builders.task(WORDS))


def test_loss_is_that_of_the_groups():
    model = builders.exlm(WORDS, ext_state_num=3).double()
    loss, sample_size, log = CRITERION(model, BATCH)
    expected = 0.0
    for tokens, targets in SENTENCES:
        graph, _ = model(tokens[None], target=targets[None])
        states = graph.logits()[0].log_softmax(-1).unflatten(0, (-1, 3)).transpose(1, 2).tolist()
        y = graph.layout.targets[0].tolist()
        groups = (oracles.ctc_log_prob(p[t], p[WORDS.unk()]) for p, t in zip(states, y, strict=True))
        expected -= sum(groups) / len(y)
    assert loss.item() == pytest.approx(expected, rel=1e-10)
    assert (sample_size, log["targets"], log["nodes"], log["nonfinite"]) == (3, 9, 27, 0)
    loss.backward()
    assert model.encoder.query_linear.weight.grad is None  # transitions are not computed
    assert model.encoder.lm_head.dense.weight.grad is not None
