"""Exported models against fairseq's: features, marginals, losses and gradients."""

import pytest
import torch
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss

from fs_plugins.checkpoint import Checkpoint, load
from fs_plugins.checkpoint_folder import esm_names
from fs_plugins.criterions.nat_dag_loss_mlm import NatDagLossMLM
from fs_plugins.inference.masked_prediction import MaskedPredictor
from tests.support import builders

SYMBOLS = builders.dictionary(builders.WORDS)
SENTENCES = [  # the last but one without </s>, the last one without masks
    builders.sentence(SYMBOLS, 7, [2, 5]),
    builders.sentence(SYMBOLS, 4, [1, 2, 4], seed=1),
    builders.sentence(SYMBOLS, 6, [3, 6], seed=2, end=False),
    builders.sentence(SYMBOLS, 3, [], seed=3),
]
SENTENCES[0][0][5] = SENTENCES[0][1][5]  # kept
SENTENCES[1][0][4] = 9  # replaced
TOKENS = builders.sample(SYMBOLS, SENTENCES)["net_input"]["src_tokens"]
IS_TOKEN = TOKENS.ne(SYMBOLS.pad())
INPUTS = {"input_ids": TOKENS, "attention_mask": IS_TOKEN.long()}


@pytest.fixture(params=builders.EXPORTED)
def kind(request) -> str:
    return request.param


@pytest.fixture
def loaded(kind, checkpoints) -> Checkpoint:
    return load(checkpoints[kind], device="cpu")


@pytest.fixture
def open_export(load, kind, folders):
    """open_export(class, ...) -> the export of that kind; of an MLM without code of the folder."""
    return lambda name, **more: load(name, folders[kind], trust_remote_code="mlm" not in kind, **more)


@torch.no_grad()
def test_features(open_export, loaded):
    features = open_export("AutoModel").eval()(**INPUTS).last_hidden_state
    expected = loaded.model.features(TOKENS)
    torch.testing.assert_close(features[IS_TOKEN], expected[IS_TOKEN], rtol=0, atol=1e-5)


@torch.no_grad()
def test_logits_at_masks_are_the_predictions(open_export, loaded):
    """Without labels: the <mask>s alone are predicted, from the tokens as they are given."""
    masked = TOKENS.eq(SYMBOLS.index("<mask>"))
    model, info = open_export("AutoModelForMaskedLM", output_loading_info=True)
    assert not any(info.values())
    logits = model.eval()(**INPUTS).logits[masked]
    expected = MaskedPredictor(loaded.model).token_log_probs(TOKENS, masked)
    log_probs = logits.log_softmax(-1)
    torch.testing.assert_close(log_probs.exp(), expected.exp(), rtol=0, atol=1e-5)
    possible = expected > -20
    torch.testing.assert_close(log_probs[possible], expected[possible], rtol=1e-4, atol=1e-4)
    if loaded.k:  # normalised as they are
        torch.testing.assert_close(logits, log_probs, rtol=0, atol=1e-4)


def test_loss_and_gradients_are_those_of_fairseq(kind, open_export, loaded):
    pairs = [builders.sentence(SYMBOLS, n, range(n % 3, n, 3), seed=n) for n in range(3, 15)]
    tokens, target = (torch.nn.utils.rnn.pad_sequence(rows, True, 1) for rows in zip(*pairs, strict=True))
    if loaded.k is None:
        target[:, 0] = 1  # ESM, as fairseq, reads any token there
    mask, labels = tokens.ne(1).long(), target.masked_fill(target == 1, -100)
    sample = {"net_input": {"src_tokens": tokens}, "target": target}
    sample |= {"nsentences": len(tokens), "ntokens": int(mask.sum())}
    task = builders.task(SYMBOLS)
    is_dag = builders.KINDS[kind][1] == builders.DAG
    criterion = NatDagLossMLM(task) if is_dag else MaskedLmLoss(MaskedLmConfig(tpu=False), task)
    loss, sample_size, _ = criterion(loaded.model, sample)
    (loss / sample_size).backward()
    exported = open_export("AutoModelForMaskedLM").train()
    for module in exported.modules():
        module.p = 0.0 if isinstance(module, torch.nn.Dropout) else getattr(module, "p", None)
    result = exported(tokens, attention_mask=mask, labels=labels).loss
    result.backward()
    torch.testing.assert_close(result, loss / sample_size, rtol=1e-5, atol=0)
    found = {name: p.grad for name, p in exported.named_parameters() if not name.startswith(("esm.cont",))}
    expected = {name: p.grad for name, p in loaded.model.named_parameters() if p.grad is not None}
    if loaded.k is None:
        names = esm_names(len(loaded.model.encoder.sentence_encoder.layers))
        assert {names[name] for name in expected} == found.keys()
        found = {name: found[names[name]] for name in expected}
    assert found.keys() == expected.keys()
    for name, grad in expected.items():  # rows of queries and keys stand in another order in ESM
        is_moved = "q_proj." in name or "k_proj." in name
        mine, grad = (t.norm(dim=-1).sort()[0] if is_moved else t for t in (found[name], grad))
        assert (mine - grad).norm() <= 1e-4 * grad.norm() + 1e-8, name


def test_a_pad_that_was_drawn_at_random_is_an_unknown_token(folders, load):
    """transformers' collator replaces a tenth of the chosen tokens by any token, ``<pad>`` included."""
    model, losses = load("AutoModelForMaskedLM", folders["exlm"]).eval(), []
    labels = torch.tensor([[-100, 7, 9, -100, -100, -100]])
    for drawn in (1, 3):
        tokens = torch.tensor([[0, drawn, 20, 6, 2, 1]])
        losses.append(model(tokens, attention_mask=torch.tensor([[1, 1, 1, 1, 1, 0]]), labels=labels).loss)
    assert losses[0] == losses[1]


def test_an_exlm_is_padded_on_the_right(folders, load):
    with pytest.raises(ValueError, match="padding_side"):
        load("AutoModelForMaskedLM", folders["exlm"])(torch.tensor([[1, 0, 5, 2]]))
