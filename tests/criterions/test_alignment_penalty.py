"""The alignment penalty against enumeration, its schedule, and that it is for training only."""

import itertools
import math
import types

import pytest
import torch
from fairseq.logging import metrics

from fs_plugins.criterions.nat_dag_loss_mlm import NatDagLossMLM, others_nodes
from fs_plugins.custom_ops.dag_loss import dag_loss
from fs_plugins.custom_ops.match_scores import match_scores
from tests import builders, oracles
from tests.criterions.batch import BATCH, SENTENCES, WORDS


def criterion(*options) -> NatDagLossMLM:
    return NatDagLossMLM(builders.task(WORDS), *options)


def losses(model, *options):
    return criterion(*options)(model, BATCH, reduce=False)[0]


def graphs(model):
    """match [M, L], links [L, L] and the number of targets of each sentence, in float64 and by itself."""
    for tokens, targets in SENTENCES:
        graph, _ = model(tokens[None], target=targets[None])
        y = graph.layout.targets[0]
        yield graph.logits()[0].log_softmax(-1)[:, y].t().detach(), graph.links[0].detach(), len(y)


@pytest.mark.parametrize("options", [(), (0.0, 0), (7.0, 100)], ids=["default", "zero", "fallen to zero"])
def test_without_a_penalty_loss_and_gradient_are_the_papers_to_the_bit(options):
    model = builders.exlm(WORDS, ext_state_num=3).train()
    model.set_num_updates(100)
    loss, _, _ = criterion(*options)(model, BATCH)
    loss.backward()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]

    model.zero_grad(set_to_none=True)
    graph, _ = model(**BATCH["net_input"], target=BATCH["target"])
    layout = graph.layout
    match = match_scores(graph.node_states, graph.output_weight, graph.output_bias, layout.targets)
    log_probs = dag_loss(match, graph.links, layout.node_lengths, layout.target_lengths)
    expected = (-log_probs / layout.target_lengths).sum()
    expected.backward()
    assert torch.equal(loss, expected)
    others = [p.grad for p in model.parameters() if p.grad is not None]
    assert len(gradients) == len(others) > 20
    assert all(itertools.starmap(torch.equal, zip(gradients, others, strict=True)))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_with_ten_thousand_nats_each_target_is_said_by_one_of_its_own_states(k):
    model = builders.exlm(WORDS, ext_state_num=k).double().train()
    found = losses(model, 1e4)
    for loss, (match, links, M) in zip(found, graphs(model), strict=True):
        total = 0.0
        for inner in itertools.product(range(k), repeat=M - 2):
            path = [0, *(m * k + copy for m, copy in enumerate(inner, start=1)), M * k - 1]
            score = sum(float(match[m, u]) for m, u in enumerate(path))
            total += math.exp(score + sum(float(links[v, u]) for v, u in itertools.pairwise(path)))
        assert loss.item() == pytest.approx(-math.log(total) / M, rel=1e-12)


@pytest.mark.parametrize(
    ("updates", "done", "penalty"),
    [(0, 0, 2.0), (0, 10**6, 2.0), (200, 0, 2.0), (200, 50, 1.5), (200, 199, 0.01), (200, 300, 0.0)],
)
def test_the_penalty_falls_linearly_and_lowers_what_others_states_say(updates, done, penalty):
    model = builders.exlm(WORDS, ext_state_num=2).double().train()
    model.set_num_updates(done)
    found = losses(model, 2.0, updates)
    for loss, (match, links, M) in zip(found, graphs(model), strict=True):
        for m, u in itertools.product(range(M), range(2 * M)):
            match[m, u] -= penalty if u // 2 != m else 0.0
        lengths = torch.tensor([2 * M]), torch.tensor([M])
        log_prob = oracles.dag_log_prob(match[None], links[None], *lengths)
        assert loss.item() == pytest.approx(-log_prob.item() / M, rel=1e-9)


def test_a_sentences_penalised_loss_does_not_depend_on_its_batch():
    model = builders.exlm(WORDS, ext_state_num=3).double().train()
    together = losses(model, 5.0)
    alone = [criterion(5.0)(model, builders.sample(WORDS, [one]))[0] for one in SENTENCES]
    torch.testing.assert_close(together, torch.stack(alone))


def test_evaluation_is_never_penalised():
    model = builders.exlm(WORDS, ext_state_num=3)
    loss, _, log = criterion(1e4, 10)(model, BATCH)
    expected, _, _ = criterion()(model, BATCH)
    assert torch.equal(loss, expected) and "alignment_penalty" not in log
    assert criterion(1e4)(model.train(), BATCH)[0] > expected + 0.1


def test_the_penalty_is_logged_where_there_is_one():
    model = builders.exlm(WORDS, ext_state_num=2).train()
    model.set_num_updates(25)
    logs = [
        criterion(8.0, 100)(model, builders.sample(WORDS, part))[2] for part in (SENTENCES, SENTENCES[:1])
    ]
    with metrics.aggregate() as logged:
        NatDagLossMLM.reduce_metrics(logs)
    assert logged.get_smoothed_values()["alignment_penalty"] == 6.0
    with metrics.aggregate() as logged:
        NatDagLossMLM.reduce_metrics([criterion()(model, BATCH)[2]])
    assert "alignment_penalty" not in logged.get_smoothed_values()


def test_others_nodes():
    assert others_nodes(2, 6).long().tolist() == [[0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0]]


@pytest.mark.parametrize("penalty", [-1.0, math.nan, math.inf])
def test_a_penalty_that_is_none_is_refused(penalty):
    with pytest.raises(ValueError, match=f"--alignment-penalty must be .* 0 or more, got {penalty}"):
        criterion(penalty)


def test_updates_without_a_penalty_are_refused():
    with pytest.raises(
        ValueError, match="--alignment-penalty-updates 100 lowers a penalty, but there is none"
    ):
        criterion(0.0, 100)


def test_a_negative_number_of_updates_is_refused():
    with pytest.raises(ValueError, match="--alignment-penalty-updates must be .* got -5"):
        criterion(1.0, -5)


def test_checkpoints_from_before_the_flags_have_no_penalty():
    built = NatDagLossMLM.build_criterion(types.SimpleNamespace(), builders.task(WORDS))
    assert (built.alignment_penalty, built.alignment_penalty_updates) == (0.0, 0)
    cfg = types.SimpleNamespace(alignment_penalty=2.0, alignment_penalty_updates=9)
    built = NatDagLossMLM.build_criterion(cfg, builders.task(WORDS))
    assert (built.alignment_penalty, built.alignment_penalty_updates) == (2.0, 9)
